"""Content codings (RFC 9110 8.4) undone in bounded steps: encoded bytes in, pieces of bounded size out.

A hundred encoded bytes may stand for gigabytes, so nothing here ever decodes "all of it" (decision D-3):
one call of `Decoder.read` is one call of one library, which takes at most 16 KiB and gives at most 64 KiB.
What lies between the stages of a chain is as small. The caller puts its checkpoint, its deadline and its
caps between the steps, and at a cap it simply stops reading (D-4).

What each coding is, and where we depart from its standard:

    gzip     RFC 1952, any number of members. Bytes after the last member that begin no further one are
             ignored and noted, as browsers do; zero padding is the usual case.
    deflate  RFC 1950, or RFC 1951 without the wrapper, which many servers send; the first two bytes tell.
             Bytes after the end are ignored and noted.
    br       RFC 7932. Bytes after the end are an error: the library refuses them together with the data.
    zstd     RFC 8878, any number of frames, skippable ones too; a window of at most 8 MiB (RFC 9659).
             Bytes that begin no frame are an error.

brotli and zstd are optional libraries, imported when a coding is first offered or looked up.
"""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, Final, Protocol

from tidegate.errors import MessageTooLarge, RemoteProtocolError

# The bounds of one step. Less input than output, because zlib copies the input it has not used at each
# call; 64 KiB is some 0.2 ms of inflating. Picked without much measuring.
_STEP_INPUT: Final = 16 * 1024
_STEP_OUTPUT: Final = 64 * 1024

_GZIP_MAGIC: Final = b"\x1f\x8b"

# RFC 9659 3: an encoder for HTTP must not use a window over 8 MiB = 2 ** 23.
_ZSTD_WINDOW_LOG: Final = 23


