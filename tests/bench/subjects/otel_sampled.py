"""tidegate with metrics for every fetch, and a span for one in ten."""

from tests.bench.job import Job
from tests.bench.sdk import measuring, tracing
from tests.bench.subjects import engine
from tidegate.telemetry.otel import OpenTelemetryObserver


def run(job: Job) -> None:
    """Run a job."""
    with tracing(share=0.1), measuring():
        engine.run(job, OpenTelemetryObserver())
