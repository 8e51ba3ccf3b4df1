"""The settler: a settlement that cannot be written now is written later, whatever the reason was."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from django.db import DataError, InterfaceError, OperationalError, connections
from django.db.models import F

from django_delayed_tasks import clock, signals
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.settling import settler as settler_module
from django_delayed_tasks.executor.settling.failure_reports import FailureReports
from django_delayed_tasks.executor.threads import loop
from django_delayed_tasks.executor.threads.loop import Backoff
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settle import SettleResult, Wait, settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql import kept_connections
from tests.executor.parts import add, claim, drain, handler_of, held_with, registered
from tests.executor.settling.test_settler import OPTIONS, answering, done
from tests.executor.settling.writing import settle_all, settle_rest, settler_of
from tests.threads import start_thread
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]

GONE_AWAY = OperationalError(2006, "gone away")


def break_connection(alias: str, batch: list[Settlement], wait: Wait) -> Any:
    """Fail like ``settle`` on a connection that it then gives up."""
    kept_connections.discard(connections[alias])
    raise GONE_AWAY


def holding(*nums: str) -> tuple[list[ClaimedTask], Held]:
    """Claimed tasks, and the claims of the process that holds them."""
    for num in nums:
        add(num)
    tasks = claim(registered())
    held = held_with(OPTIONS)
    held.add(tasks)
    return tasks, held


def all_locked(alias: str, batch: list[Settlement], wait: Wait) -> SettleResult:
    """Another transaction has locked the rows: what ``settle`` answers then."""
    return SettleResult({}, {settlement.claim for settlement in batch})


def test_what_ends_after_it_was_told_to_finish_is_settled_too() -> None:
    [task], held = holding("a")
    held.ended.put(None)
    held.put_end(done(task.claim))
    held.ended.put(None)
    settle_rest(settler_of(held))
    assert TaskRun.objects.get().outcome == RunOutcome.DONE
    assert len(held) == 0


def test_a_batch_is_settled_after_the_settler_itself_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that is no answer of the database comes out of the attempt: it must not take the batch with it."""
    tasks, held = holding("a", "b")
    answers: list[Any] = [SystemExit("not an answer"), settle]
    monkeypatch.setattr(settler_module, "settle", answering(answers))
    settler = settler_of(held)
    for task in tasks:
        held.put_end(done(task.claim))
    settle_rest(settler)
    assert answers == []
    assert TaskRun.objects.filter(outcome=RunOutcome.DONE).count() == 2
    assert len(held) == 0


def test_and_after_the_look_at_its_connection_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    [task], held = holding("a")
    answers: list[Any] = [break_connection, settle]
    monkeypatch.setattr(settler_module, "settle", answering(answers))

    def fail(connection: Any) -> Any:
        raise InterfaceError("the driver cannot tell")

    monkeypatch.setattr(settler_module, "access_to", fail)
    settler = settler_of(held)
    held.put_end(done(task.claim))
    settle_rest(settler)
    assert TaskRun.objects.get().outcome == RunOutcome.DONE


def test_a_failure_that_cannot_be_told_is_settled_all_the_same() -> None:
    """It was written; that its claim has ended must be known here too."""
    [task], held = holding("a")

    class Full(FailureReports):
        def put(self, task: ClaimedTask, error: str, exception: BaseException | None = None) -> None:
            raise RuntimeError("nowhere to put it")

    settler = settler_of(held, Full("default"))
    held.put_end(Settlement(task.claim, RunOutcome.FAILED, NextState.FAILED, error="no"))
    settle_rest(settler)
    assert Task.objects.get().status == TaskStatus.FAILED
    assert len(held) == 0


