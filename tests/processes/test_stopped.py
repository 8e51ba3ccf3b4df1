"""SIGTERM and SIGINT: an executor ends in good order, or at once when told twice."""

import faulthandler
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.api import add_task
from django_delayed_tasks.exceptions import CutOff
from django_delayed_tasks.executor.process.foreground import NOT_CLEAN, StopSignals
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import ExecutorStatus, RunOutcome, TaskStatus
from django_delayed_tasks.store.settling.settle import path_of
from tests.processes.children import Child
from tests.processes.conftest import Start
from tests.processes.database import await_heartbeats, count, database_now, incarnations, is_settled, outcomes, task
from tests.processes.folder import Folder
from tests.processes.prefetched import QUICK_ONES, fill_local_queue
from tests.processes.waiting import PATIENCE, wait_until

SIGNALS = [signal.SIGTERM, signal.SIGINT]


@pytest.mark.parametrize("number", [*SIGNALS, signal.SIGHUP])
def test_idle_executor_ends_with_0(starttask: Start, number: int) -> None:
    child = starttask("--name", "idle").wait_until_ready()
    child.send(number)
    assert child.exit_code() == 0
    (row,) = incarnations("idle")
    assert row.alive is None, "the lease was not given back"
    assert "Traceback" not in child.output


def test_a_terminal_that_closes_cuts_no_run_short(starttask: Start, folder: Folder) -> None:
    """SIGHUP comes with it, and may come twice, and after another signal."""
    gate = folder.shut("1")
    add_task(Task(biz_code="held", biz_num="1"))
    child = starttask("--name", "closed", "--threads", "1").wait_until_ready()
    wait_until(lambda: folder.notes("started", "1"))
    child.send(signal.SIGHUP)
    child.wait_for("Stopping; waiting for 1 run")
    child.send(signal.SIGHUP)
    await_heartbeats("closed", 2)
    gate.open()
    assert child.exit_code() == 0
    assert is_settled("held", "1")


def test_nohup_is_obeyed(start: Start) -> None:
    ignoring = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    run = "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    child = start("-c", f"{ignoring}; {run}", "-m", "django", "starttask", "--name", "nohup").wait_until_ready()
    child.send(signal.SIGHUP)
    await_heartbeats("nohup", 2)
    child.send(signal.SIGTERM)
    assert child.exit_code() == 0


def test_full_local_queue_is_released_and_the_run_ends(starttask: Start, folder: Folder) -> None:
    gate = folder.shut("1")
    child = starttask("--name", "full", "--threads", "1").wait_until_ready()
    fill_local_queue(folder)

    child.send(signal.SIGTERM)
    wait_until(lambda: count(TaskStatus.RUNNING) == 1)  # the run alone, which cannot have ended
    assert task("held", "1").status == TaskStatus.RUNNING  # type: ignore[union-attr]
    ran = folder.count("ran")
    waiting = Task.objects.filter(biz_code="quick")
    assert {row.attempts for row in waiting} == {0}, "a task that was not started has used up an attempt"
    assert {(row.status, row.executor) for row in waiting} == {(TaskStatus.PENDING, 0)}
    given_back = [row.claim_at for row in waiting.filter(version__gt=0)]
    assert given_back, "nothing was in the local queue"
    began = folder.notes("started", "1")[0].at or database_now()
    assert began <= min(given_back) <= max(given_back) <= database_now(), "others would not look there now"
    assert waiting.count() + ran == QUICK_ONES

    await_heartbeats("full", 2)
    gate.open()
    assert child.exit_code() == 0
    assert folder.count("ran") == ran, "something was started after the signal"
    assert is_settled("held", "1")
    assert outcomes("held", "1") == [RunOutcome.DONE]


def has_ended_after(child: Child, number: int) -> bool:
    """Send a signal to a process, if it has not ended; return whether it has."""
    if child.process.poll() is None:
        child.send(number)
    return child.process.poll() is not None


