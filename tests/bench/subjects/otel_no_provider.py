"""tidegate with its observer for OpenTelemetry, in a program that sets no provider."""

from tests.bench.job import Job
from tests.bench.subjects import engine
from tidegate.telemetry.otel import OpenTelemetryObserver


def run(job: Job) -> None:
    """Run a job."""
    engine.run(job, OpenTelemetryObserver())
