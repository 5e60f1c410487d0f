"""Faults of peers that speak HTTP badly, slowly, too much or not at all; in virtual time."""

import select
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final

import trio

import tidegate
from tests.faults.fault import Answer, Failure, MemoryFault, timed_out
from tidegate import Phase, Reason
from tidegate.testing.memory import Peer, Script
from tidegate.testing.origin import compress

OK: Final = b"HTTP/1.1 200 OK\r\n"
BY_LENGTH: Final = OK + b"Content-Length: 10\r\n\r\n"
CHUNKED: Final = OK + b"Transfer-Encoding: chunked\r\n\r\n"
TO_THE_END: Final = OK + b"\r\n"
MIB: Final = 1 << 20
UPLOAD: Final = {"method": "POST", "content": bytes(MIB)}

# What peers do ...


def says(data: bytes) -> Script:
    """Reads the request, says this, and closes."""

    async def script(peer: Peer) -> None:
        await peer.receive_head()
        await peer.send(data)

    return script


def falls_silent(data: bytes) -> Script:
    """Reads the request, says this and no more."""

    async def script(peer: Peer) -> None:
        await peer.receive_head()
        await peer.send(data)
        await peer.until_closed()

    return script


def repeats(data: bytes, again: bytes, seconds: float = 0.0) -> Script:
    """Reads the request, says `data`, then `again` for ever, with a pause of so many seconds each time."""

    async def script(peer: Peer) -> None:
        await peer.receive_head()
        await peer.send(data)
        while True:
            await trio.sleep(seconds)
            await peer.send(again)

    return script


async def closes(_: Peer) -> None:
    """Closes before it reads anything."""


async def reads_on(peer: Peer) -> None:
    """Reads whatever comes, and says nothing."""
    await peer.until_closed()


async def reads_nothing(peer: Peer) -> None:
    """Neither reads nor writes; hears the client hang up all the same."""
    await wait_until_hung_up(peer)


async def wait_until_hung_up(peer: Peer) -> None:
    """Waits for the client's end without reading what lies before it; no event tells that."""
    stream = peer.stream
    assert isinstance(stream, trio.SocketStream)
    while not _hung_up(stream):
        await trio.sleep(0.25)


def _hung_up(stream: trio.SocketStream) -> bool:
    poll = select.poll()
    poll.register(stream.socket.fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))


async def reads_slowly(peer: Peer) -> None:
    """A kilobyte of an upload a second."""
    while await peer.stream.receive_some(1024):
        await trio.sleep(1)


def answers_early(then: Callable[[Peer], Awaitable[None]]) -> Script:
    """Says 413 on the head of an upload."""

    async def script(peer: Peer) -> None:
        await peer.receive_head()
        await peer.respond(b"too large", status="413 Content Too Large")
        await then(peer)

    return script


def blurts(data: bytes) -> Script:
    """Speaks before it was spoken to, as other protocols do."""

    async def script(peer: Peer) -> None:
        await peer.send(data)
        await peer.until_closed()

    return script


async def half_closes(peer: Peer) -> None:
    """A good answer, then the end of what it says while it reads on."""
    await peer.receive_head()
    await peer.respond(b"good bye")
    assert isinstance(peer.stream, trio.SocketStream)
    await peer.stream.send_eof()
    await peer.until_closed()


def closes_in_flight(first_words: bytes = b"") -> Script:
    """Answers once on each connection; the next request gets these words and the end."""

    async def script(peer: Peer) -> None:
        await peer.receive_request()
        await peer.respond(b"ok")
        if await peer.receive_head() is not None:
            await peer.send(first_words)

    return script


def redirects(*fields: tuple[str, str], status: str = "302 Found") -> Script:
    """Leads elsewhere, every time."""

    async def script(peer: Peer) -> None:
        while await peer.receive_request() is not None:
            await peer.respond(status=status, fields=fields)

    return script


def redirects_upload(location: str) -> Script:
    """Asks for the upload once more, elsewhere, before it was read."""

    async def script(peer: Peer) -> None:
        await peer.receive_head()
        await peer.respond(status="307 Temporary Redirect", fields=[("Location", location)])
        await peer.until_closed()

    return script