class _Stream(Protocol):
    """One member or frame being read: the protocol of the standard library's bz2, lzma and zstd classes."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes | memoryview, max_length: int) -> bytes: ...


class _Inflate:
    """zlib as a `_Stream`."""

    def __init__(self, wbits: int) -> None:
        self._zlib = zlib.decompressobj(wbits)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes | memoryview, max_length: int) -> bytes:
        piece = self._zlib.decompress(data or self._zlib.unconsumed_tail, max_length)
        # A full piece may leave output inside zlib even where no input is left over.
        self.needs_input = len(piece) < max_length
        return piece


class _Unbrotli:
    """brotli as a `_Stream`, with an exact output limit."""

    # The library has no such thing: bytes after the end make it fail.
    unused_data: Final = b""

    def __init__(self, decompressor: Callable[[], Any]) -> None:
        self._brotli = decompressor()
        self._surplus = memoryview(b"")
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return not self._surplus and bool(self._brotli.is_finished())

    def decompress(self, data: bytes | memoryview, max_length: int) -> bytes:
        if not self._surplus:
            # The limit is soft: the output grows by blocks until it is reached, and the first has 32 KiB.
            self._surplus = memoryview(self._brotli.process(data, output_buffer_limit=1))
            # `can_accept_more_data` may say yes while output is pending; only an empty piece is the end.
            self.needs_input = not self._surplus
        piece = bytes(self._surplus[:max_length])
        self._surplus = self._surplus[max_length:]
        return piece


class _Stage(ABC):
    """One coding being undone: a cursor over encoded bytes, and the stream that reads the current member.

    Between members there is no stream, and nothing to do until more bytes come.
    """

    name: ClassVar[str]
    # So many bytes tell what begins here; fewer are held back until more come.
    lookahead: ClassVar[int] = 1

    def __init__(self, error: type[Exception], max_members: int) -> None:
        self.trailing_junk = False
        self.encoded_size = 0
        self._error = error
        self._max_members = max_members
        self._members = 0
        self._stream: _Stream | None = None
        self._encoded = memoryview(b"")
        self._position = 0

    @abstractmethod
    def _open(self, head: bytes) -> _Stream:
        """A stream for the member that begins with `head`."""

    def _continues(self, head: bytes) -> bool:
        """Whether `head`, not empty, may begin a further member; if not, it is trailing junk."""
        return False

    @property
    def needs_input(self) -> bool:
        if self._stream is None:
            return True
        return self._position == len(self._encoded) and self._stream.needs_input

    @property
    def complete(self) -> bool:
        """Whether the encoded bytes so far end where a member ends, or there were none."""
        return self._stream is None and not self._encoded

    def write(self, data: bytes) -> None:
        self.encoded_size += len(data)
        if self.trailing_junk:
            return
        # What is still there was held back: shorter than the look-ahead, mostly empty, and then not copied.
        self._encoded = memoryview(bytes(self._encoded) + data)
        if self._stream is None:
            self._begin_member()

    def read(self, max_bytes: int) -> bytes:
        """One step; only while not `needs_input`."""
        assert self._stream is not None
        encoded = self._take(max_bytes) if self._stream.needs_input else b""
        try:
            piece = self._stream.decompress(encoded, max_bytes)
        except self._error as error:
            raise self._failure(error) from error
        if self._stream.eof:
            self._end_member(self._stream.unused_data)
        if self.needs_input:
            self._release()
        return piece

    def _take(self, max_bytes: int) -> memoryview:
        # No more input than output is asked for: what zlib copies stays in proportion for tiny reads too.
        start = self._position
        self._position = min(start + min(max_bytes, _STEP_INPUT), len(self._encoded))
        return self._encoded[start : self._position]

    def _release(self) -> None:
        """Keep only what was held back: a peer that now falls silent should cost no read buffer."""
        self._encoded = memoryview(bytes(self._encoded[self._position :]))
        self._position = 0

    def _end_member(self, unused: bytes) -> None:
        self._stream = None
        # Going back costs nothing; copying the rest for each member would be quadratic.
        self._position -= len(unused)
        self._begin_member()

    def _begin_member(self) -> None:
        head = bytes(self._encoded[self._position : self._position + self.lookahead])
        if head and self._members and not self._continues(head):
            self.trailing_junk = True
            self._position = len(self._encoded)
            self._release()
        elif len(head) == self.lookahead:
            self._count_member()
            self._stream = self._open(head)

    def _count_member(self) -> None:
        self._members += 1
        if self._members > self._max_members:
            raise MessageTooLarge(
                f"The {self.name} content has more than {self._max_members} members or frames "
                "(max_coding_members)."
            )

    def _failure(self, error: Exception | None) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"The content does not decode as {self.name}, which its Content-Encoding names; "
            "a request that sets Accept-Encoding itself gets the bytes as they come."
        )


class _Gzip(_Stage):
    name = "gzip"
    lookahead = len(_GZIP_MAGIC)

    def __init__(self, max_members: int) -> None:
        super().__init__(zlib.error, max_members)

    def _open(self, head: bytes) -> _Stream:
        return _Inflate(16 + zlib.MAX_WBITS)

    def _continues(self, head: bytes) -> bool:
        return _GZIP_MAGIC.startswith(head)


class _Deflate(_Stage):
    name = "deflate"
    lookahead = 2

    def __init__(self, max_members: int) -> None:
        super().__init__(zlib.error, max_members)

    def _open(self, head: bytes) -> _Stream:
        return _Inflate(zlib.MAX_WBITS if _is_zlib_header(head) else -zlib.MAX_WBITS)


def _is_zlib_header(head: bytes) -> bool:
    """RFC 1950 2.2: method 8, a window of at most 2 ** (7 + 8), and the whole a multiple of 31."""
    method, window = head[0] & 0x0F, head[0] >> 4
    return method == 8 and window <= 7 and int.from_bytes(head, "big") % 31 == 0


class _Brotli(_Stage):
    name = "br"

    def __init__(self, module: ModuleType, max_members: int) -> None:
        super().__init__(module.error, max_members)
        self._decompressor = module.Decompressor

    def _open(self, head: bytes) -> _Stream:
        return _Unbrotli(self._decompressor)

    def _continues(self, head: bytes) -> bool:
        # Bytes after the end that come with the last data make the library fail, so these must fail too.
        raise self._failure(None)


class _Zstd(_Stage):
    name = "zstd"

    def __init__(self, module: ModuleType, max_members: int) -> None:
        super().__init__(module.ZstdError, max_members)
        self._decompressor = partial(
            module.ZstdDecompressor, options={module.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
        )

    def _open(self, head: bytes) -> _Stream:
        try:
            stream: _Stream = self._decompressor()
        except self._error as error:  # it has seen no byte yet, so the peer cannot be the reason
            raise MemoryError(str(error)) from error
        return stream

    def _continues(self, head: bytes) -> bool:
        return True

    def _failure(self, error: Exception | None) -> RemoteProtocolError:
        # The library gives no code; were its words to change, the reason would only be less exact.
        if "too much memory" in str(error):
            return MessageTooLarge("The zstd content needs a window of more than 8 MiB (RFC 9659).")
        return super()._failure(error)


@cache
def _stages() -> dict[str, Callable[[int], _Stage]]:
    """What can be decoded here in bounded memory, in the order in which it is offered."""
    stages: dict[str, Callable[[int], _Stage]] = {"gzip": _Gzip, "deflate": _Deflate}
    brotli = _import_first("brotli")
    # Before 1.2 brotli had no output limit; another package of that name has no Decompressor like it.
    if brotli and hasattr(getattr(brotli, "Decompressor", None), "can_accept_more_data"):
        stages["br"] = partial(_Brotli, brotli)
    zstd = _import_first("compression.zstd", "backports.zstd")
    if zstd:
        stages["zstd"] = partial(_Zstd, zstd)
    return stages


def _import_first(*names: str) -> ModuleType | None:
    for name in names:
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


@cache
def accept_encoding() -> str:
    """The Accept-Encoding value that the engine offers: what it can decode in bounded memory (D-3).

    `gzip, deflate`, with `br` where brotli 1.2 or later is installed, and `zstd` where the standard library
    has it (3.14) or backports.zstd is installed. The first call imports them.
    """
    return ", ".join(_stages())


def parse_codings(value: str, max_codings: int) -> tuple[str, ...] | None:
    """Read a Content-Encoding value (RFC 9110 8.4), several field lines joined by commas.

    Names are compared without case; `x-gzip` is `gzip` (RFC 9110 8.4.1.3); `identity` and empty members
    are dropped, as servers do send them.

    Args:
        value: the field value.
        max_codings: how many codings one content may have, `identity` not counted.

    Returns:
        The codings in the order in which they were applied, empty if there is nothing to undo; or None if
        one of them is unknown or cannot be decoded here: then the content is left as it came (D-3).

    Raises:
        MessageTooLarge: more than `max_codings`, known or not: what is an error should not depend on the
            libraries that are installed.
    """
    names = [name.strip(" \t").lower() for name in value.split(",")]
    codings = tuple("gzip" if name == "x-gzip" else name for name in names if name not in {"", "identity"})
    if len(codings) > max_codings:
        raise MessageTooLarge(
            f"Content-Encoding names {len(codings)} codings; at most {max_codings} are undone (max_codings)."
        )
    return codings if all(coding in _stages() for coding in codings) else None


class Decoder:
    """Undoes the codings of one content. Made by `make_decoder`.

    Write once, read until it needs input, write again; at the end of the encoded content, `finish`::

        decoder.write(data)
        while not decoder.needs_input:
            piece = decoder.read(max_bytes)     # one bounded step; may well be empty
            await trio.lowlevel.checkpoint()

    A step may yield nothing though more is to come: a long gzip header, or the inner stage of a chain that
    is being filled. So the loop asks `needs_input`, as with the decompressors of the standard library, and
    never the piece. Whoever has read enough stops reading and drops the decoder.

    Input that yields nothing takes no memory, but it takes time, and what a first coding blows up may yield
    nothing in a second one. So the cap on encoded content is to be compared with `encoded_size`.
    """

    def __init__(self, stages: Sequence[_Stage]) -> None:
        """`stages` in the order of decoding, at least one."""
        self._stages = tuple(stages)
        # Each stage with the one that its output goes to; the last stage first, as its output is due first.
        self._steps = tuple(zip(self._stages, [*self._stages[1:], None], strict=True))[::-1]

    @property
    def needs_input(self) -> bool:
        """Whether everything written so far has been decoded and read."""
        return all(stage.needs_input for stage in self._stages)

    @property
    def encoded_size(self) -> int:
        """The most encoded bytes that any one coding was given so far: with one coding, what was written."""
        return max(stage.encoded_size for stage in self._stages)

    @property
    def trailing_junk(self) -> bool:
        """Whether bytes after the end of the coded content were ignored so far."""
        return any(stage.trailing_junk for stage in self._stages)

    def write(self, data: bytes) -> None:
        """Take encoded bytes, of any length; they are kept without a copy until they are read.

        Raises:
            RuntimeError: it does not need input yet; a second piece would have to be queued.
            RemoteProtocolError: bytes after the end, where the coding has no room for them.
            MessageTooLarge: a member or frame more than `max_members` begins here.
        """
        if not self.needs_input:
            raise RuntimeError("Decoder.write while there is still something to read")
        self._stages[0].write(data)

    def read(self, max_bytes: int) -> bytes:
        """Make one step and return what came out of it, often less than asked for, possibly nothing.

        Args:
            max_bytes: at least 1; a step gives at most 64 KiB, whatever is asked for.

        Raises:
            RemoteProtocolError: the content is corrupt. The decoder is of no use any more.
            MessageTooLarge: more members or frames than `max_members`, or a zstd window over 8 MiB.
        """
        if max_bytes < 1:
            raise ValueError("Decoder.read needs max_bytes of at least 1")  # zlib takes 0 for "no limit"
        for stage, sink in self._steps:
            if stage.needs_input:
                continue
            if sink is None:
                return stage.read(min(max_bytes, _STEP_OUTPUT))
            sink.write(stage.read(_STEP_OUTPUT))
            break
        return b""

    def finish(self) -> bool:
        """Say, at the end of the encoded content, whether every coding came to its end (D-5).

        No encoded bytes at all are no decoded bytes, and complete: so a response to HEAD, a 304, a length
        of 0. False also if not everything has been read.
        """
        return all(stage.complete for stage in self._stages)


def make_decoder(codings: tuple[str, ...], *, max_members: int = 1024) -> Decoder:
    """Make the decoder for what `parse_codings` returned.

    Args:
        codings: at least one, in the order in which they were applied; they are undone from the last.
        max_members: gzip members or zstd frames of each coding (aiohttp takes 1,024).

    Raises:
        ValueError: `codings` is empty, or names one that `parse_codings` would not return.
    """
    unknown = [coding for coding in codings if coding not in _stages()]
    if unknown or not codings:
        raise ValueError(f"cannot decode {', '.join(unknown) or 'without a coding'}")
    return Decoder([_stages()[coding](max_members) for coding in reversed(codings)])
