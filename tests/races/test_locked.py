"""A caller's long transaction has one task locked: the others are claimed, settled and reaped, and it is afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest
from django.conf import settings
from django.db import connection, transaction

from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.settling.settler import ProgressReports
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.claiming import compare_and_set
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.reap import reap
from django_delayed_tasks.store.settling.settle import Wait, settle
from django_delayed_tasks.store.settling.settlement import Settlement
from tests.deaths import crash
from tests.executor.parts import add, claim, held_with, registered
from tests.executor.settling.writing import settler_of
from tests.threads import in_thread, start_thread
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

# SQLite has one lock for all: each writer waits.
__test__ = settings.DDT_DATABASE != "sqlite"


@contextmanager
def locked_by_a_caller(num: str) -> Iterator[None]:
    """Another transaction has just changed this task, and stays open."""
    has_locked, may_end = Event(), Event()

    def hold() -> None:
        with transaction.atomic():
            add(num=num, biz_ext="from outside")
            has_locked.set()
            assert may_end.wait(60)

    thread = start_thread(hold)
    assert has_locked.wait(30)
    try:
        yield
    finally:
        may_end.set()
        thread.result()


def claimed(*nums: str) -> list[ClaimedTask]:
    for num in nums:
        add(num=num)
    return claim(registered())


def numbers_left() -> set[str]:
    return set(Task.objects.values_list("biz_num", flat=True))


@pytest.mark.parametrize("outcome", [(RunOutcome.DONE, NextState.GONE), (RunOutcome.RETRIED, NextState.RETRY)])
def test_the_settler_continues_with_the_others(outcome: tuple[RunOutcome, NextState]) -> None:
    tasks = claimed("a", "b", "c")
    held = held_with(ExecutorOptions())
    held.add(tasks)
    settler = settler_of(held)
    settler.start()
    with locked_by_a_caller("b"):
        for task in tasks:
            held.put_end(Settlement(task.claim, *outcome))
        wait_until(lambda: {task.biz_num for task in held.tasks()} == {"b"})
        assert set(TaskRun.objects.values_list("biz_num", flat=True)) == {"a", "c"}
    assert settler.finish(timeout=30)
    assert set(TaskRun.objects.values_list("biz_num", flat=True)) == {"a", "b", "c"}
    last = Task.objects.get(biz_num="b")
    assert (last.status, last.biz_ext) == (TaskStatus.PENDING, "from outside")
    assert len(held) == 0


def test_the_settler_may_be_ended_meanwhile() -> None:
    [task] = tasks = claimed("a")
    held = held_with(ExecutorOptions())
    held.add(tasks)
    settler = settler_of(held)
    settler.start()
    with locked_by_a_caller("a"):
        held.put_end(Settlement(task.claim, RunOutcome.DONE, NextState.GONE))
        assert not settler.finish(timeout=3)
        wait_until(lambda: not settler.is_alive)
    assert Task.objects.get().status == TaskStatus.RUNNING


def test_what_waits_is_told_from_what_is_gone() -> None:
    gone, locked, free = claimed("a", "b", "c")
    settle("default", [Settlement(gone.claim, RunOutcome.DONE, NextState.GONE)])
    with locked_by_a_caller("b"):
        ends = [Settlement(task.claim, RunOutcome.DONE, NextState.GONE) for task in (gone, locked, free)]
        assert settle("default", ends, Wait.A_SECOND)[:2] == ({free.claim: NextState.GONE}, {locked.claim})


def test_the_settler_waits_no_longer_for_the_history() -> None:
    """An index is being made on it, say: the settlements have to wait, and the settler's thread is not stuck."""
    [task] = claimed("a")
    ends = [Settlement(task.claim, RunOutcome.DONE, NextState.GONE)]
    with history_locked():
        ended = start_thread(lambda: settle("default", ends, Wait.A_SECOND)).result(timeout=20)
        assert ended[:2] == ({}, {task.claim})
    assert settle("default", ends, Wait.A_SECOND)[:2] == ({task.claim: NextState.GONE}, set())


@contextmanager
def history_locked() -> Iterator[None]:
    """Lock the history against writers; others can read it."""
    lock, unlock = {
        "postgresql": ("LOCK TABLE {} IN SHARE MODE", "SELECT 1"),
        "mysql": ("LOCK TABLES {} READ", "UNLOCK TABLES"),
    }[connection.vendor]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(lock.format(TaskRun._meta.db_table))
        yield
        cursor.execute(unlock)


def test_the_reaper_takes_the_others() -> None:
    tasks = claimed("a", "b", "c")
    crash(tasks[0].executor)
    with locked_by_a_caller("b"):
        assert set(reap("default", 3)) == {task.claim for task in tasks if task.biz_num != "b"}
    assert set(reap("default", 3).values()) == {NextState.AGAIN}  # at the schedule that the caller gave it
    assert not Task.objects.filter(status=TaskStatus.RUNNING).exists()
    assert numbers_left() == {"a", "b", "c"}


def test_progress_is_written_of_the_others() -> None:
    tasks = claimed("a", "b", "c")
    held = held_with(ExecutorOptions())
    held.add(tasks)
    reports = ProgressReports("default", held)
    for task in tasks:
        task.progress(0.5)
    with locked_by_a_caller("b"):
        reports.write()
        assert set(Task.objects.exclude(progress_at=None).values_list("biz_num", flat=True)) == {"a", "c"}
    tasks[0].progress(0.6)
    reports.write()
    assert list(Task.objects.order_by("biz_num").values_list("progress_fraction", flat=True)) == [0.6, 0.5, 0.5]


def test_the_others_are_claimed(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Without waiting for the end of that transaction; the second time without waiting at all."""
    monkeypatch.setattr(compare_and_set, "LOCK_WAIT", 1)
    monkeypatch.setattr(compare_and_set, "AVOID", 600.0)
    monkeypatch.setattr(compare_and_set, "_avoiding_until", {})
    for num in "abc":
        add(num=num)
    executor = registered()
    with locked_by_a_caller("b"):
        assert [task.biz_num for task in in_thread(lambda: claim(executor))] == ["a", "c"]
        add(num="d")
        monkeypatch.setattr(compare_and_set, "LOCK_WAIT", 600)
        assert [task.biz_num for task in in_thread(lambda: claim(executor))] == ["d"]
        assert in_thread(lambda: claim(executor)) == []
    if connection.vendor == "mysql":
        assert "another transaction has kept due tasks locked" in caplog.text
    assert [task.biz_num for task in in_thread(lambda: claim(executor))] == ["b"]
