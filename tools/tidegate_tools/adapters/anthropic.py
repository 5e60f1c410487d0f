"""For the tool runner of the Anthropic SDK, under asyncio and under trio."""

from typing import Any

from tidegate_tools.adapters.calling import Caller, call, parameters_of, require
from tidegate_tools.registry import ToolSpec


def make_tool(spec: ToolSpec, *, caller: Caller | None = None) -> Any:
    """A `BetaAsyncFunctionTool`, for `client.beta.messages.tool_runner(tools=[...])`.

    A failure is a `ToolError`, which the runner sends as a result with `is_error`.

    Args:
        spec: the tool.
        caller: on whose behalf; by default nobody's, without grants.

    Raises:
        ImportError: the package anthropic is not installed.
    """
    tools = require("anthropic.lib.tools", "anthropic")

    async def run(**args: Any) -> str:
        result = await call(spec, args, caller)
        if not result.ok:
            raise tools.ToolError(result.to_json())
        return result.to_json()

    return tools.beta_async_tool(
        run, name=spec.name, description=spec.description, input_schema=parameters_of(spec)
    )
