"""How long the admin's pages take with five million tasks and five million runs in the history.

Some of the tasks are overdue or have failed, and some of the runs ended within the last hour: on a bad day, the lists
of these are long as well.
"""

from harness.benchmarks.bench import Bench
from harness.benchmarks.figures import PRODUCT, Figure
from harness.benchmarks.goals import Goal
from harness.benchmarks.programs.pages import PAGES, PREVIEW
from harness.benchmarks.stock import PIECE

ROWS = 5_000_000
BAD = 20
"""One twentieth of ``ROWS`` is the number of overdue tasks, of failed tasks, and of the runs that were done, and that
failed, in the last ten minutes.
"""
LEVELS = 20
ROUNDS = 15
HOURS = 168
MILLISECONDS, SECONDS = "ms", "s"
MOST = 300
"""Milliseconds that a page may take."""
DATABASES = ("sqlite", "mariadb", "postgres", "mysql")
SETTINGS = "harness.benchmarks.pages_settings"


def measure(bench: Bench) -> None:
    """The rows are made once; each turn asks for each page several times."""
    rows = bench.size(ROWS) // PIECE * PIECE
    for database in bench.databases:
        bench.run("stock", "empty", database=database)
        fill(bench, database, rows, max(PIECE, rows // BAD // PIECE * PIECE))
        for _ in bench.turns(database):
            rounds, hours = (1, 2) if bench.smallest else (ROUNDS, HOURS)
            answer = bench.run("pages", rounds, hours, database=database, DJANGO_SETTINGS_MODULE=SETTINGS)
            for page, took in answer["pages"].items():
                bench.note(database, PRODUCT, page, MILLISECONDS, took)
            bench.note(database, PRODUCT, "survey of all tasks", SECONDS, answer["survey"])
        bench.run("stock", "empty", database=database)


def fill(bench: Bench, database: str, rows: int, bad: int) -> None:
    """Add the rows; ``bad`` is the number of overdue tasks, of failed tasks, and of each kind of recent runs."""
    for kind in ("waiting", "overdue", "failed"):
        bench.run("stock", kind, 0, rows if kind == "waiting" else bad, LEVELS, database=database)
    bench.run("stock", "runs", 0, rows, database=database)
    bench.run("stock", "recent_runs", rows, rows + bad, database=database)
    bench.run("stock", "recent_failures", rows + bad, rows + 2 * bad, database=database)


GOALS = [
    Goal(f"page: {page}", Figure("pages", database, PRODUCT, page, MILLISECONDS), MOST, is_most=True)
    for database in DATABASES
    for page in (*PAGES, PREVIEW)
]
