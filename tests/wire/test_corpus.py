"""Every case of the wire corpus: bytes from public bug reports, through the whole engine (issue: wire).

Rows given as bytes or timed segments run here as they are. Rows given as a behaviour in words have a test of
their own, named after its id, in `test_corpus_behaviours`; a row that has neither fails.
"""

import ast
from typing import Any

import pytest
import trio

import tidegate
from tests.support.data import corpus
from tests.support.engines import engine_with
from tests.wire import test_corpus_behaviours
from tidegate.testing.memory import MemoryConnector, Peer

ROWS = {row["id"]: row for row in corpus("wire")}
REPLAYED = {row_id for row_id, row in ROWS.items() if "server_bytes" in row or "segments" in row}

# The words of the corpus for errors, as our reasons.
REASONS = {
    "protocol": "protocol_error",
    "decode": "protocol_error",
    "header_limit": "message_too_large",
    "message_too_large": "message_too_large",
    "incomplete_head": "connection_lost",
    "no_response": "connection_lost",
    "truncated": "incomplete_content",
    "timeout": "timeout",
    "bad_redirect": "bad_redirect",
    "body_not_replayable": "content_not_replayable",
}
# Where a row allows alternatives: what was chosen.
CHOSEN = {
    "status-leading-crlf": "an error: no server sends it on purpose, and a skipped line is a second reading",
    "status-http12": "1.x is read as 1.1, and the connection closed",
    "te-chunked-twice": "read as chunked, then closed",
    "te-identity-then-chunked": "read as chunked, then closed",
    "chunk-size-overflow": "a protocol error",
}


CHOSEN_OK = {"status-http12"}


def test_every_row_runs() -> None:
    """A row is replayed here, or has a test of its name in `test_corpus_behaviours` or a unit test."""
    elsewhere = {name.removeprefix("test_").replace("_", "-") for name in dir(test_corpus_behaviours)}
    assert len(ROWS) == 107
    assert set() == {row_id for row_id in set(ROWS) - REPLAYED if row_id.lower() not in elsewhere}


def segments(row: dict[str, Any]) -> list[bytes | float]:
    if "server_bytes" in row:
        return [ast.literal_eval(row["server_bytes"])]
    return [
        float(item.removeprefix("sleep ")) if item.startswith("sleep") else ast.literal_eval(item)
        for item in row["segments"]
    ]


async def once(data: bytes) -> Any:
    yield data


@pytest.mark.parametrize("row_id", sorted(REPLAYED))
async def test_row(row_id: str, nursery: trio.Nursery, autojump_clock: Any) -> None:
    row = ROWS[row_id]
    expect = row["expect"]
    paths: list[str] = []

    async def script(peer: Peer) -> None:
        # The row's bytes answer the first request; a second one on the same connection shows reuse.
        while (request := await peer.receive_request()) is not None:
            paths.append(request.line.split(" ")[1])
            if len(paths) > 1:
                await peer.respond(b"second")
                continue
            for item in segments(row):
                if isinstance(item, bytes):
                    await peer.send(item)
                else:
                    await trio.sleep(item)
            if row.get("then") == "close" and not expect.get("reuse"):
                return

    options: dict[str, Any] = {
        "method": row["request"].split(" ")[0],
        "limits": tidegate.Limits(
            max_redirects=row.get("max_redirects", int("consumed" in row_id)),
            max_content=expect.get("max_content", 4 << 20),
        ),
    }
    if row["request"] == "POST stream":
        options["content"] = once(b"only once")
    base = row.get("base", "http://a.example/")
    async with engine_with(nursery, script) as (engine, connector):
        if expect["outcome"] == "error" and row_id not in CHOSEN_OK:
            with pytest.raises(tidegate.FetchError) as caught:
                await engine.fetch(base, **options)
            check_error(row, caught.value)
        elif expect["outcome"] == "redirect":
            response = await engine.fetch(base, **options)
            assert expect["url"] == str(response.url)
        else:
            check_response(row, await engine.fetch(base, **options))
            reused = await second_fetch_reuses(engine, connector, options["method"])
            assert reused is (expect.get("reuse", reused) and row_id not in CHOSEN_OK), row["why"]


async def second_fetch_reuses(engine: tidegate.Engine, connector: MemoryConnector, method: str) -> bool:
    before = len(connector.connected)
    second = await engine.fetch("http://a.example/", method=method)
    assert second.content == (b"" if method == "HEAD" else b"second")  # and never what was planted
    return len(connector.connected) == before


def check_error(row: dict[str, Any], error: tidegate.FetchError) -> None:
    expect = row["expect"]
    assert error.reason == REASONS[expect["error"]], error
    if expect.get("hint") == "tls_record":
        assert "TLS" in str(error)
    if "partial" in expect and isinstance(error, tidegate.IncompleteContent):
        assert error.received == len(ast.literal_eval(expect["partial"]))


def check_response(row: dict[str, Any], response: tidegate.Response) -> None:
    expect = row["expect"]
    if "status" in expect:
        assert response.status == expect["status"]
    if "body" in expect:
        assert response.content == ast.literal_eval(expect["body"])
    for name, value in expect.get("headers", {}).items():
        assert response.headers[name] == value
    for name in expect.get("headers_absent", ()):
        assert name not in response.headers
    for name, value in expect.get("header_bytes", {}).items():
        assert {key.lower(): raw for key, raw in response.headers.raw}[name.encode()] == ast.literal_eval(
            value
        )
    for name, value in expect.get("trailers", {}).items():
        assert response.trailers[name] == value
    if expect.get("truncated"):
        assert response.truncated
    if expect.get("flag") == "truncated":
        assert not response.complete
