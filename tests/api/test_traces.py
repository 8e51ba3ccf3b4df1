"""The trace of the caller: what is wrong with it must not refuse the task."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from django_delayed_tasks import Task
from django_delayed_tasks.api import add_task, add_tasks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("any_code")]


def tracing(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    module = ModuleType("opentelemetry.trace")
    vars(module).update(functions)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", module)


def span(**fields: Any) -> Any:
    context = SimpleNamespace(**{"is_valid": True, "trace_id": 1, "span_id": 2, "trace_flags": 1} | fields)
    return SimpleNamespace(get_span_context=lambda: context)


def test_a_task_is_accepted_while_another_thread_imports_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    tracing(monkeypatch)
    add_task(Task(biz_code="code", biz_num="1"))
    add_tasks([Task(biz_code="code", biz_num="2")])
    assert Task.objects.filter(trace=None).count() == 2


def test_a_task_is_accepted_if_the_trace_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    tracing(monkeypatch, get_current_span=lambda: span(trace_id="no number"))
    add_task(Task(biz_code="code", biz_num="1"))
    assert Task.objects.get().trace is None


def test_flags_that_fill_more_than_a_byte_fit_into_the_column(monkeypatch: pytest.MonkeyPatch) -> None:
    tracing(monkeypatch, get_current_span=lambda: span(trace_flags=0x101))
    add_task(Task(biz_code="code", biz_num="1"))
    assert Task.objects.get().trace == f"00-{1:032x}-{2:016x}-01"
