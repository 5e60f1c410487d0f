"""The tool `web_request` with its hook for telemetry, in a program that sets no provider."""

from tests.bench.job import Job
from tests.bench.subjects import tool
from tidegate_tools.telemetry import record_web_request


def run(job: Job) -> None:
    """Run a job."""
    tool.run(job, {"record": record_web_request})
