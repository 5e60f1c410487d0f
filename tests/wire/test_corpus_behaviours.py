"""The rows of the wire corpus that are told in words: one test each, named after the row's id."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import tidegate
from tests.support.descriptors import open_files, opened_since
from tests.support.engines import AnyHost, engine_with
from tidegate.testing.memory import MemoryConnector, Peer

URL = "http://a.example/"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Contexts = Callable[..., Any]


async def refused(nursery: trio.Nursery, script: Any, reason: str, **options: Any) -> tidegate.FetchError:
    async with engine_with(nursery, script) as (engine, connector):
        with pytest.raises(tidegate.FetchError) as caught:
            await engine.fetch(URL, **options)
        assert caught.value.reason == reason
    await trio.testing.wait_all_tasks_blocked()
    assert connector.open_connections == 0
    return caught.value


def endless(first: bytes, again: bytes) -> Any:
    async def script(peer: Peer) -> None:
        await peer.receive_request()
        await peer.send(first)
        while True:
            await peer.send(again)

    return script


async def test_hdr_endless(nursery: trio.Nursery) -> None:
    script = endless(b"HTTP/1.1 200 OK\r\n", b"X-Pad: " + b"p" * 1000 + b"\r\n")
    error = await refused(nursery, script, "message_too_large")
    assert "max_head" in str(error)


async def test_chunk_ext_flood(nursery: trio.Nursery) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    error = await refused(nursery, endless(head, b"1;" + b"x" * 4096 + b"\r\na\r\n"), "message_too_large")
    assert "max_chunk_overhead" in str(error)


async def test_1xx_flood(nursery: trio.Nursery) -> None:
    error = await refused(nursery, endless(b"", b"HTTP/1.1 102 Processing\r\n\r\n"), "message_too_large")
    assert "max_interim" in str(error)


async def test_chunk_one_byte_drip(nursery: trio.Nursery, autojump_clock: Any) -> None:
    async def script(peer: Peer) -> None:
        while await peer.receive_request() is not None:
            for byte in b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\n0\r\n\r\n":
                await peer.send(bytes([byte]))
                await trio.sleep(0.001)

    async with engine_with(nursery, script) as (engine, connector):
        for _ in range(2):
            assert (await engine.fetch(URL)).content == b"Wiki"
        assert len(connector.connected) == 1


async def test_early_413_rst(nursery: trio.Nursery) -> None:
    async def script(peer: Peer) -> None:
        await peer.receive_head()
        await peer.send(
            b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 9\r\nConnection: close\r\n\r\ntoo large"
        )
        peer.cut()  # with content unread, which makes it a reset

    async with engine_with(nursery, script) as (engine, _):
        response = await engine.fetch(
            URL,
            method="POST",
            content=bytes(50 << 20),
            limits=tidegate.Limits(max_request_content=50 << 20),
        )
    assert (response.status, response.content) == (413, b"too large")


async def test_early_200_keeps_open(nursery: trio.Nursery, autojump_clock: Any) -> None:
    async def script(peer: Peer) -> None:
        await peer.receive_head()
        await peer.send(OK)
        while await peer.stream.receive_some(1000):
            await trio.sleep(10)

    async with engine_with(nursery, script) as (engine, connector):
        limits = tidegate.Limits(max_request_content=10 << 20)
        response = await engine.fetch(URL, method="POST", content=bytes(10 << 20), limits=limits)
        assert (response.status, response.content) == (200, b"ok")
        await engine.fetch(URL)
        assert len(connector.connected) == 2


async def test_idle_408(nursery: trio.Nursery, autojump_clock: Any) -> None:
    async def script(peer: Peer) -> None:
        await peer.receive_request()
        await peer.send(OK)
        await trio.sleep(0.2)
        await peer.send(b"HTTP/1.0 408 Request Time-out\r\nConnection: close\r\n\r\n")

    async with engine_with(nursery, script) as (engine, connector):
        for _ in range(2):
            assert (await engine.fetch(URL)).status == 200
            await trio.sleep(1)
        assert len(connector.connected) == 2


async def test_idle_read_timer_poison(nursery: trio.Nursery, autojump_clock: Any) -> None:
    async def script(peer: Peer) -> None:
        while await peer.receive_request() is not None:
            await peer.send(OK)

    async with engine_with(nursery, script) as (engine, connector):
        for _ in range(2):
            response = await engine.fetch(URL, limits=tidegate.Limits(timeout=1))
            assert response.content == b"ok"
            await trio.sleep(5)
        assert len(connector.connected) == 1


async def test_pool_key_sni(nursery: trio.Nursery, server_tls: Contexts, client_tls: Any) -> None:
    async def script(peer: Peer) -> None:
        while await peer.receive_request() is not None:
            await peer.send(OK)

    tls = server_tls("a.example", "b.example")
    async with engine_with(nursery, script, server_tls=tls, tls=client_tls) as (engine, connector):
        for host in ("a.example", "b.example", "a.example"):
            await engine.fetch(f"https://{host}/")
        assert [target.host for target in connector.connected] == ["a.example", "b.example"]


async def test_tls_handshake_cancel_leak(nursery: trio.Nursery, autojump_clock: Any, client_tls: Any) -> None:
    async def silent(peer: Peer) -> None:
        raise AssertionError("the handshake never ends")

    class Silent(MemoryConnector):
        async def _play_over(self, target: Any, transport: trio.SocketStream) -> None:
            await trio.sleep_forever()

    async with engine_with(nursery, silent, connector=Silent(nursery, silent), tls=client_tls) as (engine, _):
        before = open_files()
        with pytest.raises(tidegate.DeadlineExceeded) as caught:
            await engine.fetch("https://a.example/", limits=tidegate.Limits(timeout=0.1))
        assert tidegate.Phase.TLS is caught.value.phase
        nursery.cancel_scope.cancel()  # the peer goes, and with it its end of the pair
    assert len(opened_since(before)) <= 1


async def test_stream_cancel_cleanup(nursery: trio.Nursery, autojump_clock: Any) -> None:
    chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with engine_with(nursery, endless(chunk, b"4\r\nWiki\r\n")) as (engine, connector):
        with trio.move_on_after(1) as scope:
            async with engine.stream(URL) as response:
                async for _ in response:
                    await trio.sleep(2)
        assert scope.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert connector.open_connections == 0


@pytest.mark.parametrize(
    ("head", "notify", "complete"),
    [
        (b"Content-Length: 4\r\n", False, True),
        (b"", False, False),
        (b"", True, True),
    ],
    ids=["length", "no length, cut", "no length, close_notify"],
)
async def test_tls_ends(
    nursery: trio.Nursery, server_tls: Contexts, client_tls: Any, head: bytes, notify: bool, complete: bool
) -> None:
    """tls-ragged-eof-cl, tls-ragged-eof-nolength, tls-close-notify-nolength (D-5)."""

    async def script(peer: Peer) -> None:
        await peer.receive_request()
        await peer.send(b"HTTP/1.1 200 OK\r\n" + head + b"\r\nbody")
        if notify:
            with trio.move_on_after(0.1):
                await peer.stream.aclose()
        peer.cut()

    tls = server_tls("a.example")
    async with engine_with(nursery, script, server_tls=tls, tls=client_tls) as (engine, connector):
        response = await engine.fetch("https://a.example/")
        assert (b"body", complete) == (response.content, response.complete)
        await engine.fetch("https://a.example/")
        assert len(connector.connected) == 2


test_tls_ragged_eof_cl = test_tls_ragged_eof_nolength = test_tls_close_notify_nolength = None


async def test_tls_trailing_dot(nursery: trio.Nursery, server_tls: Contexts, client_tls: Any) -> None:
    heads: list[bytes | None] = []

    async def script(peer: Peer) -> None:
        heads.append(await peer.receive_head())
        await peer.send(OK)

    tls = server_tls("name.example")
    async with engine_with(nursery, script, server_tls=tls, tls=client_tls) as (engine, _):
        await engine.fetch("https://name.example./")
    assert b"\r\nHost: name.example\r\n" in heads[0]


async def test_tls_ticket_on_idle(nursery: trio.Nursery, server_tls: Contexts, client_tls: Any) -> None:
    async def script(peer: Peer) -> None:
        while await peer.receive_request() is not None:
            await peer.send(OK)

    tls = server_tls("a.example")
    tls.num_tickets = 20
    async with engine_with(nursery, script, server_tls=tls, tls=client_tls) as (engine, connector):
        for _ in range(3):
            assert (await engine.fetch("https://a.example/")).content == b"ok"
        assert len(connector.connected) == 1


async def test_gzip_bomb_redirect_body(nursery: trio.Nursery) -> None:
    """The content of a followed redirect is neither decoded nor read."""
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        request = await peer.receive_request()
        if request is not None and request.line.split()[1] == "/final":
            await peer.respond(b"final")
            return
        await peer.send(
            b"HTTP/1.1 302 Found\r\nLocation: /final\r\nContent-Encoding: gzip\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        while True:
            await peer.send(b"10000\r\n" + bytes(0x10000) + b"\r\n")
            sent += 0x10000

    async with engine_with(nursery, script) as (engine, _):
        response = await engine.fetch(URL, limits=tidegate.Limits(max_redirects=1))
    assert response.content == b"final"
    assert sent < 2 << 20  # what the system's own buffers take


async def test_gzip_bomb_drain(nursery: trio.Nursery) -> None:
    bomb = gzip.compress(bytes(1 << 20), 9) + os.urandom(1 << 20)

    async def script(peer: Peer) -> None:
        await peer.receive_request()
        await peer.respond(bomb, fields=[("Content-Encoding", "gzip")])

    async with engine_with(nursery, script) as (engine, connector):
        async with engine.stream(URL) as response:
            async for piece in response:
                assert len(piece) <= 64 * 1024
                break
        await trio.testing.wait_all_tasks_blocked()
        assert connector.open_connections == 0


async def test_gzip_many_members(nursery: trio.Nursery) -> None:
    async def script(peer: Peer) -> None:
        await peer.receive_request()
        await peer.respond(gzip.compress(b"") * 100_000, fields=[("Content-Encoding", "gzip")])

    error = await refused(nursery, script, "message_too_large")
    assert "members" in str(error)


async def test_zstd_big_window(nursery: trio.Nursery) -> None:
    pytest.importorskip("backports.zstd")
    # RFC 8878 3.1.1: magic, frame header without single segment, window descriptor of 2**27 bytes.
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([(27 - 10) << 3]) + b"\x01\x00\x00"

    async def script(peer: Peer) -> None:
        await peer.receive_request()
        await peer.respond(frame, fields=[("Content-Encoding", "zstd")])

    await refused(nursery, script, "message_too_large")


async def test_brotli_bomb(nursery: trio.Nursery) -> None:
    brotli = pytest.importorskip("brotli")

    async def script(peer: Peer) -> None:
        await peer.receive_request()
        await peer.respond(brotli.compress(bytes(64 << 20), quality=1), fields=[("Content-Encoding", "br")])

    async with engine_with(nursery, script) as (engine, _):
        response = await engine.fetch(URL, limits=tidegate.Limits(max_content=1 << 20))
    assert (response.truncated, len(response.content)) == (True, 1 << 20)


async def test_redirect_loop(nursery: trio.Nursery) -> None:
    async def script(peer: Peer) -> None:
        while (request := await peer.receive_request()) is not None:
            number = int(request.line.split()[1].strip("/") or 0)
            await peer.respond(
                status="302 Found", fields=[("Location", f"/{number + 1}"), ("X-Pad", "p" * 60 * 1024)]
            )

    await refused(nursery, script, "too_many_redirects", limits=tidegate.Limits(max_redirects=20))


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("http://r6---sn-i5onxoxu-cxgl.example/", "r6---sn-i5onxoxu-cxgl.example"),
        ("http://\N{CHICKEN}\N{CHICKEN}.example/", "xn--co8ha.example"),
        ("http://xn--co8ha.example/", "xn--co8ha.example"),
        ("http://straße.example/", "xn--strae-oqa.example"),
    ],
)
def test_hosts(text: str, host: str) -> None:
    """host-hyphens34, host-emoji, host-sharp-s."""
    assert host == tidegate.parse_url(text).host


test_host_hyphens34 = test_host_emoji = test_host_sharp_s = None


async def test_pool_wait_cancel_deadlock(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """A slot freed in the tick in which its next owner is cancelled goes on to the one after."""
    release = trio.Event()

    async def script(peer: Peer) -> None:
        while await peer.receive_request() is not None:
            await release.wait()
            await peer.send(OK)

    done: list[str] = []

    async def fetch(engine: tidegate.Engine, name: str, scope: trio.CancelScope) -> None:
        with scope:
            await engine.fetch(URL)
            done.append(name)

    async with engine_with(nursery, script, max_concurrency=1) as (engine, _):
        scopes = {name: trio.CancelScope() for name in "ABC"}
        async with trio.open_nursery() as fetches:
            for name, scope in scopes.items():
                fetches.start_soon(fetch, engine, name, scope)
                await trio.testing.wait_all_tasks_blocked()
            release.set()
            scopes["B"].cancel()
    assert done == ["A", "C"]


async def test_connect_next_address_after_timeout(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """Over real sockets: see `test_connect`. Here: the next address serves when the first refuses."""

    async def script(peer: Peer) -> None:
        await peer.receive_request()
        await peer.send(OK)

    connector = MemoryConnector(nursery, script, unreachable=frozenset({"93.184.216.34"}))
    resolver = AnyHost("93.184.216.34", "93.184.216.35")
    async with engine_with(nursery, script, connector=connector, resolver=resolver) as (engine, _):
        response = await engine.fetch(URL)
    assert response.hops[0].peer == "93.184.216.35"


async def test_dns_hosts_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that only /etc/hosts knows is found, although names are asked as absolute ones (D-23, F-103)."""
    from tidegate._wire import resolve

    hosts = tmp_path / "hosts"
    hosts.write_text(
        "127.0.0.1 localhost\n93.184.216.34\twww.hosted.example  Hosted.Example # both\n\nnonsense\n"
    )
    monkeypatch.setattr(resolve, "_HOSTS_FILE", hosts)
    assert [str(a) for a in await tidegate.SystemResolver().resolve("hosted.example")] == ["93.184.216.34"]
