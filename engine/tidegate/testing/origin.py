"""A hostile HTTP/1.1 origin: each way in which a server can hurt a client, chosen by the path of the request.

In a test, over real sockets::

    async with open_origin(Listener(), Listener(tls=context)) as origin:
        plain, secure = origin.ports
        ...                              # fetch http://127.0.0.1:{plain}/drip-content?size=10&interval=0.5
    assert origin.requests[0].target == "/drip-content?size=10&interval=0.5"

or over one end of `trio.testing.memory_stream_pair()`, where a fake clock makes every interval exact::

    nursery.start_soon(origin.serve_stream, server_end)

As a program, which prints one line of JSON when it is ready::

    python -m tidegate.testing.origin --bind 127.0.0.1:0 --tls-bind [::1]:0 --tls-name origin.example

`BEHAVIOURS`, near the end, is the table of paths; `GET /` answers with it. Query values are percent-decoded
to bytes (a plus stays a plus), so a `Location` may hold any bytes at all. These work wherever a head is sent:

    status=N  reason=TEXT     instead of the status line's own
    field=Name: value         one more field; may be repeated, and may repeat a field that is there already
    delay=S                   seconds before the head
    connection=close          says so, and closes after the response

Where a path takes `then`, its values are: `keep` the connection, `close` it (over TLS with close_notify),
`cut` it (over TLS without), `reset` it, `half-close` it and read on, `hold` it and read on, `stall` it and
read no more. `count` (a number or `endless`) and `interval` (seconds before each piece) are taken by all that
drips or has no end. Defaults stand in brackets. Needs Linux: resets and stalls ask the kernel about a socket.
"""

import argparse
import base64
import contextlib
import fcntl
import itertools
import json
import signal
import socket
import ssl
import struct
import sys
import termios
import urllib.parse
import zlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING

import h11
import trio

if TYPE_CHECKING:
    import trustme

_BLOCK_SIZE = 65536
_PATTERN = b"0123456789abcdef"
_PATTERN_BLOCK = _PATTERN * (_BLOCK_SIZE // len(_PATTERN) + 1)
# Larger than any head a client should send: a witness has to hear it whole.
_LARGEST_HEAD = 1 << 20
_STALL_CHECK_SECONDS = 0.5
_TCP_ESTABLISHED = 1

# The name in the ClientHello of the connection that the current task serves.
_asked_server_name: ContextVar[str | None] = ContextVar("asked_server_name", default=None)


def content_of(size: int, offset: int = 0) -> bytes:
    """The content of every path: `0123456789abcdef` over and over, `size` bytes of it from `offset`."""
    start = offset % len(_PATTERN)
    repeats = (start + size) // len(_PATTERN) + 1
    block = _PATTERN_BLOCK if start + size <= len(_PATTERN_BLOCK) else _PATTERN * repeats
    return block[start : start + size]


# --- what is listened on ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeFault:
    """Where the server's half of a TLS handshake goes wrong.

    Attributes:
        flight: which flight of the server, from 0. Flight 0 answers the ClientHello. Flight 1 is the server's
            Finished in TLS 1.2; in TLS 1.3 the client is through by then, and flight 1 is session tickets and
            the response.
        after: how many bytes of that flight are sent; the rest never is.
        interval: seconds before each of those bytes, sent one by one; 0 sends them together.
        then: what follows, as in the module's docstring.
    """

    flight: int = 0
    after: int = 0
    interval: float = 0.0
    then: str = "hold"


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


# --- one connection -----------------------------------------------------------------------------------------


class BadParameterError(ValueError):
    """A query parameter of the client's makes no sense; answered with 400."""


class Connection:
    """One accepted connection: bytes in, bytes out, and every way to end it.

    Attributes:
        number: which connection of this origin, from 1.
        open: False once this side has ended it.
        unparsed: bytes that came behind the last request.
    """

    def __init__(self, stream: trio.abc.Stream, transport: trio.abc.Stream, number: int) -> None:
        self._stream = stream
        self._transport = transport
        self._socket = _tcp_socket(transport)
        self.number = number
        self.open = True
        self.unparsed = b""

    async def send(self, data: bytes) -> None:
        """Send all of `data`."""
        await self._stream.send_all(data)

    async def send_slowly(self, data: bytes, interval: float, size: int = 1) -> None:
        """Send `data` in pieces of `size` bytes, `interval` seconds before each; at once if that is 0."""
        if not interval:
            await self.send(data)
            return
        for start in range(0, len(data), size):
            await trio.sleep(interval)
            await self.send(data[start : start + size])

    async def receive(self, max_bytes: int = _BLOCK_SIZE) -> bytes:
        """What has arrived, at most `max_bytes`; nothing at the end of the stream."""
        return bytes(await self._stream.receive_some(max_bytes))

    async def end(self, how: str) -> None:
        """End the connection as `then` says, see the module's docstring; returns when it is over."""
        ways: Mapping[str, Callable[[], Awaitable[None]]] = {
            "keep": trio.lowlevel.checkpoint,
            "close": self._stream.aclose,
            "cut": self._cut,
            "reset": self._reset,
            "half-close": self._half_close,
            "hold": self._hold,
            "stall": self._stall,
        }
        if how not in ways:
            raise BadParameterError(f"then={how} is unknown: use one of {', '.join(ways)}")
        self.open = how == "keep"
        await ways[how]()

    async def _cut(self) -> None:
        await trio.aclose_forcefully(self._transport)

    async def _reset(self) -> None:
        if self._socket is not None:
            await _wait_until_sent(self._socket)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self._cut()

    async def _half_close(self) -> None:
        if isinstance(self._transport, trio.abc.HalfCloseableStream):
            await self._transport.send_eof()
        await self._hold()

    async def _hold(self) -> None:
        # Reading is how the client's end is seen; what it says is dropped.
        while await self.receive():
            pass
        await self._cut()

    async def _stall(self) -> None:
        if self._socket is None:
            await trio.sleep_forever()
        while _is_established(self._socket):  # noqa: ASYNC110  no event of the kernel's tells a FIN behind unread bytes
            await trio.sleep(_STALL_CHECK_SECONDS)
        await self._cut()

    def describe_tls(self) -> dict[str, object] | None:
        """Version, server name asked for and whether the session was resumed; None without TLS."""
        if not isinstance(self._stream, trio.SSLStream):
            return None
        return {
            "version": self._stream.version(),
            "server_name": _asked_server_name.get(),
            "resumed": self._stream.session_reused,
        }


def _tcp_socket(transport: trio.abc.Stream) -> trio.socket.SocketType | None:
    # Memory streams and socket pairs know neither resets nor states: they are cut instead, and held for ever.
    sock = transport.socket if isinstance(transport, trio.SocketStream) else None
    return sock if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6) else None


