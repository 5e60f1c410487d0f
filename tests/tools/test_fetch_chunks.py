"""The chunks of a streamed call of `Fetch` (F-120, RFC 0029 of the reference kernel)."""

from typing import Any

import pytest
import trio
import trio.testing

from tests.support.fetch_tool import (
    Agent,
    Play,
    Site,
    answer,
)
from tidegate.testing.memory import Peer, ReceivedRequest
from tidegate_tools.registry import ToolContext

URL = "http://site.example/"


async def test_chunks(nursery: trio.Nursery) -> None:
    """F-120: pieces of at most 8,192 bytes, whole characters, the final hop only, the same result."""
    content = ("ü€\U0001f600x" * 3000).encode()
    pages: dict[str, bytes | Play] = {
        URL: answer(b"not this", "302 X", "Location: /next"),
        URL + "next": answer(content),
    }
    agent = Agent(nursery, Site(pages))
    result = await agent.fetch(URL, follow_redirects=True, stream=True)
    sizes = [len(chunk["content"].encode()) for chunk in agent.chunks]
    assert max(sizes) <= 8192
    assert len(sizes) >= len(content) // 8192
    assert "".join(chunk["content"] for chunk in agent.chunks) == result["body"] == content.decode()
    for number, chunk in enumerate(agent.chunks):
        metadata = {
            "tool": "Fetch",
            "url": URL + "next",
            "status": 200,
            "bytes_so_far": sum(sizes[: number + 1]),
        }
        assert chunk == {"op": "chunk", "kind": "body", "content": chunk["content"], "metadata": metadata}
    without = await agent.fetch(URL, follow_redirects=True)
    assert without | {"duration_s": 0} == result | {"duration_s": 0}


async def test_chunks_come_as_soon_as_there_is_something(nursery: trio.Nursery) -> None:
    """A page that is written line by line, and a character that comes in two halves."""
    agent: Agent
    seen: list[list[str]] = []

    async def slow(peer: Peer, _: ReceivedRequest) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (b"one ", b"tw\xc3", b"\xb6 ", b"\xe2\x82"):
            await peer.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            await trio.testing.wait_all_tasks_blocked()
            seen.append([chunk["content"] for chunk in agent.chunks])
        await peer.send(b"0\r\n\r\n")

    agent = Agent(nursery, Site({URL: slow}))
    result = await agent.fetch(URL, stream=True)
    assert seen == [["one "], ["one ", "tw"], ["one ", "tw", "ö "], ["one ", "tw", "ö "]]
    # What is left at the end is no character: the chunk has a replacement, the result is base64.
    assert agent.chunks[-1]["content"] == "\ufffd"
    assert agent.chunks[-1]["metadata"]["bytes_so_far"] == result["body_bytes"] == 11
    assert result["encoding"] == "base64"


async def test_chunks_end_at_the_cap(nursery: trio.Nursery) -> None:
    content = b"x" * 9999 + "ü".encode() * 5000
    agent = Agent(nursery, Site({URL: answer(content)}))
    result = await agent.fetch(URL, stream=True, max_bytes=10_000)
    assert "".join(chunk["content"] for chunk in agent.chunks) == result["body"] == "x" * 9999
    assert agent.chunks[-1]["metadata"]["bytes_so_far"] == result["body_bytes"] == 9999


async def test_no_chunks_unless_both_sides_want_them(nursery: trio.Nursery) -> None:
    agent = Agent(nursery, Site())
    await agent.fetch(URL)
    await agent.fetch(URL, stream=False)
    result = await agent.call(URL, stream=True)  # a context without a callback
    assert result.ok
    assert agent.chunks == []


async def test_what_a_callback_raises_is_swallowed(nursery: trio.Nursery) -> None:
    """F-120: sync and async, groups of exceptions too; and the next chunk is offered all the same."""
    calls: list[str] = []

    def broken(chunk: dict[str, Any]) -> None:
        calls.append("sync")
        raise ZeroDivisionError

    async def broken_async(chunk: dict[str, Any]) -> None:
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever)
            calls.append("async")
            raise ZeroDivisionError

    agent = Agent(nursery, Site({URL: answer(b"x" * 10_000)}))
    call = agent.registry.get("Fetch").call
    for on_chunk in (broken, broken_async):
        result = await call({"url": URL, "stream": True}, ToolContext(on_chunk=on_chunk))
        assert result.ok
        assert isinstance(result.value, dict)
        assert result.value["body"] == "x" * 10_000
    assert calls.count("sync") == calls.count("async") >= 2


async def test_a_callback_that_hangs_ends_with_the_deadline(
    nursery: trio.Nursery, autojump_clock: Any
) -> None:
    async def hanging(chunk: dict[str, Any]) -> None:
        await trio.sleep_forever()

    async def two_pieces(peer: Peer, _: ReceivedRequest) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\none")
        await trio.sleep(1)
        await peer.send(b"two")

    agent = Agent(nursery, Site({URL: two_pieces}))
    started = trio.current_time()
    call = agent.registry.get("Fetch").call
    result = await call({"url": URL, "stream": True, "timeout_s": 5}, ToolContext(on_chunk=hanging))
    assert trio.current_time() - started == pytest.approx(5)
    assert result.error is not None
    assert result.error.reason == "timeout"


async def test_a_callback_does_not_catch_a_cancellation(nursery: trio.Nursery) -> None:
    async def cancelling(chunk: dict[str, Any]) -> None:
        scope.cancel()
        await trio.lowlevel.checkpoint()

    agent = Agent(nursery, Site({URL: answer(b"x" * 10_000)}))
    with trio.CancelScope() as scope:
        await agent.registry.get("Fetch").call({"url": URL, "stream": True}, ToolContext(on_chunk=cancelling))
    assert scope.cancelled_caught
