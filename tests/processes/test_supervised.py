"""``--processes N``: one supervisor, several executors."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.api import add_task
from django_delayed_tasks.executor.process.foreground import StopSignals
from django_delayed_tasks.executor.process.supervisor import Child as Supervised
from django_delayed_tasks.executor.process.supervisor import Supervisor
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import ExecutorStatus
from harness.processes_of_folder import processes_of
from tests.processes.children import Child
from tests.processes.conftest import Start
from tests.processes.database import alive, await_heartbeats, incarnations, is_settled
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until

NAMES = ("team-1", "team-2")


@pytest.fixture
def team(starttask: Start) -> Child:
    """A supervisor of two executors, each with one thread."""
    supervisor = starttask("--processes=2", "--name", "team", "--threads", "1")
    wait_until(lambda: all(alive(name) for name in NAMES))
    return supervisor


def pid_of(name: str) -> int:
    living = alive(name)
    assert living is not None
    return living.pid


def stand_still(folder: Folder) -> None:
    """Wait until each of the two is in mid-handler."""
    for number in ("1", "2"):
        folder.shut(number)
        add_task(Task(biz_code="held", biz_num=number))
    wait_until(lambda: folder.count("started") == 2)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_both_work_and_sigterm_ends_all_with_0(team: Child, folder: Folder) -> None:
    stand_still(folder)
    pids = {note.pid for note in folder.notes("started")}
    assert pids == {pid_of(name) for name in NAMES}
    assert team.pid not in pids

    team.send(signal.SIGTERM)
    folder.open_all()
    assert team.exit_code() == 0
    assert is_settled("held", "1")
    assert is_settled("held", "2")
    assert processes_of(folder.path) == []
    assert [alive(name) for name in NAMES] == [None, None]
    assert [row.status for name in NAMES for row in incarnations(name)] == [ExecutorStatus.STOPPED] * 2


def test_crashed_child_is_started_again_and_takes_its_task_over(team: Child, folder: Folder) -> None:
    stand_still(folder)
    victim = pid_of("team-1")
    number = folder.notes("started", pid=victim)[0].num
    os.kill(victim, signal.SIGKILL)
    folder.open_all()

    wait_until(lambda: len(incarnations("team-1")) == 2)
    wait_until(lambda: is_settled("held", "1") and is_settled("held", "2"))
    assert len(folder.notes("started", number)) == 2
    assert len(incarnations("team-2")) == 1
    assert [row.status for row in incarnations("team-1")] == [ExecutorStatus.CRASHED, ExecutorStatus.RUNNING]
    assert "executor team-1 ended with -9; it is started again" in team.output
    team.send(signal.SIGTERM)
    assert team.exit_code() == 0


@pytest.mark.parametrize("code", [0, 75, -signal.SIGSEGV])
def test_a_run_that_ends_its_process_however_costs_that_process_only(team: Child, folder: Folder, code: int) -> None:
    """Exit code 0 is no end in good order if a handler has made it."""
    add_task(Task(biz_code="deadly", biz_num="1", biz_ext=code))
    wait_until(lambda: folder.count("started") == 2)  # it was rescued, and has ended another process
    wait_until(lambda: all(alive(name) for name in NAMES))
    assert ExecutorStatus.CRASHED in {row.status for name in NAMES for row in incarnations(name)}
    assert f"ended with {code}; it is started again" in team.output
    team.send(signal.SIGTERM)
    team.exit_code()


def test_children_end_in_good_order_when_the_supervisor_is_killed(team: Child, folder: Folder) -> None:
    stand_still(folder)
    pids = [pid_of(name) for name in NAMES]
    team.process.kill()
    assert team.exit_code() == -signal.SIGKILL
    folder.open_all()

    wait_until(lambda: all(is_gone(pid) for pid in pids))
    assert is_settled("held", "1")
    assert is_settled("held", "2")
    assert [alive(name) for name in NAMES] == [None, None]


def test_sigterm_to_every_process_of_the_service_lets_runs_end(team: Child, folder: Folder) -> None:
    """As systemd sends it by default: the children get the signal from systemd and from the supervisor."""
    stand_still(folder)
    for pid in [*(pid_of(name) for name in NAMES), team.pid]:
        os.kill(pid, signal.SIGTERM)
    for name in NAMES:
        await_heartbeats(name, 2)  # no process ends before the runs do
    folder.open_all()

    assert team.exit_code() == 0
    assert is_settled("held", "1")
    assert is_settled("held", "2")


class AfterOneStart(StopSignals):
    """SIGTERM comes while the supervisor is still starting its children."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def wait(self, seconds: float = 0.1) -> bool:
        self.asked += 1
        return self.asked > 2  # once for the round, once for each child


