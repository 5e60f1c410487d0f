"""Content codings: what is small on the wire is as large as was said."""

import sys
import zlib

import pytest
import trio

from tests.engine.origin.client import Client, in_memory, on_sockets
from tidegate.testing.origin import compress


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


async def test_a_coding_that_is_not_installed_is_answered_with_501(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "brotli", None)
    async with in_memory() as (client, _):
        answer = await client.ask("/bomb?coding=br&size=54321")
        assert (answer.status, b"tidegate[codings]" in answer.content) == (501, True)
        client.start_next()
        assert (await client.ask("/bomb?size=3")).status == 200


async def test_a_bomb_that_is_being_made_holds_up_no_other() -> None:
    """It takes much longer to make than others need for twenty exchanges, and much less to send."""
    target, answered = f"/bomb?size={1 << 28}", []

    async def ask(client: Client, target: str) -> None:
        await client.ask(target)
        answered.append(target)

    async with (
        on_sockets() as (client, origin),
        await trio.open_tcp_stream("127.0.0.1", origin.port) as stream,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(ask, client, target)
        while not origin.served["bomb"]:
            await trio.lowlevel.checkpoint()
        other = Client(stream)
        for _ in range(20):
            await ask(other, "/state")
            other.start_next()
    assert answered == [*["/state"] * 20, target]
