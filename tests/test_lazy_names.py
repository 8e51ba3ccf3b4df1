"""The names of the package's root, which are loaded when they are used."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# What a project may want before the app registry is ready, in a settings module or an app's __init__.
BEFORE_SETUP = [
    "TaskHandler",
    "task_handler",
    "register_task_handler",
    "get_task_handlers",
    "TaskException",
    "Done",
    "Reschedule",
    "Retry",
    "Fail",
    "AddResult",
    "AddAction",
    "CancelResult",
    "Cron",
    "Interval",
    "Once",
    "Trigger",
]


def python(source: str) -> str:
    """Return what a fresh interpreter prints; its errors fail the test."""
    environment = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.fixture(scope="module")
def models_loaded_by() -> dict[str, bool]:
    """Return, for each name, whether the models are loaded when only that name was imported from the package."""
    source = f"""
import json, sys

def import_alone(name):
    for module in [module for module in sys.modules if module.partition(".")[0] == "django_delayed_tasks"]:
        del sys.modules[module]
    exec(f"from django_delayed_tasks import {{name}}")
    return "django_delayed_tasks.models" in sys.modules

print(json.dumps({{name: import_alone(name) for name in {BEFORE_SETUP!r}}}))
"""
    found: dict[str, bool] = json.loads(python(source))
    return found


@pytest.mark.parametrize("name", BEFORE_SETUP)
def test_names_that_need_no_models_come_before_setup(name: str, models_loaded_by: dict[str, bool]) -> None:
    assert not models_loaded_by[name]


def test_the_rest_comes_after_setup() -> None:
    source = """
import django, django_delayed_tasks
from django.conf import settings
database = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
settings.configure(INSTALLED_APPS=["django_delayed_tasks"], USE_TZ=True, DATABASES={"default": database})
django.setup()
from django_delayed_tasks import *
print(Task._meta.label, TaskRun._meta.label, callable(add_task), callable(shutdown))
print(sorted(set(django_delayed_tasks.__all__) - set(globals())))
"""
    assert python(source).splitlines() == [
        "django_delayed_tasks.Task django_delayed_tasks.TaskRun True True",
        "[]",
    ]


def test_a_function_is_decorated_before_setup() -> None:
    """By a module that an app's ``__init__`` imports, for example."""
    source = """
import sys
from django.conf import settings
backend = {"BACKEND": "django_delayed_tasks.backends.tasks.DelayedTasksBackend"}
settings.configure(INSTALLED_APPS=["django_delayed_tasks"], USE_TZ=True, TASKS={"default": backend})
try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

def later():
    pass

later.__qualname__, later.__module__ = "later", "tests.anywhere"
print(task(later).module_path, "django_delayed_tasks.models" in sys.modules)
"""
    assert python(source) == "tests.anywhere.later False"


def test_a_name_is_looked_up_once() -> None:
    source = """
import django_delayed_tasks
django_delayed_tasks.Done
print("Done" in vars(django_delayed_tasks))
"""
    assert python(source) == "True"


def test_dir_tells_all_names_before_any_is_loaded() -> None:
    source = """
import django_delayed_tasks
print(set(django_delayed_tasks.__all__) <= set(dir(django_delayed_tasks)))
"""
    assert python(source) == "True"


def test_submodules_are_still_importable() -> None:
    assert python("from django_delayed_tasks import states; print(states.__name__)") == ("django_delayed_tasks.states")


def loaded_after_setup(statement: str, folder: str) -> str:
    """The modules of this folder that a process has loaded after ``django.setup()`` and a statement."""
    source = f"""
import sys
import django
from django.conf import settings
database = {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
settings.configure(INSTALLED_APPS=["django_delayed_tasks"], USE_TZ=True, DATABASES={{"default": database}})
django.setup()
{statement}
print(sorted(name for name in sys.modules if name.startswith("django_delayed_tasks.{folder}")))
"""
    return python(source)


def test_setup_loads_no_executor() -> None:
    """A web process adds tasks; it runs none."""
    assert loaded_after_setup("from django_delayed_tasks import add_task, shutdown, start", "executor") == "[]"


def test_an_executor_begins_without_the_statistics() -> None:
    assert loaded_after_setup("from django_delayed_tasks.management.commands import starttask", "stats") == "[]"


NOT_INSTALLED = """
import django
from django.conf import settings
BACKEND = "django_delayed_tasks.backends.tasks.DelayedTasksBackend"
settings.configure(INSTALLED_APPS=[], USE_TZ=True, TASKS={"default": {"BACKEND": BACKEND}})
django.setup()
"""


@pytest.mark.parametrize("name", ["Task", "add_task", "aadd_task"])
def test_the_app_is_not_in_installed_apps(name: str) -> None:
    source = f"""{NOT_INSTALLED}
try:
    from django_delayed_tasks import {name}
except Exception as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""
    add = "add it, and run `manage.py migrate`"
    assert python(source) == f"TaskException: django_delayed_tasks is not in INSTALLED_APPS: {add}"


def test_the_backend_of_an_app_that_is_not_in_installed_apps() -> None:
    source = f"""{NOT_INSTALLED}
try:
    from django.tasks import default_task_backend
except ImportError:
    from django_tasks import default_task_backend
print([(message.id, message.hint) for message in default_task_backend.check()])
"""
    hint = "Add 'django_delayed_tasks' to INSTALLED_APPS, and run `manage.py migrate`."
    assert python(source) == str([("django_delayed_tasks.E028", hint)])
