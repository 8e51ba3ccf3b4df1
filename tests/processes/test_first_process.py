"""``starttask`` as the first process of a container: it reaps what handlers leave behind, and ends as ever."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from django_delayed_tasks import Task, api
from django_delayed_tasks.management import first_process
from tests.processes.children import Child
from tests.processes.conftest import Start
from tests.processes.database import is_settled
from tests.processes.folder import Folder
from tests.processes.waiting import wait_until

CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
if os.geteuid() != 0:
    CONTAINER[1:1] = ["--user", "--map-root-user"]
ENTER = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"
TASKS = 5
TELLS = """
import os, signal, sys
def tell(number, frame):
    os.write(1, b"got %d\\n" % number)
for number in (1, 2, 3, 10, 12):
    signal.signal(number, tell)
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(9))
os.write(1, b"begun\\n")
while True:
    signal.pause()
"""

Contained = Callable[..., Child]


def first_of(container: int) -> int:
    """Return the first process in the container of an ``unshare``."""
    return wait_until(lambda: children_of(container))[0]


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def zombies_of(pid: int) -> list[int]:
    return [child for child in children_of(pid) if state_of(child) == "Z"]


@pytest.fixture
def contained(start: Start) -> Contained:
    """``contained(*options)``: starttask as the first process of a PID namespace of its own."""

    def contained(*options: str) -> Child:
        command = [sys.executable, "-W", "error", "-m", "django", "starttask", *options]
        more = {"DDT_MORE_HANDLERS": '["tests.processes.failing.Mailing"]'}
        return start("-c", ENTER, *CONTAINER, *command, environment=more)

    return contained


@pytest.mark.parametrize("options", [[], ["--processes", "2"]], ids=["one", "two"])
def test_nothing_that_a_handler_leaves_behind_stays_a_zombie(
    contained: Contained, folder: Folder, unknown_codes: None, options: list[str]
) -> None:
    for number in range(TASKS):
        api.add_task(Task(biz_code="mailing", biz_num=str(number)))
    child = contained(*options)
    wait_until(lambda: all(is_settled("mailing", str(number)) for number in range(TASKS)), what=lambda: child.output)
    sent = folder.path / "sent"
    wait_until(lambda: sent.exists() and sent.read_text().count("\n") == TASKS)
    first = first_of(child.pid)
    wait_until(lambda: not zombies_of(first))
    child.wait_for("Ready", times=max(1, len(options)))
    os.kill(first, signal.SIGTERM)
    assert child.exit_code() == 0


@pytest.mark.usefixtures("live_db")
def test_exit_codes_and_messages_are_those_of_the_command(contained: Contained) -> None:
    drained = contained("--drain")
    assert drained.exit_code() == 0
    assert "Drained: 0 runs" in drained.output
    refused = contained("--database", "nowhere")
    assert refused.exit_code() == 1
    assert refused.output.count("CommandError") == 1


def under_it(program: str, terminal: int | None = None) -> "subprocess.Popen[bytes]":
    """Start a Python program below the first process of a container, perhaps one with a terminal."""
    first = [sys.executable, "-I", "-S", first_process.__file__]
    command = [*CONTAINER, *first, sys.executable, "-c", program]
    if terminal is None:
        return subprocess.Popen(command, stdout=subprocess.PIPE)
    return subprocess.Popen(command, preexec_fn=lambda: os.login_tty(terminal))


@pytest.mark.parametrize(
    ("program", "code"),
    [("raise SystemExit(7)", 7), ("pass", 0), ("import os; os.kill(os.getpid(), 9)", 137)],
)
def test_the_exit_code_is_that_of_a_shell(program: str, code: int) -> None:
    with under_it(program) as process:
        assert process.wait(60) == code


def test_signals_are_passed_on() -> None:
    with under_it(TELLS) as process:
        assert process.stdout
        assert process.stdout.readline() == b"begun\n"
        first = first_of(process.pid)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            os.kill(first, number)
            assert process.stdout.readline() == b"got %d\n" % number
        os.kill(first, signal.SIGTERM)
        assert process.wait(60) == 9


def test_what_a_terminal_sends_to_both_comes_once() -> None:
    """The second Ctrl-C would end an executor at once."""
    keyboard, terminal = pty.openpty()
    with under_it(TELLS, terminal) as process, open(keyboard, "rb", buffering=0) as screen:
        os.close(terminal)
        assert screen.readline() == b"begun\r\n"
        first = first_of(process.pid)
        os.kill(first, signal.SIGSTOP)  # otherwise both might come as one
        wait_until(lambda: state_of(first) == "T")
        os.write(keyboard, b"\x03")
        assert screen.readline() == b"^Cgot 2\r\n"
        os.kill(first, signal.SIGUSR1)  # passed on after the interrupt, if that is passed on at all
        os.kill(first, signal.SIGCONT)
        assert screen.readline() == b"got 10\r\n"
        os.kill(first, signal.SIGTERM)
        assert process.wait(60) == 9
