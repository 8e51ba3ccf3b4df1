"""What ``starttask`` says when it starts, and when it cannot."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import freezegun
import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.test import override_settings

import django_delayed_tasks
from django_delayed_tasks import Task, TaskException, api
from tests.pages import ROOT
from tests.processes.children import Child
from tests.processes.conftest import Start
from tests.processes.database import incarnations
from tests.processes.folder import Folder

DISPLAY_NAMES = {"sqlite": "SQLite", "mariadb": "MariaDB", "mysql": "MySQL", "postgres": "PostgreSQL"}


def test_banner(starttask: Start, database: str) -> None:
    child = starttask("--name", "shown", "--threads", "3", "--queues", "a,b", "--exclude-queues", "c")
    child.wait_until_ready()
    (row,) = incarnations("shown")
    lines = [" ".join(line.split()) for line in child.output.splitlines()]
    first = f"django-delayed-tasks {django_delayed_tasks.__version__}: executor shown"
    assert lines[lines.index(first) :][:6] == [
        first,
        f"database default ({DISPLAY_NAMES[database]})",
        "queues a, b but c",
        "threads 3, polling every 0.1 s",
        "handlers 7: chain, deadly, hanging, held, pooled, quick, single",
        "Ready (executor shown). Ctrl-C stops it gracefully.",
    ]
    assert (row.pid, row.threads, row.queues) == (child.pid, 3, ["a", "b"])
    child.wait_for("WARNING django_delayed_tasks.")  # of queues that nothing names; its project formats no log
    assert re.search(
        r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARNING django_delayed_tasks\.", child.output, re.MULTILINE
    )


@pytest.mark.parametrize("options", [[], ["--processes", "2"]])
def test_what_a_handler_prints_appears_while_it_runs(starttask: Start, folder: Folder, options: list[str]) -> None:
    """As in the journal of a service: the output is no terminal, and the process is killed in the end."""
    folder.shut("1")
    with override_settings(DELAYED_TASKS={"ALLOW_UNKNOWN_CODES": True}):
        api.add_task(Task(biz_code="printing", biz_num="1"))
    more = {"DDT_MORE_HANDLERS": '["tests.processes.failing.Printing"]', "PYTHONUNBUFFERED": ""}
    child = starttask(*options, environment=more)
    child.wait_for("printed for 1\n")
    assert child.output.count("W017") == 1  # not by the supervisor and by each of its executors


def refused(child: Child) -> str:
    """Return the message of the CommandError that it ended with; check that its exit code is 1."""
    assert child.exit_code() == 1, child.output
    assert "Traceback" not in child.output
    before, _, message = child.output.partition("CommandError: ")
    assert message, before
    return message


@pytest.mark.usefixtures("live_db")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--threads", "0"], "threads=0: expected an int from 1"),
        (["--max-tasks", "-1"], "max_tasks=-1: expected an int of at least 1"),
        (["--poll-interval", "0"], "poll_interval=0.0: expected"),
        (["--poll-interval", "nan"], "poll_interval=nan: expected"),
        (["--poll-interval", "inf"], "poll_interval=inf: expected"),
        (["--processes", "0"], "--processes=0: must be from 1 to 1000"),
        (["--processes", "1001"], "--processes=1001: must be from 1 to 1000"),
        (["--processes", "2", "--reload"], "--reload is for one process"),
        (["--processes", "2"], "works only from a command line"),
        (["--queues", ","], "--queues=',': does not name a queue"),
        (["--queues", "a", "--exclude-queues", "a"], "exclude_queues=('a',): leaves none of the queues to serve: 'a'"),
        (["--queues", "b,a", "--exclude-queues", "a,d,b"], "leaves none of the queues to serve: 'b', 'a'"),
        (["--name", ""], "name=''"),
        (["--name", "n" * 151], "name='nnn"),
        (["--database", "nowhere"], "there is no database 'nowhere'; the aliases are default"),
    ],
)
def test_wrong_option(options: list[str], said: str) -> None:
    with pytest.raises(CommandError) as caught:
        call_command("starttask", "--drain", *options)
    assert said in str(caught.value)


@pytest.mark.usefixtures("live_db")
def test_a_call_from_code_returns_and_leaves_the_signals_alone() -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    call_command("starttask", "--drain")
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers


@pytest.mark.parametrize("command", [["starttask", "--drain"], ["starttask", "--reload"], ["runmutex", "nightly"]])
def test_not_in_another_thread(command: list[str]) -> None:
    with ThreadPoolExecutor(1) as threads:
        called = threads.submit(call_command, *command)
        with pytest.raises(CommandError, match="only the main thread of a process can: elsewhere"):
            called.result(30)


@pytest.mark.usefixtures("live_db")
def test_not_in_a_transaction() -> None:
    with transaction.atomic(), pytest.raises(CommandError, match="cannot be started inside a transaction"):
        call_command("starttask", "--drain")


@pytest.mark.django_db
@pytest.mark.parametrize("nested", [False, True])
def test_not_in_a_testcase(nested: bool) -> None:
    """Which is what pytest-django makes of this test."""
    for begin in (lambda: call_command("starttask", "--drain"), api.start):
        with transaction.atomic() if nested else nullcontext():
            with pytest.raises(
                (CommandError, TaskException), match=r"in a TestCase, .*: use TransactionTestCase .* or run_due"
            ):
                begin()


@pytest.mark.django_db(transaction=True)
def test_not_while_no_time_passes() -> None:
    """It would end itself after a while, with exit code 75, since its threads do not seem to move."""
    for begin in (lambda: call_command("starttask", "--drain"), api.start):
        with freezegun.freeze_time("2030-01-01"):
            with pytest.raises((CommandError, TaskException), match=r"while freezegun stops the clock, .*: use time-m"):
                begin()


@pytest.mark.parametrize("name", [":memory:", "file:any?mode=memory&cache=shared", "file::memory:?cache=shared"])
def test_not_in_memory(name: str, tmp_path: Path) -> None:
    """Before anything is read there: without a test runner the tables are missing as well."""
    source = """
