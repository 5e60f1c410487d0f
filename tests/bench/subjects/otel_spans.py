"""tidegate with a span for every fetch."""

from tests.bench.job import Job
from tests.bench.sdk import tracing
from tests.bench.subjects import engine
from tidegate.telemetry.otel import OpenTelemetryObserver


def run(job: Job) -> None:
    """Run a job."""
    with tracing():
        engine.run(job, OpenTelemetryObserver())
