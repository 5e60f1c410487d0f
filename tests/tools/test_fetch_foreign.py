"""`Fetch` in a synchronous kernel with classes of its own, as section C of the decisions describes it."""

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import trio

import tidegate
from tests.support.fetch_tool import ToyKernel, Zone
from tests.support.local_server import HOST, LocalServer, local_server
from tidegate.portal import Portal, shared_portal
from tidegate_tools.dispatch import dispatch
from tidegate_tools.fetch import make_fetch_tool, make_foreign_fetch_tool, register_fetch_tool
from tidegate_tools.registry import ToolContext, ToolRegistry

# --- A kernel that knows nothing of ours ------------------------------------------------------------


class TheirToolError(Exception):
    slug = "tool_failed"


class TheirNotFound(TheirToolError):
    slug = "tool_not_found"


class TheirDenied(TheirToolError):
    slug = "permission_denied"


class TheirNetDenied(TheirToolError):
    slug = "net_denied"


class TheirInvalidArgs(TheirToolError):
    slug = "invalid_args"


class TheirFailed(TheirToolError):
    slug = "tool_failed"


@dataclass(frozen=True)
class TheirTool:
    name: str
    description: str
    handler: Callable[[Any, Any], dict[str, Any]]
    requires_capability: bool = True
    requires_fs: tuple[str, ...] = ()


THEIRS = SimpleNamespace(
    Tool=TheirTool, ToolNetDenied=TheirNetDenied, ToolInvalidArgs=TheirInvalidArgs, ToolFailed=TheirFailed
)


@dataclass(frozen=True)
class TheirContext:
    pid: int
    kernel: Any
    on_chunk: Any = None


class TheirRegistry:
    def __init__(self) -> None:
        self.tools: dict[str, TheirTool] = {}

    def register(self, tool: TheirTool) -> None:
        self.tools[tool.name] = tool

    def get(self, name: str) -> TheirTool:
        if name not in self.tools:
            raise TheirNotFound(name)
        return self.tools[name]


class TheirCapabilities:
    """A store in SQLite, which refuses to be used by another thread than the one that made it."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:")
        self.db.execute("CREATE TABLE net (pid INTEGER, host TEXT)")
        self.db.execute("CREATE TABLE asked (host TEXT, looked_up INTEGER)")
        self.resolver: Zone | None = None

    def grant(self, pid: int, *hosts: str) -> None:
        self.db.executemany("INSERT INTO net VALUES (?, ?)", [(pid, host) for host in hosts])

    def check_tool(self, pid: int, name: str) -> bool:
        return self.db.execute("SELECT 1 FROM net WHERE pid = ?", [pid]).fetchone() is not None

    def check_net(self, pid: int, host: str) -> bool:
        looked_up = len(self.resolver.asked) if self.resolver else 0
        self.db.execute("INSERT INTO asked VALUES (?, ?)", [host, looked_up])
        found = self.db.execute("SELECT 1 FROM net WHERE pid = ? AND host = ?", [pid, host])
        return found.fetchone() is not None

    def asked(self) -> list[tuple[str, int]]:
        """The questions, and how many names had been looked up by then."""
        return self.db.execute("SELECT * FROM asked").fetchall()


@dataclass
class TheirKernel:
    cap: TheirCapabilities = field(default_factory=TheirCapabilities)
    registry: TheirRegistry = field(default_factory=TheirRegistry)
    inbox: deque[tuple[int, dict[str, Any]]] = field(default_factory=deque)
    log: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    chunks: list[dict[str, Any]] = field(default_factory=list)

    def drain(self) -> list[dict[str, Any]]:
        """The supervisor's loop: tools are called one after the other, right here."""
        responses = []
        while self.inbox:
            pid, message = self.inbox.popleft()
            response = self._dispatch(pid, message)
            responses.append(response)
            payload = {"tool": message["tool"], "ok": response["ok"], "error": response.get("error")}
            kind = "tool.call.dispatched" if response["ok"] else "tool.call.denied"
            self.log.append((pid, kind, payload))
        return responses

    def _dispatch(self, pid: int, message: dict[str, Any]) -> dict[str, Any]:
        head = {"op": "tool_response", "tool_call_id": message.get("tool_call_id", "")}
        try:
            tool = self.registry.get(message["tool"])
            if not self.cap.check_tool(pid, tool.name):
                raise TheirDenied(tool.name)
            result = tool.handler(message.get("args") or {}, TheirContext(pid, self, self.chunks.append))
        except TheirToolError as error:
            return {**head, "ok": False, "error": error.slug, "message": str(error)}
        return {**head, "ok": True, "result": result}


# --- Tests ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with local_server() as server:
        yield server


