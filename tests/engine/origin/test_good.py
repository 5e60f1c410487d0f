"""Good behaviour, and what the origin has seen: who blames a client must be able to trust the server."""

import base64

import h11
import pytest
import trio
import trio.testing

from tests.engine.origin.client import HOST, Client, in_memory, on_sockets, received_to_end
from tidegate.testing.origin import BEHAVIOURS, content_of, open_origin


async def test_every_behaviour_is_listed_with_what_it_does() -> None:
    async with in_memory() as (client, _):
        listed = (await client.ask("/")).json()
    assert set(listed) == {"*", *(f"/{name}" for name in BEHAVIOURS)}
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
        ("/drip-head?bytes=5", 200, b"slow\n"),
        ("/content?count=2&chunk=5", 200, b"0123456789"),
        ("/drip-content?count=3", 200, b"012"),
        ("/endless-content?count=3&chunk=4", 200, content_of(12)),
        ("/endless-content?count=3&chunk=4&framing=chunked", 200, content_of(12)),
        ("/endless-content?count=3&chunk=4&framing=length", 200, content_of(12)),
        ("/endless-redirects?count=3&hop=2", 302, b""),
        ("/endless-redirects?count=3&hop=3", 200, b"the end\n"),
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


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("/content?delay=x", "delay=x is not a number of seconds"),
        ("/content?delay=-1", "delay=-1 is not a number of seconds"),
        ("/drip-content?interval=nan", "interval=nan is not a number of seconds"),
        ("/content?status=x", "status=x is not a whole number"),
        ("/content?size=-1", "size=-1 is not a whole number"),
        ("/content?size=" + "9" * 20, "size=" + "9" * 20 + " is not a whole number"),
        ("/content?size=" + "9" * 5000, "size=" + "9" * 5000 + " is not a whole number"),
        ("/gzip-members?count=endless", "count=endless is not a whole number"),
        ("/content?size=many", "size=many is not a whole number"),
    ],
)
async def test_a_parameter_that_makes_no_sense_is_refused(target: str, why: str) -> None:
    """And harms no other client: what one asks for cannot end the origin."""
    async with in_memory() as (client, _):
        answer = await client.ask(target)
        assert (answer.status, answer.content.decode()) == (400, why)
        client.start_next()
        assert (await client.ask("/content?size=3")).content == b"012"


EXPECTING = b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"


async def test_a_client_that_expects_100_gets_one() -> None:
    """RFC 9110, 10.1.1."""
    async with in_memory() as (client, origin):
        await client.stream.send_all(EXPECTING % b"/upload")
        with trio.fail_after(5):
            first = await client.stream.receive_some()
        assert first == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.stream.send_all(b"abc")
        assert (await client.stream.receive_some()).endswith(b'{"received": 3}\n')
        assert origin.requests[0].complete


@pytest.mark.parametrize(("target", "content"), [(b"/upload", b"abc"), (b"/early", b"")])
async def test_no_100_comes_with_the_content_or_behind_the_answer(target: bytes, content: bytes) -> None:
    async with in_memory() as (client, _):
        await client.stream.send_all(EXPECTING % target + content)
        assert not (await client.stream.receive_some()).startswith(b"HTTP/1.1 100")
