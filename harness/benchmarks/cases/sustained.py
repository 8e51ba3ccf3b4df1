"""Ten minutes of mixed load: four processes add tasks at full speed, two executors with default options run them.

Tasks are added one by one, each in a transaction of its caller; a tenth of all calls cancel or reschedule. Lateness is
the start by the wall clock, less the task's ``when``, which is the moment of the call, so it includes the commit. Other
queues get the same load without the cancels, reschedules and rows of a caller, which not all of them can do.

BENCH_MINUTES is another length than ten minutes.
"""

import math
import os
from itertools import chain, zip_longest
from typing import Any

from harness.benchmarks import series
from harness.benchmarks.bench import Bench, answer_of, ending, say, wait_until_ready
from harness.benchmarks.figures import PRODUCT, Figure
from harness.benchmarks.goals import Goal
from harness.benchmarks.peers import catalogue
from harness.benchmarks.peers.catalogue import Peer
from harness.benchmarks.peers.stores import Stores
from harness.benchmarks.peers.sustained import Load, sustained

MINUTES, ADDERS, EXECUTORS = int(os.environ.get("BENCH_MINUTES", 10)), 4, 2
DATABASES = ("sqlite", "mariadb", "postgres", "mysql")
PEERS = (("postgres", catalogue.PGQUEUER), ("postgres", catalogue.DJ_QUEUE), ("mariadb", catalogue.DJ_QUEUE))
HUEY = ("redis", catalogue.HUEY_REDIS)
"""Measured with any database."""
LOST, FIRST, LAST = "tasks that did not start once", "first period", "last period"


def measure(bench: Bench) -> None:
    """Measure once: the ten minutes are the repetition."""
    for database in bench.databases:
        for _ in bench.turns(database, repeats=1):
            one(bench, database, *periods_of(bench))
    if not bench.smallest:
        with Stores() as stores:
            for database, peer in [*(pair for pair in PEERS if pair[0] in bench.databases), HUEY]:
                try:
                    peers(bench, stores, database, peer)
                except Exception as why:  # of a driver, a server or a program: the other peers are measured
                    bench.miss(database, peer.name, why)


def peers(bench: Bench, stores: Stores, database: str, peer: Peer) -> None:
    """Load a peer; note rates, and the latenesses of the first and the last period."""
    periods, every = periods_of(bench)
    sent, starts = sustained(stores, database, peer, Load(ADDERS, EXECUTORS, periods * every))
    late: list[list[int]] = [[] for _ in range(periods)]
    for moment, lateness in starts:
        late[min(periods - 1, int(moment / every))].append(round(lateness * 10_000))
    bench.note(database, peer.name, "calls", "calls/s", sent / (periods * every))
    bench.note(database, peer.name, "tasks", "tasks/s", len(starts) / (periods * every))
    note_lateness(bench, database, peer.name, [sorted(some) for some in late if some])


def periods_of(bench: Bench) -> tuple[int, float]:
    """Return the number of periods and their seconds: minutes, unless the run is quick."""
    if bench.smallest:
        return 2, 0.5
    return (10, 6.0) if bench.quick else (MINUTES, 60.0)


def one(bench: Bench, database: str, periods: int, every: float) -> None:
    """Add and run; note the figures."""
    bench.run("late_add", "clear", database=database)
    executors = [bench.start("sustain_run", every, database=database) for _ in range(EXECUTORS)]
    try:
        for executor in executors:
            wait_until_ready(executor)
        adders = [bench.start("sustain_add", periods * every, number, database=database) for number in range(ADDERS)]
        added = [answer_of(adder) for adder in adders]
        for executor in executors:
            say(executor, "end")
        answers = [answer_of(executor) for executor in executors]
    finally:
        for executor in executors:
            with ending(executor):
                pass
    note(bench, database, periods, every, added, answers)


def note(
    bench: Bench, database: str, periods: int, every: float, added: list[dict[str, int]], answers: list[dict[str, Any]]
) -> None:
    """Note rates, latenesses by period, memory, and what was lost."""
    by_period = zip_longest(*(answer["late"] for answer in answers), fillvalue=())
    late = [sorted(chain(*of_period)) for of_period in by_period]
    started = sum(map(len, late))
    wanted = sum(one["added"] - one["cancelled"] for one in added)
    bench.note(database, PRODUCT, "calls", "calls/s", sum(one["calls"] for one in added) / (periods * every))
    bench.note(database, PRODUCT, "tasks", "tasks/s", started / (periods * every))
    bench.note(database, PRODUCT, LOST, "tasks", abs(wanted - started))
    full = [some for some in late[:periods] if some]  # the first one has the start of the adders in it
    note_lateness(bench, database, PRODUCT, full)
    sizes = [max(of_period) for of_period in zip(*(answer["megabytes"] for answer in answers), strict=False)]
    bench.note(database, PRODUCT, FIRST, "MB", sizes[0])
    bench.note(database, PRODUCT, LAST, "MB", sizes[-1])
    series.write(bench.case, database, every, [round(quantile(some, 0.99) / 10) for some in full])


def note_lateness(bench: Bench, database: str, subject: str, late: list[list[int]]) -> None:
    """Note lateness in the first full and in the last period."""
    for which, some in ((FIRST, late[1] if len(late) > 2 else late[0]), (LAST, late[-1])):
        for share in (50, 99):
            bench.note(database, subject, which, f"ms p{share}", quantile(some, share / 100) / 10)


def quantile(ordered: list[int], share: float) -> int:
    return ordered[math.ceil(share * len(ordered)) - 1]


def figure(database: str, variant: str, unit: str) -> Figure:
    return Figure("sustained", database, PRODUCT, variant, unit)


def goals_of(database: str) -> list[Goal]:
    """Nothing is lost, and neither lateness nor memory grows."""
    p99, size = ((figure(database, LAST, unit), (figure(database, FIRST, unit),)) for unit in ("ms p99", "MB"))
    return [
        Goal("sustained load, lost", figure(database, LOST, "tasks"), 0, is_most=True),
        Goal("sustained load, growth of lateness", p99[0], 1.5, p99[1], is_most=True),
        Goal("sustained load, growth of memory", size[0], 1.1, size[1], is_most=True),
    ]


GOALS = [goal for database in DATABASES for goal in goals_of(database)]
