"""Functions of django.tasks through the backend: drained by two processes, enqueued one by one, waiting on the loop.

The other backends' rates are those of the peers case: ``make bench BENCH="drain functions peers"`` measures all.
"""

from harness.benchmarks.bench import Bench
from harness.benchmarks.cases import peers
from harness.benchmarks.cases.drain import RATE, rate_of, together, variant_of
from harness.benchmarks.figures import PRODUCT, Figure
from harness.benchmarks.goals import Goal
from harness.benchmarks.programs.together import seconds_of

DRAINED, ENQUEUED = 40_000, 5_000
WAITING = (10_000, 1_000)
"""How many functions wait a second each, all at the same time."""
LONGEST = {1_000: 5.0, 10_000: 30.0}
"""By their number: the seconds in which they are to have ended."""
SECONDS, SIZE = "s", "MB"
DATABASES = ("sqlite", "mariadb", "postgres", "mysql")
WITH_PEERS = ("mariadb", "postgres")


def measure(bench: Bench) -> None:
    """Measure each in turn."""
    for database in bench.databases:
        for _ in bench.turns(database):
            drained(bench, database)
            tasks = bench.size(ENQUEUED)
            seconds = bench.run("functions", "enqueue", tasks, database=database)
            bench.note(database, PRODUCT, peers.ENQUEUE, RATE, tasks / seconds)
            for number in bench.some(WAITING):
                waiting(bench, database, number)


def drained(bench: Bench, database: str) -> None:
    """Two executors with default options."""
    tasks = bench.size(DRAINED)
    bench.run("functions", "fill", "nothing", tasks, database=database)
    answers = together(bench, database, [("drain",)] * 2)
    if (done := sum(answer["result"] for answer in answers)) != tasks:
        raise RuntimeError(f"{tasks} functions were due, {done} settled")
    bench.note(database, PRODUCT, variant_of("no-op", 2), RATE, tasks / seconds_of(answers))


def waiting(bench: Bench, database: str, usual: int) -> None:
    """One executor with room for all of them on its event loop."""
    tasks = bench.size(usual) if bench.smallest else usual
    bench.run("functions", "fill", "wait_a_second", tasks, database=database)
    answer = bench.run("memory", 0.2, f"async_concurrency={tasks}", database=database)
    bench.note(database, PRODUCT, f"{usual:,} wait a second", SECONDS, answer["seconds"])
    bench.note(database, PRODUCT, f"{usual:,} wait a second, memory", SIZE, answer["greatest"])


def figure(database: str, variant: str, unit: str) -> Figure:
    return Figure("functions", database, PRODUCT, variant, unit)


def enqueue_of(database: str, subject: str) -> Figure:
    return Figure("peers", database, subject, peers.ENQUEUE, RATE)


def goals_of(database: str) -> list[Goal]:
    """Return the goals of one database."""
    rate = figure(database, variant_of("no-op", 2), RATE)
    goals = [Goal("functions, two processes", rate, 0.8, (rate_of(database, PRODUCT, "plain", 2),))]
    for number, most in LONGEST.items():
        variant = f"{number:,} wait a second"
        goals.append(Goal(f"async, {variant}", figure(database, variant, SECONDS), most, is_most=True))
    if database in WITH_PEERS:
        others = tuple(enqueue_of(database, peer.name) for peer in peers.DJANGO_PEERS)
        goals.append(Goal("functions, two processes", rate, 20, peers.figures(database, *peers.DJANGO_PEERS)))
        goals.append(Goal("functions, enqueue", figure(database, peers.ENQUEUE, RATE), 1, others))
    return goals


GOALS = [goal for database in DATABASES for goal in goals_of(database)]
