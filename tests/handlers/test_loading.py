"""``TASK_HANDLERS`` and the apps' ``task_handlers`` modules."""

import logging
import sys
from importlib import import_module
from typing import Any

import pytest
from django.test import modify_settings, override_settings

from django_delayed_tasks.exceptions import InvalidHandler
from django_delayed_tasks.handlers import find, get_task_handlers, load
from django_delayed_tasks.handlers.discovery import LoadProblem
from tests.handlers.conftest import MakePackage
from tests.threads import start_thread

HANDLERS = """
from django_delayed_tasks import TaskHandler, task_handler

class Base(TaskHandler):
    def handle(self, task): ...

class Promotion(Base):
    biz_code = "promotion"

class Demanding(Base):
    def __init__(self, code):
        self.code = code
    def get_biz_code(self):
        return self.code

INSTANCE = Demanding("instance")

@task_handler("greet")
def greet(task): ...

not_a_handler = 7
"""


WITHOUT_ARGUMENTS = HANDLERS.replace("def __init__(self, code):", "def __init__(self, code='demanding'):")


def loaded_from(paths: Any) -> list[LoadProblem]:
    with override_settings(TASK_HANDLERS=paths):
        return load()


def loaded_from_app(name: str) -> list[LoadProblem]:
    with modify_settings(INSTALLED_APPS={"append": name}):
        return [problem for problem in load() if name in problem.source]


def codes() -> set[str]:
    return set(get_task_handlers())


LOADS = """
from django_delayed_tasks.handlers import load, task_handler

PROBLEMS = load()

@task_handler("greet")
def greet(task): ...
"""


def test_a_module_that_loads_while_it_is_loaded_loads_nothing_twice(
    make_package: MakePackage, caplog: pytest.LogCaptureFixture
) -> None:
    package = make_package({"loads": LOADS, "broken": "1 / 0"})
    problems = loaded_from([f"{package}.loads.greet", f"{package}.broken.greet"])
    assert [type(problem.error) for problem in problems] == [ZeroDivisionError]
    assert len(caplog.records) == 1
    assert import_module(f"{package}.loads").PROBLEMS == []
    assert codes() >= {"greet"}


@pytest.mark.parametrize(("name", "code"), [("Promotion", "promotion"), ("INSTANCE", "instance"), ("greet", "greet")])
def test_a_path_may_name_a_class_an_instance_or_a_decorated_function(
    make_package: MakePackage, name: str, code: str
) -> None:
    package = make_package({"tasks": HANDLERS})
    assert loaded_from([f"{package}.tasks.{name}"]) == []
    assert codes() >= {code}


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("no_such_package.Handler", ImportError, "no_such_package"),
        ("{package}.tasks.Missing", ImportError, "Missing"),
        ("no_dots", ImportError, "no_dots"),
        ("{package}.tasks", InvalidHandler, r"a module; name a handler in it, as 'made_.*\.tasks\.send_mail'"),
        ("django.test", InvalidHandler, r"a module; name a handler in it, as 'django\.test\.send_mail'"),
        ("{package}.broken.Handler", ZeroDivisionError, "division"),
        ("{package}.tasks.not_a_handler", InvalidHandler, "expected a TaskHandler.*not 7"),
        ("{package}.tasks.TaskHandler", InvalidHandler, "biz_code=''"),
        ("{package}.tasks.Demanding", InvalidHandler, "cannot be instantiated without arguments"),
        (None, InvalidHandler, "expected a dotted path"),
    ],
)
def test_a_path_that_cannot_be_loaded_is_a_problem_and_no_exception(
    make_package: MakePackage, path: str | None, error: type[Exception], message: str
) -> None:
    source = HANDLERS.replace('INSTANCE = Demanding("instance")', "")
    package = make_package({"tasks": source, "broken": "1 / 0"})
    path = path and path.format(package=package)
    (problem,) = loaded_from([path, f"{package}.tasks.Promotion"])
    assert problem.source == f"TASK_HANDLERS: {path!r}"
    with pytest.raises(error, match=message):
        raise problem.error
    assert "promotion" in codes(), "the paths after it are loaded all the same"


@pytest.mark.parametrize("paths", ["shop.tasks.Promotion", {"shop.tasks.Promotion"}, None, 7])
def test_task_handlers_must_be_a_list(paths: Any) -> None:
    (problem,) = loaded_from(paths)
    assert problem.source == "TASK_HANDLERS"
    assert "expected a list of dotted paths" in str(problem.error)


def test_a_problem_is_logged_with_its_traceback(make_package: MakePackage, caplog: pytest.LogCaptureFixture) -> None:
    package = make_package({"broken": "1 / 0"})
    with caplog.at_level(logging.ERROR, "django_delayed_tasks"):
        loaded_from([f"{package}.broken.Handler"])
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_classes_and_decorated_functions_of_an_app_are_found(make_package: MakePackage) -> None:
    assert loaded_from_app(make_package({"task_handlers": WITHOUT_ARGUMENTS})) == []
    assert codes() >= {"promotion", "demanding", "greet"}


