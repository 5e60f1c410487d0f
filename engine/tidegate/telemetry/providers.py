"""Whether the program has providers of OpenTelemetry set up: asked for each fetch and call, so cheaply."""

import math
import time
from typing import Final

_LOOK_AGAIN: Final = 0.01
"""Seconds after which a global provider that is set late is noticed, at the most."""


class Providers:
    """The providers that something of ours would tell.

    Args:
        tracer_provider: None means the program's global one, also if it is set later.
        meter_provider: the same for metrics.

    Attributes:
        traces: there is one for spans, as `are_set` last saw.
        measures: there is one for metrics.
    """

    def __init__(self, tracer_provider: object | None, meter_provider: object | None) -> None:
        self.traces = tracer_provider is not None
        self.measures = meter_provider is not None
        self._look_again = 0.0

    @property
    def are_set(self) -> bool:
        """Whether there is either (W-11). False where OpenTelemetry is not installed."""
        if not (self.traces and self.measures):
            self._look()
        return self.traces or self.measures

    def _look(self) -> None:
        # To ask costs microseconds, since the API looks into the environment each time.
        now = time.monotonic()
        if now < self._look_again:
            return
        try:
            from opentelemetry import metrics, trace
        except ModuleNotFoundError:
            self._look_again = math.inf
            return
        self._look_again = now + _LOOK_AGAIN
        # The API's own providers do nothing; once there is another one, it stays.
        self.traces = self.traces or _is_set(trace.get_tracer_provider())
        self.measures = self.measures or _is_set(metrics.get_meter_provider())


def _is_set(provider: object) -> bool:
    """False for the providers of the API, of which only those for traces have public classes."""
    return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))