def test_of_two_batches_that_have_to_wait_both_are_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, held = holding("a", "b", "c")
    settler = settler_of(held)
    with monkeypatch.context() as patch:
        patch.setattr(settler_module, "settle", all_locked)
        settler.settle([done(tasks[0].claim), done(tasks[1].claim)])
        settler.settle([done(tasks[2].claim)])
    settle_rest(settler)
    assert TaskRun.objects.filter(outcome=RunOutcome.DONE).count() == 3
    assert len(held) == 0


def test_the_last_batch_is_settled_although_it_has_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken together with what tells the settler to end."""
    tasks, held = holding("a", "b")
    go_on = Event()

    def first(alias: str, batch: list[Settlement], wait: Wait) -> Any:
        assert go_on.wait(60)
        return settle(alias, batch, wait)

    answers: list[Any] = [first, all_locked, settle]
    monkeypatch.setattr(settler_module, "settle", answering(answers))
    settler = settler_of(held)
    settler.start()
    held.put_end(done(tasks[0].claim))
    wait_until(lambda: len(answers) == 2)
    held.put_end(done(tasks[1].claim))
    ending = start_thread(lambda: settler.finish(timeout=60))
    wait_until(lambda: held.ended.qsize() == 2)
    go_on.set()
    assert ending.result(timeout=90)
    assert (answers, len(held)) == ([], 0)


def test_what_has_to_wait_is_still_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The executor must not take it for ended: a look for forgotten claims would release it."""
    [task], held = holding("a")
    settler = settler_of(held)
    monkeypatch.setattr(settler_module, "settle", all_locked)
    settler.settle([done(task.claim)])
    assert task.claim in held


def test_it_is_tried_again_after_half_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    [task], held = holding("a")
    settler = settler_of(held)
    now = clock.monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    monkeypatch.setattr(settler_module, "settle", all_locked)
    settler.settle([done(task.claim)])
    monkeypatch.setattr(clock, "monotonic", lambda: now + 0.4)
    assert settler._take_locked() == []
    monkeypatch.setattr(clock, "monotonic", lambda: now + 0.6)
    assert settler._take_locked() == [done(task.claim)]
    assert settler._take_locked() == []


