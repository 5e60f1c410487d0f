"""OpenTelemetry with its real SDK: a CLIENT span a request sent, metrics, and nothing without a provider."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
import trio

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is in the dependency group `test`")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import SpanKind, StatusCode

import tidegate
from tests.support.engines import AnyHost, engine_with
from tests.support.telemetry import Sdk, open_sdk
from tidegate.telemetry import conventions
from tidegate.telemetry.otel import OPT_IN, OpenTelemetryObserver
from tidegate.testing.memory import Peer, ReceivedRequest

REQUESTS: list[ReceivedRequest] = []


async def serve(peer: Peer) -> None:
    """Answers after a second with the status that the path names; /start redirects to /200."""
    while (request := await peer.receive_request()) is not None:
        REQUESTS.append(request)
        await trio.sleep(1)
        path = request.line.split(" ")[1].partition("?")[0]
        if path == "/start":
            await peer.respond(status="302 Found", fields=[("Location", "/200?token=secret")])
        elif path == "/inside":
            await peer.respond(status="302 Found", fields=[("Location", "http://10.0.0.1/deep/path")])
        elif path == "/hold":
            await trio.sleep_forever()
        elif path == "/drip":
            await peer.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nfour")
            await trio.sleep_forever()
        else:
            await peer.respond(b"content", status=f"{path[1:] or 200} Whatever")


@pytest.fixture
def sdk() -> Iterator[Sdk]:
    REQUESTS.clear()
    with open_sdk() as made:
        yield made


async def fetch(nursery: trio.Nursery, observer: Any, url: str, **options: Any) -> None:
    """One fetch, whatever comes of it."""
    limits = tidegate.Limits(
        max_redirects=options.pop("max_redirects", 1), timeout=options.pop("timeout", 30)
    )
    async with engine_with(nursery, serve, observer=observer, **options) as (engine, _):
        with suppress(tidegate.FetchError):
            await engine.fetch(url, limits=limits)


def described(span: ReadableSpan) -> Mapping[str, Any]:
    return dict(span.attributes or {})


# Spans -------------------------------------------------------------------------------------------------


async def test_one_client_span(sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any) -> None:
    """W-22, W-F3: exactly these attributes, no query; the duration is that of the request."""
    await fetch(nursery, sdk.observer(), "http://a.example:8080/200?token=secret")
    [span] = sdk.spans
    assert (span.name, span.kind, span.parent) == ("GET", SpanKind.CLIENT, None)
    assert described(span) == {
        "http.request.method": "GET",
        "server.address": "a.example",
        "server.port": 8080,
        "url.full": "http://a.example:8080/200",
        "http.response.status_code": 200,
        "network.peer.address": "93.184.216.34",
        "network.peer.port": 8080,
        "network.protocol.version": "1.1",
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.end_time - span.start_time == 1_000_000_000
    assert span.events == ()
    scope = span.instrumentation_scope
    assert (scope.name, scope.version, scope.schema_url) == (
        "tidegate",
        tidegate.__version__,
        conventions.SCHEMA,
    )


@pytest.mark.parametrize(
    ("status", "error"), [(204, None), (304, None), (399, None), (400, "400"), (404, "404"), (503, "503")]
)
async def test_a_status(
    status: int, error: str | None, sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    """For a client, 4xx and 5xx are errors."""
    await fetch(nursery, sdk.observer(), f"http://a.example/{status}")
    [span] = sdk.spans
    assert described(span)["http.response.status_code"] == status
    assert described(span).get("error.type") == error
    assert span.status.status_code is (StatusCode.ERROR if error else StatusCode.UNSET)
    assert span.status.description is None


async def test_the_version_is_the_peers(sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any) -> None:
    async def old(peer: Peer) -> None:
        await peer.receive_request()
        await peer.send(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")

    async with engine_with(nursery, old, observer=sdk.observer()) as (engine, _):
        response = await engine.fetch("http://a.example/")
    assert response.hops[0].http_version == "1.0"
    [span] = sdk.spans
    assert described(span)["network.protocol.version"] == "1.0"


async def test_a_redirect_is_a_span_of_its_own(sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any) -> None:
    await fetch(nursery, sdk.observer(), "http://a.example/start")
    assert [
        (span.attributes["url.full"], span.attributes.get("http.request.resend_count")) for span in sdk.spans
    ] == [("http://a.example/start", None), ("http://a.example/200", 1)]


async def test_a_repeat_on_a_fresh_connection_is_a_span_of_its_own(sdk: Sdk, nursery: trio.Nursery) -> None:
    """D-18. Then a redirect: the ordinal goes on."""
    asked = 0

    async def dies(peer: Peer) -> None:
        nonlocal asked
        while await peer.receive_request() is not None:
            asked += 1
            if asked == 2:
                return
            await peer.respond(status="302 Found", fields=[("Location", "/end")] if asked == 3 else [])

    async with engine_with(nursery, dies, observer=sdk.observer()) as (engine, _):
        await engine.fetch("http://a.example/")
        await engine.fetch("http://a.example/", limits=tidegate.Limits(max_redirects=1))
    told = [
        (span.attributes.get("error.type"), span.attributes.get("http.request.resend_count"))
        for span in sdk.spans
    ]
    assert told == [(None, None), ("connection_lost", None), (None, 1), (None, 2)]


@pytest.mark.parametrize(
    ("url", "options", "reason"),
    [
        ("http://10.0.0.1/secret/path", {}, "private"),
        ("http://a.example:22/secret/path", {}, "blocked_port"),
        ("http://a.example/secret/path", {"policy": tidegate.Policy(hosts=[])}, "not_in_allowlist"),
        ("http://a.example/secret/path", {"resolver": AnyHost("10.9.8.7")}, "private"),
    ],
)
async def test_a_refused_request(
    url: str, options: dict[str, Any], reason: str, sdk: Sdk, nursery: trio.Nursery
) -> None:
    """W-F3: only the reason and the host; no path, and never an address that DNS gave."""
    await fetch(nursery, sdk.observer(), url, **options)
    [span] = sdk.spans
    target = tidegate.parse_url(url)
    assert described(span) == {
        "http.request.method": "GET",
        "server.address": target.host,
        "server.port": target.port,
        "error.type": reason,
    }
    assert span.status.status_code is StatusCode.ERROR
    [point] = sdk.points("tidegate.denied")
    assert (point.value, dict(point.attributes)) == (1, {"tidegate.reason": reason})


async def test_a_redirect_to_where_it_may_not_go(
    sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    await fetch(nursery, sdk.observer(), "http://a.example/inside")
    went, refused = sdk.spans
    assert went.attributes["http.response.status_code"] == 302
    assert (refused.attributes["error.type"], refused.attributes["http.request.resend_count"]) == (
        "private",
        1,
    )
    assert "url.full" not in refused.attributes


async def test_no_url_no_span(sdk: Sdk, nursery: trio.Nursery) -> None:
    """Nothing was to be sent anywhere, but the refusal is counted."""
    for url in ("nonsense", "http://user:word@a.example/"):
        await fetch(nursery, sdk.observer(), url)
    assert sdk.spans == []
    assert {point.attributes["tidegate.reason"]: point.value for point in sdk.points("tidegate.denied")} == {
        "malformed_url": 1,
        "userinfo_not_allowed": 1,
    }


async def test_our_deadline_is_an_error(sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any) -> None:
    await fetch(nursery, sdk.observer(), "http://a.example/hold", timeout=3)
    [span] = sdk.spans
    assert (span.attributes["error.type"], span.status.status_code) == ("timeout", StatusCode.ERROR)
    assert span.end_time - span.start_time == 3_000_000_000
    assert sdk.points("tidegate.denied") == []


async def test_an_answer_that_never_ends_is_told(
    sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    """Whom it was, and what it answered: a status, if one was received, also of a request that failed."""
    await fetch(nursery, sdk.observer(opt_in=["http.response.body.size"]), "http://a.example/drip", timeout=3)
    [span] = sdk.spans
    assert described(span) == {
        "http.request.method": "GET",
        "server.address": "a.example",
        "server.port": 80,
        "url.full": "http://a.example/drip",
        "http.response.status_code": 503,
        "network.protocol.version": "1.1",
        "network.peer.address": "93.184.216.34",
        "network.peer.port": 80,
        "error.type": "timeout",
    }
    [point] = sdk.points("http.client.request.duration")
    assert (point.attributes["error.type"], point.attributes["http.response.status_code"]) == ("timeout", 503)


async def test_a_cancel_in_the_midst_of_an_answer_is_not_measured(
    sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    """Its status is known, but how long the whole would have taken is not."""
    async with engine_with(nursery, serve, observer=sdk.observer()) as (engine, _):
        with trio.move_on_after(3):
            await engine.fetch("http://a.example/drip")
    [span] = sdk.spans
    assert (span.attributes["http.response.status_code"], span.status.status_code) == (503, StatusCode.UNSET)
    assert "error.type" not in span.attributes
    assert sdk.points("http.client.request.duration") == []


async def test_a_cancel_leaves_the_status_unset(sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any) -> None:
    """It is no error of anybody, and no success that a histogram should count."""
    async with engine_with(nursery, serve, observer=sdk.observer()) as (engine, _):
        with trio.move_on_after(3):
            await engine.fetch("http://a.example/hold")
        with trio.move_on_after(3):
            async with engine.stream("http://a.example/hold"):
                raise AssertionError("it never answers")
    for span in sdk.spans:
        assert span.status.status_code is StatusCode.UNSET
        assert "error.type" not in span.attributes
        assert span.end_time - span.start_time == 3_000_000_000
    assert len(sdk.spans) == 2
    assert sdk.points("http.client.request.duration") == []


# Parentage ---------------------------------------------------------------------------------------------


async def test_the_parent_is_the_current_span_even_across_nurseries(
    sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    tracer = sdk.tracer
    async with engine_with(nursery, serve, observer=sdk.observer()) as (engine, _):
        with tracer.start_as_current_span("outer") as outer:
            async with trio.open_nursery() as inner:
                for name in "abc":
                    inner.start_soon(engine.fetch, f"http://{name}.example/200")
        with tracer.start_as_current_span("other") as other:
            await engine.fetch("http://d.example/200")
    parents = {
        span.attributes["server.address"]: span.parent.span_id
        for span in sdk.spans
        if span.kind is SpanKind.CLIENT
    }
    outer_id, other_id = outer.get_span_context().span_id, other.get_span_context().span_id
    assert parents == {
        "a.example": outer_id, "b.example": outer_id, "c.example": outer_id, "d.example": other_id,
    }  # fmt: skip


async def test_a_stream_may_be_closed_by_another_task(
    sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """No context is attached that could be detached in the wrong place."""
    tracer = sdk.tracer
    async with engine_with(nursery, serve, observer=sdk.observer()) as (engine, _):
        with tracer.start_as_current_span("opens") as opener:
            stream = engine.stream("http://a.example/200")
            await stream.__aenter__()
            assert trace.get_current_span() is opener

        async def read() -> None:
            with tracer.start_as_current_span("reads"):
                assert b"".join([piece async for piece in stream]) == b"content"
                await stream.__aexit__(None, None, None)

        async with trio.open_nursery() as inner:
            inner.start_soon(read)
    [client] = [span for span in sdk.spans if span.kind is SpanKind.CLIENT]
    assert client.parent.span_id == opener.get_span_context().span_id
    assert caplog.text == ""


class Keeping(Sampler):
    """Remembers what a sampler is shown, and keeps nothing."""

    def __init__(self) -> None:
        self.shown: list[Mapping[str, Any]] = []

    def should_sample(self, parent_context: Any, trace_id: int, name: str, *args: Any, **kwargs: Any) -> Any:
        self.shown.append(kwargs.get("attributes") or args[1])
        return SamplingResult(Decision.DROP)

    def get_description(self) -> str:
        return "Keeping"


async def test_a_sampler_sees_what_it_may_decide_by(nursery: trio.Nursery, autojump_clock: Any) -> None:
    sampler = Keeping()
    observer = OpenTelemetryObserver(tracer_provider=TracerProvider(sampler=sampler, shutdown_on_exit=False))
    await fetch(nursery, observer, "http://a.example/200")
    [shown] = sampler.shown
    assert {"http.request.method", "server.address", "server.port", "url.full"} <= set(shown)


async def test_no_trace_context_goes_out(sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any) -> None:
    """A stranger is not told our ids."""
    with sdk.tracer.start_as_current_span("outer"):
        await fetch(nursery, sdk.observer(), "http://a.example/200")
    [request] = REQUESTS
    assert {name.lower() for name, _ in request.fields} == {"host", "user-agent", "accept", "accept-encoding"}


# What an operator may choose ---------------------------------------------------------------------------

SIGNED = (
    "http://a.example/200?X-Amz-Signature=s1&X-Amz-Credential=s2&X-Amz-Security-Token=s3&AWSAccessKeyId=s4"
    "&Signature=s5&sig=s6&X-Goog-Signature=s7&page=2&SIG=8&sig="
)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://a.example/200", "http://a.example/200"),
        ("http://a.example/200?", "http://a.example/200?"),
        ("http://a.example/200?page=2&x", "http://a.example/200?page=2&x"),
        (
            SIGNED,
            "http://a.example/200?X-Amz-Signature=REDACTED&X-Amz-Credential=REDACTED"
            "&X-Amz-Security-Token=REDACTED&AWSAccessKeyId=REDACTED&Signature=REDACTED&sig=REDACTED"
            "&X-Goog-Signature=REDACTED&page=2&SIG=8&sig=REDACTED",
        ),
        ("http://a.example/200?sig=a=b&c", "http://a.example/200?sig=REDACTED&c"),
        # A server reads a key without its percent-encoding.
        (
            "http://a.example/200?s%69g=1&X%2dAmz-%53ignature=2&%73ig&a%26sig=3",
            "http://a.example/200?s%69g=REDACTED&X%2dAmz-%53ignature=REDACTED&%73ig&a%26sig=3",
        ),
    ],
)
async def test_queries_if_asked_for(
    url: str, shown: str, sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    """The keys stay, by their exact case; the values of signatures go."""
    await fetch(nursery, sdk.observer(query=True), url)
    [span] = sdk.spans
    assert span.attributes["url.full"] == shown


async def test_secrets_that_the_embedder_knows(sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any) -> None:
    """W-F3, v2 part: in a path, in a host, in metrics."""
    observer = sdk.observer(redact=lambda text: text.replace("hunter2", "REDACTED"))
    await fetch(nursery, observer, "http://hunter2.a.example/200?/hunter2")
    await fetch(nursery, observer, "http://hunter2.a.example:22/")
    for item in (*sdk.spans, *sdk.points("http.client.request.duration")):
        assert item.attributes["server.address"] == "REDACTED.a.example"
    assert sdk.spans[0].attributes["url.full"] == "http://REDACTED.a.example/200"


async def test_what_can_be_added(sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any) -> None:
    observer = sdk.observer(opt_in=OPT_IN)
    async with engine_with(nursery, serve, observer=observer) as (engine, _):
        async with trio.open_nursery() as inner:
            inner.start_soon(engine.fetch, "http://a.example/200")
            await trio.sleep(0.5)
            [active] = sdk.points("http.client.active_requests")
            assert active.value == 1
        with pytest.raises(tidegate.Denied):
            await engine.fetch("http://10.0.0.1/")
    first = described(sdk.spans[0])
    assert (first["url.scheme"], first["http.response.body.size"]) == ("http", 7)
    assert {point.value for point in sdk.points("http.client.active_requests")} == {0}
    [size] = sdk.points("http.client.response.body.size")
    assert (size.sum, size.count) == (7, 1)


def test_unknown_additions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"opt_in may hold .*url\.scheme.*, not user_agent\.original"):
        OpenTelemetryObserver(opt_in=["user_agent.original"])
    with pytest.raises(ValueError, match="Host list entry"):
        OpenTelemetryObserver(metric_hosts=["*"])


# Metrics -----------------------------------------------------------------------------------------------


async def test_the_duration_histogram(sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any) -> None:
    """The advised buckets, and the duration of the span."""
    await fetch(nursery, sdk.observer(), "http://a.example/404?query")
    [point] = sdk.points("http.client.request.duration")
    assert dict(point.attributes) == {
        "http.request.method": "GET",
        "server.address": "a.example",
        "server.port": 80,
        "http.response.status_code": 404,
        "error.type": "404",
        "network.protocol.version": "1.1",
    }
    assert point.explicit_bounds == conventions.DURATION_BUCKETS
    [span] = sdk.spans
    assert (point.sum, point.count) == ((span.end_time - span.start_time) / 1e9, 1)


async def test_hosts_of_metrics_can_be_bounded(sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any) -> None:
    """Else the number of time series is up to whoever chooses the URLs."""
    observer = sdk.observer(metric_hosts=["*.known.example"])
    for host in ("api.known.example", "x1.example", "x2.example"):
        await fetch(nursery, observer, f"http://{host}/200")
    counted = {
        point.attributes["server.address"]: point.count
        for point in sdk.points("http.client.request.duration")
    }
    assert counted == {"api.known.example": 1, "_other": 2}
    assert {span.attributes["server.address"] for span in sdk.spans} == {
        "api.known.example", "x1.example", "x2.example",
    }  # fmt: skip


async def test_lists_on_trial_are_counted(sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any) -> None:
    policy = tidegate.Policy(hosts=["b.example"], report_only=True)
    await fetch(nursery, sdk.observer(), "http://a.example/start", policy=policy)
    [point] = sdk.points("tidegate.would_deny")
    assert (point.value, dict(point.attributes)) == (2, {"tidegate.reason": "not_in_allowlist"})
    assert sdk.points("tidegate.denied") == []


# No provider -------------------------------------------------------------------------------------------


class Counting:
    """Counts the events that reach an observer."""

    def __init__(self, inner: OpenTelemetryObserver) -> None:
        self.inner = inner
        self.events = 0

    @property
    def kinds(self) -> frozenset[type]:
        return self.inner.kinds

    def on_event(self, event: tidegate.Event) -> None:
        self.events += 1
        self.inner.on_event(event)


async def test_without_a_provider_no_event_is_even_made(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """W-11, AMB-51: the observer may stay in place."""
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    observer = Counting(OpenTelemetryObserver())
    await fetch(nursery, observer, "http://a.example/200")
    assert observer.events == 0


LATE = """
import trio, tidegate
from contextlib import suppress
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tidegate.telemetry.otel import OpenTelemetryObserver