@pytest.fixture
def kernel(server: LocalServer) -> Iterator[TheirKernel]:
    """A kernel in which agent 1 may reach two names of the local server, and agent 2 none."""
    kernel = TheirKernel()
    kernel.cap.grant(1, HOST, "other.example", "inside.example")
    kernel.cap.grant(2, "elsewhere.example")
    names = (HOST, "other.example", "ungranted.example")
    policy = tidegate.Policy(private_ranges=[tidegate.PrivateRange("127.0.0.0/8", names)])
    kernel.cap.resolver = Zone({**dict.fromkeys(names, "127.0.0.1"), "inside.example": "10.0.0.7"})
    register_fetch_tool(kernel.registry, kernel=THEIRS, policy=policy, resolver=kernel.cap.resolver)
    with closing(kernel.cap.db):
        yield kernel


def test_it_is_their_tool(kernel: TheirKernel) -> None:
    """F-99: made with their class, under the same name, as often as anybody likes."""
    assert register_fetch_tool(kernel.registry, kernel=THEIRS, extra="ignored") == "Fetch"
    assert [*kernel.registry.tools] == ["Fetch"]
    tool = kernel.registry.tools["Fetch"]
    assert type(tool) is TheirTool
    assert tool.requires_capability
    assert "untrusted" in tool.description


def test_a_supervisor_calls_one_tool_after_the_other(kernel: TheirKernel, server: LocalServer) -> None:
    """AMB-34, F-84 to F-89: their envelope, their slugs, one event a call."""
    calls: list[tuple[int, dict[str, Any]]] = [
        (1, {"url": server.url("/echo"), "method": "POST", "body": "content"}),
        (1, {"url": server.url("/echo"), "max_bytes": 1}),
        (1, {"url": server.url("/echo", "ungranted.example")}),
        (1, {"url": "http://inside.example/"}),
        (1, {"url": "http://other.example:1/"}),
        (1, {"url": f"http://{HOST}:9999999/"}),
        (2, {"url": server.url("/echo")}),
        (3, {"url": server.url("/echo")}),
        (1, {"url": server.url("/bytes?size=2000"), "max_bytes": 1024}),
        (1, {}),
    ]
    kernel.inbox.extend((pid, {"tool": "Fetch", "args": args}) for pid, args in calls)
    responses = kernel.drain()
    assert [response.get("error") for response in responses] == [
        *(None, "invalid_args", "net_denied", "net_denied", "net_denied", "invalid_args"),
        *("net_denied", "permission_denied", None, "invalid_args"),
    ]
    echo, cut = responses[0]["result"], responses[8]["result"]
    assert echo["body"].startswith("POST /echo HTTP/1.1\n")
    assert echo["body"].endswith("\n\ncontent")
    assert (cut["truncated"], cut["body_bytes"]) == (True, 1024)
    assert all(response["message"] for response in responses if not response["ok"])
    assert [event[1] for event in kernel.log].count("tool.call.dispatched") == 2


def test_what_fails_below_is_their_failure(kernel: TheirKernel) -> None:
    """F-96."""
    handler = kernel.registry.get("Fetch").handler
    with pytest.raises(TheirFailed, match="in the phase resolve"):
        handler({"url": "http://unknown.example/"}, TheirContext(1, None))


def test_grants_are_asked_for_on_every_hop_before_dns_in_their_thread(
    kernel: TheirKernel, server: LocalServer
) -> None:
    """F-21, F-68, F-92: SQLite itself would refuse another thread."""
    location = server.url("/echo", "other.example")
    args = {"url": server.url(f"/to?location={location}"), "follow_redirects": True}
    kernel.inbox.append((1, {"tool": "Fetch", "args": args}))
    (response,) = kernel.drain()
    assert response["ok"], response
    assert response["result"]["url"] == location
    assert kernel.cap.asked() == [(HOST, 0), ("other.example", 1)]


def test_a_redirect_to_what_was_not_granted(kernel: TheirKernel, server: LocalServer) -> None:
    location = server.url("/echo", "ungranted.example")
    args = {"url": server.url(f"/to?location={location}"), "follow_redirects": True}
    handler = kernel.registry.get("Fetch").handler
    before = len(server.requests)
    with pytest.raises(TheirNetDenied, match="Redirect 1 is refused"):
        handler(args, TheirContext(1, kernel))
    assert len(server.requests) == before + 1


def test_without_a_kernel_nobody_is_asked(kernel: TheirKernel, server: LocalServer) -> None:
    """F-92; and a context that is older than chunks will do."""
    handler = kernel.registry.get("Fetch").handler
    older = SimpleNamespace(pid=1, kernel=None)
    assert handler({"url": server.url("/echo"), "stream": True}, older)["status"] == 200
    assert kernel.cap.asked() == []


def test_chunks_come_in_their_thread(kernel: TheirKernel, server: LocalServer) -> None:
    """F-120."""
    threads = set()

    def on_chunk(chunk: dict[str, Any]) -> None:
        threads.add(threading.get_ident())
        kernel.chunks.append(chunk)

    handler = kernel.registry.get("Fetch").handler
    args = {"url": server.url("/bytes?size=20000"), "stream": True}
    result = handler(args, TheirContext(1, kernel, on_chunk))
    assert "".join(chunk["content"] for chunk in kernel.chunks) == result["body"]
    assert threads == {threading.get_ident()}


