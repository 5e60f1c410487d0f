"""`Fetch` for a framework to call, a real server on loopback for it to reach, and an agent with one grant."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.fetch_tool import PID, ToyKernel, system_tls
from tests.support.local_server import HOST, LocalServer, local_server
from tidegate.portal import Portal
from tidegate_tools.adapters.calling import Caller
from tidegate_tools.dispatch import AuditEvent
from tidegate_tools.fetch import make_fetch_tool
from tidegate_tools.grants import Grants, GrantStore
from tidegate_tools.registry import ToolContext, ToolSpec

UNGRANTED = "http://elsewhere.example/"


@dataclass(frozen=True)
class Bench:
    """What each adapter is tried with.

    Attributes:
        spec: `Fetch`.
        caller: an agent that may call it, and reach one host.
        server: that host.
        events: its audit log.
    """

    spec: ToolSpec
    caller: Caller
    server: LocalServer
    events: list[AuditEvent] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.server.url("/echo")


@pytest.fixture
def bench() -> Iterator[Bench]:
    store = GrantStore()
    store.grant(PID, Grants(["Fetch"], [HOST]))
    context = ToolContext(PID, ToyKernel(store))
    events: list[AuditEvent] = []
    with local_server() as server, Portal() as portal:
        spec = make_fetch_tool(tls=system_tls(), **server.options)
        yield Bench(spec, Caller(context=context, audit=events.append, portal=portal), server, events)


def grantless(bench: Bench) -> Caller:
    """The same way, for an agent without any grant."""
    context = ToolContext(PID, ToyKernel(GrantStore()))
    return Caller(context=context, audit=bench.events.append, portal=bench.caller.portal)


def is_echo(value: Any) -> bool:
    """Whether this is the value of a fetch that reached the server."""
    return bool(value["status"] == 200 and value["body"].startswith("GET /echo HTTP/1.1\n"))
