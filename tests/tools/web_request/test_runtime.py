"""A project at work: folders of real files, built without an event loop and called from every side."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

import tidegate
from tests.support.engines import AnyHost
from tests.support.fetch_tool import Site, redirect
from tests.support.local_server import HOST, LocalServer, local_server
from tests.tools.web_request.agents import Certificates, Certified, strict_json
from tidegate.portal import Portal
from tidegate.telemetry import AuditLog
from tidegate.testing.memory import Peer, ReceivedRequest
from tidegate_tools.dispatch import AuditEvent
from tidegate_tools.registry import ToolResult
from tidegate_tools.telemetry import ToolTelemetry
from tidegate_tools.web_request.runtime import Runtime, load_runtime
from tidegate_tools.web_request.tool import BuildError

PROJECTS = sorted(path for path in (Path(__file__).parent / "runtimes").iterdir() if path.is_dir())


class Names:
    """Every name is public, but for `private.example`."""

    async def resolve(self, host: str) -> Any:
        return await AnyHost(*(["10.20.0.1"] if host == "private.example" else [])).resolve(host)


async def answer(peer: Peer, request: ReceivedRequest) -> None:
    if request.line.split()[1] == "/redirect":
        await peer.send(redirect("/"))
    else:
        await peer.respond(b"content", fields=[("Content-Type", "text/plain")])


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
async def test_project(
    folder: Path,
    nursery: trio.Nursery,
    certificates: Certificates,
    ca_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """W-148: what comes of each folder is what it says; `holds` in it names the requirements."""
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    # OpenSSL's own way to name trust anchors (D-17), so that the files need not name any.
    monkeypatch.setenv("SSL_CERT_FILE", str(ca_file))
    site = Site(default=answer)
    options: Any = {
        "environment": expected.get("environment", {}),
        "resolver": Names(),
        "connector": Certified(nursery, site, certificates),
    }
    if "problems" in expected:
        with pytest.raises(BuildError) as caught:
            load_runtime(folder, **options)
        for problem, wanted in zip(caught.value.problems, expected["problems"], strict=True):
            assert problem.startswith(wanted)
        return
    runtime = load_runtime(folder, **options)
    tools = {name: bool(agent.web_request_tools) for name, agent in runtime.agents.items()}
    assert tools == expected["tools"]
    assert runtime.summary == {"system_tools_used": expected["system_tools_used"]}
    for call in expected["calls"]:
        result = await runtime.call(call["agent"], "web_request", call["args"])
        given = strict_json(result.to_json())
        assert {name: given.get(name) for name in call["gives"]} == call["gives"], given
        for name, value in call.get("sent", {}).items():
            assert site.requests[-1].field(name) == value


# Every way in ---------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with local_server() as server:
        yield server


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    """Built where no event loop runs; its one agent may reach the server on loopback."""
    (tmp_path / "agents.config.yaml").write_text(
        f"""
        system_tools:
          web_request:
            require_https: false
            allowed_hosts: [{HOST}]
            private_ranges:
              - {{cidr: 127.0.0.0/8, hosts: [{HOST}]}}
        """
    )
    (tmp_path / "main.agent.md").write_text("---\nname: Main\n---\n")
    return load_runtime(tmp_path, resolver=tidegate.StaticResolver({HOST: ["127.0.0.1"]}))


def through_trio(runtime: Runtime, args: dict[str, Any]) -> ToolResult:
    return trio.run(runtime.call, "main", "web_request", args)


def through_threads(runtime: Runtime, args: dict[str, Any]) -> ToolResult:
    with Portal() as portal:
        return portal.run_sync(runtime.call, "main", "web_request", args)


def through_asyncio(runtime: Runtime, args: dict[str, Any]) -> ToolResult:
    async def main() -> ToolResult:
        async with Portal() as portal:
            return await portal.run(runtime.call, "main", "web_request", args)

    return asyncio.run(main())


WAYS = [through_trio, through_threads, through_asyncio]


@pytest.mark.parametrize("call", WAYS)
def test_every_way_in(
    call: Callable[[Runtime, dict[str, Any]], ToolResult], runtime: Runtime, server: LocalServer
) -> None:
    """W-64, W-66, W-G3, W-G4: one tool, built without a loop, the same answer whoever asks."""
    good = call(runtime, {"url": server.url("/bytes?size=3")})
    assert strict_json(str(good.value))["body"] == "xxx"
    bad = call(runtime, {"url": "https://elsewhere.example/"})
    assert strict_json(str(bad.value))["reason"] == "not_in_allowlist"


def test_one_tool_in_several_loops(runtime: Runtime, server: LocalServer) -> None:
    """W-66, W-71, W-G2: each run opens its own engine when it first calls, and leaves nothing behind."""
    for call in (*WAYS, *WAYS):
        assert call(runtime, {"url": server.url("/bytes?size=1")}).ok
    server.wait_until_unconnected()
    assert len(server.requests) == 2 * len(WAYS)


def test_many_calls_at_once(runtime: Runtime, server: LocalServer) -> None:
    """W-71: concurrent calls are independent, each with its own answer."""
    sizes = range(1, 40)
    found: dict[int, int] = {}

    async def call(size: int) -> None:
        result = await runtime.call("main", "web_request", {"url": server.url(f"/bytes?size={size}")})
        found[size] = len(strict_json(str(result.value))["body"])

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for size in sizes:
                nursery.start_soon(call, size)

    trio.run(main)
    assert found == {size: size for size in sizes}


def test_cancelled_from_asyncio(runtime: Runtime, server: LocalServer) -> None:
    """A call that its asyncio task gives up ends over there, too: the server sees the connection go."""

    async def main() -> None:
        async with Portal() as portal:
            call = asyncio.ensure_future(
                portal.run(runtime.call, "main", "web_request", {"url": server.url("/hold")})
            )
            await asyncio.to_thread(server.wait_until_held)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    asyncio.run(main())
    server.wait_until_hung_up()


@pytest.mark.parametrize(
    ("agent", "tool", "says"),
    [
        ("mein", "web_request", "There is no agent 'mein'. Did you mean 'main'?"),
        ("main", "web_requests", "There is no tool 'web_requests'. Did you mean 'web_request'?"),
    ],
)
async def test_nobody_by_that_name(agent: str, tool: str, says: str, runtime: Runtime) -> None:
    result = await runtime.call(agent, tool, {})
    assert result.error is not None
    assert (result.error.slug, result.error.message) == ("tool_not_found", says)


async def test_every_call_has_its_audit_line(tmp_path: Path) -> None:
    """F-118, W-160: one a call, whatever is wrong; with its reason and its target where there is one."""
    (tmp_path / "main.agent.md").write_text("---\nname: Main\n---\n")
    with AuditLog.to_file(tmp_path / "log") as log:
        telemetry = ToolTelemetry(audit=log)
        runtime = load_runtime(
            tmp_path,
            environment={},
            observer=log.observer(),
            observed=telemetry.observed,
            audit=telemetry.record,
        )
        for agent, tool, args in CALLS:
            await runtime.call(agent, tool, args, tool_call_id="c1")
    lines = [json.loads(line) for line in (tmp_path / "log").read_bytes().splitlines()]
    assert [line["event"] for line in lines] == ["hop", "call", "call", "call", "call", "call", "call"]
    assert lines[0]["tool"] == "web_request"
    told = [
        tuple(line.get(name) for name in ("agent", "tool", "call", "error", "reason", "host"))
        for line in lines[1:]
    ]
    assert told == [
        ("main", "web_request", "c1", "net_denied", "private", "10.0.0.1"),
        ("main", "web_request", "c1", "invalid_args", "invalid_argument", None),
        ("main", "web_request", "c1", "invalid_args", "invalid_argument", None),
        ("main", "web_request", "c1", "invalid_args", None, None),
        ("main", "nothing", "c1", "tool_not_found", None, None),
        ("nobody", "web_request", "c1", "tool_not_found", None, None),
    ]


CALLS: list[tuple[str, str, Any]] = [
    ("main", "web_request", {"url": "https://10.0.0.1/"}),
    ("main", "web_request", {"url": "https://10.0.0.1/", "method": "BREW"}),
    ("main", "web_request", {"nothing": 1}),
    ("main", "web_request", ["https://10.0.0.1/"]),
    ("main", "nothing", {}),
    ("nobody", "web_request", {}),
]


async def test_a_cancelled_call_is_told_of(tmp_path: Path, server: LocalServer, runtime: Runtime) -> None:
    events: list[AuditEvent] = []
    watched = Runtime(
        runtime.project, audit=events.append, resolver=tidegate.StaticResolver({HOST: ["127.0.0.1"]})
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watched.call, "main", "web_request", {"url": server.url("/hold")})
        await trio.to_thread.run_sync(server.wait_until_held)
        nursery.cancel_scope.cancel()
    assert [(event.pid, event.payload["error"]) for event in events] == [("main", "cancelled")]


def test_needs_neither_azure_nor_a_loop() -> None:
    """W-12, W-23, W-66, W-72, W-132: building the tool imports no cloud, no sandbox and no asyncio."""
    program = (
        "from tidegate_tools.web_request.config import WebRequestConfig\n"
        "from tidegate_tools.web_request.tool import create_web_request_tools\n"
        "import sys\n"
        "assert create_web_request_tools(WebRequestConfig())\n"
        "print(*sorted({'azure', 'aiohttp', 'requests', 'opentelemetry'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