import django
from django.conf import settings
database = {"ENGINE": "django.db.backends.sqlite3", "NAME": %r}
settings.configure(INSTALLED_APPS=["django_delayed_tasks"], USE_TZ=True, DATABASES={"default": database})
django.setup()
from django.core.management import call_command
from django_delayed_tasks import start
for begin in (start, lambda: call_command("starttask", "--drain"), lambda: call_command("starttask", processes=2)):
    try:
        begin()
    except Exception as error:
        print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", source % name], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True, capture_output=True, timeout=60,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["TaskException", "CommandError", "CommandError"], done
    for line in lines:
        assert "cannot be started on an SQLite database in memory" in line
        assert line.endswith("use a file (for tests, name it in DATABASES['default']['TEST']['NAME'])")


def test_wrong_option_ends_the_process_with_1(starttask: Start) -> None:
    assert "threads=0: expected" in refused(starttask("--threads", "0"))


def test_unapplied_migrations(starttask: Start, forgotten_migration: str) -> None:
    said = refused(starttask())
    assert f"unapplied migrations on database 'default': {forgotten_migration}" in said
    assert "Run `manage.py migrate` first." in said


@pytest.fixture
def forgotten_migration(live_db: str) -> Iterator[str]:
    """The latest migration, which the database does not remember."""
    recorder = MigrationRecorder(connection)
    name = max(name for app, name in recorder.applied_migrations() if app == "django_delayed_tasks")
    recorder.record_unapplied("django_delayed_tasks", name)
    yield name
    recorder.record_applied("django_delayed_tasks", name)


def test_unreachable_database(starttask: Start, database: str, tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        address = f"ddt:ddt@127.0.0.1:{nobody.getsockname()[1]}/ddt"
        urls = {
            "sqlite": f"sqlite:///{tmp_path}/missing/folder/db.sqlite3",
            "mariadb": f"mysql://{address}",
            "mysql": f"mysql://{address}",
            "postgres": f"postgres://{address}",
        }
        said = refused(starttask(environment={f"DATABASE_URL_{database.upper()}": urls[database]}))
    assert "database 'default' cannot be reached: " in said
