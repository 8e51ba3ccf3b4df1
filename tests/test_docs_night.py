"""Every command of the page for operators at night is run, in a project in which that has happened."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from django.conf import settings

from tests.newcomer import SETTINGS, Newcomer
from tests.pages import ROOT

PAGE = ROOT / "docs/how-to/three-in-the-morning.md"
HANDLERS = "shop/task_handlers.py"
BROKEN = """
from django_delayed_tasks import Fail, task_handler


@task_handler("cancel-unpaid-order")
def cancel_unpaid_order(task):
    return Fail("the shop is closed")
"""
NEW = """

@task_handler("charge-deposit")
def charge_deposit(task):
    pass
"""
DRAIN, UNHEALTHY = "python manage.py starttask --drain", 1
LET_RUNS_AGE = shlex.join([
    "python", "manage.py", "shell", "-c",
    "from datetime import timedelta; from django.utils import timezone; from django_delayed_tasks import TaskRun;"
    "TaskRun.objects.update(finished=timezone.now() - timedelta(days=8))",
])  # fmt: skip
IN_ONE_PROCESS = """
import json, os, sys, traceback
from django.core.management import execute_from_command_line

os.environ["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
for arguments, expected in json.loads(sys.argv[1]):
    code = 0
    try:
        execute_from_command_line(arguments)
    except SystemExit as end:
        code = end.code
    except BaseException:
        code = traceback.format_exc()
    if code != expected:
        sys.exit(f"{arguments} ended with {code}, not {expected}")
"""
"""A start of Python and Django takes longer than any of the commands."""

__test__ = settings.DDT_DATABASE == "sqlite"


def situations() -> dict[str, list[str]]:
    """The commands of the page by its headings."""
    _, *sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    return {
        section.partition("\n")[0]: [
            line.strip() for line in section.splitlines() if line.strip().startswith("python manage.py ")
        ]
        for section in sections
    }


class Night(Newcomer):
    """An operator in a project whose handler fails, and whose executors have never been started."""

    def sees(self, title: str, *before: str, **exits: int) -> str:
        """Run some commands, then all under a heading; return what they printed.

        ``exits`` has the exit codes that are expected, by the name of the command; they are 0 for the others.
        """
        on_page = situations()[title]
        assert on_page, title
        calls = [(shlex.split(command)[1:], 0) for command in before]
        calls += [(shlex.split(command)[1:], exits.get(command.split()[2], 0)) for command in on_page]
        return self.run(shlex.join(["python", "-c", IN_ONE_PROCESS, json.dumps(calls)]))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    newcomer = Newcomer(tmp_path_factory.mktemp("night"))
    newcomer.has_a_project(SETTINGS)
    newcomer.append(HANDLERS, BROKEN)
    newcomer.run("python manage.py migrate")
    newcomer.run("python manage.py tasks add cancel-unpaid-order A-1047")
    return newcomer.folder


@pytest.fixture
def night(project: Path, tmp_path: Path) -> Night:
    return Night(shutil.copytree(project, tmp_path / "night"))


def test_each_situation_is_tried() -> None:
    assert set(situations()) == {
        "Look",
        "No executor is alive",
        "More and more is overdue",
        "One code fails",
        "The database is full, or away",
        "Roll back a deploy",
        "One task must not run, or must run now",
    }


def test_a_look(night: Night) -> None:
    seen = night.sees("Look", taskhealth=UNHEALTHY)
    assert "UNHEALTHY: 0 executors alive" in seen
    assert "No executor is alive (1 task due" in seen


def test_without_an_executor(night: Night) -> None:
    seen = night.sees("No executor is alive")
    assert "cancel-unpaid-order A-1047 failed for good: the shop is closed" in seen
    assert "The queue 'newsletter' is paused." in seen


def test_more_and_more_is_overdue(night: Night) -> None:
    seen = night.sees("More and more is overdue", taskhealth=UNHEALTHY)  # once it is drained, no executor is alive
    assert "Drained: 1 run, 1 failed, in" in seen


def test_one_code_fails_until_it_is_mended(night: Night) -> None:
    seen = night.sees("One code fails", DRAIN)
    assert seen.count("the shop is closed") >= 3
    assert "1 task is selected." in seen
    assert "1 failed task is pending again." in seen


def test_a_full_database(night: Night) -> None:
    seen = night.sees("The database is full, or away", DRAIN, LET_RUNS_AGE)
    assert "1 run is older." in seen
    assert "Deleted: 1 run in" in seen


def test_a_deploy_is_rolled_back(night: Night) -> None:
    night.append(HANDLERS, NEW)
    night.run("python manage.py tasks add charge-deposit A-1")
    (night.folder / HANDLERS).write_text(BROKEN)
    seen = night.sees("Roll back a deploy", DRAIN)
    assert "cancel-unpaid-order A-1047 failed for good" in seen
    assert "charge-deposit  A-1" in seen
    assert "1 task is selected." in seen
    assert "1 task was cancelled" in seen


def test_one_task(night: Night) -> None:
    before = "python manage.py tasks add cancel-unpaid-order A-1048 --when 3d"
    seen = night.sees("One task must not run, or must run now", before)
    assert "1 task was cancelled" in seen
    assert "The task is due now." in seen
