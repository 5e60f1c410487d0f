"""Content codings: what is offered, what is decoded, and that every step is bounded (D-3, D-4, D-5)."""

import ast
import gzip
import importlib.util
import itertools
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from tests.support.data import corpus
from tidegate._policy.reasons import Reason
from tidegate._wire import decode
from tidegate._wire.decode import Decoder, accept_encoding, make_decoder, parse_codings
from tidegate.errors import MessageTooLarge, RemoteProtocolError

brotli = import_module("brotli")
zstd = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")

KIB = 1024
MIB = 1024 * KIB
STEP = 64 * KIB
TEXT = b"".join(b"%d: the tide goes out, the gate stays shut.\n" % n for n in range(300))

NOISE = b"".join(zlib.crc32(b"%d" % n).to_bytes(4, "big") for n in range(MIB // 4))


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


FORMS: dict[str, Any] = {
    "gzip": ("gzip", lambda data: gzip.compress(data, mtime=0)),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "br": ("br", lambda data: brotli.compress(data, quality=5)),
    "zstd": ("zstd", zstd.compress),
}
every_form = pytest.mark.parametrize("form", FORMS)
every_coding = pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])


def encode(form: str, data: bytes) -> bytes:
    encoded: bytes = FORMS[form][1](data)
    return encoded


@dataclass(frozen=True)
class Decoded:
    content: bytes
    complete: bool = True
    trailing_junk: bool = False


def drain(decoder: Decoder, max_bytes: int = STEP) -> Iterator[bytes]:
    while not decoder.needs_input:
        yield decoder.read(max_bytes)


def undo(
    codings: tuple[str, ...],
    data: bytes,
    *,
    size: int | None = None,
    max_bytes: int = STEP,
    max_members: int = 1024,
) -> Decoded:
    """Decode `data`, written `size` bytes at a time (None: all at once) and read `max_bytes` at a time."""
    decoder = make_decoder(codings, max_members=max_members)
    content = bytearray()
    size = size or len(data) or 1
    for start in range(0, len(data), size):
        decoder.write(data[start : start + size])
        for piece in drain(decoder, max_bytes):
            assert len(piece) <= min(max_bytes, STEP)
            content += piece
    return Decoded(bytes(content), decoder.finish(), decoder.trailing_junk)


@contextmanager
def allocating_less_than(size: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size


def copy_of_module(monkeypatch: pytest.MonkeyPatch, **modules: ModuleType | None) -> Any:
    """A copy of `tidegate._wire.decode` for a machine with other optional libraries; None: not installed."""
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name.replace("__", "."), module)
    spec = importlib.util.spec_from_file_location("copy_of_decode", decode.__file__)
    assert spec is not None
    assert spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy


# What is offered


def test_offers_what_it_can_decode() -> None:
    assert accept_encoding() == "gzip, deflate, br, zstd"


NOT_THERE: dict[str, ModuleType | None] = {"compression__zstd": None, "backports__zstd": None}


def test_offers_less_without_the_optional_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = copy_of_module(monkeypatch, brotli=None, **NOT_THERE)
    assert bare.accept_encoding() == "gzip, deflate"
    assert bare.parse_codings("gzip", 3) == ("gzip",)
    assert bare.parse_codings("br", 3) is None
    with pytest.raises(ValueError, match="cannot decode zstd"):
        bare.make_decoder(("zstd",))


def test_offers_zstd_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert copy_of_module(monkeypatch, brotli=None).accept_encoding() == "gzip, deflate, zstd"


