"""OpenTelemetry's SDK, set up once in this process, with an exporter and a reader that keep everything in memory."""

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from django_delayed_tasks.executor import meter, tally

PATH = "django_delayed_tasks.integrations.opentelemetry.OpenTelemetryMiddleware"

exporter = InMemorySpanExporter()
reader = InMemoryMetricReader()


@cache
def _set_up() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader]))


@pytest.fixture
def observed(settings: Any) -> Iterator[None]:
    """Put the middleware around each run; forget what earlier tests have left."""
    _set_up()
    settings.DELAYED_TASKS = {"ALLOW_UNKNOWN_CODES": True, "MIDDLEWARE": [PATH]}
    exporter.clear()
    meter.stop()
    tally.forget()
    yield
    meter.stop()
    tally.forget()


Points = dict[tuple[str, tuple[tuple[str, Any], ...]], float]


def collected() -> Points:
    """The values that a reader collects now, by name and attributes."""
    data = reader.get_metrics_data()
    return {
        (metric.name, tuple(sorted((point.attributes or {}).items()))): cast(NumberDataPoint, point).value
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }
