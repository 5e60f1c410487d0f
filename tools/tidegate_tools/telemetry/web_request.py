"""The span `web_request` with the attributes of decision W-F2, its counters, and its fault domain (W-69)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tidegate.telemetry import Outcome
from tidegate_tools.telemetry.signals import Attributes, Signals, failed

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from tidegate_tools.web_request.records import CallRecord

NAME: Final = "web_request"

REQUESTS: Final = "tidegate.web_request.requests"
ERRORS: Final = "tidegate.web_request.errors"


class FaultDomain(StrEnum):
    """Which part of a runtime a failure belongs to."""

    WEB_REQUEST = "web_request"


_open_span: "Final[ContextVar[tuple[Signals, Span | None] | None]]" = ContextVar(
    "tidegate_web_request_span", default=None
)


@contextmanager
def web_request_span(signals: Signals) -> Iterator[None]:
    """A span around one call of `web_request`; `record_web_request` fills it in."""
    with signals.span(NAME, {}) as span:
        token = _open_span.set((signals, span))
        try:
            yield
        finally:
            _open_span.reset(token)


@lru_cache(maxsize=1)
def _global_signals() -> Signals:
    return Signals()


def record_web_request(call: "CallRecord") -> None:
    """Count a call of `web_request`, and describe it in its span.

    Give it to the tool as `record`. Within a tool that is observed, the attributes go to the span around the
    call; otherwise a span is made now, with its times as they were.

    A call that its caller gave up has none of the outcomes of W-F2, and is counted without one.

    Args:
        call: what the tool tells of a call that has ended; secrets are redacted in it already.
    """
    signals, span = _open_span.get() or (_global_signals(), None)
    if not signals.wanted:
        return
    attributes = _attributes(call)
    if span is None:
        ended = time.time_ns()
        began = ended - round(call.duration * 1e9)
        span = signals.past_span(NAME, attributes, began)
        _fail(span, call)
        if span is not None:
            span.end(ended)
    elif span.is_recording():
        span.set_attributes(attributes)
        _fail(span, call)
    _count(signals, call)


def _attributes(call: "CallRecord") -> Attributes:
    blocked = call.outcome is Outcome.BLOCKED
    facts: dict[str, str | int | float | bool | None] = {
        "method": call.method,
        "host": call.host,
        "path": None if blocked else call.path,  # of a blocked call only the reason and the host (W-F3)
        "status": call.status,
        "duration_ms": round(call.duration * 1000, 3),
        "response_bytes": call.response_bytes,
        "body_truncated": call.body_truncated,
        "redirect_count": call.redirect_count,
        "reason": call.reason,
        **_outcome(call),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _outcome(call: "CallRecord") -> dict[str, str]:
    return {} if call.outcome is Outcome.CANCELLED else {"outcome": call.outcome.value}


def _fail(span: "Span | None", call: "CallRecord") -> None:
    if call.reason is not None and span is not None:
        failed(span, call.reason)
        span.set_attribute("fault_domain", FaultDomain.WEB_REQUEST.value)


def _count(signals: Signals, call: "CallRecord") -> None:
    facts = _outcome(call)
    signals.count(REQUESTS, facts, unit="{call}", description="Calls of web_request.")
    if call.reason is not None:
        facts |= {"reason": call.reason, "fault_domain": FaultDomain.WEB_REQUEST.value}
        signals.count(ERRORS, facts, unit="{call}", description="Calls of web_request without a response.")