async def _wait_until_sent(sock: trio.socket.SocketType) -> None:
    # A reset throws away what is still queued, and the client is to get every byte before it.
    while _bytes_unsent(sock):  # noqa: ASYNC110  the kernel has no event for it
        await trio.sleep(0.001)


def _bytes_unsent(sock: trio.socket.SocketType) -> int:
    unsent: int = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)))[0]
    return unsent


def _is_established(sock: trio.socket.SocketType) -> bool:
    # The one way to see a FIN behind bytes that must stay unread; the state is the first byte of tcp_info.
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _TCP_ESTABLISHED


class _SpoiltTransport(trio.abc.Stream):
    """Lets the server's TLS flights through, up to the one that the fault names.

    trio.SSLStream hands over each flight of a handshake in one `send_all`, so counting calls counts flights.
    """

    def __init__(self, transport: trio.abc.Stream, fault: HandshakeFault) -> None:
        self._transport = transport
        self._fault = fault
        self._flights = itertools.count()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if next(self._flights) < self._fault.flight:
            await self._transport.send_all(data)
            return
        connection = Connection(self._transport, self._transport, 0)
        await connection.send_slowly(bytes(data[: self._fault.after]), self._fault.interval)
        await connection.end(self._fault.then)
        raise trio.BrokenResourceError("this handshake was spoilt on purpose")

    async def wait_send_all_might_not_block(self) -> None:
        await self._transport.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._transport.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._transport.aclose()


# --- one request and its answer -----------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class ReceivedRequest:
    """What one request was on the wire.

    Attributes:
        connection: which connection of the origin, from 1.
        number: which request on that connection, from 1.
        head: the bytes up to and including the empty line; what there was of them, if it was malformed.
        method: text, as all below, is the wire's bytes read as Latin-1.
        target: as sent, normally path and query.
        version: `1.1` or `1.0`.
        fields: names and values in the order and with the case of the wire.
        content: decoded from its framing, as far as it has been read.
        complete: the content was read to its end.
        tls: version, server_name and resumed, see `Connection.describe_tls`.
        error: why the request was refused as malformed.
    """

    connection: int
    number: int
    head: bytes = b""
    method: str = ""
    target: str = ""
    version: str = "1.1"
    fields: tuple[tuple[str, str], ...] = ()
    content: bytearray = field(default_factory=bytearray)
    complete: bool = False
    tls: dict[str, object] | None = None
    error: str | None = None

    def values(self, name: str) -> list[str]:
        """The values of every field called `name`, in any case."""
        return [value for key, value in self.fields if key.lower() == name.lower()]

    def as_json(self) -> dict[str, object]:
        """The object that `/echo` and `/requests` send; the keys are stable."""
        return {
            "connection": self.connection,
            "number": self.number,
            "method": self.method,
            "target": self.target,
            "version": self.version,
            "headers": [list(pair) for pair in self.fields],
            "content_base64": base64.b64encode(self.content).decode(),
            "complete": self.complete,
            "tls": self.tls,
            "error": self.error,
        }


