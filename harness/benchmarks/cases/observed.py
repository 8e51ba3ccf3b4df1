"""The drain of due no-op tasks by one executor with all that observes it, against one that nothing observes.

Each part is measured by itself as well. The time of the processor is noted, too: noise from other programs disturbs it
less than it disturbs the rate. Statistics are always on but in the variant "bare", which no project can have. The floor
of a span for each run is an empty span of OpenTelemetry's SDK.
"""

from harness.benchmarks.bench import Bench
from harness.benchmarks.cases.drain import RATE, together
from harness.benchmarks.figures import PRODUCT, Figure
from harness.benchmarks.goals import Goal
from harness.benchmarks.programs.together import seconds_of

TASKS = 40_000
SDK = "OpenTelemetry's SDK"
COST = "µs of CPU/task"
OFF, OPERATED, EVERYTHING = "off", "metrics, spans and Sentry", "metrics, spans, Sentry and signals"
EMPTY_SPAN = "an empty span"
VARIANTS = {
    OFF: (),
    OPERATED: ("metrics", "spans", "sentry"),
    EVERYTHING: ("metrics", "spans", "sentry", "signals"),
    "metrics": ("metrics",),
    "spans": ("spans",),
    "a span for each run": ("every_span",),
    "Sentry": ("sentry",),
    "signals": ("signals",),
    "bare": ("bare",),
}
DATABASES = ("sqlite", "mariadb", "postgres", "mysql")


def measure(bench: Bench) -> None:
    """Measure all variants in turn."""
    for database in bench.databases:
        for _ in bench.turns(database):
            for variant in bench.some([*VARIANTS]):
                one(bench, database, variant)
            bench.note(database, SDK, EMPTY_SPAN, COST, bench.run("empty_span", database=database))


def one(bench: Bench, database: str, variant: str) -> None:
    """Measure one variant, after filling the table again."""
    tasks = bench.size(TASKS)
    bench.run("fill", tasks, "nothing", database=database)
    answers = together(bench, database, [("observed", *VARIANTS[variant])])
    if (done := sum(answer["result"] for answer in answers)) != tasks:
        raise RuntimeError(f"{tasks} tasks were due, {done} settled")
    bench.note(database, PRODUCT, variant, RATE, tasks / seconds_of(answers))
    bench.note(database, PRODUCT, variant, COST, 1e6 * answers[0]["cpu"] / tasks)


def rate_of(database: str, variant: str) -> Figure:
    return Figure("observed", database, PRODUCT, variant, RATE)


GOALS = [
    Goal(f"observed: {variant}", rate_of(database, variant), 0.9, (rate_of(database, OFF),))
    for database in DATABASES
    for variant in (OPERATED, EVERYTHING)
]
