"""The package as it is shipped: importable before Django is set up, typed, with everything in the wheel."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from django.core.management import call_command

import django_delayed_tasks

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "django_delayed_tasks"
FIXED_NAMES = [
    "add_task",
    "add_tasks",
    "cancel_task",
    "reschedule_task",
    "delete_tasks",
    "get_tasks_by_code",
    "get_runs",
    "register_task_handler",
    "get_task_handlers",
    "start",
    "shutdown",
    "TaskHandler",
    "TaskException",
]
OUTCOMES = ["Done", "Reschedule", "Retry", "Fail"]

IMPORT_ALONE = """
import sys
import django_delayed_tasks
print(sorted(name for name in sys.modules if name.startswith(("django.", "django_delayed_tasks."))))
"""


def test_version_is_the_one_in_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert django_delayed_tasks.__version__ == project["version"]


def test_nothing_else_is_needed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == ["Django>=5.2,<6.2", "cronsim>=2.7"]


def test_import_of_the_root_loads_nothing() -> None:
    command = [sys.executable, "-c", IMPORT_ALONE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize("name", FIXED_NAMES)
def test_fixed_name_is_the_same_in_api_and_root(name: str) -> None:
    from django_delayed_tasks import api

    assert getattr(django_delayed_tasks, name) is getattr(api, name)


@pytest.mark.parametrize("name", django_delayed_tasks.__all__)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(django_delayed_tasks, name) is not None
    assert name in dir(django_delayed_tasks)


def test_task_and_outcomes_are_public() -> None:
    assert set(django_delayed_tasks.__all__) >= {"Task", *OUTCOMES, *FIXED_NAMES}


def test_the_task_of_a_handler_is_public() -> None:
    from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask

    assert "ClaimedTask" in django_delayed_tasks.__all__
    assert django_delayed_tasks.ClaimedTask is ClaimedTask


def test_dir_has_public_names_only() -> None:
    assert dir(django_delayed_tasks) == sorted(django_delayed_tasks.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(django_delayed_tasks, "no_such_name")  # noqa: B009 (mypy would refuse the plain form)


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