def test_django_loads_them_at_its_start(make_package: MakePackage) -> None:
    with modify_settings(INSTALLED_APPS={"append": make_package({"task_handlers": WITHOUT_ARGUMENTS})}):
        assert codes() >= {"promotion", "demanding", "greet"}


def test_imported_classes_belong_to_the_app_that_wrote_them(make_package: MakePackage) -> None:
    """An app may import the handlers of another that is not installed."""
    library = make_package({"tasks": HANDLERS.replace("@task_handler", "# @task_handler")})
    package = make_package({"task_handlers": f"from {library}.tasks import Promotion"})
    assert loaded_from_app(package) == []
    assert "promotion" not in codes()


def test_a_class_whose_instances_are_registered_needs_no_registering(make_package: MakePackage) -> None:
    source = f"{HANDLERS}\nfrom django_delayed_tasks import register_task_handler as r\nr(INSTANCE)"
    assert loaded_from_app(make_package({"task_handlers": source})) == []
    assert type(find("instance")).__name__ == "Demanding"


def test_both_ways_together_are_one_registration(make_package: MakePackage) -> None:
    package = make_package({"task_handlers": HANDLERS})
    names = ("Promotion", "INSTANCE", "greet")
    with override_settings(TASK_HANDLERS=[f"{package}.task_handlers.{name}" for name in names]):
        assert loaded_from_app(package) == []
    assert codes() >= {"promotion", "instance", "greet"}


def test_an_app_without_the_module_is_passed_over(make_package: MakePackage) -> None:
    assert loaded_from_app(make_package({"models": ""})) == []


def test_an_import_error_inside_the_module_is_a_problem(make_package: MakePackage) -> None:
    package = make_package({"task_handlers": "import no_such_library"})
    (problem,) = loaded_from_app(package)
    assert problem.source == f"{package}.task_handlers"
    assert isinstance(problem.error, ImportError)
    assert "no_such_library" in str(problem.error)


def test_a_module_that_fails_half_way_registers_nothing(make_package: MakePackage) -> None:
    """Every path into it then reports the error in it, not a collision with its first try."""
    package = make_package({"task_handlers": f"{HANDLERS}\nraise RuntimeError('half-way')"})
    paths = [f"{package}.task_handlers.{name}" for name in ("Promotion", "greet")]
    with override_settings(TASK_HANDLERS=paths):
        problems = loaded_from_app(package)
    assert [str(problem.error) for problem in problems] == ["half-way"] * 3
    assert "greet" not in codes()


def test_loading_happens_once(make_package: MakePackage) -> None:
    package = make_package({"tasks": f"{HANDLERS}\nimport sys\nsys.loads = getattr(sys, 'loads', 0) + 1"})
    paths = [f"{package}.tasks.Promotion", "no_such_package.Handler"]
    first = loaded_from(paths)
    del sys.modules[f"{package}.tasks"]
    assert loaded_from(paths) == first
    assert vars(sys).pop("loads") == 1


def test_what_load_returns_is_a_copy() -> None:
    loaded_from(["no_such_package.Handler"]).clear()
    assert len(load()) >= 1


GATE = """
import threading
entered, opened = threading.Event(), threading.Event()
"""
GATED = """
from . import gate
gate.entered.set()
assert gate.opened.wait(30)
from django_delayed_tasks import task_handler
@task_handler("gated")
def gated(task): ...
"""
BLOCKED = 0.3  # seconds: how long a thread is watched that must not come back


def make_gated(make_package: MakePackage) -> tuple[str, Any]:
    """A package whose module ``tasks`` waits in the middle of its import until ``gate.opened`` is set."""
    package = make_package({"gate": GATE, "tasks": GATED})
    return package, import_module(f"{package}.gate")


def test_a_second_thread_waits_until_all_is_loaded(make_package: MakePackage) -> None:
    package, gate = make_gated(make_package)
    with override_settings(TASK_HANDLERS=[f"{package}.tasks.gated"]):
        first = start_thread(load)
        assert gate.entered.wait(30)
        second = start_thread(lambda: (load(), find("gated")))
        second.join(BLOCKED)
        assert second.is_alive()
        gate.opened.set()
        assert first.result() == []
        problems, handler = second.result()
    assert problems == []
    assert handler is not None


def test_loading_does_not_deadlock_with_an_import(make_package: MakePackage) -> None:
    """A thread that imports a module registers its handlers, while another loads and wants that module."""
    package, gate = make_gated(make_package)
    with override_settings(TASK_HANDLERS=[f"{package}.tasks.gated"]):
        importing = start_thread(lambda: import_module(f"{package}.tasks"))
        assert gate.entered.wait(30)
        loading = start_thread(load)
        loading.join(BLOCKED)
        assert loading.is_alive()
        gate.opened.set()
        importing.result()
        assert loading.result() == []
    assert find("gated") is not None
