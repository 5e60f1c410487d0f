"""For LangChain and LangGraph."""

from typing import Any

from tidegate_tools.adapters.calling import Caller, call, call_sync, parameters_of, require
from tidegate_tools.registry import ToolResult, ToolSpec


def make_tool(spec: ToolSpec, *, caller: Caller | None = None) -> Any:
    """A `StructuredTool`, for `invoke` and `ainvoke`.

    A failure is a `ToolException`, which becomes a message with the status "error".

    Args:
        spec: the tool.
        caller: on whose behalf; by default nobody's, without grants.

    Raises:
        ImportError: the package langchain-core is not installed.
    """
    tools = require("langchain_core.tools", "langchain-core")

    def text(result: ToolResult) -> str:
        if not result.ok:
            raise tools.ToolException(result.to_json())
        return result.to_json()

    async def run(**args: Any) -> str:
        return text(await call(spec, args, caller))

    def run_sync(**args: Any) -> str:
        return text(call_sync(spec, args, caller))

    return tools.StructuredTool.from_function(
        func=run_sync,
        coroutine=run,
        name=spec.name,
        description=spec.description,
        args_schema=parameters_of(spec),
        handle_tool_error=True,
    )
