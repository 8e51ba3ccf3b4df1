"""A row names a function or an exception: what may be imported because of that, and what is not."""

import pickle
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.test import modify_settings, override_settings

from django_delayed_tasks import Task as NewTask
from django_delayed_tasks import add_task
from django_delayed_tasks.exceptions import UnknownCode
from django_delayed_tasks.function_tasks.ids import id_of
from django_delayed_tasks.handlers import registry
from django_delayed_tasks.handlers.functions import code_of_function
from django_delayed_tasks.handlers.named_code import exception_named, task_named
from django_delayed_tasks.models import Task, TaskRun
from django_delayed_tasks.states import TaskStatus
from tests.executor.parts import drain
from tests.function_tasks import functions
from tests.function_tasks.framework import TaskResultDoesNotExist, TaskResultStatus, default_task_backend
from tests.handlers.conftest import MakePackage, make_package

__all__ = ["make_package"]

backend: Any = default_task_backend

RUNS = "from pathlib import Path; Path(__file__).with_name('ran').touch()\n"
WITH_A_TASK = f"""{RUNS}
from tests.function_tasks.framework import task

@task
def wipe():
    return "wiped"

class Odd(Exception):
    pass
"""


def enqueued(path: str) -> str:
    """Add a row that names this function, as an INSERT could; return the id of its result."""
    with override_settings(DELAYED_TASKS={"ALLOW_UNKNOWN_CODES": True}):
        add_task(NewTask(biz_code=code_of_function(path), biz_num="1", biz_ext={"function": path, "args": []}))
    return id_of(Task.objects.get().pk, "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that ``make_package`` writes into."""
    return tmp_path


def has_run(folder: Path) -> bool:
    return any(folder.rglob("ran"))


@pytest.mark.django_db(transaction=True)
def test_no_module_outside_of_the_apps_is_imported_because_a_row_names_it(
    make_package: MakePackage, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    package = make_package({"scripts": WITH_A_TASK})
    result = enqueued(f"{package}.scripts.wipe")
    drain()
    assert "is neither in an installed app nor in DELAYED_TASKS['FUNCTION_MODULES']" in caplog.text
    for ask in (backend.get_result, backend.enqueue_again):
        with pytest.raises((TaskResultDoesNotExist, UnknownCode)):
            ask(result)
    assert Task.objects.get(biz_num="1").attempts == 0
    assert not has_run(folder)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("listed", ["{}", "{}.scripts"])
def test_modules_that_the_project_lists_are_imported(make_package: MakePackage, listed: str) -> None:
    package = make_package({"scripts": WITH_A_TASK})
    result = enqueued(f"{package}.scripts.wipe")
    with override_settings(DELAYED_TASKS={"FUNCTION_MODULES": [listed.format(package)]}):
        drain()
    assert backend.get_result(result).return_value == "wiped"


@pytest.mark.django_db(transaction=True)
def test_a_module_that_ends_the_process_when_it_is_imported(
    make_package: MakePackage, caplog: pytest.LogCaptureFixture
) -> None:
    """The executor has claimed the task: it must be released, as one of an unknown code."""
    package = make_package({"scripts": f"raise SystemExit\n{WITH_A_TASK}"})
    enqueued(f"{package}.scripts.wipe")
    with override_settings(DELAYED_TASKS={"FUNCTION_MODULES": [package]}):
        drain()
    assert "this function cannot be used here: SystemExit" in caplog.text
    assert Task.objects.get(biz_num="1").status == TaskStatus.PENDING


@pytest.mark.django_db(transaction=True)
def test_modules_of_installed_apps_are_imported(make_package: MakePackage) -> None:
    package = make_package({"scripts": WITH_A_TASK})
    result = enqueued(f"{package}.scripts.wipe")
    with modify_settings(INSTALLED_APPS={"append": package}):
        registry.clear()
        assert backend.get_result(result).status == TaskResultStatus.READY
        drain()
    assert backend.get_result(result).return_value == "wiped"


@pytest.mark.parametrize(
    "source", ["", "def wipe(): ...", "class wipe: ...", "wipe = 1", "from os import system as wipe"]
)
def test_in_a_module_of_an_app_only_a_task_is_found(make_package: MakePackage, source: str) -> None:
    package = make_package({"scripts": source})
    with (
        modify_settings(INSTALLED_APPS={"append": package}),
        pytest.raises(ImportError, match=r"has no wipe|no function"),
    ):
        task_named(f"{package}.scripts.wipe")


@pytest.mark.parametrize(
    "path",
    [
        "json.loads",
        "os.system",
        "nothing",
        "",
        ".",
        "..x",
        "shop.x",
        "testproject.shop/../../scripts.wipe",
        "testproject.shopping.wipe",
        "testproject.shop.gone.wipe",
        "testproject.scripts.wipe",
        "sys.x",
        "django_delayed_tasks.admin.x.y",
        "\0.x",
    ],
)
def test_what_is_no_task(path: str) -> None:
    with pytest.raises(ImportError):
        task_named(path)


give = functions.give


def test_a_lazy_name_of_a_module_is_not_asked_for(make_package: MakePackage, folder: Path) -> None:
    package = make_package({"__init__": "def __getattr__(name):\n    from . import scripts", "scripts": RUNS})
    import_module(package)
    with pytest.raises(ImportError, match="has no scripts"):
        task_named(f"{package}.scripts")
    assert not has_run(folder)


def test_the_class_of_a_stored_exception_is_imported_by_the_same_rule(make_package: MakePackage, folder: Path) -> None:
    package = make_package({"scripts": WITH_A_TASK})
    with pytest.raises(ImportError, match="FUNCTION_MODULES"):
        exception_named(f"{package}.scripts.Odd")
    assert not has_run(folder)
    with modify_settings(INSTALLED_APPS={"append": package}):
        with pytest.raises(ImportError, match="has no Gone"):
            exception_named(f"{package}.scripts.Gone")
        assert exception_named(f"{package}.scripts.Odd").__name__ == "Odd"
    with pytest.raises(ValueError, match="does not reference a valid exception"):
        exception_named("json.loads")
    assert exception_named("builtins.KeyError") is KeyError


@pytest.mark.django_db(transaction=True)
def test_an_error_in_a_result_imports_nothing_that_a_row_names(make_package: MakePackage, folder: Path) -> None:
    result: Any = functions.fail.enqueue("no")
    drain()
    package = make_package({"scripts": WITH_A_TASK})
    TaskRun.objects.update(exception=f"{package}.scripts.Odd")
    Task._base_manager.all().delete()
    result.refresh()
    [error] = result.errors
    assert error.exception_class_path == f"{package}.scripts.Odd"
    with pytest.raises(ImportError, match="FUNCTION_MODULES"):
        error.exception_class  # noqa: B018
    assert not has_run(folder)
    assert pickle.loads(pickle.dumps(error)) == error
