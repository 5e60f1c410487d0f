"""The hostile origin does what its table says: a test that blames a client must be able to trust the server.

Clients here are h11 over a bare stream, http.client in a thread, or bytes compared with bytes.
"""

import base64
import http.client
import json
import ssl
import subprocess
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import h11
import pytest
import trio
import trio.testing

from tidegate.testing.origin import (
    BEHAVIOURS,
    Connection,
    HandshakeFault,
    Listener,
    Origin,
    compress,
    content_of,
    issue_tls,
    open_origin,
    parse_address,
)

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


async def received_to_end(stream: trio.abc.ReceiveStream) -> bytes:
    received = b""
    while data := await stream.receive_some():
        received += data
    return received


# --- good behaviour -----------------------------------------------------------------------------------------


async def test_every_behaviour_is_listed_with_what_it_does() -> None:
    async with in_memory() as (client, _):
        listed = (await client.ask("/")).json()
    assert set(listed) == {f"/{name}" for name in BEHAVIOURS}
    assert all(listed.values())


@pytest.mark.parametrize(
    ("target", "status", "content"),
    [
        ("/content", 200, content_of(1000)),
        ("/content?size=0", 200, b""),
        ("/content?size=17&framing=chunked&chunk=3", 200, b"0123456789abcdef0"),
        ("/content?size=17&framing=eof", 200, b"0123456789abcdef0"),
        ("/content?size=200000", 200, content_of(200_000)),
        ("/content?size=200000&chunk=99999&framing=chunked", 200, content_of(200_000)),
        ("/content?size=3&status=503&reason=Later", 503, b"012"),
        ("/content?status=204", 204, b""),
        ("/content?size=3&delay=2.5", 200, b"012"),
        ("/content?size=x", 400, b"size=x is not a whole number"),
        ("/content?framing=wrong", 400, b"framing=wrong is unknown: use one of length, chunked, eof"),
        ("/nothing-here", 404, b"no such behaviour; GET / lists them\n"),
        ("/redirect?to=/x", 302, b""),
        ("/drip-head?count=5", 200, b"slow\n"),
        ("/drip-content", 200, b"0123456789"),
        ("/drip-content?framing=chunked&size=4", 200, b"0123"),
        ("/drip-chunk-size?count=2", 200, content_of(32)),
        ("/drip-interim?count=3", 200, b"final\n"),
        ("/endless-head?count=3&size=10", 200, b""),
        ("/endless-field?count=3&size=10", 200, b""),
        ("/endless-chunks?count=5", 200, b"00000"),
        ("/endless-extensions?count=5&size=10", 200, b"aaaaa"),
        ("/endless-trailers?count=5", 200, b"hello"),
        ("/endless-interim?count=100&interim=102", 200, b"final\n"),
        ("/endless-redirects", 302, b""),
        ("/early?then=keep", 413, b"too large\n"),
        ("/drop-second", 200, b"first\n"),
        ("/drop-idle", 200, b"asked\n"),
        ("/half-close", 200, b"good bye\n"),
    ],
)
async def test_a_strict_client_reads_what_the_table_says(
    target: str, status: int, content: bytes, autojump_clock: trio.testing.MockClock
) -> None:
    async with in_memory() as (client, _):
        answer = await client.ask(target)
    assert (answer.status, answer.content) == (status, content)


@pytest.mark.parametrize(
    "target", ["/content", "/content?framing=chunked", "/drip-head", "/echo", "/early?then=keep"]
)
async def test_head_has_no_content(target: str, autojump_clock: trio.testing.MockClock) -> None:
    """RFC 9110, 9.3.2; and the connection is good for another request."""
    async with in_memory() as (client, _):
        assert (await client.ask(target, "HEAD")).content == b""
        client.start_next()
        assert (await client.ask("/content?size=3")).content == b"012"


async def test_echo_shows_the_request_as_it_was_on_the_wire() -> None:
    async with in_memory() as (client, origin):
        head = (
            b"POST /echo?a=%41 HTTP/1.1\r\nHost: origin.example\r\nX-Odd:  two  \r\ncontent-LENGTH: 3\r\n\r\n"
        )
        await client.stream.send_all(head + b"\x00\xff!")
        client._h11.send(h11.Request(method="POST", target="/echo", headers=[("Host", HOST)]))
        seen = (await client.receive()).json()
        (request,) = origin.requests
    assert (request.head, bytes(request.content), request.complete) == (head, b"\x00\xff!", True)
    assert (seen["method"], seen["target"], seen["connection"], seen["number"]) == (
        "POST",
        "/echo?a=%41",
        1,
        1,
    )
    assert seen["headers"] == [["Host", HOST], ["X-Odd", "two"], ["content-LENGTH", "3"]]
    assert base64.b64decode(seen["content_base64"]) == b"\x00\xff!"
    assert request.values("x-odd") == ["two"]


