"""Whatever the bytes, a decoder gives bytes or RemoteProtocolError, and the same however they are cut up."""

import sys
import zlib
from collections.abc import Callable
from functools import partial
from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate._wire.decode import accept_encoding, make_decoder, parse_codings
from tidegate.errors import MessageTooLarge, RemoteProtocolError

brotli = import_module("brotli")
zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")

CODINGS = tuple(accept_encoding().split(", "))
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": partial(zlib.compress, wbits=16 + zlib.MAX_WBITS),
    "deflate": zlib.compress,
    "br": partial(brotli.compress, quality=3),
    "zstd": zstd.compress,
}

small_budget = settings(max_examples=200, deadline=None)
every_coding = pytest.mark.parametrize("coding", CODINGS)
contents = st.one_of(
    st.binary(max_size=2000), st.builds(bytes.__mul__, st.binary(max_size=20), st.integers(0, 5000))
)
chains = st.lists(st.sampled_from(CODINGS), min_size=1, max_size=3).map(tuple)
sizes = st.one_of(st.integers(1, 9), st.integers(1, 100_000))


def encode(codings: tuple[str, ...], data: bytes) -> bytes:
    for coding in codings:
        data = ENCODERS[coding](data)
    return data


def undo(codings: tuple[str, ...], data: bytes, size: int, max_bytes: int) -> tuple[bytes, bool, bool] | None:
    """What came out, whether it was complete, whether junk followed; None for an error that may be."""
    decoder = make_decoder(codings, max_members=20)
    content = bytearray()
    try:
        for start in range(0, len(data), size):
            decoder.write(data[start : start + size])
            while not decoder.needs_input:
                piece = decoder.read(max_bytes)
                assert len(piece) <= max_bytes
                content += piece
    except RemoteProtocolError:
        return None
    return bytes(content), decoder.finish(), decoder.trailing_junk


@small_budget
@given(codings=chains, content=contents, size=sizes, max_bytes=sizes)
def test_round_trip(codings: tuple[str, ...], content: bytes, size: int, max_bytes: int) -> None:
    # Not a hundred thousand steps for one example.
    max_bytes = max(max_bytes, len(content) // 1000)
    assert undo(codings, encode(codings, content), size, max_bytes) == (content, True, False)


@every_coding
@small_budget
@given(data=st.binary(max_size=300), size=sizes, max_bytes=sizes)
def test_any_bytes(coding: str, data: bytes, size: int, max_bytes: int) -> None:
    assert undo((coding,), data, size, max_bytes) == undo((coding,), data, 1, 70_000)


@every_coding
@small_budget
@given(
    content=st.binary(max_size=300),
    start=st.integers(0, 400),
    removed=st.integers(0, 3),
    added=st.binary(max_size=4),
    tail=st.sampled_from([b"", b"\0", b"\x1f", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"junk"]),
    size=sizes,
)
def test_nearly_right_bytes(
    coding: str, content: bytes, start: int, removed: int, added: bytes, tail: bytes, size: int
) -> None:
    """Random bytes seldom get past a header, so right ones are changed in one place and followed by more."""
    right = encode((coding,), content)
    data = right[:start] + added + right[start + removed :] + tail
    assert undo((coding,), data, size, 70_000) == undo((coding,), data, 1, 1)


@small_budget
@given(
    value=st.one_of(
        st.text(max_size=40),
        st.lists(st.sampled_from([*CODINGS, "x-gzip", "identity", "", " ", "GZIP", "other"])).map(",".join),
    )
)
def test_any_content_encoding(value: str) -> None:
    """What is parsed can be decoded; the limit is an error."""
    try:
        codings = parse_codings(value, 3)
    except MessageTooLarge:
        assert value.count(",") >= 3
        return
    assert codings is None or len(codings) <= 3
    if codings:
        assert make_decoder(codings).needs_input
