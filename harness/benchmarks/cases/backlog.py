"""Claims under tasks that wait for later: what a claim reads and how long it takes, with 10^4 to 10^7 of these.

The tasks that wait are spread over 1 and over 50 levels, and over 100 codes; 10^7 only when BENCH_LARGE is set, since
it takes long to make that number of tasks.
"""

import os

from harness.benchmarks.bench import Bench
from harness.benchmarks.figures import PRODUCT, Figure
from harness.benchmarks.goals import Goal

LEAST = 10_000
SIZES = (LEAST, 100_000, 1_000_000, *([10_000_000] if os.environ.get("BENCH_LARGE") else []))
QUICK_SIZES = SIZES[:2]
LEVELS = (1, 50)
ROUNDS = 100
SERVERS = ("mariadb", "postgres", "mysql")
ROWS, MILLISECONDS, STEPS = "rows per claimed row", "ms", "VM steps per claimed row"
READ, TOOK = "claim", "agenda and claim of 100"
COUNTED = {"claim rows": (READ, ROWS), "agenda rows": ("agenda", "rows"), "claim statements": (READ, "statements")}
TIMED = {"both ms": (TOOK, MILLISECONDS), "agenda ms": ("agenda", MILLISECONDS), "claim ms": (READ, MILLISECONDS)}


def measure(bench: Bench) -> None:
    """The tasks that wait become more and more; each size is measured before the next."""
    for database in bench.databases:
        for levels in bench.some(LEVELS):
            bench.run("stock", "empty", database=database)
            there = 0
            for size in SIZES[:1] if bench.smallest else QUICK_SIZES if bench.quick else SIZES:
                bench.run("stock", "waiting", there, size, levels, database=database)
                there = size
                for _ in bench.turns(f"{database}, {size:,} on {levels} levels"):
                    one(bench, database, levels, size)
        bench.run("stock", "empty", database=database)


def one(bench: Bench, database: str, levels: int, size: int) -> None:
    """Measure one series of claims."""
    answer = bench.run("claims", bench.size(ROUNDS), database=database)
    for key, (what, unit) in {**COUNTED, **TIMED}.items():
        bench.note(database, PRODUCT, variant_of(what, levels, size), unit_on(database, unit), answer[key])


def unit_on(database: str, unit: str) -> str:
    """SQLite counts no rows."""
    return STEPS if database == "sqlite" and unit == ROWS else unit


def variant_of(what: str, levels: int, size: int) -> str:
    return f"{what}, {size:,} on {levels} level" + ("s" if levels > 1 else "")


def figure(database: str, what: str, unit: str, levels: int, size: int) -> Figure:
    return Figure("backlog", database, PRODUCT, variant_of(what, levels, size), unit_on(database, unit))


def goals_of(levels: int, size: int) -> list[Goal]:
    """Rows are few, and neither they nor the time grow."""
    where = f"{size:,} for later on {levels} level" + ("s" if levels > 1 else "")
    goals = [
        Goal(f"rows per claimed row, {where}", figure(database, READ, ROWS, levels, size), 2.0, is_most=True)
        for database in SERVERS
    ]
    if size == LEAST:
        return goals
    grown = [
        ("sqlite", READ, ROWS),
        *((name, TOOK, MILLISECONDS) for name in ("sqlite", "mariadb", "postgres", "mysql")),
    ]
    return goals + [
        Goal(
            f"{what}: {'steps' if unit == ROWS else 'time'}, {where}, to {LEAST:,}",
            figure(database, what, unit, levels, size),
            1.3,
            (figure(database, what, unit, levels, LEAST),),
            is_most=True,
        )
        for database, what, unit in grown
    ]


GOALS = [goal for levels in LEVELS for size in SIZES for goal in goals_of(levels, size)]
