"""What goes into a fetch and what comes out of it, as frozen values."""

from collections.abc import AsyncIterable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tidegate._policy.fields import Fields, Headers
from tidegate._policy.url import URL
from tidegate.errors import InvalidArgument

Content: TypeAlias = bytes | AsyncIterable[bytes]
"""Request content: bytes, or pieces of it that can be sent only once."""

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""What the engine sends. CONNECT would open a tunnel past every check; TRACE echoes credentials."""

IDEMPOTENT: Final = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})  # RFC 9110 9.2.2


def check_method(method: object) -> str:
    """The method if the engine sends it, else `InvalidArgument`; case matters (RFC 9110 9.1)."""
    if isinstance(method, str) and method in METHODS:
        return method
    shown = repr(method[:16]) if isinstance(method, str) else f"a {type(method).__name__}"
    raise InvalidArgument(f"method must be one of {', '.join(METHODS)}, not {shown}")


@dataclass(frozen=True, slots=True)
class Request:
    """One request as a hop sends it. `fields` are the caller's, already checked; ours are added when sent."""

    method: str
    url: URL
    fields: Fields = field(repr=False)
    content: Content = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Seconds spent per phase of one hop; None for a phase that did not happen (a kept connection, say).

    Attributes:
        resolve: DNS, None for an address literal.
        connect: TCP, until the first validated address answered.
        tls: the handshake.
        send: until the whole request was handed to the system, or an early answer came.
        head: from then to the end of the response head.
        content: from then to the last content byte.
    """

    resolve: float | None = None
    connect: float | None = None
    tls: float | None = None
    send: float | None = None
    head: float | None = None
    content: float | None = None

    @property
    def total(self) -> float:
        """The sum of the phases in seconds."""
        phases = (self.resolve, self.connect, self.tls, self.send, self.head, self.content)
        return sum(seconds for seconds in phases if seconds is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One request that was answered.

    Attributes:
        url: where it was sent.
        method: with which method.
        status: what came back.
        http_version: the peer's: "1.1" or "1.0".
        peer: the address that was connected to, as text.
        reused: the connection had served an earlier fetch.
        tls_version: such as "TLSv1.3"; None over plain HTTP.
        tls_resumed: the handshake resumed a session with this very host, port and address.
        timings: seconds per phase.
    """

    url: URL
    method: str
    status: int
    http_version: str
    peer: str
    reused: bool
    tls_version: str | None
    tls_resumed: bool
    timings: Timings


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A whole response, its content within the cap.

    Everything in it comes from the peer and is data, never instructions (decision D-20).

    Attributes:
        status: the final status code; 4xx and 5xx are responses, not errors.
        reason_phrase: the text beside the status, often empty.
        http_version: "1.1" or "1.0", as the peer said.
        url: the URL of the last hop; `str(url)` is the text.
        headers: as they came; without content-encoding and content-length where content was decoded.
        content: the bytes, decoded, at most `max_content`.
        trailers: fields after chunked content.
        truncated: content was cut at a cap; there was more.
        complete: False if nothing proves that all content came (decision D-5): no framing and a TLS end
            without close_notify, or a content coding cut short. A truncated content is not complete.
        codings: the content codings that were undone, in the order the peer applied them.
        oddities: what was not quite HTTP and was repaired or tolerated, one short phrase each.
        wire_bytes: content bytes as they came over the wire, before decoding.
        hops: every request that was answered, the last one included.
        duration: seconds from the call to the last byte, waiting for a slot included.
    """

    status: int
    reason_phrase: str = field(repr=False)
    http_version: str
    url: URL
    headers: Headers
    content: bytes = field(repr=False)
    trailers: Headers
    truncated: bool
    complete: bool
    codings: tuple[str, ...]
    oddities: tuple[str, ...]
    wire_bytes: int
    hops: tuple[Hop, ...]
    duration: float

    @property
    def timings(self) -> Timings:
        """The seconds per phase, added up over all hops."""
        return add_timings(hop.timings for hop in self.hops)


def add_timings(timings: Iterable[Timings]) -> Timings:
    """The sums per phase; a phase that happened in no hop stays None."""
    sums: dict[str, float] = {}
    for one in timings:
        for name in Timings.__slots__:
            seconds = getattr(one, name)
            if seconds is not None:
                sums[name] = sums.get(name, 0.0) + seconds
    return Timings(**sums)
