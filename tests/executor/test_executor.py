"""A whole executor with its threads, in this process."""

from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.db import connection, transaction

from django_delayed_tasks import Retry, TaskException, clock, shutdown, start
from django_delayed_tasks.executor import executor as module
from django_delayed_tasks.executor.membership.lease import NEVER, Lease
from django_delayed_tasks.models import Executor, Task, TaskRun
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.notices import wakeup
from django_delayed_tasks.store.settling.settle import settle
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.executor.parts import add, claim, executing, handler_of, registered
from tests.threads import start_thread
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]


def test_runs_what_is_due_and_keeps_the_history() -> None:
    handler_of(lambda task: None)
    for number in range(200):
        add(str(number))
    with executing(drain=True) as executor:
        assert executor.drained.wait(30)
    assert not Task.objects.exists()
    assert TaskRun.objects.filter(outcome=RunOutcome.DONE).count() == 200
    assert TaskRun.objects.filter(started__isnull=True).count() == 0


def test_a_commit_in_this_process_wakes_it() -> None:
    ran = Event()
    handler_of(lambda task: ran.set())
    with executing(poll_interval=30.0):
        wait_until(lambda: Executor.objects.filter(alive=True).exists())
        add()
        assert ran.wait(10)


def test_once_stopped_it_is_woken_no_more() -> None:
    with executing() as executor:
        pass
    executor.capacity.plain.wake.clear()
    wakeup.wake()
    assert not executor.capacity.plain.wake.is_set()


def test_retries_until_it_succeeds() -> None:
    handler_of(lambda task: Retry(after=timedelta(0)) if task.attempts < 3 else None)
    add()
    with executing() as executor:
        wait_until(lambda: not Task.objects.exists())
        assert executor.capacity.claimed == 3
    assert list(TaskRun.objects.order_by("id").values_list("attempt", "outcome")) == [
        (1, RunOutcome.RETRIED),
        (2, RunOutcome.RETRIED),
        (3, RunOutcome.DONE),
    ]


def test_stop_releases_what_has_not_started_and_lets_runs_end() -> None:
    started, go_on = Event(), Event()

    def handle(task: Any) -> None:
        started.set()
        go_on.wait(30)

    handler_of(handle)
    for number in range(3):
        add(str(number))
    with executing(threads=1) as executor:
        assert started.wait(30)
        go_on.set()
        assert executor.stop()
    assert not Task.objects.filter(status=TaskStatus.RUNNING).exists()
    assert Task.objects.count() + TaskRun.objects.filter(outcome=RunOutcome.DONE).count() == 3
    assert not Executor.objects.filter(alive=True).exists()
    assert set(Task.objects.values_list("attempts", flat=True)) <= {0}


def test_a_run_that_hangs_loses_its_task_and_its_thread_is_replaced() -> None:
    hang, ran = Event(), Event()
    numbers: list[int] = []

    def handle(task: Any) -> None:
        numbers.append(task.attempts)
        if task.attempts == 1:
            hang.wait(60)
        else:
            ran.set()

    handler_of(handle, timeout=0.2, backoff=lambda self, attempt: timedelta(0))
    add()
    with executing(threads=1) as executor:
        assert ran.wait(30)
        wait_until(lambda: not Task.objects.exists())
        assert len(executor.workers.lost()) == 1
        hang.set()
        wait_until(lambda: len(executor.workers.lost()) == 0)
    assert numbers == [1, 2]
    first = TaskRun.objects.order_by("id")[0]
    assert first.outcome == RunOutcome.RETRIED
    assert "TaskTimeout" in first.error
    assert TaskRun.objects.count() == 2


def test_what_waits_behind_a_slow_run_is_given_back() -> None:
    slow, go_on = Event(), Event()

    def handle(task: Any) -> None:
        if task.biz_num == "slow":
            slow.set()
            go_on.wait(60)

    handler_of(handle)
    for number in range(20):
        add(f"before {number}")
    add("slow")
    for number in range(20):
        add(f"behind {number}")
    with executing(threads=1) as executor:
        assert slow.wait(30)
        wait_until(lambda: Task.objects.filter(status=TaskStatus.PENDING).count() == 20)
        assert executor.capacity.unfinished == 1
        go_on.set()
        wait_until(lambda: not Task.objects.exists())
    assert TaskRun.objects.filter(attempt=1, outcome=RunOutcome.DONE).count() == 41


def test_a_run_that_outlasts_the_watchdogs_patience_ends_the_stop() -> None:
    """The watchdog, which gives back what waits for too long, must leave alone what tells the workers to end."""
    started, go_on = Event(), Event()

    def handle(task: Any) -> None:
        started.set()
        go_on.wait(60)

    handler_of(handle)
    add()
    with executing(threads=2, shutdown_timeout=60.0) as executor:
        assert started.wait(30)
        executor.queue._last_taken -= 100
        stopping = start_thread(executor.stop)
        wait_until(lambda: len(executor.queue) == 1)
        executor._watch()
        assert len(executor.queue) == 1
        go_on.set()
        assert stopping.result()