class Exchange:
    """One request, and the means to answer it well or badly. Behaviours are functions of this.

    Attributes:
        origin: the origin that was asked.
        connection: what the request came on.
        request: what it was.
    """

    def __init__(self, origin: "Origin", connection: Connection, number: int) -> None:
        self.origin = origin
        self.connection = connection
        self.request = ReceivedRequest(connection=connection.number, number=number)
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=_LARGEST_HEAD)
        self._parameters: dict[str, list[str]] = {}

    # h11 reads the requests, strictly, so that a client's bad framing is found out; it never writes.

    async def receive_head(self) -> bool:
        """Read the head of the request; False if the client closed instead.

        Raises:
            h11.RemoteProtocolError: it is malformed or cut short.
        """
        event: object = h11.NEED_DATA
        while event is h11.NEED_DATA:
            data = self.connection.unparsed or await self.connection.receive()
            self.connection.unparsed = b""
            self.request.head += data
            self._parser.receive_data(data)
            event = self._parser.next_event()
        if not isinstance(event, h11.Request):
            return False
        self.request.head = self.request.head.removesuffix(self._parser.trailing_data[0])
        self._note(event)
        return True

    def _note(self, event: h11.Request) -> None:
        request = self.request
        request.method = event.method.decode("latin-1")
        request.target = event.target.decode("latin-1")
        request.version = event.http_version.decode("latin-1")
        pairs = event.headers.raw_items()
        request.fields = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs)
        request.tls = self.connection.describe_tls()
        self._parameters = _parse_query(request.target.partition("?")[2])

    async def read_some(self, max_bytes: int = _BLOCK_SIZE) -> bytes:
        """The next bytes of the request's content, nothing after the last.

        Raises:
            h11.RemoteProtocolError: its framing is wrong, or it was cut short.
        """
        while not self.request.complete:
            event = self._parser.next_event()
            if isinstance(event, h11.Data):
                self.request.content += event.data
                return bytes(event.data)
            if event is h11.NEED_DATA:
                self._parser.receive_data(await self.connection.receive(max_bytes))
            else:
                self.request.complete = True
        return b""

    async def read_all(self) -> None:
        """Read the request's content to its end; `request.content` has it then."""
        while await self.read_some():
            pass

    async def finish(self) -> bool:
        """Read what is left of the request, or close the connection; says whether a next one may come."""
        if self.connection.open and self.keeps:
            await self.read_all()
            self.connection.unparsed = self._parser.trailing_data[0]
        elif self.connection.open:
            await self.connection.end("close")
        return self.connection.open

    # What the query asks for.

    @property
    def name(self) -> str:
        """The path up to its second slash: which behaviour."""
        return self.request.target.partition("?")[0].removeprefix("/").partition("/")[0]

    def text(self, name: str, default: str) -> str:
        """The first value of a query parameter."""
        return self.texts(name, default)[0]

    def texts(self, name: str, *default: str) -> list[str]:
        """Every value of a query parameter."""
        return self._parameters.get(name, list(default))

    def integer(self, name: str, default: int) -> int:
        """A query parameter as a whole number, not negative."""
        text = self.text(name, str(default))
        if not (text.isascii() and text.isdigit()):
            raise BadParameterError(f"{name}={text} is not a whole number")
        return int(text)

    def seconds(self, name: str, default: float) -> float:
        """A query parameter as seconds, such as `0.25`."""
        try:
            return float(self.text(name, str(default)))
        except ValueError as error:
            raise BadParameterError(f"{name}={self.text(name, '')} is not a number of seconds") from error

    def count(self, default: int | None) -> int | None:
        """The parameter `count`; None means endless."""
        if default is None and "count" not in self._parameters:
            return None
        return None if self.text("count", "") == "endless" else self.integer("count", default or 0)

    def query_with(self, **changes: str) -> str:
        """The query of this request with some parameters replaced."""
        parameters = self._parameters | {name: [value] for name, value in changes.items()}
        pairs = [(name, value) for name, values in parameters.items() for value in values]
        return urllib.parse.urlencode(pairs, quote_via=urllib.parse.quote, encoding="latin-1")

    @property
    def keeps(self) -> bool:
        """Whether the connection may serve another request, after what both sides have said."""
        options = ",".join(self.request.values("connection")).lower()
        said = {option.strip() for option in options.split(",")} | {self.text("connection", "")}
        return "close" not in said and self.request.version == "1.1" and self.request.error is None

    # What is sent.

    def has_no_content(self, status: int) -> bool:
        """Whether a response with this status to this request ends with its head (RFC 9112, section 6.3)."""
        status = self.integer("status", status)
        return self.request.method == "HEAD" or status < 200 or status in (204, 304)

    def head(self, *fields: str, status: int = 200) -> bytes:
        """A response's head, after what the query asks for."""
        status = self.integer("status", status)
        known = {int(known): known.phrase for known in HTTPStatus}
        lines = [
            f"HTTP/1.1 {status} {self.text('reason', known.get(status, ''))}",
            *fields,
            *self.texts("field"),
        ]
        if not self.keeps:
            lines.append("Connection: close")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    async def send_head(self, *fields: str, status: int = 200) -> None:
        """Wait for `delay` seconds, then send a response's head."""
        await trio.sleep(self.seconds("delay", 0))
        await self.connection.send(self.head(*fields, status=status))

    async def respond(self, content: bytes, *fields: str, status: int = 200) -> None:
        """Answer as a good server does: the request is read to its end first."""
        await self.read_all()
        await trio.sleep(self.seconds("delay", 0))
        head = self.head(*fields, f"Content-Length: {len(content)}", status=status)
        await self.connection.send(head if self.has_no_content(status) else head + content)

    async def respond_json(self, value: object) -> None:
        """Answer with a JSON text."""
        await self.respond(json.dumps(value).encode() + b"\n", "Content-Type: application/json")

    async def send_pieces(self, piece: Callable[[int], bytes], count: int | None, interval: float) -> None:
        """Send piece(0), piece(1), ...: `count` or endless many, `interval` seconds before each."""
        numbers = iter(itertools.count() if count is None else range(count))
        # Without an interval this is a flood, and a call for each small piece would be too slow for one.
        at_once = 1 if interval else max(1, _BLOCK_SIZE // len(piece(0)))
        while pieces := [piece(number) for number in itertools.islice(numbers, at_once)]:
            await trio.sleep(interval)
            await self.connection.send(b"".join(pieces))


def _parse_query(query: str) -> dict[str, list[str]]:
    parameters: dict[str, list[str]] = {}
    for pair in query.split("&") if query else []:
        name, _, value = (urllib.parse.unquote(part, "latin-1") for part in pair.partition("="))
        parameters.setdefault(name, []).append(value)
    return parameters


# --- the origin ---------------------------------------------------------------------------------------------


class Origin:
    """A running origin; made by `open_origin`.

    Attributes:
        ports: where it listens, in the order of its listeners.
        requests: every request received, the oldest dropped beyond the limit.
        served: how often each behaviour was asked for.
        accepted: how many connections there have been.
        open_connections: how many there are now.
    """

    def __init__(self, log_limit: int) -> None:
        self.ports: tuple[int, ...] = ()
        self.requests: deque[ReceivedRequest] = deque(maxlen=log_limit)
        self.served: Counter[str] = Counter()
        self.accepted = 0
        self.open_connections = 0
        self._a_connection_ended = trio.lowlevel.ParkingLot()

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self.ports[0]

    def clear(self) -> None:
        """Forget the requests and counts so far, but not the connections."""
        self.requests.clear()
        self.served.clear()

    async def wait_all_closed(self) -> None:
        """Wait until no connection is open: a client that leaks one makes this wait for ever."""
        while self.open_connections:
            await self._a_connection_ended.park()

    async def serve_stream(self, transport: trio.abc.Stream, listener: Listener | None = None) -> None:
        """Serve one connection until it ends, as `listener` says; its address is not looked at.

        Args:
            transport: a socket stream, or one end of a memory stream pair.
            listener: plain HTTP if None.
        """
        self.accepted += 1
        self.open_connections += 1
        try:
            await self._serve(transport, listener or Listener(), self.accepted)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # The client went away, which is its right.
        finally:
            self.open_connections -= 1
            self._a_connection_ended.unpark_all()
            # Last, for it raises Cancelled where the origin is being closed; it closes before it does.
            await trio.aclose_forcefully(transport)

    async def _serve(self, transport: trio.abc.Stream, listener: Listener, number: int) -> None:
        if listener.silent:
            await Connection(transport, transport, number).end("stall")
            return
        stream = transport
        if listener.tls is not None:
            spoilt = (
                transport if listener.handshake is None else _SpoiltTransport(transport, listener.handshake)
            )
            listener.tls.sni_callback = _note_server_name
            stream = trio.SSLStream(spoilt, listener.tls, server_side=True)
            await stream.do_handshake()
        await self._converse(Connection(stream, transport, number))

    async def _converse(self, connection: Connection) -> None:
        for number in itertools.count(1):
            exchange = Exchange(self, connection, number)
            try:
                if not (await exchange.receive_head() and await self._answer(exchange)):
                    break
            except h11.RemoteProtocolError as error:
                await self._refuse(exchange, str(error))
                break

    def _note(self, exchange: Exchange) -> None:
        self.requests.append(exchange.request)
        self.served[exchange.name] += 1

    async def _answer(self, exchange: Exchange) -> bool:
        self._note(exchange)
        try:
            await BEHAVIOURS.get(exchange.name, _answer_not_found)(exchange)
        except BadParameterError as error:
            await exchange.respond(str(error).encode(), status=400)
        return await exchange.finish()

    async def _refuse(self, exchange: Exchange, error: str) -> None:
        exchange.request.error = error
        if not exchange.request.method:  # its head was malformed, so it has not been noted yet
            self._note(exchange)
        with contextlib.suppress(BadParameterError):
            await exchange.connection.send(exchange.head("Content-Length: 0", status=400))
        await exchange.connection.end("close")


def _note_server_name(_: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> None:
    _asked_server_name.set(name)


@asynccontextmanager
async def open_background() -> AsyncIterator[trio.Nursery]:
    """A nursery that is cancelled when its block ends; a single exception comes out as it is, in no group."""
    alone = None
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        alone = group.exceptions[0]
    if alone is not None:
        raise alone


async def _bind(listener: Listener) -> trio.SocketListener:
    (tcp,) = await trio.open_tcp_listeners(listener.port, host=listener.host)
    if listener.receive_buffer is not None:
        tcp.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, listener.receive_buffer)
    return tcp


async def _accept(origin: Origin, listener: Listener, tcp: trio.SocketListener) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await origin.serve_stream(stream, listener)

    await trio.serve_listeners(serve, [tcp])


@asynccontextmanager
async def open_origin(*listeners: Listener, log_limit: int = 10_000) -> AsyncIterator[Origin]:
    """Run an origin for as long as the `async with` block lasts; its connections are cut at the end.

    Args:
        listeners: plain HTTP on a port of 127.0.0.1 if there are none.
        log_limit: how many requests `Origin.requests` keeps; 0 for load tests.

    Raises:
        OSError: an address cannot be listened on.
    """
    origin = Origin(log_limit)
    async with AsyncExitStack() as stack:
        chosen = listeners or (Listener(),)
        bound = [await stack.enter_async_context(await _bind(listener)) for listener in chosen]
        origin.ports = tuple(tcp.socket.getsockname()[1] for tcp in bound)
        async with open_background() as nursery:
            for listener, tcp in zip(chosen, bound, strict=True):
                nursery.start_soon(_accept, origin, listener, tcp)
            yield origin


# --- good behaviour -----------------------------------------------------------------------------------------


async def _answer_not_found(exchange: Exchange) -> None:
    await exchange.respond(b"no such behaviour; GET / lists them\n", status=404)


async def index(exchange: Exchange) -> None:
    """This list."""
    await exchange.respond_json(
        {f"/{name}": " ".join((it.__doc__ or "").split()) for name, it in BEHAVIOURS.items()}
    )


async def echo(exchange: Exchange) -> None:
    """The request as JSON: method, target, headers, content_base64, connection, number, tls."""
    await exchange.read_all()
    await exchange.respond_json(exchange.request.as_json())


async def state(exchange: Exchange) -> None:
    """Counts as JSON: accepted, open, served by path."""
    origin = exchange.origin
    counts = {"accepted": origin.accepted, "open": origin.open_connections, "served": dict(origin.served)}
    await exchange.respond_json(counts)


async def requests(exchange: Exchange) -> None:
    """Every request received so far, as `/echo` shows it; `/requests?clear=1` forgets them afterwards."""
    await exchange.respond_json([request.as_json() for request in exchange.origin.requests])
    if exchange.text("clear", ""):
        exchange.origin.clear()


async def redirect(exchange: Exchange) -> None:
    """`to`: the Location, as given; repeated for several, absent for none. Status 302."""
    locations = [f"Location: {to}" for to in exchange.texts("to")]
    await exchange.respond(b"", *locations, status=302)


async def content(exchange: Exchange) -> None:
    """`size` bytes (1000), `chunk` (65536) a piece. `framing`: length, chunked, eof (`then`: close)."""
    await _send_content(
        exchange, exchange.integer("size", 1000), chunk=_BLOCK_SIZE, interval=0, framing="length"
    )


async def upload(exchange: Exchange) -> None:
    """Read the content, then answer as JSON how many bytes it had."""
    await exchange.read_all()
    await exchange.respond_json({"received": len(exchange.request.content)})


_FRAMING_FIELDS: Mapping[str, str] = MappingProxyType(
    {"length": "Content-Length: {size}", "chunked": "Transfer-Encoding: chunked", "eof": "Connection: close"}
)


def _framing(exchange: Exchange, default: str) -> str:
    framing = exchange.text("framing", default)
    if framing not in _FRAMING_FIELDS:
        raise BadParameterError(f"framing={framing} is unknown: use one of {', '.join(_FRAMING_FIELDS)}")
    return framing


def _frame(piece: bytes, framing: str) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece) if framing == "chunked" else piece


