"""With autocommit off, each verb is part of the caller's transaction: it raises nothing, and rollback undoes it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import TaskException, TaskExists
from django_delayed_tasks.leases import Pool
from django_delayed_tasks.models import Executor, PausedQueue, Resource, Success, Task, TaskRun
from django_delayed_tasks.states import RunOutcome
from django_delayed_tasks.store.sql.transactions import atomically, in_one_statement
from tests.store import verbs
from tests.store.verbs import CODE, HOUR

pytestmark = pytest.mark.per_database

MODELS = (Task, TaskRun, PausedQueue, Resource, Success)
VERBS: dict[str, Callable[[], Any]] = {
    "add": lambda: verbs.add("new", HOUR),
    "add at once": lambda: verbs.add("new"),
    "add, replacing": lambda: verbs.add("waits", 2 * HOUR),
    "add, keeping": lambda: [verbs.add("waits", if_exists="keep"), verbs.add("new", if_exists="keep")],
    "add the earliest": lambda: verbs.add("waits", HOUR / 2, if_exists="earliest"),
    "add, raising": lambda: verbs.add("new", if_exists="raise"),
    "add once": lambda: api.add_task(verbs.task("new"), once=True),
    "add during a run": lambda: verbs.add("runs", HOUR),
    "add many": lambda: api.add_tasks([verbs.task("waits", HOUR), verbs.task("new"), verbs.task("runs")], batch_size=2),
    "add many, keeping": lambda: api.add_tasks([verbs.task("new"), verbs.task("waits")], if_exists="keep"),
    "add many once": lambda: api.add_tasks([verbs.task("new"), verbs.task("new2")], once=True),
    "cancel": lambda: api.cancel_task(CODE, "waits"),
    "stop": lambda: api.cancel_task(CODE, "runs"),
    "reschedule": lambda: api.reschedule_task(CODE, "waits", 2 * HOUR),
    "reschedule during a run": lambda: api.reschedule_task(CODE, "runs", HOUR),
    "pause": lambda: api.pause_task(CODE, "waits"),
    "resume": lambda: api.resume_task(CODE, "paused"),
    "delete": lambda: api.delete_tasks(CODE, "w"),
    "forget": lambda: api.forget(CODE, "done"),
    "pause a queue": lambda: api.pause_queue("mail"),
    "resume a queue": lambda: api.resume_queue("stopped"),
    "put a resource": lambda: Pool("gpu").add("a", {"x": 1}),
}


@pytest.fixture
def manual(live_db: str) -> Iterator[None]:
    """Rows in each state, and autocommit off."""
    for num in ("waits", "runs", "paused"):
        verbs.add(num, None if num == "runs" else HOUR)
    assert [run.biz_num for run in verbs.claim()] == ["runs"]
    api.add_task(verbs.task("done"), once=True)
    verbs.settle(*(verbs.done(run, once=True) for run in verbs.claim()))
    api.pause_task(CODE, "paused")
    api.pause_queue("stopped")
    transaction.set_autocommit(False)
    try:
        yield
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


def everything() -> list[list[dict[str, Any]]]:
    """Return all rows."""
    managers: list[Any] = [model._default_manager for model in MODELS]
    return [list(manager.order_by("pk").values()) for manager in managers]


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_each_verb_is_undone_by_rollback_and_kept_by_commit(manual: None, verb: Callable[[], Any]) -> None:
    before = everything()
    verb()
    assert everything() != before
    transaction.rollback()
    assert everything() == before
    verb()
    after = everything()
    assert after != before
    transaction.commit()
    transaction.rollback()
    assert everything() == after


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_each_verb_in_an_atomic_block_too(manual: None, verb: Callable[[], Any]) -> None:
    before = everything()
    verbs.add("first", HOUR)  # on SQLite, Django has no atomic() before the transaction has begun
    with transaction.atomic():
        verb()
    assert not connection.run_on_commit  # they would be kept for as long as autocommit is off
    transaction.rollback()
    assert everything() == before


def test_a_refusal_leaves_the_transaction_usable(manual: None) -> None:
    verbs.add("first", HOUR)
    with pytest.raises(TaskExists):
        verbs.add("waits", if_exists="raise")
    with pytest.raises(TaskExists):
        api.add_tasks([verbs.task("second"), verbs.task("waits")], if_exists="raise")
    transaction.commit()
    assert verbs.present("first")
    assert verbs.row("second") is None


def test_with_autocommit_off_in_the_settings(live_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "AUTOCOMMIT", False)
    try:
        verbs.add("first", HOUR)
        transaction.rollback()
        assert verbs.row("first") is None
        verbs.add("second")
        transaction.commit()
    finally:
        connection.close()
        monkeypatch.undo()
    assert verbs.present("second")


def test_an_executor_is_not_started(manual: None) -> None:
    with pytest.raises(TaskException, match=r"inside a transaction \(autocommit is off\)"):
        api.start(name="here")
    transaction.rollback()
    transaction.set_autocommit(True)
    with transaction.atomic(), pytest.raises(TaskException, match="inside a transaction:"):
        api.start(name="here")
    assert not Executor.objects.exists()
    transaction.set_autocommit(False)


def test_an_end_is_recorded_once_although_nothing_can_be_rolled_back(live_db: str) -> None:
    """Something happened to the task while it ran, which the shortest way of settling finds out when it has written."""
    verbs.add("runs")
    run = verbs.claim_one()
    verbs.add("runs", HOUR)
    transaction.set_autocommit(False)
    try:
        verbs.settle(verbs.done(run, once=True))
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert verbs.outcomes("runs") == [RunOutcome.DONE]


@pytest.mark.parametrize("way", [atomically, in_one_statement])
def test_a_part_of_the_callers_transaction_is_not_tried_again(manual: None, way: Callable[..., None]) -> None:
    """The server may have rolled back the caller's part of it."""
    tries: list[BaseDatabaseWrapper] = []

    def work(cursor: Any) -> None:
        tries.append(cursor)
        raise DatabaseError("database is locked")

    with pytest.raises(DatabaseError, match="is locked"):
        way("default", work)
    assert len(tries) == 1
    transaction.set_autocommit(True)
    with pytest.raises(DatabaseError, match="is locked"):
        way("default", work)
    assert len(tries) > 2
    assert connections["default"].get_autocommit()
    transaction.set_autocommit(False)
