"""The settler: natural batches, and what cannot be written."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from django.conf import settings
from django.db import DataError, OperationalError, connection

from django_delayed_tasks import Interval
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.executor.settling import settler as settler_module
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import NextState, RunOutcome, TaskStatus
from django_delayed_tasks.store.schedules.verbs import cancel
from django_delayed_tasks.store.settling.settle import Wait, settle
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql import kept_connections, transactions
from django_delayed_tasks.store.sql.fences import Claim
from django_delayed_tasks.store.sql.portions import PORTION
from tests.executor.failure_reports import Told
from tests.executor.parts import add, claim, claim_one, held_with, registered
from tests.executor.settling.writing import settle_all, settler_of
from tests.waiting import wait_until

OPTIONS = ExecutorOptions()
BREAK = {"mysql": "KILL CONNECTION_ID()", "postgresql": "SELECT pg_terminate_backend(pg_backend_pid())"}

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.per_database]


def done(claim: Claim, **fields: Any) -> Settlement:
    return Settlement(claim, RunOutcome.DONE, NextState.GONE, **fields)


def answering(answers: list[Any]) -> Callable[..., Any]:
    """``settle`` that takes one after the other: raises it, or calls it."""

    def answer(alias: str, batch: list[Settlement], wait: Wait) -> Any:
        next_one = answers.pop(0)
        if isinstance(next_one, BaseException):
            raise next_one
        return next_one(alias, batch, wait)

    return answer


def test_settles_all_that_is_put_before_it_ends() -> None:
    for number in range(50):
        add(str(number))
    tasks = claim(registered())
    held = held_with(OPTIONS)
    held.add(tasks)
    settler = settler_of(held)
    for task in tasks:
        held.put_end(done(task.claim))
    settler.start()
    assert settler.finish(timeout=30)
    assert TaskRun.objects.count() == 50
    assert len(held) == 0


def test_batches_are_natural_and_bounded() -> None:
    held = held_with(OPTIONS)
    settler = settler_of(held)
    for number in range(PORTION + 3):
        held.put_end(done(Claim(number, 1, 1)))
    assert [len(settler._next_batch()), len(settler._next_batch())] == [PORTION, 3]


def test_what_cannot_be_written_fails_visibly_and_alone() -> None:
    for number in range(3):
        add(str(number))
    first, second, third = claim(registered())
    settler = settler_of(held_with(OPTIONS))
    settler.settle([done(first.claim), done(second.claim, result="{no json"), done(third.claim)])
    task = Task.objects.get()
    assert (task.id, task.status) == (second.id, TaskStatus.FAILED)
    assert "could not be written" in task.last_error
    assert TaskRun.objects.filter(outcome=RunOutcome.DONE).count() == 2


def test_a_recurring_task_whose_end_cannot_be_written_recurs() -> None:
    task = claim_one(trigger=Interval(hours=1), when=timedelta())
    when = task.when + timedelta(hours=1)
    settler_of(held_with(OPTIONS)).settle(
        [done(task.claim, result="{no json")._replace(then=NextState.RECUR, when=when)]
    )
    row = Task.objects.get()
    assert (row.status, row.when) == (TaskStatus.PENDING, when)
    assert TaskRun.objects.get().outcome == RunOutcome.FAILED
    assert "could not be written" in row.last_error


@pytest.mark.parametrize(
    ("outcome", "then"), [(RunOutcome.RESCHEDULED, NextState.AGAIN), (RunOutcome.RETRIED, NextState.RETRY)]
)
def test_also_if_it_was_to_run_again_for_the_same_time(outcome: RunOutcome, then: NextState) -> None:
    task = claim_one(trigger=Interval(hours=1), when=timedelta())
    held = held_with(OPTIONS)
    held.add([task])
    again = Settlement(task.claim, outcome, then, task.when, task.when, timedelta(minutes=1), result="{no json")
    settler_of(held).settle([again._replace(stood_for=task.when)])
    row = Task.objects.get()
    assert (row.status, row.when) == (TaskStatus.PENDING, task.when + timedelta(hours=1))
    run = TaskRun.objects.get()
    assert (run.outcome, run.when) == (RunOutcome.FAILED, task.when)
    assert "could not be written" in row.last_error


def test_but_not_one_without_a_trigger_that_can_be_read() -> None:
    task = claim_one(trigger=Interval(hours=1), when=timedelta())
    task._trigger_text, task._trigger = "no trigger", None
    held = held_with(OPTIONS)
    held.add([task])
    settler_of(held).settle([done(task.claim, result="{no json")])
    assert Task.objects.get().status == TaskStatus.FAILED


def test_an_outage_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    task = claim_one()
    answers: list[Any] = [OperationalError(2006, "gone away"), OperationalError(2006, "gone away"), settle]
    monkeypatch.setattr(settler_module, "settle", answering(answers))
    settle_all(held_with(OPTIONS), [done(task.claim)])
    assert answers == []
    assert TaskRun.objects.count() == 1


def test_how_long_an_answer_is_owed(monkeypatch: pytest.MonkeyPatch) -> None:
    task = claim_one()
    go_on = Event()

    def slow(alias: str, batch: list[Settlement], wait: Wait) -> Any:
        assert go_on.wait(60)
        return settle(alias, batch, wait)

    monkeypatch.setattr(settler_module, "settle", slow)
    held = held_with(OPTIONS)
    settler = settler_of(held)
    settler.start()
    wait_until(lambda: settler.busy_for() == 0)
    held.put_end(done(task.claim))
    wait_until(lambda: settler.busy_for() > 0)
    go_on.set()
    assert settler.finish(timeout=60)
    assert settler.busy_for() == 0


def test_what_cannot_be_written_fails_visibly_also_after_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    task = claim_one()
    answers: list[Any] = [DataError("too long"), OperationalError(2006, "gone away"), settle]
    monkeypatch.setattr(settler_module, "settle", answering(answers))
    held = held_with(OPTIONS)
    held.add([task])
    failures = Told()
    settler = settler_of(held, failures)
    held.put_end(done(task.claim))
    settler.start()
    assert settler.finish(timeout=60)
    assert Task.objects.get().status == TaskStatus.FAILED
    assert len(held) == 0
    assert failures.told == [(task, "the settlement could not be written: too long")]


def test_it_tells_of_a_failure_that_was_written_and_of_no_other() -> None:
    for number in range(3):
        add(str(number))
    tasks = claim(registered())
    held = held_with(OPTIONS)
    held.add(tasks)
    cancel("default", "code", tasks[1].biz_num)
    settle("default", [Settlement(tasks[2].claim, RunOutcome.LOST, NextState.RESCUED)])
    failures = Told()
    settler = settler_of(held, failures)
    settler.settle([Settlement(task.claim, RunOutcome.FAILED, NextState.FAILED, error="no") for task in tasks])
    assert failures.told == [(tasks[0], "no")]


def test_a_settlement_whose_claim_is_gone_writes_nothing() -> None:
    task = claim_one()
    settle("default", [Settlement(task.claim, RunOutcome.LOST, NextState.RESCUED)])
    before = list(Task.objects.values())
    settler_of(held_with(OPTIONS)).settle([done(task.claim)])
    assert list(Task.objects.values()) == before
    assert TaskRun.objects.get().outcome == RunOutcome.LOST


def test_a_node_without_its_cluster_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses all that reads or writes tables, and each try ends with another connection: no batch is to blame."""
    task = claim_one()
    refusals = iter(range((settler_module.MAX_BREAKS + 1) * transactions.TRIES))

    def refusing(alias: str, batch: list[Settlement], wait: Wait) -> Any:
        def refuse(cursor: Any) -> None:
            if next(refusals, None) is not None:
                raise OperationalError(1047, "WSREP has not yet prepared node for application use")

        transactions.atomically(alias, refuse)
        return settle(alias, batch, wait)

    monkeypatch.setattr(settler_module, "settle", refusing)
    monkeypatch.setattr(transactions, "pause", lambda attempt: 0.0)
    settle_all(held_with(OPTIONS), [done(task.claim)])
    assert not Task.objects.exists()
    assert TaskRun.objects.get().outcome == RunOutcome.DONE


