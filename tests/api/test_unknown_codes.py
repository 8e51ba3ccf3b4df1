"""A code that no handler here has, such as a misspelled one, is refused by each call that names it."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connection
from django.test import modify_settings, override_settings
from django.test.utils import CaptureQueriesContext

from django_delayed_tasks import api
from django_delayed_tasks.exceptions import UnknownCode
from django_delayed_tasks.handlers import TaskHandler, register_task_handler, registry
from django_delayed_tasks.models import Task, TaskRun
from tests.handlers.conftest import MakePackage, make_package
from tests.store import verbs
from tests.store.verbs import HOUR

__all__ = ["make_package"]

MISSPELLED = "cancel-unpayed-order"


class CancelUnpaidOrder(TaskHandler):
    biz_code = "cancel-unpaid-order"

    def handle(self, task: Any) -> None: ...


CALLS: dict[str, Callable[[str], Any]] = {
    "cancel_task": lambda code: api.cancel_task(code, "1"),
    "reschedule_task": lambda code: api.reschedule_task(code, "1", HOUR),
    "pause_task": lambda code: api.pause_task(code, "1"),
    "resume_task": lambda code: api.resume_task(code, "1"),
    "forget": lambda code: api.forget(code, "1"),
    "delete_tasks": lambda code: api.delete_tasks(code, "1"),
    "get_tasks_by_code": lambda code: list(api.get_tasks_by_code(code)),
    "get_runs": lambda code: list(api.get_runs(code, "1")),
}
CALL = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@pytest.fixture(autouse=True)
def known_only(any_code: None, db: None) -> Iterator[None]:
    with override_settings(DELAYED_TASKS={}), registry.preserved():
        register_task_handler(CancelUnpaidOrder)
        yield


@CALL
def test_a_misspelled_code_is_refused_with_the_one_that_was_meant(call: Callable[[str], Any]) -> None:
    verbs.add(biz_code="cancel-unpaid-order", when=HOUR)
    before = Task.objects.values().get()
    message = r"^biz_code='cancel-unpayed-order': no handler .*; did you mean 'cancel-unpaid-order'\?; handlers are "
    with pytest.raises(UnknownCode, match=message):
        call(MISSPELLED)
    assert Task.objects.values().get() == before


def test_add_task_names_the_one_that_was_meant_too() -> None:
    with pytest.raises(UnknownCode, match="did you mean 'cancel-unpaid-order'"):
        verbs.add(biz_code=MISSPELLED)
    with pytest.raises(UnknownCode, match=r"registered for it \(known: "):
        verbs.add(biz_code="xyz")


def test_of_many_codes_a_few_are_named() -> None:
    registry.clear()
    for number in range(20):
        register_task_handler(type("Mail", (CancelUnpaidOrder,), {"biz_code": f"mail-{number:02}"}))
    with pytest.raises(UnknownCode, match=r"registered for it; did you mean 'mail-\d\d'\?; handlers are"):
        verbs.add(biz_code="mail")
    with pytest.raises(UnknownCode, match=r"known: mail-00, mail-01, .*, mail-09 and 10 more\); handlers are"):
        verbs.add(biz_code="xyz")


def test_a_module_that_could_not_be_loaded_is_named_with_its_error(make_package: MakePackage) -> None:
    package = make_package({"task_handlers": "import no_such_library"})
    with modify_settings(INSTALLED_APPS={"append": package}):
        registry.clear()
        registry.load()
    why = f"{package}.task_handlers could not be loaded: ModuleNotFoundError: No module named 'no_such_library'; "
    with pytest.raises(UnknownCode, match=re.escape(why)):
        verbs.add(biz_code="xyz")
    with pytest.raises(UnknownCode, match=re.escape(why)):
        api.cancel_task("xyz", "1")


@CALL
def test_a_known_code_costs_no_query_more(call: Callable[[str], Any]) -> None:
    def cost() -> int:
        verbs.add(biz_code="cancel-unpaid-order", when=HOUR)
        with CaptureQueriesContext(connection) as queries:
            call("cancel-unpaid-order")
        return len(queries)

    checked = cost()
    with override_settings(DELAYED_TASKS={"ALLOW_UNKNOWN_CODES": True}):
        assert cost() == checked


@pytest.mark.parametrize("find", [api.get_tasks_by_code, api.get_runs])
def test_in_async_code_a_known_code_is_found_and_another_asks_the_database(find: Callable[[str], Any]) -> None:
    async def known_then_unknown() -> list[Any]:
        found = find("cancel-unpaid-order")
        with pytest.raises(SynchronousOnlyOperation):
            find(MISSPELLED)
        return [row async for row in found]

    assert async_to_sync(known_then_unknown)() == []


@CALL
def test_any_code_is_accepted_if_the_setting_says_so(call: Callable[[str], Any]) -> None:
    with override_settings(DELAYED_TASKS={"ALLOW_UNKNOWN_CODES": True}):
        assert call(MISSPELLED) in ("missing", False, 0, [])


def gone(**options: Any) -> None:
    """Add a task whose handler is removed then."""
    with override_settings(DELAYED_TASKS={"ALLOW_UNKNOWN_CODES": True}):
        verbs.add(biz_code="gone", **options)


@CALL
def test_tasks_of_a_handler_that_is_gone_can_be_reached(call: Callable[[str], Any]) -> None:
    gone(when=HOUR)
    call("gone")


@CALL
def test_so_can_its_history(call: Callable[[str], Any]) -> None:
    gone()
    verbs.settle(verbs.done(verbs.claim_one()))
    assert not Task.objects.exists()
    call("gone")
    assert api.get_runs("gone").get().biz_num == "1"


def test_a_success_of_a_handler_that_is_gone_can_be_forgotten() -> None:
    gone(once=True)
    verbs.settle(verbs.done(verbs.claim_one())._replace(once=True))
    TaskRun.objects.all().delete()
    assert api.forget("gone", "1")
    with pytest.raises(UnknownCode):
        api.forget("gone", "1")


def test_without_a_code_nothing_is_refused() -> None:
    assert not api.get_tasks_by_code().exists()
    assert not api.get_runs(biz_num="1").exists()
