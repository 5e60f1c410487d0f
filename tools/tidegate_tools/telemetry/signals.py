"""OpenTelemetry's API if it is installed, and nothing if it is not."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidegate import __version__
from tidegate.telemetry import conventions as names
from tidegate.telemetry.providers import Providers

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, MeterProvider
    from opentelemetry.trace import Span, TracerProvider

_SCOPE: Final = "tidegate_tools"

Attributes = Mapping[str, str | int | float | bool]


class Signals:
    """Makes spans, counts and measures for whoever has set a provider up. Ask for `wanted` first.

    Args:
        tracer_provider: None means the program's global one, also if it is set later.
        meter_provider: the same for metrics.
    """

    def __init__(
        self,
        tracer_provider: "TracerProvider | None" = None,
        meter_provider: "MeterProvider | None" = None,
    ) -> None:
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._providers = Providers(tracer_provider, meter_provider)
        try:
            from opentelemetry import metrics, trace
        except ModuleNotFoundError:
            return
        self._tracer = trace.get_tracer(_SCOPE, __version__, tracer_provider, names.SCHEMA)
        self._meter = metrics.get_meter(_SCOPE, __version__, meter_provider, names.SCHEMA)

    @property
    def wanted(self) -> bool:
        """Whether there is a provider for what would be made (W-11). To ask costs next to nothing."""
        return self._providers.are_set

    @contextmanager
    def span(self, name: str, attributes: Attributes) -> "Iterator[Span | None]":
        """A current span around the block. Enter and leave it in one coroutine.

        What the block raises is not written into it: its text and its frames may hold anything. `failed`
        says what it was.
        """
        if not self._providers.traces:
            yield None
            return
        with self._tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            yield span

    def past_span(self, name: str, attributes: Attributes, start: int) -> "Span | None":
        """A span that began earlier, at `start` in nanoseconds since the epoch; whoever gets it ends it."""
        if not self._providers.traces:
            return None
        return self._tracer.start_span(name, attributes=attributes, start_time=start)

    def count(self, name: str, attributes: Attributes, *, unit: str, description: str) -> None:
        """Count one."""
        if not self._providers.measures:
            return
        if name not in self._counters:
            self._counters[name] = self._meter.create_counter(name, unit=unit, description=description)
        self._counters[name].add(1, attributes)

    def measure(
        self, name: str, seconds: float, attributes: Attributes, *, description: str, buckets: Sequence[float]
    ) -> None:
        """Record a duration."""
        if not self._providers.measures:
            return
        if name not in self._histograms:
            self._histograms[name] = self._meter.create_histogram(
                name, unit="s", description=description, explicit_bucket_boundaries_advisory=buckets
            )
        self._histograms[name].record(seconds, attributes)


def failed(span: "Span | None", error_type: str) -> None:
    """Mark a span as that of a failure."""
    if span is None or not span.is_recording():
        return
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute(names.ERROR_TYPE, error_type)
    span.set_status(Status(StatusCode.ERROR))
