"""The rows of the URL corpus about requests and responses, as far as the engine decides them."""

import gzip
import zlib
from typing import Any

import pytest
import trio

import tidegate
from tests.support.data import corpus
from tests.support.engines import engine_with
from tidegate.testing.memory import Peer

URL = "http://a.example/"


def rows(kind: str) -> list[Any]:
    return [pytest.param(row, id=row["id"]) for row in corpus("urls") if row["kind"] == kind]


async def echo(peer: Peer) -> None:
    while (request := await peer.receive_request()) is not None:
        await peer.respond(request.line.encode())


@pytest.mark.parametrize("row", rows("request-header"))
async def test_request_field(row: dict[str, Any], nursery: trio.Nursery) -> None:
    """F-50..F-53, W-126, AMB-87: refused before anything is sent, or on the wire as given (D-26)."""
    received: list[Any] = []

    async def script(peer: Peer) -> None:
        received.append(await peer.receive_request())
        await peer.respond()

    # `web_request` drops what is the engine's own before it asks; the engine itself refuses it.
    allowed = row["web_request"] == "allow"
    async with engine_with(nursery, script) as (engine, connector):
        if not allowed:
            with pytest.raises(tidegate.InvalidField) as caught:
                await engine.fetch(URL, headers=row["headers"])
            assert tidegate.Reason.INVALID_FIELD is caught.value.reason
            assert connector.connected == []
            return
        await engine.fetch(URL, headers=row["headers"])
    for name, value in row["headers"]:
        assert value == received[0].field(name)


@pytest.mark.parametrize("row", rows("method"))
async def test_method(row: dict[str, Any], nursery: trio.Nursery) -> None:
    """F-49, W-79. A lower-case method is for `Fetch` to fold; the engine takes none."""
    async with engine_with(nursery, echo) as (engine, connector):
        if row["expect"] == "allow" and row["input"].isupper():
            response = await engine.fetch(URL, method=row["input"])
            assert response.content.startswith(row["input"].encode())
        else:
            with pytest.raises(tidegate.InvalidArgument):
                await engine.fetch(URL, method=row["input"])
            assert connector.connected == []


BOMB = bytes(64 << 20)
HELLO = b"hello hello hello"


def coded(coding: str, data: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n%b" % (
        coding.encode(),
        len(data),
        data,
    )


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


# Rows told in words, as bytes.
IN_WORDS = {
    "100 x 'HTTP/1.1 100 Continue'": b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
    "10,000 headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
    "gzip bomb 10 MB -> 10 GB": coded("gzip", gzip.compress(BOMB)),
    "deflate bomb": coded("deflate", zlib.compress(BOMB)),
    "raw deflate (no zlib wrapper)": coded("deflate", raw_deflate(HELLO)),
    "gzip cut in the middle": coded("gzip", gzip.compress(HELLO)[:-6]),
    "two gzip members": coded("gzip", gzip.compress(HELLO) * 2),
    "gzip with trailing garbage": coded("gzip", gzip.compress(HELLO) + b"junk"),
    "Content-Encoding: x-unknown": coded("x-unknown", HELLO),
}
# D-3 replaces these: brotli and zstd are offered where they can be decoded; if the bytes are not that coding,
# it is an error either way.
IN_WORDS["brotli when not offered in Accept-Encoding"] = coded("br", HELLO)
IN_WORDS["zstd when not offered"] = coded("zstd", HELLO)


@pytest.mark.parametrize("row", rows("response"))
async def test_response(row: dict[str, Any], nursery: trio.Nursery, autojump_clock: Any) -> None:
    """F-96, AMB-30 and the framing rules of RFC 9112 6.3."""
    data = IN_WORDS.get(row["input"], row["input"].encode("utf-8"))

    async def script(peer: Peer) -> None:
        await peer.receive_request()
        await peer.send(data)

    async with engine_with(nursery, script) as (engine, connector):
        verdicts = {row["expect"], *row.get("also", ())}
        try:
            response = await engine.fetch(URL, limits=tidegate.Limits(max_content=1 << 20))
        except tidegate.FetchError as error:
            assert "error" in verdicts, error
            assert not isinstance(error, tidegate.DeadlineExceeded)
            if "banner" in row["case"]:
                assert "example.com" not in str(error)
                assert "OpenSSH" not in str(error)
            return
        assert "allow" in verdicts, response
        assert row.get("truncated", False) is response.truncated
        if row.get("never_reuse"):
            await engine.fetch(URL)
            assert len(connector.connected) == 2


@pytest.mark.parametrize(
    ("words", "content", "complete"),
    [
        ("raw deflate (no zlib wrapper)", HELLO, True),
        ("gzip cut in the middle", HELLO, False),
        ("two gzip members", HELLO * 2, True),
        ("gzip with trailing garbage", HELLO, True),
        ("Content-Encoding: x-unknown", HELLO, True),
    ],
)
async def test_codings(words: str, content: bytes, complete: bool, nursery: trio.Nursery) -> None:
    """D-3, D-5: what is decoded, and whether it is known to be whole."""

    async def script(peer: Peer) -> None:
        await peer.receive_request()
        await peer.send(IN_WORDS[words])

    async with engine_with(nursery, script) as (engine, _):
        response = await engine.fetch(URL)
    assert (content, complete) == (response.content, response.complete)
    assert ("content-encoding" in response.headers) is ("unknown" in words)
