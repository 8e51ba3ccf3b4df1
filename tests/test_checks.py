"""The system checks of settings and handlers."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core import checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.test import modify_settings, override_settings

from django_delayed_tasks.checks import databases as database_checks
from django_delayed_tasks.checks.configuration import BACKEND
from django_delayed_tasks.handlers import TaskHandler, register_task_handler, registry
from tests.complaints import PREFIX, found, numbers, the_only
from tests.handlers.conftest import make_package  # noqa: F401 (a fixture)


@pytest.fixture(autouse=True)
def empty_registry() -> Iterator[None]:
    with registry.preserved():
        registry.clear()
        yield


@pytest.mark.django_db
def test_a_good_project_has_no_complaints() -> None:
    assert found(["default"]) == []


def test_every_message_is_explained() -> None:
    page = Path(__file__).resolve().parent.parent / "docs/reference/checks.md"
    package = Path(database_checks.__file__).parent.parent
    modules = [*package.glob("checks/*.py"), package / "backends/tasks.py"]
    sources = "".join(path.read_text() for path in modules)
    explained = re.findall(r"^\| `([EW]\d{3})` \|", page.read_text(), re.MULTILINE)
    assert len(explained) > 15
    assert sorted(explained) == sorted(set(re.findall(r"\b[EW]\d{3}\b", sources)))


# Settings


@pytest.mark.parametrize(
    ("given", "expected", "text"),
    [
        (
            {"MIDDLEWARE": ["nowhere.at_all"]},
            "E026",
            "nowhere.at_all: ModuleNotFoundError",
        ),
        (
            {"MIDDLEWARE": "shop.timing"},
            "E001",
            "'shop.timing': expected a list of dotted",
        ),
        ({"THREADS": 0}, "E001", "DELAYED_TASKS['THREADS']: 0: expected an int from 1"),
        ({"KEEP_HISTORY": 7}, "E001", "timedelta(days=7)"),
        ([], "E001", "expected a dict"),
        ({"THREDS": 4}, "E002", "no key 'THREDS'"),
        ({"HEARTBEAT": 5, "LEASE": timedelta(seconds=10)}, "E003", "longer than two heartbeats"),
        ({"DATABASE": "nowhere"}, "E004", "no database 'nowhere'"),
    ],
)
def test_wrong_settings(given: Any, expected: str, text: str) -> None:
    with override_settings(DELAYED_TASKS=given):
        message = the_only()
    assert message.id == PREFIX + expected
    assert message.level == checks.ERROR
    assert text in message.msg


def plain_middleware(call: Any) -> Any:
    return lambda run: call(run)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_plain_middleware_is_wrong_around_async_handlers(is_async: bool) -> None:
    class Plain(TaskHandler):
        biz_code = "plain"

        def handle(self, task: Any) -> None: ...

    class Async(TaskHandler):
        biz_code = "async"

        async def handle(self, task: Any) -> None: ...

    register_task_handler(Async if is_async else Plain)
    with override_settings(DELAYED_TASKS={"MIDDLEWARE": [f"{__name__}.plain_middleware"]}):
        assert numbers() == (["E026"] if is_async else [])


@pytest.mark.parametrize("name", ["DELAYED_TASK", "DELAYEDTASKS", "DELAY_TASKS", "DJANGO_DELAYED_TASKS"])
def test_a_setting_of_almost_the_same_name_is_pointed_out(name: str) -> None:
    with override_settings(**{name: {"THREADS": 4}}):
        message = the_only()
    assert (message.id, message.level) == (PREFIX + "W027", checks.WARNING)
    assert (message.msg, message.hint) == (
        f"There is no setting {name}: it has no effect.",
        "Did you mean DELAYED_TASKS?",
    )


@pytest.mark.parametrize("name", ["DELAYED_TASKS_THREADS", "DJANGO_DELAYED_TASKS_THREADS"])
def test_a_key_that_is_written_as_a_setting(name: str) -> None:
    with override_settings(**{name: 4}):
        message = the_only()
        assert (message.id, message.hint) == (PREFIX + "W027", "Did you mean the key 'THREADS' of DELAYED_TASKS?")
        with override_settings(DELAYED_TASKS={"THREADS": 4}):
            assert found() == []


@pytest.mark.parametrize("value", [["shop.jobs.Mail"], ("shop.jobs.Mail",)])
@pytest.mark.parametrize("name", ["TASK_HANDLER", "TASKS_HANDLERS", "TASKHANDLERS", "DELAYED_TASKS_HANDLERS"])
def test_another_name_for_the_list_of_handlers(name: str, value: Any) -> None:
    with override_settings(**{name: value}):
        message = the_only()
    assert (message.id, message.level) == (PREFIX + "W027", checks.WARNING)
    assert message.hint == "Did you mean TASK_HANDLERS?"


@pytest.mark.parametrize("key", ["TASK_HANDLERS", "HANDLERS", "task_handler"])
def test_the_list_of_handlers_is_no_key(key: str) -> None:
    with override_settings(DELAYED_TASKS={key: ["shop.jobs.Mail"]}):
        message = the_only()
    assert (message.id, message.hint) == (PREFIX + "E002", "TASK_HANDLERS is a setting of its own, next to this one.")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SCHEDULED_TASKS", {}),
        ("BACKGROUND_TASKS", {}),
        ("DELAYED_TASKS_ENABLED", True),
        ("TASKS", {}),
        ("TASK_HANDLER", "shop.jobs.Mail"),
        ("TASK_HANDLER", []),
        ("EVENT_HANDLERS", ["shop.events.paid"]),
        ("BASE_HANDLERS", ["shop.base.Handler"]),
    ],
)
def test_other_settings_are_the_projects_business(name: str, value: Any) -> None:
    with override_settings(**{name: value}):
        assert found() == []


@pytest.mark.parametrize(
    "path", ["django_delayed_tasks.backends.DelayedTasksBackend", "delayed_tasks.backends.X", "delayed_tasks"]
)
def test_a_path_of_the_backend_that_leads_nowhere(path: str) -> None:
    with override_settings(TASKS={"later": {"BACKEND": path}}):
        message = the_only()
    assert (message.id, message.level) == (PREFIX + "E027", checks.ERROR)
    assert message.msg.startswith("TASKS['later']['BACKEND'] cannot be imported: ")
    assert message.hint == "The backend of this app is 'django_delayed_tasks.backends.tasks.DelayedTasksBackend'."


@pytest.mark.parametrize(
    "tasks",
    [
        {"default": {"BACKEND": "django.tasks.backends.immediate.ImmediateBackend"}},
        {"default": {"BACKEND": BACKEND}},
        {"default": {"BACKEND": "nowhere.Backend"}},
        {"default": {}},
        {"default": None},
        None,
    ],
)
def test_other_backends_are_the_frameworks_business(tasks: Any) -> None:
    with override_settings(TASKS=tasks):
        assert found() == []


@pytest.mark.parametrize(
    ("key", "meant"), [("THREDS", "THREADS"), ("threads", "THREADS"), ("POLL_INTERVALS", "POLL_INTERVAL")]
)
def test_an_unknown_key_comes_with_the_likely_one(key: str, meant: str) -> None:
    with override_settings(DELAYED_TASKS={key: 4}):
        assert the_only().hint == f"Did you mean {meant}?"


def test_a_key_like_no_other_comes_with_all() -> None:
    with override_settings(DELAYED_TASKS={"XYZ": 4}):
        assert "THREADS" in str(the_only().hint)


def test_all_wrong_settings_are_reported_together() -> None:
    with override_settings(DELAYED_TASKS={"THREADS": 0, "CLAIM": "fast", "THREDS": 1}, USE_TZ=False):
        assert numbers() == ["E001", "E001", "E002", "E005"]


def test_use_tz_is_required() -> None:
    with override_settings(USE_TZ=False):
        assert numbers() == ["E005"]


# Handlers


class Promotion(TaskHandler):
    biz_code = "promotion"

    def handle(self, task: Any) -> None: ...


class Rival(Promotion):
    pass


@pytest.mark.parametrize(
    ("paths", "expected", "text"),
    [
        (["no_such_package.Handler"], "E006", "cannot be imported: ModuleNotFoundError"),
        ([f"{__name__}.Missing"], "E006", "Missing"),
        ([f"{__name__}.PREFIX"], "E007", "expected a TaskHandler"),
        ([f"{__name__}.Promotion", f"{__name__}.Rival"], "E007", "two handlers have the same code"),
        ("shop.Handler", "E007", "expected a list of dotted paths"),
    ],
)
def test_wrong_handlers(paths: Any, expected: str, text: str) -> None:
    with override_settings(TASK_HANDLERS=paths):
        message = the_only()
    assert message.id == PREFIX + expected
    assert text in message.msg


@pytest.mark.django_db  # a check of JSONField, which is not ours, connects
def test_an_error_in_an_app_does_not_stop_django_but_its_checks(make_package: Any) -> None:  # noqa: F811
    package = make_package({"task_handlers": "import no_such_library"})
    with modify_settings(INSTALLED_APPS={"append": package}):
        apps.check_apps_ready()
        with pytest.raises(SystemCheckError, match=f"{package}.task_handlers cannot be imported"):
            call_command("check")


@pytest.mark.parametrize(
    ("attribute", "meant"),
    [
        ("max_attemps", "max_attempts"),
        ("time_out", "timeout"),
        ("on_fail", "on_failed"),
        ("bizcode", "biz_code"),
        ("max_retries", "max_attempts"),
        ("retries", "max_attempts"),
        ("rate_limit", "rate"),
        ("time_limit", "timeout"),
        ("retry_backoff", "backoff"),
        ("autoretry_for", "backoff_after"),
    ],
)
def test_a_misspelt_attribute_is_pointed_out(attribute: str, meant: str) -> None:
    register_task_handler(type("Careless", (Promotion,), {attribute: 3}))
    message = the_only()
    assert (message.id, message.level) == (PREFIX + "W001", checks.WARNING)
    assert f"Careless has an attribute {attribute!r}" in message.msg
    assert message.hint == f"Did you mean {meant}?"


def test_attributes_of_its_own_are_the_handlers_business() -> None:
    own = {"percent": 20, "send_mail": None, "_max_attemps": 1, "max_attempts": 3}
    register_task_handler(type("Proper", (Promotion,), own))
    assert found() == []


@pytest.mark.parametrize(
    ("name", "value", "missing"),
    [("batch_size", 100, "handle_batch"), ("concurrency_key", lambda self, task: "customer", "max_concurrent")],
)
def test_an_attribute_without_what_it_goes_with(name: str, value: Any, missing: str) -> None:
    base = type("Idle", (Promotion,), {name: value})
    register_task_handler(base)
    message = the_only()
    assert (message.id, message.level) == (PREFIX + "W003", checks.WARNING)
    assert f"Idle has {name}, which has no effect without {missing}" in message.msg
    registry.clear()
    register_task_handler(type("OfMany", (base,), {}))
    assert found() == []


def test_attributes_with_what_they_go_with() -> None:
    keyed = {"concurrency_key": lambda self, task: "x"}
    register_task_handler(type("Keyed", (Promotion,), keyed | {"max_concurrent": 1}))
    register_task_handler(type("Rated", (Promotion,), keyed | {"biz_code": "rated", "rate": "1/s"}))
    both = {"biz_code": "batched", "batch_size": 7, "handle_batch": lambda self, tasks: None}
    register_task_handler(type("Batched", (TaskHandler,), both))
    assert found() == []


NO_CODE = """
from django_delayed_tasks import TaskHandler, register_task_handler
class Base(TaskHandler):
    def handle(self, task): ...
class Used(Base):
    biz_code = "used"
class Forgotten(Base): ...
class ByInstance(Base):
    def __init__(self, biz_code):
        self.biz_code = biz_code
register_task_handler(ByInstance("one"))
"""


def test_a_class_without_code_that_nothing_builds_on_is_pointed_out(make_package: Any) -> None:  # noqa: F811
    package = make_package({"task_handlers": NO_CODE})
    with modify_settings(INSTALLED_APPS={"append": package}):
        message = the_only()
    assert message.id == PREFIX + "W002"
    assert f"{package}.task_handlers.Forgotten has no biz_code" in message.msg
