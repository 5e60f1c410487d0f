"""The response suites of other projects, every case through the whole engine.

Each suite is one test: what differs from its expectations must be exactly what the table beside it lists,
with the reason, so that a new difference fails and so does one that disappears. After every case an ordinary
fetch follows on whatever connection was kept: no case may touch its answer (pitfall 1).
"""

import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import trio

import tidegate
from tests.support.data import suite, suite_json
from tests.support.player import PACE, PATIENCE, URL, Player, open_player

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LIMITS = tidegate.Limits(timeout=2 * PATIENCE)

Differences = Mapping[str, tuple[object, str]]


@dataclass(frozen=True, slots=True)
class Played:
    """How one fetch ended, and when: `pieces` is the number of pieces the peer had sent by then."""

    response: tidegate.Response | None
    reason: str | None
    pieces: int
    waited: bool

    @property
    def refused(self) -> bool:
        """What came was judged; an end that came too early is not meant."""
        return self.reason in ("protocol_error", "message_too_large")

    @property
    def kind(self) -> str:
        """What was made of it: refused, whole while the peer kept the connection, or waits for its end."""
        return "refused" if self.refused else "waits" if self.waited else "whole"


async def replay(player: Player, *pieces: bytes, method: str = "GET") -> Played:
    """Fetch from a peer that sends the pieces, and say how that ended."""

    async def fetch(engine: tidegate.Engine) -> Played:
        response = reason = None
        started = trio.current_time()
        try:
            response = await engine.fetch(URL, method=method, limits=LIMITS)
        except tidegate.FetchError as error:
            reason = error.reason.value
        seconds = trio.current_time() - started
        return Played(response, reason, 1 + int(seconds / PACE), seconds >= PATIENCE)

    return await player.play(pieces, fetch)


@pytest.fixture
async def player(nursery: trio.Nursery) -> AsyncIterator[Player]:
    async with open_player(nursery) as player:
        yield player


def chosen(differences: Differences) -> dict[str, object]:
    return {name: ours for name, (ours, _) in differences.items()}


# nodejs/llhttp, its strict mode unless a case says otherwise ...

BARE_LF = "a bare LF ends a line of a head (RFC 9112 2.2; devices do so); llhttp has that in its lenient mode"
NOT_ASKED = "RFC 9112 2.2 lets servers skip an empty line, not clients (corpus: status-leading-crlf)"
VERSION = "another major version is another syntax (RFC 9110 2.5); there is no lenient mode"
TRAILING_DATA = "the response is whole; what follows is not read, the connection closes (RFC 9112 9.6)"
CODINGS = "no transfer coding but chunked was offered: what comes cannot be decoded (RFC 9112 6.1, notes 5)"
LLHTTP: Differences = {
    "sample:RTSP response": (("refused", None), "another protocol"),
    "sample:ICE response": (("refused", None), "another protocol"),
    "sample:HTTP version 0.9": (("refused", None), VERSION),
    "lenient-version:Invalid HTTP version (lenient)": (("refused", None), VERSION),
    "sample:Response starting with CRLF": (("refused", None), NOT_ASKED),
    "sample:No carriage ret": (("waits", 200), BARE_LF),
    "invalid:Only LFs present": (("waits", 200), BARE_LF),
    "invalid:Only LFs present and no body": (("whole", 200), BARE_LF),
    "sample:Spaces in header name": (
        ("whole", 200),
        "a line whose name is no token is dropped, never a framing field; then closed (notes 7.2)",
    ),
    "invalid:Bare CR after response line (lenient)": (
        ("refused", None),
        "RFC 9112 2.2; there is no lenient mode",
    ),
    "invalid:Invalid space after start line": (
        ("waits", None),
        "a head is judged once its blank line has come; the line itself would be dropped (curl test 1473)",
    ),
    "transfer-encoding:Trailing space on chunked body": (
        ("whole", 200),
        "white space after a size is tolerated, as h11 and Chromium do (notes 5)",
    ),
    "transfer-encoding:No extension after semicolon": (
        ("whole", 200),
        "extensions are skipped to the line end and counted (RFC 9112 7.1.1)",
    ),
    "transfer-encoding:Unbalanced chunk extensions quoting": (
        ("waits", None),
        "extensions are skipped to the line end; a quoted string cannot hold one (RFC 9110 5.6.4)",
    ),
    "transfer-encoding:`chunked` before other transfer-encoding": (("refused", None), CODINGS),
    "transfer-encoding:multiple transfer-encoding where chunked is not the last one": (
        ("refused", None),
        CODINGS,
    ),
    "transfer-encoding:`chunkedchunked` transfer-encoding does not enable chunked enconding": (
        ("refused", None),
        CODINGS,
    ),
    "transfer-encoding:Invalid OBS fold after chunked value": (
        ("refused", None),
        "a folded framing field is read differently by different readers; there is no lenient mode",
    ),
    "connection:HTTP/1.1 with keep-alive disabled and 204 status": (("whole", 204), TRAILING_DATA),
    "connection:HTTP/1.1 with keep-alive disabled, content-length": (("whole", 200), TRAILING_DATA),
    "connection:HTTP 100 first, then 400": (
        ("refused", None),
        f"an empty line comes first: {NOT_ASKED}",
    ),
    "connection:HTTP 103 first, then 200": (
        ("waits", None),
        "llhttp counts the interim response; the final one is a byte short of its length (RFC 9110 15.2)",
    ),
}