def test_does_not_offer_a_brotli_without_output_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 1.2, and in packages that share the name, a bomb could not be stopped."""
    old = ModuleType("brotli")
    assert copy_of_module(monkeypatch, brotli=old, **NOT_THERE).accept_encoding() == "gzip, deflate"
    old.Decompressor = type("Decompressor", (), {"process": None})  # type: ignore[attr-defined]  # made up
    assert copy_of_module(monkeypatch, brotli=old, **NOT_THERE).accept_encoding() == "gzip, deflate"


def test_import_stays_cheap() -> None:
    code = (
        "import tidegate._wire.decode, sys; print([m for m in sys.modules if 'brotli' in m or 'zstd' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# What Content-Encoding says


@pytest.mark.parametrize(
    ("value", "codings"),
    [
        ("gzip", ("gzip",)),
        ("x-gzip", ("gzip",)),
        ("X-GZIP", ("gzip",)),
        ("Br", ("br",)),
        ("zstd", ("zstd",)),
        ("deflate, gzip", ("deflate", "gzip")),
        ("deflate,gzip", ("deflate", "gzip")),
        ("deflate \t,\t gzip", ("deflate", "gzip")),
        ("gzip, identity", ("gzip",)),
        ("IDENTITY, gzip,,", ("gzip",)),
        ("gzip, gzip, gzip", ("gzip",) * 3),
        ("identity, gzip, identity, br, identity, zstd", ("gzip", "br", "zstd")),
        ("", ()),
        (" ", ()),
        (",", ()),
        ("identity", ()),
        # D-3: unknown, left as it came.
        ("utf-8", None),
        ("none", None),
        ("compress", None),
        ("x-compress", None),
        ("x-br", None),
        ("gzip, aws-chunked", None),
        ("gzip; q=1", None),
        ('"gzip"', None),
        ("gzip\x0b", None),
        ("gz\u0131p", None),
    ],
)
def test_d3_content_encoding(value: str, codings: tuple[str, ...] | None) -> None:
    assert parse_codings(value, 3) == codings


@pytest.mark.parametrize("value", ["gzip, gzip, br, zstd", "gzip, gzip, gzip, gzip", "a, b, c, d"])
def test_d4_too_many_codings(value: str) -> None:
    parse_codings(value, 4)
    with pytest.raises(MessageTooLarge, match="max_codings") as caught:
        parse_codings(value, 3)
    assert caught.value.reason is Reason.MESSAGE_TOO_LARGE


# What is decoded


@every_form
@pytest.mark.parametrize("size", [None, 1, 7])
@pytest.mark.parametrize("max_bytes", [1, 100, STEP, MIB])
def test_decodes_whatever_the_pieces(form: str, size: int | None, max_bytes: int) -> None:
    coding = FORMS[form][0]
    assert undo((coding,), encode(form, TEXT), size=size, max_bytes=max_bytes) == Decoded(TEXT)


@every_form
def test_decodes_empty_content(form: str) -> None:
    assert undo((FORMS[form][0],), encode(form, b"")) == Decoded(b"")


@every_coding
def test_no_encoded_bytes_are_complete(coding: str) -> None:
    """A 304, a HEAD, a length of 0: nothing to decode is no error."""
    decoder = make_decoder((coding,))
    assert decoder.finish()
    decoder.write(b"")
    assert decoder.needs_input
    assert decoder.read(1) == b""
    assert decoder.finish()
    assert not decoder.trailing_junk


@pytest.mark.parametrize(
    "codings", list(itertools.product(["gzip", "deflate", "br", "zstd"], repeat=3)), ids="-".join
)
def test_decodes_chains_of_three(codings: tuple[str, ...]) -> None:
    """RFC 9110 8.4: listed in the order in which they were applied."""
    encoded = TEXT
    for coding in codings:
        encoded = encode(coding, encoded)
    assert undo(codings, encoded) == Decoded(TEXT)
    assert undo(codings, encoded, size=1, max_bytes=1000) == Decoded(TEXT)
    cut = undo(codings, encoded[:-1])
    assert not cut.complete
    assert TEXT.startswith(cut.content)


def test_incompressible_content_and_long_writes() -> None:
    for coding in ("gzip", "deflate", "br", "zstd"):
        assert undo((coding,), encode(coding, NOISE)) == Decoded(NOISE)


@pytest.mark.parametrize("level", range(10))
def test_deflate_with_and_without_wrapper_at_every_level(level: int) -> None:
    assert undo(("deflate",), zlib.compress(TEXT, level), size=1) == Decoded(TEXT)
    raw = zlib.compress(TEXT, level)[2:-4]
    assert undo(("deflate",), raw, size=1) == Decoded(TEXT)


@pytest.mark.parametrize("wbits", range(9, 16))
def test_deflate_with_every_window(wbits: int) -> None:
    compressor = zlib.compressobj(wbits=wbits)
    assert undo(("deflate",), compressor.compress(TEXT) + compressor.flush()) == Decoded(TEXT)


def stored_block(first: int, content: bytes) -> bytes:
    """Raw deflate: a stored block, with five bits in `first` that mean nothing, and an empty last block."""
    length = len(content)
    return (
        bytes([first])
        + length.to_bytes(2, "little")
        + (length ^ 0xFFFF).to_bytes(2, "little")
        + content
        + b"\3\0"
    )


@pytest.mark.parametrize(
    ("first", "length"),
    [
        # Each fails one of the three conditions of RFC 1950 alone.
        pytest.param(0x70, 0x22, id="no method 8"),
        pytest.param(0x88, 0x1C, id="a window of 64 KiB"),
        pytest.param(0x78, 0x05, id="no multiple of 31"),
    ],
)
def test_raw_deflate_that_nearly_has_a_wrapper(first: int, length: int) -> None:
    assert undo(("deflate",), stored_block(first, b"x" * length)) == Decoded(b"x" * length)


@every_form
@pytest.mark.parametrize("max_bytes", [1, 7, 257, 258, 259, 5000])
def test_output_held_back_by_the_library_is_read(form: str, max_bytes: int) -> None:
    """A few bytes hold it all: the library has taken every one of them long before the last output."""
    coding, encoded = FORMS[form][0], encode(form, b"a" * 5000)
    assert undo((coding,), encoded, max_bytes=max_bytes) == Decoded(b"a" * 5000)
    for end in range(1, len(encoded)):
        assert undo((coding,), encoded[:end], max_bytes=max_bytes) == undo((coding,), encoded[:end])


@pytest.mark.parametrize("size", [None, 1])
def test_gzip_members_are_joined(size: int | None) -> None:
    encoded = encode("gzip", b"one ") + encode("gzip", b"") + encode("gzip", b"two")
    assert undo(("gzip",), encoded, size=size) == Decoded(b"one two")


@pytest.mark.parametrize("size", [None, 1])
def test_gzip_header_fields_are_skipped(size: int | None) -> None:
    plain = encode("gzip", TEXT)
    flags, extra, name, comment = b"\x1c", b"\x03\x00abc", b"name\0", b"comment\0"
    assert undo(
        ("gzip",), plain[:3] + flags + plain[4:10] + extra + name + comment + plain[10:], size=size
    ) == Decoded(TEXT)


@pytest.mark.parametrize("size", [None, 1])
def test_zstd_frames_are_joined_and_skippable_ones_skipped(size: int | None) -> None:
    skippable = b"\x5f\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"\x00\x28\xb5"
    encoded = skippable + encode("zstd", b"one ") + skippable + encode("zstd", b"two") + skippable
    assert undo(("zstd",), encoded, size=size) == Decoded(b"one two")


# What comes after the end


@pytest.mark.parametrize("size", [None, 1, 30])
@pytest.mark.parametrize(
    "junk", [b"\0", b"\0" * 512, b"\r\n", b"j", b"junk" * 9, b"\x1f\x8c\x08", b"\x1f\x00", b"\x8b"]
)
@pytest.mark.parametrize("form", ["gzip", "deflate", "raw deflate"])
def test_junk_after_the_end_is_ignored_and_noted(form: str, junk: bytes, size: int | None) -> None:
    encoded = encode(form, TEXT) + junk
    assert undo((FORMS[form][0],), encoded, size=size) == Decoded(TEXT, trailing_junk=True)


def test_a_member_after_junk_is_junk() -> None:
    encoded = encode("gzip", b"one") + b"\0" + encode("gzip", b"two")
    for size in (None, 1):
        assert undo(("gzip",), encoded, size=size) == Decoded(b"one", trailing_junk=True)


def test_deflate_has_one_member() -> None:
    assert undo(("deflate",), encode("deflate", b"one") * 2) == Decoded(b"one", trailing_junk=True)


def test_junk_inside_a_chain_is_noted() -> None:
    encoded = encode("br", encode("gzip", TEXT) + b"\0")
    assert undo(("gzip", "br"), encoded) == Decoded(TEXT, trailing_junk=True)


@pytest.mark.parametrize("size", [None, 1])
@pytest.mark.parametrize("coding", ["br", "zstd"])
@pytest.mark.parametrize("junk", [b"\0", b"\r\n", b"junk"])
def test_junk_after_brotli_or_zstd_is_an_error(coding: str, junk: bytes, size: int | None) -> None:
    with pytest.raises(RemoteProtocolError, match=f"does not decode as {coding}"):
        undo((coding,), encode(coding, TEXT) + junk, size=size)


def test_brotli_has_one_stream() -> None:
    for size in (None, 1, len(encode("br", TEXT))):
        with pytest.raises(RemoteProtocolError):
            undo(("br",), encode("br", TEXT) * 2, size=size)


# What is cut short


@every_form
def test_d5_cut_short_is_not_complete(form: str) -> None:
    """D-5: whatever the place of the cut, the part that came is delivered and marked."""
    text = TEXT[:300]
    encoded = encode(form, text)
    for end in range(1, len(encoded)):
        cut = undo((FORMS[form][0],), encoded[:end])
        assert not cut.complete, end
        assert text.startswith(cut.content)
    assert undo((FORMS[form][0],), encoded) == Decoded(text)


@every_form
def test_d5_what_came_before_the_cut_is_delivered(form: str) -> None:
    encoded = encode(form, NOISE)
    cut = undo((FORMS[form][0],), encoded[: len(encoded) * 3 // 4])
    assert len(cut.content) > len(NOISE) // 2
    assert NOISE.startswith(cut.content)


def test_d5_cut_in_the_second_member() -> None:
    """A cut between two members cannot be seen; one byte further it can."""
    first, second = encode("gzip", b"one"), encode("gzip", b"two")
    assert undo(("gzip",), first) == Decoded(b"one")
    for end in range(1, len(second)):
        assert not undo(("gzip",), first + second[:end]).complete
    for end in range(1, len(encode("zstd", b"two"))):
        assert not undo(("zstd",), encode("zstd", b"one") + encode("zstd", b"two")[:end]).complete


def test_finish_before_everything_was_read_is_not_complete() -> None:
    decoder = make_decoder(("gzip",))
    decoder.write(encode("gzip", TEXT))
    decoder.read(10)
    assert not decoder.finish()


# What is corrupt


def flipped(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 0xFF
    return bytes(changed)


GZIP = encode("gzip", TEXT)


@pytest.mark.parametrize(
    ("coding", "encoded"),
    [
        ("gzip", b"plain text"),
        ("gzip", b"\0" * 512),
        ("gzip", encode("deflate", TEXT)),
        ("gzip", flipped(GZIP, 2)),
        ("gzip", flipped(GZIP, -1)),
        ("gzip", flipped(GZIP, -5)),
        ("gzip", flipped(GZIP, len(GZIP) // 2)),
        ("gzip", GZIP + b"\x1f\x8b\x00\x00"),
        ("deflate", b"plain text"),
        ("deflate", GZIP),
        ("deflate", flipped(encode("deflate", TEXT), -1)),
        # RFC 1950: a preset dictionary, which HTTP has no way to agree on.
        ("deflate", b"\x78\xbb" + b"\0" * 20),
        # A window of 64 KiB is no zlib header, so these are read as raw deflate and found corrupt.
        ("deflate", b"\x88\x1c" + encode("deflate", TEXT)[2:]),
        ("br", b"<html></html>"),
        ("br", b"\xff" * 20),
        ("br", GZIP),
        ("zstd", b"plain text"),
        ("zstd", flipped(encode("zstd", TEXT), 0)),
        ("zstd", GZIP),
        ("zstd", encode("zstd", TEXT)[:-3] + b"\xff\xff\xff" * 9),
    ],
)
@pytest.mark.parametrize("size", [None, 1])
def test_corrupt_content_is_a_protocol_error(coding: str, encoded: bytes, size: int | None) -> None:
    with pytest.raises(RemoteProtocolError, match=f"does not decode as {coding}") as caught:
        undo((coding,), encoded, size=size)
    assert type(caught.value) is RemoteProtocolError
    assert caught.value.reason is Reason.PROTOCOL_ERROR


def test_corrupt_in_the_middle_of_a_chain() -> None:
    with pytest.raises(RemoteProtocolError, match="does not decode as br"):
        undo(("br", "gzip"), encode("gzip", b"<html></html>"))


# What is bounded


BOMB_SIZE = 64 * MIB


@pytest.fixture(scope="module")
def bombs() -> dict[str, bytes]:
    return {coding: encode(coding, bytes(BOMB_SIZE)) for coding in ("gzip", "deflate", "br", "zstd")}


@pytest.mark.parametrize(
    ("coding", "at_most"), [("gzip", 66_000), ("deflate", 66_000), ("br", 110), ("zstd", 2_200)]
)
def test_d4_a_bomb_costs_what_is_read(bombs: dict[str, bytes], coding: str, at_most: int) -> None:
    bomb = bombs[coding]
    assert len(bomb) < at_most
    for wanted in (1, 1000, 100_000):
        decoder = make_decoder((coding,))
        with allocating_less_than(wanted + 3 * STEP):
            decoder.write(bomb)
            content = b""
            while len(content) < wanted:
                content += decoder.read(wanted - len(content))
        assert content == bytes(wanted)
        assert not decoder.needs_input


@every_coding
def test_d4_a_bomb_read_to_its_end_stays_small(bombs: dict[str, bytes], coding: str) -> None:
    decoder = make_decoder((coding,))
    with allocating_less_than(6 * STEP):
        decoder.write(bombs[coding])
        assert sum(len(piece) for piece in drain(decoder)) == BOMB_SIZE
    assert decoder.finish()


def test_the_measure_sees_an_unbounded_decoder(bombs: dict[str, bytes]) -> None:
    """The control of the two tests above."""
    with pytest.raises(AssertionError), allocating_less_than(BOMB_SIZE):
        zlib.decompress(bombs["deflate"])


def test_d4_a_chain_of_bombs_stays_small(bombs: dict[str, bytes]) -> None:
    encoded = encode("gzip", encode("gzip", bombs["gzip"]))
    decoder = make_decoder(("gzip", "gzip", "gzip"))
    with allocating_less_than(10 * STEP):
        decoder.write(encoded)
        assert sum(len(piece) for piece in drain(decoder)) == BOMB_SIZE
    assert decoder.finish()


def test_a_step_is_bounded_however_much_was_written() -> None:
    """A step gives at most 64 KiB whatever was asked for, and takes little of a long write."""
    for level in (0, 9):
        decoder = make_decoder(("deflate",))
        decoder.write(zlib.compress(bytes(4 * MIB), level))
        assert max(len(piece) for piece in drain(decoder, 10 * MIB)) <= STEP
    decoder = make_decoder(("gzip",))
    decoder.write(gzip_with_name(4 * MIB))
    assert len(list(drain(decoder))) >= 4 * MIB // STEP


def gzip_with_name(length: int) -> bytes:
    return b"\x1f\x8b\x08\x08\0\0\0\0\0\xff" + b"n" * length


def test_a_header_bomb_takes_no_memory() -> None:
    """A name of 10 MiB yields nothing: the wire bytes have to be counted, the memory does not grow."""
    header = gzip_with_name(10 * MIB)
    decoder = make_decoder(("gzip",))
    with allocating_less_than(3 * STEP):
        for start in range(0, len(header), STEP):
            decoder.write(header[start : start + STEP])
            assert not any(drain(decoder))
    assert decoder.encoded_size == len(header)
    assert not decoder.finish()


def test_a_header_bomb_inside_a_chain_is_counted() -> None:
    """Few bytes on the wire, none that come out, 10 MiB between the stages: `encoded_size` shows them."""
    decoder = make_decoder(("gzip", "gzip"))
    wire = encode("gzip", gzip_with_name(10 * MIB))
    assert len(wire) < STEP
    with allocating_less_than(4 * STEP):
        decoder.write(wire)
        for steps, piece in enumerate(drain(decoder), 1):
            assert piece == b""
            assert decoder.encoded_size <= max(len(wire), steps * STEP)
    assert decoder.encoded_size == 10 * MIB + 10


def test_encoded_size_counts_junk_too() -> None:
    decoder = make_decoder(("gzip",))
    for data in (GZIP, bytes(100), bytes(100)):
        decoder.write(data)
        list(drain(decoder))
    assert decoder.encoded_size == len(GZIP) + 200


def test_what_was_read_is_let_go() -> None:
    """A peer that falls silent must not cost a read buffer; nor does junk."""
    first, second, junk = GZIP[:-4], GZIP[-4:], bytes(STEP)
    decoder = make_decoder(("gzip",))
    for data in (first, second, junk):
        before = sys.getrefcount(data)
        decoder.write(data)
        list(drain(decoder))
        assert sys.getrefcount(data) == before


@pytest.mark.parametrize("size", [None, 1])
@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_d4_members_are_limited(coding: str, size: int | None) -> None:
    member = encode(coding, b"x")
    assert undo((coding,), member * 3, size=size, max_members=3) == Decoded(b"xxx")
    with pytest.raises(MessageTooLarge, match="max_coding_members"):
        undo((coding,), member * 4, size=size, max_members=3)


def test_d4_skippable_frames_count_as_members() -> None:
    skippable = b"\x50\x2a\x4d\x18\0\0\0\0"
    assert undo(("zstd",), skippable * 3, max_members=3) == Decoded(b"")
    with pytest.raises(MessageTooLarge):
        undo(("zstd",), skippable * 4, max_members=3)


def test_junk_is_no_member() -> None:
    assert undo(("gzip",), GZIP + b"\0", max_members=1) == Decoded(TEXT, trailing_junk=True)


def test_gzip_many_members() -> None:
    """The corpus row of that name: 100,000 empty members."""
    encoded = encode("gzip", b"") * 100_000
    with pytest.raises(MessageTooLarge):
        undo(("gzip",), encoded)
    assert undo(("gzip",), encoded, max_members=100_000) == Decoded(b"")


def zstd_frame(window_log: int, eighths: int = 0) -> bytes:
    """An empty frame with a window of 2 ** window_log and so many eighths more (RFC 8878 3.1.1.1.2)."""
    return b"\x28\xb5\x2f\xfd\x00" + bytes([(window_log - 10) << 3 | eighths]) + b"\x01\x00\x00"


@pytest.mark.parametrize(("window_log", "eighths"), [(10, 0), (22, 7), (23, 0)])
def test_zstd_window_up_to_8_mib(window_log: int, eighths: int) -> None:
    assert undo(("zstd",), zstd_frame(window_log, eighths)) == Decoded(b"")


@pytest.mark.parametrize(("window_log", "eighths"), [(23, 1), (24, 0), (27, 0), (31, 0), (41, 7)])
def test_zstd_window_over_8_mib_is_too_large(window_log: int, eighths: int) -> None:
    """RFC 9659; the corpus row zstd-big-window is the one with 27."""
    with pytest.raises(MessageTooLarge, match="8 MiB") as caught:
        undo(("zstd",), zstd_frame(window_log, eighths))
    assert caught.value.reason is Reason.MESSAGE_TOO_LARGE


# How it is called


def test_write_waits_until_input_is_needed() -> None:
    decoder = make_decoder(("gzip",))
    decoder.write(GZIP)
    with pytest.raises(RuntimeError):
        decoder.write(b"")
    assert b"".join(drain(decoder)) == TEXT


@pytest.mark.parametrize("max_bytes", [0, -1])
def test_read_asks_for_something(max_bytes: int) -> None:
    """With 0, zlib would have no limit."""
    decoder = make_decoder(("gzip",))
    decoder.write(GZIP)
    with pytest.raises(ValueError, match="max_bytes"):
        decoder.read(max_bytes)


@pytest.mark.parametrize("codings", [(), ("compress",), ("gzip", "identity"), ("x-gzip",)])
def test_make_decoder_takes_what_parse_codings_gave(codings: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="cannot decode"):
        make_decoder(codings)


# The corpus


def wire_rows() -> list[Any]:
    rows = [row for row in corpus("wire") if "decode" in row["tags"] and "head" not in row["tags"]]
    return [pytest.param(row, id=row["id"]) for row in rows if "server_bytes" in row or "segments" in row]


def encoded_pieces(row: dict[str, Any]) -> tuple[str, list[bytes]]:
    """The Content-Encoding of a row, and its content as it comes."""
    literals = row.get("segments") or [row["server_bytes"]]
    first, *rest = [ast.literal_eval(literal) for literal in literals if not literal.startswith("sleep")]
    head, _, content = first.partition(b"\r\n\r\n")
    [value] = [line[17:] for line in head.split(b"\r\n") if line.lower().startswith(b"content-encoding:")]
    return value.decode(), [content, *rest]


@pytest.mark.parametrize("row", wire_rows())
def test_corpus(row: dict[str, Any]) -> None:
    value, pieces = encoded_pieces(row)
    expect = row["expect"]
    codings = parse_codings(value, 3)
    if not codings:
        assert (codings is None) == (expect.get("flag") == "unknown_content_coding")
        assert b"".join(pieces) == ast.literal_eval(expect["body"])
        return
    decoder = make_decoder(codings)
    content = bytearray()
    try:
        for data in pieces:
            decoder.write(data)
            for piece in drain(decoder):
                content += piece
    except RemoteProtocolError:
        assert expect["outcome"] == "error"
        return
    assert expect["outcome"] == "ok"
    if expect.get("truncated"):
        assert len(content) > expect["max_content"]
    else:
        assert decoder.finish() == (expect.get("flag") != "truncated")
        assert "partial" in expect or content == ast.literal_eval(expect["body"])
    if expect.get("flag") == "trailing_garbage":
        assert decoder.trailing_junk
