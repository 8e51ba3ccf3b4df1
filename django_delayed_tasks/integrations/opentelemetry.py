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
            those that fail. A span takes about as long as all else that a run of an empty handler needs.
    """

    sync_capable = async_capable = True
    spans_per_second: float = 100

    def __init__(self, call: Any) -> None:
        self._call = call
        self._is_async = iscoroutinefunction(call)
        self._tracer = trace.get_tracer(NAME)
        self._second, self._spans = 0, 0
        meter.start()
        instruments.create()
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, run: Run) -> Any:
        if self._is_async:
            return self._acall(run)
        with self._observing(run) as observed:
            observed.returned = self._call(run)
        return observed.returned

    async def _acall(self, run: Run) -> Any:
        with self._observing(run) as observed:
            observed.returned = await self._call(run)
        return observed.returned

    def _observing(self, run: Run) -> "_Observed":
        second = int(clock.monotonic())
        if second != self._second:
            self._second, self._spans = second, 0
        self._spans += 1
        return (_Traced if self._spans <= self.spans_per_second else _Untraced)(self._tracer, run)


class _Observed:
    """One run within a ``with`` block, in which ``returned`` is set."""

    __slots__ = ("_began", "_run", "_span", "_token", "_tracer", "returned")

    def __init__(self, tracer: trace.Tracer, run: Run) -> None:
        self._tracer = tracer
        self._run = run
        self.returned: Any = None

    def __enter__(self) -> "_Observed":
        raise NotImplementedError

    def __exit__(self, kind: Any, error: BaseException | None, traceback: TracebackType | None) -> None:
        raise NotImplementedError

    def _start_span(self, began: int | None = None) -> Span:
        run = self._run
        return self._tracer.start_span(
            f"run {run.task.biz_code}", context.Context(), SpanKind.CONSUMER, _attributes(run), _links(run.tasks), began
        )


class _Traced(_Observed):
    """A run with a span around it."""

    __slots__ = ()

    def __enter__(self) -> "_Traced":
        self._span = self._start_span()
        self._token = context.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: TracebackType | None) -> None:
        context.detach(self._token)
        _note_end(self._span, error, _failure_in(self.returned))
        self._span.end()


class _Untraced(_Observed):
    """A run without a span, unless it fails: then it gets one afterwards."""

    __slots__ = ()

    def __enter__(self) -> "_Untraced":
        self._began = time.time_ns()
        self._token = context.attach(_UNTRACED)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: TracebackType | None) -> None:
        context.detach(self._token)
        failure = _failure_in(self.returned)
        if error is not None or failure is not None:
            span = self._start_span(self._began)
            _note_end(span, error, failure)
            span.end()


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