def _pieces(size: int | None, chunk: int) -> Iterator[bytes]:
    for offset in itertools.count(0, chunk):
        length = chunk if size is None else min(chunk, size - offset)
        if length <= 0:
            return
        yield content_of(length, offset)


async def _send_content(
    exchange: Exchange, size: int | None, *, chunk: int, interval: float, framing: str
) -> None:
    framing = _framing(exchange, framing)
    # An endless content by length is one whose end nobody lives to see.
    said = size if size is not None else 1 << 62
    await exchange.read_all()
    await exchange.send_head(_FRAMING_FIELDS[framing].format(size=said))
    if not exchange.has_no_content(200):
        interval = exchange.seconds("interval", interval)
        for piece in _pieces(size, max(1, exchange.integer("chunk", chunk))):
            await trio.sleep(interval)
            await exchange.connection.send(_frame(piece, framing))
    await _end_content(exchange, framing)


async def _end_content(exchange: Exchange, framing: str) -> None:
    if framing == "chunked" and not exchange.has_no_content(200):
        await exchange.connection.send(b"0\r\n\r\n")
    await exchange.connection.end(exchange.text("then", "close" if framing == "eof" else "keep"))


# --- slowness -----------------------------------------------------------------------------------------------


async def hold(exchange: Exchange) -> None:
    """Never answer."""
    await exchange.connection.end("hold")


