"""Where a fetch is, told to an observer step by step. Loaded only if there is one."""

import logging
from itertools import count
from typing import TYPE_CHECKING, Final

import trio

from tidegate._engine.progress import Progress
from tidegate._policy.events import (
    DenialReported,
    Event,
    FetchFailed,
    FetchFinished,
    FetchStarted,
    HopFailed,
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

if TYPE_CHECKING:
    from tidegate._wire.http1 import Exchange
    from tidegate._wire.pool import Connection

_log: Final = logging.getLogger("tidegate")

# Of the whole process, so that one observer may serve any number of engines.
_numbers: Final = count(1)


def observed_progress(observer: Observer) -> Progress:
    """The progress of a fetch, observed unless the observer wants to hear of nothing."""
    kinds = kinds_of(observer)
    if not kinds:
        return Progress()
    # Phases are the most frequent events by far: whoever does not want them must not even pay for asking.
    observed = ObservedProgress if kinds.isdisjoint(_OF_PHASES) else PhaseProgress
    return observed(observer, kinds)


_OF_PHASES: Final = frozenset[type[Event]]({PhaseStarted, PhaseFinished})


class ObservedProgress(Progress):
    """See `Progress`. No event is made that the observer does not want."""

    def __init__(self, observer: Observer, kinds: frozenset[type[Event]]) -> None:
        super().__init__()
        self._number = next(_numbers)
        self._observer = observer
        self._kinds = kinds
        self._repeats = 0

    def start(self, key: object) -> None:
        """See `Progress`."""
        if FetchStarted in self._kinds:
            self._tell(FetchStarted(fetch=self._number, time=self._started, key=key))

    def start_hop(self, request: Request, phase: Phase = Phase.CHECK) -> None:
        """See `Progress`."""
        super().start_hop(request, phase)
        if HopStarted in self._kinds:
            now = self._starts[-1]
            self._tell(
                HopStarted(
                    fetch=self._number,
                    time=now,
                    hop=self.hop,
                    method=request.method,
                    url=request.url,
                    resends=self.hop + self._repeats,
                )
            )

    def report(self, refusal: Denied) -> None:
        """See `Progress`."""
        if DenialReported in self._kinds:
            now = trio.current_time()
            self._tell(DenialReported(fetch=self._number, time=now, hop=self.hop, refusal=refusal))

    def repeat(self, error: ConnectionLost) -> None:
        """See `Progress`."""
        self._repeats += 1
        if RequestRepeated in self._kinds:
            now = trio.current_time()
            self._tell(RequestRepeated(fetch=self._number, time=now, hop=self.hop, error=error))

    def finish_hop(self, hop: Hop, wire_bytes: int) -> None:
        """See `Progress`."""
        super().finish_hop(hop, wire_bytes)
        if HopFinished in self._kinds:
            now = trio.current_time()
            self._tell(
                HopFinished(
                    fetch=self._number,
                    time=now,
                    hop=self.hop,
                    outcome=hop,
                    wire_bytes=wire_bytes,
                    seconds=self.seconds(),
                )
            )

    def finish(self, status: int, content_bytes: int, truncated: bool) -> None:
        """See `Progress`."""
        if FetchFinished in self._kinds:
            now = trio.current_time()
            self._tell(
                FetchFinished(
                    fetch=self._number,
                    time=now,
                    duration=now - self._started,
                    status=status,
                    content_bytes=content_bytes,
                    truncated=truncated,
                )
            )

    def fail(
        self, error: FetchError | None, connection: "Connection | None", exchange: "Exchange | None"
    ) -> None:
        """See `Progress`."""
        super().fail(error, connection, exchange)
        number, now = self._number, trio.current_time()
        if PhaseFailed in self._kinds:
            phase, start = self._phases[-1], self._starts[-1]
            self._tell(
                PhaseFailed(
                    fetch=number, time=now, hop=self.hop, phase=phase, duration=now - start, error=error
                )
            )
        if HopFailed in self._kinds and self.url is not None:
            head = exchange.head if exchange is not None else None
            self._tell(
                HopFailed(
                    fetch=number,
                    time=now,
                    hop=self.hop,
                    error=error,
                    peer=str(connection.target.address) if connection is not None else None,
                    reused=connection.reused if connection is not None else None,
                    tls_version=connection.stream.tls_version if connection is not None else None,
                    status=head.status if head is not None else None,
                    http_version=head.http_version if head is not None else None,
                    wire_bytes=exchange.wire_bytes if exchange is not None else 0,
                    seconds=self.seconds(),
                )
            )
        if FetchFailed in self._kinds:
            self._tell(FetchFailed(fetch=number, time=now, duration=now - self._started, error=error))

    def _tell(self, event: Event) -> None:
        try:
            self._observer.on_event(event)
        except Exception:
            # Telemetry must never fail a fetch; the type is told, the text could hold anything.
            _log.warning("the observer failed on %s", type(event).__name__, exc_info=False)


class PhaseProgress(ObservedProgress):
    """The same, also of phases."""

    def start(self, key: object) -> None:
        """See `Progress`."""
        super().start(key)
        self._tell_started()

    def enter(self, phase: Phase) -> None:
        """See `Progress`."""
        self._tell_finished()
        super().enter(phase)
        self._tell_started()

    def start_hop(self, request: Request, phase: Phase = Phase.CHECK) -> None:
        """See `Progress`."""
        if not self.hops:  # after a redirect, `finish_hop` has told already
            self._tell_finished()
        super().start_hop(request, phase)
        self._tell_started()

    def finish_hop(self, hop: Hop, wire_bytes: int) -> None:
        """See `Progress`."""
        self._tell_finished()
        super().finish_hop(hop, wire_bytes)

    def _tell_started(self) -> None:
        if PhaseStarted in self._kinds:
            phase, start = self._phases[-1], self._starts[-1]
            self._tell(PhaseStarted(fetch=self._number, time=start, hop=self.hop, phase=phase))

    def _tell_finished(self) -> None:
        if PhaseFinished in self._kinds:
            phase, start = self._phases[-1], self._starts[-1]
            now = trio.current_time()
            self._tell(
                PhaseFinished(fetch=self._number, time=now, hop=self.hop, phase=phase, duration=now - start)
            )