def test_their_store_may_fail(kernel: TheirKernel, server: LocalServer) -> None:
    """Default deny; an interruption is no failure and ends the call."""
    handler = kernel.registry.get("Fetch").handler
    kernel.cap.db.execute("DROP TABLE net")
    with pytest.raises(TheirNetDenied):
        handler({"url": server.url("/echo")}, TheirContext(1, kernel))

    def interrupted(pid: int, host: str) -> bool:
        raise KeyboardInterrupt

    theirs = SimpleNamespace(cap=SimpleNamespace(check_net=interrupted))
    with pytest.raises(KeyboardInterrupt):
        handler({"url": server.url("/echo")}, TheirContext(1, theirs))


def test_nothing_but_their_exceptions(server: LocalServer) -> None:
    """A closed portal, a thread that runs trio, a context that is none."""
    portal = Portal()
    tool = make_foreign_fetch_tool(make_fetch_tool(**server.options), THEIRS, portal=portal)
    args = {"url": server.url("/echo")}

    async def in_trio() -> None:
        tool.handler(args, TheirContext(1, None))

    with pytest.raises(TheirFailed, match="RuntimeError"):
        trio.run(in_trio)
    with pytest.raises(TheirFailed, match="AttributeError"):
        tool.handler(args, object())
    with pytest.raises(TheirInvalidArgs, match="must be an object"):
        tool.handler(["url"], TheirContext(1, None))
    with pytest.raises(TheirInvalidArgs, match="url is missing"):
        tool.handler(None, TheirContext(1, None))
    assert tool.handler(args, TheirContext(1, None))["status"] == 200
    portal.close()
    with pytest.raises(TheirFailed, match="EngineClosed"):
        tool.handler(args, TheirContext(1, None))


def test_a_portal_that_is_closed_under_a_call(server: LocalServer) -> None:
    portal = Portal()
    tool = make_foreign_fetch_tool(make_fetch_tool(**server.options), THEIRS, portal=portal)
    errors: list[BaseException] = []

    def call() -> None:
        try:
            tool.handler({"url": server.url("/hold")}, TheirContext(1, None))
        except TheirFailed as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    server.wait_until_held()
    portal.close()
    thread.join()
    server.wait_until_hung_up()
    assert ["EngineClosed" in str(error) for error in errors] == [True]


def test_supervisors_in_several_threads(server: LocalServer) -> None:
    """Each with its own kernel and store, all over the one portal of the process."""
    results: list[int] = []
    registry = TheirRegistry()
    register_fetch_tool(registry, kernel=THEIRS, **server.options)

    def supervise() -> None:
        kernel = TheirKernel(registry=registry)
        kernel.cap.grant(1, HOST)
        for size in range(20):
            kernel.inbox.append((1, {"tool": "Fetch", "args": {"url": server.url(f"/bytes?size={size}")}}))
        with closing(kernel.cap.db):
            results.extend(response["result"]["body_bytes"] for response in kernel.drain())

    threads = [threading.Thread(target=supervise) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted([*range(20)] * 3)


def test_a_namespace_that_lacks_something() -> None:
    with pytest.raises(TypeError, match="lacks ToolInvalidArgs, ToolFailed"):
        register_fetch_tool(
            TheirRegistry(),
            kernel=SimpleNamespace(Tool=TheirTool, ToolNetDenied=TheirNetDenied),
        )


# --- Our own registry, from asyncio and from plain code ---------------------------------------------


def test_our_registry_from_asyncio(server: LocalServer) -> None:
    """Grants that live in the caller's loop are asked for there, and chunks arrive there."""
    registry = ToolRegistry()
    register_fetch_tool(registry, **server.options)
    threads: list[int] = []
    chunks: list[str] = []

    class Capabilities:
        def check_tool(self, pid: object, name: str) -> bool:
            return True

        async def check_net(self, pid: object, host: str) -> bool:
            await asyncio.sleep(0)
            threads.append(threading.get_ident())
            return host == HOST

    async def on_chunk(chunk: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        threads.append(threading.get_ident())
        chunks.append(chunk["content"])

    async def main() -> dict[str, Any]:
        message = {"tool": "Fetch", "args": {"url": server.url("/bytes?size=100"), "stream": True}}
        kernel = ToyKernel(Capabilities())
        call = partial(dispatch, message, registry, pid=1, kernel=kernel, on_chunk=on_chunk)
        return await shared_portal().run(call)

    response = asyncio.run(main())
    assert response["ok"], response
    assert response["result"]["body"] == "".join(chunks) == "x" * 100
    assert set(threads) == {threading.get_ident()}


def test_our_registry_from_plain_code(server: LocalServer) -> None:
    registry = ToolRegistry()
    register_fetch_tool(registry, **server.options)
    tool = registry.get("Fetch")
    result = shared_portal().run_sync(tool.call, {"url": server.url("/bytes?size=100")}, ToolContext())
    assert isinstance(result.value, dict)
    assert result.value["body_bytes"] == 100