async def redirects_after(peer: Peer) -> None:
    """Thinks four seconds about each redirect."""
    while await peer.receive_request() is not None:
        await trio.sleep(4)
        await peer.respond(status="302 Found", fields=[("Location", "/again")])


def coded(coding: str, content: bytes) -> bytes:
    """A whole answer whose content is said to be coded so."""
    head = f"Content-Encoding: {coding}\r\nContent-Length: {len(content)}\r\n\r\n"
    return OK + head.encode() + content


def bomb(coding: str, layers: int = 1) -> Script:
    """Sixteen mebibytes of nothing, packed."""

    async def script(peer: Peer) -> None:
        content = compress(coding, 16 * MIB, layers)
        await says(coded(", ".join([coding] * layers), content))(peer)

    return script


class Pieces:
    """Request content in pieces; an iterator and no generator, so that nothing waits to be closed."""

    def __init__(self, *pieces: bytes, pause: float = 0.0) -> None:
        self._pieces, self._pause = pieces, pause

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _PiecesOnce(iter(self._pieces), self._pause)


class _PiecesOnce:
    def __init__(self, pieces: Iterator[bytes], pause: float) -> None:
        self._pieces, self._pause = pieces, pause

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await trio.sleep(self._pause)
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration


# What must come of it ...

LOST = Failure(tidegate.ConnectionLost, Phase.HEAD)
CUT = Failure(tidegate.IncompleteContent, Phase.CONTENT)
BAD_HEAD = Failure(tidegate.RemoteProtocolError, Phase.HEAD)
BAD_CONTENT = Failure(tidegate.RemoteProtocolError, Phase.CONTENT)
REDIRECT = Failure(tidegate.BadRedirect, Phase.REDIRECT)


def too_large(phase: Phase, limit: str) -> Failure:
    """Over a limit, which the message names."""
    return Failure(tidegate.MessageTooLarge, phase, told=limit)


def fault(done: str, script: Script, gives: Failure | Answer, **more: Any) -> MemoryFault:
    """A row."""
    return MemoryFault(done=done, script=script, gives=gives, **more)


def each(
    done: str, texts: dict[str, bytes], does: Callable[[bytes], Script], gives: Any
) -> list[MemoryFault]:
    """The same fault at several places."""
    return [fault(f"{done} {place}", does(text), gives) for place, text in texts.items()]


IN_HEAD: Final = {
    "before a byte": b"",
    "after one byte": b"H",
    "within the version": b"HTTP/1",
    "within the status": b"HTTP/1.1 20",
    "within a field": OK + b"Content-Le",
    "before the blank line": OK + b"Content-Length: 10\r\n",
    "within the blank line": OK + b"Content-Length: 10\r\n\r",
    "after an interim response": b"HTTP/1.1 103 Early Hints\r\n\r\n",
}
IN_CONTENT: Final = {
    "before the content": BY_LENGTH,
    "within the content": BY_LENGTH + b"12345",
    "a byte before the end": BY_LENGTH + b"123456789",
    "before the first chunk": CHUNKED,
    "within a chunk line": CHUNKED + b"1",
    "within the end of a chunk line": CHUNKED + b"5\r",
    "within a chunk": CHUNKED + b"5\r\nhel",
    "at the end of a chunk": CHUNKED + b"5\r\nhello",
    "between two chunks": CHUNKED + b"5\r\nhello\r\n",
    "before the trailer section": CHUNKED + b"5\r\nhello\r\n0\r\n",
    "within a trailer": CHUNKED + b"5\r\nhello\r\n0\r\nX-Sum: 1",
    "after the trailers": CHUNKED + b"5\r\nhello\r\n0\r\nX-Sum: 1\r\n",
    "within coded content": OK + b"Content-Encoding: gzip\r\nContent-Length: 99\r\n\r\n\x1f\x8b\x08",
}

ENDINGS: Final = [
    fault("closes before it reads", closes, LOST),
    *each("ends", IN_HEAD, says, LOST),
    *each("ends", IN_CONTENT, says, CUT),
    fault("half-closes after a good answer", half_closes, Answer(size=8)),
    fault(
        "closes a kept connection before the next request", says(BY_LENGTH + bytes(10)), Answer(), earlier=1
    ),
    fault("closes a kept connection in flight, GET", closes_in_flight(), Answer(size=2), earlier=1),
    fault(
        "closes a kept connection in flight, POST",
        closes_in_flight(),
        LOST,
        earlier=1,
        arguments={"method": "POST", "content": b"once"},
    ),
    fault("closes a kept connection within the answer", closes_in_flight(b"HTTP/1.1 2"), LOST, earlier=1),
]

