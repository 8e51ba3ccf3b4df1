"""Finished tasks that an old snapshot keeps in the claim index: what a poll reads does not grow with them.

InnoDB counts no row that it skips, so there the pages are counted that the whole server looks at; the least of several
times is what one reading needs.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

from django.db import connection, connections, transaction

from django_delayed_tasks import api
from django_delayed_tasks.store import KnownLevels, read_agenda
from tests.store import verbs
from tests.store.meters import EXPLAINED
from tests.store.verbs import ALIAS, HOUR

FINISHED, BATCH = 6_000, 1_000
GROWTH = 20
"""Pages: a reading may need some more of them when the index is larger; a walk over what has finished, far more."""
SNAPSHOT = {
    "mysql": ("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"),
    "postgresql": ("BEGIN ISOLATION LEVEL REPEATABLE READ",),
    "sqlite": ("BEGIN",),
}
LEVELS = [("default", -5), ("default", 0), ("default", 5)]


@contextmanager
def old_snapshot() -> Iterator[None]:
    """Somebody reads the tasks as they are now, and goes on seeing them so."""
    with closing(connections.create_connection(ALIAS)) as other, other.cursor() as cursor:
        for statement in (*SNAPSHOT[connection.vendor], "SELECT COUNT(*) FROM django_delayed_tasks_task"):
            cursor.execute(statement)
        cursor.fetchall()
        yield


def finish_many() -> None:
    floor = read_agenda(ALIAS).now - timedelta(seconds=5)
    for start in range(0, FINISHED, BATCH):
        api.add_tasks(verbs.task(str(number)) for number in range(start, start + BATCH))
        verbs.settle(*map(verbs.done, verbs.claim(limit=BATCH, floor=floor)))


def pages_of(action: Callable[[], object]) -> int:
    """The fewest pages (on SQLite steps, by hundreds) that the action needs."""
    return min(_PAGES[connection.vendor](action) for _ in range(10))


def _of_server(action: Callable[[], object]) -> int:
    def requests() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'")
            return int(cursor.fetchone()[1])

    before = requests()
    action()
    return requests() - before


def _by_explaining(action: Callable[[], object]) -> int:
    pages = 0

    def explain(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        nonlocal pages
        if sql.lstrip().startswith(EXPLAINED):
            with transaction.atomic():
                execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", params, many, context)
                [[found]] = context["cursor"].fetchall()
                transaction.set_rollback(True)
            plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
            pages += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        return execute(sql, params, many, context)

    with connection.execute_wrapper(explain):
        action()
    return pages


def _by_steps(action: Callable[[], object]) -> int:
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.connection.set_progress_handler(step, 100)
    try:
        action()
    finally:
        connection.connection.set_progress_handler(None, 1)
    return steps


_PAGES = {"mysql": _of_server, "postgresql": _by_explaining, "sqlite": _by_steps}


def test_what_has_finished_is_not_read(live_db: str) -> None:
    for queue, priority in LEVELS:
        verbs.add(f"later {priority}", HOUR, queue=queue, priority=priority)
    with old_snapshot():
        walk, look, claim = measured()
        finish_many()
        longer_walk, longer_look, longer_claim = measured()
    assert connection.vendor == "sqlite" or longer_walk > walk + GROWTH, "the snapshot keeps nothing"
    assert longer_look <= look + GROWTH
    assert longer_claim <= claim + GROWTH


def measured() -> tuple[int, int, int]:
    """Pages of a walk, a look and a claim, as an executor reads once all that finished is older than its margin."""
    floor = read_agenda(ALIAS).now
    known = KnownLevels(dict.fromkeys(LEVELS, floor), frozenset(), floor)
    assert {(level.queue, level.priority) for level in read_agenda(ALIAS, known).levels} == set(LEVELS)
    return (
        pages_of(lambda: read_agenda(ALIAS)),
        pages_of(lambda: read_agenda(ALIAS, known)),
        pages_of(lambda: verbs.claim(floor=floor)),
    )
