"""Tool calls under telemetry: spans, counters, one audit line a call, and none of it without a provider."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is in the dependency group `test`")

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

import tidegate
from tests.support.engines import AnyHost
from tests.support.telemetry import Sdk, open_sdk
from tidegate.portal import Portal
from tidegate.telemetry import AuditLog, HopObserver, HopRecord
from tidegate.testing.memory import MemoryConnector, Peer
from tidegate_tools.dispatch import dispatch
from tidegate_tools.fetch import make_fetch_tool
from tidegate_tools.grants import Grants, GrantStore
from tidegate_tools.registry import (
    ToolContext,
    ToolError,
    ToolFailed,
    ToolNetDenied,
    ToolRegistry,
    ToolResult,
    ToolSpec,
)
from tidegate_tools.telemetry import FaultDomain, ToolTelemetry, record_web_request
from tidegate_tools.telemetry.web_request import ERRORS, REQUESTS
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.tool import create_web_request_tools


async def serve(peer: Peer) -> None:
    """Answers after a second; /start redirects, /hold never answers."""
    while (request := await peer.receive_request()) is not None:
        path = request.line.split(" ")[1].partition("?")[0]
        if path == "/hold":
            await trio.sleep_forever()
        await trio.sleep(1)
        if path == "/start":
            await peer.respond(status="302 Found", fields=[("Location", "/end")])
        else:
            await peer.respond(b"content", fields=[("Content-Type", "text/plain")])


@pytest.fixture
def sdk() -> Iterator[Sdk]:
    with open_sdk() as made:
        yield made


def fetch_tool(nursery: trio.Nursery, observer: Any = None, **options: Any) -> ToolSpec:
    return make_fetch_tool(
        connector=MemoryConnector(nursery, serve), resolver=AnyHost(), observer=observer, **options
    )


def web_request_tool(nursery: trio.Nursery, observer: Any = None, **config: Any) -> ToolSpec:
    [spec] = create_web_request_tools(
        WebRequestConfig(require_https=False, **config),
        agent="crm",
        connector=MemoryConnector(nursery, serve),
        resolver=AnyHost(),
        observer=observer,
        record=record_web_request,
    )
    return spec


def toy(name: str, result: ToolResult | BaseException) -> ToolSpec:
    """A tool that comes to that."""

    async def call(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        if isinstance(result, BaseException):
            raise result
        return result

    return ToolSpec(name=name, description="A toy.", parameters={"type": "object"}, call=call)


def described(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


# Spans of tools ----------------------------------------------------------------------------------------


async def test_a_span_a_call_and_its_requests_below_it(
    sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    telemetry = ToolTelemetry(**sdk.providers)
    tool = telemetry.observed(fetch_tool(nursery, sdk.observer()))
    args = {"url": "http://a.example/start?token=secret", "follow_redirects": True}
    result = await tool.call(args, ToolContext(7, tool_call_id="call-1"))
    assert result.ok
    first, second, span = sdk.spans
    assert (span.name, span.kind) == ("execute_tool Fetch", SpanKind.INTERNAL)
    assert described(span) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "Fetch",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call-1",
        "gen_ai.tool.description": tool.description,
    }
    assert span.status.status_code is StatusCode.UNSET
    assert {first.parent.span_id, second.parent.span_id} == {span.context.span_id}
    assert {first.kind, second.kind} == {SpanKind.CLIENT}
    assert sdk.values("tidegate.tool.calls") == [
        ({"gen_ai.tool.name": "Fetch", "tidegate.outcome": "success"}, 1)
    ]


@pytest.mark.parametrize(
    ("answer", "error_type", "outcome"),
    [
        (ToolResult.success({}), None, "success"),
        (ToolResult.failure(ToolNetDenied("No.", reason="private")), "private", "blocked"),
        (ToolNetDenied("No.", reason="private"), "private", "blocked"),
        (ToolNetDenied("No."), "net_denied", "blocked"),
        (ToolFailed("No.", reason="timeout"), "timeout", "timeout"),
        (ToolFailed("No.", reason="dns_resolution_failed"), "dns_resolution_failed", "error"),
        (ToolFailed("No.", reason="internal_error"), "internal_error", "error"),
        (ToolError("No."), "tool_failed", "error"),
        (ExceptionGroup("", [ToolNetDenied("No.", reason="private")]), "private", "blocked"),
        (
            ExceptionGroup("", [ValueError(), ExceptionGroup("", [ToolNetDenied("No.")])]),
            "net_denied",
            "blocked",
        ),
        (RuntimeError("the secret is hunter2"), "tool_failed", "error"),
        (ExceptionGroup("the secret is hunter2", [ValueError("hunter2")]), "tool_failed", "error"),
    ],
)
async def test_how_a_call_ended(
    answer: ToolResult | BaseException, error_type: str | None, outcome: str, sdk: Sdk
) -> None:
    """What a tool raises is in no span: its text and its frames may hold anything."""
    tool = ToolTelemetry(**sdk.providers).observed(toy("Toy", answer))
    try:
        assert await tool.call({}, ToolContext()) is answer
    except Exception as error:
        assert error is answer
    [span] = sdk.spans
    assert described(span).get("error.type") == error_type
    assert span.status.status_code is (StatusCode.ERROR if error_type else StatusCode.UNSET)
    assert "hunter2" not in sdk.told()
    assert span.events == ()
    [(attributes, count)] = sdk.values("tidegate.tool.calls")
    assert (attributes["tidegate.outcome"], count) == (outcome, 1)


@pytest.mark.parametrize("spans", [True, False])
async def test_the_duration_of_a_call(
    spans: bool, sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    """Whoever makes the span, we are the ones who see every call."""
    telemetry = ToolTelemetry(spans=spans, **sdk.providers)
    tool = telemetry.observed(fetch_tool(nursery))
    for url in ("http://a.example/", "http://a.example/", "http://10.0.0.1/"):
        await tool.call({"url": url}, ToolContext())
    with trio.move_on_after(3):
        await tool.call({"url": "http://a.example/hold"}, ToolContext())
    points = {
        point.attributes.get("error.type"): point for point in sdk.points("gen_ai.execute_tool.duration")
    }
    assert {error: point.count for error, point in points.items()} == {None: 3, "private": 1}
    for error, point in points.items():
        facts = {"gen_ai.tool.name": "Fetch", **({"error.type": error} if error else {})}
        assert dict(point.attributes) == facts
        assert (point.explicit_bounds[0], point.explicit_bounds[-1]) == (0.01, 81.92)
        assert point.sum >= 0


async def test_a_cancelled_call_leaves_its_spans_unset(
    sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any, tmp_path: Path
) -> None:
    with AuditLog.to_file(tmp_path / "audit.jsonl") as log:
        telemetry = ToolTelemetry(audit=log, **sdk.providers)
        for make in (fetch_tool, web_request_tool):
            tool = telemetry.observed(make(nursery, sdk.observer()), audited=True)
            with trio.move_on_after(3):
                await tool.call({"url": "http://a.example/hold"}, ToolContext())
    assert len(sdk.spans) == 5  # two of tools, one of web_request, two of requests
    for span in sdk.spans:
        assert span.status.status_code is StatusCode.UNSET
        assert "error.type" not in span.attributes
    lines = lines_of(tmp_path / "audit.jsonl")
    assert [(line["outcome"], line["error"]) for line in lines] == [("cancelled", "cancelled")] * 2
    assert {value[0]["tidegate.outcome"] for value in sdk.values("tidegate.tool.calls")} == {"cancelled"}


async def test_a_cancelled_web_request_tells_what_it_was(
    sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    """W-F1, W-F2: it is counted. None of the outcomes is its own, so it has none."""
    tool = ToolTelemetry(**sdk.providers).observed(web_request_tool(nursery))
    with trio.move_on_after(3):
        await tool.call({"url": "http://a.example/hold?token=secret", "method": "PUT"}, ToolContext())
    [span] = sdk.named("web_request")
    assert described(span) == {
        "method": "PUT", "host": "a.example", "path": "/hold", "duration_ms": 3000.0, "body_truncated": False,
        "redirect_count": 0,
    }  # fmt: skip
    assert span.status.status_code is StatusCode.UNSET
    assert sdk.values(REQUESTS) == [({}, 1)]
    assert sdk.values(ERRORS) == []


async def test_no_span_of_a_tool_where_the_host_makes_one(
    sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    telemetry = ToolTelemetry(spans=False, **sdk.providers)
    with sdk.tracer.start_as_current_span("host") as host:
        tool = telemetry.observed(fetch_tool(nursery, sdk.observer()))
        await tool.call({"url": "http://a.example/"}, ToolContext())
        tool = telemetry.observed(web_request_tool(nursery, sdk.observer()))
        await tool.call({"url": "http://a.example/"}, ToolContext())
    fetch, request, web_request, _ = sdk.spans
    assert fetch.parent.span_id == web_request.parent.span_id == host.get_span_context().span_id
    assert web_request.name == "web_request"
    assert request.parent.span_id == web_request.context.span_id


def test_parentage_survives_the_way_through_a_portal(sdk: Sdk) -> None:
    """From a plain thread into the trio thread."""
    tool = ToolTelemetry(**sdk.providers).observed(
        make_fetch_tool(observer=sdk.observer(), resolver=AnyHost())
    )
    with Portal() as portal, sdk.tracer.start_as_current_span("host") as host:
        result = portal.run_sync(tool.call, {"url": "http://10.0.0.1/"}, ToolContext())
    assert result.error.reason == "private"
    request, span, _ = sdk.spans
    assert span.parent.span_id == host.get_span_context().span_id
    assert request.parent.span_id == span.context.span_id


# web_request -------------------------------------------------------------------------------------------


async def test_the_span_of_web_request(sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any) -> None:
    """W-160, W-F1, W-F2: a span and a count a call; exactly these attributes, no query, field or content."""
    tool = ToolTelemetry(**sdk.providers).observed(web_request_tool(nursery, max_redirects=2))
    args = {"url": "http://a.example/start?token=secret", "headers": {"X-Key": "secret"}}
    assert (await tool.call(args, ToolContext())).ok
    span, outer = sdk.spans
    assert (span.name, span.parent.span_id) == ("web_request", outer.context.span_id)
    assert described(span) == {
        "method": "GET",
        "host": "a.example",
        "path": "/start",
        "status": 200,
        "duration_ms": 2000.0,
        "response_bytes": 7,
        "body_truncated": False,
        "redirect_count": 1,
        "outcome": "success",
    }
    assert span.status.status_code is StatusCode.UNSET
    assert sdk.values(REQUESTS) == [({"outcome": "success"}, 1)]
    assert sdk.values(ERRORS) == []


@pytest.mark.parametrize(
    ("args", "config", "outcome", "reason", "path"),
    [
        ({"url": "http://10.0.0.1/p"}, {}, "blocked", "private", None),
        (
            {"url": "http://b.example/p"},
            {"allowed_hosts": ["a.example"]},
            "blocked",
            "not_in_allowlist",
            None,
        ),
        ({"url": "http://a.example/hold"}, {}, "timeout", "timeout", "/hold"),
        ({"url": "http://a.example/", "method": "PULL"}, {}, "invalid", "invalid_argument", None),
    ],
)
async def test_web_request_without_a_response(
    args: dict[str, Any],
    config: dict[str, Any],
    outcome: str,
    reason: str,
    path: str | None,
    sdk: Sdk,
    nursery: trio.Nursery,
    autojump_clock: Any,
) -> None:
    """W-22, W-69, W-F1, W-F3: fault domain, reason and outcome; of a blocked call no path, no address."""
    tool = ToolTelemetry(**sdk.providers).observed(web_request_tool(nursery, timeout_seconds=5, **config))
    await tool.call(args, ToolContext())
    [span] = sdk.named("web_request")
    told = described(span)
    assert (told["outcome"], told["reason"], told["error.type"]) == (outcome, reason, reason)
    assert told["fault_domain"] == FaultDomain.WEB_REQUEST == "web_request"
    assert told.get("path") == path
    assert "status" not in told
    assert span.status.status_code is StatusCode.ERROR
    assert sdk.values(REQUESTS) == [({"outcome": outcome}, 1)]
    assert sdk.values(ERRORS) == [({"outcome": outcome, "reason": reason, "fault_domain": "web_request"}, 1)]


GLOBAL = """
import time, trio
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tidegate_tools.registry import ToolContext
from tidegate_tools.telemetry import record_web_request
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.tool import create_web_request_tools

