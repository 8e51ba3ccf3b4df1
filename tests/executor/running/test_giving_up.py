"""A run is given up for lost once: either its worker notes how it ended, or the watchdog does."""

from datetime import timedelta
from threading import Event, current_thread
from typing import Any

import pytest
from django.db import connection

from django_delayed_tasks import Interval, clock
from django_delayed_tasks.exceptions import ClaimLost
from django_delayed_tasks.executor.running.current_run import CurrentRun
from django_delayed_tasks.executor.threads import crew
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome, TaskStatus
from django_delayed_tasks.store.sql import kept_connections
from django_delayed_tasks.store.sql.tables import TASK
from tests.executor.batches import batched
from tests.executor.parts import Bench, add, claim, drain, executing, handler_of
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_was_given_up_before_it_began_does_not_begin(bench: Bench) -> None:
    """Its thread waited for a connection for longer than the run may take; another one may run the task by now."""
    ran: list[Any] = []
    handler_of(ran.append)
    add()
    running = CurrentRun(claim(bench.lease.executor), began=0.0)
    bench.held.add(running.tasks)
    assert running.abandon()
    bench.performer.perform(running)
    assert (ran, bench.released) == ([], [])


def refuse_two(tasks: list[Any]) -> None:
    """A batch of which each task is to be run alone."""
    assert len(tasks) == 1


@pytest.mark.parametrize("is_batch", [False, True])
def test_a_worker_that_hangs_after_its_run_has_ended_is_replaced(
    is_batch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose connection does not answer when it looks after it."""
    hangs, go_on = Event(), Event()

    def tidy(own: kept_connections.OfThread, who: object) -> None:
        if current_thread().name == "worker-1":
            hangs.set()
            assert go_on.wait(60)

    monkeypatch.setattr(kept_connections.OfThread, "tidy", tidy)
    if is_batch:
        batched(refuse_two, timeout=1)
    else:
        handler_of(lambda task: None, timeout=1)
    add("1")
    add("2")
    with executing(threads=1) as executor:
        try:
            assert hangs.wait(60)
            wait_until(lambda: len(executor.workers.lost()) == 1)
            add("3")
            wait_until(lambda: TaskRun.objects.count() == 3)
            assert set(TaskRun.objects.values_list("outcome", flat=True)) == {RunOutcome.DONE}
        finally:
            go_on.set()
        wait_until(lambda: len(executor.workers.lost()) == 0)


@pytest.fixture
def no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error around the next run.

    As one of a database's backend, when a thread that was idle looks after its connections.
    """
    errors = [RuntimeError("no connection")]

    def refresh(own: kept_connections.OfThread, was_idle: bool) -> None:
        if errors:
            raise errors.pop()

    monkeypatch.setattr(crew, "IDLE", -1.0)
    monkeypatch.setattr(kept_connections.OfThread, "refresh", refresh)


def test_an_error_around_the_run_leaves_no_task_claimed(no_connection: None) -> None:
    handler_of(lambda task: None)
    add()
    with executing(threads=1) as executor:
        wait_until(lambda: not Task.objects.exists())
        wait_until(lambda: not len(executor.held))
    assert list(TaskRun.objects.order_by("id").values_list("attempt", "outcome")) == [
        (1, RunOutcome.LOST),
        (1, RunOutcome.DONE),
    ]
    assert "no connection" in TaskRun.objects.order_by("id")[0].error


@pytest.mark.parametrize("max_rescues", [0, 5])
def test_the_executors_own_option_says_how_often(max_rescues: int, no_connection: None) -> None:
    """The setting is 3."""
    handler_of(lambda task: None)
    add()
    Task._base_manager.update(rescues=max_rescues)
    drain(threads=1, max_rescues=max_rescues)
    assert Task.objects.get().status == TaskStatus.FAILED


@pytest.mark.parametrize("max_rescues", [0, 5])
def test_so_it_does_for_a_run_that_is_told_that_its_claim_is_gone(max_rescues: int) -> None:
    def handle(task: Any) -> None:
        raise ClaimLost("gone")

    handler_of(handle)
    add()
    Task._base_manager.update(rescues=max_rescues)
    drain(threads=1, max_rescues=max_rescues)
    assert Task.objects.get().status == TaskStatus.FAILED


def test_and_it_is_rescued_up_to_that_often() -> None:
    def handle(task: Any) -> None:
        raise ClaimLost("gone")

    handler_of(handle)
    add()
    Task._base_manager.update(rescues=4)
    drain(threads=1, max_rescues=5)
    row = Task.objects.get()
    assert (row.status, row.rescues) == (TaskStatus.PENDING, 5)


@pytest.mark.parametrize("is_extra", [False, True])
def test_a_recurring_task_without_rescues_continues_with_its_next_time(
    is_extra: bool, no_connection: None, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []
    handler_of(lambda task: None, on_failed=lambda self, task, error: told.append(error))
    add(trigger=Interval(hours=1), when=timedelta(minutes=30) if is_extra else timedelta())
    planned = Task.objects.get().when
    if is_extra:
        Task._base_manager.update(claim_at=clock.host_now() - timedelta(seconds=1))  # as "run now" does
    Task._base_manager.update(rescues=3)
    drain(threads=1)
    row = Task.objects.get()
    assert row.status == TaskStatus.PENDING
    assert row.when == planned if is_extra else row.when > clock.host_now() + timedelta(minutes=30)
    assert "no connection" in row.last_error
    assert [error for error in told if "no connection" in error] == told != []
    [record] = [record for record in caplog.records if record.name == "django_delayed_tasks.run"]
    assert (record.levelname, record.getMessage()) == (
        "ERROR", "code 1 failed for good this time; it recurs: RuntimeError: no connection",
    )  # fmt: skip


def test_nor_does_one_whose_trigger_cannot_be_read_end_the_worker(no_connection: None) -> None:
    handler_of(lambda task: None)
    add(trigger=Interval(hours=1), when=timedelta())
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {TASK} SET rescues = 3, trigger_text = 'no trigger'")
    with executing(threads=1) as executor:
        wait_until(lambda: Task.objects.get().status == TaskStatus.FAILED)
        assert executor.workers.threads[0].is_alive()
