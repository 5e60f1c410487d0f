"""One tree of exceptions. Each carries a `Reason` and a `Phase`; anything else out of `fetch` is a bug.

    FetchError
      InvalidRequest        the caller's mistake, found before anything is sent
        InvalidURL  InvalidField  InvalidArgument
      Denied                a rule says no: the operator's setting decides, or nothing can allow it
        SchemeDenied  HostDenied  PortDenied  AddressDenied
      TransportError        the network failed
        ResolutionError  ConnectError  TLSError  ConnectionLost  IncompleteContent
      RemoteProtocolError   the peer broke HTTP, or a named limit (MessageTooLarge)
      RedirectError         BadRedirect  TooManyRedirects
      DeadlineExceeded  Overloaded  EngineClosed

Which reason belongs to which exception is table A2 of the decisions; `Reason` is the finer of the two.
"""

from collections.abc import Callable
from typing import ClassVar, Self

from tidegate._policy.reasons import Phase, Reason


class FetchError(Exception):
    """A fetch was refused or failed. Raised only through its subclasses.

    The message is one plain sentence for people. It never holds a query, a field value, a credential or
    content; the facts are attributes.

    Attributes:
        reason: the one `Reason` that every output shows.
        phase: where in the fetch it happened; None only for errors raised outside a fetch, as by `parse_url`.
        url: the URL of the hop, without query and fragment; None if there was no valid one.
        hop: 0 for the first request, 1 for the one after the first redirect, and so on.
    """

    default_reason: ClassVar[Reason | None] = None

    def __init__(
        self,
        message: str,
        *,
        reason: Reason | None = None,
        phase: Phase | None = None,
        url: str | None = None,
        hop: int | None = None,
    ) -> None:
        super().__init__(message)
        chosen = reason or self.default_reason
        if chosen is None:
            raise TypeError(f"{type(self).__name__} needs a reason")
        self.reason: Reason = chosen
        self.phase = phase
        self.url = url
        self.hop = hop

    @property
    def message(self) -> str:
        """The sentence alone."""
        return str(self.args[0])

    def located(self, *, phase: Phase, url: str | None, hop: int) -> Self:
        """Fill in where it happened, keeping whatever a deeper layer already said; returns self."""
        self.phase = self.phase or phase
        self.url = self.url or url
        self.hop = hop if self.hop is None else self.hop
        return self

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.reason}: {self.message}>"

    def __reduce__(self) -> tuple[Callable[..., "FetchError"], tuple[object, ...], dict[str, object]]:
        return _rebuild, (type(self), self.message, self.reason), dict(self.__dict__)


def _rebuild(kind: type[FetchError], message: str, reason: Reason) -> FetchError:
    """Pickle support: exceptions with keyword arguments do not pickle by themselves."""
    return kind(message, reason=reason)


class InvalidRequest(FetchError):
    """The request itself is wrong; nothing was sent. Mend the arguments."""


class InvalidURL(InvalidRequest):
    """The text is no URL that we accept (`malformed_url`, `userinfo_not_allowed`, `invalid_port`)."""

    default_reason = Reason.MALFORMED_URL


class InvalidField(InvalidRequest):
    """A request field has a bad name or value, or is one that only the engine may set."""

    default_reason = Reason.INVALID_FIELD


class InvalidArgument(InvalidRequest):
    """Another argument is wrong, or the content is over `max_request_content`."""

    default_reason = Reason.INVALID_ARGUMENT


class Denied(FetchError):
    """A rule refuses this destination. The message names the setting that decides, if one can."""


class SchemeDenied(Denied):
    """Not http or https, or http where https is required."""

    default_reason = Reason.UNSUPPORTED_SCHEME


class HostDenied(Denied):
    """The host, or this request to it, is not allowed. Decided before any DNS query."""


class PortDenied(Denied):
    """The port is on the WHATWG list of bad ports, or not among the operator's."""

    default_reason = Reason.BLOCKED_PORT


class AddressDenied(Denied):
    """The host is, or resolves to, an address that must not be reached. Nothing was connected."""


class TransportError(FetchError):
    """The network failed, not the request."""


class ResolutionError(TransportError):
    """No such name, no answer, or the resolver is busy; the message says which."""

    default_reason = Reason.DNS_RESOLUTION_FAILED


class ConnectError(TransportError):
    """No validated address accepted a connection."""

    default_reason = Reason.CONNECT_FAILED


class TLSError(TransportError):
    """The handshake failed: certificate, name, protocol. Verification cannot be switched off."""

    default_reason = Reason.TLS_FAILED


class ConnectionLost(TransportError):
    """The connection ended before a whole response head arrived."""

    default_reason = Reason.CONNECTION_LOST


class IncompleteContent(TransportError):
    """The connection ended before the length or the last chunk that the peer announced (RFC 9112 8).

    Attributes:
        received: how many content bytes came, before decoding.
        expected: how many were announced; None for chunked content.
    """

    default_reason = Reason.INCOMPLETE_CONTENT

    def __init__(
        self,
        message: str,
        *,
        received: int = 0,
        expected: int | None = None,
        reason: Reason | None = None,
        phase: Phase | None = None,
        url: str | None = None,
        hop: int | None = None,
    ) -> None:
        super().__init__(message, reason=reason, phase=phase, url=url, hop=hop)
        self.received = received
        self.expected = expected


class RemoteProtocolError(FetchError):
    """The peer did not speak HTTP/1.1 as RFC 9112 asks, or its content coding is corrupt."""

    default_reason = Reason.PROTOCOL_ERROR


class MessageTooLarge(RemoteProtocolError):
    """The peer exceeded one of the named limits other than content size; the message says which."""

    default_reason = Reason.MESSAGE_TOO_LARGE


class RedirectError(FetchError):
    """A redirect that cannot be followed."""


class BadRedirect(RedirectError):
    """Location is no URL, there are two that differ, or the content cannot be sent again."""

    default_reason = Reason.BAD_REDIRECT


class TooManyRedirects(RedirectError):
    """One redirect more than `max_redirects`."""

    default_reason = Reason.TOO_MANY_REDIRECTS


class DeadlineExceeded(FetchError):
    """The one deadline of the fetch passed; `phase` says what was going on."""

    default_reason = Reason.TIMEOUT


class Overloaded(FetchError):
    """Too many fetches are waiting already. Try again later, or raise the engine's limits."""

    default_reason = Reason.OVERLOADED


class EngineClosed(FetchError):
    """The engine's `async with` block has ended, or is ending."""

    default_reason = Reason.ENGINE_CLOSED
