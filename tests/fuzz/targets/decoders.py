"""Invariant: coded content gives bytes within its caps or a FetchError, the same however it is cut up."""

from collections.abc import Iterator
from itertools import product
from typing import Final

from tests.fuzz.targets.cutting import Cutter
from tidegate._wire.decode import accept_encoding, make_decoder, parse_codings
from tidegate.errors import FetchError, RemoteProtocolError
from tidegate.testing.origin import compress

CODINGS: Final = tuple(accept_encoding().split(", "))
MOST: Final = 1 << 20
"""Decoded bytes that are looked at; a bomb has more."""


def check(data: bytes) -> None:
    """Some codings, in pieces of some size, read in steps of some size."""
    cutter = Cutter(data)
    codings = tuple(CODINGS[cutter.number(len(CODINGS))] for _ in range(1 + cutter.number(3)))
    size, step = 1 + cutter.number(256), 1 + cutter.number(256) ** 2
    raw = cutter.rest()
    whole, whole_ended = _decoded(codings, raw, len(raw) or 1, 65536)
    parts, parts_ended = _decoded(codings, raw, size, max(step, len(whole) // 200))
    shorter = min(len(whole), len(parts))
    assert whole[:shorter] == parts[:shorter], (codings, len(whole), len(parts))
    # An error at the end may be heard a little sooner or later, but heard it is.
    assert whole_ended == parts_ended, (codings, whole_ended, parts_ended)
    _check_names(raw[:80])


def _decoded(codings: tuple[str, ...], raw: bytes, size: int, step: int) -> tuple[bytes, str]:
    """What came out, and how it ended."""
    decoder = make_decoder(codings, max_members=8)
    content = bytearray()
    try:
        for start in range(0, len(raw), size):
            decoder.write(raw[start : start + size])
            while not decoder.needs_input:
                piece = decoder.read(step)
                assert len(piece) <= min(step, 65536)
                content += piece
                if len(content) >= MOST or decoder.encoded_size >= 2 * MOST:
                    return bytes(content[:MOST]), "cut"
    except RemoteProtocolError:
        return bytes(content), "error"
    return bytes(content), f"complete: {decoder.finish()}"


def _check_names(raw: bytes) -> None:
    try:
        codings = parse_codings(raw.decode("latin-1"), 3)
    except FetchError:
        return
    if codings:
        make_decoder(codings)


def seeds() -> Iterator[bytes]:
    """A little of each coding, alone and in pairs, and pieces of them."""
    for first, second in product(range(len(CODINGS)), repeat=2):
        coded = compress(CODINGS[first], 3000)
        head = bytes([first, 0, 40, 9])
        yield from (head + coded, head + coded * 2, head + coded[:-3], head + coded + b"junk")
        yield bytes([first, 1, second, 40, 9]) + coded
