"""Where a fetch is, told to an observer step by step. Loaded only if there is one."""

import logging
from itertools import count
from typing import Any, Final

import trio

from tidegate._engine.progress import Progress
from tidegate._policy.events import (
    DenialReported,
    Event,
    FetchFailed,
    FetchFinished,
    FetchStarted,
    HopFinished,
    HopStarted,
    Observer,
    PhaseFailed,
    PhaseFinished,
    PhaseStarted,
    RequestRepeated,
    kinds_of,
)
from tidegate._policy.messages import Hop, Request
from tidegate._policy.reasons import Phase
from tidegate.errors import ConnectionLost, Denied, FetchError

_log: Final = logging.getLogger("tidegate")

# Of the whole process, so that one observer may serve any number of engines.
_numbers: Final = count(1)


def observed_progress(observer: Observer) -> Progress:
    """The progress of a fetch, observed unless the observer wants to hear of nothing."""
    kinds = kinds_of(observer)
    return ObservedProgress(observer, kinds) if kinds else Progress()


class ObservedProgress(Progress):
    """See `Progress`. No event is made that the observer does not want."""

    def __init__(self, observer: Observer, kinds: frozenset[type[Event]]) -> None:
        super().__init__()
        self._number = next(_numbers)
        self._observer = observer
        self._kinds = kinds

    def start(self, key: object) -> None:
        """See `Progress`."""
        self._tell(FetchStarted, time=self._started, key=key)
        self._tell_phase_started()

    def enter(self, phase: Phase) -> None:
        """See `Progress`."""
        self._tell_phase_finished()
        super().enter(phase)
        self._tell_phase_started()

    def start_hop(self, request: Request) -> None:
        """See `Progress`."""
        if not self.hops:  # after a redirect, `finish_hop` has told already
            self._tell_phase_finished()
        super().start_hop(request)
        _, now = self._marks[0]
        self._tell(HopStarted, time=now, hop=self.hop, method=request.method, url=request.url)
        self._tell_phase_started()

    def report(self, refusal: Denied) -> None:
        """See `Progress`."""
        self._tell(DenialReported, hop=self.hop, refusal=refusal)

    def repeat(self, error: ConnectionLost) -> None:
        """See `Progress`."""
        self._tell(RequestRepeated, hop=self.hop, error=error)

    def finish_hop(self, hop: Hop, wire_bytes: int) -> None:
        """See `Progress`."""
        super().finish_hop(hop, wire_bytes)
        self._tell_phase_finished()
        self._tell(HopFinished, hop=self.hop, outcome=hop, wire_bytes=wire_bytes)

    def finish(self, status: int, content_bytes: int, truncated: bool) -> None:
        """See `Progress`."""
        self._tell(
            FetchFinished,
            duration=self.duration,
            status=status,
            content_bytes=content_bytes,
            truncated=truncated,
        )

    def fail(self, error: FetchError | None) -> None:
        """See `Progress`."""
        super().fail(error)
        phase, start = self._marks[-1]
        now = trio.current_time()
        self._tell(PhaseFailed, time=now, hop=self.hop, phase=phase, duration=now - start, error=error)
        self._tell(FetchFailed, time=now, duration=self.duration, error=error)

    # The most frequent events by far: whoever does not want them must not pay for their making.

    def _tell_phase_started(self) -> None:
        if PhaseStarted not in self._kinds:
            return
        phase, start = self._marks[-1]
        self._tell(PhaseStarted, time=start, hop=self.hop, phase=phase)

    def _tell_phase_finished(self) -> None:
        if PhaseFinished not in self._kinds:
            return
        phase, start = self._marks[-1]
        now = trio.current_time()
        self._tell(PhaseFinished, time=now, hop=self.hop, phase=phase, duration=now - start)

    def _tell(self, kind: type[Event], *, time: float | None = None, **facts: Any) -> None:
        if kind not in self._kinds:
            return
        event = kind(fetch=self._number, time=trio.current_time() if time is None else time, **facts)
        try:
            self._observer.on_event(event)
        except Exception:
            # Telemetry must never fail a fetch; the type is told, the text could hold anything.
            _log.warning("the observer failed on %s", kind.__name__, exc_info=False)
