"""Known bad subjects: what we pass is failed here by somebody, so that our passing means something.

Not a contest: these libraries do well what most programs ask of them. A scenario that its control does *not*
fail is broken, or the control has been mended; then find another one. Libraries that are not installed are
skipped (they come with the dependency group `controls`).
"""

import asyncio
import gc
import socket
import ssl
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any
from urllib.parse import quote_from_bytes, urlsplit

import pytest
import trio

import tidegate
from tests.support.cancelling import cancel_at_every_step
from tests.support.data import suite_json
from tidegate.testing.origin import Listener, Origin, compress, content_of, open_origin

MIB = 1 << 20


@asynccontextmanager
async def open_ours(**options: Any) -> AsyncIterator[tidegate.Engine]:
    """An engine whose operator admits this very loopback address, so that it meets what the controls meet."""
    names = ["127.0.0.1", "a.example", "b.example"]
    policy = tidegate.Policy(private_ranges=[tidegate.PrivateRange("127.0.0.1/32", names)])
    resolver = tidegate.StaticResolver({name: ["127.0.0.1"] for name in names[1:]})
    async with tidegate.open_engine(policy, resolver=resolver, **options) as engine:
        yield engine


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    """The hostile origin; its paths are the scenarios."""
    async with open_origin() as origin:
        yield origin


def url_of(origin: Origin, path: str, *, scheme: str = "http", host: str = "127.0.0.1") -> str:
    return f"{scheme}://{host}:{origin.port}/{path}"


def raw(message: bytes) -> str:
    """The path that answers with these very bytes and closes."""
    return f"raw?bytes={quote_from_bytes(message)}"


# What the controls make of a GET ...


def by_httpx(url: str) -> bytes:
    httpx = pytest.importorskip("httpx")
    content: bytes = httpx.get(url, trust_env=False).content
    return content


def by_urllib3(url: str) -> bytes:
    urllib3 = pytest.importorskip("urllib3")
    with urllib3.PoolManager(retries=False) as pool:
        content: bytes = pool.request("GET", url).data
    return content


def by_aiohttp(url: str) -> bytes:
    aiohttp = pytest.importorskip("aiohttp")

    async def get() -> bytes:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            content: bytes = await response.read()
            return content

    return asyncio.run(get())


CLIENTS = {"httpx": by_httpx, "urllib3": by_urllib3, "aiohttp": by_aiohttp}


# Content codings (pitfalls 15, 17) ...


