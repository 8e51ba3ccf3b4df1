"""The drain of due tasks by one executor with all that observes it, against one that nothing observes.

The tasks do nothing, or a tenth of a millisecond or a millisecond of work for a processor. Each part is measured by
itself as well. The time of the processor is noted, too: noise from other programs disturbs it less than it disturbs the
rate. Statistics are always on but in the variant "bare", which no project can have. The floor of a span for each run is
an empty span of OpenTelemetry's SDK.
"""

from typing import NamedTuple

from harness.benchmarks.bench import Bench
from harness.benchmarks.cases.drain import RATE, together
from harness.benchmarks.figures import PRODUCT, Figure
from harness.benchmarks.goals import Goal
from harness.benchmarks.programs.together import seconds_of

TASKS = {"nothing": 40_000, "0.1 ms": 20_000, "1 ms": 4_000}
"""The number of tasks by code."""
SDK = "OpenTelemetry's SDK"
COST = "µs of CPU/task"
EMPTY_SPAN = "an empty span"
SHARE = 0.9
"""Of the rate that is kept with what observes."""
SAME = 1.05
"""Times as much of a processor, at most, which is how far two measurements of one thing differ."""


class Variant(NamedTuple):
    """The parts that observe, and the code of the tasks."""

    parts: tuple[str, ...] = ()
    code: str = "nothing"


OPERATED = ("metrics", "spans", "sentry")
EVERYTHING = (*OPERATED, "signals")
EVERY_SPAN = ("metrics", "every_span", "sentry", "signals")
WAYS = {
    "off": (),
    "metrics, spans and Sentry": OPERATED,
    "metrics, spans, Sentry and signals": EVERYTHING,
    "all, and a span for each run": EVERY_SPAN,
}
LENGTHS = ("0.1 ms", "1 ms")
BARE = {"bare": ("bare",)}
"""Measured first: what is measured first in a turn is the slowest."""
PARTS = {
    "without the packages": ("absent",),
    "metrics": ("metrics",),
    "spans": ("spans",),
    "a span for each run": ("every_span",),
    "a span for each run, a tenth sampled": ("sampled_spans",),
    "Sentry": ("sentry",),
    "signals": ("signals",),
}
VARIANTS = {
    **{way: Variant(parts) for way, parts in (BARE | WAYS | PARTS).items()},
    **{f"{way}, {length}": Variant(parts, length) for length in LENGTHS for way, parts in WAYS.items()},
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
    parts, code = VARIANTS[variant]
    tasks = bench.size(TASKS[code])
    bench.run("fill", tasks, code, database=database)
    answers = together(bench, database, [("observed", *parts)])
    if (done := sum(answer["result"] for answer in answers)) != tasks:
        raise RuntimeError(f"{tasks} tasks were due, {done} settled")
    bench.note(database, PRODUCT, variant, RATE, tasks / seconds_of(answers))
    bench.note(database, PRODUCT, variant, COST, 1e6 * answers[0]["cpu"] / tasks)


def rate_of(database: str, variant: str, unit: str = RATE) -> Figure:
    return Figure("observed", database, PRODUCT, variant, unit)


def goal(database: str, way: str, length: str = "") -> Goal:
    """The share to keep of the rate that the same tasks have with everything off."""
    of, off = (f"{variant}, {length}" if length else variant for variant in (way, "off"))
    return Goal(f"observed: {of}", rate_of(database, of), SHARE, (rate_of(database, off),))


GOALS = [
    goal(database, way, length) for database in DATABASES for length in ("", *LENGTHS) for way in list(WAYS)[1:]
] + [
    Goal(
        "observed: off, CPU without the packages", rate_of(database, "off", COST), SAME,
        (rate_of(database, "without the packages", COST),), is_most=True,
    )
    for database in DATABASES
]  # fmt: skip