def test_signal_is_heard_between_two_starts() -> None:
    idle = [sys.executable, "-c", "import time; time.sleep(600)"]
    supervisor = Supervisor(idle, "team", processes=1000, shutdown_timeout=10)
    assert supervisor.run(AfterOneStart()) == 0
    assert [child.number for child in supervisor.children if child.process] == [1]


class WhenReady(StopSignals):
    """SIGTERM comes when this file exists."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def wait(self, seconds: float = 0.1) -> bool:
        time.sleep(min(seconds, 0.01))
        return self.file.exists()


ENDING = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, {how})
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("lambda *_: sys.exit(80)", 0),
        ("lambda *_: os._exit(0)", 1),  # a handler has ended it, with its runs
        ("signal.SIG_DFL", 0),  # not ready yet, it had nothing to stop
        ("lambda *_: sys.exit(75)", 0),  # it was to be started again anyway
        ("lambda *_: sys.exit(3)", 1),
        ("signal.SIG_IGN", 1),  # it has to be killed
    ],
)
def test_its_exit_code_says_whether_all_ended_well(how: str, code: int, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    command = [sys.executable, "-c", ENDING.format(how=how), str(ready)]
    supervisor = Supervisor(command, "team", processes=1, shutdown_timeout=-4.5 if "IGN" in how else 60)
    assert supervisor.run(WhenReady(ready)) == code


def test_a_crash_just_before_the_signal_is_no_end_in_disorder(tmp_path: Path) -> None:
    crashing = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch(); sys.exit(1)"
    supervisor = Supervisor([sys.executable, "-c", crashing, str(tmp_path / "ran")], "team", 1, shutdown_timeout=60)
    [child] = supervisor.children
    supervisor._look_after(child)
    assert child.process is not None
    os.waitid(os.P_PID, child.process.pid, os.WEXITED | os.WNOWAIT)
    assert supervisor._end() == 0


def test_pauses_before_a_restart_grow_with_the_crashes_in_a_row() -> None:
    assert [Supervised(1, crashes=crashes).pause() for crashes in range(9)] == [0, 0, 2, 4, 8, 16, 30, 30, 30]


def test_a_crash_after_a_minute_is_the_first_of_a_series(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    supervisor = Supervisor([sys.executable, "-c", "raise SystemExit(7)"], "team", processes=1, shutdown_timeout=1)
    [child] = supervisor.children
    found = []
    for lived in (59.9, 0.0, 60.0, 59.9):
        supervisor._look_after(child)
        assert child.process is not None
        child.process.wait()
        now[0] += lived
        supervisor._look_after(child)
        found.append((child.crashes, child.not_before - now[0]))
        now[0] += 100
    assert found == [(1, 0.0), (2, 2.0), (1, 0.0), (2, 2.0)]


def test_what_cannot_be_started_is_tried_again() -> None:
    supervisor = Supervisor(["/nowhere/at/all"], "team", processes=1, shutdown_timeout=1)
    signals = StopSignals()
    child = supervisor.children[0]
    signal_at_second_try(signals, child)
    assert supervisor.run(signals) == 0
    assert child.crashes == 2


def signal_at_second_try(signals: StopSignals, child: Supervised) -> None:
    """SIGTERM, as soon as the child was tried twice."""

    def watch() -> None:
        wait_until(lambda: child.crashes == 2)
        signals.stop(signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