async def test_chunked_uploads_are_read_too() -> None:
    async with in_memory() as (client, origin):
        await client.stream.send_all(
            b"POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        )
        client._h11.send(h11.Request(method="POST", target="/upload", headers=[("Host", HOST)]))
        assert (await client.receive()).json() == {"received": 5}
        assert origin.requests[0].content == b"abcde"


async def test_requests_and_connections_are_counted() -> None:
    async with open_origin() as origin:
        for connection in (1, 2):
            async with await trio.open_tcp_stream("127.0.0.1", origin.port) as stream:
                client = Client(stream)
                for number in (1, 2, 3):
                    seen = (await client.ask("/echo")).json()
                    assert (seen["connection"], seen["number"]) == (connection, number)
                    client.start_next()
                assert origin.open_connections == 1
            await origin.wait_all_closed()
        assert (origin.accepted, origin.served["echo"], len(origin.requests)) == (2, 6, 6)


async def test_requests_and_state_can_be_asked_for_over_http() -> None:
    async with in_memory() as (client, _):
        await client.ask("/content?size=1", "POST", b"abc")
        client.start_next()
        assert (await client.ask("/state")).json() == {
            "accepted": 1,
            "open": 1,
            "served": {"content": 1, "state": 1},
        }
        client.start_next()
        seen = (await client.ask("/requests?clear=1")).json()
        assert [request["target"] for request in seen] == ["/content?size=1", "/state", "/requests?clear=1"]
        assert base64.b64decode(seen[0]["content_base64"]) == b"abc"
        client.start_next()
        assert (await client.ask("/state")).json()["served"] == {"state": 1}


@pytest.mark.parametrize("close", ["/content?connection=close", "/content?framing=eof"])
async def test_a_connection_is_closed_when_it_was_said(close: str) -> None:
    async with in_memory() as (client, _):
        answer = await client.ask(close)
        assert "close" in answer.values("connection")
        assert await client.stream.receive_some() == b""


async def test_the_log_keeps_the_newest() -> None:
    async with open_origin(log_limit=1) as origin:
        async with await trio.open_tcp_stream("127.0.0.1", origin.port) as stream:
            client = Client(stream)
            for number in range(3):
                await client.ask(f"/content?n={number}")
                client.start_next()
        assert [request.target for request in origin.requests] == ["/content?n=2"]


async def test_any_fields_and_any_location_bytes_can_be_had() -> None:
    async with in_memory() as (client, _):
        answer = await client.ask(
            "/redirect?to=/%C3%A9+%20x&to=//b&status=307&field=Set-Cookie:%20a=1&field=X-A:%20b"
        )
    assert answer.status == 307
    assert [value.encode("latin-1") for value in answer.values("location")] == [b"/\xc3\xa9+ x", b"//b"]
    assert (answer.values("set-cookie"), answer.values("x-a")) == (["a=1"], ["b"])


async def test_redirects_without_end_count_their_hops() -> None:
    async with in_memory() as (client, _):
        target = "/endless-redirects?padding=50"
        for hop in (1, 2, 3):
            answer = await client.ask(target)
            (target,) = answer.values("location")
            assert target == f"/endless-redirects?padding=50&hop={hop}"
            assert len(answer.values("x-pad")[0]) == 50
            client.start_next()


@pytest.mark.parametrize(
    "wire",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nBad Name: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ],
)
async def test_a_malformed_request_is_told_on(wire: bytes) -> None:
    async with in_memory() as (client, origin):
        await client.stream.send_all(wire)
        assert (await received_to_end(client.stream)).startswith(b"HTTP/1.1 400 ")
        (request,) = origin.requests
        assert request.error
        assert request.head == wire.removesuffix(b"xyz\r\n")


