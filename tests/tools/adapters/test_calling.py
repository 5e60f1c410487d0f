"""How every adapter calls: grants, audit, cancellation, and what nobody foresaw."""

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import trio

from tests.support.fetch_tool import PID, ToyKernel, system_tls
from tests.tools.adapters.conftest import UNGRANTED, Bench, grantless, is_echo
from tidegate.portal import Portal
from tidegate.telemetry import AuditLog
from tidegate_tools.adapters.calling import Caller, call, call_sync, read_json, require
from tidegate_tools.fetch import make_fetch_tool
from tidegate_tools.registry import ToolContext, ToolInvalidArgs, ToolResult, ToolSpec
from tidegate_tools.telemetry import ToolTelemetry

Way = Callable[[ToolSpec, Any, Caller], ToolResult]


def _asyncio(spec: ToolSpec, args: Any, caller: Caller) -> ToolResult:
    return asyncio.run(call(spec, args, caller))


def _trio(spec: ToolSpec, args: Any, caller: Caller) -> ToolResult:
    return trio.run(call, spec, args, caller)


WAYS = [
    pytest.param(_asyncio, id="asyncio"),
    pytest.param(_trio, id="trio"),
    pytest.param(call_sync, id="thread"),
]


def failing(error: BaseException) -> ToolSpec:
    """A tool that raises."""

    async def raises(_: Mapping[str, Any], __: ToolContext) -> ToolResult:
        raise error

    return ToolSpec(name="Raises", description="It raises.", parameters={"type": "object"}, call=raises)


@pytest.mark.parametrize("way", WAYS)
def test_a_fetch_by_each_way(way: Way, bench: Bench) -> None:
    result = way(bench.spec, {"url": bench.url}, bench.caller)
    assert result.ok
    assert is_echo(result.value)
    assert [(event.pid, event.payload["ok"]) for event in bench.events] == [(PID, True)]


@pytest.mark.parametrize("way", WAYS)
def test_telemetry_knows_the_call_by_each_way(way: Way, bench: Bench, tmp_path: Path) -> None:
    """One line a call, with its reason and its host, also where the audit is called in another thread."""
    with AuditLog.to_file(tmp_path / "log") as log:
        telemetry = ToolTelemetry(audit=log)
        spec = telemetry.observed(make_fetch_tool(observer=log.observer(), tls=system_tls()))
        caller = replace(bench.caller, audit=telemetry.record)
        for args in ({"url": UNGRANTED}, {"url": UNGRANTED}, "no object"):
            way(spec, args, caller)
        way(spec, {"url": UNGRANTED}, replace(grantless(bench), audit=telemetry.record))
    lines = [json.loads(line) for line in (tmp_path / "log").read_bytes().splitlines()]
    calls = [line for line in lines if line["event"] == "call"]
    told = [(line["error"], line.get("reason"), line.get("host")) for line in calls]
    assert told == [
        ("net_denied", "not_granted", "elsewhere.example"),
        ("net_denied", "not_granted", "elsewhere.example"),
        ("invalid_args", None, None),
        ("permission_denied", None, None),
    ]
    assert [("duration" in line, line["agent"]) for line in calls] == [(True, PID)] * 2 + [(False, PID)] * 2


@pytest.mark.parametrize("way", WAYS)
def test_grants_hold(way: Way, bench: Bench) -> None:
    """Those for hosts, with the way to allow it kept (F-68), and those for the tool itself (F-105)."""
    refused = way(bench.spec, {"url": UNGRANTED}, bench.caller)
    assert refused.error is not None
    assert refused.error.slug == "net_denied"
    assert refused.error.reason is not None
    toolless = way(bench.spec, {"url": bench.url}, grantless(bench))
    assert toolless.error is not None
    assert toolless.error.slug == "permission_denied"
    assert not bench.server.requests
    assert [event.payload["error"] for event in bench.events] == ["net_denied", "permission_denied"]


class _Store:
    """A store that belongs to one thread, and says so."""

    def __init__(self) -> None:
        self.asked_in: set[int] = set()

    def check_tool(self, pid: Any, name: str) -> bool:
        self.asked_in.add(threading.get_ident())
        return True

    check_net = check_tool


