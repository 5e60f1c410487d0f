"""A strict client of the hostile origin: h11 over a bare stream, in memory or on a socket."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import h11
import trio
import trio.testing

from tidegate.testing.origin import Listener, Origin, open_origin

HOST = "origin.example"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response as h11 read it."""

    status: int
    fields: list[tuple[str, str]]
    content: bytes
    interim: int

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]

    def json(self) -> Any:
        return json.loads(self.content)


class Client:
    """A strict client on one stream. What it reads past one response is kept for the next."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._h11 = h11.Connection(h11.CLIENT)

    async def send(self, target: str, method: str = "GET", content: bytes = b"") -> None:
        fields = [("Host", HOST), ("Content-Length", str(len(content)))]
        data = self._h11.send(h11.Request(method=method, target=target, headers=fields)) or b""
        data += self._h11.send(h11.Data(content)) or b""
        self._h11.send(h11.EndOfMessage())
        await self.stream.send_all(data + content * (not data.endswith(content)))

    async def receive(self) -> Answer:
        head, content, interim = None, b"", 0
        while not isinstance(event := await self._next(), h11.EndOfMessage):
            if isinstance(event, h11.InformationalResponse):
                interim += 1
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                content += event.data
        assert head is not None
        fields = [(name.decode(), value.decode("latin-1")) for name, value in head.headers]
        return Answer(head.status_code, fields, content, interim)

    async def _next(self) -> h11.Event:
        while (event := self._h11.next_event()) is h11.NEED_DATA:
            self._h11.receive_data(bytes(await self.stream.receive_some()))
        assert isinstance(event, h11.Event)
        return event

    async def ask(self, target: str, method: str = "GET", content: bytes = b"") -> Answer:
        await self.send(target, method, content)
        return await self.receive()

    def start_next(self) -> None:
        self._h11.start_next_cycle()


@asynccontextmanager
async def in_memory(listener: Listener | None = None) -> AsyncIterator[tuple[Client, Origin]]:
    """A client of an origin over a memory stream, so that a fake clock is exact."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        origin = Origin(log_limit=100)
        nursery.start_soon(origin.serve_stream, theirs, listener)
        yield Client(ours), origin
        assert not origin.errors
        await ours.aclose()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def on_sockets(listener: Listener | None = None) -> AsyncIterator[tuple[Client, Origin]]:
    """A client of an origin over a real connection."""
    async with (
        open_origin(listener or Listener()) as origin,
        await trio.open_tcp_stream("127.0.0.1", origin.port) as stream,
    ):
        yield Client(stream), origin
        assert not origin.errors


async def received_to_end(stream: trio.abc.ReceiveStream) -> bytes:
    received = b""
    while data := await stream.receive_some():
        received += data
    return received


async def ends_within_a_day(action: Callable[..., Awaitable[object]], *arguments: object) -> bool:
    with trio.move_on_after(86_400) as scope:
        await action(*arguments)
    return not scope.cancelled_caught
