"""Results of tools in the words of MCP, short enough for a model.

A failure is a result with `isError`, never a protocol error, so that the model sees it; its structured
content says why, and what would allow it.
"""

import json
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mcp_types import CallToolResult, TextContent

from tidegate_tools.registry import ToolErrorInfo, ToolFailed, ToolResult, ToolSpec

MAX_TOKENS: Final = 25_000
"""Tokens of a result that hosts take: Claude Code refuses longer ones."""

_BYTES_PER_TOKEN: Final = 2
"""Nobody here knows the tokens of a model. English has 4 bytes to one, Chinese 2 to 3, base64 over 2."""


def bytes_of(max_tokens: int) -> int:
    """How many bytes of UTF-8 are surely no more than so many tokens."""
    return max_tokens * _BYTES_PER_TOKEN


@dataclass(frozen=True, slots=True)
class ServedTool:
    """A tool as the server offers it.

    Attributes:
        spec: the tool.
        show: what a host gets of a result.
    """

    spec: ToolSpec
    show: Callable[[ToolResult], CallToolResult]


def serve_tool(spec: ToolSpec, max_tokens: int = MAX_TOKENS) -> ServedTool:
    """A tool whose results are shown as JSON, the body cut where it would be too long.

    Args:
        spec: `Fetch` or `web_request`.
        max_tokens: of a result.
    """
    return ServedTool(spec, lambda result: json_result(result, bytes_of(max_tokens)))


def text_result(*texts: str, meta: dict[str, Any] | None = None) -> CallToolResult:
    """A success."""
    return CallToolResult(content=[TextContent(text=text) for text in texts], _meta=meta)


def error_result(error: ToolErrorInfo, text: str | None = None, **more: Any) -> CallToolResult:
    """A failure that says why, and how to allow it.

    Args:
        error: what went wrong.
        text: the tool's own words for it; by default the sentence of `error`.
        more: further facts for the structured content.
    """
    if text is None:
        text = f"{error.message} To allow it: {error.how_to_allow}" if error.how_to_allow else error.message
    return CallToolResult(
        content=[TextContent(text=text)], structured_content={**error.to_dict(), **more}, is_error=True
    )


def json_result(result: ToolResult, max_bytes: int) -> CallToolResult:
    """A result as JSON, at most so many bytes of it."""
    if result.error is not None:
        return error_result(result.error, result.to_json() if result.value is not None else None)
    value = result.value
    if isinstance(value, str):
        if _size(value) <= max_bytes:
            return text_result(value)
        value = json.loads(value)
    assert isinstance(value, dict)
    short = _shortened(value, max_bytes)
    if short is None:
        note = f"The result is longer than {max_bytes} bytes even without its body (--max-tokens)."
        return error_result(ToolFailed(note).info)
    if short is value:
        return text_result(_json(value))
    return text_result(
        _json(short), f"The body was cut to keep the result within {max_bytes} bytes (--max-tokens)."
    )


def _shortened(value: dict[str, Any], max_bytes: int) -> dict[str, Any] | None:
    """The value with as much of its body as fits; itself if all fits, None if the rest alone is too long."""
    body = value.get("body")
    if not isinstance(body, str):
        if _size(_json(value)) <= max_bytes:
            return value
        # A JSON value that is cut is none any more.
        body = "" if body is None else _json(body)
    elif len(body) <= max_bytes and _size(_json(value)) <= max_bytes:
        return value
    flag = "truncated" if "truncated" in value else "body_truncated"
    empty = {**value, flag: True, "body": ""}
    room = max_bytes - _size(_json(empty))
    if room < 0:
        return None
    # A character takes a byte at least, so what is behind so many cannot fit.
    body = body[:room]
    length = bisect_right(range(len(body) + 1), room, key=lambda end: _size(_json(body[:end])) - 2) - 1
    if value.get("encoding") == "base64":
        length -= length % 4
    short = {**empty, "body": body[:length]}
    if "body_bytes" in value:
        is_base64 = value.get("encoding") == "base64"
        short["body_bytes"] = length // 4 * 3 if is_base64 else _size(body[:length])
    return short


def _json(value: object) -> str:
    return (
        ToolResult.success(value).to_json()
        if isinstance(value, dict)
        else json.dumps(value, ensure_ascii=False)
    )


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