def test_too_many_hanging_threads_wear_the_process_out() -> None:
    hang = Event()
    handler_of(lambda task: hang.wait(60) and None, timeout=0.1, max_attempts=1)
    for number in range(3):
        add(str(number))
    with executing(threads=1, max_lost_threads=2) as executor:
        assert executor.worn_out.wait(30)
        assert Task.objects.filter(status=TaskStatus.FAILED).count() >= 2
        hang.set()


def test_declared_dead_it_continues_under_a_new_id() -> None:
    ran = Event()
    handler_of(lambda task: ran.set())
    with executing(heartbeat=0.1, lease=10.0) as executor:
        first = executor.lease.executor
        Executor.objects.filter(id=first).update(alive=None)
        wait_until(lambda: executor.lease.executor != first and clock.monotonic() < executor.lease.claims_until)
        add()
        assert ran.wait(30)
    assert Executor.objects.filter(name="executing").count() == 2


def test_replaced_under_its_name_it_asks_to_be_restarted() -> None:
    with executing(heartbeat=0.1, lease=10.0, name="twice") as executor:
        with transaction.atomic():  # or the heartbeat may be quicker
            Executor.objects.update(alive=None)
            registered("twice")
        assert executor.worn_out.wait(30)


@pytest.mark.parametrize(
    ("name", "seconds"), [("heartbeat", 61.0), ("poller", 61.0), ("settler", 61.0), ("housekeeping", 601.0)]
)
def test_a_thread_without_an_answer_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str, seconds: float) -> None:
    with executing() as executor:
        parts = (executor._beating, executor._polling, executor._housekeeping, executor.settler)
        [part] = [part for part in parts if part.name == name]
        monkeypatch.setattr(part, "busy_for", lambda: seconds - 2.0)
        assert executor.health.trouble() == ""
        monkeypatch.setattr(part, "busy_for", lambda: seconds)
        executor._watch()
        assert executor.worn_out.is_set()
        assert f"{name} gets no answer" in executor.health.trouble()


def test_a_claim_of_an_earlier_life_is_not_started() -> None:
    """Claimed in the name of an id that was declared dead before the claim was written."""
    ran: list[Any] = []
    handler_of(ran.append)
    add()
    [task] = claim(registered("earlier life"))
    with executing() as executor:
        executor.held.add([task])
        executor.queue.put([task])
        wait_until(lambda: ran)
        assert [task.executor for task in ran] == [executor.lease.executor]


def test_doubted_claims_are_released_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []
    handler_of(ran.append)
    renewed = Event()

    class Announced(Lease):
        def renew(self) -> bool:
            if renewed.is_set():  # as the executor stops; it would trust the lease again
                return True
            is_ours = super().renew()
            renewed.set()
            return is_ours

    monkeypatch.setattr(module, "Lease", Announced)
    with executing(heartbeat=100.0, lease=300.0) as executor:
        assert renewed.wait(30)  # by the first beat, after which no other one gives the trust back
        monkeypatch.setattr(executor.lease, "trusted_until", NEVER)
        add()
        wait_until(lambda: Task.objects.get().version >= 2)
        monkeypatch.setattr(executor.lease, "claims_until", NEVER)
    assert ran == []
    assert Task.objects.get().attempts == 0


def test_a_handler_that_leaves_a_transaction_open_harms_no_other() -> None:
    done: list[str] = []

    def handle(task: Any) -> None:
        if task.biz_num == "1":
            transaction.set_autocommit(False)
            Executor.objects.filter(id=-1).exists()
        else:
            assert connection.get_autocommit()
            done.append(task.biz_num)

    handler_of(handle, max_attempts=1)
    for number in range(1, 4):
        add(str(number))
    with executing(threads=1, drain=True) as executor:
        assert executor.drained.wait(30)
    assert sorted(done) == ["2", "3"]


def test_start_and_shutdown_in_this_process() -> None:
    ran = Event()
    handler_of(lambda task: ran.set())
    start(name="mine", threads=1)
    try:
        with pytest.raises(TaskException, match="already"):
            start()
        add()
        assert ran.wait(30)
    finally:
        shutdown()
    assert not Executor.objects.filter(alive=True).exists()
    shutdown()


def test_nothing_of_an_abandoned_run_counts_later() -> None:
    handler_of(lambda task: None)
    add()
    [task] = claim(registered())
    settle("default", [Settlement(task.claim, RunOutcome.RETRIED, NextState.RETRY)])
    assert settle("default", [Settlement(task.claim, RunOutcome.DONE, NextState.GONE)]).became == {}
    assert Task.objects.get().status == TaskStatus.PENDING
