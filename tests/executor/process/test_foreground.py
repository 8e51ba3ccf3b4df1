"""A drain in the foreground says at its end how many runs there were."""

import signal
from datetime import timedelta
from io import StringIO
from threading import Event

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.executor.options import from_settings
from django_delayed_tasks.executor.process.foreground import StopSignals, run_executor
from django_delayed_tasks.models import Task
from tests.executor.parts import add, handler_of
from tests.executor.process.test_progress_bar import Terminal

pytestmark = pytest.mark.django_db(transaction=True)


def test_claims_that_are_no_runs_do_not_count() -> None:
    """Tasks that were added before their handler had a limit are claimed, and released into its lane."""
    ran: list[str] = []
    handler_of(lambda task: ran.append(task.biz_num), max_concurrent=1)
    for number in range(4):
        add(str(number))
    Task._base_manager.update(lane="")
    stream = StringIO()
    assert run_executor(from_settings(drain=True), stream, StopSignals(), ready=lambda: None) == 0
    assert len(ran) == 4
    assert "Drained: 4 runs in" in stream.getvalue()


def test_tasks_that_expired_move_the_bar_and_are_no_runs() -> None:
    handler_of(lambda task: None, max_lateness=timedelta(minutes=1))
    add("now")
    add("too late", when=clock.host_now() - timedelta(hours=1))
    stream = Terminal()
    assert run_executor(from_settings(drain=True), stream, StopSignals(), ready=lambda: None) == 0
    assert "] 2 of 2, " in stream.getvalue()
    assert "Drained: 1 run in" in stream.getvalue()


def test_what_was_left_to_wait_without_a_handler() -> None:
    handler_of(lambda task: None)
    add("known")
    add("strange", code="gone")
    stream = StringIO()
    assert run_executor(from_settings(drain=True), stream, StopSignals(), ready=lambda: None) == 0
    assert stream.getvalue().endswith("Left to wait: due tasks without a handler (gone).\n")


def test_an_idle_one_says_that_it_has_stopped() -> None:
    stream, signals = StringIO(), StopSignals()
    assert run_executor(from_settings(), stream, signals, ready=lambda: signals.stop(signal.SIGINT)) == 0
    assert stream.getvalue() == "Stopped.\n"


def test_it_is_ready_before_its_first_task_starts() -> None:
    """Who reads the output finds the line "Ready" before what handlers print."""
    ran = Event()
    handler_of(lambda task: ran.set())
    add("due")
    ran_before: list[bool] = []
    run_executor(from_settings(drain=True), StringIO(), StopSignals(), ready=lambda: ran_before.append(ran.wait(0.2)))
    assert (ran_before, ran.is_set()) == ([False], True)