class TestRowsThatStayLocked:
    def test_the_log_has_one_line_and_then_one_a_minute(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        tasks, held = holding("a", "b")
        settler, at = settler_of(held), clock.monotonic()
        answers = [all_locked] * 4 + [settle]
        monkeypatch.setattr(settler_module, "settle", answering(answers))
        for seconds in (0.0, 2.5, 59.0, 61.0, 130.0):
            monkeypatch.setattr(clock, "monotonic", lambda now=at + seconds: now)
            settler.settle(settler._take_locked() or [done(task.claim) for task in tasks])
        said = [record.getMessage() for record in caplog.records if record.name.endswith(".settler")]
        why = "because another transaction has locked the row, or the database accepts no writes; trying again: "
        assert said == [
            f"2 runs have ended, but their ends cannot be written, {why}{tasks[0]}, {tasks[1]}",
            f"2 runs have ended, but their ends cannot be written for 61 s, {why}{tasks[0]}, {tasks[1]}",
        ]
        assert (answers, len(held)) == ([], 0)

    def test_the_next_ones_are_counted_from_their_own_end(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        tasks, held = holding("a", "b")
        settler, at = settler_of(held), clock.monotonic()
        monkeypatch.setattr(settler_module, "settle", answering([all_locked, settle, all_locked]))
        for seconds, task in ((0.0, tasks[0]), (1.0, tasks[0]), (100.0, tasks[1])):
            monkeypatch.setattr(clock, "monotonic", lambda now=at + seconds: now)
            settler.settle(settler._take_locked() or [done(task.claim)])
        said = [record.getMessage() for record in caplog.records if record.name.endswith(".settler")]
        assert [line.partition(",")[0] for line in said] == ["1 run has ended"] * 2
        assert said[1].endswith(f"its end cannot be written, because another transaction has locked the row, or the "
                                f"database accepts no writes; trying again: {tasks[1]}")  # fmt: skip


def test_claims_that_were_lost_are_named_by_their_tasks(caplog: pytest.LogCaptureFixture) -> None:
    tasks, held = holding("a", "b")
    Task.objects.update(version=F("version") + 1)
    settle_all(held, [done(task.claim) for task in tasks])
    said = [record.getMessage() for record in caplog.records]
    lost = f"2 claims were lost before their runs ended, so the tasks may run again: {tasks[0]}, {tasks[1]}"
    assert said == [lost]


def test_a_failure_that_cannot_be_written_yet_is_not_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two in turn that the database refuses, and goes away before it hears of the failure."""
    tasks, held = holding("a", "b")
    refused = DataError("too long")
    answers: list[Any] = [refused, GONE_AWAY, refused, GONE_AWAY]
    settler = settler_of(held)
    with monkeypatch.context() as patch:
        patch.setattr(settler_module, "settle", answering(answers))
        for task in tasks:
            settler.settle([done(task.claim)])
    settle_rest(settler)
    assert list(Task.objects.values_list("status", flat=True)) == [TaskStatus.FAILED] * 2


def test_an_outage_is_no_batch_that_breaks_connections(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However many connections it costs: the database answers on none of them. Its begin and its end are logged."""
    [task], held = holding("a")
    answers: list[Any] = [*[break_connection] * (2 * settler_module.MAX_BREAKS), settle]
    monkeypatch.setattr(settler_module, "settle", answering(answers))
    monkeypatch.setattr(loop, "Backoff", lambda: Backoff(0.001, 0.001))
    monkeypatch.setattr(settler_module, "access_to", lambda connection: kept_connections.Access.NONE)
    settle_all(held, [done(task.claim)])
    assert TaskRun.objects.get().outcome == RunOutcome.DONE
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"settler backs off: {GONE_AWAY}", "settler continues"]


class TestOutageThatOutlastsTheStop:
    @pytest.fixture
    def away(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
        """The database is away until the event is set."""
        is_back = Event()

        def fail(alias: str, batch: list[Settlement], wait: Wait) -> Any:
            if is_back.is_set():
                return settle(alias, batch, wait)
            raise GONE_AWAY

        monkeypatch.setattr(settler_module, "settle", fail)
        yield is_back
        is_back.set()

    @pytest.mark.usefixtures("away")
    def test_the_thread_gives_up(self) -> None:
        """A process that was told to end no longer writes when its successor does."""
        [task], held = holding("a")
        settler = settler_of(held)
        settler.start()
        held.put_end(done(task.claim))
        wait_until(lambda: settler._backoff.failures)
        assert not settler.finish(timeout=0.01)
        wait_until(lambda: not settler.is_alive)
        assert Task.objects.get().status == TaskStatus.RUNNING

    @pytest.mark.usefixtures("away")
    def test_what_was_not_settled_does_not_count(self) -> None:
        [task], held = holding("a")
        settler = settler_of(held)
        settler.start()
        held.put_end(done(task.claim))
        settler.finish(timeout=0.01)
        wait_until(lambda: not settler.is_alive)
        assert held.settled == 0
        assert task.claim in held


def test_and_tells_of_failures_though_an_end_cannot_be_counted(caplog: pytest.LogCaptureFixture) -> None:
    """A handler may leave anything in its task: what is only counted must not stop what follows a settlement."""
    told: list[str] = []

    def spoil(task: Any) -> None:
        if task.biz_num == "a":
            task.when = None
        raise ValueError(task.biz_num)

    def note(task: Any, **_: Any) -> None:
        told.append(task.biz_num)

    handler_of(spoil, max_attempts=1)
    add("a")
    add("b")
    signals.task_failed.connect(note)
    try:
        drain(threads=1)
    finally:
        signals.task_failed.disconnect(note)
    assert sorted(told) == ["a", "b"]
    assert "claims were lost" not in caplog.text
    assert "claim was lost" not in caplog.text
