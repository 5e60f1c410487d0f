"""A small complete kernel on trio: agents with grants of their own, a supervisor, tools, an audit log.

    python -m tidegate_tools.examples.kernel

Two agents run. The reader may reach `docs.example`, and is denied what it was not granted. The watcher
listens to a feed that never ends, until the supervisor cancels it in mid-fetch. At the end stands the audit
log.

Both tools are registered; `web_request` needs the extra `config`. The internet is in memory, so this runs
anywhere; without `connector` and `resolver` it is the real one.
"""

import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import trio

from tidegate import StaticResolver
from tidegate.testing.memory import MemoryConnector, Peer
from tidegate_tools.fetch import register_fetch_tool
from tidegate_tools.grants import Grants, GrantStore
from tidegate_tools.registry import AuditEvent, ToolRegistry, dispatch
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.tool import create_web_request_tools

Call: TypeAlias = Callable[..., Awaitable[dict[str, Any]]]
"""What an agent has of its kernel: `await call("Fetch", url=...)` is the envelope of the answer."""

Agent: TypeAlias = Callable[[Call], Awaitable[None]]


class Kernel:
    """Agents as tasks of one nursery, each in a scope of its own; to cancel it cancels its calls.

    Attributes:
        cap: the capability store, which `dispatch` and the tools ask.
        log: the audit log, one event a call.
        chunks: what the agents' calls stream, with the agent it is for.
    """

    def __init__(self, registry: ToolRegistry, nursery: trio.Nursery) -> None:
        self.cap = GrantStore()
        self.log: list[AuditEvent] = []
        self._send_chunk, self.chunks = trio.open_memory_channel[tuple[str, str]](16)
        self._registry = registry
        self._nursery = nursery
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
            message, self._registry, pid=pid, kernel=self, audit=self.log.append, on_chunk=pass_on
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


async def main() -> tuple[list[str], list[AuditEvent]]:
    """Run it all; what the reader got, and the audit log."""
    async with trio.open_nursery() as peers:
        names = ("docs.example", "intranet.example", "live.feeds.example")
        resolver = StaticResolver({name: ["93.184.216.34"] for name in names})
        connector = MemoryConnector(peers, internet)
        registry = ToolRegistry()  # nothing is in it that nobody asked for
        register_fetch_tool(registry, connector=connector, resolver=resolver)
        # By default https alone; this internet has no certificates.
        config = WebRequestConfig(require_https=False)
        for tool in create_web_request_tools(config, connector=connector, resolver=resolver):
            registry.register(tool)

        async with trio.open_nursery() as agents:
            kernel = Kernel(registry, agents)
            read = await supervise(kernel)
        peers.cancel_scope.cancel()
    return read, kernel.log


if __name__ == "__main__":
    for event in trio.run(main)[1]:
        sys.stdout.write(f"{event.pid:<8} {event.kind:<21} {event.payload}\n")
