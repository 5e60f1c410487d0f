"""A small complete kernel on trio: agents with grants of their own, a supervisor, tools, telemetry.

    python -m tidegate_tools.examples.kernel

Two agents run. The reader may reach `docs.example`, and is denied what it was not granted. The watcher
listens to a feed that never ends, until the supervisor cancels it in mid-fetch. What went out, and what was
refused, stands in the audit log on standard error; `main` is where telemetry is switched on.

Both tools are registered; `web_request` needs the extra `config`. The internet is in memory, so this runs
anywhere; without `connector` and `resolver` it is the real one.
"""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import trio

from tidegate import StaticResolver
from tidegate.telemetry import AuditLog
from tidegate.testing.memory import MemoryConnector, Peer
from tidegate_tools.dispatch import AuditEvent, dispatch
from tidegate_tools.fetch import make_fetch_tool
from tidegate_tools.grants import Grants, GrantStore
from tidegate_tools.registry import ToolRegistry
from tidegate_tools.telemetry import ToolTelemetry, record_web_request
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.tool import create_web_request_tools

Call: TypeAlias = Callable[..., Awaitable[dict[str, Any]]]
"""What an agent has of its kernel: `await call("Fetch", url=...)` is the envelope of the answer."""

Agent: TypeAlias = Callable[[Call], Awaitable[None]]


class Kernel:
    """Agents as tasks of one nursery, each in a scope of its own; to cancel it cancels its calls.

    Args:
        registry: the tools.
        nursery: of the agents.
        audit: told of each call once.

    Attributes:
        cap: the capability store, which `dispatch` and the tools ask.
        chunks: what the agents' calls stream, with the agent it is for.
    """

    def __init__(
        self, registry: ToolRegistry, nursery: trio.Nursery, audit: Callable[[AuditEvent], object]
    ) -> None:
        self.cap = GrantStore()
        self._send_chunk, self.chunks = trio.open_memory_channel[tuple[str, str]](16)
        self._registry = registry
        self._nursery = nursery
        self._audit = audit
        self._scopes: dict[str, trio.CancelScope] = {}

    def spawn(self, pid: str, grants: Grants, agent: Agent) -> None:
        """Start an agent with these grants."""
        self.cap.grant(pid, grants)
        self._scopes[pid] = trio.CancelScope()
        self._nursery.start_soon(self._run, pid, agent)

    def cancel(self, pid: str) -> None:
        """End an agent, whatever it is doing."""
        self._scopes[pid].cancel()

    async def _run(self, pid: str, agent: Agent) -> None:
        with self._scopes[pid]:
            await agent(partial(self._call, pid))

    async def _call(self, pid: str, tool: str, **args: Any) -> dict[str, Any]:
        async def pass_on(chunk: dict[str, Any]) -> None:
            await self._send_chunk.send((pid, chunk["content"]))

        message = {"tool": tool, "args": args}
        return await dispatch(
            message, self._registry, pid=pid, kernel=self, audit=self._audit, on_chunk=pass_on
        )


async def supervise(kernel: Kernel) -> list[str]:
    """Start two agents, and end the one that would never end; what the other one read."""
    read: list[str] = []

    async def reader(call: Call) -> None:
        for url in ("http://docs.example/", "http://intranet.example/"):
            response = await call("Fetch", url=url)
            read.append(response["result"]["body"] if response["ok"] else response["error"])
        response = await call("web_request", url="http://docs.example/")
        read.append(json.loads(response["result"])["body"])  # its result is a JSON text

    async def watcher(call: Call) -> None:
        await call("Fetch", url="http://live.feeds.example/", stream=True, timeout_s=120)

    kernel.spawn("reader", Grants(["Fetch", "web_request"], ["docs.example"]), reader)
    kernel.spawn("watcher", Grants(["Fetch"], ["*.feeds.example"]), watcher)
    pid, _ = await kernel.chunks.receive()
    kernel.cancel(pid)
    return read


async def internet(peer: Peer) -> None:
    """Two sites: one answers, one begins to."""
    await peer.receive_request()
    if peer.target.host == "docs.example":
        await peer.respond(b"Welcome.")
    else:
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ntick\n\r\n")
        await peer.until_closed()


async def main(log: AuditLog) -> list[str]:
    """Run it all; what the reader got."""
    # Without `log` no lines; with a provider of OpenTelemetry (extra `otel`) spans and metrics as well.
    telemetry = ToolTelemetry(audit=log)
    observer = log.observer()
    async with trio.open_nursery() as peers:
        names = ("docs.example", "intranet.example", "live.feeds.example")
        resolver = StaticResolver({name: ["93.184.216.34"] for name in names})
        connector = MemoryConnector(peers, internet)
        fetch = make_fetch_tool(connector=connector, resolver=resolver, observer=observer)
        # By default https alone; this internet has no certificates.
        web_request = create_web_request_tools(
            WebRequestConfig(require_https=False),
            connector=connector,
            resolver=resolver,
            observer=observer,
            record=record_web_request,
        )
        registry = ToolRegistry()  # nothing is in it that nobody asked for
        for tool in (fetch, *web_request):
            registry.register(telemetry.observed(tool))

        async with trio.open_nursery() as agents:
            read = await supervise(Kernel(registry, agents, audit=telemetry.record))
        peers.cancel_scope.cancel()
    return read


if __name__ == "__main__":
    with AuditLog.to_stderr() as log:
        trio.run(main, log)