async def drip_head(exchange: Exchange) -> None:
    """The head of a good answer, `bytes` (1) at a time, `interval` (0.1) before each."""
    await exchange.read_all()
    head = exchange.head("Content-Type: text/plain", "Content-Length: 5")
    await exchange.connection.send_slowly(
        head, exchange.seconds("interval", 0.1), exchange.integer("bytes", 1) or 1
    )
    await exchange.connection.send(b"" if exchange.has_no_content(200) else b"slow\n")


async def drip_content(exchange: Exchange) -> None:
    """`/content` of `size` bytes (10), `chunk` (1) a piece, `interval` (0.1) before each."""
    await _send_content(exchange, exchange.integer("size", 10), chunk=1, interval=0.1, framing="length")


async def drip_chunk_size(exchange: Exchange) -> None:
    """`count` chunks (10), the 18 digits of each size line dripped with `interval` (0.1) between them."""
    await exchange.send_head("Transfer-Encoding: chunked")
    for _ in range(exchange.count(10) or 0):
        await exchange.connection.send_slowly(b"%018x\r\n" % len(_PATTERN), exchange.seconds("interval", 0.1))
        await exchange.connection.send(_PATTERN + b"\r\n")
    await _end_content(exchange, "chunked")


async def drip_interim(exchange: Exchange) -> None:
    """`count` interim responses (10) of status `interim` (103), `interval` (0.1) apart, then the answer."""
    await _send_interim(exchange, count=10, interval=0.1)


