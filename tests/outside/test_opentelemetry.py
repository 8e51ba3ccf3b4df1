"""OpenTelemetry's own SDK: a span for each run, linked to the span that added the task."""

from datetime import timedelta
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from django_delayed_tasks import Fail, Task, clock
from django_delayed_tasks.api import add_task, add_tasks, reschedule_task
from django_delayed_tasks.clock import monotonic
from django_delayed_tasks.handlers.middleware import Run
from django_delayed_tasks.integrations import opentelemetry
from django_delayed_tasks.testing import make_task
from tests.executor.batches import batched
from tests.executor.conftest import own_handlers  # noqa: F401
from tests.executor.coroutines import async_handler_of
from tests.executor.parts import add, claim, drain, handler_of, registered
from tests.outside.telemetry import exporter, observed  # noqa: F401

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_handlers", "observed")]


def added(number: str = "1", **fields: Any) -> Any:
    """Add a task within a span; the context of the span."""
    with trace.get_tracer("test").start_as_current_span("request") as span:
        add(number, **fields)
    exporter.clear()
    return span.get_span_context()


def ids(context: Any) -> tuple[int, int]:
    return context.trace_id, context.span_id


def plain(handle: Any, **attributes: Any) -> None:
    handler_of(handle, **attributes)


def awaited(handle: Any, **attributes: Any) -> None:
    async def call(task: Any) -> Any:
        return handle(task)

    async_handler_of(call, **attributes)


@pytest.mark.parametrize("kind", [plain, awaited])
def test_a_span_for_a_run_linked_to_the_one_that_added_the_task(kind: Any) -> None:
    inside: list[Any] = []
    kind(lambda task: inside.append(trace.get_current_span().get_span_context()))
    origin = added()
    drain()
    [span] = exporter.get_finished_spans()
    assert [ids(link.context) for link in span.links] == [ids(origin)]
    assert (span.name, span.parent, span.status.status_code) == ("run code", None, StatusCode.UNSET)
    assert ids(span.context) == ids(inside[0])
    assert span.attributes
    assert (span.attributes["delayed_tasks.number"], span.attributes["delayed_tasks.attempt"]) == ("1", 1)


@pytest.mark.parametrize("kind", [plain, awaited])
def test_failures(kind: Any) -> None:
    def handle(task: Any) -> Any:
        if task.biz_num == "raises":
            raise ValueError("no money")
        return Fail("closed")

    kind(handle, max_attempts=1)
    add("raises")
    add("fails")
    drain(threads=1)
    spans = {span.attributes["delayed_tasks.number"]: span for span in exporter.get_finished_spans() if span.attributes}
    assert {span.status.status_code for span in spans.values()} == {StatusCode.ERROR}
    assert [event.name for event in spans["raises"].events] == ["exception"]
    assert spans["fails"].status.description == "Fail"
    assert spans["fails"].links == ()


def test_the_trace_survives_a_reschedule_a_retry_and_a_schedule_that_waits_for_a_run() -> None:
    origin = ids(added(when=timedelta(hours=1)))
    reschedule_task("code", "1", None)

    def trace_of(row: Task) -> tuple[int, int]:
        assert row.trace
        _, trace_id, span_id, _ = row.trace.split("-")
        return int(trace_id, 16), int(span_id, 16)

    assert trace_of(Task.objects.get()) == origin
    executor = registered()
    [task] = claim(executor)
    assert task.trace == Task.objects.get().trace
    reschedule_task("code", "1", timedelta(hours=1))
    assert Task.objects.get().deferred_trace == task.trace
    later = ids(added(when=timedelta(hours=2)))  # a schedule of another caller, which brings its own
    deferred = Task.objects.get()
    assert trace_of(deferred) == origin
    assert deferred.deferred_trace
    assert deferred.deferred_trace.split("-")[2] == f"{later[1]:016x}"


def test_a_batch_has_a_span_with_a_link_for_each_task() -> None:
    batched(lambda tasks: None)
    with trace.get_tracer("test").start_as_current_span("request"):
        add_tasks(Task(biz_code="code", biz_num=number) for number in "123")
    exporter.clear()
    drain(threads=1)
    [span] = exporter.get_finished_spans()
    assert len(span.links) == 3


def test_without_a_span_nothing_is_stored() -> None:
    add_task(Task(biz_code="code", biz_num="1"))
    assert Task.objects.get().trace is None


def test_a_span_that_is_not_sampled_is_not_stored() -> None:
    unsampled = trace.NonRecordingSpan(trace.SpanContext(1, 1, is_remote=False))
    with trace.use_span(unsampled):
        add_task(Task(biz_code="code", biz_num="1"))
    assert Task.objects.get().trace is None


class ThreeSpans(opentelemetry.OpenTelemetryMiddleware):
    """Makes few spans."""

    spans_per_second = 3


def test_only_runs_that_fail_have_a_span_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(run: Run) -> Any:
        with trace.get_tracer("test").start_as_current_span("query"):
            if run.task.biz_num == "raises":
                raise ValueError("no money")
            return Fail("closed") if run.task.biz_num == "fails" else None

    second = monotonic()
    monkeypatch.setattr(clock, "monotonic", lambda: second)
    middleware, handler = ThreeSpans(call), handler_of(lambda task: None)

    def numbers_after(*numbers: str) -> list[Any]:
        exporter.clear()
        for number in numbers:
            try:
                middleware(Run(handler, [make_task("code", number)]))
            except ValueError:
                continue
        runs = [span for span in exporter.get_finished_spans() if span.name == "run code"]
        assert {span.end_time - span.start_time > 0 for span in runs if span.end_time and span.start_time} == {True}
        return [(span.attributes or {})["delayed_tasks.number"] for span in runs]

    assert numbers_after("1", "2", "3", "4", "raises", "fails") == ["1", "2", "3", "raises", "fails"]
    assert len(exporter.get_finished_spans()) == 3 + 5  # what the others trace is not sampled
    [raises] = [span for span in exporter.get_finished_spans() if span.events]
    assert (raises.status.status_code, raises.events[0].name) == (StatusCode.ERROR, "exception")
    second += 1
    assert numbers_after("5") == ["5"]
