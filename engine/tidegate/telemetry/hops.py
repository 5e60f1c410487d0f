"""From the engine's events to one record a hop, and several observers as one."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from tidegate._policy.events import (
    ALL_KINDS,
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
from tidegate._policy.messages import Hop
from tidegate._policy.reasons import Phase, Reason
from tidegate._policy.url import URL
from tidegate.telemetry.outcomes import RULES
from tidegate.telemetry.records import Decision, HopRecord, ToolCall, current_tool_call

_log: Final = logging.getLogger("tidegate.telemetry")

# Whoever got here has passed every check. `REDIRECT` is about the next hop, after this one was answered.
_AFTER_THE_CHECKS: Final = (Phase.CONNECT, Phase.TLS, Phase.SEND, Phase.HEAD, Phase.REDIRECT, Phase.CONTENT)


class HopObserver:
    """An observer that hands over a `HopRecord` when a hop has ended. Any number of engines may share it.

    Args:
        take: called synchronously from the fetching task, so it must be quick and must not block.
        clock: the wall clock, in seconds since the epoch.
    """

    kinds = ALL_KINDS - {PhaseStarted, PhaseFinished}

    def __init__(self, take: Callable[[HopRecord], None], *, clock: Callable[[], float] = time.time) -> None:
        self._take = take
        self._clock = clock
        self._fetches: dict[int, _Fetch] = {}

    def on_event(self, event: Event) -> None:
        """See `tidegate.Observer`."""
        if isinstance(event, FetchStarted):
            self._fetches[event.fetch] = _Fetch(event, self._clock())
            return
        fetch = self._fetches.get(event.fetch)
        if fetch is None:
            return
        if isinstance(event, HopStarted):
            if fetch.hop is not None:
                self._hand_over(fetch, event.time)
                fetch.begin(event.time, self._clock())
            fetch.note(event)
        elif isinstance(event, FetchFinished | FetchFailed):
            del self._fetches[event.fetch]
            fetch.note(event)
            self._hand_over(fetch, event.time)
        else:
            fetch.note(event)

    def _hand_over(self, fetch: "_Fetch", now: float) -> None:
        record = fetch.record(now)
        if record.call is not None:
            record.call.add(record)
        self._take(record)


class _Fetch:
    """What is known of a fetch under way, and of the hop that it is in."""

    def __init__(self, event: FetchStarted, wall_time: float) -> None:
        self.number = event.fetch
        self.key = event.key
        self.call: ToolCall | None = current_tool_call.get()
        self.hop: int | None = None
        self.begin(event.time, wall_time)

    def begin(self, started: float, wall_time: float) -> None:
        """A hop begins; the first one with the wait for a slot."""
        self.started, self.wall_time = started, wall_time
        self.method: str | None = None
        self.url: URL | None = None
        self.reported: Reason | None = None
        self.reason: Reason | None = None
        self.phase: Phase | None = None
        self.cancelled = False
        self.peer: str | None = None
        self.reused: bool | None = None
        self.tls_version: str | None = None
        self.status: int | None = None
        self.repeats = 0
        self.wire_bytes = 0
        self.content_bytes: int | None = None
        self.truncated = False
        self.seconds: Mapping[Phase, float] = {}

    def note(self, event: Event) -> None:
        match event:
            case HopStarted():
                self.hop, self.method, self.url = event.hop, event.method, event.url
            case PhaseFailed():
                self.phase = event.phase
                self.seconds = {event.phase: event.duration}  # all there is of a fetch without a hop
            case DenialReported():
                self.reported = event.refusal.reason
            case RequestRepeated():
                self.repeats += 1
            case HopFinished():
                self._note_end(event, event.outcome)
            case HopFailed():
                self._note_end(event, event)
            case FetchFinished():
                self.content_bytes, self.truncated = event.content_bytes, event.truncated
            case FetchFailed():
                self.cancelled = event.error is None
                if event.error is not None:
                    self.reason, self.phase = event.error.reason, event.error.phase

    def _note_end(self, event: HopFinished | HopFailed, facts: Hop | HopFailed) -> None:
        self.peer, self.reused, self.tls_version = facts.peer, facts.reused, facts.tls_version
        self.status, self.wire_bytes, self.seconds = facts.status, event.wire_bytes, event.seconds

    def _decision(self) -> Decision | None:
        refused = self.reason is not None and self.reason in RULES
        if refused and self.phase is not Phase.REDIRECT:
            return Decision.DENIED
        if self.peer is None and self.phase not in _AFTER_THE_CHECKS:
            return None
        return Decision.ALLOWED if self.reported is None else Decision.WOULD_DENY

    def record(self, now: float) -> HopRecord:
        return HopRecord(
            fetch=self.number,
            hop=self.hop or 0,
            time=self.wall_time,
            duration=now - self.started,
            key=self.key,
            call=self.call,
            method=self.method,
            url=self.url,
            decision=self._decision(),
            reported=self.reported,
            reason=self.reason,
            phase=self.phase,
            cancelled=self.cancelled,
            peer=self.peer,
            reused=self.reused,
            tls_version=self.tls_version,
            status=self.status,
            repeats=self.repeats,
            wire_bytes=self.wire_bytes,
            content_bytes=self.content_bytes,
            truncated=self.truncated,
            seconds=self.seconds,
        )


class Observers:
    """Several observers as one; each may hear more than it asked for, and if one breaks, the others go on."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    @property
    def kinds(self) -> frozenset[type[Event]]:
        """What any of them wants to be told of."""
        return frozenset[type[Event]]().union(*map(kinds_of, self._observers))

    def on_event(self, event: Event) -> None:
        """See `tidegate.Observer`."""
        for observer in self._observers:
            try:
                observer.on_event(event)
            except Exception:
                # The type is told; the text could hold anything.
                _log.warning("an observer failed on %s", type(event).__name__, exc_info=False)
