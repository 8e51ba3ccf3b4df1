"""Adding tasks, one by one and in bulk, compared with raw INSERTs of the same rows by the same driver."""

from harness.benchmarks.bench import Bench
from harness.benchmarks.figures import PRODUCT, RAW, Figure
from harness.benchmarks.goals import Goal

TASKS = {"alone": 5_000, "together": 10_000, "bulk": 50_000}
NAMES = {
    "alone": "one by one, a commit each",
    "together": "one by one in one transaction",
    "bulk": "in bulk, 500 in a statement",
}
SUBJECTS = {"product": PRODUCT, "raw": RAW}
RATE = "tasks/s"
DATABASES = ("sqlite", "mariadb", "postgres", "mysql")


def measure(bench: Bench) -> None:
    """Measure each way in turn, both subjects one after the other."""
    for database in bench.databases:
        bench.run("stock", "empty", database=database)
        for _ in bench.turns(database):
            for way, usual in TASKS.items():
                tasks = bench.size(usual)
                for word, subject in SUBJECTS.items():
                    seconds = bench.run("add", word, way, tasks, database=database)
                    bench.note(database, subject, NAMES[way], RATE, tasks / seconds)


def goals_of(way: str, row: str, bound: float) -> list[Goal]:
    """Return the goals: the share of raw SQL's rate to reach on each database."""
    return [
        Goal(
            row,
            Figure("add", database, PRODUCT, NAMES[way], RATE),
            bound,
            (Figure("add", database, RAW, NAMES[way], RATE),),
        )
        for database in DATABASES
    ]


GOALS = [*goals_of("alone", "add_task, autocommit", 0.6), *goals_of("bulk", "add_tasks", 0.3)]
