"""An agent with the tool `Fetch` in its hands, over scripted peers."""

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import trio

import tidegate
from tests.support.engines import AnyHost
from tidegate.testing.memory import MemoryConnector, Peer, ReceivedRequest
from tidegate_tools.dispatch import AuditEvent, dispatch
from tidegate_tools.fetch import register_fetch_tool
from tidegate_tools.grants import Grants, GrantStore
from tidegate_tools.registry import ToolContext, ToolRegistry, ToolResult

PID = 7


def answer(content: bytes = b"", status: str = "200 OK", *fields: str) -> bytes:
    """A whole response. A field is written `Name: value`."""
    lines = [f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(content)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def redirect(location: str, status: int = 302) -> bytes:
    """A response that sends elsewhere."""
    return answer(b"", f"{status} Elsewhere", f"Location: {location}")


Play: TypeAlias = Callable[[Peer, ReceivedRequest], Awaitable[None]]


async def echo(peer: Peer, request: ReceivedRequest) -> None:
    """Answer with the request line, the fields and the content."""
    lines = [request.line, *(f"{name}: {value}" for name, value in request.fields)]
    await peer.respond("\n".join(lines).encode() + b"\n\n" + request.content)


async def hold(peer: Peer, _: ReceivedRequest) -> None:
    """Never answer."""
    await peer.until_closed()


class Site:
    """Peers that answer by URL, and remember what they were asked. Where nothing is said, they echo.

    Attributes:
        requests: every request.
        urls: where each of them went.
    """

    def __init__(self, pages: Mapping[str, bytes | Play] | None = None, default: bytes | Play = echo) -> None:
        self._pages = dict(pages or {})
        self._default = default
        self.requests: list[ReceivedRequest] = []
        self.urls: list[str] = []

    async def __call__(self, peer: Peer) -> None:
        while (request := await peer.receive_request()) is not None:
            url = f"{peer.target.scheme}://{request.field('host')}{request.line.split(' ')[1]}"
            self.requests.append(request)
            self.urls.append(url)
            page = self._pages.get(url, self._default)
            if isinstance(page, bytes):
                await peer.send(page)
            else:
                await page(peer, request)


class Zone:
    """A resolver over a table that remembers who was asked for."""

    def __init__(self, addresses: Mapping[str, str | Sequence[str]]) -> None:
        table = {name: [found] if isinstance(found, str) else found for name, found in addresses.items()}
        self._table = tidegate.StaticResolver(table)
        self.asked: list[str] = []

    async def resolve(self, host: str) -> Sequence[Any]:
        self.asked.append(host)
        return await self._table.resolve(host)


@dataclass
class ToyKernel:
    """A kernel as far as tools see it."""

    cap: Any


@dataclass
class AskedStore:
    """A capability store that says yes to some hosts, and remembers every question."""

    hosts: Sequence[str]
    asked: list[str] = field(default_factory=list)

    def check_tool(self, pid: Any, name: str) -> bool:
        return True

    def check_net(self, pid: Any, host: str) -> bool:
        assert pid == PID
        self.asked.append(host)
        return host in self.hosts


@cache
def system_tls() -> ssl.SSLContext:
    """The default of the tool, made once: it takes as long as ten fetches."""
    return tidegate.client_context()


class Agent:
    """One agent in a kernel with one tool, `Fetch`, whose every connection leads to `site`.

    Args:
        nursery: where the peers run.
        site: who answers.
        net_grants: the hosts it may reach; by default all.
        tool_grants: by default Fetch.
        cap: a store to ask instead of one with those grants.
        options: of `register_fetch_tool`; `server_tls` is for the peers.

    Attributes:
        connector: which targets were connected to.
        resolver: who was asked for, if it is one of ours.
        events: the audit log.
        chunks: what was streamed.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        site: Callable[[Peer], Awaitable[None]],
        *,
        net_grants: Sequence[str] = ("*",),
        tool_grants: Sequence[str] = ("Fetch",),
        cap: Any = None,
        **options: Any,
    ) -> None:
        self.connector = MemoryConnector(nursery, site, options.pop("server_tls", None))
        self.resolver = options.setdefault("resolver", AnyHost())
        if "tls" not in options:
            options["tls"] = system_tls()
        self.registry = ToolRegistry()
        register_fetch_tool(self.registry, connector=self.connector, **options)
        store = GrantStore()
        store.grant(PID, Grants(tool_grants, net_grants))
        self.kernel = ToyKernel(cap or store)
        self.events: list[AuditEvent] = []
        self.chunks: list[dict[str, Any]] = []

    async def dispatch(self, args: Any) -> dict[str, Any]:
        """One call by name, as a kernel makes it."""
        message = {"tool": "Fetch", "args": args, "tool_call_id": "call-1"}
        return await dispatch(
            message,
            self.registry,
            pid=PID,
            kernel=self.kernel,
            audit=self.events.append,
            on_chunk=self.chunks.append,
        )

    async def fetch(self, url: str, **args: Any) -> dict[str, Any]:
        """The result of a call that has to succeed."""
        response = await self.dispatch({"url": url, **args})
        assert response["ok"], response
        result: dict[str, Any] = response["result"]
        return result

    async def refusal(self, url: Any, **args: Any) -> str:
        """The slug of a call that has to fail; its envelope is looked at, too."""
        response = await self.dispatch({"url": url, **args})
        assert set(response) == {"op", "tool_call_id", "ok", "error", "message"}, response
        assert (response["op"], response["tool_call_id"], response["ok"]) == (
            "tool_response",
            "call-1",
            False,
        )
        assert response["message"].endswith(".")
        slug: str = response["error"]
        return slug

    async def call(self, url: Any, **args: Any) -> ToolResult:
        """The call itself, for what the envelope leaves out: the reason, and how to allow it."""
        return await self.registry.get("Fetch").call({"url": url, **args}, ToolContext(PID, self.kernel))

    def reached_nobody(self) -> bool:
        """No name was asked for, nothing was connected to."""
        return not self.connector.connected and not self.resolver.asked
