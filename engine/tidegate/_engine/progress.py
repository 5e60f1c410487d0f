"""Where a fetch is: its phase for errors, its times for the response, its events for an observer."""

import logging
from itertools import count
from typing import Final

import trio

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
from tidegate._policy.messages import Hop, Request, Timings
from tidegate._policy.reasons import Phase
from tidegate._policy.url import URL
from tidegate.errors import ConnectionLost, Denied, FetchError

_log: Final = logging.getLogger("tidegate")
# Quiet until the program that uses us sets logging up.
_log.addHandler(logging.NullHandler())

# Checking and waiting for a slot are no network time.
_UNTIMED: Final = (Phase.CHECK, Phase.ADMIT, Phase.AUTHORIZE, Phase.REDIRECT)


class Progress:
    """One fetch's way through its phases, which follow one another without a gap.

    On the hot path of every fetch, so it notes times and computes nothing from them before it is asked.

    Attributes:
        hop: 0 for the first request.
        url: of this hop; None before there is a valid one.
        hops: the hops that were answered.
    """

    def __init__(self) -> None:
        self._started = trio.current_time()
        self._marks: list[tuple[Phase, float]] = [(Phase.CHECK, self._started)]
        self.hop = 0
        self.url: URL | None = None
        self.hops: list[Hop] = []

    @property
    def phase(self) -> Phase:
        """The phase it is in."""
        return self._marks[-1][0]

    @property
    def duration(self) -> float:
        """Seconds since the fetch was asked for."""
        return trio.current_time() - self._started

    def start(self, key: object) -> None:
        """The fetch begins with the checks of its arguments."""

    def enter(self, phase: Phase) -> None:
        """The phase before ended well; this one begins."""
        self._marks.append((phase, trio.current_time()))

    def start_hop(self, request: Request) -> None:
        """The next request is about to be checked."""
        self.hop = len(self.hops)
        self.url = request.url
        self._marks = [(Phase.CHECK, trio.current_time())]

    def report(self, refusal: Denied) -> None:
        """A host list on trial would have refused this hop."""

    def repeat(self, error: ConnectionLost) -> None:
        """The kept connection was dead; the request goes out once more."""

    def finish_hop(self, hop: Hop, wire_bytes: int) -> None:
        """The hop was answered, and its content read as far as it will be: its last phase ended well."""
        self.hops.append(hop)

    def finish(self, status: int, content_bytes: int, truncated: bool) -> None:
        """The fetch gave a response."""

    def fail(self, error: FetchError | None) -> None:
        """The fetch ends with an error, or is cancelled or abandoned from outside (None)."""
        if error is not None:
            url = self.url.without_query if self.url is not None else None
            error.located(phase=self.phase, url=url, hop=self.hop)

    def timings(self) -> Timings:
        """The seconds per phase of this hop so far."""
        seconds: dict[str, float] = {}
        end = trio.current_time()
        for phase, start in reversed(self._marks):
            if phase not in _UNTIMED:
                seconds[phase.value] = seconds.get(phase.value, 0.0) + end - start
            end = start
        return Timings(**seconds)


# Of the whole process, so that one observer may serve any number of engines.
_numbers: Final = count(1)


def progress_of(observer: Observer | None) -> Progress:
    """The progress of a fetch that begins; observed only if there is somebody who wants to know."""
    if observer is None or not (kinds := kinds_of(observer)):
        return Progress()
    return ObservedProgress(observer, kinds)


class ObservedProgress(Progress):
    """The same, told to an observer step by step: no event is made that it does not want."""

    def __init__(self, observer: Observer, kinds: frozenset[type[Event]]) -> None:
        super().__init__()
        self._number = next(_numbers)
        self._observer = observer
        self._kinds = kinds

    def start(self, key: object) -> None:
        """See `Progress`."""
        if FetchStarted in self._kinds:
            self._emit(FetchStarted(fetch=self._number, time=self._started, key=key))
        self._emit_phase_started()

    def enter(self, phase: Phase) -> None:
        """See `Progress`."""
        self._emit_phase_finished()
        super().enter(phase)
        self._emit_phase_started()

    def start_hop(self, request: Request) -> None:
        """See `Progress`."""
        if not self.hops:  # after a redirect, `finish_hop` has told already
            self._emit_phase_finished()
        super().start_hop(request)
        if HopStarted in self._kinds:
            _, now = self._marks[0]
            self._emit(
                HopStarted(fetch=self._number, time=now, hop=self.hop, method=request.method, url=request.url)
            )
        self._emit_phase_started()

    def report(self, refusal: Denied) -> None:
        """See `Progress`."""
        if DenialReported in self._kinds:
            now = trio.current_time()
            self._emit(DenialReported(fetch=self._number, time=now, hop=self.hop, refusal=refusal))

    def repeat(self, error: ConnectionLost) -> None:
        """See `Progress`."""
        if RequestRepeated in self._kinds:
            now = trio.current_time()
            self._emit(RequestRepeated(fetch=self._number, time=now, hop=self.hop, error=error))

    def finish_hop(self, hop: Hop, wire_bytes: int) -> None:
        """See `Progress`."""
        super().finish_hop(hop, wire_bytes)
        self._emit_phase_finished()
        if HopFinished in self._kinds:
            now = trio.current_time()
            self._emit(
                HopFinished(fetch=self._number, time=now, hop=self.hop, outcome=hop, wire_bytes=wire_bytes)
            )

    def finish(self, status: int, content_bytes: int, truncated: bool) -> None:
        """See `Progress`."""
        if FetchFinished in self._kinds:
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
        """See `Progress`."""
        super().fail(error)
        phase, start = self._marks[-1]
        now = trio.current_time()
        if PhaseFailed in self._kinds:
            self._emit(
                PhaseFailed(
                    fetch=self._number, time=now, hop=self.hop, phase=phase, duration=now - start, error=error
                )
            )
        if FetchFailed in self._kinds:
            self._emit(FetchFailed(fetch=self._number, time=now, duration=self.duration, error=error))

    def _emit_phase_started(self) -> None:
        if PhaseStarted in self._kinds:
            phase, start = self._marks[-1]
            self._emit(PhaseStarted(fetch=self._number, time=start, hop=self.hop, phase=phase))

    def _emit_phase_finished(self) -> None:
        if PhaseFinished in self._kinds:
            phase, start = self._marks[-1]
            now = trio.current_time()
            self._emit(
                PhaseFinished(fetch=self._number, time=now, hop=self.hop, phase=phase, duration=now - start)
            )

    def _emit(self, event: Event) -> None:
        try:
            self._observer.on_event(event)
        except Exception:
            # Telemetry must never fail a fetch; the type is told, the text could hold anything.
            _log.warning("the observer failed on %s", type(event).__name__, exc_info=False)
