"""A row names a function or an exception: what may be imported because of that, and what is not."""

import pickle
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import Any
from zipfile import ZipFile

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
    "source",
    [
        RUNS,
        f"{RUNS}def wipe(): ...",
        f"{RUNS}class wipe: ...",
        f"{RUNS}def other():\n    other.wipe = 1",
        f"{RUNS}wipe = 1",
        f"{RUNS}wipe: int",
        f"{RUNS}other = [str(wipe) for wipe in 'ab']",
        f"{RUNS}wipe = lambda: print()",
        f"{RUNS}settings = dict()\nsettings[wipe] = dict()",
        f"{RUNS}class Other:\n    @property\n    def wipe(self): ...",
        f"{RUNS}class Other:\n    wipe = dict()",
        f"{RUNS}def other():\n    @print\n    def wipe(): ...",
        f"{RUNS}async def other():\n    wipe = dict()",
    ],
)
def test_a_module_of_an_app_that_defines_no_such_function_is_not_imported(
    make_package: MakePackage, folder: Path, source: str
) -> None:
    package = make_package({"scripts": source})
    with modify_settings(INSTALLED_APPS={"append": package}), pytest.raises(ImportError, match="does not define wipe"):
        task_named(f"{package}.scripts.wipe")
    assert not has_run(folder)


def test_packages_that_a_module_is_in_are_not_imported_to_find_it(make_package: MakePackage, folder: Path) -> None:
    package = make_package({"__init__": RUNS})
    (folder / package / "inner").mkdir()
    (folder / package / "inner/__init__.py").write_text(RUNS)
    (folder / package / "inner/scripts.py").write_text(RUNS)
    with override_settings(DELAYED_TASKS={"FUNCTION_MODULES": [package]}):
        for path in ("inner.scripts.wipe", "inner.gone.wipe", "inner.wipe", "inner.scripts.deeper.wipe"):
            with pytest.raises(ImportError):
                task_named(f"{package}.{path}")
    assert not has_run(folder)


def test_a_module_in_folders_without_init_is_found(make_package: MakePackage, folder: Path) -> None:
    package = make_package({})
    (folder / package / "outer/inner").mkdir(parents=True)
    (folder / package / "outer/inner/scripts.py").write_text(WITH_A_TASK)
    with override_settings(DELAYED_TASKS={"FUNCTION_MODULES": [package]}):
        assert task_named(f"{package}.outer.inner.scripts.wipe").name == "wipe"


@pytest.mark.parametrize(
    "made",
    [
        "wipe = task(wipe)",
        "wipe, other = task(wipe), 1",
        "[other, (wipe, *more)] = 1, (task(wipe), 2)",
        "other = wipe = task(priority=3)(wipe)",
        "wipe: object = task(wipe) if task else None",
        "(wipe := task(wipe))",
        "try:\n    with open(__file__):\n        wipe = task(wipe)\nfinally:\n    pass",
    ],
)
def test_a_function_may_be_decorated_later(make_package: MakePackage, made: str) -> None:
    source = f"from tests.function_tasks.framework import task\nasync def wipe(): ...\n{made}"
    package = make_package({"scripts": source})
    with override_settings(DELAYED_TASKS={"FUNCTION_MODULES": [package]}):
        assert task_named(f"{package}.scripts.wipe").name == "wipe"


def test_a_module_in_several_folders_without_init_is_found(
    make_package: MakePackage, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = make_package({})
    (folder / package / "__init__.py").unlink()
    for portion, modules in ((folder, {}), (folder / "second", {"scripts": WITH_A_TASK})):
        (portion / package / "outer/inner").mkdir(parents=True)
        monkeypatch.syspath_prepend(portion)
        for name, source in modules.items():
            (portion / package / "outer/inner" / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(folder)
    with override_settings(DELAYED_TASKS={"FUNCTION_MODULES": [package]}):
        assert task_named(f"{package}.outer.inner.scripts.wipe").name == "wipe"


def test_a_module_in_a_folder_that_its_package_added_is_found(make_package: MakePackage, folder: Path) -> None:
    package = make_package({"__init__": "__path__.append(__path__[0] + '/../elsewhere')"})
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/scripts.py").write_text(WITH_A_TASK)
    import_module(package)
    with override_settings(DELAYED_TASKS={"FUNCTION_MODULES": [package]}):
        assert task_named(f"{package}.scripts.wipe").name == "wipe"


@pytest.mark.parametrize("listed", ["{}", "{}.inner"])
def test_a_module_that_a_finder_of_the_project_knows_is_found(
    make_package: MakePackage, folder: Path, monkeypatch: pytest.MonkeyPatch, listed: str
) -> None:
    """As in an editable installation of a package that is in a namespace."""
    package = make_package({})
    (folder / package / "__init__.py").unlink()
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/__init__.py").touch()
    (folder / "elsewhere/scripts.py").write_text(WITH_A_TASK)

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object, target: object = None) -> ModuleSpec | None:
            return (
                spec_from_file_location(name, folder / "elsewhere/__init__.py") if name == f"{package}.inner" else None
            )

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    with override_settings(DELAYED_TASKS={"FUNCTION_MODULES": [listed.format(package)]}):
        assert task_named(f"{package}.inner.scripts.wipe").name == "wipe"


def test_a_module_in_an_archive_is_found(
    make_package: MakePackage, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = make_package({})
    (folder / package / "__init__.py").unlink()
    (folder / package).rmdir()
    with ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr(f"{package}/__init__.py", "")
        archive.writestr(
            f"{package}/scripts.py", "from tests.function_tasks.framework import task\n@task\ndef wipe(): ..."
        )
    monkeypatch.syspath_prepend(folder / "archive.zip")
    with override_settings(DELAYED_TASKS={"FUNCTION_MODULES": [package]}):
        assert task_named(f"{package}.scripts.wipe").name == "wipe"


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
    with modify_settings(INSTALLED_APPS={"append": package}):
        with pytest.raises(ImportError, match="does not define Gone"):
            exception_named(f"{package}.scripts.Gone")
        assert not has_run(folder)
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
