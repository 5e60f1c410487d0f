"""What is listened on, and what happens to a connection before HTTP."""

import math
import socket
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from tidegate.testing._program import naming_address
from tidegate.testing.origin.parameters import ENDS, one_of

if TYPE_CHECKING:
    import trustme


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeFault:
    """Where the server's half of a TLS handshake goes wrong.

    Attributes:
        flight: which flight of the server, from 0. Flight 0 answers the ClientHello. Flight 1 is the server's
            Finished in TLS 1.2; in TLS 1.3 the client is through by then, and flight 1 is session tickets and
            the response.
        after: how many bytes of that flight are sent; the rest never is.
        interval: seconds before each of those bytes, sent one by one; 0 sends them together.
        then: what follows, see `tidegate.testing.origin`.

    Raises:
        ValueError: a number is negative, the interval is none that ends, or there is no such `then`.
    """

    flight: int = 0
    after: int = 0
    interval: float = 0.0
    then: str = "hold"

    def __post_init__(self) -> None:
        if self.flight < 0 or self.after < 0:
            raise ValueError(f"flight {self.flight} and after {self.after} must not be negative")
        if not 0 <= self.interval < math.inf:
            raise ValueError(f"interval {self.interval} is not a number of seconds")
        one_of("then", self.then, ENDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One address to listen on, and what happens to a connection before HTTP.

    Attributes:
        host: an IPv4 or IPv6 address of this machine.
        port: 0 lets the system choose.
        tls: speak TLS with this context. Its `sni_callback` is replaced, to record which name was asked for.
        silent: accept, then neither read nor write.
        handshake: spoil the TLS handshake; needs `tls`.
        receive_buffer: SO_RCVBUF in bytes: a small one blocks a client soon that uploads to a `stall`.
    """

    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    silent: bool = False
    handshake: HandshakeFault | None = None
    receive_buffer: int | None = None


async def bind(listener: Listener) -> trio.SocketListener:
    """Listen; connections queue up as far as the system allows (`net.core.somaxconn`), for trio asks for all.

    Raises:
        OSError: the address cannot be listened on.
    """
    try:
        (tcp,) = await trio.open_tcp_listeners(listener.port, host=listener.host)
    except OSError as error:
        raise naming_address(error, listener.host, listener.port) from error
    if listener.receive_buffer is not None:
        tcp.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, listener.receive_buffer)
    return tcp


def issue_tls(*names: str, authority: "trustme.CA | None" = None) -> "tuple[trustme.CA, ssl.SSLContext]":
    """Make a server context for `names` (hosts and addresses), and the authority that signs it.

    Args:
        names: at least one.
        authority: signs instead of a new one.

    Raises:
        ModuleNotFoundError: trustme is missing; the extra `testing` brings it.
    """
    try:
        import trustme
    except ModuleNotFoundError as error:
        error.add_note("trustme makes the certificates: pip install 'tidegate[testing]'")
        raise
    authority = authority or trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return authority, context