SILENCES: Final = [
    *each("falls silent", IN_HEAD, falls_silent, timed_out(Phase.HEAD)),
    *each("falls silent", IN_CONTENT, falls_silent, timed_out(Phase.CONTENT)),
    fault("falls silent where only the end tells", falls_silent(TO_THE_END + b"x"), timed_out(Phase.CONTENT)),
    fault("never reads an upload", reads_nothing, timed_out(Phase.SEND), arguments=UPLOAD),
    fault("reads an upload slowly", reads_slowly, timed_out(Phase.SEND), arguments=UPLOAD),
    fault(
        "reads an upload in pieces and never answers",
        reads_on,
        timed_out(Phase.HEAD),
        arguments={"method": "POST", "content": Pieces(b"one", b"two")},
    ),
    fault("reads an upload and never answers", falls_silent(b""), timed_out(Phase.HEAD), arguments=UPLOAD),
]

DRIPS: Final = [
    fault(f"drips {what}", repeats(start, again, 0.9), timed_out(phase))
    for what, start, again, phase in [
        ("the status line", b"HTTP/1.1 200 ", b"O", Phase.HEAD),
        ("fields", OK, b"X: y\r\n", Phase.HEAD),
        ("one field", OK + b"X: ", b"y", Phase.HEAD),
        ("interim responses", b"", b"HTTP/1.1 102 Wait\r\n\r\n", Phase.HEAD),
        ("content", OK + b"Content-Length: 99\r\n\r\n", b"x", Phase.CONTENT),
        ("content to its end", TO_THE_END, b"x", Phase.CONTENT),
        ("chunk sizes", CHUNKED, b"0", Phase.CONTENT),
        ("chunk extensions", CHUNKED + b"5;", b"x", Phase.CONTENT),
        ("chunks", CHUNKED, b"1\r\nx\r\n", Phase.CONTENT),
        ("trailers", CHUNKED + b"0\r\n", b"X: y\r\n", Phase.CONTENT),
        (
            "gzip that yields nothing",
            OK + b"Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x08" + bytes(6),
            b"x",
            Phase.CONTENT,
        ),
    ]
]
DRIPS.append(fault("drips redirects", redirects_after, timed_out(Phase.HEAD), limits={"max_redirects": 9}))

ENDLESS: Final = [
    fault(
        "endless status line",
        repeats(b"HTTP/1.1 200 ", bytes(1000).replace(b"\0", b"x")),
        too_large(Phase.HEAD, "max_head"),
    ),
    fault("endless fields", repeats(OK, b"X: y\r\n" * 200), too_large(Phase.HEAD, "max_head")),
    fault("one field without end", repeats(OK + b"X: ", b"y" * 4096), too_large(Phase.HEAD, "max_head")),
    fault("too many fields", says(OK + b"X: y\r\n" * 257 + b"\r\n"), too_large(Phase.HEAD, "max_fields")),
    fault(
        "endless interim responses",
        repeats(b"", b"HTTP/1.1 102 Wait\r\n\r\n"),
        too_large(Phase.HEAD, "max_interim"),
    ),
    fault(
        "endless content by length",
        repeats(OK + b"Content-Length: 4611686018427387904\r\n\r\n", bytes(65536)),
        Answer(truncated=True, complete=False, size=4 * MIB),
    ),
    fault(
        "endless content to the end",
        repeats(TO_THE_END, bytes(65536)),
        Answer(truncated=True, complete=False, size=4 * MIB),
    ),
    fault(
        "endless chunks",
        repeats(CHUNKED, b"10000\r\n" + bytes(65536) + b"\r\n"),
        Answer(truncated=True, complete=False, size=4 * MIB),
    ),
    fault(
        "endless chunks of a byte",
        repeats(CHUNKED, b"1\r\nx\r\n" * 1000),
        Answer(truncated=True, complete=False, size=10_000),
        limits={"max_content": 10_000},
    ),
    fault(
        "a chunk line without end",
        repeats(CHUNKED + b"1;", b"x" * 4096),
        too_large(Phase.CONTENT, "max_chunk_overhead"),
    ),
    fault(
        "a chunk size without end",
        repeats(CHUNKED, b"0" * 4096),
        too_large(Phase.CONTENT, "max_chunk_overhead"),
    ),
    fault(
        "endless extensions",
        repeats(CHUNKED, b"1;" + b"x" * 4000 + b"\r\na\r\n"),
        too_large(Phase.CONTENT, "max_chunk_overhead"),
    ),
    fault(
        "endless trailers",
        repeats(CHUNKED + b"0\r\n", b"X-Pad: " + b"x" * 4000 + b"\r\n"),
        too_large(Phase.CONTENT, "max_head"),
    ),
    fault(
        "too many trailers",
        says(CHUNKED + b"0\r\n" + b"X: y\r\n" * 101 + b"\r\n"),
        too_large(Phase.CONTENT, "max_trailers"),
    ),
    fault(
        "endless redirects",
        redirects(("Location", "/again")),
        Failure(tidegate.TooManyRedirects, Phase.REDIRECT),
        limits={"max_redirects": 5},
    ),
]

