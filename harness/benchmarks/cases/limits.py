"""One executor of 8 threads next to a backlog of a limited code: its rate, its statements, and how late others start.

"Allowed" is what 8 threads do with 5 ms of work, or what the rate says. The neighbors are tasks of an unlimited code
that become due meanwhile; their figure without a backlog is of the same run. The lean program has no neighbors. With
BENCH_LARGE, all ways with a backlog are measured with ten times as many tasks, too, which must change nothing.
"""

import math
import os

from harness.benchmarks.bench import Bench
from harness.benchmarks.figures import LEAN, PRODUCT, Figure
from harness.benchmarks.goals import Goal

WAITING = 100_000
SIZES = (WAITING, *([10 * WAITING] if os.environ.get("BENCH_LARGE") else []))
"""Tasks of a backlog."""
SECONDS, NEIGHBORS, THREADS, WORK = 20.0, 200, 8, 0.005
NO_BACKLOG, UNLIMITED, MANY = "no backlog", "unlimited, no work", "max_concurrent = 1000, no work"
SLOTS, KEYS, RATE = "max_concurrent = 10, 5 ms", "one slot for each of 1,000 keys, 5 ms", 'rate = "500/s", 5 ms'
WAYS = {NO_BACKLOG: "none", SLOTS: "slots", KEYS: "keys", RATE: "rate", MANY: "many slots", UNLIMITED: "unlimited"}
ALLOWED = {SLOTS: THREADS / WORK, KEYS: THREADS / WORK, RATE: 500.0}
LEAN_WAYS = {SLOTS: (10, 0, WORK), KEYS: (1, 1000, WORK), MANY: (1000, 0, 0.0)}
WITH_LEAN = ("mariadb", "mysql")
RUNS, SHARE, STATEMENTS, P50, P99 = "runs/s", "of what is allowed", "statements a run", "ms p50", "ms p99"


def measure(bench: Bench) -> None:
    """Measure each way in turn."""
    for database in bench.databases:
        for _ in bench.turns(database):
            for way in bench.some(tuple(WAYS)):
                for waiting in SIZES[:1] if way == NO_BACKLOG else SIZES:
                    product(bench, database, way, waiting)
                    if way in LEAN_WAYS and database in WITH_LEAN:
                        lean(bench, database, way, waiting)


def variant_of(way: str, waiting: int) -> str:
    """Return the variant as figures name it: with the size of the backlog if it is not the usual one."""
    return way if waiting == WAITING else f"{way}, {waiting:,} waiting"


def seconds_of(bench: Bench) -> float:
    """Return how long to measure each way."""
    return 1.0 if bench.smallest else SECONDS / 4 if bench.quick else SECONDS


def product(bench: Bench, database: str, way: str, waiting: int) -> None:
    """Measure the product, with default options but for the threads."""
    seconds, neighbors, variant = (
        seconds_of(bench),
        NEIGHBORS // (10 if bench.smallest else 1),
        variant_of(way, waiting),
    )
    answer = bench.run("limits", WAYS[way], bench.size(waiting), seconds, neighbors, database=database)
    late = answer["late"]
    if len(late) != neighbors:
        raise RuntimeError(f"{neighbors} neighbors were added, {len(late)} started")
    for share, unit in ((0.5, P50), (0.99, P99)):
        bench.note(database, PRODUCT, variant, unit, 1000 * late[math.ceil(share * len(late)) - 1])
    if way != NO_BACKLOG:
        note_runs(bench, database, PRODUCT, way, waiting, answer)


def lean(bench: Bench, database: str, way: str, waiting: int) -> None:
    """Measure the lean program."""
    answer = bench.run(
        "lean_limits", bench.size(waiting), seconds_of(bench), THREADS, *LEAN_WAYS[way], database=database
    )
    note_runs(bench, database, LEAN, way, waiting, answer)


def note_runs(bench: Bench, database: str, subject: str, way: str, waiting: int, answer: dict[str, float]) -> None:
    """Note the rate and the statements of an answer."""
    rate, variant = answer["runs"] / answer["seconds"], variant_of(way, waiting)
    bench.note(database, subject, variant, RUNS, rate)
    bench.note(database, subject, variant, STATEMENTS, answer["statements"] / max(1, answer["runs"]))
    if way in ALLOWED:
        bench.note(database, subject, variant, SHARE, rate / ALLOWED[way])


def figure(database: str, variant: str, unit: str, subject: str = PRODUCT) -> Figure:
    return Figure("limits", database, subject, variant, unit)


def goals_of(database: str, waiting: int) -> list[Goal]:
    """Return the goals on one database, with a backlog of ``waiting`` tasks."""
    slots, keys, rate, many, unlimited = (variant_of(way, waiting) for way in (SLOTS, KEYS, RATE, MANY, UNLIMITED))
    alone = figure(database, NO_BACKLOG, P99)
    goals = [
        Goal(f"neighbors of {variant}", figure(database, variant, P99), 2.0, (alone,), is_most=True)
        for variant in (slots, keys, rate)
    ]
    goals += [
        Goal(f"{variant}, of what is allowed", figure(database, variant, SHARE), 0.85) for variant in (slots, keys)
    ]
    goals += [
        Goal(f"{rate}, exact", figure(database, rate, SHARE), 0.99),
        Goal(f"{rate}, not above", figure(database, rate, SHARE), 1.0, is_most=True),
        Goal(many, figure(database, many, RUNS), 0.5, (figure(database, unlimited, RUNS),)),
    ]
    for variant in [variant_of(way, waiting) for way in LEAN_WAYS] if database in WITH_LEAN else ():
        for unit, bound, is_most in ((RUNS, 0.9, False), (STATEMENTS, 1.0, True)):
            floor = (figure(database, variant, unit, LEAN),)
            goals.append(Goal(f"{variant}: {unit}", figure(database, variant, unit), bound, floor, is_most))
    return goals


GOALS = [
    goal
    for database in ("sqlite", "mariadb", "postgres", "mysql")
    for waiting in (WAITING, 10 * WAITING)
    for goal in goals_of(database, waiting)
]
