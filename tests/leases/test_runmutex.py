"""``manage.py runmutex``."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from pytest_django import DjangoDbBlocker

from django_delayed_tasks.leases import mutex
from django_delayed_tasks.management.commands.runmutex import Command
from django_delayed_tasks.models import Resource
from django_delayed_tasks.store.resources import resources
from tests.processes.children import Child
from tests.processes.conftest import Start
from tests.processes.outages import Outage, private_database
from tests.processes.waiting import wait_until
from tests.sessions import other_sessions
from tests.store.verbs import ALIAS

pytestmark = pytest.mark.usefixtures("live_db")

KILL = {"postgresql": "SELECT pg_terminate_backend({})", "mysql": "KILL {}"}

SLEEP = "import time; time.sleep(600)"
READS = "import sys; print('begun', flush=True); sys.stdin.readline(); sys.exit(5)"
FAMILY = f"import subprocess, sys; print('begun', flush=True); subprocess.run([sys.executable, '-c', '{SLEEP}'])"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('begun', flush=True); {SLEEP}"
# It sleeps for moments only: a signal that arrives just before a sleep begins is noticed after it.
TELLS = """
import os, signal, sys, time
def tell(number, frame):
    os.write(1, b"got %d\\n" % number)  # print() may have been interrupted by the signal
    sys.exit(7)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, tell)
print("begun", flush=True)
while True:
    time.sleep(0.1)
"""


def run(start: Start, *arguments: str) -> Child:
    return start("-m", "django", "runmutex", "nightly", *arguments)


def guarded(start: Start, program: str, ttl: str = "60") -> Child:
    child = run(start, "--ttl", ttl, "--", sys.executable, "-c", program)
    child.wait_for("begun")
    return child


def take_away() -> None:
    row = Resource.objects.get(name="nightly")
    assert resources.release_by_force(ALIAS, [(row.pk, row.version)])


def processes_with(token: int) -> list[int]:
    """The command and what it started; Linux tells."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"MUTEX_TOKEN={token}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
    return found


def token() -> int:
    return Resource.objects.get(name="nightly").version


def test_the_command_and_its_exit_code(start: Start) -> None:
    program = "import os, sys; print(os.environ['MUTEX_NAME'], os.environ['MUTEX_TOKEN'], sys.argv[1:]); sys.exit(3)"
    child = run(start, "--", sys.executable, "-c", program, "-v", "--", "--ttl")
    assert child.exit_code() == 3
    held = token()
    assert child.output.strip() == f"nightly {held} ['-v', '--', '--ttl']"
    with mutex("nightly") as lease:
        assert lease.token == held + 1


@pytest.mark.parametrize(("program", "code"), [("true", 0), ("false", 1), ("no-such-program", 127)])
def test_held_for_at_least(start: Start, program: str, code: int) -> None:
    """The second host's cron is late, and the job is short."""
    assert run(start, "--at-least", "3600", "--", program).exit_code() == code
    child = run(start, "--at-least", "3600", "--", "true")
    assert child.exit_code() == 75
    assert "keeps it for its at_least, until" in child.output
    found = Resource.objects.get(name="nightly")
    assert found.acquired_at
    assert found.busy_before == found.acquired_at + timedelta(hours=1)


def test_another_process_holds_it(start: Start) -> None:
    with mutex("nightly"):
        children = [run(start, "--", "true"), run(start, "--wait", "0.1", "--", "true")]
        assert [child.exit_code() for child in children] == [75, 75]
        assert "mutex 'nightly' was not available" in children[0].output


@pytest.mark.parametrize(("program", "ttl"), [(FAMILY, "1"), (STUBBORN, "1")])
def test_the_command_ends_when_the_mutex_is_lost(start: Start, program: str, ttl: str) -> None:
    child = guarded(start, program, ttl)
    held = token()
    assert processes_with(held)
    take_away()
    assert child.exit_code() == 76
    assert "was lost: the command was ended" in child.output
    wait_until(lambda: not processes_with(held))