[tool] = create_web_request_tools(WebRequestConfig(), record=record_web_request)
call = lambda: trio.run(tool.call, {"url": "https://10.0.0.1/"}, ToolContext())
call()  # before there is a provider: nothing
exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))
end = time.monotonic() + 5
while not exporter.get_finished_spans() and time.monotonic() < end:  # noticed within a hundredth of a second
    call()
[span] = exporter.get_finished_spans()
print(span.name, span.attributes["outcome"], span.attributes["reason"], span.status.status_code.name)
duration = (span.end_time - span.start_time) / 1e6
assert abs(duration - span.attributes["duration_ms"]) < 0.01, (duration, span.attributes["duration_ms"])
[resource] = reader.get_metrics_data().resource_metrics
[scope] = resource.scope_metrics
print(*sorted(metric.name for metric in scope.metrics))
print([point.value for metric in scope.metrics for point in metric.data.data_points])
"""


def test_record_web_request_alone_reports_to_the_global_provider() -> None:
    """AMB-50, AMB-51: the hook is always in place; without an observed tool it makes a span afterwards."""
    done = subprocess.run([sys.executable, "-c", GLOBAL], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "web_request blocked private ERROR",
        "tidegate.web_request.errors tidegate.web_request.requests",
        "[1, 1]",
    ]


LATE = """
import sys, time, trio
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tidegate.telemetry import AuditLog
from tidegate_tools.dispatch import dispatch
from tidegate_tools.fetch import make_fetch_tool
from tidegate_tools.registry import ToolRegistry
from tidegate_tools.telemetry import ToolTelemetry

