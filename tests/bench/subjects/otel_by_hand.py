"""tidegate without an observer, and the least code that tells the same: what the SDK itself takes."""

import time
from typing import Final

from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind

from tests.bench.job import ADDRESS, NAME, Job
from tests.bench.loops import Fetch
from tests.bench.sdk import measuring, tracing
from tests.bench.subjects import engine
from tidegate.telemetry import conventions as names

_MEASURED: Final[dict[str, str | int]] = {
    names.HTTP_REQUEST_METHOD: "GET",
    names.SERVER_ADDRESS: NAME,
    names.SERVER_PORT: 8080,
    names.HTTP_RESPONSE_STATUS_CODE: 200,
    names.NETWORK_PROTOCOL_VERSION: "1.1",
}
_TRACED: Final[dict[str, str | int]] = {
    **_MEASURED,
    names.URL_FULL: f"http://{NAME}:8080/small",
    names.NETWORK_PEER_ADDRESS: ADDRESS,
    names.NETWORK_PEER_PORT: 8080,
}


def run(job: Job) -> None:
    """Run a job."""
    with tracing(), measuring():
        engine.run(job, wrapped=_told)


def _told(fetch: Fetch) -> Fetch:
    tracer = trace.get_tracer("by hand")
    duration = metrics.get_meter("by hand").create_histogram(
        names.CLIENT_REQUEST_DURATION, explicit_bucket_boundaries_advisory=names.DURATION_BUCKETS
    )

    async def told(path: str) -> bytes:
        started = time.time_ns()
        content = await fetch(path)
        ended = time.time_ns()
        duration.record((ended - started) / 1e9, _MEASURED)
        span = tracer.start_span("GET", kind=SpanKind.CLIENT, attributes=_TRACED, start_time=started)
        span.end(ended)
        return content

    return told
