"""The content of every path, known beforehand, and made piece by piece: no size is too large to announce."""

import itertools
from collections.abc import Iterable, Iterator
from functools import lru_cache

PATTERN = b"0123456789abcdef"
BLOCK_SIZE = 65536

_PATTERN_BLOCK = PATTERN * (BLOCK_SIZE // len(PATTERN) + 1)


def content_of(size: int, offset: int = 0) -> bytes:
    """The content of every path: `0123456789abcdef` over and over, `size` bytes of it from `offset`."""
    start = offset % len(PATTERN)
    if start + size <= len(_PATTERN_BLOCK):
        return _short_content(size, start)
    return (PATTERN * ((start + size) // len(PATTERN) + 1))[start : start + size]


# Connections whose clients do not read wait with the same block in their hands, not each with its own.
@lru_cache(maxsize=64)
def _short_content(size: int, start: int) -> bytes:
    return _PATTERN_BLOCK[start : start + size]


def content_pieces(size: int | None, piece_size: int) -> Iterator[bytes]:
    """`content_of(size)` in pieces of `piece_size` bytes, each made when it is its turn; None is endless."""
    for offset in itertools.count(0, piece_size):
        length = piece_size if size is None else min(piece_size, size - offset)
        if length <= 0:
            return
        yield content_of(length, offset)


def first_bytes(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The first `size` bytes of `pieces`, none of which is made once there are enough."""
    for piece in pieces:
        if size <= 0:
            return
        yield piece[:size]
        size -= len(piece)


def split(data: bytes, piece_size: int) -> Iterator[bytes]:
    """`data` in pieces of `piece_size` bytes."""
    for start in range(0, len(data), piece_size):
        yield data[start : start + piece_size]
