"""An executor that is killed: its tasks run again."""

import math
import signal
from io import StringIO

import pytest

from django_delayed_tasks.api import add_task
from django_delayed_tasks.exceptions import NameInUse
from django_delayed_tasks.executor.options import from_settings
from django_delayed_tasks.executor.process.foreground import StopSignals, run_executor
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import ExecutorStatus, RunOutcome
from tests.processes.conftest import Start
from tests.processes.database import alive, await_heartbeats, database_now, incarnations, is_settled, outcomes
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until

pytestmark = pytest.mark.per_database

LEASE, POLL = 1.5, 0.1
SCHEDULING = 1.0
"""Seconds that a busy machine may take on top of the bound."""
ROUNDS = 4
"""How often it is tried, at most: a machine that stands still for a moment delays one round, a defect all of them."""
SHORT_LEASE = {"LEASE": LEASE, "HEARTBEAT": 0.5, "POLL_INTERVAL": POLL}


def test_task_runs_again_within_lease_and_poll_interval(
    starttask: Start, folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    bound = LEASE + POLL + SCHEDULING
    for number in range(ROUNDS):
        took = seconds_until_it_runs_again(starttask, folder, f"{number}")
        with capsys.disabled():
            print(f"\n  from SIGKILL to the second run: {took:.3f} s (lease {LEASE} s + poll {POLL} s)")
        if took <= bound:
            break
    assert took <= bound


def seconds_until_it_runs_again(starttask: Start, folder: Folder, number: str) -> float:
    """Kill the executor of a run, and return the seconds until another one runs its task again."""
    gate = folder.shut(number)
    first = starttask("--name", f"first {number}", **SHORT_LEASE).wait_until_ready()
    add_task(Task(biz_code="held", biz_num=number))
    wait_until(lambda: folder.notes("started", number, pid=first.pid))
    second = starttask("--name", f"second {number}", **SHORT_LEASE).wait_until_ready()
    await_heartbeats(f"first {number}")  # the worst moment: the whole lease lies ahead

    lease_until, killed_at = incarnations(f"first {number}")[-1].expires_at, database_now()
    first.process.kill()
    gate.open()
    [again, *_] = wait_until(lambda: folder.notes("started", number, pid=second.pid))
    wait_until(lambda: is_settled("held", number))
    second.close()
    losses = outcomes("held", number).count(RunOutcome.LOST)
    if losses > 1 or len(incarnations(f"first {number}")) > 1:
        return math.inf  # the machine stood still for so long that a living executor lost its lease

    assert again.at is not None
    assert again.at > lease_until, "taken from an executor that still had its lease"
    assert again.attempts == 1, "an attempt that its executor's death cut short does not count"
    assert outcomes("held", number) == [RunOutcome.LOST, RunOutcome.DONE]
    return (again.at - killed_at).total_seconds()


def test_started_again_under_its_name_it_takes_over_at_once(starttask: Start, folder: Folder) -> None:
    gate = folder.shut("1")
    first = starttask("--name", "stable", LEASE=600).wait_until_ready()
    add_task(Task(biz_code="held", biz_num="1"))
    wait_until(lambda: folder.notes("started", "1"))

    first.process.kill()  # and no process asks for its exit code: the process table still has it
    second = starttask("--name", "stable", LEASE=600).wait_until_ready()
    gate.open()
    wait_until(lambda: folder.notes("started", "1", pid=second.pid))  # much sooner than the lease ends

    wait_until(lambda: is_settled("held", "1"))
    dead, living = incarnations("stable")
    assert (dead.pid, dead.alive, dead.status) == (first.pid, None, ExecutorStatus.CRASHED)
    assert (living.pid, living.alive) == (second.pid, True)


def test_refused_after_a_signal_it_has_nothing_to_stop(starttask: Start) -> None:
    starttask("--name", "stable").wait_until_ready()
    said, signals = StringIO(), StopSignals()

    def run() -> int:
        return run_executor(from_settings(name="stable"), said, signals, ready=lambda: None)

    with pytest.raises(NameInUse):
        run()
    signals.stop(signal.SIGTERM)
    assert run() == 0
    assert "the name 'stable' belongs to a live executor" in said.getvalue()


def test_second_live_process_under_a_name_is_refused(starttask: Start, folder: Folder) -> None:
    first = starttask("--name", "stable").wait_until_ready()

    second = starttask("--name", "stable")
    assert second.exit_code() == 1
    live = f"the name 'stable' belongs to a live executor: host {alive_host()}, process {first.pid}"
    assert f"{live}; choose another name (--name), or stop that one" in second.output
    assert "Traceback" not in second.output
    assert len(incarnations("stable")) == 1

    add_task(Task(biz_code="quick", biz_num="1"))
    wait_until(lambda: folder.notes("ran", "1", pid=first.pid))


def alive_host() -> str:
    living = alive("stable")
    assert living is not None
    return living.host