BOMBS: Final = [
    *(
        fault(
            f"a {coding} bomb, {layers} deep",
            bomb(coding, layers),
            Answer(truncated=True, complete=False, size=MIB),
            limits={"max_content": MIB},
        )
        for coding in ("gzip", "deflate", "br", "zstd")
        for layers in (1, 2)
    ),
    fault(
        "more codings than are undone",
        says(coded("gzip, gzip, gzip, gzip", b"x")),
        too_large(Phase.HEAD, "max_codings"),
    ),
    fault(
        "more gzip members than are read",
        says(coded("gzip", zlib.compress(b"", wbits=31) * 1025)),
        too_large(Phase.CONTENT, "max_coding_members"),
    ),
    fault(
        "a gzip name of megabytes, which yields nothing",
        says(coded("gzip", b"\x1f\x8b\x08\x08" + bytes(6) + b"x" * 2 * MIB)),
        Answer(truncated=True, complete=False, size=0),
        limits={"max_content": MIB},
    ),
    fault(
        "a zstd window of a gigabyte",
        says(coded("zstd", b"\x28\xb5\x2f\xfd\x00\xa0" + bytes(20))),
        too_large(Phase.CONTENT, "window"),
    ),
    *(
        fault(f"{coding} that is none", says(coded(coding, b"\xff" * 64)), BAD_CONTENT)
        for coding in ("gzip", "deflate", "br", "zstd")
    ),
    fault(
        "gzip with a wrong checksum",
        says(coded("gzip", zlib.compress(b"content", wbits=31)[:-8] + bytes(8))),
        BAD_CONTENT,
    ),
    fault(
        "gzip that was cut, in a whole message",
        says(coded("gzip", zlib.compress(bytes(range(256)), wbits=31)[:-20])),
        Answer(complete=False),
    ),
    fault(
        "a field without a name",
        says(OK + b": value\r\nContent-Length: 2\r\n\r\nok"),
        Answer(size=2, odd=True),
    ),
    fault("an unknown coding", says(coded("lzw", b"as it came")), Answer(size=10, odd=True)),
]

