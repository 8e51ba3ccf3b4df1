"""``drain`` with what observes an executor: ``observed PART …``, of ``PARTS``; without "bare", statistics are on."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import django
from django.test import override_settings

from harness.benchmarks.programs.drain import drain, executor_with
from harness.benchmarks.programs.together import begin_together

OPENTELEMETRY = "django_delayed_tasks.integrations.opentelemetry.OpenTelemetryMiddleware"


def bare() -> None:
    """Count no statistics either, which no project can turn off."""
    from django_delayed_tasks.executor.tally import Tally

    Tally.count = lambda *args: None  # type: ignore[method-assign]


def absent() -> None:
    """Make the packages unimportable, as where they are not installed."""
    for package in ("opentelemetry", "prometheus_client", "sentry_sdk"):
        sys.modules[package] = None  # type: ignore[assignment]


def metrics() -> None:
    """Count for Prometheus, as with ``--metrics-port``."""
    from django_delayed_tasks.executor import meter

    meter.start()


def signals() -> None:
    """Connect a receiver with every signal."""
    from django.dispatch import Signal

    from django_delayed_tasks import signals

    for signal in vars(signals).values():
        if isinstance(signal, Signal):
            signal.connect(_receive, weak=False)


def _receive(**_: Any) -> None:
    pass


def sentry() -> None:
    """Set Sentry up as docs/how-to/operate.md says, with a transport that sends nothing."""
    import sentry_sdk
    from sentry_sdk.envelope import Envelope
    from sentry_sdk.integrations.django import DjangoIntegration
    from sentry_sdk.transport import Transport

    from django_delayed_tasks.integrations.sentry import group_by_code

    class Nowhere(Transport):
        def capture_envelope(self, envelope: Envelope) -> None:
            pass

    without_spans = [DjangoIntegration(signals_spans=False)]
    dsn = "https://key@sentry.invalid/1"
    sentry_sdk.init(dsn=dsn, transport=Nowhere, before_send=group_by_code, integrations=without_spans)


def every_span(share: float = 1.0) -> None:
    """Give each run a span, however many there are in a second."""
    from django_delayed_tasks.integrations.opentelemetry import OpenTelemetryMiddleware

    spans(share)
    OpenTelemetryMiddleware.spans_per_second = float("inf")


def sampled_spans() -> None:
    """Give each run a span, of which the SDK's sampler takes a tenth."""
    every_span(0.1)


def spans(share: float = 1.0) -> None:
    """Put OpenTelemetry's middleware around each run, with an exporter and a reader that keep everything in memory.

    The SDK samples the given share of the spans.
    """
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON, TraceIdRatioBased

    provider = TracerProvider(ALWAYS_ON if share == 1 else TraceIdRatioBased(share))
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
    override_settings(DELAYED_TASKS={"MIDDLEWARE": [OPENTELEMETRY]}).enable()


PARTS: Mapping[str, Callable[[], None]] = {
    part.__name__: part for part in (absent, bare, every_span, metrics, sampled_spans, sentry, signals, spans)
}

if __name__ == "__main__":
    django.setup()
    for word in sys.argv[1:]:
        PARTS[word]()
    executor = executor_with({})
    begin_together(lambda: drain(executor), executor.stop)