telemetry = ToolTelemetry(audit=AuditLog.to_file(sys.argv[1]) if sys.argv[1:] else None)
registry = ToolRegistry()
registry.register(telemetry.observed(make_fetch_tool()))
message = {"tool": "Fetch", "args": {"url": "https://10.0.0.1/"}}
call = lambda: trio.run(lambda: dispatch(message, registry, pid=7, audit=telemetry.record))
call()  # before there is a provider: nothing
exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))
end = time.monotonic() + 5
while not exporter.get_finished_spans() and time.monotonic() < end:  # noticed within a hundredth of a second
    call()
[span] = exporter.get_finished_spans()
print(span.name, span.attributes["error.type"])
[resource] = reader.get_metrics_data().resource_metrics
[scope] = resource.scope_metrics
print(*sorted(metric.name for metric in scope.metrics))
"""


@pytest.mark.parametrize("audited", [True, False])
def test_a_provider_may_be_set_late(audited: bool, tmp_path: Path) -> None:
    """AMB-51: with a log of its own beside it, too."""
    arguments = [str(tmp_path / "audit.jsonl")] if audited else []
    command = [sys.executable, "-c", LATE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "execute_tool Fetch private",
        "gen_ai.execute_tool.duration tidegate.tool.calls",
    ]


UNHEARD = """
import sys, trio
from tidegate_tools.dispatch import AuditEvent
from tidegate_tools.registry import ToolContext, ToolResult, ToolSpec
from tidegate_tools.telemetry import ToolTelemetry, record_web_request
from tidegate_tools.web_request.records import CallRecord
from tidegate.telemetry import Outcome