async def test_a_request_that_is_cut_short_is_told_on() -> None:
    async with on_sockets() as (client, origin):
        await client.stream.send_all(b"GET / HTTP/1.1\r\nHo")
        assert isinstance(client.stream, trio.SocketStream)
        await client.stream.send_eof()
        await received_to_end(client.stream)
        (request,) = origin.requests
        assert (request.head, request.method) == (b"GET / HTTP/1.1\r\nHo", "")
        assert request.error


# --- slowness, on a fake clock ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "seconds"),
    [
        ("/content?delay=3", 3),
        ("/drip-content?size=10&interval=0.5", 5),
        ("/drip-content?size=10&chunk=5&interval=0.5", 1),
        ("/drip-content?size=4&interval=1&framing=chunked", 4),
        ("/drip-interim?count=7&interval=2", 14),
        ("/drip-chunk-size?count=2&interval=1", 40),
        ("/endless-head?count=5&interval=3", 15),
        ("/endless-redirects?delay=4", 4),
        ("/slow-reader?interval=1", 1),
    ],
)
async def test_intervals_and_counts_are_exact(
    target: str, seconds: float, autojump_clock: trio.testing.MockClock
) -> None:
    async with in_memory() as (client, _):
        began = trio.current_time()
        await client.ask(target)
        assert trio.current_time() - began == pytest.approx(seconds)


async def test_a_dripped_head_comes_byte_by_byte(autojump_clock: trio.testing.MockClock) -> None:
    async with in_memory() as (client, _):
        began = trio.current_time()
        await client.send("/drip-head?interval=1")
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = await client.stream.receive_some()
            head += piece
            assert len(piece) == 1
            assert trio.current_time() - began == pytest.approx(len(head))


async def test_a_hold_never_answers(autojump_clock: trio.testing.MockClock) -> None:
    async with in_memory() as (client, origin):
        await client.send("/hold")
        assert not await _ends_within_a_day(client.stream.receive_some)
        assert origin.open_connections == 1


async def test_a_hold_ends_with_the_client() -> None:
    async with open_origin() as origin:
        async with await trio.open_tcp_stream("127.0.0.1", origin.port) as stream:
            await Client(stream).send("/hold")
        await origin.wait_all_closed()


async def test_a_slow_reader_takes_its_time(autojump_clock: trio.testing.MockClock) -> None:
    async with in_memory() as (client, _):
        began = trio.current_time()
        answer = await client.ask("/slow-reader?size=100&interval=1", "POST", bytes(1000))
        assert answer.json() == {"received": 1000}
        # Its head is read in one go with what came along, so no exact figure holds.
        assert trio.current_time() - began >= 1


@pytest.mark.parametrize(
    "target",
    [
        "/endless-head",
        "/endless-field",
        "/endless-content",
        "/endless-content?framing=chunked&chunk=1000",
        "/endless-content?framing=length",
        "/endless-chunks",
        "/endless-extensions",
        "/endless-trailers",
        "/endless-interim",
    ],
)
async def test_what_has_no_end_goes_on_and_stops_with_the_client(target: str) -> None:
    async with open_origin() as origin:
        async with await trio.open_tcp_stream("127.0.0.1", origin.port) as stream:
            await Client(stream).send(target)
            received = 0
            while received < 1 << 22:
                data = await stream.receive_some()
                assert data
                received += len(data)
        await origin.wait_all_closed()


# --- broken ends --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 1, 17, 1000, 60_000])
async def test_a_reset_comes_at_the_chosen_byte(after: int) -> None:
    async with on_sockets() as (client, _):
        await client.send(f"/reset?size=100000&after={after}")
        received = b""
        with pytest.raises(trio.BrokenResourceError):
            while True:
                data = await client.stream.receive_some()
                assert data, "an orderly end instead of a reset"
                received += data
    assert len(received) == after


@pytest.mark.parametrize(("then", "orderly"), [("cut", True), ("close", True), ("reset", False)])
async def test_a_cut_comes_at_the_chosen_byte(then: str, orderly: bool) -> None:
    async with on_sockets() as (client, _):
        await client.send(f"/cut?after=30&then={then}")
        if orderly:
            assert len(await received_to_end(client.stream)) == 30
        else:
            with pytest.raises(trio.BrokenResourceError):
                await received_to_end(client.stream)


async def test_a_half_close_still_reads() -> None:
    async with on_sockets() as (client, origin):
        await client.send("/half-close")
        assert (await received_to_end(client.stream)).endswith(b"good bye\n")
        for _ in range(100):
            await client.stream.send_all(bytes(10_000))
        assert origin.open_connections == 1


