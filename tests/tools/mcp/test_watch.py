"""What the server tells operators: the audit log, and OpenTelemetry where the process has a provider."""

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.tools.mcp.conftest import PROGRAM, Running
from tests.tools.mcp.site import NAME, Site
from tests.tools.test_telemetry_otlp import Collector, collector, values

__all__ = ["collector"]  # a fixture

pytestmark = [
    pytest.mark.slow,
    # The client's own, when it leaves a stream of events.
    pytest.mark.filterwarnings("ignore:Async generator 'http(x|core)2:ResourceWarning"),
]

TOOLS = ("--tool", "fetch", "--tool", "Fetch", "--tool", "web_request")


async def calls(client: Client, site: Site) -> None:
    """One call of each tool, and a prompt."""
    await client.call_tool("fetch", {"url": site.url("/article?token=s3cret")})
    await client.call_tool("Fetch", {"url": "http://10.0.0.1/"})
    await client.call_tool("web_request", {"url": "http://a.example/"})
    await client.get_prompt("fetch", {"url": site.url("/json")})


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_the_audit_log(site: Site, tmp_path: Path) -> None:
    """A line a hop, robots.txt among them, and one a call; of a prompt, which is no tool, the hops alone."""
    log = tmp_path / "log"
    arguments = [*PROGRAM[1:], *site.operator, *TOOLS, "--audit", str(log)]

    async def run() -> None:
        program = StdioServerParameters(command=PROGRAM[0], args=arguments, env=dict(os.environ))
        async with Client(program) as client:
            await calls(client, site)

    anyio.run(run, backend="trio")
    assert "s3cret" not in log.read_text()
    told = [
        (line["event"], line.get("tool"), line.get("host"), line.get("decision"), line.get("reason"))
        for line in lines_of(log)
    ]
    assert told == [
        ("hop", "fetch", NAME, "allowed", None),
        ("hop", "fetch", NAME, "allowed", None),
        ("call", "fetch", NAME, "allowed", None),
        ("hop", "Fetch", "10.0.0.1", "denied", "private"),
        ("call", "Fetch", "10.0.0.1", "denied", "private"),
        ("hop", "web_request", "a.example", "denied", "https_required"),
        ("call", "web_request", "a.example", "denied", "https_required"),
        ("hop", None, NAME, "allowed", None),
    ]
    assert {line.get("agent") for line in lines_of(log)} == {"stdio"}
    assert all("call" in line for line in lines_of(log) if line["event"] == "call")


def test_a_session_is_told_apart_and_not_given_away(
    site: Site, http_server: Callable[..., Running], tmp_path: Path
) -> None:
    """Who knows the number of a session can take it over."""
    log = tmp_path / "log"
    running = http_server("--audit", str(log))

    async def run() -> None:
        for _ in range(2):
            async with Client(running.url, mode="legacy") as client:
                await client.call_tool("fetch", {"url": "http://10.0.0.1/"})

    anyio.run(run, backend="trio")
    running.process.terminate()
    assert running.process.wait(10) == 0
    agents = {line["agent"] for line in lines_of(log)}
    assert len(agents) == 2
    assert all(re.fullmatch(r"session [0-9a-f]{32}", agent) for agent in agents)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_lost_lines_are_told_at_the_end(http_server: Callable[..., Running]) -> None:
    running = http_server("--audit", "/dev/full")

    async def run() -> None:
        async with Client(running.url) as client:
            await client.call_tool("fetch", {"url": "http://10.0.0.1/"})

    anyio.run(run, backend="trio")
    running.process.terminate()
    _, errors = running.process.communicate(timeout=10)
    told = "tidegate: --audit '/dev/full': 2 lines could not be written: No space left on device"
    assert told in errors.splitlines()


TRACED = """
import sys
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from tidegate_tools.cli import main

tracer_provider = TracerProvider()
tracer_provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(tracer_provider)
reader = PeriodicExportingMetricReader(OTLPMetricExporter(), 3_600_000)
metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))
sys.exit(main(sys.argv[1:]))
"""


def test_spans_and_metrics(site: Site, collector: Collector) -> None:  # the fixture
    """The SDK of MCP makes the span of a call, and requests stand below it; no second span of the tool."""
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.address}
    arguments = ["-c", TRACED, "mcp", *site.operator, *TOOLS]

    async def run() -> None:
        program = StdioServerParameters(command=sys.executable, args=arguments, env=environment)
        async with Client(program) as client:
            await calls(client, site)

    anyio.run(run, backend="trio")
    spans = [span for _, span in collector.spans]
    by_id = {span.span_id: span.name for span in spans}
    assert not [span.name for span in spans if span.name.startswith("execute_tool")]
    parents = [(span.name, by_id.get(span.parent_span_id)) for span in spans]
    assert parents.count(("GET", "tools/call fetch")) == 2
    assert ("GET", "tools/call Fetch") in parents
    assert ("GET", "web_request") in parents
    assert ("web_request", "tools/call web_request") in parents
    durations = collector.metrics["gen_ai.execute_tool.duration"].histogram.data_points
    assert {values(point.attributes)["gen_ai.tool.name"] for point in durations} == {
        "fetch", "Fetch", "web_request",
    }  # fmt: skip
    assert {"http.client.request.duration", "tidegate.tool.calls"} < set(collector.metrics)