@pytest.mark.parametrize("number", SIGNALS)
def test_second_signal_ends_it_at_once(starttask: Start, folder: Folder, number: int) -> None:
    folder.shut("1")
    child = starttask("--name", "impatient", "--threads", "1").wait_until_ready()
    fill_local_queue(folder)

    child.send(number)
    wait_until(lambda: count(TaskStatus.RUNNING) == 1)  # the first signal has been heard
    wait_until(lambda: has_ended_after(child, number))  # one that comes in the same moment is no second one
    assert child.exit_code(timeout=10) == 128 + number
    assert task("held", "1").status == TaskStatus.RUNNING  # type: ignore[union-attr]


def test_run_that_outlasts_the_shutdown_timeout_is_taken_by_another_at_once(starttask: Start, folder: Folder) -> None:
    folder.shut("1", gates="first")
    first = starttask("--name", "first", gates="first", SHUTDOWN_TIMEOUT=0.5, LEASE=600).wait_until_ready()
    add_task(Task(biz_code="held", biz_num="1"))
    wait_until(lambda: folder.notes("started", "1", pid=first.pid))
    second = starttask("--name", "second", gates="second", LEASE=600).wait_until_ready()

    first.send(signal.SIGTERM)
    (again,) = wait_until(lambda: folder.notes("started", "1", pid=second.pid))
    assert first.exit_code() == NOT_CLEAN
    assert "1 task is left behind, whose run did not end, or was not settled, in time: held 1 (for " in first.output
    assert "dead executor" not in first.output + second.output

    wait_until(lambda: is_settled("held", "1"))
    gone = incarnations("first")[0]
    assert again.at is not None
    assert (again.at - gone.expires_at).total_seconds() < 4
    assert outcomes("held", "1") == [RunOutcome.LOST, RunOutcome.DONE]
    assert cut_offs("held", "1") == ["cut off: its executor was stopped (first)"]
    assert {note.attempts for note in folder.notes("started", "1")} == {1}


def cut_offs(code: str, num: str) -> list[str]:
    """What the history says of the runs that were cut off."""
    runs = TaskRun.objects.filter(biz_code=code, biz_num=num, outcome=RunOutcome.LOST)
    return list(runs.filter(exception=path_of(CutOff)).order_by("id").values_list("error", flat=True))


def test_a_run_that_takes_longer_than_ten_deploys_is_no_failure(starttask: Start, folder: Folder) -> None:
    gate = folder.shut("1")
    add_task(Task(biz_code="held", biz_num="1"))
    for _ in range(10):
        child = starttask("--name", "web", SHUTDOWN_TIMEOUT=0.1).wait_until_ready()
        wait_until(lambda pid=child.pid: folder.notes("started", "1", pid=pid))  # type: ignore[misc]
        child.send(signal.SIGTERM)
        assert child.exit_code() == NOT_CLEAN
        row = task("held", "1")
        assert row
        assert (row.status, row.attempts, row.rescues) == (TaskStatus.PENDING, 0, 0)
    last = starttask("--name", "web").wait_until_ready()
    wait_until(lambda: folder.notes("started", "1", pid=last.pid))
    gate.open()
    wait_until(lambda: is_settled("held", "1"))
    assert cut_offs("held", "1") == ["cut off: its executor was stopped (web)"] * 10
    assert outcomes("held", "1") == [RunOutcome.LOST] * 10 + [RunOutcome.DONE]


@pytest.mark.parametrize("other", ["web", "other"])
def test_a_kill_during_a_stop_is_no_crash(starttask: Start, folder: Folder, other: str) -> None:
    """As by a platform whose patience is over; its successor, or any other executor, gives the task back."""
    folder.shut("1", gates="first")
    first = starttask("--name", "web", gates="first", LEASE=3).wait_until_ready()
    add_task(Task(biz_code="held", biz_num="1"))
    wait_until(lambda: folder.notes("started", "1", pid=first.pid))
    first.send(signal.SIGTERM)
    wait_until(lambda: incarnations("web")[0].status == ExecutorStatus.STOPPING)
    first.send(signal.SIGKILL)

    starttask("--name", other, gates="second", LEASE=3)
    wait_until(lambda: is_settled("held", "1"))
    assert outcomes("held", "1") == [RunOutcome.LOST, RunOutcome.DONE]
    assert cut_offs("held", "1") == ["cut off: its executor was stopped (web)"]
    assert incarnations("web")[0].status == ExecutorStatus.STOPPED


