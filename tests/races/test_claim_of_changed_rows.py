"""PostgreSQL's claim finds rows as they were when it began, and locks them as they are: here they change in between."""

from collections.abc import Iterator
from functools import partial

import pytest
from django.db import connection

from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming import strategies
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask, held_by
from django_delayed_tasks.store.claiming.request import candidates
from tests.races.blocking import wait_until_blocked
from tests.races.test_claim import CALLS, OUTSIDE
from tests.store import verbs
from tests.store.verbs import ALIAS, EXECUTOR
from tests.threads import DatabaseThread, start_thread

LOCK = 20
"""The key of the advisory lock for which the claim waits when it finds a row."""
UNLOCK = "SELECT pg_advisory_unlock_all()"


@pytest.fixture
def claiming(live_db: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatabaseThread[list[ClaimedTask]]]:
    """A claim of two tasks, "0" and "1", that has found neither of them yet."""
    for num in "01":
        verbs.add(num, biz_ext="old")
    waits = partial(candidates, share=f"pg_advisory_xact_lock_shared({LOCK}) IS NOT NULL")
    monkeypatch.setattr(strategies, "candidates", waits)
    execute(f"SELECT pg_advisory_lock({LOCK})")
    thread = start_thread(lambda: verbs.claim(strategies.skip_locked))
    try:
        wait_until_blocked(thread)
        yield thread
    finally:
        execute(UNLOCK)
        thread.result()


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


@CALLS
def test_a_task_that_is_no_longer_due(claiming: DatabaseThread[list[ClaimedTask]], call: str) -> None:
    OUTSIDE[call]()
    execute(UNLOCK)
    assert [run.biz_num for run in claiming.result()] == ["0"]
    row = verbs.row()
    assert row is None if call in ("cancel", "delete") else row and row.status == TaskStatus.PENDING


def test_a_task_that_is_due_with_other_data(claiming: DatabaseThread[list[ClaimedTask]]) -> None:
    """An administrator's own statement has changed it, without making it due later: it is claimed as it is now."""
    Task._base_manager.filter(biz_num="1").update(biz_ext="new", version=7)
    execute(UNLOCK)
    runs = claiming.result()
    assert [(run.biz_ext, run.version) for run in runs] == [("old", 1), ("new", 8)]
    assert held_by(ALIAS, EXECUTOR) == {run.claim for run in runs}
