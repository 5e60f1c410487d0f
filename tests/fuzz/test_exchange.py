"""Whatever bytes a peer sends, `fetch` gives a `Response` within its caps or a `FetchError`, nothing else.

How the bytes are cut up, and whether the content is streamed, must not matter: the same message whole, in
pieces and byte by byte ends the same. And none of it ever answers the fetch that follows (see `Player`).
"""

import ast
import gzip
import json
import random
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import pytest
import trio
import trustme
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

import tidegate
from tests.support.data import SUITES, corpus
from tests.support.player import URL, open_player

AUTHORITY = trustme.CA()
TLS = tidegate.client_context(ca_data=AUTHORITY.cert_pem.bytes().decode())
SERVER_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
AUTHORITY.issue_cert("a.example").configure_cert(SERVER_TLS)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
# Small, so that small messages reach them.
LIMITS = tidegate.Limits(
    timeout=3600,
    max_content=24,
    max_head=1024,
    max_fields=8,
    max_interim=2,
    max_trailers=2,
    max_chunk_overhead=1024,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a fetch came to. Oddities are left out: bytes that come too late cannot be one."""

    reason: str | None = None
    received: int = 0
    facts: tuple[object, ...] = ()
    content: bytes = b""


Fetch: TypeAlias = Callable[..., Awaitable[Outcome]]
Play: TypeAlias = tuple[Sequence[bytes], Fetch]


async def fetched(engine: tidegate.Engine, limits: tidegate.Limits) -> Outcome:
    """By `fetch`; an exception that is no FetchError fails the test."""
    try:
        response = await engine.fetch(URL, limits=limits)
    except tidegate.FetchError as error:
        return failed(error)
    return Outcome(None, 0, facts_of(response), response.content)


async def streamed(engine: tidegate.Engine, limits: tidegate.Limits) -> Outcome:
    """The same by `stream`."""
    content = b""
    try:
        async with engine.stream(URL, limits=limits) as response:
            async for piece in response:
                content += piece
    except tidegate.FetchError as error:
        return failed(error)
    return Outcome(None, 0, facts_of(response), content)


def failed(error: tidegate.FetchError) -> Outcome:
    received = error.received if isinstance(error, tidegate.IncompleteContent) else 0
    return Outcome(error.reason.value, received)


def facts_of(response: tidegate.Response | tidegate.ResponseStream) -> tuple[object, ...]:
    assert response.http_version in ("1.0", "1.1")
    assert not (response.truncated and response.complete)
    assert len(response.headers.raw) <= LIMITS.max_fields
    assert len(response.trailers.raw) <= LIMITS.max_trailers
    fields = (response.headers.raw, response.trailers.raw)
    return response.status, str(response.url), *fields, response.truncated, response.complete


def outcomes(
    plays: Sequence[tuple[Sequence[bytes], Fetch]], limits: tidegate.Limits = LIMITS
) -> list[Outcome]:
    """What each of the answers, in pieces, comes to by one engine."""
    # Right after a redirect nobody can know that more bytes are on their way on a connection.
    options = {"tls": TLS, "server_tls": SERVER_TLS, "max_idle": 0 if limits.max_redirects else 8}

    async def play() -> list[Outcome]:
        async with trio.open_nursery() as nursery:
            async with open_player(nursery, **options) as player:
                found = [await player.play(pieces, partial(fetch, limits=limits)) for pieces, fetch in plays]
            nursery.cancel_scope.cancel()
        return found

    return trio.run(play, clock=MockClock(autojump_threshold=0))


def cut(message: bytes, places: Sequence[int]) -> list[bytes]:
    ends = sorted({place % len(message) for place in places} - {0})
    return [message[start:end] for start, end in zip([0, *ends], [*ends, len(message)], strict=True)]


def bytewise(message: bytes) -> list[bytes]:
    return cut(message, range(len(message)))


# Messages: what others have found to be hard, changed in a few places ...


def hard_messages() -> Iterator[bytes]:
    yield from (ast.literal_eval(row["server_bytes"]) for row in corpus("wire") if "server_bytes" in row)
    content = gzip.compress(b"tide") + gzip.compress(b"gate")
    yield b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (
        len(content),
        content,
    )
    llhttp = SUITES / "llhttp-response" / "cases.jsonl"
    if llhttp.exists():
        lines = llhttp.read_text(encoding="utf-8").splitlines()
        yield from (json.loads(line)["server_bytes"].encode() for line in lines)
    chromium = SUITES / "chromium-chunked" / "cases.json"
    if chromium.exists():
        cases = json.loads(chromium.read_text(encoding="utf-8"))
        yield from (CHUNKED + "".join(case["pieces"]).encode("latin-1") for case in cases)


SEEDS = sorted({message for message in hard_messages() if len(message) <= 300})
PARTS = (
    b"\r\n", b"\n", b"\r", b"\0", b" ", b":", b",", b";", b"0", b"5", b"-", b"\xff",
    b"0\r\n\r\n", b"1\r\n", b"X/Y: 1\r\n", b"Connection: close\r\n", b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Content-Encoding: gzip\r\n", b"Content-Encoding: br, gzip\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nplanted",
)  # fmt: skip
changes = st.lists(
    st.tuples(
        st.integers(0, 300), st.integers(0, 3), st.one_of(st.sampled_from(PARTS), st.binary(max_size=3))
    ),
    max_size=3,
)


def changed(message: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    for at, removed, added in changes:
        message = message[:at] + added + message[at + removed :]
    return message or b"\n"


messages = st.builds(changed, st.sampled_from(SEEDS), changes)
places = st.lists(st.integers(0, 300), max_size=4)


@settings(max_examples=120, deadline=None)
@given(message=messages, places=places)
# A higher minor version is read as 1.1 (RFC 9110 2.5, corpus: status-http12).
@example(message=b"HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok", places=[])
# The end of a chunk is no part of it: what came before is content, with a cap (D-4) and without (D-5).
@example(message=CHUNKED + b"5\r\nhello", places=[])
@example(message=CHUNKED + b"20\r\n" + b"x" * 32, places=[])
@example(message=CHUNKED + b"20\r\n" + b"x" * 32 + b"??", places=[])
# Limits are what they say, however much comes at once.
@example(message=CHUNKED + b"0\r\nA: " + b"x" * 1100 + b"\r\n\r\n", places=[])
@example(message=CHUNKED + b"400;" + b"x" * 1100 + b"\r\n" + b"x" * 1024 + b"\r\n0\r\n\r\n", places=[])
def test_any_answer(message: bytes, places: list[int]) -> None:
    plays = [([message], fetched), (bytewise(message), fetched), (cut(message, places), streamed)]
    whole, *others = outcomes(plays)
    assert others == [whole, whole]


LOCATION_PARTS = (
    b"http", b"https", b"ftp", b":", b"//", b"/", b"\\", b"a.example", b"127.1", b"[::1]", b"@", b"?", b"#",
    b"..", b"%2e", b"\xc3\xbc", b"\xff", b" ", b"\t", b":80", b":0", b"xn--", b"\0", b"\x85", b"localhost",
)  # fmt: skip
locations = st.one_of(
    st.binary(max_size=30), st.lists(st.sampled_from(LOCATION_PARTS), max_size=8).map(b"".join)
)


@settings(max_examples=80, deadline=None)
@given(status=st.sampled_from((301, 303, 307, 308)), location=locations, places=places)
def test_any_redirect(status: int, location: bytes, places: list[int]) -> None:
    message = b"HTTP/1.1 %d \r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % (status, location)
    plays = [([message], fetched), (cut(message, places), fetched)]
    whole, other = outcomes(plays, replace(LIMITS, max_redirects=1))
    assert whole == other


def test_cut_at_the_cap_on_encoded_content() -> None:
    """What came before the cap is kept, in one segment as in many (D-3, D-4)."""
    content = random.Random(0).randbytes(3000)
    message = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(content)
    limits = replace(LIMITS, max_content=4096, max_encoded_content=1000)
    whole, other = outcomes([([message], fetched), (bytewise(message), fetched)], limits)
    assert whole == other
    assert 0 < len(whole.content) < 1000
    assert content.startswith(whole.content)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.mark.parametrize(
    ("interim", "reused"),
    [
        (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", True),
        (b"HTTP/1.1 103 Early Hints\r\nLink : </a>\r\n\r\n", False),
        (b"HTTP/1.1 103 Early Hints\r\nLi/nk: </a>\r\n\r\n", False),
        (b"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n", False),
        (b"HTTP/1.1 100 Continue\r\nTransfer-Encoding: chunked\r\n\r\n", False),
        (b"HTTP/1.1 100 Continue\r\nConnection: close\r\n\r\n", False),
    ],
)
async def test_odd_interim_response(
    interim: bytes, reused: bool, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """Whatever is odd about any head, the connection serves no other fetch."""
    async with open_player(nursery) as player:
        outcome = await player.play([interim + OK], partial(fetched, limits=LIMITS))
        assert outcome.content == b"ok"
        assert player.reused is reused
