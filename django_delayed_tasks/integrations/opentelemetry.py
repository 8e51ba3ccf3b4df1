"""OpenTelemetry: a middleware with a span for each run, linked to the span that added the task; and the metrics.

It needs the extra ``otel``.
"""

import time
from collections.abc import Sequence
from random import getrandbits
from types import TracebackType
from typing import Any, Final

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from opentelemetry import context, trace
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from django_delayed_tasks import clock
from django_delayed_tasks.executor import meter
from django_delayed_tasks.handlers.middleware import Run
from django_delayed_tasks.metrics import instruments
from django_delayed_tasks.outcomes import Fail, Retry
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask

NAME: Final = "django_delayed_tasks"
_propagator = TraceContextTextMapPropagator()
_UNTRACED: Final = trace.set_span_in_context(
    NonRecordingSpan(SpanContext(getrandbits(128) | 1, getrandbits(64) | 1, is_remote=False)), context.Context()
)
"""The context of runs without a span: what is traced within them is not sampled."""


class OpenTelemetryMiddleware:
    """Makes a span for each run; the trace begins with the run, since the task may have been added long ago.

    Attributes:
        spans_per_second: how many runs that began in the same second get a span, in each process; of the others, only
            the ones that fail. A span takes longer than all else that a run of an empty handler needs.
    """

    sync_capable = async_capable = True
    spans_per_second: float = 100

    def __init__(self, call: Any) -> None:
        self._call = call
        self._is_async = iscoroutinefunction(call)
        self._tracer = trace.get_tracer(NAME)
        self._second, self._left = 0, 0.0
        meter.start()
        instruments.create()
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, run: Run) -> Any:
        if self._is_async:
            return self._acall(run)
        began = clock.monotonic()
        if (self._left > 0 or int(began) != self._second) and self._gets_span(began):
            with _TracedRun(self._start_span(run)) as traced:
                traced.returned = self._call(run)
            return traced.returned
        token = context.attach(_UNTRACED)  # without a call of ours: most runs pass here
        try:
            returned = self._call(run)
        except BaseException as error:
            self._note_failure(run, began, error, None)
            raise
        finally:
            context.detach(token)
        if returned is not None:
            self._note_failure(run, began, None, _failure_in(returned))
        return returned

    async def _acall(self, run: Run) -> Any:
        began = clock.monotonic()
        if self._gets_span(began):
            with _TracedRun(self._start_span(run)) as traced:
                traced.returned = await self._call(run)
            return traced.returned
        token = context.attach(_UNTRACED)
        try:
            returned = await self._call(run)
        except BaseException as error:
            self._note_failure(run, began, error, None)
            raise
        finally:
            context.detach(token)
        self._note_failure(run, began, None, _failure_in(returned))
        return returned

    def _gets_span(self, began: float) -> bool:
        if int(began) != self._second:
            self._second, self._left = int(began), self.spans_per_second
        self._left -= 1
        return self._left >= 0

    def _start_span(self, run: Run, began: int | None = None) -> Span:
        name, attributes, links = f"run {run.task.biz_code}", _attributes(run), _links(run.tasks)
        return self._tracer.start_span(name, context.Context(), SpanKind.CONSUMER, attributes, links, began)

    def _note_failure(self, run: Run, began: float, error: BaseException | None, failure: Fail | Retry | None) -> None:
        """Give a run without a span one afterwards, if it has failed; ``began`` is of the monotonic clock."""
        if error is not None or failure is not None:
            span = self._start_span(run, time.time_ns() - int(1e9 * (clock.monotonic() - began)))
            _note_end(span, error, failure)
            span.end()


class _TracedRun:
    """A run with a span around it, within a ``with`` block, in which ``returned`` is set."""

    __slots__ = ("_span", "_token", "returned")

    def __init__(self, span: Span) -> None:
        self._span = span
        self.returned: Any = None

    def __enter__(self) -> "_TracedRun":
        self._token = context.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: TracebackType | None) -> None:
        context.detach(self._token)
        _note_end(self._span, error, _failure_in(self.returned))
        self._span.end()


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


def _failure_in(returned: Any) -> Fail | Retry | None:
    outcomes = returned if isinstance(returned, list | tuple) else (returned,)
    return next((one for one in outcomes if isinstance(one, Fail | Retry)), None)


def _note_end(span: Span, error: BaseException | None, failure: Fail | Retry | None) -> None:
    if error is not None:
        span.record_exception(error)
        span.set_status(StatusCode.ERROR, f"{type(error).__name__}: {error}")
    elif failure is not None:
        span.set_status(StatusCode.ERROR, type(failure).__name__)
