"""What a verb reads depends on what it touches, not on how much waits: 20,000 tasks for later, on 15 levels."""

from collections.abc import Callable
from datetime import timedelta

from django.db import connection

from django_delayed_tasks import api, clock
from django_delayed_tasks.models import Task
from django_delayed_tasks.store.claiming.agenda import read_agenda
from django_delayed_tasks.store.claiming.looks import KnownLevels, look
from django_delayed_tasks.store.settling.reap import reap
from django_delayed_tasks.store.sql.tables import EXECUTOR, TASK
from tests.store import verbs
from tests.store.fixtures import STRATEGIES
from tests.store.meters import UNIT, reads
from tests.store.verbs import ALIAS, CODE, HOUR

QUEUES, PRIORITIES, WAITING, DUE = ("default", "mail", "zip"), (-10, -5, 0, 5, 10), 20_000, 100


def fill() -> None:
    levels = [(queue, priority) for queue in QUEUES for priority in PRIORITIES]
    api.add_tasks(
        (
            verbs.task(f"later {i}", HOUR + timedelta(seconds=i), queue=queue, priority=priority)
            for i in range(WAITING)
            for queue, priority in [levels[i % len(levels)]]
        ),
        batch_size=5000,
    )
    api.add_tasks(verbs.task(f"due {i:03}", priority=5) for i in range(DUE))


def refresh_statistics(database: str) -> None:
    """Do what the servers do by themselves some seconds after that number of rows was added."""
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE TABLE {TASK}, {EXECUTOR}" if connection.vendor == "mysql" else "ANALYZE")


def excess(database: str, allowed: int, action: Callable[[], object]) -> tuple[int, int] | None:
    """Return what the action read and what it may read, if that was exceeded."""
    with reads() as meter:
        action()
    limit = allowed * UNIT.get(database, 1)
    return None if meter.total <= limit else (meter.total, limit)


def test_the_meter_sees_a_scan(live_db: str) -> None:
    api.add_tasks(verbs.task(str(i)) for i in range(500))
    assert excess(live_db, 499 // UNIT.get(live_db, 1), lambda: list(Task.objects.filter(version=77)))


def test_reads_of_every_verb(live_db: str) -> None:
    fill()
    found = {}
    for name, strategy in STRATEGIES.items():
        # A claimed row is read through the claim index and by its primary key, to be found and to be changed.
        found[f"{name}, 20 of {DUE}"] = excess(live_db, 20 * 5, lambda: verbs.claim(strategy, limit=20, priority=5))  # noqa: B023
        found[f"{name}, none due"] = excess(live_db, 5, lambda: verbs.claim(strategy, queue="zip"))  # noqa: B023
    runs = verbs.claim(limit=20, priority=5)
    found["settle"] = excess(
        live_db, 20 * 10, lambda: verbs.settle(*map(verbs.done, runs[:10]), *map(verbs.retry, runs[10:]))
    )
    found["plain settle"] = excess(
        live_db, 10 * 12, lambda: verbs.settle(*map(verbs.done, verbs.claim(limit=10, priority=5)))
    )
    found["the rest"] = excess(live_db, DUE * 5, lambda: verbs.claim(limit=1000, priority=5))
    found["add"] = excess(live_db, 5, lambda: verbs.add("later 77", HOUR))
    found["reschedule"] = excess(live_db, 5, lambda: api.reschedule_task(CODE, "later 78", 2 * HOUR))
    found["cancel"] = excess(live_db, 10, lambda: api.cancel_task(CODE, "later 79"))
    refresh_statistics(live_db)  # without any, PostgreSQL takes so small a table for one that is quicker to read whole
    found["reap"] = excess(live_db, DUE * 10, lambda: reap(ALIAS, 3))
    assert {name: figures for name, figures in found.items() if figures} == {}


def test_reads_of_a_claim_of_one_code(live_db: str) -> None:
    """A database that looked for the code in the index on identities would read every row of it."""
    api.add_tasks(Task(biz_code="other", biz_num=str(i), when=HOUR) for i in range(DUE))
    refresh_statistics(live_db)  # which know nothing of the code
    api.add_tasks(verbs.task(str(i)) for i in range(3_000))
    found = {
        name: excess(live_db, 20 * 5, lambda: verbs.claim(strategy, limit=20, only=CODE))  # noqa: B023
        for name, strategy in STRATEGIES.items()
    }
    assert found == dict.fromkeys(STRATEGIES)


def test_reads_of_the_agenda(live_db: str) -> None:
    fill()
    refresh_statistics(live_db)
    levels = [("", queue, priority) for queue in QUEUES for priority in PRIORITIES]
    watermark = clock.host_now() - timedelta(seconds=10)
    ways = {
        "walk": None,
        "all known": KnownLevels(dict.fromkeys(levels, watermark), frozenset(), watermark),
        "some idle": KnownLevels(dict.fromkeys(levels[::2], watermark), frozenset({("", "unused", 0)}), watermark),
    }
    # What is not known is found gap by gap, and then looked at: a few times the work, once.
    allowed = {"walk": 4, "all known": 4, "some idle": 20}
    found = {
        way: excess(live_db, len(levels) * allowed[way], lambda: look(ALIAS, known) if known else read_agenda(ALIAS))  # noqa: B023
        for way, known in ways.items()
    }
    assert found == dict.fromkeys(ways)
