"""What a fetch does when all goes well, and what its arguments mean."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.testing

import tidegate
from tests.support.engines import AnyHost, answers, engine_with
from tidegate.telemetry import Counters
from tidegate.testing.memory import Peer
from tidegate.testing.observer import RecordingObserver

URL = "http://a.example/"


async def echo(peer: Peer) -> None:
    """Answer with the request line, the fields and the content, a line each."""
    while (request := await peer.receive_request()) is not None:
        lines = [request.line, *(f"{name}: {value}" for name, value in request.fields)]
        await peer.respond("\n".join(lines).encode() + b"\n" + request.content)


async def test_a_stream_can_be_failed_by_whoever_reads_it(nursery: trio.Nursery) -> None:
    """Observers hear of an error that the caller finds in the response, and once."""
    observer = RecordingObserver()
    async with engine_with(
        nursery, answers({"/": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"}), observer=observer
    ) as (
        engine,
        connector,
    ):
        with pytest.raises(tidegate.BadRedirect) as caught:
            async with engine.stream("http://a.example/") as response:
                raise response.fail(tidegate.BadRedirect("not there"))
        assert response.fail(caught.value) is caught.value
    failed = [event for event in observer.events if isinstance(event, tidegate.FetchFailed)]
    assert [event.error for event in failed] == [caught.value]
    assert (caught.value.phase, caught.value.url, caught.value.hop) == ("content", "http://a.example/", 0)
    await trio.testing.wait_all_tasks_blocked()
    assert connector.open_connections == 0


async def test_request_as_sent(nursery: trio.Nursery) -> None:
    """W-121, D-25: origin-form, Host with its port, our defaults, the caller's fields."""
    async with engine_with(nursery, echo) as (engine, _):
        response = await engine.fetch("http://A.example:8080/x%41/../y?q=ä#f", headers={"X-Mine": "1"})
    line, *fields = response.content.decode().rstrip("\n").split("\n")
    assert line == "GET /y?q=%C3%A4 HTTP/1.1"
    assert [
        "Host: a.example:8080",
        f"User-Agent: tidegate/{tidegate.__version__}",
        "Accept: */*",
        "Accept-Encoding: gzip, deflate, br, zstd",
        "X-Mine: 1",
    ] == fields
    assert str(response.url) == "http://a.example:8080/y?q=%C3%A4"


async def test_defaults_can_be_replaced(nursery: trio.Nursery) -> None:
    """D-25: User-Agent and Accept; D-3: a caller's Accept-Encoding."""
    mine = {"user-agent": "mine", "ACCEPT": "text/html", "Accept-Encoding": "br"}
    async with engine_with(nursery, echo) as (engine, _):
        response = await engine.fetch(URL, headers=mine)
    fields = response.content.decode().split("\n")[2:-1]
    assert [f"{name}: {value}" for name, value in mine.items()] == fields


async def test_content_is_framed_by_us(nursery: trio.Nursery) -> None:
    """F-55: the right Content-Length; one also for a POST without content (RFC 9110 8.6)."""
    async with engine_with(nursery, echo) as (engine, _):
        for method, content, length in [
            ("POST", b"abc", "3"),
            ("POST", b"", "0"),
            ("GET", b"", None),
            ("DELETE", b"x", "1"),
            ("GET", bytearray(b"ab"), "2"),
        ]:
            response = await engine.fetch(URL, method=method, content=content)
            sent = response.content.decode().split("\n")
            assert (f"Content-Length: {length}" in sent) is (length is not None)
            assert response.content.endswith(b"\n" + bytes(content))


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        await trio.lowlevel.checkpoint()
        yield part


