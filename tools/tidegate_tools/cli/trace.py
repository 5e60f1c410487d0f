"""What happened in a fetch, hop by hop and phase by phase: kept for a waterfall, told at once for `-v`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Final

from tidegate import (
    Connector,
    Event,
    FetchFailed,
    FetchFinished,
    FetchStarted,
    Hop,
    HopFailed,
    HopFinished,
    HopStarted,
    Phase,
    PhaseFailed,
    PhaseFinished,
    PinnedTarget,
    Resolver,
    Timings,
)

if TYPE_CHECKING:
    from tidegate._wire.stream import Stream


_TIMED: Final = frozenset(Timings.__slots__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One phase of one hop.

    Attributes:
        hop: which hop.
        phase: which phase.
        start: seconds after the fetch began.
        duration: seconds.
        failed: it ended with an error.
    """

    hop: int
    phase: Phase
    start: float
    duration: float
    failed: bool


class Record:
    """An observer that keeps one fetch.

    Attributes:
        requests: method and URL (without query) of each hop that was begun.
        spans: the phases in order.
        hops: the hops that were answered, one whose content or redirect then failed included.
        duration: seconds of the whole fetch, None until it ends.
        wire_bytes: content bytes of the last answered hop, before decoding.
    """

    def __init__(self) -> None:
        self._started = 0.0
        self._begun: HopStarted | None = None
        self.requests: list[tuple[str, str]] = []
        self.spans: list[Span] = []
        self.hops: list[Hop] = []
        self.duration: float | None = None
        self.wire_bytes = 0

    def on_event(self, event: Event) -> None:
        """See `tidegate.Observer`."""
        match event:
            case FetchStarted():
                self._started = event.time
            case HopStarted():
                self._begun = event
                self.requests.append((event.method, event.url.without_query))
            case PhaseFinished() | PhaseFailed():
                self._note(event)
            case HopFailed():
                self._note_failed(event)
            case HopFinished():
                self.hops.append(event.outcome)
                self.wire_bytes = event.wire_bytes
            case FetchFinished() | FetchFailed():
                self.duration = event.duration

    def _note_failed(self, event: HopFailed) -> None:
        if self._begun is None or event.status is None or event.http_version is None or event.peer is None:
            return
        hop = Hop(
            url=self._begun.url,
            method=self._begun.method,
            status=event.status,
            http_version=event.http_version,
            peer=event.peer,
            reused=event.reused is True,
            tls_version=event.tls_version,
            tls_resumed=False,
            timings=Timings(**{name: event.seconds[Phase(name)] for name in _TIMED & event.seconds.keys()}),
        )
        self.hops.append(hop)
        self.wire_bytes = event.wire_bytes

    def _note(self, event: PhaseFinished | PhaseFailed) -> None:
        self.spans.append(
            Span(
                hop=event.hop,
                phase=event.phase,
                start=event.time - event.duration - self._started,
                duration=event.duration,
                failed=isinstance(event, PhaseFailed),
            )
        )


_MEANING: Final = {
    Phase.ADMIT: "a slot is free",
    Phase.CHECK: "scheme, host list, local name, port and request rules pass",
    Phase.AUTHORIZE: "the host is granted",
    Phase.RESOLVE: "each of its addresses may be reached",
    Phase.CONNECT: "the peer is the pinned one",
    Phase.TLS: "certificate and name are right",
    Phase.SEND: "the request is sent",
    Phase.HEAD: "the response head has come",
    Phase.REDIRECT: "a redirect to follow",
    Phase.CONTENT: "the content has come",
}
"""What it means that a phase ended well."""


class Narrator:
    """An observer that tells each step as it happens, for `-v`.

    Args:
        say: takes one line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._begun = False

    def on_event(self, event: Event) -> None:
        """See `tidegate.Observer`."""
        match event:
            case HopStarted():
                self._begun = True
                self._say(f"* hop {event.hop}: {event.method} {event.url.without_query}")
            case PhaseFinished() if self._begun:
                self._say(f"*   {event.phase:<9} {_milliseconds(event.duration)}  {_MEANING[event.phase]}")
            case PhaseFailed():
                why = event.error.reason if event.error is not None else "given up"
                self._say(f"*   {event.phase:<9} {_milliseconds(event.duration)}  FAILED: {why}")
            case HopFinished():
                self._say(
                    f"* hop {event.hop}: {describe_hop(event.outcome)}, {event.wire_bytes} content bytes"
                )

    def on_answer(self, host: str, addresses: Sequence[IPv4Address | IPv6Address]) -> None:
        """DNS gave these addresses, which are about to be checked."""
        self._say(f"*   {host} has the address {' and '.join(map(str, addresses))}")

    def on_connected(self, target: PinnedTarget) -> None:
        """This pinned target answered."""
        self._say(f"*   connected to {target.address} port {target.port}")


def describe_hop(hop: Hop) -> str:
    """Status, peer and connection of an answered hop in a few words."""
    tls = hop.tls_version or "no TLS"
    return f"{hop.status} from {hop.peer}, {tls}, {'kept' if hop.reused else 'new'} connection"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:8.1f} ms"


class TellingResolver:
    """A resolver that tells what another one answers."""

    def __init__(
        self, inner: Resolver, tell: Callable[[str, Sequence[IPv4Address | IPv6Address]], None]
    ) -> None:
        self._inner = inner
        self._tell = tell

    async def resolve(self, host: str) -> Sequence[IPv4Address | IPv6Address]:
        """See `tidegate.Resolver`."""
        addresses = await self._inner.resolve(host)
        self._tell(host, addresses)
        return addresses


class TellingConnector:
    """A connector that tells which target answered another one."""

    def __init__(self, inner: Connector, tell: Callable[[PinnedTarget], None]) -> None:
        self._inner = inner
        self._tell = tell

    async def connect(self, targets: Sequence[PinnedTarget]) -> "tuple[PinnedTarget, Stream]":
        """See `tidegate.Connector`."""
        target, stream = await self._inner.connect(targets)
        self._tell(target)
        return target, stream