async def answer(args, ctx):
    return ToolResult.success({})

spec = ToolSpec(name="web_request", description="A toy.", parameters={"type": "object"}, call=answer)
telemetry = ToolTelemetry()
observed = telemetry.observed(spec)
record = CallRecord("crm", "GET", "a.example", "/", 200, 0.1, 1, False, 0, Outcome.SUCCESS, None)
event = AuditEvent(7, "tool.call.dispatched", {"tool": "Toy", "tool_call_id": "", "ok": True, "error": None})

def made(function, *args):
    "Python functions that are called in it. At times it looks for a provider; so the least of several."
    counts = []
    for _ in range(20):
        count = 0
        def note(frame, kind, _):
            nonlocal count
            count += kind == "call"
        sys.setprofile(note)
        function(*args)
        sys.setprofile(None)
        counts.append(count)
    return min(counts)

def run(call):
    coroutine = call({}, ToolContext(7))
    try:
        coroutine.send(None)
    except StopIteration:
        pass

print(made(run, observed.call) - made(run, spec.call))
print(made(telemetry.record, event), made(record_web_request, record))
"""


def test_without_a_provider_and_a_log_nothing_is_made() -> None:
    """W-11: what is left is to ask whether anybody listens, and to say whose fetches these are."""
    done = subprocess.run([sys.executable, "-c", UNHEARD], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    around, recorded, counted = map(int, done.stdout.split())
    assert around <= 8
    assert recorded <= 6
    assert counted <= 6


WITHOUT = """
import sys
sys.modules["opentelemetry"] = None  # importing it fails as if it were not installed
import trio
from tidegate_tools.fetch import make_fetch_tool
from tidegate_tools.registry import ToolContext
from tidegate_tools.telemetry import ToolTelemetry, record_web_request
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.tool import create_web_request_tools

