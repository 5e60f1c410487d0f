"""tidegate with a span and metrics for every fetch."""

from tests.bench.job import Job
from tests.bench.sdk import measuring, tracing
from tests.bench.subjects import engine
from tidegate.telemetry.otel import OpenTelemetryObserver


def run(job: Job) -> None:
    """Run a job."""
    with tracing(), measuring():
        engine.run(job, OpenTelemetryObserver())