def llhttp_verdict(row: dict[str, Any]) -> tuple[str, int | None]:
    if row["llhttp_error"]:
        return "refused", None
    return "whole" if row["llhttp_messages_complete"] else "waits", int(row["llhttp_status"])


async def test_llhttp(player: Player, autojump_clock: Any) -> None:
    rows = [json.loads(line) for line in suite("llhttp-response/cases.jsonl").read_text("utf-8").splitlines()]
    found = {}
    for row in rows:
        method = "HEAD" if row["meta"].get("skipBody") else "GET"
        played = await replay(player, row["server_bytes"].encode(), method=method)
        kind, status = llhttp_verdict(row)
        ours = played.response.status if played.response else None
        # llhttp does not say what a message cut short by its end is.
        if (played.kind, ours) != (kind, status) and not (kind == played.kind != "whole" and ours is None):
            found[row["id"].removeprefix("llhttp:")] = (played.kind, ours)
    assert len(rows) == 85
    assert found == chosen(LLHTTP)


# chromium/chromium, its chunked decoder ...

CHROMIUM: Differences = {
    "LF_InsteadOf_CRLF (Chromium accepts)": (
        ("refused", 1),
        "chunk lines end with CRLF: two readings of a boundary are worth nothing (RFC 9112 7.1, notes 7.2)",
    ),
    "TrailingTab": (
        ("whole", b"hello", False),
        "space and tab are one (RFC 9110 5.6.3), and h11 takes both",
    ),
}


def chromium_verdict(row: dict[str, Any]) -> tuple[object, ...]:
    if "error_at_piece" in row:
        return "refused", row["error_at_piece"] + 1
    if not row["eof"]:
        return ("waits",)
    return "whole", row["output"].encode(), row["bytes_after_eof"] > 0


async def test_chromium_chunked(player: Player, autojump_clock: Any) -> None:
    rows = suite_json("chromium-chunked/cases.json")
    found = {}
    for row in rows:
        first, *rest = [piece.encode("latin-1") for piece in row["pieces"]]
        played = await replay(player, CHUNKED + first, *rest)
        ours: tuple[object, ...] = (played.kind,)
        if played.refused:
            ours = "refused", played.pieces
        elif played.response is not None:
            followed = "bytes after the response" in played.response.oddities
            ours = "whole", played.response.content, followed
        if ours != chromium_verdict(row):
            found[row["name"]] = ours
    assert len(rows) == 28
    assert found == chosen(CHROMIUM)


# golang/go, its chunked reader ...

LONG_SIZE = "leading zeros do not change a number; at most 20 digits are read, as h11 does"
GO: Differences = {
    "ffffffffffffffff": ("refused", "over 2^63 is no sane size (D-4)"),
    "00000000000000000": (b"", LONG_SIZE),
    "00000000000000001": (b"x", LONG_SIZE),
}


async def test_go_chunked(player: Player, autojump_clock: Any) -> None:
    table = suite_json("go-chunked/cases.json")
    found: dict[str, object] = {}
    for text, size in table["hex"]:
        rest = b"\r\n\r\n" if text.endswith("0") else b"\r\nx\r\n0\r\n\r\n"
        played = await replay(player, CHUNKED + text.encode() + rest)
        ours = played.response.content if played.response else played.kind
        if ours != ("refused" if size is None else b"x" * min(size, 1)):
            found[text] = ours
    assert found == chosen(GO)
    for text, content in table["body"]:
        played = await replay(player, CHUNKED + text.encode())
        assert played.response is not None
        assert played.response.content == content.encode()
    for text in table["bad_footer"]:
        assert (await replay(player, CHUNKED + text.encode())).refused


# seanmonstar/httparse, its parser of response heads ...

HTTPARSE: Differences = {
    "test_response_reason_with_space_and_tab": (
        "Status",
        "a 101, and nobody asked to upgrade (notes 4)",
    ),
    "test_response_empty_lines_prefix_lf_only": ("Status", NOT_ASKED),
}


