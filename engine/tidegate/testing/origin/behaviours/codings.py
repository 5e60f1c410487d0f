"""Content codings: small on the wire, large or laborious to decode."""

import sys
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

from tidegate.testing.origin.content import BLOCK_SIZE
from tidegate.testing.origin.exchange import Behaviour, Exchange
from tidegate.testing.origin.parameters import one_of

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


async def bomb(exchange: Exchange) -> None:
    """`size` zero bytes (67108864) in `coding` (gzip; deflate, br, zstd), applied `layers` times (1)."""
    coding = one_of("coding", exchange.text("coding", "gzip"), _COMPRESSORS)
    layers = exchange.integer("layers", 1)
    coded = compress(coding, exchange.integer("size", 1 << 26), layers)
    await exchange.respond(coded, f"Content-Encoding: {', '.join([coding] * layers)}")


async def gzip_members(exchange: Exchange) -> None:
    """`count` gzip members (100000), each of `size` zero bytes (0)."""
    coded = compress("gzip", exchange.integer("size", 0)) * exchange.integer("count", 100_000)
    await exchange.respond(coded, "Content-Encoding: gzip")


async def gzip_name(exchange: Exchange) -> None:
    """A gzip header whose file name has `size` bytes (10000000): much to read, nothing to show."""
    name = b"x" * exchange.integer("size", 10_000_000) + b"\0"
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    coded = b"\x1f\x8b\x08\x08" + bytes(6) + name + compressor.flush() + bytes(8)
    await exchange.respond(coded, "Content-Encoding: gzip")


BEHAVIOURS: Mapping[str, Behaviour] = MappingProxyType(
    {"bomb": bomb, "gzip-members": gzip_members, "gzip-name": gzip_name}
)
