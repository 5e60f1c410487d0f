"""`Fetch` as it is registered, what its results hold, and the engine behind it."""

import base64
import gc
import gzip
import json
import ssl
import sys
from collections.abc import Callable
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # brings no types
import pytest
import trio
import trio.testing

import tidegate
from tests.support.engines import AnyHost
from tests.support.fetch_tool import (
    PID,
    Agent,
    Site,
    ToyKernel,
    Zone,
    answer,
    redirect,
)
from tidegate.testing.memory import MemoryConnector, Peer, ReceivedRequest
from tidegate_tools.dispatch import dispatch
from tidegate_tools.fetch import make_fetch_tool, register_fetch_tool
from tidegate_tools.grants import Grants, GrantStore
from tidegate_tools.registry import ToolRegistry

URL = "http://site.example/"
KEYS = {"url", "status", "headers", "body", "encoding", "body_bytes", "truncated", "redirects", "duration_s"}


# --- Registering ------------------------------------------------------------------------------------


def test_registering_twice_is_harmless() -> None:
    """F-98, F-99: the name comes back, and keywords that nobody knows are ignored."""
    registry = ToolRegistry()
    assert register_fetch_tool(registry) == "Fetch"
    assert register_fetch_tool(registry, colour="blue", policy=tidegate.Policy()) == "Fetch"
    assert registry.list() == ["Fetch"]


