"""``start()`` in ``AppConfig.ready``: only a process that serves the project gets an executor."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from django_delayed_tasks.executor.process import in_process
from tests.newcomer import Newcomer, environment
from tests.waiting import wait_until

__test__ = settings.DDT_DATABASE == "sqlite"

APPS = """
from django.apps import AppConfig


class ShopConfig(AppConfig):
    name = "shop"

    def ready(self):
        from django_delayed_tasks import start

        start(threads=2, name="inside")
"""
HANDLERS = """
from pathlib import Path

from django_delayed_tasks import task_handler

VERSION = "old"


@task_handler("which", trigger="Interval(seconds=0.05)")
def which(task):
    with Path("seen").open("a") as seen:
        seen.write(VERSION + "\\n")
"""
LOGGING = """
LOGGING = {
    "version": 1,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {"django_delayed_tasks": {"handlers": ["console"], "level": "INFO"}},
}
"""
SILENT = "start() starts no executor while manage.py"


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    made = Newcomer(tmp_path)
    made.has_a_project(f'INSTALLED_APPS += ["django_delayed_tasks", "shop"]\n{LOGGING}')
    (tmp_path / "shop/apps.py").write_text(APPS)
    (tmp_path / "shop/task_handlers.py").write_text(HANDLERS)
    return made


@pytest.mark.parametrize("command", ["migrate", "check", "makemigrations", "showmigrations", "starttask --drain"])
def test_a_command_on_a_new_database(newcomer: Newcomer, command: str) -> None:
    printed = newcomer.run(f"python manage.py {command}", code=1 if "starttask" in command else 0)
    assert f"{SILENT} {command.split()[0]} loads the project" in printed
    assert "no such table" not in printed


def test_a_command_that_starts_one_itself(newcomer: Newcomer) -> None:
    (newcomer.folder / "shop/management/commands").mkdir(parents=True)
    (newcomer.folder / "shop/management/commands/serve.py").write_text(
        "from django.core.management.base import BaseCommand\nfrom django_delayed_tasks import shutdown, start\n\n"
        "class Command(BaseCommand):\n    def handle(self, **given):\n        start(threads=1, name='own')\n"
        "        shutdown()\n"
    )
    newcomer.run("python manage.py migrate")
    assert "executor own started" in newcomer.run("python manage.py serve")


class Server:
    """A server of the project, which writes what it logs into a file."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._log = folder / "run.log"
        self._seen = folder / "seen"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, *arguments], cwd=folder, env=environment() | {"PYTHONUNBUFFERED": "1"},
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    @property
    def printed(self) -> str:
        return self._log.read_text()

    def wait_for(self, version: str) -> None:
        wait_until(lambda: self._seen.exists() and version in self._seen.read_text(), 60)

    def end(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def server(newcomer: Newcomer, request: pytest.FixtureRequest) -> Iterator[Server]:
    newcomer.run("python manage.py migrate")
    started = Server(newcomer.folder, *request.param)
    yield started
    started.end()


RUNSERVER = ("manage.py", "runserver", "127.0.0.1:0")


@pytest.mark.parametrize("server", [RUNSERVER], indirect=True)
def test_after_a_change_of_the_code_no_task_runs_with_the_old(newcomer: Newcomer, server: Server) -> None:
    server.wait_for("old")
    assert server.printed.count(f"{SILENT} runserver") == 1
    handlers = newcomer.folder / "shop/task_handlers.py"
    handlers.write_text(HANDLERS.replace('"old"', '"new"'))

    def is_reloaded() -> bool:
        handlers.touch()  # again, in case that the reloader had not looked at the files before the change
        return server.printed.count("executor inside started") > 1

    wait_until(is_reloaded, 60)
    server.wait_for("new")
    seen = (newcomer.folder / "seen").read_text().split()
    assert seen == sorted(seen, reverse=True)


WSGI = "from mysite.wsgi import application; import signal; signal.pause()"


@pytest.mark.parametrize("server", [(*RUNSERVER, "--noreload"), ("-c", WSGI)], indirect=True)
def test_another_server(server: Server) -> None:
    server.wait_for("old")


def test_once_the_project_is_loaded_it_starts_wherever_it_is_called() -> None:
    assert in_process._loading_command() == ""
