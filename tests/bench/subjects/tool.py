"""The tool `web_request`, its floor on, and nobody told of its calls."""

import trio

from tests.bench.job import ADDRESS, NAME, Job
from tests.bench.loops import run_on_trio
from tests.bench.works import LENGTHS
from tidegate import StaticResolver
from tidegate_tools.registry import ToolContext
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.tool import BuildOptions, create_web_request_tools


def run(job: Job, options: BuildOptions | None = None) -> None:
    """Run a job.

    Args:
        job: what to do.
        options: of the tool.
    """
    trio.run(_run, job, options or {})


async def _run(job: Job, options: BuildOptions) -> None:
    private = {"cidr": f"{ADDRESS}/32", "hosts": [NAME]}
    config = WebRequestConfig.model_validate({"require_https": False, "private_ranges": [private]})
    built: BuildOptions = {**options, "resolver": StaticResolver({NAME: [ADDRESS]})}
    [tool] = create_web_request_tools(config, **built)
    context = ToolContext(pid="agent")

    async def fetch(path: str) -> bytes:
        result = await tool.call({"url": job.url(path, NAME)}, context)
        # The file is no text: what becomes of it in a result is not what came.
        assert f'"Content-Length": "{LENGTHS[path]}"' in str(result.value)
        return bytes(LENGTHS[path])

    await run_on_trio(job, fetch)
