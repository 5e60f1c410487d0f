"""OpenTelemetry as programs set it up: global providers, spans in batches, metrics once a minute.

The exporters count what comes and drop it. What becomes of it then, its encoding above all, is the exporter's
own business; that something came is checked.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased


class CountingSpanExporter(SpanExporter):
    """Counts spans.

    Attributes:
        spans: how many.
    """

    def __init__(self) -> None:
        self.spans = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Count a batch."""
        self.spans += len(spans)
        return SpanExportResult.SUCCESS


class CountingMetricExporter(MetricExporter):
    """Counts collections that hold anything.

    Attributes:
        collections: how many.
    """

    def __init__(self) -> None:
        super().__init__()
        self.collections = 0

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **_: object
    ) -> MetricExportResult:
        """Count a collection."""
        self.collections += bool(metrics_data.resource_metrics)
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Nothing waits."""
        return True

    def shutdown(self, timeout_millis: float = 30_000, **_: object) -> None:
        """Nothing is open."""


@contextmanager
def tracing(share: float = 1.0) -> Iterator[None]:
    """Set a provider of traces for the block.

    Args:
        share: of the traces that are kept, the others being dropped where they begin.
    """
    exporter = CountingSpanExporter()
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(share)))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    yield
    provider.shutdown()
    assert exporter.spans, "no span was exported"


@contextmanager
def measuring() -> Iterator[None]:
    """Set a provider of metrics for the block."""
    exporter = CountingMetricExporter()
    provider = MeterProvider([PeriodicExportingMetricReader(exporter)])
    metrics.set_meter_provider(provider)
    yield
    provider.shutdown()
    assert exporter.collections, "no metric was exported"
