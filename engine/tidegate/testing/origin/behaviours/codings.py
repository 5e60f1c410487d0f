"""Content codings: small on the wire, large or laborious to decode."""

import itertools
import sys
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

import trio

from tidegate.testing.origin.content import BLOCK_SIZE, content_pieces
from tidegate.testing.origin.exchange import Behaviour, Exchange
from tidegate.testing.origin.parameters import one_of

# What a processor does in some seconds, for nobody can stop a thread of it.
_LARGEST_BOMB = 1 << 32
_MOST_LAYERS = 100
_SMALL = 1 << 20

_Compressor: TypeAlias = tuple[Callable[[bytes], bytes], Callable[[], bytes]]


def _gzip() -> _Compressor:
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    return compressor.compress, compressor.flush


def _deflate() -> _Compressor:
    compressor = zlib.compressobj(9)
    return compressor.compress, compressor.flush


def _brotli() -> _Compressor:
    import brotli  # type: ignore[import-untyped]  # it ships no types

    compressor = brotli.Compressor(quality=5)
    return compressor.process, compressor.finish


def _zstd() -> _Compressor:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    compressor = zstd.ZstdCompressor()
    return compressor.compress, compressor.flush


_COMPRESSORS: Mapping[str, Callable[[], _Compressor]] = MappingProxyType(
    {"gzip": _gzip, "deflate": _deflate, "br": _brotli, "zstd": _zstd}
)


@lru_cache(maxsize=8)
def compress(coding: str, size: int, layers: int = 1) -> bytes:
    """`size` zero bytes in a content coding, in bounded memory; `layers` times over.

    Args:
        coding: gzip, deflate, br or zstd.
        size: decoded bytes.
        layers: how many times the coding is applied.

    Raises:
        ModuleNotFoundError: br and zstd need the extra `codings`.
    """
    add, finish = _COMPRESSORS[coding]()
    blocks = [add(bytes(min(BLOCK_SIZE, size - start))) for start in range(0, size, BLOCK_SIZE)]
    coded = b"".join(blocks) + finish()
    for _ in range(layers - 1):
        add, finish = _COMPRESSORS[coding]()
        coded = add(coded) + finish()
    return coded


async def _compressed(coding: str, size: int, layers: int = 1) -> bytes:
    """As `compress`, while others are served."""
    if size <= _SMALL:  # A thread would cost more, and a fake clock runs away while there is one.
        return compress(coding, size, layers)
    return await trio.to_thread.run_sync(compress, coding, size, layers, abandon_on_cancel=True)


async def bomb(exchange: Exchange) -> None:
    """`size` zero bytes (67108864) in `coding` (gzip; deflate, br, zstd), applied `layers` times (1)."""
    coding = one_of("coding", exchange.text("coding", "gzip"), _COMPRESSORS)
    layers = max(1, exchange.integer("layers", 1, _MOST_LAYERS))
    size = exchange.integer("size", 1 << 26, _LARGEST_BOMB)
    await exchange.start()
    try:
        coded = await _compressed(coding, size, layers)
    except ModuleNotFoundError as error:
        why = f"{coding} needs {error.name}, which is not installed: pip install 'tidegate[codings]'\n"
        await exchange.respond(why.encode(), status=501)
        return
    await exchange.respond(coded, f"Content-Encoding: {', '.join([coding] * layers)}")


async def gzip_members(exchange: Exchange) -> None:
    """`count` gzip members (100000), each of `size` zero bytes (0)."""
    size, count = exchange.piece_size("size", 0), exchange.integer("count", 100_000)
    member = await _compressed("gzip", size)
    await exchange.send_head("Content-Encoding: gzip", f"Content-Length: {count * len(member)}")
    if not exchange.has_no_content(200):
        await exchange.send_pieces(lambda _: member, count, 0)


async def gzip_name(exchange: Exchange) -> None:
    """A gzip header whose file name has `size` bytes (10000000): much to read, nothing to show."""
    size = exchange.integer("size", 10_000_000)
    begin, end = (
        b"\x1f\x8b\x08\x08" + bytes(6),
        b"\0" + zlib.compressobj(9, zlib.DEFLATED, -15).flush() + bytes(8),
    )
    await exchange.send_head("Content-Encoding: gzip", f"Content-Length: {len(begin) + size + len(end)}")
    if not exchange.has_no_content(200):
        whole = itertools.chain([begin], content_pieces(size, BLOCK_SIZE), [end])
        await exchange.connection.send_pieces(whole, 0)


BEHAVIOURS: Mapping[str, Behaviour] = MappingProxyType(
    {"bomb": bomb, "gzip-members": gzip_members, "gzip-name": gzip_name}
)