@pytest.mark.parametrize("program", [FAMILY, STUBBORN])
def test_the_command_ends_when_it_was_held_for_at_most(start: Start, program: str) -> None:
    child = run(start, "--ttl", "6", "--at-most", "1", "--", sys.executable, "-c", program)
    assert child.exit_code() == 76
    assert "was lost: the command was ended" in child.output
    found = Resource.objects.get(name="nightly")
    assert (found.holder, processes_with(found.version)) == ("", [])


def test_signals_are_passed_on(start: Start) -> None:
    child = guarded(start, TELLS)
    child.send(signal.SIGHUP)
    assert child.exit_code() == 7
    assert f"got {int(signal.SIGHUP)}" in child.output
    with mutex("nightly"):
        pass


def test_ended_by_a_signal(start: Start) -> None:
    child = guarded(start, FAMILY)
    child.send(signal.SIGTERM)
    assert child.exit_code() == 128 + signal.SIGTERM


def test_the_command_dies_with_it(start: Start) -> None:
    child = guarded(start, STUBBORN)
    held = token()
    assert processes_with(held)
    child.send(signal.SIGKILL)
    wait_until(lambda: not processes_with(held))


def test_it_broke_from_its_database_while_the_command_ran(start: Start) -> None:
    """The command's own exit code counts, and the mutex is given back."""
    child = guarded(start, READS)
    if connection.vendor in KILL:
        with connection.cursor() as cursor:
            for number in other_sessions():
                cursor.execute(KILL[connection.vendor].format(number))
    child.say("")
    assert child.exit_code() == 5
    assert not Resource.objects.get(name="nightly").holder


class TestWhileTheDatabaseIsAway:
    """The result of the command is reported all the same."""

    @pytest.fixture
    def outage(self, database: str, tmp_path: Path, django_db_blocker: DjangoDbBlocker) -> Iterator[Outage]:
        with django_db_blocker.unblock(), private_database(database, tmp_path) as outage:
            yield outage

    @pytest.fixture
    def process_environment(self, outage: Outage, database: str) -> dict[str, str]:
        url = {f"DATABASE_URL_{database.upper()}": outage.url}
        return {**os.environ, "DDT_DATABASE": database, **url, **outage.environment}

    def test_it_ends(self, outage: Outage, start: Start) -> None:
        child = guarded(start, READS)
        outage.begin()
        child.say("")
        assert child.exit_code() == 5
        assert "mutex 'nightly' could not be given back; it is free after its ttl" in child.output

    def test_the_mutex_is_lost(self, outage: Outage, start: Start) -> None:
        child = guarded(start, FAMILY, "3")
        outage.begin()
        assert child.exit_code() == 76
        assert "was lost: the command was ended" in child.output


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--", "no-such-program"], 127, "no-such-program: not found"),
        (["--", "/etc/passwd"], 126, "/etc/passwd: "),
        (["--ttl", "0", "--", "true"], 1, "ttl=0.0: must be"),
        (["--at-least", "-1", "--", "true"], 1, "at_least=-1.0: must be"),
        (["--at-least", "9", "--at-most", "8", "--", "true"], 1, "at_most=8.0: must not be less than at_least, 9 s"),
        (["--database", "none", "--", "true"], 1, "there is no database 'none'"),
        ([], 1, "which command? It is given at the end, after --"),
        (["--"], 1, "which command?"),
        (["true"], 2, "unrecognized arguments: true"),
    ],
)
def test_wrong_use(arguments: list[str], code: int, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        Command().run_from_argv(["manage.py", "runmutex", "nightly", *arguments])
    assert end.value.code == code
    assert text in capfd.readouterr().err


def test_from_python() -> None:
    call_command("runmutex", "nightly", ttl=5, command=["true"])
    with pytest.raises(SystemExit, match="1"):
        call_command("runmutex", "nightly", command=["false"])
