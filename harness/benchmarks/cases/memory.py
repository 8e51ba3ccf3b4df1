"""One executor with default options drains a million no-op tasks: its resident memory early, late, and at most.

Linux only: the sizes are read from /proc.
"""

from harness.benchmarks import series
from harness.benchmarks.bench import Bench
from harness.benchmarks.figures import PRODUCT, Figure
from harness.benchmarks.goals import Goal

TASKS = 1_000_000
DATABASES = ("mariadb", "postgres", "mysql")
EVERY = 0.5
"""Seconds between two samples."""
EARLY, LATE, GREATEST = "after a tenth of the tasks", "at the end", "greatest"
SIZE = "MB"


def measure(bench: Bench) -> None:
    """Once: to fill a table with a million rows takes longer than to drain it."""
    for database in bench.databases:
        if database in DATABASES:
            for _ in bench.turns(database, repeats=1):
                one(bench, database)


def one(bench: Bench, database: str) -> None:
    """The whole drain."""
    tasks = bench.size(TASKS)
    bench.run("fill", tasks, "nothing", database=database)
    answer = bench.run("memory", EVERY, database=database)
    samples = answer["samples"]
    if samples[-1][0] != tasks:
        raise RuntimeError(f"{tasks} tasks were due, {samples[-1][0]} settled")
    early = next(sample for sample in samples if sample[0] >= tasks / 10)
    bench.note(database, PRODUCT, EARLY, SIZE, early[1])
    bench.note(database, PRODUCT, LATE, SIZE, samples[-1][1])
    bench.note(database, PRODUCT, f"{LATE}, not of files", SIZE, samples[-1][2])
    bench.note(database, PRODUCT, GREATEST, SIZE, answer["greatest"])
    series.write(bench.case, database, EVERY, [sample[1] for sample in samples])


def size_of(database: str, variant: str) -> Figure:
    return Figure("memory", database, PRODUCT, variant, SIZE)


GOALS = [
    goal
    for database in DATABASES
    for goal in (
        Goal("memory, greatest", size_of(database, GREATEST), 80.0, is_most=True),
        Goal("memory, growth", size_of(database, LATE), 1.1, (size_of(database, EARLY),), is_most=True),
    )
]