async def main():
    observer, exporter = OpenTelemetryObserver(), InMemorySpanExporter()
    async with tidegate.open_engine(observer=observer) as engine:

        async def fetch_until(something):
            while not something():
                with suppress(tidegate.Denied):
                    await engine.fetch("http://10.0.0.1/")

        await fetch_until(iter([False, True]).__next__)
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
        await fetch_until(exporter.get_finished_spans)
        reader = InMemoryMetricReader()
        metrics.set_meter_provider(MeterProvider(metric_readers=[reader]))
        await fetch_until(lambda: "http.client.request.duration" in names_in(reader.get_metrics_data()))
    print(*{span.attributes["server.address"] for span in exporter.get_finished_spans()})
    print(*sorted(names_in(reader.get_metrics_data())))

def names_in(data):
    return {
        metric.name
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }

trio.run(main)
"""


def test_a_global_provider_counts_from_when_it_is_set() -> None:
    """In an interpreter of its own: a global provider cannot be taken back."""
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "10.0.0.1",
        "http.client.request.duration tidegate.denied",
    ]


async def test_a_fetch_that_began_before_its_observer_cared(
    sdk: Sdk, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    """An observer that shares with another one hears the end of what it did not hear the beginning of."""
    url = tidegate.parse_url("http://a.example/")
    lost = tidegate.ConnectionLost("gone")
    observer = sdk.observer()
    hop = tidegate.Hop(
        url=url, method="GET", status=200, http_version="1.1", peer="192.0.2.1", reused=False,
        tls_version=None, tls_resumed=False, timings=tidegate.Timings(),
    )  # fmt: skip
    for event in (
        tidegate.RequestRepeated(fetch=1, time=0, hop=0, error=lost),
        tidegate.HopFinished(fetch=1, time=0, hop=0, outcome=hop, wire_bytes=0, seconds={}),
        tidegate.FetchFinished(fetch=1, time=0, duration=0, status=200, content_bytes=0, truncated=False),
        tidegate.FetchFailed(fetch=1, time=0, duration=0, error=lost),
    ):
        observer.on_event(event)
    assert sdk.spans == []
