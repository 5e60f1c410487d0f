"""A real OpenTelemetry SDK that keeps what it is given. Needs `opentelemetry-sdk`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tidegate.telemetry.otel import OpenTelemetryObserver


class Sdk:
    """Providers of traces and metrics, and what came to them.

    Attributes:
        providers: as keywords, for whatever takes both.
    """

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        tracer_provider = TracerProvider(shutdown_on_exit=False)
        tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        meter_provider = MeterProvider(metric_readers=[self.reader], shutdown_on_exit=False)
        self.providers: dict[str, Any] = {
            "tracer_provider": tracer_provider,
            "meter_provider": meter_provider,
        }

    @property
    def tracer(self) -> Any:
        """For spans of a test's own."""
        return self.providers["tracer_provider"].get_tracer("test")

    def observer(self, **options: Any) -> OpenTelemetryObserver:
        """An observer that reports here."""
        return OpenTelemetryObserver(**self.providers, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        """Those that have ended, in the order of their ends."""
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of one name."""
        return [span for span in self.spans if span.name == name]

    def points(self, name: str) -> list[Any]:
        """The data points of a metric."""
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def values(self, name: str) -> list[tuple[dict[str, Any], float]]:
        """Attributes and value of the points of a counter."""
        return [(dict(point.attributes), point.value) for point in self.points(name)]

    def told(self) -> str:
        """Everything that came here, as text."""
        spans = [span.to_json() for span in self.spans]
        data = self.reader.get_metrics_data()
        return "\n".join([*spans, data.to_json() if data else ""])


@contextmanager
def open_sdk() -> Iterator[Sdk]:
    """An SDK for the length of a block."""
    sdk = Sdk()
    try:
        yield sdk
    finally:
        for provider in sdk.providers.values():
            provider.shutdown()