async def test_iterable_content_is_sent_in_chunks(nursery: trio.Nursery) -> None:
    received: list[bytes] = []

    async def script(peer: Peer) -> None:
        received.append(await peer.receive_head() or b"")
        data = b""
        while not data.endswith(b"0\r\n\r\n"):
            data += await peer.receive_some()
        received.append(data)
        await peer.respond(b"ok")

    async with engine_with(nursery, script) as (engine, _):
        response = await engine.fetch(URL, method="POST", content=pieces(b"one", b"", b"twotwo"))
    assert response.content == b"ok"
    assert b"Transfer-Encoding: chunked\r\n" in received[0]
    assert b"Content-Length" not in received[0]
    assert received[1] == b"3\r\none\r\n6\r\ntwotwo\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("content", "error", "reason"),
    [
        (b"12345", tidegate.InvalidArgument, "request_too_large"),
        (pieces(b"123", b"45"), tidegate.InvalidArgument, "request_too_large"),
        (pieces(b"1", "text"), tidegate.InvalidArgument, "invalid_argument"),  # type: ignore[arg-type]
        ("text", tidegate.InvalidArgument, "invalid_argument"),
        (None, tidegate.InvalidArgument, "invalid_argument"),
    ],
    ids=["bytes", "pieces", "piece of text", "text", "none"],
)
async def test_content_that_is_refused(nursery: trio.Nursery, content: Any, error: Any, reason: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.until_closed()

    async with engine_with(nursery, script) as (engine, _):
        with pytest.raises(error) as caught:
            limits = tidegate.Limits(max_request_content=4)
            await engine.fetch(URL, method="POST", content=content, limits=limits)
        assert reason == caught.value.reason


async def test_an_error_of_the_callers_iterable_is_the_callers(nursery: trio.Nursery) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"one"
        raise KeyError("mine")

    async with engine_with(nursery, Peer.until_closed) as (engine, connector):  # type: ignore[arg-type]
        with pytest.raises(KeyError, match="mine"):
            await engine.fetch(URL, method="POST", content=broken())
        await trio.testing.wait_all_tasks_blocked()
        assert connector.open_connections == 0


@pytest.mark.parametrize(
    ("size", "cap", "truncated"),
    [(9, 10, False), (10, 10, False), (11, 10, True), (0, 0, False), (1, 0, True)],
)
@pytest.mark.parametrize("framing", ["length", "chunked", "to the end"])
async def test_cap(nursery: trio.Nursery, size: int, cap: int, truncated: bool, framing: str) -> None:
    """F-24, F-80, AMB-62, W-94: exactly the cap is whole, one byte more is cut, and neither is an error."""
    content = b"x" * size

    async def script(peer: Peer) -> None:
        await peer.receive_request()
        if framing == "length":
            await peer.respond(content)
        elif framing == "chunked":
            chunk = b"%x\r\n%b\r\n" % (size, content) if size else b""
            await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n")
        else:
            await peer.send(b"HTTP/1.1 200 OK\r\n\r\n" + content)

    limits = tidegate.Limits(max_content=cap)
    async with engine_with(nursery, script) as (engine, _):
        response = await engine.fetch(URL, limits=limits)
        assert (content[:cap], truncated, not truncated) == (
            response.content,
            response.truncated,
            response.complete,
        )
        async with engine.stream(URL, limits=limits) as stream:
            streamed = b"".join([piece async for piece in stream])
        assert (content[:cap], truncated, not truncated) == (streamed, stream.truncated, stream.complete)


async def test_hops_and_timings(nursery: trio.Nursery, autojump_clock: Any) -> None:
    async def script(peer: Peer) -> None:
        while (request := await peer.receive_request()) is not None:
            await trio.sleep(2)
            if request.line.split()[1] == "/":
                await peer.respond(status="302 Found", fields=[("Location", "http://b.example/end")])
                continue
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
            await trio.sleep(3)
            await peer.send(b"k")

    class Slow(AnyHost):
        async def resolve(self, host: str) -> Any:
            await trio.sleep(1)
            return await super().resolve(host)

    async with engine_with(nursery, script, resolver=Slow()) as (engine, _):
        response = await engine.fetch(URL, limits=tidegate.Limits(max_redirects=1))
    first, second = response.hops
    assert [str(hop.url) for hop in response.hops] == ["http://a.example/", "http://b.example/end"]
    assert [hop.status for hop in response.hops] == [302, 200]
    assert (first.timings.resolve, first.timings.head, first.timings.content) == (1, 2, None)
    assert (second.timings.resolve, second.timings.head, second.timings.content) == (1, 2, 3)
    assert (response.timings.resolve, response.timings.head, response.timings.content) == (2, 4, 3)
    assert 9 == response.duration == response.timings.total
    assert (first.peer, first.reused, first.tls_version) == ("93.184.216.34", False, None)


async def test_response_fields(nursery: trio.Nursery) -> None:
    """AMB-12, F-76: repeated fields are joined, Set-Cookie line by line, names compared without case."""
    raw = (
        b"HTTP/1.0 404 Nicht da\r\nX-A: 1\r\nset-cookie: a=1, b\r\nx-a: 2\r\nSet-Cookie: c=2\r\n"
        b"X-U: \xc3\xa4\r\nX-L: \xe4\r\nContent-Length: 2\r\n\r\nno"
    )
    async with engine_with(nursery, answers({"/": raw})) as (engine, _):
        response = await engine.fetch(URL)
    assert (response.status, response.reason_phrase, response.http_version) == (404, "Nicht da", "1.0")
    assert tuple(response.headers[name] for name in ("X-a", "set-cookie", "x-u", "X-L")) == (
        "1, 2",
        "a=1, b\nc=2",
        "ä",
        "ä",
    )
    assert response.headers.get_all("x-A") == ("1", "2")
    assert "a=1" not in repr(response)
    assert "no" not in repr(response).split("'")


async def test_no_cookies_are_kept(nursery: trio.Nursery) -> None:
    """F-27: nothing of one response reaches a later request, redirects included."""
    seen: list[Any] = []

    async def script(peer: Peer) -> None:
        while (request := await peer.receive_request()) is not None:
            seen.append(request.field("cookie"))
            status = "302 Found" if len(seen) == 1 else "200 OK"
            await peer.respond(status=status, fields=[("Set-Cookie", "a=1"), ("Location", "/next")])

    async with engine_with(nursery, script) as (engine, _):
        for _ in range(2):
            await engine.fetch(URL, limits=tidegate.Limits(max_redirects=1))
    assert seen == [None, None, None]


async def test_stream_left_early_closes_the_connection(nursery: trio.Nursery) -> None:
    async def script(peer: Peer) -> None:
        await peer.receive_request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nX-A: b\r\n\r\nstart")
        await peer.until_closed()

    async with engine_with(nursery, script) as (engine, connector):
        async with engine.stream(URL) as response:
            assert (
                response.status,
                response.reason_phrase,
                response.http_version,
                response.headers["x-a"],
            ) == (200, "OK", "1.1", "b")
            assert (response.announced, str(response.url)) == (1000, URL)
            async for piece in response:
                assert piece == b"start"
                break
        await trio.testing.wait_all_tasks_blocked()
        assert connector.open_connections == 0
        assert [hop.status for hop in response.hops] == [200]
        assert not response.complete
        assert [piece async for piece in response] == []


async def test_stream_trailers(nursery: trio.Nursery) -> None:
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n"
    async with engine_with(nursery, answers({"/": raw})) as (engine, _):
        async with engine.stream(URL) as response:
            assert len(response.trailers) == 0
            assert [piece async for piece in response] == [b"ok"]
        assert response.trailers["x-sum"] == "1"
        assert response.codings == ()


async def test_trailers_cannot_frame(nursery: trio.Nursery) -> None:
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 9\r\nA: b\r\n\r\n"
    async with engine_with(nursery, answers({"/": raw})) as (engine, _):
        response = await engine.fetch(URL)
    assert dict(response.trailers) == {"a": "b"}


async def test_peer_tls_and_reuse_are_told(nursery: trio.Nursery, server_tls: Any, client_tls: Any) -> None:
    tls = server_tls("a.example")
    async with engine_with(nursery, echo, server_tls=tls, tls=client_tls) as (engine, _):
        hops = [(await engine.fetch("https://a.example/")).hops[0] for _ in range(2)]
    assert [hop.tls_version for hop in hops] == ["TLSv1.3", "TLSv1.3"]
    assert [hop.reused for hop in hops] == [False, True]
    assert hops[0].timings.tls is not None
    assert hops[1].timings.tls is None is hops[1].timings.connect


@pytest.mark.parametrize(
    "answer", [["93.184.216.34"], [5], [None], ["nonsense"], 7, None], ids=lambda answer: repr(answer)
)
async def test_a_resolver_that_answers_nonsense(answer: Any, nursery: trio.Nursery) -> None:
    """Another's code is never a way to anything but one of our errors, nor its text to a connection."""

    class Nonsense:
        async def resolve(self, host: str) -> Any:
            return answer

    async with engine_with(nursery, echo, resolver=Nonsense()) as (engine, connector):
        with pytest.raises(tidegate.ResolutionError, match=r"a\.example could not be resolved"):
            await engine.fetch(URL)
        assert connector.connected == []


@pytest.mark.parametrize(
    ("argument", "value"), [("key", []), ("key", {}), ("limits", None), ("limits", {"timeout": 1})]
)
async def test_arguments_of_the_wrong_kind(argument: str, value: Any, nursery: trio.Nursery) -> None:
    async with engine_with(nursery, echo) as (engine, _):
        for start in (engine.fetch, engine.stream):
            with pytest.raises(tidegate.InvalidArgument, match=argument):
                result = start(URL, **{argument: value})
                await result  # type: ignore[misc]


@pytest.mark.parametrize(
    "error", [RuntimeError("secret"), ValueError(), OSError("boom"), ExceptionGroup("", [OSError()])]
)
async def test_a_connector_that_breaks(error: Exception, nursery: trio.Nursery) -> None:
    """A seam is other people's code, so what it raises is not what leaves a fetch, nor is its text."""

    class Broken:
        async def connect(self, targets: Any) -> Any:
            raise error

    async with engine_with(nursery, echo, connector=Broken()) as (engine, _):
        with pytest.raises(tidegate.ConnectError, match=type(error).__name__) as caught:
            await engine.fetch(URL)
    assert "secret" not in str(caught.value)


async def test_fields_of_a_coding_that_was_not_undone_stay(nursery: trio.Nursery) -> None:
    """D-3: a response to HEAD describes content that is not there, so nothing was decoded."""
    raw = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 99\r\n\r\n"
    async with engine_with(nursery, answers({"/": raw})) as (engine, _):
        response = await engine.fetch(URL, method="HEAD")
    assert (
        response.headers["content-encoding"],
        response.headers["content-length"],
        response.codings,
        response.complete,
    ) == ("gzip", "99", (), True)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("policy", {}, "policy must be a tidegate.Policy, not a dict"),
        ("policy", {"hosts": ["a.example"]}, "policy must be"),
        ("policy", [], "policy must be"),
        ("resolver", {}, "resolver must have a method resolve, and a dict has none"),
        ("connector", object(), "connector must have a method connect"),
        ("observer", Counters(), "observer must have a method on_event, and a Counters has none"),
        ("credentials", "Bearer x", "credentials must have a method fields_for"),
    ],
)
async def test_an_option_that_is_something_else_is_refused(option: str, value: object, told: str) -> None:
    """An empty dict is no policy that lets everything pass, and an audit log is not its own observer."""
    with pytest.raises(TypeError, match=told):
        async with tidegate.open_engine(**{option: value}):  # type: ignore[arg-type]
            pass
