"""One line a hop to the standard library's logging, under `tidegate.fetch`."""

import logging

from tidegate.telemetry.hops import HopObserver
from tidegate.telemetry.outcomes import Outcome
from tidegate.telemetry.records import HopRecord

_ORDINARY = (Outcome.SUCCESS, Outcome.CANCELLED)


def logging_observer(logger: logging.Logger | None = None) -> HopObserver:
    """An observer that logs each hop when it has ended: INFO if it worked, else WARNING.

    Nothing is printed unless the program that uses us configures logging. A line tells method, scheme, host,
    port, outcome, reason, status, bytes and milliseconds; never a path, a query, a field or an address.

    Args:
        logger: by default `tidegate.fetch`.
    """
    chosen = logger or logging.getLogger("tidegate.fetch")

    def take(record: HopRecord) -> None:
        level = logging.INFO if record.outcome in _ORDINARY and not record.reported else logging.WARNING
        if chosen.isEnabledFor(level):
            chosen.log(level, "%s", _sentence(record))

    return HopObserver(take)


def _sentence(record: HopRecord) -> str:
    target = f"{record.url.scheme}://{record.url.authority}" if record.url is not None else "no valid URL"
    parts = [record.method or "-", target, record.outcome.value]
    if record.reason is not None:
        parts.append(f"reason={record.reason}")
    if record.reported is not None:
        parts.append(f"would_deny={record.reported}")
    if record.status is not None:
        parts.append(f"status={record.status} bytes={record.wire_bytes}")
    parts.append(f"ms={record.duration * 1000:.1f}")
    return " ".join(parts)
