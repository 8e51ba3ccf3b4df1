"""The examples of the page about functions of Django's Tasks framework do what it says. They need Django 6."""

import sys
import urllib.request
from datetime import timedelta
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import django
import pytest

from django_delayed_tasks import cancel_task
from django_delayed_tasks.testing import run_due_tasks, run_until, scheduled_tasks
from tests.docs.shown import shown

pytestmark = pytest.mark.usefixtures("in_shop")

FUNCTIONS = """
from django.tasks import task

@task
def send_receipt(number, total): return total

@task
def check_shop(number): ...
"""


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module ``shop.tasks``, with the two functions that the page only calls."""
    module = ModuleType("shop.tasks")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(FUNCTIONS, vars(module))
    return module


def codes() -> list[str]:
    """Run what is due; return the functions that ran, without their module."""
    return [code.removeprefix("shop.tasks.") for code in run_due_tasks().raise_errors().codes]


@pytest.mark.skipif(django.VERSION < (6, 0), reason="the page is for Django 6")
def test_functions(functions: ModuleType, settings: Any, django_capture_on_commit_callbacks: Any) -> None:
    orders = [SimpleNamespace(number=f"A-{number}", total=number) for number in range(3)]
    with shown("how-to/django-tasks.md", functions) as page:
        page.run(orders=orders, number="A-9", total=5)
        settings.TASKS = page["TASKS"]
        with django_capture_on_commit_callbacks(execute=True):
            page.run()
        assert codes() == ["send_receipt"] * 4

        page.run()
        page["synchronize"].enqueue("ann")
        page["synchronize"].enqueue(7, "2026-01-01")
        page["nightly_report"].enqueue()
        assert [task.biz_ext for task in scheduled_tasks("shop.tasks.synchronize")][1] == {
            "function": "shop.tasks.synchronize", "args": [7, "2026-01-01"], "kwargs": {},
        }  # fmt: skip
        assert sorted(codes()) == ["nightly_report", "synchronize", "synchronize"]

        page.run()
        page["tell_warehouse"].enqueue("A-1")
        with mock.patch.object(urllib.request, "urlopen", side_effect=OSError("no route")) as call:
            runs = run_until(timedelta(hours=1))
        pauses = [
            later.started - earlier.started for earlier, later in pairwise(runs) if earlier.started and later.started
        ]
        assert pauses == [timedelta(seconds=30 * 2**attempt) for attempt in range(1, 6)]
        assert call.call_count == 6

        page.run()
        assert codes() == ["send_receipt"]
        [receipt, check] = scheduled_tasks()
        assert (receipt.biz_num, check.biz_num) == ("order-17", "12")

        page.run()
        result = page.names["result"] = page["export"].enqueue(4)
        run_due_tasks()
        page.run().run()
        assert page["TASKS"]["default"]["OPTIONS"]["functions"]
    result.refresh()
    assert result.return_value == 4
    assert cancel_task("shop.tasks.check_shop", "12")
    assert codes() == ["export"]
