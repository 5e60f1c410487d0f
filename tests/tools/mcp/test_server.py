"""What a host is told when a tool breaks: never the text of an exception."""

from collections.abc import Mapping
from typing import Any

import pytest
import trio

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from mcp import Client
from mcp_types import CallToolResult
from trio.testing import MockClock

from tidegate_tools.mcp import ServedTool, make_server, serve_tool
from tidegate_tools.mcp.server import DEADLINE
from tidegate_tools.registry import ToolContext, ToolResult, ToolSpec

SECRET = "secret /etc/passwd"


def spec(call: Any, **flags: bool) -> ToolSpec:
    return ToolSpec(name="t", description="d", parameters={"type": "object"}, call=call, **flags)


async def fails(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    raise KeyError(SECRET)


async def fails_in_a_nursery(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fails, args, ctx)
    raise AssertionError


async def makes_nan(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    return ToolResult.success({"body": float("nan"), SECRET: 1})


async def hangs(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    await trio.sleep_forever()
    raise AssertionError


def break_down(result: ToolResult) -> CallToolResult:
    raise RuntimeError(SECRET)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    "tool",
    [
        serve_tool(spec(fails)),
        serve_tool(spec(fails_in_a_nursery)),
        serve_tool(spec(makes_nan)),
        ServedTool(spec(makes_nan), break_down),
    ],
    ids=["raises", "in a nursery", "no JSON", "cannot be shown"],
)
async def test_no_text_of_an_exception(tool: ServedTool, mode: Any) -> None:
    async with Client(make_server([tool]), mode=mode) as client:
        result = await client.call_tool("t", {})
    assert result.is_error
    assert result.structured_content["error"] == "tool_failed"
    assert SECRET not in result.model_dump_json()


async def test_every_call_ends(autojump_clock: MockClock) -> None:
    """A client that has given up may never say so."""
    async with Client(make_server([serve_tool(spec(hangs))])) as client:
        result = await client.call_tool("t", {})
    assert result.is_error
    assert f"{DEADLINE:g} s" in result.content[0].text


async def test_no_prompts_without_the_tool_behind_them() -> None:
    async with Client(make_server([serve_tool(spec(fails))])) as client:
        assert client.server_capabilities.prompts is None


@pytest.mark.parametrize("read_only", [False, True])
async def test_annotations(read_only: bool) -> None:
    async with Client(make_server([serve_tool(spec(fails, read_only=read_only))])) as client:
        [tool] = (await client.list_tools()).tools
    assert tool.annotations.read_only_hint is read_only