telemetry = ToolTelemetry()
[web_request] = create_web_request_tools(WebRequestConfig(), record=record_web_request)
for tool in (web_request, make_fetch_tool()):
    result = trio.run(telemetry.observed(tool).call, {"url": "https://10.0.0.1/"}, ToolContext())
    print(result.error.reason)
"""


def test_without_opentelemetry_everything_works() -> None:
    """W-11."""
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["private", "private"], "")


# The audit line of a call ------------------------------------------------------------------------------


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def dispatched(
    nursery: trio.Nursery, path: Path, *messages: Any, grants: Grants | None = None, policy: Any = None
) -> list[dict[str, Any]]:
    """The audit lines of some messages, hops and calls."""
    store = GrantStore()
    store.grant(7, grants or Grants(("*",), ("*",)))

    class Kernel:
        cap = store

    with AuditLog.to_file(path) as log:
        telemetry = ToolTelemetry(audit=log)
        registry = ToolRegistry()
        tool = fetch_tool(nursery, log.observer(policy), policy=policy)
        registry.register(telemetry.observed(tool))
        registry.register(telemetry.observed(toy("Odd", RuntimeError("the secret is hunter2"))))
        for message in messages:
            await dispatch(message, registry, pid=7, kernel=Kernel(), audit=telemetry.record)
    return lines_of(path)


def message(url: str, **args: Any) -> dict[str, Any]:
    return {"tool": "Fetch", "tool_call_id": "c1", "args": {"url": url, **args}}


async def test_a_line_a_hop_and_one_a_call(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Any
) -> None:
    """F-118: no argument in it; the hops know the agent and the tool."""
    lines = await dispatched(
        nursery, tmp_path / "a", message("http://a.example:8080/start?token=secret", follow_redirects=True)
    )
    assert [line["event"] for line in lines] == ["hop", "hop", "call"]
    assert {(line["agent"], line["tool"], line["call"]) for line in lines} == {(7, "Fetch", "c1")}
    call = lines[-1]
    assert call.pop("time")
    assert call.pop("duration") >= 0
    assert call == {
        "event": "call", "agent": 7, "tool": "Fetch", "call": "c1", "kind": "tool.call.dispatched",
        "decision": "allowed", "outcome": "success", "method": "GET", "host": "a.example", "port": 8080,
        "status": 200, "hops": 2, "wire_bytes": 7, "content_bytes": 7,
    }  # fmt: skip
    assert "secret" not in json.dumps(lines)


@pytest.mark.parametrize(
    ("sent", "error", "outcome", "rule"),
    [
        ("no message at all", "tool_not_found", "invalid", None),
        ({"tool": "Nothing", "args": {}}, "tool_not_found", "invalid", None),
        ({"tool": "Fetch", "args": 5}, "invalid_args", "invalid", None),
        (message("http://a.example/", method="PULL"), "invalid_args", "invalid", "arguments"),
        (message("http://10.0.0.1/"), "net_denied", "blocked", "floor"),
        ({"tool": "Odd"}, "tool_failed", "error", None),
    ],
)
async def test_a_refused_or_failed_call_has_its_line_too(
    sent: Any, error: str, outcome: str, rule: str | None, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """F-118: exactly one, whoever refused."""
    lines = await dispatched(nursery, tmp_path / "a", sent)
    [call] = [line for line in lines if line["event"] == "call"]
    assert (call["kind"], call["error"], call["outcome"], call.get("rule")) == (
        "tool.call.denied",
        error,
        outcome,
        rule,
    )
    assert "hunter2" not in json.dumps(call)


async def test_a_call_without_a_grant(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Also after one that went well in the same task, whose facts are not taken for its own."""
    good, denied = message("http://a.example/"), {"tool": "Odd", "tool_call_id": "c1"}
    grants = Grants(("Fetch",), ("*",))
    lines = await dispatched(nursery, tmp_path / "a", good, denied, grants=grants)
    call = lines[-1]
    assert (call["error"], call["rule"], call["decision"]) == ("permission_denied", "tool_grants", "denied")
    assert "host" not in call
    assert "duration" not in call


