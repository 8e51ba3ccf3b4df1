"""Due tasks of an atomic handler that inserts one row: 16 threads in two processes; the same in raw SQL."""

from collections.abc import Sequence
from typing import Any

from harness.benchmarks.bench import Bench
from harness.benchmarks.cases.drain import together
from harness.benchmarks.figures import PRODUCT, RAW, Figure
from harness.benchmarks.goals import Goal
from harness.benchmarks.programs.together import seconds_of

TASKS = 10_000
PROCESSES, THREADS = 2, 8
VARIANT = f"one insert each, {PROCESSES} × {THREADS} threads"
RATE = "tasks/s"
DATABASES = ("mariadb", "postgres", "mysql")
COMMANDS: dict[str, Sequence[Sequence[Any]]] = {
    PRODUCT: [("drain", f"threads={THREADS}")] * PROCESSES,
    RAW: [("transactions", place, PROCESSES, THREADS) for place in range(PROCESSES)],
}


def measure(bench: Bench) -> None:
    """Measure both subjects in turn."""
    for database in bench.databases:
        if database not in DATABASES:
            continue
        for _ in bench.turns(database):
            for subject in COMMANDS:
                one(bench, database, subject)


def one(bench: Bench, database: str, subject: str) -> None:
    """Measure one subject, after filling the table again."""
    tasks = bench.size(TASKS)
    bench.run("fill", tasks, "insert", database=database)
    answers = together(bench, database, COMMANDS[subject])
    done = sum(answer["result"] for answer in answers)
    if done != tasks:
        raise RuntimeError(f"{tasks} tasks were due, {subject} did {done}")
    bench.note(database, subject, VARIANT, RATE, tasks / seconds_of(answers))


GOALS = [
    Goal(
        "atomic handlers, one insert each, 16 threads",
        Figure("atomic", database, PRODUCT, VARIANT, RATE),
        0.5,
        (Figure("atomic", database, RAW, VARIANT, RATE),),
    )
    for database in DATABASES
]
