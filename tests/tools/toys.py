"""Toy tools for the tests of the registry and of `dispatch`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tidegate_tools.registry import (
    ToolContext,
    ToolRegistry,
    ToolResult,
    ToolSpec,
)

Call = Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]


async def echo(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    return ToolResult.success({"args": dict(args)})


def spec(name: str = "Echo", call: Call = echo) -> ToolSpec:
    return ToolSpec(name=name, description="A tool of the tests.", parameters={"type": "object"}, call=call)


def registry_of(*specs: ToolSpec) -> ToolRegistry:
    registry = ToolRegistry()
    for each in specs:
        registry.register(each)
    return registry