async def test_a_refusal_out_of_a_nursery_is_counted_once(sdk: Sdk) -> None:
    """`dispatch` takes it out of its group, and so does the telemetry of the same call."""
    telemetry, registry = ToolTelemetry(**sdk.providers), ToolRegistry()
    grouped = ExceptionGroup("", [ToolNetDenied("No.", reason="private")])
    registry.register(telemetry.observed(toy("Toy", grouped)))
    answer = await dispatch({"tool": "Toy"}, registry, pid=7, audit=telemetry.record)
    assert answer["error"] == "net_denied"
    [(attributes, count)] = sdk.values("tidegate.tool.calls")
    assert (attributes["gen_ai.tool.name"], attributes["tidegate.outcome"], count) == ("Toy", "blocked", 1)


async def test_a_refused_call_after_one_past_the_dispatcher(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Whose facts nobody has asked for, and which are not those of the refused one."""
    path = tmp_path / "a"
    with AuditLog.to_file(path) as log:
        telemetry = ToolTelemetry(audit=log)
        tool = telemetry.observed(fetch_tool(nursery, log.observer()))
        await tool.call({"url": "http://10.0.0.1/"}, ToolContext(7))
        await dispatch({"tool": "Nothing"}, ToolRegistry(), pid=7, audit=telemetry.record)
    call = lines_of(path)[-1]
    assert (call["tool"], call["error"]) == ("Nothing", "tool_not_found")
    assert {"host", "duration", "reason"}.isdisjoint(call)


async def test_a_call_on_trial(nursery: trio.Nursery, tmp_path: Path, autojump_clock: Any) -> None:
    policy = tidegate.Policy(hosts=["b.example"], report_only=True)
    lines = await dispatched(nursery, tmp_path / "a", message("http://a.example/"), policy=policy)
    assert [line["decision"] for line in lines] == ["would_deny", "would_deny"]


async def test_tools_that_are_not_dispatched_write_their_own_lines(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: Any
) -> None:
    with AuditLog.to_file(tmp_path / "a") as log:
        tool = ToolTelemetry(audit=log).observed(fetch_tool(nursery, log.observer()), audited=True)
        await tool.call({"url": "http://a.example/"}, ToolContext("crm"))
        await tool.call({"url": "http://10.0.0.1/"}, ToolContext("crm"))
    lines = lines_of(tmp_path / "a")
    told = [(line["event"], line["agent"], line["outcome"]) for line in lines]
    assert told == [
        ("hop", "crm", "success"), ("call", "crm", "success"),
        ("hop", "crm", "blocked"), ("call", "crm", "blocked"),
    ]  # fmt: skip
    assert (lines[1]["kind"], lines[3]["kind"]) == ("tool.call.dispatched", "tool.call.denied")


async def test_without_a_log_nothing_is_written_and_all_works(
    nursery: trio.Nursery, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    taken: list[HopRecord] = []
    telemetry = ToolTelemetry()
    registry = ToolRegistry()
    registry.register(telemetry.observed(fetch_tool(nursery, HopObserver(taken.append))))
    with caplog.at_level(logging.DEBUG):
        response = await dispatch(message("http://a.example/"), registry, pid=7, audit=telemetry.record)
    assert response["ok"]
    assert [record.call.tool for record in taken] == ["Fetch"]
    assert "audit" not in caplog.text  # `dispatch` logs there what goes wrong in its audit


async def test_an_observed_tool_is_the_same_tool(nursery: trio.Nursery) -> None:
    spec = fetch_tool(nursery)
    observed = ToolTelemetry().observed(spec)
    for name in ("name", "description", "parameters", "read_only", "requires_capability", "result_schema"):
        assert getattr(observed, name) == getattr(spec, name)
