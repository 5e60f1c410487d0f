"""For Microsoft Agent Framework."""

from typing import Any

from tidegate_tools.adapters.calling import Caller, call, parameters_of, require
from tidegate_tools.registry import ToolSpec


def make_tool(spec: ToolSpec, *, caller: Caller | None = None) -> Any:
    """A `FunctionTool`, for the `tools` of an agent.

    A failure is a text with `error` in it.

    Args:
        spec: the tool.
        caller: on whose behalf; by default nobody's, without grants.

    Raises:
        ImportError: the package agent-framework-core is not installed.
    """
    framework = require("agent_framework", "agent-framework-core")

    async def run(**args: Any) -> str:
        return (await call(spec, args, caller)).to_json()

    return framework.FunctionTool(
        name=spec.name, description=spec.description, func=run, input_model=parameters_of(spec)
    )