class TestBreakingConnections:
    """A batch that breaks each connection within its transaction, at whose end Django makes a new one by itself."""

    __test__ = settings.DDT_DATABASE != "sqlite"

    def test_is_settled_apart(self, monkeypatch: pytest.MonkeyPatch) -> None:
        add("1")
        add("2")
        tasks = claim(registered())
        tries: list[int] = []

        def breaking(alias: str, batch: list[Settlement], wait: Wait) -> Any:
            tries.append(len(batch))
            if len(batch) > 1:
                transactions.atomically(alias, lambda cursor: cursor.execute(BREAK[connection.vendor]))
            return settle(alias, batch, wait)

        monkeypatch.setattr(settler_module, "settle", breaking)
        held = held_with(OPTIONS)
        settler = settler_of(held)
        for task in tasks:
            held.put_end(done(task.claim))
        losses = kept_connections.losses
        settler.start()
        assert settler.finish(timeout=60)
        assert tries == [2] * settler_module.MAX_BREAKS + [1, 1]
        assert kept_connections.losses - losses == settler_module.MAX_BREAKS
        assert not Task.objects.exists()


class TestLongestStatement:
    """MariaDB and MySQL break the connection at a statement that is longer than they allow."""

    __test__ = settings.DDT_DATABASE in ("mariadb", "mysql")

    @pytest.fixture
    def half_a_megabyte(self) -> Iterator[None]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@GLOBAL.max_allowed_packet")
            [(before,)] = cursor.fetchall()
            cursor.execute("SET GLOBAL max_allowed_packet = 524288")
            yield
            cursor.execute(f"SET GLOBAL max_allowed_packet = {before}")

    @pytest.mark.usefixtures("half_a_megabyte")
    def test_a_batch_that_is_too_long_is_settled_apart(self) -> None:
        for number in range(40):
            add(str(number))
        tasks = claim(registered())
        held = held_with(OPTIONS)
        held.add(tasks)
        settler = settler_of(held)
        for task in tasks:
            held.put_end(done(task.claim, result=f'"{"x" * 60_000}"'))
        settler.start()
        assert settler.finish(timeout=60)
        assert TaskRun.objects.filter(outcome=RunOutcome.DONE).count() == 40
        assert not Task.objects.exists()