def test_a_context_that_does_not_verify_is_refused_at_once() -> None:
    """F-30."""
    with pytest.raises(ValueError, match="does not verify"):
        register_fetch_tool(ToolRegistry(), tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


async def test_a_tool_that_cannot_work_says_so(
    monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    """D-25: no trust anchors on this machine, and no certifi either."""
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent")
    monkeypatch.setenv("SSL_CERT_DIR", "/nonexistent")
    monkeypatch.setitem(sys.modules, "certifi", None)
    agent = Agent(nursery, Site(), tls=None)
    assert await agent.refusal(URL) == "tool_failed"
    monkeypatch.undo()
    assert (await agent.fetch(URL))["status"] == 200


# --- Results ----------------------------------------------------------------------------------------


async def test_a_result(nursery: trio.Nursery) -> None:
    """F-73 to F-79, F-81: exactly nine keys, as the schema of the tool says."""
    fields = (
        "Content-Type: text/plain",
        "X-Two: a",
        "Set-Cookie: one=1, 2",
        "x-two: b",
        "Set-Cookie: three=3",
    )
    site = Site({URL + "a?q=1": answer(b"hello", "404 Not Found", *fields)})
    result = await Agent(nursery, site).fetch(URL + "x/../a?q=1#fragment")
    assert set(result) == KEYS
    assert isinstance(result.pop("duration_s"), float)
    assert result == {
        "url": URL + "a?q=1",
        "status": 404,
        "headers": {
            "content-type": "text/plain",
            "x-two": "a, b",
            "set-cookie": "one=1, 2\nthree=3",
            "content-length": "5",
        },
        "body": "hello",
        "encoding": "utf-8",
        "body_bytes": 5,
        "truncated": False,
        "redirects": [],
    }


async def test_a_result_is_what_the_schema_says(nursery: trio.Nursery) -> None:
    site = Site({URL: redirect("/b"), URL + "b": answer(b"\xff")})
    tool = make_fetch_tool()
    result = await Agent(nursery, site).fetch(URL, follow_redirects=True)
    jsonschema.Draft202012Validator(tool.result_schema).validate(result)
    jsonschema.Draft202012Validator.check_schema(tool.parameters)
    json.dumps(result, allow_nan=False).encode()


@pytest.mark.parametrize(
    ("content", "body", "encoding"),
    [
        (b"", "", "utf-8"),
        ("grüße €\U0001f600".encode(), "grüße €\U0001f600", "utf-8"),
        (b"\xef\xbb\xbfbom", "\ufeffbom", "utf-8"),
        (b"nul\x00", "nul\x00", "utf-8"),
        (b"\xff\xfe", "//4=", "base64"),
        ("grüße".encode("latin-1"), "Z3L832U=", "base64"),
        (b"cut \xe2\x82", "Y3V0IOKC", "base64"),
        (b"\xed\xa0\x80", "7aCA", "base64"),
    ],
)
async def test_text_and_other_content(
    content: bytes, body: str, encoding: str, nursery: trio.Nursery
) -> None:
    """F-77, F-78, F-79: by the bytes alone, whatever the fields say of them."""
    site = Site({URL: answer(content, "200 OK", "Content-Type: application/octet-stream")})
    result = await Agent(nursery, site).fetch(URL)
    assert (result["body"], result["encoding"], result["body_bytes"]) == (body, encoding, len(content))
    if encoding == "base64":
        assert base64.b64decode(result["body"]) == content


@pytest.mark.parametrize(
    ("content", "kept", "encoding"),
    [
        (b"x" * 1024, 1024, "utf-8"),
        (b"x" * 1025, 1024, "utf-8"),
        (b"x" * 1023 + "ü".encode(), 1023, "utf-8"),
        (b"x" * 1022 + "ü".encode(), 1024, "utf-8"),
        (b"x" * 1022 + "€".encode(), 1022, "utf-8"),
        (b"x" * 1021 + "\U0001f600".encode(), 1021, "utf-8"),
        (b"x" * 1023 + b"\xff\xff", 1024, "base64"),
        (b"\xff" + b"x" * 1022 + "ü".encode(), 1024, "base64"),
    ],
)
async def test_the_cap(content: bytes, kept: int, encoding: str, nursery: trio.Nursery) -> None:
    """F-80, AMB-6, AMB-7: exactly the cap is not truncated; text is never cut within a character."""
    result = await Agent(nursery, Site({URL: answer(content)})).fetch(URL, max_bytes=1024)
    assert result["truncated"] is (len(content) > 1024)
    assert (result["encoding"], result["body_bytes"]) == (encoding, kept)
    raw = result["body"].encode() if encoding == "utf-8" else base64.b64decode(result["body"])
    assert raw == content[:kept]


async def test_content_without_an_end(nursery: trio.Nursery) -> None:
    """F-7, F-24: cut at the cap, the connection closed, and no more taken than fits some buffers."""
    sent = 0

    async def endless(peer: Peer, _: ReceivedRequest) -> None:
        nonlocal sent
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await peer.send(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            sent += 0x10000

    agent = Agent(nursery, Site({URL: endless}))
    result = await agent.fetch(URL, max_bytes=100_000)
    assert (result["truncated"], result["body_bytes"]) == (True, 100_000)
    await trio.testing.wait_all_tasks_blocked()
    assert agent.connector.open_connections == 0
    assert sent < 2_000_000


@pytest.mark.parametrize(
    ("coding", "body", "truncated"),
    [
        (gzip.compress(b"hello"), "hello", False),
        (gzip.compress(b"hello" * 1000)[:-6], "hello" * 1000, True),
        (gzip.compress(bytes(10_000_000)), "\x00" * 1024, True),
    ],
    ids=["whole", "cut short", "bomb"],
)
async def test_coded_content(coding: bytes, body: str, truncated: bool, nursery: trio.Nursery) -> None:
    """D-3, D-4, D-5: undone under the cap; a bomb is cut, and what ends too early shows as truncated."""
    site = Site({URL: answer(coding, "200 OK", "Content-Encoding: gzip", "X-Other: 1")})
    result = await Agent(nursery, site).fetch(URL, max_bytes=1024 if "\x00" in body else 100_000)
    assert (result["body"], result["truncated"]) == (body, truncated)
    assert result["headers"] == {"x-other": "1"}


async def test_a_coding_that_the_caller_asked_for(nursery: trio.Nursery) -> None:
    """D-3: then it is the caller's to undo, and the fields that tell of it stay."""
    coded = gzip.compress(b"hello")
    site = Site({URL: answer(coded, "200 OK", "Content-Encoding: gzip")})
    result = await Agent(nursery, site).fetch(URL, headers={"Accept-Encoding": "gzip"})
    assert base64.b64decode(result["body"]) == coded
    assert result["headers"] == {"content-encoding": "gzip", "content-length": str(len(coded))}


async def test_an_end_that_proves_nothing(
    nursery: trio.Nursery, client_tls: ssl.SSLContext, server_tls: Callable[..., ssl.SSLContext]
) -> None:
    """D-5: no framing, and a TLS stream cut off: delivered, truncated, text cut to whole characters."""

    async def cut_off(peer: Peer, _: ReceivedRequest) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nhello \xe2\x82")
        peer.cut()

    url = "https://site.example/"
    agent = Agent(nursery, Site({url: cut_off}), tls=client_tls, server_tls=server_tls("site.example"))
    result = await agent.fetch(url)
    assert (result["body"], result["body_bytes"], result["truncated"]) == ("hello ", 6, True)


@pytest.mark.parametrize(
    "announced", [b"Content-Length: 999999999\r\n", b"Transfer-Encoding: chunked\r\n", b""]
)
async def test_head(announced: bytes, nursery: trio.Nursery) -> None:
    """F-83, AMB-23."""
    site = Site({URL: b"HTTP/1.1 200 OK\r\nX: y\r\n%b\r\n" % announced})
    result = await Agent(nursery, site).fetch(URL, method="HEAD", stream=True)
    assert site.requests[0].line == "HEAD / HTTP/1.1"
    assert result["headers"]["x"] == "y"
    assert (result["status"], result["body"], result["encoding"]) == (200, "", "utf-8")
    assert (result["body_bytes"], result["truncated"]) == (0, False)


async def test_duration_and_the_whole_call(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """F-82, AMB-35: DNS and every hop are in it."""

    class SlowZone(Zone):
        async def resolve(self, host: str) -> Any:
            await trio.sleep(1)
            return await super().resolve(host)

    async def slow(peer: Peer, request: ReceivedRequest) -> None:
        await trio.sleep(2.5)
        await peer.send(redirect("/next") if request.line.startswith("GET / ") else answer(b"ok"))

    zone = SlowZone({"site.example": "93.184.216.34"})
    result = await Agent(nursery, Site(default=slow), resolver=zone).fetch(URL, follow_redirects=True)
    assert result["duration_s"] == pytest.approx(7.0)


# --- The engine of a tool ---------------------------------------------------------------------------


async def test_calls_share_one_engine(nursery: trio.Nursery) -> None:
    """The second call takes the connection of the first."""
    agent = Agent(nursery, Site())
    for _ in range(3):
        await agent.fetch(URL)
    assert len(agent.connector.connected) == 1


def test_a_tool_outlives_trio_runs_and_leaves_nothing_open() -> None:
    """Made without an event loop; each run has its own engine, closed at its end, and needs no goodbye."""
    registry = ToolRegistry()
    connectors: list[MemoryConnector] = []

    class Connector:
        async def connect(self, targets: Any) -> Any:
            return await connectors[-1].connect(targets)

    register_fetch_tool(registry, connector=Connector(), resolver=AnyHost())

    async def kernel() -> None:
        async with trio.open_nursery() as nursery:
            connectors.append(MemoryConnector(nursery, Site()))
            for _ in range(2):
                response = await dispatch({"tool": "Fetch", "args": {"url": URL}}, registry, pid=PID)
                assert response["ok"]
            nursery.cancel_scope.cancel()

    for _ in range(2):
        trio.run(kernel)
    gc.collect()  # a socket that was left open would warn here
    assert [len(connector.connected) for connector in connectors] == [1, 1]


async def test_turns_go_by_agent(nursery: trio.Nursery) -> None:
    """The pid is the key of the fetch, for fairness and for an operator's observer."""
    keys: list[object] = []

    class Observer:
        def on_event(self, event: tidegate.Event) -> None:
            if isinstance(event, tidegate.FetchStarted):
                keys.append(event.key)

    agent = Agent(nursery, Site(), observer=Observer())
    await agent.fetch(URL)
    assert keys == [PID]


async def test_two_agents_with_different_grants(nursery: trio.Nursery) -> None:
    """At once, over one tool: each is judged by its own."""
    store = GrantStore()
    store.grant(1, Grants(["Fetch"], ["one.example"]))
    store.grant(2, Grants(["Fetch"], ["two.example"]))
    registry = ToolRegistry()
    register_fetch_tool(registry, connector=MemoryConnector(nursery, Site()), resolver=AnyHost())
    answers: dict[tuple[int, str], bool] = {}

    async def ask(pid: int, host: str) -> None:
        message = {"tool": "Fetch", "args": {"url": f"http://{host}/"}}
        answers[pid, host] = (await dispatch(message, registry, pid=pid, kernel=ToyKernel(store)))["ok"]

    async with trio.open_nursery() as agents:
        for pid in (1, 2):
            for host in ("one.example", "two.example"):
                agents.start_soon(ask, pid, host)
    assert answers == {
        (1, "one.example"): True,
        (1, "two.example"): False,
        (2, "one.example"): False,
        (2, "two.example"): True,
    }