async def slow_reader(exchange: Exchange) -> None:
    """As `/upload`, reading `size` bytes (1024) at a time, `interval` (0.1) before each."""
    while not exchange.request.complete:
        await trio.sleep(exchange.seconds("interval", 0.1))
        await exchange.read_some(exchange.integer("size", 1024))
    await upload(exchange)


async def _send_interim(exchange: Exchange, count: int | None, interval: float) -> None:
    status = exchange.integer("interim", 103)
    interim = f"HTTP/1.1 {status} Interim\r\nX-Interim: yes\r\n\r\n".encode()
    await exchange.read_all()
    await exchange.send_pieces(
        lambda _: interim, exchange.count(count), exchange.seconds("interval", interval)
    )
    await exchange.respond(b"final\n")


# --- no end -------------------------------------------------------------------------------------------------
# Each takes `count` (endless) and `interval` (0), and after `count` ends as a good answer does.


async def _send_endless(exchange: Exchange, piece: Callable[[int], bytes]) -> None:
    await exchange.send_pieces(piece, exchange.count(None), exchange.seconds("interval", 0))


async def endless_head(exchange: Exchange) -> None:
    """Fields without end, `size` bytes (1000) each."""
    value = content_of(exchange.integer("size", 1000))
    await exchange.connection.send(exchange.head("Content-Length: 0").removesuffix(b"\r\n"))
    await _send_endless(exchange, lambda number: b"X-Pad-%d: %b\r\n" % (number, value))
    await exchange.connection.send(b"\r\n")


async def endless_field(exchange: Exchange) -> None:
    """One field line without end, `size` bytes (1000) a piece."""
    value = content_of(exchange.integer("size", 1000))
    await exchange.connection.send(exchange.head("Content-Length: 0").removesuffix(b"\r\n") + b"X-Pad: ")
    await _send_endless(exchange, lambda _: value)
    await exchange.connection.send(b"\r\n\r\n")


async def endless_content(exchange: Exchange) -> None:
    """`/content` without end; `framing` (eof), `chunk` (65536)."""
    await _send_content(exchange, None, chunk=_BLOCK_SIZE, interval=0, framing="eof")


async def endless_chunks(exchange: Exchange) -> None:
    """Chunks of `size` bytes (1) without end: more framing than content."""
    chunk = _frame(content_of(exchange.integer("size", 1) or 1), "chunked")
    await exchange.send_head("Transfer-Encoding: chunked")
    await _send_endless(exchange, lambda _: chunk)
    await _end_content(exchange, "chunked")


async def endless_extensions(exchange: Exchange) -> None:
    """Chunks of one byte without end, each with an extension of `size` bytes (4096)."""
    chunk = b"1;" + b"x" * exchange.integer("size", 4096) + b"\r\na\r\n"
    await exchange.send_head("Transfer-Encoding: chunked")
    await _send_endless(exchange, lambda _: chunk)
    await _end_content(exchange, "chunked")


async def endless_trailers(exchange: Exchange) -> None:
    """A short chunked content, then trailer fields without end, `size` bytes (100) each."""
    value = content_of(exchange.integer("size", 100))
    await exchange.send_head("Transfer-Encoding: chunked")
    await exchange.connection.send(b"5\r\nhello\r\n0\r\n")
    await _send_endless(exchange, lambda number: b"X-Pad-%d: %b\r\n" % (number, value))
    await exchange.connection.send(b"\r\n")


async def endless_interim(exchange: Exchange) -> None:
    """Interim responses of status `interim` (103) without end."""
    await _send_interim(exchange, count=None, interval=0)


async def endless_redirects(exchange: Exchange) -> None:
    """Each leads to the next; `hop` counts them. `padding`: bytes of a field more (0). Status 302."""
    query = exchange.query_with(hop=str(exchange.integer("hop", 0) + 1))
    padding = "x" * exchange.integer("padding", 0)
    await exchange.respond(b"", f"Location: /endless-redirects?{query}", f"X-Pad: {padding}", status=302)


# --- broken ends --------------------------------------------------------------------------------------------


async def reset(exchange: Exchange) -> None:
    """`/content` of `size` bytes (1000), reset after `after` bytes (half of them), head included."""
    await _send_part(exchange, then="reset")


async def cut(exchange: Exchange) -> None:
    """As `/reset`, but the stream just ends; `then=close` for TLS with close_notify, or any other."""
    await _send_part(exchange, then="cut")


