"""When the framework's signals are sent: what they say has happened, and is not taken back."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, OperationalError, connection, transaction

from django_delayed_tasks import handlers
from django_delayed_tasks.clock import DatabaseClock
from django_delayed_tasks.models import Task
from django_delayed_tasks.signals import run_finished, run_started
from tests.executor.parts import claim, drain, registered
from tests.executor.runs import run_one
from tests.function_tasks import functions
from tests.function_tasks.framework import task_enqueued, task_finished, task_started

pytestmark = pytest.mark.django_db(transaction=True)
act: Any = functions.act
add_up: Any = functions.add_up
SIGNALS = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}
OURS = {"run started": run_started, "run finished": run_finished}
ENQUEUED, STARTED, SUCCESSFUL, FAILED = "enqueued READY", "started RUNNING", "finished SUCCESSFUL", "finished FAILED"


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What is sent, in order; nothing is sent within a transaction."""
    said: list[str] = []
    receivers: list[tuple[Any, Callable[..., None]]] = []

    def connect(signal: Any, name: str) -> None:
        def receive(sender: Any, task_result: Any = None, **_: Any) -> None:
            said.append(name if task_result is None else f"{name} {task_result.status}")
            if connection.in_atomic_block:
                said.append(f"{name} in a transaction")

        signal.connect(receive)
        receivers.append((signal, receive))

    for name, signal in (SIGNALS | OURS).items():
        connect(signal, name)
    yield said
    for signal, receive in receivers:
        signal.disconnect(receive)


@pytest.fixture
def doing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Sets what the atomic function does."""
    return lambda to_do: monkeypatch.setattr(functions, "to_do", to_do)


def framework(heard: list[str]) -> list[str]:
    """What was sent of the framework's signals after the enqueuing."""
    return [said for said in heard if said not in (ENQUEUED, *OURS)]


def count_of(function: Any) -> int:
    """Return the number of its tasks that have not ended."""
    return Task.objects.filter(biz_code=function.module_path).count()


def broken() -> str:
    """Swallow what makes the transaction useless."""
    transaction.set_rollback(True)
    return "ok"


def test_a_success_is_announced_after_the_commit_with_our_own_signals_around_it(heard: list[str], doing: Any) -> None:
    def work() -> dict[str, int]:
        transaction.on_commit(lambda: heard.append("its hook"))
        return {"rows": 3}

    seen: list[Any] = []

    def receive(sender: Any, task_result: Any, **_: Any) -> None:
        seen.append((task_result.return_value, task_result.started_at <= task_result.finished_at))
        task_result.refresh()
        seen.append((str(task_result.status), task_result.return_value, count_of(act)))

    doing(work)
    act.enqueue()
    task_finished.connect(receive)
    try:
        drain()
    finally:
        task_finished.disconnect(receive)
    assert heard == [ENQUEUED, "run started", STARTED, "its hook", SUCCESSFUL, "run finished"]
    assert seen == [({"rows": 3}, True), ("SUCCESSFUL", {"rows": 3}, 0)]


def test_a_run_that_is_rolled_back_was_no_success(heard: list[str], doing: Any) -> None:
    doing(broken)
    act.enqueue()
    drain()
    assert framework(heard) == [STARTED, STARTED, FAILED]


def test_an_attempt_that_is_tried_again_after_a_deadlock_is_announced_once(heard: list[str], doing: Any) -> None:
    tries: list[int] = []

    def work() -> str:
        tries.append(1)
        add_up.using(biz_num="1", run_after=timedelta(hours=1)).enqueue(1)
        if len(tries) < 3:
            raise OperationalError(1213, "deadlock")
        return "ok"

    doing(work)
    act.enqueue()
    drain()
    assert len(tries) == 3
    assert heard == [ENQUEUED, "run started", STARTED, ENQUEUED, SUCCESSFUL, "run finished"]


def test_a_lost_claim_was_no_success(heard: list[str], doing: Any) -> None:
    """The settlement is the last statement of the transaction: the claim may be gone by then."""
    doing(lambda: Task._base_manager.update(version=50) and "ok")
    act.enqueue()
    [task] = claim(registered())
    run_one(task, handlers.find(task.biz_code), DatabaseClock())  # type: ignore[arg-type]
    assert framework(heard) == [STARTED]


