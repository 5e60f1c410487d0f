"""One HTTP/1.1 exchange over a stream (RFC 9112), bounded everywhere.

h11 judges heads (`heads`); the bytes around them are counted here, because h11's limits are soft, it has none
for interim responses, trailers and chunk extensions, and it stays reusable after odd framing.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from enum import Enum, auto
from io import BytesIO
from typing import Final

import trio

from tidegate._policy.limits import Limits
from tidegate._policy.reasons import Reason
from tidegate._wire.heads import (
    MAX_LENGTH,
    Head,
    RawFields,
    check_first_bytes,
    parse_head,
    parse_trailers,
)
from tidegate._wire.stream import RECEIVE_SIZE, Stream
from tidegate.errors import (
    ConnectionLost,
    FetchError,
    IncompleteContent,
    InvalidArgument,
    MessageTooLarge,
    RemoteProtocolError,
)

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,20})[ \t]*(?:;[^\r\n]*)?")
_NEXT_CHUNK: Final = re.compile(rb"\r\n([0-9A-Fa-f]{1,8})\r\n")
"""The end of a chunk and the line of the next one, if that is plain."""

_CHUNKS_PER_CHECKPOINT: Final = 1024
_ONE_SEND: Final = 16 * 1024
"""Content bytes that are copied behind the request head, to leave with it."""

_NO_CONTENT: Final = frozenset({204, 304})


class Framing(Enum):
    """How the end of the content is known (RFC 9112 6.3)."""

    NONE = auto()
    LENGTH = auto()
    CHUNKED = auto()
    TO_EOF = auto()


class Exchange:
    """One request and its response over a stream that the caller owns.

    Call `send`, `receive_head`, then `receive_content` until it gives b"" (or `receive_rest`). After that
    `reusable` says whether the stream may serve another exchange.

    Attributes:
        head: the final head, once it has come.
        wire_bytes: content bytes received so far, framing apart.
        trailers: fields after chunked content.
        started: at least one byte of the response has come.
    """

    def __init__(self, stream: Stream, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._buffer = bytearray()
        self._searched = 0
        self._head_bytes = 0
        self._interims = 0
        self._oddities: list[str] = []
        self._framing = Framing.NONE
        self._remaining = 0
        self._in_chunk = False
        self._chunks = 0
        self._overhead = 0
        self._failure: FetchError | None = None
        self._sent = False
        self._finished = False
        self.head: Head | None = None
        self.wire_bytes = 0
        self.trailers: RawFields = []
        self.started = False

    # Sending the request ...

    async def send(self, head: bytes, content: bytes | AsyncIterable[bytes]) -> None:
        """Send a request, listening for an early answer while the peer is slow to take it.

        Args:
            head: the whole request head. It must say `Transfer-Encoding: chunked` if content is iterable.
            content: the content bytes, or an iterable of pieces, each at most once.

        Raises:
            InvalidArgument: iterable content exceeds `max_request_content`, or is not bytes.
            RemoteProtocolError: what came meanwhile is not HTTP.
        """
        if not isinstance(content, bytes):
            await self._send_listening(head, content)
            return
        # One segment where that is possible, but no second copy of what a slow peer may take hours to read.
        first, more = (head + content, b"") if len(content) <= _ONE_SEND else (head, content)
        try:
            sent = self._stream.send_nowait(first)
        except ConnectionLost:
            return  # an answer may have come before the connection broke: `receive_head` will tell
        if sent == len(first) and not more:
            self._sent = True
        else:
            await self._send_listening(memoryview(first)[sent:], more)

    async def _send_listening(self, first: bytes | memoryview, more: bytes | AsyncIterable[bytes]) -> None:
        failures: list[Exception] = []

        async def write() -> None:
            try:
                await self._stream.send_all(first)
                if isinstance(more, bytes):
                    await self._stream.send_all(more)
                else:
                    await self._send_chunks(more)
                self._sent = True
            except ConnectionLost:
                return  # no error yet: many servers answer, then reset (pitfall 14); the listener hears it
            except Exception as error:  # the caller's own iterable failed: it leaves outside a group
                failures.append(error)
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await self._listen()
            nursery.cancel_scope.cancel()
        if failures:
            raise failures[0]

    async def _listen(self) -> None:
        """Read until the final head is here, or the end, or an error that `receive_head` will raise."""
        try:
            while self._take_heads() is None:
                self._add_to_head(await self._stream.receive_some())
        except FetchError as error:
            self._failure = error

    async def _send_chunks(self, content: AsyncIterable[bytes]) -> None:
        total = 0
        async with _closing(content):
            async for piece in content:
                if not isinstance(piece, bytes | bytearray | memoryview):
                    raise InvalidArgument(f"content pieces must be bytes, not {type(piece).__name__}")
                # An iterable that never waits, and a peer that takes everything, would shut out all others.
                await trio.lowlevel.checkpoint()
                data = bytes(piece)  # the items of a memoryview may be larger than bytes
                total += len(data)
                if total > self._limits.max_request_content:
                    raise _too_much_content(self._limits)
                if data:
                    await self._stream.send_all(b"%x\r\n%b\r\n" % (len(data), data))
        await self._stream.send_all(b"0\r\n\r\n")

    # Receiving the head ...

    async def receive_head(self, method: str) -> Head:
        """The final response head; interim ones are counted and dropped (RFC 9110 15.2).

        Raises:
            ConnectionLost: the connection ended before the head did.
            RemoteProtocolError: what came is not HTTP.
            MessageTooLarge: over `max_head`, `max_fields` or `max_interim`.
        """
        if self._failure is not None:
            raise self._failure
        while (head := self._take_heads()) is None:
            self._add_to_head(await self._stream.receive_some())
        self._framing, self._remaining = _framing(head, method)
        self._oddities.extend(head.oddities)
        if head.status == 204 and (head.chunked or head.content_length):
            self._oddities.append("content announced with a status that has none")
        self._finished = self._framing is Framing.NONE
        return head

    def _take_heads(self) -> Head | None:
        """The final head once it has come whole; interim ones before it are dropped."""
        while self.head is None:
            end = self._find_head_end()
            if end is None:
                return None
            raw = bytes(self._buffer[:end])
            del self._buffer[:end]
            self._searched = 0
            self._head_bytes += end
            head = parse_head(raw, self._limits)
            if head.interim:
                self._drop_interim(head)
            else:
                self.head = head
        return self.head

    def _drop_interim(self, head: Head) -> None:
        self._interims += 1
        if self._interims > self._limits.max_interim:
            raise MessageTooLarge(f"more than {self._limits.max_interim} interim responses (max_interim)")
        self._oddities.extend(head.oddities)
        if head.chunked or head.content_length or head.closing:
            self._oddities.append("an interim response that speaks of content or of closing")

    def _find_head_end(self) -> int | None:
        if not self._buffer:
            return None
        check_first_bytes(self._buffer)
        match = _BLANK_LINE.search(self._buffer, self._searched)
        end = match.end() if match else None
        if self._head_bytes + (end or len(self._buffer)) > self._limits.max_head:
            raise MessageTooLarge(f"the response head has more than {self._limits.max_head} bytes (max_head)")
        self._searched = max(0, len(self._buffer) - 2)
        return end

    def _add_to_head(self, data: bytes) -> None:
        if not data:
            raise self._head_cut_short()
        self._buffer += data
        self.started = True

    def _head_cut_short(self) -> ConnectionLost:
        if self._buffer:
            return ConnectionLost("the connection ended within the response head")
        return ConnectionLost("the connection ended without a response")

    # Receiving the content ...

    @property
    def has_content(self) -> bool:
        """Whether there is content to read: none after HEAD, 204, 304 or a length of 0."""
        return self._framing is not Framing.NONE

    @property
    def announced(self) -> int | None:
        """Content bytes that are still to come by Content-Length; None if that is not known."""
        return self._remaining if self._framing is Framing.LENGTH else None

    async def receive_content(self) -> bytes:
        """The next piece of content as it is on the wire, b"" at its end.

        Raises:
            IncompleteContent: the connection ended before the announced length or the last chunk.
            RemoteProtocolError: the chunks are not valid.
            MessageTooLarge: over `max_chunk_overhead`, or the trailer section is over its limits.
        """
        if self._finished:
            return b""
        try:
            piece = await self._receive_piece()
        except ConnectionLost as error:
            raise self._cut_short() from error
        self.wire_bytes += len(piece)
        return piece

    async def _receive_piece(self) -> bytes:
        if self._framing is Framing.CHUNKED:
            return await self._receive_chunked()
        if self._framing is Framing.TO_EOF:
            piece = await self._receive_bytes(RECEIVE_SIZE)
            self._finished = not piece
            return piece
        piece = await self._receive_bytes(self._remaining)
        if not piece:
            raise self._cut_short()
        self._remaining -= len(piece)
        self._finished = self._remaining == 0
        return piece

    async def _receive_bytes(self, max_bytes: int) -> bytes:
        """Up to `max_bytes`, those already here first; b"" at the end of the stream."""
        if self._buffer:
            piece = bytes(self._buffer[:max_bytes])
            del self._buffer[: len(piece)]
            return piece
        piece = await self._stream.receive_some()
        if len(piece) <= max_bytes:
            return piece
        self._buffer += memoryview(piece)[max_bytes:]
        return piece[:max_bytes]

    async def receive_rest(self, max_bytes: int) -> bytes:
        """All content of a known length at once, at most `max_bytes`, with one copy from the socket.

        The buffer is made when 64 KiB have come, not when somebody announces them, and its pages are real
        only once they are filled: a hold that promises much costs as little as one that does not.
        """
        wanted = min(self._remaining, max_bytes)
        first = BytesIO()
        while first.tell() < min(wanted, RECEIVE_SIZE):
            first.write((await self.receive_content())[: wanted - first.tell()])
        if wanted <= first.tell():
            return first.getvalue()
        try:
            whole = BytesIO(bytes(wanted))
        except MemoryError:  # announced, and not there; whatever comes may still be much less
            return await self._receive_growing(first, wanted)
        with whole.getbuffer() as view:
            start = first.tell()
            view[:start] = first.getbuffer()
            await self._fill(view[start:])
        return whole.getvalue()

    async def _receive_growing(self, whole: BytesIO, wanted: int) -> bytes:
        while whole.tell() < wanted:
            whole.write((await self.receive_content())[: wanted - whole.tell()])
        return whole.getvalue()

    async def _fill(self, view: memoryview) -> None:
        try:
            count = await self._stream.fill(view)
        except ConnectionLost as error:
            raise self._cut_short() from error
        self.wire_bytes += count
        self._remaining -= count
        if count < len(view):
            raise self._cut_short()
        self._finished = self._remaining == 0

    def _cut_short(self) -> IncompleteContent:
        expected = None
        if self._framing is Framing.LENGTH:
            expected = self.wire_bytes + self._remaining
        told = f" of {expected}" if expected is not None else ""
        return IncompleteContent(
            f"the connection ended after {self.wire_bytes}{told} content bytes, before the content did",
            received=self.wire_bytes,
            expected=expected,
        )

    # Chunks (RFC 9112 7.1) ...

    async def _receive_chunked(self) -> bytes:
        if self._chunks > _CHUNKS_PER_CHECKPOINT:
            self._chunks = 0
            await trio.lowlevel.checkpoint()
        while not self._remaining:
            if self._in_chunk:
                await self._receive_chunk_end()
            size = await self._receive_chunk_line()
            if size == 0:
                await self._receive_trailers()
                self._finished = True
                return b""
            self._remaining = size
            self._in_chunk = True
        piece = await self._receive_bytes(self._remaining)
        if not piece:
            raise self._cut_short()
        self._remaining -= len(piece)
        # The end of the chunk is read with the next one: content is not kept waiting for it.
        return piece if self._remaining or not self._buffer else b"".join([piece, *self._whole_chunks()])

    def _whole_chunks(self) -> list[bytes]:
        """The plain chunks that follow and are here already: a peer may send one for every byte."""
        chunks: list[bytes] = []
        position = 0
        while (match := _NEXT_CHUNK.match(self._buffer, position)) is not None:
            start, size = match.end(), int(match[1], 16)
            if not 0 < size <= len(self._buffer) - start:
                break
            position = start + size
            chunks.append(bytes(self._buffer[start:position]))
        del self._buffer[:position]
        self._chunks += 1 + len(chunks)
        return chunks

    async def _receive_chunk_line(self) -> int:
        line = await self._receive_line()
        match = _CHUNK_LINE.fullmatch(line)
        size = int(match[1], 16) if match else MAX_LENGTH + 1
        if size > MAX_LENGTH:
            raise RemoteProtocolError("the peer sent a chunk line that is no chunk size")
        self._overhead += max(0, len(line) - 16 - 2 * size)
        if self._overhead > self._limits.max_chunk_overhead:
            raise self._overhead_exceeded()
        return size

    async def _receive_line(self) -> bytes:
        """One line, without its CRLF; a bare line feed is no line end here."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > self._limits.max_chunk_overhead:
                raise self._overhead_exceeded()
            await self._require_more()
        if end > self._limits.max_chunk_overhead:
            raise self._overhead_exceeded()
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        if not line.endswith(b"\r\n"):
            raise RemoteProtocolError("the peer ended a chunk line with a bare line feed")
        return line[:-2]

    async def _receive_chunk_end(self) -> None:
        while len(self._buffer) < 2:
            await self._require_more()
        if self._buffer[:2] != b"\r\n":
            raise RemoteProtocolError("the peer's chunk is longer than its size")
        del self._buffer[:2]
        self._in_chunk = False

    async def _require_more(self) -> None:
        data = await self._stream.receive_some()
        if not data:
            raise self._cut_short()
        self._buffer += data

    async def _receive_trailers(self) -> None:
        end = await self._receive_trailer_section()
        if end > 2:
            raw = bytes(self._buffer[:end])
            if raw.count(b"\n") - 1 > self._limits.max_trailers:
                raise MessageTooLarge(f"more than {self._limits.max_trailers} trailer fields (max_trailers)")
            self.trailers = parse_trailers(raw)
        del self._buffer[:end]

    async def _receive_trailer_section(self) -> int:
        """How many buffered bytes the trailer section has, its blank line included."""
        searched = 0
        while True:
            if self._buffer.startswith(b"\r\n"):
                return 2
            match = _BLANK_LINE.search(self._buffer, searched)
            size = match.end() if match else len(self._buffer)
            if size > self._limits.max_head:
                raise MessageTooLarge(
                    f"the trailer section has more than {self._limits.max_head} bytes (max_head)"
                )
            if match:
                return size
            searched = max(0, size - 2)
            await self._require_more()

    def _overhead_exceeded(self) -> MessageTooLarge:
        return MessageTooLarge(
            f"chunk lines take more than {self._limits.max_chunk_overhead} bytes (max_chunk_overhead)"
        )

    # Afterwards ...

    @property
    def oddities(self) -> tuple[str, ...]:
        """What was repaired or tolerated on the wire."""
        leftover = self._finished and self._framing is not Framing.TO_EOF and self._buffer
        return (*self._oddities, "bytes after the response") if leftover else tuple(self._oddities)

    @property
    def complete(self) -> bool:
        """True once all content came and something proves it (decision D-5)."""
        return self._finished and not (self._framing is Framing.TO_EOF and self._stream.cut_short)

    @property
    def reusable(self) -> bool:
        """True if nothing at all was odd, so that the stream may serve another exchange."""
        return (
            self._sent
            and self._finished
            and self.head is not None
            and not self.head.closing
            and self._framing is not Framing.TO_EOF
            and not self.oddities
        )


def _framing(head: Head, method: str) -> tuple[Framing, int]:
    """How the content ends, and its length if that is known; RFC 9112 6.3 in its order."""
    if method == "HEAD" or head.status in _NO_CONTENT or (head.content_length == 0 and not head.chunked):
        return Framing.NONE, 0
    if head.chunked:
        return Framing.CHUNKED, 0
    if head.content_length is not None:
        return Framing.LENGTH, head.content_length
    return Framing.TO_EOF, 0


def _closing(content: AsyncIterable[bytes]) -> AbstractAsyncContextManager[object]:
    """Close a generator before the fetch ends, as trio asks; other iterables have nothing to close."""
    return aclosing(content) if isinstance(content, AsyncGenerator) else nullcontext()


def _too_much_content(limits: Limits) -> InvalidArgument:
    return InvalidArgument(
        f"the request content has more than {limits.max_request_content} bytes (max_request_content)",
        reason=Reason.REQUEST_TOO_LARGE,
    )
