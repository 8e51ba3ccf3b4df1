"""OpenTelemetry: a middleware with a span for each run, linked to the span that added the task, and metrics of runs.

It needs the extra ``otel``.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from time import perf_counter
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from opentelemetry import context, metrics, trace
from opentelemetry.trace import Link, Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from django_delayed_tasks import clock
from django_delayed_tasks.handlers.middleware import Run
from django_delayed_tasks.outcomes import Fail, Retry
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask

NAME = "django_delayed_tasks"
_propagator = TraceContextTextMapPropagator()


class OpenTelemetryMiddleware:
    """Makes a span for each run; the trace begins with the run, since the task may have been added long ago."""

    sync_capable = async_capable = True

    def __init__(self, call: Any) -> None:
        self._call = call
        self._tracer = trace.get_tracer(NAME)
        meter = metrics.get_meter(NAME)
        self._lateness = meter.create_histogram("delayed_tasks_lateness_seconds", "s", "Lateness of first attempts.")
        self._run_time = meter.create_histogram("delayed_tasks_run_seconds", "s", "Seconds that runs took.")
        self._runs = meter.create_counter("delayed_tasks_runs", "1", "Runs, by code and whether they failed.")
        if iscoroutinefunction(call):
            markcoroutinefunction(self)

    def __call__(self, run: Run) -> Any:
        if iscoroutinefunction(self):
            return self._acall(run)
        with self._spanned(run) as span:
            returned = self._call(run)
            _note_outcome(span, returned)
            return returned

    async def _acall(self, run: Run) -> Any:
        with self._spanned(run) as span:
            returned = await self._call(run)
            _note_outcome(span, returned)
            return returned

    @contextmanager
    def _spanned(self, run: Run) -> Iterator[Span]:
        code = run.task.biz_code
        self._note_lateness(run.tasks)
        began, is_failed = perf_counter(), True
        try:
            with self._tracer.start_as_current_span(
                f"run {code}", context.Context(), SpanKind.CONSUMER, _attributes(run), _links(run.tasks)
            ) as span:
                yield span
                is_failed = False
        finally:
            self._run_time.record(perf_counter() - began, {"code": code})
            self._runs.add(len(run.tasks), {"code": code, "raised": is_failed})

    def _note_lateness(self, tasks: Sequence[ClaimedTask]) -> None:
        now = clock.host_now()
        for task in tasks:
            if task.attempts <= 1:
                late = max(now - task.when, timedelta()).total_seconds()
                self._lateness.record(late, {"code": task.biz_code})


def _attributes(run: Run) -> dict[str, str | int]:
    task = run.task
    common: dict[str, str | int] = {
        "messaging.system": NAME, "messaging.destination.name": task.queue, "delayed_tasks.code": task.biz_code,
        "messaging.batch.message_count": len(run.tasks),
    }  # fmt: skip
    own: dict[str, str | int] = {"delayed_tasks.number": task.biz_num, "delayed_tasks.attempt": task.attempts}
    return common | own if len(run.tasks) == 1 else common


def _links(tasks: Sequence[ClaimedTask]) -> list[Link]:
    found = [trace.get_current_span(_propagator.extract({"traceparent": task.trace})) for task in tasks if task.trace]
    contexts = [span.get_span_context() for span in found]
    return [Link(one) for one in contexts if one.is_valid]


def _note_outcome(span: Span, returned: Any) -> None:
    outcomes = returned if isinstance(returned, list | tuple) else [returned]
    bad = next((one for one in outcomes if isinstance(one, Fail | Retry)), None)
    if bad is not None:
        span.set_status(StatusCode.ERROR, type(bad).__name__)