def test_a_hook_that_raises_does_not_keep_the_end_from_being_announced(heard: list[str], doing: Any) -> None:
    doing(lambda: transaction.on_commit(lambda: 1 / 0))
    act.enqueue()
    drain()
    assert framework(heard) == [STARTED, SUCCESSFUL]


def test_a_receiver_does_not_write_in_the_transaction_of_the_run(heard: list[str], doing: Any) -> None:
    """What it writes remains if the run fails, and its errors do not make the transaction useless."""

    def receive(sender: Any, task_result: Any, **_: Any) -> None:
        Group.objects.create(name=f"{task_result.status} {task_result.attempts}")
        Group.objects.create(name=f"{task_result.status} {task_result.attempts}")

    doing(lambda: Group.objects.create(name="of the run") and None)
    act.enqueue()
    for signal in (task_started, task_finished):
        signal.connect(receive)
    try:
        drain()
        doing(broken)
        act.enqueue()
        drain()
    finally:
        for signal in (task_started, task_finished):
            signal.disconnect(receive)
    assert framework(heard) == [STARTED, SUCCESSFUL, STARTED, STARTED, FAILED]
    names = ["FAILED 2", "RUNNING 1", "RUNNING 2", "SUCCESSFUL 1", "of the run"]
    assert sorted(Group.objects.values_list("name", flat=True)) == names


def test_the_context_of_an_atomic_function(heard: list[str], doing: Any) -> None:
    doing(lambda: "ok")
    result: Any = functions.act_in_context.enqueue()
    drain()
    result.refresh()
    assert result.return_value == [result.id, 1, "ok"]
    assert framework(heard) == [STARTED, SUCCESSFUL]


@pytest.mark.parametrize("many", [False, True], ids=["one", "in bulk"])
class TestEnqueued:
    """It is announced when it is committed."""

    def enqueue(self, many: bool) -> None:
        if many:
            add_up.bulk_enqueue([([1], {})])
        else:
            add_up.enqueue(1)

    def test_at_once_without_a_transaction(self, heard: list[str], many: bool) -> None:
        self.enqueue(many)
        assert heard == [ENQUEUED]

    def test_after_the_commit(self, heard: list[str], many: bool) -> None:
        with transaction.atomic():
            self.enqueue(many)
            assert heard == []
        assert heard == [ENQUEUED]

    def test_not_after_a_rollback(self, heard: list[str], many: bool) -> None:
        with pytest.raises(IntegrityError), transaction.atomic():
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                self.enqueue(many)
                _ = 1 / 0
            self.enqueue(many)
            raise IntegrityError
        assert heard == []

    def test_where_commits_are_not_seen(self, heard: list[str], many: bool) -> None:
        """Django does not report the commit of a transaction without autocommit."""
        transaction.set_autocommit(False)
        try:
            self.enqueue(many)
        finally:
            transaction.rollback()
            transaction.set_autocommit(True)
        assert heard[0] == ENQUEUED

    def test_before_it_runs(self, heard: list[str], many: bool, settings: Any) -> None:
        settings.DELAYED_TASKS = {"MODE": "inline"}
        self.enqueue(many)
        with transaction.atomic():
            self.enqueue(many)
        assert [said for said in heard if said not in OURS] == [ENQUEUED, STARTED, SUCCESSFUL] * 2

    def test_a_receiver_that_raises_wakes_no_fewer_executors(self, many: bool, settings: Any) -> None:
        def receive(**_: Any) -> None:
            raise ValueError("no")

        settings.DELAYED_TASKS = {"MODE": "inline"}
        task_enqueued.connect(receive)
        try:
            with pytest.raises(ValueError, match="no"):
                self.enqueue(many)
            assert Task.objects.count() == 0
            with transaction.atomic():
                self.enqueue(many)
            assert Task.objects.count() == 0
        finally:
            task_enqueued.disconnect(receive)