WRONG_LENGTHS: Final = [
    fault("content longer than said", falls_silent(BY_LENGTH + bytes(15)), Answer(size=10, odd=True)),
    fault(
        "a second answer in the same packet",
        falls_silent((BY_LENGTH + bytes(10)) * 2),
        Answer(size=10, odd=True),
    ),
    fault("a chunk longer than its size", says(CHUNKED + b"5\r\nhello!\r\n"), BAD_CONTENT),
    fault("a chunk size that is none", says(CHUNKED + b"five\r\nhello\r\n"), BAD_CONTENT),
    fault("a negative chunk size", says(CHUNKED + b"-5\r\nhello\r\n"), BAD_CONTENT),
    fault("a chunk size of 2 to the 80", says(CHUNKED + b"1" + b"0" * 20 + b"\r\n"), BAD_CONTENT),
    fault("a chunk line with a bare line feed", says(CHUNKED + b"5\nhello\r\n"), BAD_CONTENT),
    fault("two lengths", says(OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"), BAD_HEAD),
    fault("a length that is none", says(OK + b"Content-Length: five\r\n\r\nhello"), BAD_HEAD),
    fault("a negative length", says(OK + b"Content-Length: -5\r\n\r\nhello"), BAD_HEAD),
    fault("a length of 2 to the 70", says(OK + b"Content-Length: 1180591620717411303424\r\n\r\n"), BAD_HEAD),
    fault("a transfer coding that is unknown", says(OK + b"Transfer-Encoding: gzip\r\n\r\n"), BAD_HEAD),
]

OTHER_PROTOCOLS: Final = [
    *(
        fault(f"speaks {protocol}", blurts(words), BAD_HEAD)
        for protocol, words in {
            "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
            "SMTP": b"220 mail.example ESMTP\r\n",
            "TLS": b"\x15\x03\x01\x00\x02\x02\x46",
            "HTTP/2": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00",
            "Redis": b"-ERR wrong number of arguments\r\n",
            "HTTP/0.9": b"<html>hello</html>",
            "nothing at all": bytes(64),
            "HTTP/2.0 in words": b"HTTP/2.0 200 OK\r\n\r\n",
            "HTTP in lower case": b"http/1.1 200 OK\r\n\r\n",
            "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
            "with blank lines first": b"\r\n" + TO_THE_END,
            "a null in a field": OK + b"X: a\0b\r\n\r\n",
        }.items()
    ),
    fault(
        "switches protocols unasked",
        says(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
        BAD_HEAD,
    ),
]

EARLY_ANSWERS: Final = [
    fault(
        "answers an upload early and reads on",
        answers_early(reads_on),
        Answer(413, size=9),
        arguments=UPLOAD,
    ),
    fault(
        "answers an upload early and reads no more",
        answers_early(wait_until_hung_up),
        Answer(413, size=9),
        arguments=UPLOAD,
    ),
    fault("answers an upload early and closes", answers_early(closes), Answer(413, size=9), arguments=UPLOAD),
    fault(
        "answers an upload early while more of it is being made",
        answers_early(reads_on),
        Answer(413, size=9),
        arguments={"method": "POST", "content": Pieces(*[b"x" * 1000] * 100, pause=1)},
    ),
    fault("closes within an upload", closes, LOST, arguments=UPLOAD),
    fault("meets an upload with garbage", blurts(bytes(9)), BAD_HEAD, arguments=UPLOAD),
]

REDIRECTS: Final = [
    fault(done, script, gives, limits={"max_redirects": 3}, arguments=arguments)
    for done, script, gives, arguments in [
        ("redirects to no URL", redirects(("Location", "http://[::1")), REDIRECT, {}),
        ("redirects to two places", redirects(("Location", "/1"), ("Location", "/2")), REDIRECT, {}),
        (
            "redirects to another scheme",
            redirects(("Location", "ftp://a.example/")),
            Failure(tidegate.SchemeDenied, Phase.REDIRECT),
            {},
        ),
        (
            "redirects to this machine",
            redirects(("Location", "http://127.0.0.1/")),
            Failure(tidegate.AddressDenied, Phase.CHECK, Reason.LOOPBACK),
            {},
        ),
        (
            "redirects to the metadata service",
            redirects(("Location", "http://169.254.169.254/")),
            Failure(tidegate.AddressDenied, Phase.CHECK, Reason.IMDS),
            {},
        ),
        (
            "redirects to a bad port",
            redirects(("Location", "http://a.example:25/")),
            Failure(tidegate.PortDenied, Phase.CHECK),
            {},
        ),
        (
            "redirects content that cannot be made again",
            redirects_upload("/again"),
            Failure(tidegate.BadRedirect, Phase.REDIRECT, Reason.CONTENT_NOT_REPLAYABLE),
            {"method": "POST", "content": Pieces(b"once")},
        ),
    ]
]

PEER_FAULTS: Final = [
    *ENDINGS,
    *SILENCES,
    *DRIPS,
    *ENDLESS,
    *BOMBS,
    *WRONG_LENGTHS,
    *OTHER_PROTOCOLS,
    *EARLY_ANSWERS,
    *REDIRECTS,
]
