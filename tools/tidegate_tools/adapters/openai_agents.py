"""For the OpenAI Agents SDK."""

from typing import Any

from tidegate_tools.adapters.calling import Caller, require
from tidegate_tools.adapters.openai import call_tool, parameters
from tidegate_tools.registry import ToolSpec


def make_tool(spec: ToolSpec, *, strict: bool = False, caller: Caller | None = None) -> Any:
    """A `FunctionTool`, for `Agent(tools=[...])`.

    A failure is a text with `error` in it; an exception would end the run.

    Args:
        spec: the tool.
        strict: with the strict form of the schema; see `tidegate_tools.adapters.strict`.
        caller: on whose behalf; by default nobody's, without grants.

    Raises:
        ImportError: the package openai-agents is not installed.
    """
    agents = require("agents", "openai-agents")

    async def run(_: Any, arguments: str) -> str:
        return await call_tool(spec, arguments, strict=strict, caller=caller)

    return agents.FunctionTool(
        name=spec.name,
        description=spec.description,
        params_json_schema=parameters(spec, strict=strict),
        on_invoke_tool=run,
        strict_json_schema=strict,
    )
