"""A run is given up for lost once: either its worker notes how it ended, or the watchdog does."""

from threading import Event
from typing import Any

import pytest

from django_delayed_tasks.executor.running import workers
from django_delayed_tasks.executor.running.performer import Performer, Running
from django_delayed_tasks.executor.threads import connections
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import RunOutcome
from tests.executor.parts import Bench, add, claim, executing, handler_of
from tests.threads import start_thread
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_was_given_up_before_it_began_does_not_begin(bench: Bench) -> None:
    """Its thread waited for a connection for longer than the run may take; another one may run the task by now."""
    ran: list[Any] = []
    handler_of(ran.append)
    add()
    running = Running(claim(bench.lease.executor), began=0.0)
    bench.held.add(running.tasks)
    assert running.abandon()
    Performer(bench.lease, bench.held, bench.queue, bench.clock).perform(running)
    assert (ran, bench.released) == ([], [])


def test_a_worker_whose_run_has_just_ended_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take further tasks that the watchdog does not see, beside the thread that replaces it."""
    started, go_on = Event(), Event()

    def handle(task: Any) -> None:
        started.set()
        assert go_on.wait(60)

    handler_of(handle)
    add()
    with executing(threads=1) as executor:
        assert started.wait(60)
        [worker] = executor.pool._workers
        running = worker.running
        assert running
        usual = Running.abandon

        def abandon(running: Running) -> bool:
            go_on.set()
            wait_until(lambda: worker.running is not running)
            return usual(running)

        monkeypatch.setattr(Running, "abandon", abandon)
        assert not start_thread(lambda: executor.pool.abandon(worker, running)).result()
        assert (executor.pool._workers, executor.pool.count_lost()) == ([worker], 0)
        wait_until(lambda: TaskRun.objects.exists())


def test_an_error_around_the_run_leaves_no_task_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of a database's backend, when a thread that was idle looks after its connections."""
    errors = [RuntimeError("no connection")]

    def refresh() -> None:
        if errors:
            raise errors.pop()

    monkeypatch.setattr(workers, "IDLE", -1.0)
    monkeypatch.setattr(connections, "refresh", refresh)
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
