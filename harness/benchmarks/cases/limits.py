"""One executor of 8 threads next to a backlog of a limited code: its rate, its statements, and how late others start.

"Allowed" is what 8 threads do with 5 ms of work, or what the rate says. The neighbors are tasks of an unlimited code
that become due meanwhile; their figure without a backlog is of the same run. The lean program has no neighbors.
"""

import math
import os

from harness.benchmarks.bench import Bench
from harness.benchmarks.figures import LEAN, PRODUCT, Figure
from harness.benchmarks.goals import Goal

WAITING = int(os.environ.get("BENCH_WAITING", 100_000))
"""Tasks; 1,000,000 show that nothing grows."""
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
            for variant in bench.some(tuple(WAYS)):
                product(bench, database, variant)
                if variant in LEAN_WAYS and database in WITH_LEAN:
                    lean(bench, database, variant)


def seconds_of(bench: Bench) -> float:
    """Return how long to measure each way."""
    return 1.0 if bench.smallest else SECONDS / 4 if bench.quick else SECONDS


def product(bench: Bench, database: str, variant: str) -> None:
    """Measure the product, with default options but for the threads."""
    seconds, neighbors = seconds_of(bench), NEIGHBORS // (10 if bench.smallest else 1)
    answer = bench.run("limits", WAYS[variant], bench.size(WAITING), seconds, neighbors, database=database)
    late = answer["late"]
    if len(late) != neighbors:
        raise RuntimeError(f"{neighbors} neighbors were added, {len(late)} started")
    for share, unit in ((0.5, P50), (0.99, P99)):
        bench.note(database, PRODUCT, variant, unit, 1000 * late[math.ceil(share * len(late)) - 1])
    if variant != NO_BACKLOG:
        note_runs(bench, database, PRODUCT, variant, answer)


def lean(bench: Bench, database: str, variant: str) -> None:
    """Measure the lean program."""
    answer = bench.run(
        "lean_limits", bench.size(WAITING), seconds_of(bench), THREADS, *LEAN_WAYS[variant], database=database
    )
    note_runs(bench, database, LEAN, variant, answer)


def note_runs(bench: Bench, database: str, subject: str, variant: str, answer: dict[str, float]) -> None:
    """Note the rate and the statements of an answer."""
    rate = answer["runs"] / answer["seconds"]
    bench.note(database, subject, variant, RUNS, rate)
    bench.note(database, subject, variant, STATEMENTS, answer["statements"] / max(1, answer["runs"]))
    if variant in ALLOWED:
        bench.note(database, subject, variant, SHARE, rate / ALLOWED[variant])


def figure(database: str, variant: str, unit: str, subject: str = PRODUCT) -> Figure:
    return Figure("limits", database, subject, variant, unit)


def goals_of(database: str) -> list[Goal]:
    """Return the goals on one database."""
    alone = figure(database, NO_BACKLOG, P99)
    goals = [
        Goal(f"neighbors of {variant}", figure(database, variant, P99), 2.0, (alone,), is_most=True)
        for variant in (SLOTS, KEYS, RATE)
    ]
    goals += [
        Goal(f"{variant}, of what is allowed", figure(database, variant, SHARE), 0.85) for variant in (SLOTS, KEYS)
    ]
    goals += [
        Goal("rate, exact", figure(database, RATE, SHARE), 0.99),
        Goal("rate, not above", figure(database, RATE, SHARE), 1.0, is_most=True),
        Goal(MANY, figure(database, MANY, RUNS), 0.5, (figure(database, UNLIMITED, RUNS),)),
    ]
    for variant in LEAN_WAYS if database in WITH_LEAN else ():
        for unit, bound, is_most in ((RUNS, 0.9, False), (STATEMENTS, 1.0, True)):
            floor = (figure(database, variant, unit, LEAN),)
            goals.append(Goal(f"{variant}: {unit}", figure(database, variant, unit), bound, floor, is_most))
    return goals


GOALS = [goal for database in ("sqlite", "mariadb", "postgres", "mysql") for goal in goals_of(database)]