@pytest.mark.parametrize("way", WAYS)
def test_a_kernel_is_asked_in_the_thread_of_the_caller(way: Way, bench: Bench) -> None:
    store = _Store()
    caller = replace(bench.caller, context=ToolContext(PID, ToyKernel(store)))
    assert way(bench.spec, {"url": bench.url}, caller).ok
    assert store.asked_in == {threading.get_ident()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("args", [{"url": 7}, {"uri": "https://a.example/"}, [1], "https://a.example/", None])
def test_arguments_are_checked_by_us(way: Way, args: Any, bench: Bench) -> None:
    result = way(bench.spec, args, bench.caller)
    assert result.error is not None
    assert result.error.slug == "invalid_args"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "error", [OSError("hunter2"), ExceptionGroup("hunter2", [OSError("hunter2")])], ids=["one", "group"]
)
def test_what_nobody_foresaw(way: Way, error: Exception, bench: Bench) -> None:
    """A failure without the text of the exception (D-14), and never a group."""
    result = way(failing(error), {}, replace(bench.caller, context=ToolContext()))
    assert result.error is not None
    assert result.error.slug == "tool_failed"
    assert "OSError" in result.error.message
    assert "hunter2" not in result.to_json()


def test_a_cancelled_call_in_asyncio(bench: Bench) -> None:
    """It is asyncio's own cancellation that comes out, once the connection is closed."""

    async def main() -> None:
        task = asyncio.create_task(call(bench.spec, {"url": bench.server.url("/hold")}, bench.caller))
        await asyncio.to_thread(bench.server.wait_until_held)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    bench.server.wait_until_hung_up()
    assert [event.payload["error"] for event in bench.events] == ["cancelled"]


async def test_a_cancelled_call_in_trio(bench: Bench) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, bench.spec, {"url": bench.server.url("/hold")}, bench.caller)
        await trio.to_thread.run_sync(bench.server.wait_until_held)
        nursery.cancel_scope.cancel()
    bench.server.wait_until_hung_up()
    assert [event.payload["error"] for event in bench.events] == ["cancelled"]


@pytest.mark.parametrize("way", [_asyncio, call_sync])
def test_a_closed_portal_is_a_failure(way: Way, bench: Bench) -> None:
    portal = Portal()
    portal.close()
    result = way(bench.spec, {"url": bench.url}, replace(bench.caller, portal=portal))
    assert result.error is not None
    assert result.error.message == "The call of Fetch broke off: its portal was closed."


async def test_a_thread_that_runs_trio_is_refused(bench: Bench) -> None:
    with pytest.raises(RuntimeError, match="this thread runs trio"):
        call_sync(bench.spec, {"url": bench.url}, bench.caller)


@pytest.mark.parametrize(("text", "args"), [('{"url": "x"}', {"url": "x"}), ("", {}), (" ", {}), ("[]", [])])
def test_json_of_a_model(text: str, args: Any) -> None:
    assert read_json(text) == args


@pytest.mark.parametrize("args", [{"url": "x"}, MappingProxyType({"url": "x"}), {}, None])
def test_arguments_that_somebody_has_read(args: Any) -> None:
    """Some clients hand over an object, and nothing for a tool without arguments."""
    assert read_json(args) == (args or {})


@pytest.mark.parametrize("args", [b"{}", 0, False, [], ["url"]], ids=repr)
def test_what_is_neither_text_nor_mapping(args: Any) -> None:
    with pytest.raises(ToolInvalidArgs, match=f"not {type(args).__name__}"):
        read_json(args)


@pytest.mark.parametrize("text", ["{", "url", "[" * 200_000], ids=["open", "word", "deep"])
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(ToolInvalidArgs, match="no JSON"):
        read_json(text)


def test_a_missing_framework_is_named() -> None:
    with pytest.raises(ImportError, match=r"needs no_such_framework: pip install no-such"):
        require("no_such_framework", "no-such")


def test_a_result_that_is_none(bench: Bench) -> None:
    async def wrong(_: Mapping[str, Any], __: ToolContext) -> Any:
        return "text"

    spec = replace(failing(OSError()), call=wrong)
    result = call_sync(spec, {}, replace(bench.caller, context=ToolContext()))
    assert result.error is not None
    assert result.error.slug == "tool_failed"