@pytest.mark.parametrize(("said", "sent"), [(10, 4), (4, 10), (0, 3), (10, 10)])
async def test_a_length_can_lie(said: int, sent: int) -> None:
    async with in_memory() as (client, _):
        await client.send(f"/wrong-length?said={said}&sent={sent}")
        head, _, content = (await received_to_end(client.stream)).partition(b"\r\n\r\n")
    assert f"Content-Length: {said}".encode() in head
    assert content == content_of(sent)


async def test_raw_bytes_are_sent_as_they_are(autojump_clock: trio.testing.MockClock) -> None:
    async with in_memory() as (client, _):
        await client.send("/raw?bytes=ICY%20200%0A&bytes=%00%FF&interval=2")
        began = trio.current_time()
        assert await received_to_end(client.stream) == b"ICY 200\n\x00\xff"
        assert trio.current_time() - began == pytest.approx(4)


async def test_an_unknown_end_is_refused() -> None:
    async with in_memory() as (client, _):
        await client.send("/raw?then=vanish")
        assert b"then=vanish is unknown" in await received_to_end_of_answer(client)


async def received_to_end_of_answer(client: Client) -> bytes:
    return (await client.receive()).content


@pytest.mark.parametrize("then", ["stall", "close", "reset"])
async def test_an_early_answer_comes_before_the_content(then: str) -> None:
    async with on_sockets(Listener(receive_buffer=4096)) as (client, origin):
        await client.stream.send_all(
            f"POST /early?then={then} HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n".encode()
        )
        answer = await client.stream.receive_some()
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert not origin.requests[0].complete


