"""The tools for the chat and responses APIs of OpenAI, and whoever speaks their language. No SDK is needed.

tools = [chat_tool(spec)]
...
text = await call_tool(spec, tool_call.function.arguments)
"""

from typing import Any

from tidegate_tools.adapters.calling import Caller, call, call_sync, parameters_of, read_json, refusing
from tidegate_tools.adapters.strict import from_strict, strict_schema
from tidegate_tools.registry import ToolInvalidArgs, ToolSpec


def chat_tool(spec: ToolSpec, *, strict: bool = False) -> dict[str, Any]:
    """An item of `tools` for chat completions.

    Args:
        spec: the tool.
        strict: the model cannot but keep to the schema, which is then another one: see `call_tool`.
    """
    return {"type": "function", "function": _function(spec, strict)}


def response_tool(spec: ToolSpec, *, strict: bool = False) -> dict[str, Any]:
    """An item of `tools` for responses; arguments as of `chat_tool`."""
    return {"type": "function", **_function(spec, strict)}


async def call_tool(
    spec: ToolSpec, arguments: str, *, strict: bool = False, caller: Caller | None = None
) -> str:
    """Do what the model asks for, from asyncio or trio.

    Args:
        spec: the tool.
        arguments: the JSON text of the model.
        strict: what its schema was made with.
        caller: on whose behalf; by default nobody's, without grants.

    Returns:
        The text for the model, JSON: a value, or an object with `error`. These APIs have no other signal.
    """
    return (await call(*_read(spec, arguments, strict), caller)).to_json()


def call_tool_sync(
    spec: ToolSpec, arguments: str, *, strict: bool = False, caller: Caller | None = None
) -> str:
    """The same from a plain thread, which waits."""
    return call_sync(*_read(spec, arguments, strict), caller).to_json()


def read_arguments(spec: ToolSpec, arguments: str, *, strict: bool = False) -> Any:
    """The arguments as the tool takes them; whether they are right is for the tool to say.

    Raises:
        ToolInvalidArgs: they are no JSON, or not of the strict form.
    """
    args = read_json(arguments)
    return from_strict(spec.parameters, args) if strict else args


def _read(spec: ToolSpec, arguments: str, strict: bool) -> tuple[ToolSpec, Any]:
    try:
        return spec, read_arguments(spec, arguments, strict=strict)
    except ToolInvalidArgs as error:
        return refusing(spec, error), {}


def parameters(spec: ToolSpec, *, strict: bool = False) -> dict[str, Any]:
    """The schema of the arguments, in its strict form if asked for."""
    return strict_schema(spec.parameters) if strict else parameters_of(spec)


def _function(spec: ToolSpec, strict: bool) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "parameters": parameters(spec, strict=strict),
        # Said in either case: where it is left out, the responses API makes a schema strict by itself.
        "strict": strict,
    }