def test_it_says_how_many_runs_it_waits_for_and_then_which(starttask: Start, folder: Folder) -> None:
    gates = [folder.shut(num) for num in "12"]
    child = starttask("--name", "waiting").wait_until_ready()
    add_task(Task(biz_code="held", biz_num="1"))
    add_task(Task(biz_code="held", biz_num="2"))
    wait_until(lambda: folder.count("started") == 2)
    child.send(signal.SIGINT)
    child.wait_for("Stopping; waiting for 2 runs to end, 50 s at most. A second signal ends the process at once.")
    gates[0].open()
    child.wait_for("Still waiting for held 2 (for ")
    assert "held 1" not in child.output
    gates[1].open()
    assert child.exit_code() == 0


@pytest.mark.usefixtures("_alarm")
def test_signal_may_come_at_any_moment_of_the_wait() -> None:
    until = clock.monotonic() + 1.5
    while clock.monotonic() < until:
        signals = StopSignals()
        signal.signal(signal.SIGALRM, signals._received)
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 3e-4))
        while not signals.wait(0.0001):
            pass
        assert signals.number == signal.SIGALRM


@pytest.fixture
def _alarm() -> Iterator[None]:
    faulthandler.dump_traceback_later(PATIENCE, exit=True)  # what hangs here can be interrupted by nothing else
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, before)
    faulthandler.cancel_dump_traceback_later()


def sleep_through(has_begun: Any) -> None:
    """What a forked process does."""
    has_begun.set()
    time.sleep(PATIENCE)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork with threads
def test_a_process_that_a_handler_has_forked_is_ended_by_a_signal() -> None:
    """As ``multiprocessing.Pool`` ends its workers, and then waits for them."""
    signals, fork = StopSignals(), multiprocessing.get_context("fork")
    has_begun = fork.Event()
    with signals.installed():
        child = fork.Process(target=sleep_through, args=(has_begun,))
        child.start()
        assert has_begun.wait(PATIENCE)  # Python drops a signal that comes before
        child.terminate()
        child.join(PATIENCE / 2)
        exit_code = child.exitcode
        child.kill()
    assert exit_code == -signal.SIGTERM
    assert signals.number is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_but_not_by_the_first_interrupt() -> None:
    """A terminal sends it to all processes, and the run that has forked is to finish."""
    signals, fork = StopSignals(), multiprocessing.get_context("fork")
    has_begun, go_on, is_done = fork.Event(), fork.Event(), fork.Event()
    with not_ignored(signal.SIGINT), signals.installed():
        child = fork.Process(target=work_after, args=(has_begun, go_on, is_done))
        child.start()
        try:
            assert has_begun.wait(PATIENCE)
            assert child.pid
            os.kill(child.pid, signal.SIGINT)
            go_on.set()
            assert is_done.wait(PATIENCE)
            os.kill(child.pid, signal.SIGINT)
            child.join(PATIENCE / 2)
            exit_code = child.exitcode
        finally:
            child.kill()
    assert exit_code == -signal.SIGINT


@contextmanager
def not_ignored(number: signal.Signals) -> Iterator[None]:
    """Give the signal its default effect: a shell starts what it runs in the background with SIGINT ignored."""
    before = signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


def work_after(has_begun: Any, go_on: Any, is_done: Any) -> None:
    """What a forked process does."""
    has_begun.set()
    assert go_on.wait(PATIENCE)
    is_done.set()
    until = clock.monotonic() + PATIENCE
    while clock.monotonic() < until:  # Python calls the handler of a signal between two system calls
        time.sleep(0.01)


def test_same_signal_twice_at_once_is_one_to_a_supervised_process() -> None:
    signals = StopSignals(doubling=600)
    with signals.installed():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # would end this process
    assert signals.number == signal.SIGTERM
