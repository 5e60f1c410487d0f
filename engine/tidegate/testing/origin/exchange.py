"""One request in, and the means to answer it: what a behaviour is given."""

import itertools
import json
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias

import h11
import trio

from tidegate.testing.origin.connection import Connection
from tidegate.testing.origin.content import BLOCK_SIZE
from tidegate.testing.origin.parameters import (
    ENDLESS,
    ENDS,
    LARGEST_PIECE,
    BadParameterError,
    format_query,
    number_of_seconds,
    numbers,
    one_of,
    parse_query,
    whole_number,
    whole_number_or_endless,
)
from tidegate.testing.origin.request import ReceivedRequest

if TYPE_CHECKING:
    from tidegate.testing.origin.server import Origin

# Larger than any head a client should send: a witness has to hear it whole.
_LARGEST_HEAD = 1 << 20
_REASON_PHRASES = {int(status): status.phrase for status in HTTPStatus}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Exchange:
    """One request, and the means to answer it well or badly. Behaviours are functions of this.

    A behaviour first reads every parameter that it takes, then calls `start` (or what sends a head, which
    does), and only then sends: by then no parameter can turn out to be bad, or to be one that nobody reads.

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
        self._read: set[str] = set()
        self._settled = False
        self._started = False

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
        self._parameters = parse_query(request.target.partition("?")[2])

    async def read_some(self, max_bytes: int = BLOCK_SIZE) -> bytes:
        """The next bytes of the request's content, nothing after the last.

        What came along with the head is given first, and whole.

        Raises:
            h11.RemoteProtocolError: its framing is wrong, or it was cut short.
        """
        while not self.request.complete:
            event = self._parser.next_event()
            if isinstance(event, h11.Data):
                self.request.content += event.data
                return bytes(event.data)
            if event is h11.NEED_DATA:
                await self._ask_for_content()
                self._parser.receive_data(await self.connection.receive(max_bytes))
            else:
                self.request.complete = True
        return b""

    async def _ask_for_content(self) -> None:
        """Send 100 to a client that waits for one (RFC 9110, 10.1.1), unless it is being answered already."""
        if self._parser.they_are_waiting_for_100_continue and not self._started:
            self._parser.send(h11.InformationalResponse(status_code=100, headers=[]))
            await self.connection.send(_CONTINUE)

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

    # What the query asks for. All of these raise BadParameterError where it makes no sense.

    @property
    def name(self) -> str:
        """The path up to its second slash: which behaviour."""
        return self.request.target.partition("?")[0].removeprefix("/").partition("/")[0]

    def text(self, name: str, default: str) -> str:
        """The first value of a query parameter."""
        return self.texts(name, default)[0]

    def texts(self, name: str, *default: str) -> list[str]:
        """Every value of a query parameter.

        Raises:
            RuntimeError: it is read for the first time after `settle`.
        """
        if self._settled and name not in self._read:
            raise RuntimeError(f"the parameter {name} is read when the answer may have begun")
        self._read.add(name)
        return self._parameters.get(name, list(default))

    def read_every(self) -> None:
        """Take any parameters at all, as a path does that only looks at them."""
        self._read.update(self._parameters)

    def integer(self, name: str, default: int, most: int | None = None) -> int:
        """A query parameter as a whole number, not negative, and not above `most`."""
        return whole_number(name, self.text(name, str(default)), most)

    def piece_size(self, name: str, default: int) -> int:
        """As `integer`, of something that is made whole in memory."""
        return self.integer(name, default, LARGEST_PIECE)

    def integer_or_endless(self, name: str, default: int | None) -> int | None:
        """As `integer`; None means endless."""
        return whole_number_or_endless(name, self.text(name, ENDLESS if default is None else str(default)))

    def seconds(self, name: str, default: float) -> float:
        """A query parameter as seconds, such as `0.25`."""
        return number_of_seconds(name, self.text(name, str(default)))

    def count(self, default: int | None) -> int | None:
        """The parameter `count`; None means endless."""
        return self.integer_or_endless("count", default)

    def then(self, default: str) -> str:
        """The parameter `then`: how the connection ends, see `Connection.end`."""
        return one_of("then", self.text("then", default), ENDS)

    def settle(self, *, makes_head: bool = True) -> None:
        """All parameters are read, but for those that every path takes: these are read here.

        Args:
            makes_head: whether the answer has a head that can be asked for.

        Raises:
            BadParameterError: one of them makes no sense, or the query has a parameter that nobody reads.
        """
        self.seconds("delay", 0)
        if makes_head:
            self.integer("status", 200)
            for name in ("reason", "field", "connection"):
                self.texts(name)
        unread = [name for name in self._parameters if name not in self._read and len(name) != 1]
        if unread:
            raise BadParameterError(f"{unread[0]} is no parameter of this path; GET / lists them")
        self._read.add("connection")
        self._settled = True

    def query_with(self, **changes: str) -> str:
        """The query of this request with some parameters replaced."""
        return format_query(self._parameters | {name: [value] for name, value in changes.items()})

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
        lines = [
            f"HTTP/1.1 {status} {self.text('reason', _REASON_PHRASES.get(status, ''))}",
            *fields,
            *self.texts("field"),
        ]
        if not self.keeps:
            lines.append("Connection: close")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    async def start(self, *, reads: bool = True, makes_head: bool = True) -> None:
        """Settle the parameters, then wait for `delay` seconds: from here on bytes are sent.

        Args:
            reads: read the request to its end first, as a good server does.
            makes_head: as for `settle`.

        Raises:
            BadParameterError: as for `settle`.
        """
        if self._started:
            return
        self.settle(makes_head=makes_head)
        if reads:
            await self.read_all()
        self._started = True
        await trio.sleep(self.seconds("delay", 0))

    async def send_head(self, *fields: str, status: int = 200) -> None:
        """Send a response's head."""
        await self.start()
        await self.connection.send(self.head(*fields, status=status))

    async def respond(self, content: bytes, *fields: str, status: int = 200) -> None:
        """Send a whole response, as a good server does."""
        await self.start()
        head = self.head(*fields, f"Content-Length: {len(content)}", status=status)
        await self.connection.send(head if self.has_no_content(status) else head + content)

    async def respond_json(self, value: object) -> None:
        """Answer with a JSON text."""
        await self.respond(json.dumps(value).encode() + b"\n", "Content-Type: application/json")

    async def refuse(self, why: str) -> None:
        """Answer 400 and why, or just close if an answer has begun.

        Nothing that the query asks for holds, or this answer might fail in its turn.
        """
        if self._started:
            await self.connection.end("close")
            return
        self._parameters, self._started = {}, True
        head = self.head(f"Content-Length: {len(why)}", status=400)
        await self.connection.send(head if self.has_no_content(400) else head + why.encode("latin-1"))

    async def send_pieces(self, piece: Callable[[int], bytes], count: int | None, interval: float) -> None:
        """Send piece(0), piece(1), ...: `count` or endless many, `interval` seconds before each."""
        pieces = map(piece, numbers(count))
        # Without an interval this is a flood, and a call for each small piece would be too slow for one.
        at_once = 1 if interval else max(1, BLOCK_SIZE // len(piece(0)))
        await self.connection.send_pieces(_joined(pieces, at_once), interval)


def _joined(pieces: Iterator[bytes], at_once: int) -> Iterator[bytes]:
    while some := list(itertools.islice(pieces, at_once)):
        yield b"".join(some)


Behaviour: TypeAlias = Callable[[Exchange], Awaitable[None]]
"""How a path is answered; the docstring of the function is what `GET /` says of it."""
