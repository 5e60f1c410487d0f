"""Results of tools as MCP shows them: short, whole characters, failures with their reasons."""

import base64
import json
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from tidegate_tools.mcp.results import bytes_of, json_result
from tidegate_tools.registry import ToolNetDenied, ToolResult


def shown(value: dict[str, Any] | str, max_bytes: int) -> tuple[Any, int, bool]:
    result = json_result(ToolResult.success(value), max_bytes)
    text = result.content[0].text
    assert not result.is_error
    assert len(text.encode()) <= max_bytes
    return json.loads(text), len(text.encode()), len(result.content) > 1


def fetched(body: str, encoding: str = "utf-8") -> dict[str, Any]:
    return {"body": body, "encoding": encoding, "body_bytes": len(body), "truncated": False}


def test_what_fits_is_left_alone() -> None:
    value, _, noted = shown(fetched("x" * 100), 1000)
    assert value == fetched("x" * 100)
    assert not noted


@pytest.mark.parametrize("character", ["x", "\u00e9", "\u65e5", "\U0001f30a", '"', "\\", "\x01", "\n"])
def test_a_long_text_is_cut(character: str) -> None:
    """As little as possible, whatever a character costs in JSON."""
    value, size, noted = shown(fetched(character * 5_000), 2_000)
    assert noted
    assert value["truncated"] is True
    assert set(value["body"]) == {character}
    assert value["body_bytes"] == len(value["body"].encode())
    assert size > 1_980


def test_base64_is_cut_between_its_groups() -> None:
    content = bytes(range(256)) * 40
    value, _, _ = shown(fetched(base64.b64encode(content).decode(), "base64"), 2_000)
    assert content.startswith(base64.b64decode(value["body"], validate=True))
    assert value["body_bytes"] == len(base64.b64decode(value["body"]))


def test_a_long_json_body_becomes_text() -> None:
    body = {"a": ["\u65e5" * 10] * 500}
    text = json.dumps({"status": 200, "body": body, "body_truncated": False})
    value, _, _ = shown(text, 2_000)
    assert value["status"] == 200
    assert value["body_truncated"] is True
    assert json.dumps(body, ensure_ascii=False).startswith(value["body"])


def test_a_result_that_is_long_without_a_body() -> None:
    result = json_result(ToolResult.success({"headers": {"a": "b" * 5_000}, "body": "x"}), 2_000)
    assert result.is_error
    assert "--max-tokens" in result.content[0].text


def test_a_failure() -> None:
    error = ToolNetDenied("It is refused.", reason="loopback", how_to_allow="A rule.")
    result = json_result(ToolResult.failure(error), 2_000)
    assert result.is_error
    assert result.content[0].text == "It is refused. To allow it: A rule."
    assert result.structured_content == {
        "error": "net_denied",
        "message": "It is refused.",
        "reason": "loopback",
        "how_to_allow": "A rule.",
        "retryable": False,
    }


def test_a_failure_in_words_of_its_own() -> None:
    result = json_result(ToolResult.failure(ToolNetDenied("No."), '{"error": "No."}'), 2_000)
    assert result.content[0].text == '{"error": "No."}'
    assert result.structured_content["error"] == "net_denied"


def test_bytes_of_tokens() -> None:
    assert bytes_of(25_000) == 50_000