async def _send_part(exchange: Exchange, then: str) -> None:
    framing, body = _framing(exchange, "length"), content_of(exchange.integer("size", 1000))
    whole = exchange.head(_FRAMING_FIELDS[framing].format(size=len(body))) + _frame(body, framing)
    await exchange.read_all()
    await exchange.connection.send(whole[: exchange.integer("after", len(whole) // 2)])
    await exchange.connection.end(exchange.text("then", then))


async def half_close(exchange: Exchange) -> None:
    """A good answer, then this side's FIN; the other direction is read on."""
    await exchange.respond(b"good bye\n")
    await exchange.connection.end("half-close")


async def wrong_length(exchange: Exchange) -> None:
    """`sent` bytes (500) where Content-Length says `said` (1000), more or fewer; `then` (close)."""
    await exchange.read_all()
    await exchange.send_head(f"Content-Length: {exchange.text('said', '1000')}")
    await exchange.connection.send(content_of(exchange.integer("sent", 500)))
    await exchange.connection.end(exchange.text("then", "close"))


async def early(exchange: Exchange) -> None:
    """Answer 413 before the content is read, `then` (stall). With `keep` the content is read afterwards."""
    await exchange.send_head("Content-Length: 10", status=413)
    await exchange.connection.send(b"" if exchange.has_no_content(413) else b"too large\n")
    await exchange.connection.end(exchange.text("then", "stall"))


async def raw(exchange: Exchange) -> None:
    """Each `bytes` (percent-encoded) as it is, `interval` seconds (0) before each, then `then` (close)."""
    await exchange.read_all()
    for piece in exchange.texts("bytes"):
        await trio.sleep(exchange.seconds("interval", 0))
        await exchange.connection.send(piece.encode("latin-1"))
    await exchange.connection.end(exchange.text("then", "close"))


# --- kept connections ---------------------------------------------------------------------------------------


async def planted(exchange: Exchange) -> None:
    """A good answer and, in the same segment, a second one that nobody asked for; the connection is kept."""
    await exchange.read_all()
    unasked = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nplanted"
    await exchange.connection.send(exchange.head("Content-Length: 5") + b"asked" + unasked)


async def late_408(exchange: Exchange) -> None:
    """A good answer; `after` seconds (0.2) later a 408 on the idle connection, `then` (close)."""
    await exchange.respond(b"asked\n")
    await trio.sleep(exchange.seconds("after", 0.2))
    await exchange.connection.send(
        b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    )
    await exchange.connection.end(exchange.text("then", "close"))


async def drop_idle(exchange: Exchange) -> None:
    """A good answer; `after` seconds (0) later the connection ends, `then` (close), without a word."""
    await exchange.respond(b"asked\n")
    await trio.sleep(exchange.seconds("after", 0))
    await exchange.connection.end(exchange.text("then", "close"))


async def drop_second(exchange: Exchange) -> None:
    """A good answer to the first request of a connection; none to a later one, `then` (close)."""
    if exchange.request.number == 1:
        await exchange.respond(b"first\n")
    else:
        await exchange.read_all()
        await exchange.connection.end(exchange.text("then", "close"))


# --- content codings ----------------------------------------------------------------------------------------

_Compressor = tuple[Callable[[bytes], bytes], Callable[[], bytes]]


def _gzip() -> _Compressor:
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    return compressor.compress, compressor.flush


def _deflate() -> _Compressor:
    compressor = zlib.compressobj(9)
    return compressor.compress, compressor.flush


def _brotli() -> _Compressor:
    import brotli  # type: ignore[import-untyped]  # it ships no types

    compressor = brotli.Compressor(quality=5)
    return compressor.process, compressor.finish


def _zstd() -> _Compressor:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    compressor = zstd.ZstdCompressor()
    return compressor.compress, compressor.flush


_COMPRESSORS: Mapping[str, Callable[[], _Compressor]] = MappingProxyType(
    {"gzip": _gzip, "deflate": _deflate, "br": _brotli, "zstd": _zstd}
)


@lru_cache(maxsize=8)
def compress(coding: str, size: int, layers: int = 1) -> bytes:
    """`size` zero bytes in a content coding, in bounded memory; `layers` times over.

    Args:
        coding: gzip, deflate, br or zstd.
        size: decoded bytes.
        layers: how many times the coding is applied.

    Raises:
        ModuleNotFoundError: br and zstd need the extra `codings`.
    """
    add, finish = _COMPRESSORS[coding]()
    blocks = [add(bytes(min(_BLOCK_SIZE, size - start))) for start in range(0, size, _BLOCK_SIZE)]
    coded = b"".join(blocks) + finish()
    for _ in range(layers - 1):
        add, finish = _COMPRESSORS[coding]()
        coded = add(coded) + finish()
    return coded


async def bomb(exchange: Exchange) -> None:
    """`size` zero bytes (67108864) in `coding` (gzip; deflate, br, zstd), applied `layers` times (1)."""
    coding, layers = exchange.text("coding", "gzip"), exchange.integer("layers", 1)
    if coding not in _COMPRESSORS:
        raise BadParameterError(f"coding={coding} is unknown: use one of {', '.join(_COMPRESSORS)}")
    coded = compress(coding, exchange.integer("size", 1 << 26), layers)
    await exchange.respond(coded, f"Content-Encoding: {', '.join([coding] * layers)}")


async def gzip_members(exchange: Exchange) -> None:
    """`count` gzip members (100000), each of `size` zero bytes (0)."""
    coded = compress("gzip", exchange.integer("size", 0)) * (exchange.count(100_000) or 0)
    await exchange.respond(coded, "Content-Encoding: gzip")


async def gzip_name(exchange: Exchange) -> None:
    """A gzip header whose file name has `size` bytes (10000000): much to read, nothing to show."""
    name = b"x" * exchange.integer("size", 10_000_000) + b"\0"
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    coded = b"\x1f\x8b\x08\x08" + bytes(6) + name + compressor.flush() + bytes(8)
    await exchange.respond(coded, "Content-Encoding: gzip")


# --- the table ----------------------------------------------------------------------------------------------

Behaviour = Callable[[Exchange], Awaitable[None]]

BEHAVIOURS: Mapping[str, Behaviour] = MappingProxyType(
    {
        "": index,
        "content": content,
        "echo": echo,
        "redirect": redirect,
        "upload": upload,
        "state": state,
        "requests": requests,
        "hold": hold,
        "drip-head": drip_head,
        "drip-content": drip_content,
        "drip-chunk-size": drip_chunk_size,
        "drip-interim": drip_interim,
        "slow-reader": slow_reader,
        "endless-head": endless_head,
        "endless-field": endless_field,
        "endless-content": endless_content,
        "endless-chunks": endless_chunks,
        "endless-extensions": endless_extensions,
        "endless-trailers": endless_trailers,
        "endless-interim": endless_interim,
        "endless-redirects": endless_redirects,
        "reset": reset,
        "cut": cut,
        "half-close": half_close,
        "wrong-length": wrong_length,
        "early": early,
        "raw": raw,
        "planted": planted,
        "late-408": late_408,
        "drop-idle": drop_idle,
        "drop-second": drop_second,
        "bomb": bomb,
        "gzip-members": gzip_members,
        "gzip-name": gzip_name,
    }
)


# --- the program --------------------------------------------------------------------------------------------


def parse_address(text: str) -> tuple[str, int]:
    """`127.0.0.1:80` or `[::1]:80` as host and port.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not ADDRESS:PORT; an IPv6 address stands in brackets")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tidegate.testing.origin",
        description="A hostile HTTP/1.1 origin for tests. Prints one line of JSON when it is ready.",
        epilog="GET / lists what it can do. It listens on a port of 127.0.0.1 if no address is given.",
    )
    for option, what in {
        "--bind": "plain HTTP",
        "--tls-bind": "HTTP over TLS",
        "--silent-bind": "accept, and neither read nor write",
        "--stall-bind": "stall the TLS handshake",
    }.items():
        parser.add_argument(
            option, metavar="ADDRESS:PORT", action="append", type=parse_address, default=[], help=what
        )
    parser.add_argument("--stall-flight", type=int, default=0, help="the server's flight to stall, from 0")
    parser.add_argument("--stall-after", type=int, default=0, help="bytes of that flight that are sent")
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate chain, PEM")
    parser.add_argument("--tls-key", metavar="FILE", help="its key, PEM")
    parser.add_argument(
        "--tls-name", action="append", help="without --tls-cert: make a certificate for this host"
    )
    parser.add_argument("--tls-authority", metavar="FILE", help="where to write who signed it, PEM")
    parser.add_argument("--log-limit", type=int, default=10_000, help="how many requests /requests remembers")
    parser.add_argument("--exit-with-stdin", action="store_true", help="stop when standard input ends")
    return parser


def _tls_context(options: argparse.Namespace) -> ssl.SSLContext:
    if options.tls_cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.tls_cert, options.tls_key)
        return context
    authority, context = issue_tls(*options.tls_name or ["localhost", "127.0.0.1", "::1"])
    if options.tls_authority:
        authority.cert_pem.write_to_path(options.tls_authority)
    return context


def _listeners(options: argparse.Namespace) -> dict[str, list[Listener]]:
    tls = _tls_context(options) if options.tls_bind or options.stall_bind else None
    fault = HandshakeFault(flight=options.stall_flight, after=options.stall_after)
    return {
        "plain": [Listener(host=host, port=port) for host, port in options.bind],
        "tls": [Listener(host=host, port=port, tls=tls) for host, port in options.tls_bind],
        "silent": [Listener(host=host, port=port, silent=True) for host, port in options.silent_bind],
        "stall": [
            Listener(host=host, port=port, tls=tls, handshake=fault) for host, port in options.stall_bind
        ],
    }


async def run_until_told(*, exit_with_stdin: bool) -> None:
    """Return at SIGINT or SIGTERM, or when standard input ends if asked to."""
    async with trio.open_nursery() as nursery:
        if exit_with_stdin:
            nursery.start_soon(_cancel_after_stdin, nursery.cancel_scope)
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                nursery.cancel_scope.cancel()


async def _cancel_after_stdin(scope: trio.CancelScope) -> None:
    await trio.to_thread.run_sync(sys.stdin.buffer.read, abandon_on_cancel=True)
    scope.cancel()


async def _run(options: argparse.Namespace) -> None:
    kinds = _listeners(options)
    if not any(kinds.values()):
        kinds["plain"].append(Listener())
    async with open_origin(*itertools.chain(*kinds.values()), log_limit=options.log_limit) as origin:
        ports = iter(origin.ports)
        ready = {kind: [[one.host, next(ports)] for one in listeners] for kind, listeners in kinds.items()}
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        await run_until_told(exit_with_stdin=options.exit_with_stdin)


def main() -> None:
    """Run the program; the module's docstring shows how."""
    try:
        trio.run(_run, _arguments().parse_args())
    except OSError as error:
        sys.exit(f"tidegate.testing.origin: {error}")


if __name__ == "__main__":
    main()
