"""Over the wire: the real OTLP exporters, to a stand-in for a collector that decodes what arrives."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import trio

pytest.importorskip(
    "opentelemetry.exporter.otlp.proto.http",
    reason="opentelemetry-exporter-otlp-proto-http is in the dependency group `test`",
)

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.support.engines import AnyHost
from tidegate.telemetry.otel import OpenTelemetryObserver
from tidegate.testing.memory import MemoryConnector, Peer
from tidegate_tools.registry import ToolContext
from tidegate_tools.telemetry import ToolTelemetry, record_web_request
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.tool import create_web_request_tools


class Collector(ThreadingHTTPServer):
    """Takes OTLP over HTTP, as a collector would, and decodes it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[tuple[str, Span]] = []
        self.metrics: dict[str, Any] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def take_traces(self, content: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(content).resource_spans:
            for scope in resource.scope_spans:
                self.spans += [(scope.scope.name, span) for span in scope.spans]

    def take_metrics(self, content: bytes) -> None:
        for resource in ExportMetricsServiceRequest.FromString(content).resource_metrics:
            for scope in resource.scope_metrics:
                self.metrics |= {metric.name: metric for metric in scope.metrics}


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        takers = {"/v1/traces": self.server.take_traces, "/v1/metrics": self.server.take_metrics}
        takers[self.path](content)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def values(attributes: Any) -> dict[str, Any]:
    def value(pair: KeyValue) -> Any:
        return getattr(pair.value, pair.value.WhichOneof("value"))

    return {pair.key: value(pair) for pair in attributes}


async def serve(peer: Peer) -> None:
    while await peer.receive_request() is not None:
        await peer.respond(b"content", fields=[("Content-Type", "text/plain")])


async def call(observer: OpenTelemetryObserver, telemetry: ToolTelemetry) -> None:
    async with trio.open_nursery() as nursery:
        [tool] = create_web_request_tools(
            WebRequestConfig(require_https=False),
            connector=MemoryConnector(nursery, serve),
            resolver=AnyHost(),
            observer=observer,
            record=record_web_request,
        )
        for url in ("http://a.example/path?token=secret", "http://10.0.0.1/path?token=secret"):
            await telemetry.observed(tool).call({"url": url}, ToolContext(7))
        nursery.cancel_scope.cancel()


def test_spans_and_metrics_arrive(collector: Collector) -> None:
    tracer_provider = TracerProvider(shutdown_on_exit=False)
    tracer_provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{collector.address}/v1/traces")))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{collector.address}/v1/metrics"), 3_600_000)
    meter_provider = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    providers: dict[str, Any] = {"tracer_provider": tracer_provider, "meter_provider": meter_provider}

    trio.run(call, OpenTelemetryObserver(**providers), ToolTelemetry(**providers))
    assert tracer_provider.force_flush()
    assert meter_provider.force_flush()
    tracer_provider.shutdown()
    meter_provider.shutdown()

    ours, theirs = ("tidegate_tools", Span.SPAN_KIND_INTERNAL), ("tidegate", Span.SPAN_KIND_CLIENT)
    # An export is grouped by scope: by trace, a span comes before those it is the parent of again.
    first, second = dict.fromkeys(span.trace_id for _, span in collector.spans)
    for trace_id, status in ((first, Status.STATUS_CODE_UNSET), (second, Status.STATUS_CODE_ERROR)):
        told = [
            (scope, span.name, span.kind, span.status.code)
            for scope, span in collector.spans
            if span.trace_id == trace_id
        ]
        assert told == [
            (theirs[0], "GET", theirs[1], status),
            (ours[0], "web_request", ours[1], status),
            (ours[0], "execute_tool web_request", ours[1], status),
        ]
    spans = [span for trace_id in (first, second) for _, span in collector.spans if span.trace_id == trace_id]
    for request, web_request, tool in (spans[:3], spans[3:]):
        assert request.parent_span_id == web_request.span_id
        assert web_request.parent_span_id == tool.span_id
        assert request.trace_id == web_request.trace_id == tool.trace_id
    assert values(spans[0].attributes)["url.full"] == "http://a.example/path"
    assert values(spans[4].attributes)["reason"] == "private"
    assert all(b"secret" not in span.SerializeToString() for span in spans)

    [duration] = [
        point
        for point in collector.metrics["http.client.request.duration"].histogram.data_points
        if "error.type" not in values(point.attributes)
    ]
    assert duration.count == 1
    assert values(duration.attributes)["server.address"] == "a.example"
    [requests, blocked] = sorted(
        collector.metrics["tidegate.web_request.requests"].sum.data_points,
        key=lambda point: values(point.attributes)["outcome"],
        reverse=True,
    )
    assert (requests.as_int, blocked.as_int) == (1, 1)
    assert {"tidegate.denied", "tidegate.tool.calls", "tidegate.web_request.errors"} < set(collector.metrics)
