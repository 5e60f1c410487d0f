"""What an `Observer` is told: one immutable event per fetch, hop and phase, with monotonic times.

Events hold facts for operators: a URL may carry a query, so whoever writes events down redacts them with
`url.without_query`. No event holds a field value, content or a credential.

Named tuples, as they are made in half the time of a frozen dataclass: making them is what observing costs.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias, get_args

from tidegate._policy.messages import Hop
from tidegate._policy.reasons import Phase
from tidegate._policy.url import URL
from tidegate.errors import ConnectionLost, Denied, FetchError


class FetchStarted(NamedTuple):
    """A fetch was asked for.

    Attributes:
        fetch: a number that all events of one fetch share, unique within this process.
        time: the trio clock, in seconds; all times of events are.
        key: the caller's key (an agent, a pid), None if it gave none.
    """

    fetch: int
    time: float
    key: object


class HopStarted(NamedTuple):
    """A request is about to be checked; hop 0 is the first, each redirect adds one.

    Attributes:
        resends: how many requests of this fetch went before, those that were repeated included.
    """

    fetch: int
    time: float
    hop: int
    method: str
    url: URL
    resends: int = 0


class PhaseStarted(NamedTuple):
    """A phase of a hop begins."""

    fetch: int
    time: float
    hop: int
    phase: Phase


class PhaseFinished(NamedTuple):
    """A phase of a hop ended well after `duration` seconds."""

    fetch: int
    time: float
    hop: int
    phase: Phase
    duration: float


class PhaseFailed(NamedTuple):
    """A phase of a hop ended with an error, or was cancelled (`error` None)."""

    fetch: int
    time: float
    hop: int
    phase: Phase
    duration: float
    error: FetchError | None


class DenialReported(NamedTuple):
    """A host list on trial (`Policy.report_only`) would have refused this hop, which goes on."""

    fetch: int
    time: float
    hop: int
    refusal: Denied


class RequestRepeated(NamedTuple):
    """A kept connection was dead before any byte of a response: the request goes out again (D-18)."""

    fetch: int
    time: float
    hop: int
    error: ConnectionLost


class HopFinished(NamedTuple):
    """A request was answered, and its content read as far as it will be.

    Attributes:
        outcome: what happened, with status, peer and timings.
        wire_bytes: content bytes received, before decoding.
        seconds: how long each phase took, those of no network time included.
    """

    fetch: int
    time: float
    hop: int
    outcome: Hop
    wire_bytes: int
    seconds: Mapping[Phase, float]


class HopFailed(NamedTuple):
    """A request was refused, failed, or was given up by its caller (`error` None); before `FetchFailed`.

    What a slow or hostile peer has shown until then is there: None is what it had not come to.

    Attributes:
        peer: the address that was connected to, as text.
        reused: the connection had served an earlier fetch.
        tls_version: such as "TLSv1.3".
        status: of the response head.
        http_version: of the response head: "1.1" or "1.0".
        wire_bytes: content bytes received, before decoding.
        seconds: how long each phase took, the last one until it failed.
    """

    fetch: int
    time: float
    hop: int
    error: FetchError | None
    peer: str | None
    reused: bool | None
    tls_version: str | None
    status: int | None
    http_version: str | None
    wire_bytes: int
    seconds: Mapping[Phase, float]


class FetchFinished(NamedTuple):
    """The fetch gave a response.

    Attributes:
        duration: seconds from the call to here.
        status: of the final response.
        content_bytes: decoded content bytes that were handed over.
        truncated: the content was cut at a cap.
    """

    fetch: int
    time: float
    duration: float
    status: int
    content_bytes: int
    truncated: bool


class FetchFailed(NamedTuple):
    """The fetch was refused, failed, or was cancelled by its caller (`error` None)."""

    fetch: int
    time: float
    duration: float
    error: FetchError | None


Event: TypeAlias = (
    FetchStarted
    | HopStarted
    | PhaseStarted
    | PhaseFinished
    | PhaseFailed
    | DenialReported
    | RequestRepeated
    | HopFinished
    | HopFailed
    | FetchFinished
    | FetchFailed
)

ALL_KINDS: Final = frozenset(get_args(Event))
"""Every class of events."""


class Observer(Protocol):
    """Whoever wants to know. Called synchronously from the fetching task: be quick, never block.

    An exception that it raises is logged under `tidegate` and does not touch the fetch.

    Making events is what observing costs, those of phases most of all. So an observer may have an attribute
    `kinds`, read at the start of each fetch: the classes of events that it wants to be told of, none at all
    for a fetch that it lets pass. Without one it is told everything.
    """

    def on_event(self, event: Event) -> None:
        """Take note of one event."""
        ...


def kinds_of(observer: Observer) -> frozenset[type[Event]]:
    """The classes of events that an observer wants to be told of now."""
    kinds: frozenset[type[Event]] = getattr(observer, "kinds", ALL_KINDS)
    return kinds
