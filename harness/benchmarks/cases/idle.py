"""One executor with default options and nothing to do: statements per second, and the time of a core.

Statements are counted in the process, those that begin and end transactions included; where the server counts them
too (MariaDB, MySQL), its figure is shown as well: that of all its clients.
"""

from tqdm import tqdm

from harness.benchmarks.bench import Bench
from harness.benchmarks.figures import PRODUCT, Figure
from harness.benchmarks.goals import Goal

WARM_UP, SECONDS = 10.0, 20.0
WAITING = {"nothing waits": 0, "1,000 wait for later": 1_000}
LATER = 24 * 3600
STATEMENTS, CPU = "statements/s", "% of a core"
LISTED = 12


def measure(bench: Bench) -> None:
    """Once: a figure is already the mean of many seconds."""
    for database in bench.databases:
        for variant, waiting in bench.some([*WAITING.items()]):
            for _ in bench.turns(f"{database}, {variant}", repeats=1):
                one(bench, database, variant, waiting)


def one(bench: Bench, database: str, variant: str, waiting: int) -> None:
    """Measure an executor with ``waiting`` tasks that are not due."""
    bench.run("fill", waiting, "nothing", LATER, database=database)
    share = 0.05 if bench.smallest else 0.4 if bench.quick else 1.0
    answer = bench.run("idle", share * WARM_UP, share * SECONDS, database=database)
    bench.note(database, PRODUCT, variant, STATEMENTS, sum(answer["statements"].values()))
    if answer["by_server"] is not None:
        bench.note(database, PRODUCT, f"{variant}, by the server", STATEMENTS, answer["by_server"])
    bench.note(database, PRODUCT, variant, CPU, answer["percent_of_core"])
    for statement, rate in list(answer["statements"].items())[:LISTED]:
        tqdm.write(f"    {rate:6.2f}/s  {statement}")


GOALS = [
    Goal(f"idle, {variant}", Figure("idle", database, PRODUCT, variant, unit), bound, is_most=True)
    for database in ("sqlite", "mariadb", "postgres", "mysql")
    for variant in WAITING
    for unit, bound in ((STATEMENTS, 6.0), (CPU, 1.0))
]