async def test_httparse(player: Player, autojump_clock: Any) -> None:
    rows = suite_json("httparse/response_cases.json")
    found = {}
    for row in rows:
        played = await replay(player, row["server_bytes"].encode("latin-1"))
        partial = played.reason == "connection_lost"
        ours = "ok" if played.response else "Partial" if partial else "Status"
        if ours != row["result"]:
            found[row["name"]] = ours
    assert len(rows) == 12
    assert found == chosen(HTTPARSE)


# web-platform-tests/wpt, fetch ...

NO_LENGTH = "a length that is no number is an unrecoverable error (RFC 9112 6.3), not an end by closing"
CONTENT_LENGTHS: Differences = {
    f"Content-Length: {value}": (None, NO_LENGTH)
    for value in (
        "aaaah\r\nContent-Length: aaaah",
        "aaaah, aaaah",
        "aaaah",
        "42s",
        "30s",
        "-1",
        "0x20",
    )
}


async def test_wpt_content_lengths(player: Player, autojump_clock: Any) -> None:
    rows = suite_json("wpt-h1/content-lengths.json")
    found = {}
    for row in rows:
        played = await replay(
            player, b"HTTP/1.1 200 OK\r\n" + row["input"].encode() + b"\r\n\r\n" + b"x" * 42
        )
        ours = len(played.response.content) if played.response else None
        assert (ours is None) is played.refused
        if ours != row["output"]:
            found[row["input"]] = ours
    assert len(rows) == 28
    assert found == chosen(CONTENT_LENGTHS)


BELOW_100 = "a status code has three digits and starts at 100 (RFC 9110 15)"
STATUS_CODES: Differences = dict.fromkeys(("0 OK", "1 OK", "99 NOT OK", "099 HELLO"), (None, BELOW_100))


async def test_wpt_status_codes(player: Player, autojump_clock: Any) -> None:
    rows = suite_json("wpt-h1/status-codes.json")
    found = {}
    for row in rows:
        played = await replay(
            player, b"HTTP/1.1 " + row["input"].encode() + b"\r\nheader-parsing: is sad\r\n\r\n"
        )
        ours = [played.response.status, played.response.reason_phrase] if played.response else None
        assert (ours is None) is played.refused
        if ours != row["expected"]:
            found[row["input"]] = ours
    assert len(rows) == 10
    assert found == chosen(STATUS_CODES)


@pytest.mark.parametrize(("name", "count"), [("lone-cr", 7), ("incomplete-response", 4)])
async def test_wpt_network_errors(name: str, count: int, player: Player, autojump_clock: Any) -> None:
    """Every entry is an error, as WPT says: no difference at all."""
    rows = suite_json(f"wpt-h1/{name}.json")["inputs"]
    accepted = [row for row in rows if (await replay(player, row.encode("latin-1"))).response]
    assert len(rows) == count
    assert accepted == []


# The expectations of the position matrix are ours: WPT's were never finished. One letter a place, which are
#   first, in-http, before-slash, after-slash, before-dot, after-dot, after-ver, before-num, after-num,
#   before-reason, after-reason, leading, in-name, before-colon, after-colon, in-value, after-value
# and the letters mean
#   .  the response as it was meant
#   -  without the field: its line was dropped, or is another field now (notes 7.2)
#   <  the head ends early, at a blank line that a bare LF makes (RFC 9112 2.2)
#   !  refused
MATRIX = {
    "LF": "!!!!!!!!.!<<!!!!<",  # after-num: " OK" is a line that starts with white space, and dropped
    "CR": "!!!!!!!!!!!!!!!!!",  # RFC 9112 2.2
    "HTAB": "!!!!!!!!!..--....",
    "SP": "!!!!!!!!...--....",
    "NULL": "!!!!!!!!!!!!!!!!!",  # RFC 9110 5.5
    "COLON": "!!!!!!!!!..--....",
}


def matrix_message(template: str, place: str, symbol: str) -> bytes:
    return re.sub(r"<([a-z-]+)>", lambda mark: symbol if mark[1] == place else "", template).encode("latin-1")


def matrix_letter(played: Played) -> str:
    if played.response is None:
        assert played.refused
        return "!"
    if played.response.content != b"Test.":
        return "<"
    return "." if "x-frame-options" in played.response.headers else "-"


async def test_wpt_position_matrix(player: Player, autojump_clock: Any) -> None:
    table = suite_json("wpt-h1/position-matrix.json")
    template = table["template"]
    places = re.findall(r"<([a-z-]+)>", template)
    found = {
        name: "".join(
            [matrix_letter(await replay(player, matrix_message(template, place, symbol))) for place in places]
        )
        for name, symbol in table["symbols"].items()
    }
    assert found == MATRIX
