"""Where a fetch is: its phase for errors, its times for the response. `observed` tells an observer."""

from functools import cache
from typing import TYPE_CHECKING, Final

import trio

from tidegate._policy.messages import Hop, Request, Timings
from tidegate._policy.reasons import Phase
from tidegate._policy.url import URL
from tidegate.errors import ConnectionLost, Denied, FetchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate._policy.events import Observer
    from tidegate._wire.http1 import Exchange
    from tidegate._wire.pool import Connection

_ALL: Final = frozenset(Phase)
# Checking and waiting for a slot are no network time.
_OF_THE_NETWORK: Final = _ALL - {Phase.CHECK, Phase.ADMIT, Phase.AUTHORIZE, Phase.REDIRECT}


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
        # Two lists rather than one of pairs, which would be a twentieth of what a held fetch costs.
        self._phases = [Phase.CHECK]
        self._starts = [self._started]
        self.hop = 0
        self.url: URL | None = None
        self.hops: list[Hop] = []

    @property
    def phase(self) -> Phase:
        """The phase it is in."""
        return self._phases[-1]

    @property
    def duration(self) -> float:
        """Seconds since the fetch was asked for."""
        return trio.current_time() - self._started

    def start(self, key: object) -> None:
        """The fetch begins with the checks of its arguments."""

    def enter(self, phase: Phase) -> None:
        """The phase before ended well; this one begins."""
        self._phases.append(phase)
        self._starts.append(trio.current_time())

    def start_hop(self, request: Request, phase: Phase = Phase.CHECK) -> None:
        """The next request is about to be checked, or to wait for a slot before that."""
        self.hop = len(self.hops)
        self.url = request.url
        if self.hops:  # the first one waited for its slot before
            self._phases.clear()
            self._starts.clear()
        self._phases.append(phase)
        self._starts.append(trio.current_time())

    def report(self, refusal: Denied) -> None:
        """A host list on trial would have refused this hop."""

    def repeat(self, error: ConnectionLost) -> None:
        """The kept connection was dead; the request goes out once more."""

    def finish_hop(self, hop: Hop, wire_bytes: int) -> None:
        """The hop was answered, and its content read as far as it will be: its last phase ended well."""
        self.hops.append(hop)

    def finish(self, status: int, content_bytes: int, truncated: bool) -> None:
        """The fetch gave a response."""

    def fail(
        self, error: FetchError | None, connection: "Connection | None", exchange: "Exchange | None"
    ) -> None:
        """The fetch ends with an error, or is cancelled or abandoned from outside (None).

        Args:
            error: that is raised.
            connection: of the hop that it was in, if it got so far.
            exchange: the same.
        """
        if error is not None:
            url = self.url.without_query if self.url is not None else None
            error.located(phase=self.phase, url=url, hop=self.hop)

    def seconds(self) -> dict[Phase, float]:
        """The seconds per phase of this hop so far, in the order of the phases."""
        return dict(reversed(self._spent(_ALL).items()))

    def timings(self) -> Timings:
        """The seconds per phase of this hop so far, as far as they are the network's."""
        return Timings(**self._spent(_OF_THE_NETWORK))

    def _spent(self, phases: frozenset[Phase]) -> dict[Phase, float]:
        seconds: dict[Phase, float] = {}
        end = trio.current_time()
        for phase, start in zip(reversed(self._phases), reversed(self._starts), strict=True):
            if phase in phases:
                seconds[phase] = seconds.get(phase, 0.0) + end - start
            end = start
        return seconds


def progress_of(observer: "Observer | None") -> Progress:
    """The progress of a fetch that begins; observed only if there is somebody who wants to know."""
    return Progress() if observer is None else _observed_progress()(observer)


@cache
def _observed_progress() -> "Callable[[Observer], Progress]":
    # A sixth of the whole import, for those who need it; and once, as the statement takes its time each time.
    from tidegate._engine.observed import observed_progress

    return observed_progress
