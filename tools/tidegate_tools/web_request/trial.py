"""`report_only`: what a host list on trial would have refused is logged, whoever else is told."""

import logging
from typing import Final

from tidegate import DenialReported, Event, Observer
from tidegate.telemetry import Observers

logger: Final = logging.getLogger("tidegate.tools.web_request")


class _TrialLog:
    """Logs each hop that only the trial let through: its host, and never a path or a query."""

    kinds = frozenset({DenialReported})

    def on_event(self, event: Event) -> None:
        """See `tidegate.Observer`."""
        if isinstance(event, DenialReported):
            logger.warning("report_only is on, so this passes: %s", event.refusal.message)


def with_trial_log(observer: Observer | None) -> Observer:
    """An observer that logs what the trial lets through, and tells the other one everything."""
    return Observers(_TrialLog(), *(() if observer is None else (observer,)))
