"""Where a fetch is: its phase for errors, its times for the response, its events for an observer."""

import logging
from typing import Final

import trio

from tidegate._policy.events import (
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
)
from tidegate._policy.messages import Hop, Request, Timings
from tidegate._policy.reasons import Phase
from tidegate._policy.url import URL
from tidegate.errors import FetchError

_log: Final = logging.getLogger("tidegate")

_TIMED: Final = frozenset({Phase.RESOLVE, Phase.CONNECT, Phase.TLS, Phase.SEND, Phase.HEAD, Phase.CONTENT})


class Progress:
    """One fetch's way through its phases, which follow one another without a gap.

    Attributes:
        phase: the one it is in.
        hop: 0 for the first request.
        url: of this hop; None before there is a valid one.
        hops: the hops that were answered.
    """

    def __init__(self, number: int, observer: Observer | None) -> None:
        self._number = number
        self._observer = observer
        self._started = self._phase_started = trio.current_time()
        self._seconds: dict[str, float] = {}
        self.phase = Phase.CHECK
        self.hop = -1
        self.url: URL | None = None
        self.hops: list[Hop] = []

    @property
    def duration(self) -> float:
        """Seconds since the fetch was asked for."""
        return trio.current_time() - self._started

    def start(self, key: object) -> None:
        """The fetch begins with the checks of its arguments."""
        if self._observer is not None:
            self._emit(FetchStarted(fetch=self._number, time=self._started, key=key))
        self._begin(Phase.CHECK)

    def start_hop(self, request: Request) -> None:
        """The next request is about to be checked."""
        self.end_phase()
        self.hop += 1
        self.url = request.url
        self._seconds = {}
        if self._observer is not None:
            self._emit(
                HopStarted(
                    fetch=self._number,
                    time=trio.current_time(),
                    hop=self.hop,
                    method=request.method,
                    url=request.url,
                )
            )
        self._begin(Phase.CHECK)

    def enter(self, phase: Phase) -> None:
        """The phase before ended well; this one begins."""
        self.end_phase()
        self._begin(phase)

    def _begin(self, phase: Phase) -> None:
        self.phase = phase
        if self._observer is not None:
            self._emit(
                PhaseStarted(fetch=self._number, time=self._phase_started, hop=max(self.hop, 0), phase=phase)
            )

    def end_phase(self) -> None:
        """The phase ended well."""
        now = trio.current_time()
        duration, self._phase_started = now - self._phase_started, now
        if self.phase in _TIMED:
            self._seconds[self.phase] = self._seconds.get(self.phase, 0.0) + duration
        if self._observer is not None:
            self._emit(
                PhaseFinished(
                    fetch=self._number, time=now, hop=max(self.hop, 0), phase=self.phase, duration=duration
                )
            )

    def finish_hop(self, hop: Hop, wire_bytes: int) -> None:
        """The hop was answered and its content read as far as it will be."""
        self.hops.append(hop)
        if self._observer is not None:
            now = trio.current_time()
            self._emit(
                HopFinished(fetch=self._number, time=now, hop=self.hop, outcome=hop, wire_bytes=wire_bytes)
            )

    def timings(self) -> Timings:
        """The seconds per phase of this hop so far."""
        return Timings(**self._seconds)

    def finish(self, status: int, content_bytes: int, truncated: bool) -> None:
        """The fetch gave a response."""
        if self._observer is not None:
            self._emit(
                FetchFinished(
                    fetch=self._number,
                    time=trio.current_time(),
                    duration=self.duration,
                    status=status,
                    content_bytes=content_bytes,
                    truncated=truncated,
                )
            )

    def fail(self, error: FetchError | None) -> None:
        """The phase and the fetch ended with an error, or were cancelled from outside (None)."""
        if error is not None:
            error.located(
                phase=self.phase,
                url=self.url.without_query if self.url is not None else None,
                hop=max(self.hop, 0),
            )
        if self._observer is not None:
            now = trio.current_time()
            self._emit(
                PhaseFailed(
                    fetch=self._number,
                    time=now,
                    hop=max(self.hop, 0),
                    phase=self.phase,
                    duration=now - self._phase_started,
                    error=error,
                )
            )
            self._emit(FetchFailed(fetch=self._number, time=now, duration=self.duration, error=error))

    def _emit(self, event: Event) -> None:
        assert self._observer is not None
        try:
            self._observer.on_event(event)
        except Exception:
            # Telemetry must never fail a fetch; the type is told, the text could hold anything.
            _log.warning("the observer failed on %s", type(event).__name__, exc_info=False)
