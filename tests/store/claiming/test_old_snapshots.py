"""Finished tasks that an old snapshot keeps in the claim index: what a poll reads does not grow with them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

from django.db import connection, connections

from django_delayed_tasks import api
from django_delayed_tasks.store.claiming.agenda import read_agenda
from django_delayed_tasks.store.claiming.looks import KnownLevels, look
from harness.database_pages import pages_of
from tests.store import verbs
from tests.store.verbs import ALIAS, HOUR
from tests.waiting import wait_until

FINISHED, BATCH = 6_000, 1_000
GROWTH = 20
"""Pages: a reading may need some more of them when the index is larger; a walk over what has finished, far more."""
FEW = 30
"""Pages that a walk over three tasks reads, at most."""
SNAPSHOT = {
    "mysql": ("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"),
    "postgresql": ("BEGIN ISOLATION LEVEL REPEATABLE READ",),
    "sqlite": ("BEGIN",),
}
LEVELS = [("default", -5), ("default", 0), ("default", 5)]


@contextmanager
def old_snapshot() -> Iterator[None]:
    """Keep a transaction open whose snapshot has the tasks as they are now."""
    with closing(connections.create_connection(ALIAS)) as other, other.cursor() as cursor:
        for statement in (*SNAPSHOT[connection.vendor], "SELECT COUNT(*) FROM django_delayed_tasks_task"):
            cursor.execute(statement)
        cursor.fetchall()
        yield


def finish_many() -> None:
    watermark = read_agenda(ALIAS).now - timedelta(seconds=5)
    for start in range(0, FINISHED, BATCH):
        api.add_tasks(verbs.task(str(number)) for number in range(start, start + BATCH))
        verbs.settle(*map(verbs.done, verbs.claim(limit=BATCH, watermark=watermark)))


def test_what_has_finished_is_not_read(live_db: str) -> None:
    for queue, priority in LEVELS:
        verbs.add(f"later {priority}", HOUR, queue=queue, priority=priority)
    wait_until(lambda: pages_of(lambda: read_agenda(ALIAS)) <= FEW)  # what earlier tests deleted is purged
    with old_snapshot():
        walk, look, claim = measured()
        finish_many()
        longer_walk, longer_look, longer_claim = measured()
    assert connection.vendor == "sqlite" or longer_walk > walk + GROWTH, "the snapshot keeps nothing"
    assert longer_look <= look + GROWTH
    assert longer_claim <= claim + GROWTH


def measured() -> tuple[int, int, int]:
    """Pages of a walk, a look and a claim, as an executor reads once all that finished is older than its margin."""
    watermark = read_agenda(ALIAS).now
    known = KnownLevels({("", *level): watermark for level in LEVELS}, frozenset(), watermark)
    assert {(level.queue, level.priority) for level in look(ALIAS, known).levels} == set(LEVELS)
    return (
        pages_of(lambda: read_agenda(ALIAS)),
        pages_of(lambda: look(ALIAS, known)),
        pages_of(lambda: verbs.claim(watermark=watermark)),
    )
