"""For smolagents, whose tools are synchronous."""

from collections.abc import Mapping
from typing import Any

from tidegate_tools.adapters.calling import Caller, call_sync, require
from tidegate_tools.registry import ToolSpec


def make_tool(spec: ToolSpec, *, caller: Caller | None = None) -> Any:
    """A `Tool`, for the `tools` of an agent. It must not be called in a thread that runs trio.

    A failure is an exception, whose text the agent shows to the model.

    Args:
        spec: the tool.
        caller: on whose behalf; by default nobody's, without grants.

    Raises:
        ImportError: the package smolagents is not installed.
    """
    base = require("smolagents", "smolagents").Tool

    def forward(_: Any, /, **args: Any) -> str:
        result = call_sync(spec, args, caller)
        if not result.ok:
            raise RuntimeError(result.to_json())
        return result.to_json()

    attributes = {
        "name": spec.name,
        "description": spec.description,
        "inputs": _inputs(spec),
        "output_type": "string",
        "forward": forward,
        # Else the framework wants each argument by name in the signature.
        "skip_forward_signature_validation": True,
    }
    return type(spec.name, (base,), attributes)()


def _inputs(spec: ToolSpec) -> dict[str, Any]:
    required = spec.parameters.get("required", ())
    return {
        name: _input(name, schema, optional=name not in required)
        for name, schema in spec.parameters.get("properties", {}).items()
    }


def _input(name: str, schema: Mapping[str, Any], *, optional: bool) -> dict[str, Any]:
    described = {"type": schema.get("type", "any"), "description": schema.get("description", name)}
    return {**schema, **described, **({"nullable": True} if optional else {})}
