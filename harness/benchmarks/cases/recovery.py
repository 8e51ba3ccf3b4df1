"""One of two executors is killed (SIGKILL) while they drain: seconds until the last of its tasks has ended elsewhere.

With default options: a lease of 10 s, of which at most the last heartbeat's 3 s are over when it is killed. Handlers
take 50 ms, so the survivor has run everything else before the lease ends.
"""

from harness.benchmarks.bench import Bench
from harness.benchmarks.figures import PRODUCT, Figure
from harness.benchmarks.goals import Goal

TASKS, KILLED_AFTER = 2_000, 2.5
WAYS = {"stays": "killed, stays away", "returns": "killed, started again under its name"}
MOST = 20.0
"""Seconds."""


def measure(bench: Bench) -> None:
    """Measure each way on each database, in turn."""
    for _ in bench.turns("all databases", repeats=1 if bench.quick else None):
        for database in bench.databases:
            for way, variant in bench.some([*WAYS.items()]):
                answer = bench.run(
                    "recovery", TASKS, KILLED_AFTER, way,
                    database=database, DJANGO_SETTINGS_MODULE="harness.benchmarks.programs.slow",
                )  # fmt: skip
                bench.note(database, PRODUCT, variant, "s", answer["seconds"])
                bench.note(database, PRODUCT, f"{variant}: claims it held", "tasks", answer["held"])


GOALS = [
    Goal("recovery", Figure("recovery", database, PRODUCT, WAYS["stays"], "s"), MOST, is_most=True)
    for database in ("sqlite", "mariadb", "postgres", "mysql")
]
