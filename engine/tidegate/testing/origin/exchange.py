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
    BadParameterError,
    format_query,
    number_of_seconds,
    numbers,
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

    # What the query asks for. All of these raise BadParameterError where it makes no sense.

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
        return whole_number(name, self.text(name, str(default)))

    def integer_or_endless(self, name: str, default: int | None) -> int | None:
        """As `integer`; None means endless."""
        return whole_number_or_endless(name, self.text(name, ENDLESS if default is None else str(default)))

    def seconds(self, name: str, default: float) -> float:
        """A query parameter as seconds, such as `0.25`."""
        return number_of_seconds(name, self.text(name, str(default)))

    def count(self, default: int | None) -> int | None:
        """The parameter `count`; None means endless."""
        return self.integer_or_endless("count", default)

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

    async def respond_bad_parameter(self, error: BadParameterError) -> None:
        """Answer 400 and why. Nothing that the query asks for holds, or the answer might fail in its turn."""
        self._parameters = {}
        await self.respond(str(error).encode(), status=400)

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
