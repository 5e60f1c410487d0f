"""The tool `web_request` as `ToolTelemetry` observes it, in a program that sets no provider."""

from tests.bench.job import Job
from tests.bench.subjects import tool
from tidegate_tools.telemetry import ToolTelemetry


def run(job: Job) -> None:
    """Run a job."""
    tool.run(job, {"observed": ToolTelemetry().observed})