def gzip_answer(content: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(content)
    return head + content


@pytest.mark.parametrize("client", CLIENTS)
async def test_cut_gzip(client: str, origin: Origin) -> None:
    """The framing is whole and the coding is not: they give the part as if it were all."""
    content = content_of(100_000)
    coded = zlib.compress(content, wbits=31)
    url = url_of(origin, raw(gzip_answer(coded[: len(coded) // 2])))
    theirs = await trio.to_thread.run_sync(CLIENTS[client], url)
    assert 0 < len(theirs) < len(content)
    async with open_ours() as engine:
        response = await engine.fetch(url)
    assert 0 < len(response.content) < len(content)
    assert not response.complete


async def test_gzip_members(origin: Origin) -> None:
    """RFC 1952 2.2: a file is a series of members; httpx stops after the first without a word."""
    url = url_of(origin, "gzip-members?count=3&size=100")
    assert len(await trio.to_thread.run_sync(by_httpx, url)) == 100
    async with open_ours() as engine:
        response = await engine.fetch(url)
    assert response.content == bytes(300)
    assert response.complete


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Gives a list that holds the peak of what Python allocated in the block, once it is over."""
    peak: list[int] = []
    tracemalloc.start()
    try:
        yield peak
        peak.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("coding", ["gzip", "br"])
async def test_bounded_decoding(coding: str, origin: Origin) -> None:
    """Read from httpx in pieces of a kilobyte, a bomb is all in memory before the first of them."""
    httpx = pytest.importorskip("httpx")
    if coding == "br":
        pytest.importorskip("brotli")
    compress(coding, 16 * MIB)  # the origin's share is made, and kept, outside the measured blocks
    url = url_of(origin, f"bomb?coding={coding}&size={16 * MIB}")
    with peak_memory() as theirs:
        async with httpx.AsyncClient(trust_env=False) as client, client.stream("GET", url) as answer:
            async for _ in answer.aiter_bytes(1024):
                pass
    async with open_ours() as engine:
        with peak_memory() as ours:
            response = await engine.fetch(url, limits=tidegate.Limits(max_content=MIB))
    assert theirs[0] > 16 * MIB
    assert ours[0] < 4 * MIB
    assert response.truncated
    assert response.content == bytes(MIB)


# Messages and connections (pitfalls 1, 4, 14; notes 4) ...


async def test_poisoning(origin: Origin) -> None:
    """A planted answer: httpcore gives it to the next request on the connection."""
    httpcore = pytest.importorskip("httpcore")
    asked, planted = url_of(origin, "planted"), url_of(origin, "content?size=5")
    async with httpcore.AsyncConnectionPool() as pool:
        assert (await pool.request("GET", asked)).content == b"asked"
        assert (await pool.request("GET", planted)).content == b"planted"
    async with open_ours() as engine:
        assert (await engine.fetch(asked)).content == b"asked"
        assert (await engine.fetch(planted)).content == content_of(5)


async def test_interim_responses(origin: Origin) -> None:
    """RFC 9110 15.2: urllib3 gives 103 as the answer, and the answer to whoever uses the connection next."""
    urllib3 = pytest.importorskip("urllib3")
    url = url_of(origin, "drip-interim?count=1&interval=0")

    def get() -> int:
        with urllib3.PoolManager(retries=False) as pool:
            status: int = pool.request("GET", url).status
        return status

    assert await trio.to_thread.run_sync(get) == 103
    async with open_ours() as engine:
        response = await engine.fetch(url)
    assert response.status == 200
    assert response.content == b"final\n"


async def test_total_deadline(origin: Origin, autojump_clock: Any) -> None:
    """A limit per read never strikes while the peer drips (D-16)."""
    httpcore = pytest.importorskip("httpcore")
    url = url_of(origin, "drip-head?interval=0.3")
    limits = {"connect": 0.5, "read": 0.5, "write": 0.5, "pool": 0.5}
    async with httpcore.AsyncConnectionPool() as pool:
        with trio.move_on_after(10) as scope:
            await pool.request("GET", url, extensions={"timeout": limits})
        assert scope.cancelled_caught
    async with open_ours() as engine:
        started = trio.current_time()
        with pytest.raises(tidegate.DeadlineExceeded):
            await engine.fetch(url, limits=tidegate.Limits(timeout=0.5))
        assert trio.current_time() - started == pytest.approx(0.5)


# It leaves its own generators behind.
@pytest.mark.filterwarnings("ignore:Async generator 'httpcore:ResourceWarning")
async def test_early_answer(autojump_clock: Any) -> None:
    """A peer that answers 413 and reads no more: httpcore sees its answer never, we at once."""
    httpcore = pytest.importorskip("httpcore")
    content = bytes(8 * MIB)
    async with open_origin(Listener(receive_buffer=4096)) as origin:
        url = url_of(origin, "early?then=stall")
        async with httpcore.AsyncConnectionPool() as pool:
            with pytest.raises(httpcore.WriteTimeout):
                await pool.request("POST", url, content=content, extensions={"timeout": {"write": 3}})
        async with open_ours() as engine:
            started = trio.current_time()
            limits = tidegate.Limits(max_request_content=len(content))
            response = await engine.fetch(url, method="POST", content=content, limits=limits)
            assert trio.current_time() == started
        assert response.status == 413
        assert response.content == b"too large\n"


# Names (pitfalls 5, 7; requirement: one URL parser) ...


def talk(
    port: int, context: ssl.SSLContext, name: str, session: ssl.SSLSession | None = None
) -> ssl.SSLSession | None:
    """One exchange over TLS by the standard library alone; gives its session, None if it was resumed."""
    with (
        socket.create_connection(("127.0.0.1", port)) as sock,
        context.wrap_socket(sock, server_hostname=name, session=session) as tls,
    ):
        tls.sendall(b"GET /content HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
        while tls.recv(65536):  # TLS 1.3 sends its tickets before the answer
            pass
        return None if tls.session_reused else tls.session


async def test_session_across_names(client_tls: ssl.SSLContext, server_tls: Any) -> None:
    """A session of one name, resumed with another: `ssl` makes no check at all."""
    async with open_origin(Listener(tls=server_tls("a.example"))) as origin:
        session = await trio.to_thread.run_sync(talk, origin.port, client_tls, "a.example")
        assert session is not None
        assert await trio.to_thread.run_sync(talk, origin.port, client_tls, "b.example", session) is None
        with pytest.raises(ssl.SSLCertVerificationError):
            await trio.to_thread.run_sync(talk, origin.port, client_tls, "b.example")
        async with open_ours(tls=client_tls) as engine:
            for _ in range(2):
                path = "echo?connection=close"
                response = await engine.fetch(url_of(origin, path, scheme="https", host="a.example"))
            assert b'"resumed": true' in response.content
            with pytest.raises(tidegate.TLSError):
                await engine.fetch(url_of(origin, "content", scheme="https", host="b.example"))


@pytest.mark.parametrize(
    "host", ["127.1", "0x7f.1", "2130706433", "017700000001", "0", "\u2460\u2461\u2466.1", "127\u30021"]
)
async def test_numeric_hosts(host: str, origin: Origin) -> None:
    """`trio.open_tcp_stream` connects to this machine by each of them; an operator's rule changes nothing."""
    async with await trio.open_tcp_stream(host, origin.port) as stream:
        assert stream.socket.getpeername() == ("127.0.0.1", origin.port)
    async with open_ours() as engine:
        with pytest.raises(tidegate.HostDenied) as caught:
            await engine.fetch(f"http://{host}:{origin.port}/content")
    assert caught.value.reason == "non_canonical_ip"


def test_one_url_parser() -> None:
    """What the WHATWG parser refuses has a host for `urlsplit` and httpx, whichever that may be."""
    httpx = pytest.importorskip("httpx")
    rows = [row for row in suite_json("wpt-url/urltestdata.json") if isinstance(row, dict)]
    refused = [row["input"] for row in rows if row.get("failure") and row["input"][:4].lower() == "http"]

    def accepted(host: Callable[[str], object], *errors: type[Exception]) -> int:
        count = 0
        for text in refused:
            try:
                count += bool(host(text))
            except errors:
                continue
        return count

    assert accepted(lambda text: urlsplit(text).hostname, ValueError) > 100
    assert accepted(lambda text: httpx.URL(text).host, httpx.InvalidURL, ValueError) > 50
    assert accepted(tidegate.parse_url, tidegate.InvalidURL, tidegate.Denied) == 0


# Cancellation (pitfalls 2, 3) ...


async def left_open(origin: Origin, get: Callable[[], Awaitable[None]]) -> int:
    """Cancel `get` at every step of a fetch of its own: how many connections does nobody close?"""
    gc.disable()
    try:
        await cancel_at_every_step(get, partial(trio.sleep, 1))
        return origin.open_connections
    finally:
        gc.enable()
        gc.collect()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # that is what this is about
async def test_cancelled_handshake(autojump_clock: Any, client_tls: ssl.SSLContext, server_tls: Any) -> None:
    """The socket of a cancelled TLS handshake: httpcore leaves it to the garbage collector."""
    httpcore = pytest.importorskip("httpcore")
    async with open_origin(Listener(tls=server_tls("a.example", "127.0.0.1"))) as origin:
        url = url_of(origin, "content?connection=close", scheme="https")

        async def theirs() -> None:
            pool = httpcore.AsyncConnectionPool(ssl_context=client_tls)
            try:
                await pool.request("GET", url)
            finally:
                with trio.CancelScope(shield=True):
                    await pool.aclose()

        async def ours() -> None:
            await engine.fetch(url)

        assert await left_open(origin, theirs) > 0
        await origin.wait_all_closed()
        async with open_ours(tls=client_tls) as engine:
            assert await left_open(origin, ours) == 0


async def dead(get: Callable[[], Awaitable[object]], renew: Callable[[], object]) -> int:
    """Cancel three fetches that share one slot, at every step; after how many of them is the slot gone?"""
    found = 0

    async def three() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(get)

    async def look() -> None:
        nonlocal found
        with trio.move_on_after(1) as scope:
            await get()
        if scope.cancelled_caught:
            found += 1
            renew()

    await cancel_at_every_step(three, look, repeat=2)
    return found


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_slot_of_a_cancelled_fetch(origin: Origin, autojump_clock: Any) -> None:
    """A slot is given to a fetch that is being cancelled: in httpcore nobody ever gives it back."""
    httpcore = pytest.importorskip("httpcore")
    url = url_of(origin, "content?connection=close")
    pool = httpcore.AsyncConnectionPool(max_connections=1)

    def renew() -> None:
        nonlocal pool
        pool = httpcore.AsyncConnectionPool(max_connections=1)

    assert await dead(lambda: pool.request("GET", url), renew) > 0
    await pool.aclose()
    async with open_ours(max_concurrency=1) as engine:
        assert await dead(lambda: engine.fetch(url), lambda: None) == 0
