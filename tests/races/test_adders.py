"""Many who add the same at the same time, and adds in transactions."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from django_delayed_tasks import api
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import IfExistsName
from django_delayed_tasks.store.notices import wakeup
from tests.races.blocking import wait_until_blocked
from tests.store import verbs
from tests.store.verbs import CODE, HOUR
from tests.threads import start_thread

ADDERS = 50


def at_once(action: Callable[[], Any]) -> Counter[Any]:
    """Fifty threads do it together; what each of them got, and no error in any."""
    barrier = threading.Barrier(ADDERS)

    def wait_and_act() -> Any:
        Task.objects.exists()  # connected
        barrier.wait()
        return action()

    threads = [start_thread(wait_and_act) for _ in range(ADDERS)]
    return Counter(thread.result() for thread in threads)


@pytest.mark.parametrize("where", ["alone", "in a transaction"])
@pytest.mark.parametrize(("if_exists", "others"), [("replace", "replaced"), ("keep", "kept")])
def test_fifty_add_one_identity(live_db: str, where: str, if_exists: IfExistsName, others: str) -> None:
    def add() -> str:
        if where == "alone":
            return verbs.add(if_exists=if_exists).action
        with transaction.atomic():
            return verbs.add(if_exists=if_exists).action

    assert at_once(add) == {"created": 1, others: ADDERS - 1}
    assert verbs.present().version == (ADDERS - 1 if if_exists == "replace" else 0)


def test_fifty_replace_what_exists_and_add_something_of_their_own(live_db: str) -> None:
    """They do so in transactions, where a deadlock could not be tried again."""
    verbs.add("hot")

    def add() -> str:
        with transaction.atomic():
            action = verbs.add("hot").action
            verbs.add(f"cold {threading.get_ident()}")
            return action

    assert at_once(add) == {"replaced": ADDERS}
    assert Task.objects.count() == 1 + ADDERS


def test_fifty_add_and_cancel_one_identity(live_db: str) -> None:
    """Every cancellation that succeeded left its row in the history, and every other one found nothing."""

    def add_and_cancel() -> str:
        verbs.add()
        return api.cancel_task(CODE, "1")

    found = at_once(add_and_cancel)
    assert set(found) <= {"cancelled", "missing"}
    assert (found["cancelled"], Task.objects.count()) == (TaskRun.objects.count(), 0)


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize(("if_exists", "finds"), [("replace", "replaced"), ("keep", "kept")])
def test_two_create_one_identity(live_db: str, if_exists: IfExistsName, finds: str, end: str) -> None:
    """The second waits to see whether the first one's row comes to be."""
    with transaction.atomic():
        verbs.add(biz_ext=1)
        second = start_thread(lambda: verbs.add(if_exists=if_exists, biz_ext=2))
        wait_until_blocked(second)
        transaction.set_rollback(end == "rollback")
    assert second.result().action == (finds if end == "commit" else "created")
    assert verbs.present().biz_ext == (1 if end == "commit" and if_exists == "keep" else 2)


@pytest.mark.parametrize("before", ["absent", "pending", "running"])
def test_a_rolled_back_call_leaves_nothing(live_db: str, before: str) -> None:
    if before != "absent":
        verbs.add(biz_ext="old")
    if before == "running":
        verbs.claim_one()
    rows = list(Task.objects.values())
    calls: list[Callable[[], object]] = [
        lambda: verbs.add(when=HOUR, biz_ext="new"),
        lambda: verbs.add("2"),
        lambda: api.add_tasks([verbs.task(when=HOUR), verbs.task("3")]),
        lambda: api.reschedule_task(CODE, "1", HOUR),
        lambda: api.delete_tasks(CODE, "1"),
        lambda: api.cancel_task(CODE, "1"),
    ]
    for call in calls:
        with transaction.atomic():
            call()
            transaction.set_rollback(True)
        assert list(Task.objects.values()) == rows
    assert TaskRun.objects.count() == 0


def test_a_caller_whose_task_exists_continues(live_db: str) -> None:
    """The refusal does not break its transaction."""
    verbs.add()
    with transaction.atomic():
        with pytest.raises(api.TaskExists):
            verbs.add(if_exists="raise")
        with pytest.raises(api.TaskExists):
            api.add_tasks([verbs.task("2"), verbs.task()], if_exists="raise")
        verbs.add("3")
    assert set(Task.objects.values_list("biz_num", flat=True)) == {"1", "3"}


@pytest.mark.parametrize(
    "call",
    [verbs.add, lambda: api.add_tasks([verbs.task()]), lambda: api.reschedule_task(CODE, "0", None)],
    ids=["add_task", "add_tasks", "reschedule_task"],
)
def test_executors_are_woken_after_the_commit_only(live_db: str, call: Callable[[], object]) -> None:
    verbs.add("0")
    sleeper = threading.Event()
    wakeup.enlist(sleeper)
    try:
        with transaction.atomic():
            call()
            transaction.set_rollback(True)
        assert not sleeper.is_set()
        with transaction.atomic():
            call()
            assert not sleeper.is_set()
        assert sleeper.is_set()
    finally:
        wakeup.dismiss(sleeper)
