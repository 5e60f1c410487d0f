"""For pydantic-ai."""

from typing import Any

from tidegate_tools.adapters.calling import Caller, call, parameters_of, require
from tidegate_tools.registry import ToolSpec


def make_tool(spec: ToolSpec, *, caller: Caller | None = None) -> Any:
    """A `Tool`, for `Agent(tools=[...])`. The tool checks its arguments itself.

    Wrong arguments are a `ModelRetry`, which the framework counts; every other failure is a `ToolFailed`, for
    the same call again would not help.

    Args:
        spec: the tool.
        caller: on whose behalf; by default nobody's, without grants.

    Raises:
        ImportError: the package pydantic-ai-slim is not installed.
    """
    framework = require("pydantic_ai", "pydantic-ai-slim")

    async def run(**args: Any) -> str:
        result = await call(spec, args, caller)
        if result.error is None:
            return result.to_json()
        is_wrong = result.error.slug == "invalid_args"
        raise (framework.ModelRetry if is_wrong else framework.ToolFailed)(result.to_json())

    return framework.Tool.from_schema(
        run, name=spec.name, description=spec.description, json_schema=parameters_of(spec)
    )