async def test_a_stalled_upload_blocks(autojump_clock: trio.testing.MockClock) -> None:
    """In lockstep nothing is buffered, so what is not read cannot be sent."""
    ours, theirs = trio.testing.lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Origin(log_limit=0).serve_stream, theirs)
        await ours.send_all(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
        assert (await ours.receive_some()).startswith(b"HTTP/1.1 413 ")
        assert await ours.receive_some() == b"too large\n"
        assert not await _ends_within_a_day(ours.send_all, b"too large")
        nursery.cancel_scope.cancel()


async def _ends_within_a_day(action: Callable[..., Awaitable[object]], *arguments: object) -> bool:
    with trio.move_on_after(86_400) as scope:
        await action(*arguments)
    return not scope.cancelled_caught


async def test_a_stalled_upload_ends_with_the_client() -> None:
    async with open_origin(Listener(receive_buffer=4096)) as origin:
        async with await trio.open_tcp_stream("127.0.0.1", origin.port) as stream:
            await stream.send_all(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\ntoo")
            await stream.receive_some()
        await origin.wait_all_closed()


# --- kept connections ---------------------------------------------------------------------------------------


async def test_a_planted_response_comes_with_the_first() -> None:
    async with in_memory() as (client, _):
        await client.send("/planted")
        received = await client.stream.receive_some()
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert received.endswith(b"planted")


async def test_a_late_408_follows_on_the_idle_connection(autojump_clock: trio.testing.MockClock) -> None:
    async with in_memory() as (client, _):
        assert (await client.ask("/late-408?after=3")).content == b"asked\n"
        began = trio.current_time()
        assert (await received_to_end(client.stream)).startswith(b"HTTP/1.1 408 ")
        assert trio.current_time() - began == pytest.approx(3)


async def test_a_second_request_is_dropped_unanswered() -> None:
    async with in_memory() as (client, origin):
        await client.ask("/drop-second")
        client.start_next()
        await client.send("/drop-second")
        assert await client.stream.receive_some() == b""
        assert [request.number for request in origin.requests] == [1, 2]


async def test_an_idle_connection_is_dropped() -> None:
    async with in_memory() as (client, _):
        await client.ask("/drop-idle")
        assert await client.stream.receive_some() == b""


# --- content codings ----------------------------------------------------------------------------------------


def _decode(coding: str, data: bytes) -> bytes:
    if coding == "br":
        import brotli  # type: ignore[import-untyped]  # it ships no types

        return bytes(brotli.decompress(data))
    if coding == "zstd":
        zstd = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
        return bytes(zstd.decompress(data))
    return zlib.decompress(data, 47)


@pytest.mark.parametrize(
    ("coding", "ratio"), [("gzip", 1000), ("deflate", 1000), ("br", 10_000), ("zstd", 10_000)]
)
async def test_a_bomb_is_small_on_the_wire(coding: str, ratio: int) -> None:
    size = 1 << 24
    async with in_memory() as (client, _):
        answer = await client.ask(f"/bomb?coding={coding}&size={size}")
    assert answer.values("content-encoding") == [coding]
    assert len(answer.content) < size / ratio
    assert _decode(coding, answer.content) == bytes(size)


async def test_layers_are_named_and_real() -> None:
    async with in_memory() as (client, _):
        answer = await client.ask("/bomb?size=1000&layers=3")
    assert answer.values("content-encoding") == ["gzip, gzip, gzip"]
    content = answer.content
    for _ in range(3):
        content = _decode("gzip", content)
    assert content == bytes(1000)
    assert compress("gzip", 1000, 3) == answer.content


async def test_gzip_members_and_names() -> None:
    async with in_memory() as (client, _):
        members = (await client.ask("/gzip-members?count=10&size=3")).content
        client.start_next()
        named = (await client.ask("/gzip-name?size=100000")).content
    assert members == compress("gzip", 3) * 10
    assert (len(named) > 100_000, _decode("gzip", named)) == (True, b"")


# --- TLS ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Secure:
    """An origin's context and one of a client that trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture(scope="module")
def secure() -> Secure:
    authority, server = issue_tls(HOST)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return Secure(server, client)


@asynccontextmanager
async def over_tls(secure: Secure, listener: Listener) -> AsyncIterator[tuple[trio.SSLStream[Any], Origin]]:
    async with open_origin(listener) as origin:
        transport = await trio.open_tcp_stream("127.0.0.1", origin.port)
        async with transport:
            yield trio.SSLStream(transport, secure.client, server_hostname=HOST), origin


async def test_tls_is_spoken_and_the_name_asked_for_is_noted(secure: Secure) -> None:
    async with over_tls(secure, Listener(tls=secure.server)) as (stream, _):
        seen = (await Client(stream).ask("/echo")).json()
    assert seen["tls"] == {"version": "TLSv1.3", "server_name": HOST, "resumed": False}


@pytest.mark.parametrize(("then", "told"), [("close", True), ("cut", False), ("reset", False)])
async def test_only_an_orderly_end_sends_close_notify(secure: Secure, then: str, told: bool) -> None:
    async with over_tls(secure, Listener(tls=secure.server)) as (stream, _):
        await Client(stream).send(f"/content?size=5&framing=eof&then={then}")
        if told:
            assert (await received_to_end(stream)).endswith(b"01234")
        else:
            with pytest.raises(trio.BrokenResourceError):
                await received_to_end(stream)


@pytest.mark.parametrize("fault", [None, HandshakeFault(), HandshakeFault(after=300)])
async def test_a_handshake_can_stall_in_the_first_flight(
    secure: Secure, fault: HandshakeFault | None, autojump_clock: trio.testing.MockClock
) -> None:
    listener = Listener(tls=secure.server, silent=fault is None, handshake=fault)
    async with in_memory(listener) as (client, origin):
        stream = trio.SSLStream(client.stream, secure.client, server_hostname=HOST)
        assert not await _ends_within_a_day(stream.do_handshake)
        assert origin.open_connections == 1


@pytest.mark.parametrize("listener", [Listener(silent=True), Listener(handshake=HandshakeFault())])
async def test_a_stalled_connection_ends_with_the_client(secure: Secure, listener: Listener) -> None:
    async with open_origin(replace(listener, tls=secure.server)) as origin:
        async with await trio.open_tcp_stream("127.0.0.1", origin.port) as stream:
            await stream.send_all(b"\x16")
        await origin.wait_all_closed()


@pytest.mark.parametrize("after", [1, 100, 700])
async def test_a_handshake_can_stall_at_any_byte_of_the_first_flight(secure: Secure, after: int) -> None:
    listener = Listener(tls=secure.server, handshake=HandshakeFault(after=after, then="cut"))
    async with open_origin(listener) as origin:
        received = await _server_flight(secure, origin.port)
    assert len(received) == after


async def _server_flight(secure: Secure, port: int) -> bytes:
    """All that the server sends in answer to a real ClientHello, while we say nothing more."""
    outgoing = ssl.MemoryBIO()
    handshake = secure.client.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=HOST)
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await _send_flight(stream, handshake, outgoing)
        return await received_to_end(stream)


async def test_a_handshake_can_stall_in_the_second_flight(autojump_clock: trio.testing.MockClock) -> None:
    """In TLS 1.2 the client waits for it, having answered the first."""
    authority, server = issue_tls(HOST)
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with in_memory(Listener(tls=server, handshake=HandshakeFault(flight=1))) as (client, _):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        handshake = context.wrap_bio(incoming, outgoing, server_hostname=HOST)
        await _send_flight(client.stream, handshake, outgoing)
        incoming.write(await client.stream.receive_some())
        await _send_flight(client.stream, handshake, outgoing)
        assert not await _ends_within_a_day(client.stream.receive_some)


async def _send_flight(
    stream: trio.abc.SendStream, handshake: ssl.SSLObject, outgoing: ssl.MemoryBIO
) -> None:
    with pytest.raises(ssl.SSLWantReadError):
        handshake.do_handshake()
    assert outgoing.pending
    await stream.send_all(outgoing.read())


async def test_a_handshake_can_drip(secure: Secure, autojump_clock: trio.testing.MockClock) -> None:
    listener = Listener(tls=secure.server, handshake=HandshakeFault(after=20, interval=1, then="cut"))
    async with in_memory(listener) as (client, _):
        stream = trio.SSLStream(client.stream, secure.client, server_hostname=HOST)
        began = trio.current_time()
        with pytest.raises(trio.BrokenResourceError):
            await stream.do_handshake()
        assert trio.current_time() - began == pytest.approx(20)


async def test_a_session_is_resumed_when_the_client_wants_to(secure: Secure) -> None:
    async with open_origin(Listener(tls=secure.server)) as origin:
        session = None
        for resumed in (False, True):
            async with await trio.open_tcp_stream("127.0.0.1", origin.port) as transport:
                stream = trio.SSLStream(transport, secure.client, server_hostname=HOST)
                if session is not None:
                    stream.session = session
                seen = (await Client(stream).ask("/echo")).json()
                session = stream.session
            assert seen["tls"]["resumed"] is resumed


# --- addresses and the program ------------------------------------------------------------------------------


async def test_both_families_are_listened_on() -> None:
    async with open_origin(Listener(), Listener(host="::1")) as origin:
        for host, port in zip(("127.0.0.1", "::1"), origin.ports, strict=True):
            async with await trio.open_tcp_stream(host, port) as stream:
                assert (await Client(stream).ask("/content?size=1")).content == b"0"


async def test_an_address_in_use_is_an_error() -> None:
    async with open_origin() as origin:
        with pytest.raises(OSError, match="in use"):
            async with open_origin(Listener(), Listener(port=origin.port)):
                pass


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:0", ("::1", 0)), ("[fe80::1]:9", ("fe80::1", 9))],
)
def test_addresses_are_read(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "80", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:٨"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Exception, match="is not ADDRESS:PORT"):
        parse_address(text)


def test_the_program_serves_until_its_input_ends(tmp_path: Any) -> None:
    """A plain standard-library client reads from it over TCP and TLS."""
    trusted = tmp_path / "authority.pem"
    options = [
        "--bind",
        "127.0.0.1:0",
        "--tls-bind",
        "127.0.0.1:0",
        "--tls-name",
        "localhost",
        "--silent-bind",
        "[::1]:0",
    ]
    command = [sys.executable, "-m", "tidegate.testing.origin", *options, "--tls-authority", str(trusted)]
    with subprocess.Popen(
        [*command, "--exit-with-stdin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        ready = json.loads(program.stdout.readline())
        assert [len(ready[kind]) for kind in ("plain", "tls", "silent", "stall")] == [1, 1, 1, 0]
        plain = http.client.HTTPConnection("127.0.0.1", ready["plain"][0][1])
        context = ssl.create_default_context(cafile=trusted)
        tls = http.client.HTTPSConnection("localhost", ready["tls"][0][1], context=context)
        for client in (plain, tls):
            client.request("GET", "/content?size=20&framing=chunked")
            assert client.getresponse().read() == content_of(20)
            client.close()
        program.stdin.close()
        assert program.wait(timeout=10) == 0


async def test_an_end_is_reported_by_the_connection() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    connection = Connection(theirs, theirs, 1)
    seen = []
    for how in ("keep", "close"):
        await connection.end(how)
        seen.append(connection.open)
    assert seen == [True, False]
    assert await ours.receive_some() == b""
