"""Claims over a million history rows, while an old snapshot keeps the database from clearing away what has finished."""

from harness.benchmarks.bench import Bench
from harness.benchmarks.figures import PRODUCT, Figure
from harness.benchmarks.goals import Goal

RUNS, PIECE = 1_000_000, 10_000
TASKS = 100_000
WORDS = {"free": "purge free", "pinned": "purge pinned"}
QUANTILES = ("claim p50", "claim p99", "agenda p50", "agenda p99")
MILLISECONDS = "ms"
DATABASES = ("sqlite", "mariadb", "postgres", "mysql")


def measure(bench: Bench) -> None:
    """The history is made once; each turn adds tasks, and drains them."""
    for database in bench.databases:
        bench.run("stock", "empty", database=database)
        bench.run("stock", "runs", 0, bench.size(RUNS) // PIECE * PIECE, database=database)
        for _ in bench.turns(database):
            for word, variant in WORDS.items():
                answer = bench.run("pinned", word, bench.size(TASKS), database=database)
                for quantile in QUANTILES:
                    bench.note(database, PRODUCT, f"{variant}, {quantile}", MILLISECONDS, answer[quantile])
        bench.run("stock", "empty", database=database)


def figure(database: str, word: str) -> Figure:
    return Figure("purge", database, PRODUCT, f"{WORDS[word]}, claim p99", MILLISECONDS)


GOALS = [
    Goal(
        "claim p99, purge pinned, to purge free",
        figure(database, "pinned"),
        2.0,
        (figure(database, "free"),),
        is_most=True,
    )
    for database in DATABASES
]
