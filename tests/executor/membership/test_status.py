"""An executor writes into its row what it is doing, and logs it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F

from django_delayed_tasks.executor.executor import Executor as ExecutorOfThisProcess
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.models import Executor
from django_delayed_tasks.states import ExecutorStatus
from django_delayed_tasks.store import executors
from tests.executor.parts import add, executing, handler_of
from tests.threads import start_thread
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

RUNNING, STOPPING, STOPPED, CRASHED = ExecutorStatus


@contextmanager
def running() -> Iterator[tuple[ExecutorOfThisProcess, Event]]:
    """An executor with a run in progress, which waits for the event; heartbeats come only when there are news."""
    started, may_end = Event(), Event()

    def handle(task: Any) -> None:
        started.set()
        may_end.wait(30)

    handler_of(handle)
    add()
    with executing(lease=600, heartbeat=200) as executor:
        assert started.wait(30)
        try:
            yield executor, may_end
        finally:
            may_end.set()


def statuses() -> list[tuple[bool | None, int | None]]:
    return list(Executor.objects.order_by("started_at").values_list("alive", "status"))


def declare_dead(executor: ExecutorOfThisProcess) -> None:
    """Do what another executor does when the lease has run out, and let the heartbeat find it."""
    own = executor.lease.executor
    with transaction.atomic():  # before its own housekeeping does it
        Executor.objects.update(expires_at=F("started_at"))
        assert [dead.id for dead in executors.declare_expired_dead("default")] == [own]
    executor.lease.has_news.set()


def test_it_is_stopping_while_it_waits_for_its_runs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "django_delayed_tasks.executor.membership.lease")
    with running() as (executor, may_end):
        assert statuses() == [(True, RUNNING)]
        stopping = start_thread(executor.stop)
        wait_until(lambda: statuses() == [(True, STOPPING)])
        may_end.set()
        assert stopping.result()
        assert statuses() == [(None, STOPPED)]
    said = [record.getMessage() for record in caplog.records if record.name.endswith(".membership.lease")]
    assert said == [f"executor executing {what}" for what in ("started", "is stopping", "stopped")]


def test_one_that_was_taken_for_crashed_runs_under_a_new_row() -> None:
    with running() as (executor, _):
        declare_dead(executor)
        wait_until(lambda: statuses() == [(None, CRASHED), (True, RUNNING)])


def test_one_whose_lease_ran_out_while_it_stops_is_still_stopping() -> None:
    with running() as (executor, may_end):
        stopping = start_thread(executor.stop)
        wait_until(lambda: statuses() == [(True, STOPPING)])
        declare_dead(executor)
        wait_until(lambda: statuses() == [(None, STOPPED), (True, STOPPING)])
        may_end.set()
        stopping.result()
        assert statuses() == [(None, STOPPED), (None, STOPPED)]


def test_an_executor_that_could_not_start_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = ExecutorOfThisProcess(ExecutorOptions(name="failing"))

    def fail() -> None:
        raise RuntimeError

    monkeypatch.setattr(executor.recurrences, "declare", fail)
    with pytest.raises(RuntimeError):
        executor.start()
    assert statuses() == [(None, STOPPED)]
