"""OpenTelemetry's API if it is installed, and nothing if it is not."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidegate import __version__
from tidegate.telemetry import conventions as names

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, MeterProvider
    from opentelemetry.trace import Span, TracerProvider

_SCOPE: Final = "tidegate_tools"
_LOOK_AGAIN: Final = 0.01
"""Seconds after which a global provider that is set late is noticed, at the most."""

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
        self._traces = self._measures = False
        self._look_again = math.inf
        try:
            from opentelemetry import metrics, trace
        except ModuleNotFoundError:
            return
        self._traces, self._measures = tracer_provider is not None, meter_provider is not None
        self._look_again = 0.0
        self._tracer = trace.get_tracer(_SCOPE, __version__, tracer_provider, names.SCHEMA)
        self._meter = metrics.get_meter(_SCOPE, __version__, meter_provider, names.SCHEMA)

    @property
    def wanted(self) -> bool:
        """Whether there is a provider for what would be made (W-11). To ask costs next to nothing."""
        if not (self._traces and self._measures):
            self._look_for_providers()
        return self._traces or self._measures

    def _look_for_providers(self) -> None:
        # To ask costs microseconds, since the API looks into the environment each time.
        now = time.monotonic()
        if now < self._look_again:
            return
        from opentelemetry import metrics, trace

        self._look_again = now + _LOOK_AGAIN
        # The API's own providers do nothing; once there is another one, it stays.
        self._traces = self._traces or _is_set(trace.get_tracer_provider())
        self._measures = self._measures or _is_set(metrics.get_meter_provider())

    @contextmanager
    def span(self, name: str, attributes: Attributes) -> "Iterator[Span | None]":
        """A current span around the block. Enter and leave it in one coroutine.

        What the block raises is not written into it: its text and its frames may hold anything. `failed`
        says what it was.
        """
        if not self._traces:
            yield None
            return
        with self._tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            yield span

    def past_span(self, name: str, attributes: Attributes, start: int) -> "Span | None":
        """A span that began earlier, at `start` in nanoseconds since the epoch; whoever gets it ends it."""
        if not self._traces:
            return None
        return self._tracer.start_span(name, attributes=attributes, start_time=start)

    def count(self, name: str, attributes: Attributes, *, unit: str, description: str) -> None:
        """Count one."""
        if not self._measures:
            return
        if name not in self._counters:
            self._counters[name] = self._meter.create_counter(name, unit=unit, description=description)
        self._counters[name].add(1, attributes)

    def measure(
        self, name: str, seconds: float, attributes: Attributes, *, description: str, buckets: Sequence[float]
    ) -> None:
        """Record a duration."""
        if not self._measures:
            return
        if name not in self._histograms:
            self._histograms[name] = self._meter.create_histogram(
                name, unit="s", description=description, explicit_bucket_boundaries_advisory=buckets
            )
        self._histograms[name].record(seconds, attributes)


def _is_set(provider: object) -> bool:
    """False for the providers of the API, of which only those for traces have public classes."""
    return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


def failed(span: "Span | None", error_type: str) -> None:
    """Mark a span as that of a failure."""
    if span is None or not span.is_recording():
        return
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute(names.ERROR_TYPE, error_type)
    span.set_status(Status(StatusCode.ERROR))
