"""How long after its time a task starts, in an executor with default options that is otherwise idle, or half busy.

"Known ahead": the start by the wall clock, less the task's ``when``; all were added before. "Added at once": less the
moment at which another process had committed the task. Both are of one machine, so that the clocks agree.
"""

import math
from collections.abc import Callable

from harness.benchmarks.bench import Bench, answer_of, ending
from harness.benchmarks.cases.drain import WITH_LEAN
from harness.benchmarks.figures import PRODUCT, Figure
from harness.benchmarks.goals import Goal
from harness.benchmarks.peers import celery_lateness

TASKS = 200
SPREAD = 20.0
LOAD = 200
"""Tasks of 20 ms each second: half of eight threads."""
AHEAD, AT_ONCE, UNDER_LOAD = "known ahead", "added at once", "known ahead, under load"
CELERY = "celery"
EVERY = ("sqlite", *WITH_LEAN)


def measure(bench: Bench) -> None:
    """Measure each way in turn, and Celery with Redis once per turn, unless that fails."""
    for turn in bench.turns("all databases"):
        if not bench.smallest and not bench.has_missed("redis", CELERY):
            celery(bench)
        for database in bench.databases:
            note(bench, database, PRODUCT, AHEAD, known_ahead(bench, database))
            note(bench, database, PRODUCT, AT_ONCE, added_at_once(bench, database))
            if turn == 0:
                note(bench, database, PRODUCT, UNDER_LOAD, known_ahead(bench, database, load=LOAD))


def size(bench: Bench) -> tuple[int, float]:
    """Return the number of tasks, and the seconds over which they become due."""
    if bench.smallest:
        return 10, SPREAD / 20
    return (50, SPREAD / 4) if bench.quick else (TASKS, SPREAD)


def note(bench: Bench, database: str, subject: str, variant: str, seconds: list[float]) -> None:
    """The usual figures of some latenesses."""
    ordered = sorted(seconds)
    for share, unit in ((0.5, "ms p50"), (0.99, "ms p99"), (1.0, "ms max")):
        bench.note(database, subject, variant, unit, 1000 * ordered[math.ceil(share * len(ordered)) - 1])
    bench.note(database, subject, variant, "early starts", sum(lateness < 0 for lateness in seconds))


def known_ahead(bench: Bench, database: str, load: int = 0) -> list[float]:
    """Measure with all tasks added in advance, and ``load`` more of another code for each second."""
    tasks, spread = size(bench)

    def add() -> None:
        bench.run("late_add", "ahead", tasks, spread, load, database=database)

    starts = started(bench, database, add, tasks)
    return [start - when for start, when in starts.values()]


def added_at_once(bench: Bench, database: str) -> list[float]:
    """Measure with each task added at its moment, due at once."""
    tasks, spread = size(bench)
    committed: list[float] = []

    def add() -> None:
        committed.extend(bench.run("late_add", "at_once", tasks, spread, database=database))

    starts = started(bench, database, add, tasks)
    # A start may be noted before the adding process comes to look at the clock.
    return [max(0.0, starts[str(number)][0] - moment) for number, moment in enumerate(committed)]


def started(bench: Bench, database: str, add: Callable[[], None], tasks: int) -> dict[str, tuple[float, float]]:
    """Return when each task started, and its ``when``, by its number."""
    bench.run("late_add", "clear", database=database)
    executor = bench.start("late", tasks, database=database)
    with ending(executor):
        assert executor.stdout
        executor.stdout.readline()
        add()
        starts = {number: (start, when) for number, start, when in answer_of(executor)}
    if len(starts) != tasks:
        raise RuntimeError(f"{tasks} tasks were added, {len(starts)} started")
    return starts


def celery(bench: Bench) -> None:
    """Measure the same with Celery's timers; note why not where that fails."""
    try:
        seconds = celery_lateness.lateness(*size(bench))
    except Exception as why:  # of a server or a program: the product is measured
        bench.miss("redis", CELERY, why)
    else:
        note(bench, "redis", CELERY, AHEAD, seconds)


def figure(database: str, variant: str, subject: str = PRODUCT, unit: str = "ms p99") -> Figure:
    return Figure("lateness", database, subject, variant, unit)


GOALS = [
    *(
        Goal("lateness, known ahead", figure(database, AHEAD), 1.0, (figure("redis", AHEAD, CELERY),), is_most=True)
        for database in EVERY
    ),
    *(Goal("lateness, added at once", figure(database, AT_ONCE), 10.0, is_most=True) for database in EVERY),
    *(Goal("early starts", figure(database, AHEAD, unit="early starts"), 0, is_most=True) for database in EVERY),
]
