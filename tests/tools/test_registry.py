"""The registry, its errors and its results."""

import json
import math
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from tests.tools.toys import echo, registry_of, spec
from tidegate_tools import registry as registry_module
from tidegate_tools.registry import (
    ToolContext,
    ToolDenied,
    ToolError,
    ToolErrorInfo,
    ToolFailed,
    ToolFsDenied,
    ToolInvalidArgs,
    ToolNetDenied,
    ToolNotFound,
    ToolRegistry,
    ToolResult,
)

AGENT = 7
SECRET = "s3cr3t-token"


# --- Errors and their slugs ------------------------------------------------------------------------

SLUGS: dict[type[ToolError], str] = {
    ToolError: "tool_failed",
    ToolNotFound: "tool_not_found",
    ToolDenied: "permission_denied",
    ToolFsDenied: "fs_denied",
    ToolNetDenied: "net_denied",
    ToolInvalidArgs: "invalid_args",
    ToolFailed: "tool_failed",
}


def test_each_error_has_its_slug_and_one_root() -> None:
    """F-84, F-85, F-100, F-117: `net_denied` beside the others, which keep slug and place."""
    for kind, slug in SLUGS.items():
        assert kind("No.").info == ToolErrorInfo(slug, "No.")
        assert kind.__mro__[1] is (Exception if kind is ToolError else ToolError)
    assert set(ToolError.__subclasses__()) == set(SLUGS) - {ToolError}


def test_an_error_carries_its_facts() -> None:
    error = ToolNetDenied("Not there.", reason="not_granted", how_to_allow="Grant it.", retryable=True)
    assert str(error) == "Not there."
    assert error.info == ToolErrorInfo("net_denied", "Not there.", "not_granted", "Grant it.", True)
    assert error.info.to_dict() == {
        "error": "net_denied",
        "message": "Not there.",
        "reason": "not_granted",
        "how_to_allow": "Grant it.",
        "retryable": True,
    }


# --- Registry --------------------------------------------------------------------------------------


def test_nothing_is_built_in() -> None:
    """F-1, F-98, F-105: a new registry is empty, and nothing here fills one."""
    assert ToolRegistry().list() == []
    assert not hasattr(registry_module, "register_builtin_tools")


def test_registering_the_same_name_replaces_in_silence() -> None:
    """F-99: twice is harmless."""
    first, second = spec("Fetch"), replace(spec("Fetch"), description="Another.")
    registry = registry_of(first, second)
    assert registry.get("Fetch") is second
    assert registry.list() == ["Fetch"]


def test_the_list_is_sorted_and_iteration_follows_it() -> None:
    registry = registry_of(spec("web_request"), spec("Fetch"), spec("Echo"))
    assert registry.list() == ["Echo", "Fetch", "web_request"]
    assert [each.name for each in registry] == registry.list()
    assert (len(registry), "Fetch" in registry, "fetch" in registry) == (3, True, False)


def test_unregister_tells_whether_there_was_one() -> None:
    registry = registry_of(spec("Fetch"))
    assert registry.unregister("fetch") is False
    assert registry.unregister("Fetch") is True
    assert registry.unregister("Fetch") is False
    assert registry.list() == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("fetch", "There is no tool 'fetch'. Did you mean 'Fetch'?"),
        ("Fetsh", "There is no tool 'Fetsh'. Did you mean 'Fetch'?"),
        ("Exec", "There is no tool 'Exec'."),
        ("", "There is no tool ''."),
        ("a\nb\u202e", r"There is no tool 'a\nb\u202e'."),
        ("x" * 100_000, f"There is no tool '{'x' * 64}...'."),
    ],
)
def test_get_names_what_is_missing_and_what_is_near(name: str, sentence: str) -> None:
    """F-117: `tool_not_found`. Names are case-sensitive; the message cannot be made long or unreadable."""
    with pytest.raises(ToolNotFound) as caught:
        registry_of(spec("Fetch")).get(name)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("name", ["F", "web_request", "a-b", "9", "x" * 64])
def test_good_names(name: str) -> None:
    assert registry_of(spec(name)).list() == [name]


BAD_SCHEMAS: list[Any] = [{}, {"type": "string"}, [], None, "object", {"type": "object", "x": math.nan}]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        *(
            ({"name": name}, ValueError, "name")
            for name in ("", "a b", "x" * 65, "Fetch\n", "é", "a.b", None, 5)
        ),
        *(({"description": text}, ValueError, "description") for text in ("", " ", None)),
        *(({"call": call}, TypeError, "called") for call in (None, "echo")),
        *(({"parameters": schema}, ValueError, "parameters") for schema in BAD_SCHEMAS),
        ({"parameters": {"type": "object", "x": {1, 2}}}, ValueError, "JSON"),
        ({"result_schema": {"type": "array"}}, ValueError, "result_schema"),
    ],
)
def test_registration_validates(change: dict[str, Any], error: type[Exception], said: str) -> None:
    """Section C: registration validates. What is refused is not there afterwards."""
    registry = ToolRegistry()
    with pytest.raises(error, match=said):
        registry.register(replace(spec(), **change))
    assert registry.list() == []


def test_only_a_spec_can_be_registered() -> None:
    no_spec: Any = echo
    with pytest.raises(TypeError, match="ToolSpec"):
        ToolRegistry().register(no_spec)


def test_values_are_frozen() -> None:
    tool, ctx = spec(), ToolContext(AGENT)
    with pytest.raises(FrozenInstanceError):
        tool.name = "Other"  # type: ignore[misc]  # the very mistake that this test is about
    with pytest.raises(FrozenInstanceError):
        ctx.pid = 8  # type: ignore[misc]  # the very mistake that this test is about


@pytest.mark.parametrize(
    ("pid", "key"), [(7, 7), ("crm", "crm"), (("a", 1), ("a", 1)), (None, None), ([7], None), ({}, None)]
)
def test_the_key_of_an_agent(pid: Any, key: Any) -> None:
    """What is not hashable has no turn of its own, and its fetches work all the same."""
    assert ToolContext(pid).key == key


# --- Results ---------------------------------------------------------------------------------------


def test_a_result_is_a_value_or_an_error() -> None:
    """D-24: an object or a text; a failure may have the tool's own form of the error beside it."""
    info = ToolErrorInfo("net_denied", "No.")
    assert ToolResult.failure(ToolNetDenied("No.")) == ToolResult(False, None, info)
    assert ToolResult.failure(info, '{"error": "No."}').value == '{"error": "No."}'
    not_values: list[Any] = [None, 5, [], b"x"]
    for not_value in not_values:
        with pytest.raises(TypeError):
            ToolResult.success(not_value)
    with pytest.raises(ValueError):
        ToolResult(ok=True, value={}, error=info)
    with pytest.raises(ValueError):
        ToolResult(ok=False, value={})


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult.success({"a": [1, None, True]}), '{"a": [1, null, true]}'),
        (ToolResult.success({"text": "Füße 東京 😀"}), '{"text": "Füße 東京 😀"}'),
        (ToolResult.success({"text": "a\ud800b"}), '{"text": "a?b"}'),
        (ToolResult.success('{"status":200}'), '{"status":200}'),
        (
            ToolResult.failure(ToolNetDenied("No.", reason="private")),
            '{"error": "net_denied", "message": "No.", "reason": "private", "how_to_allow": null, '
            '"retryable": false}',
        ),
        (ToolResult.failure(ToolFailed("No."), '{"error":"No."}'), '{"error":"No."}'),
    ],
)
def test_to_json(result: ToolResult, text: str) -> None:
    assert result.to_json() == text
    assert json.loads(text.encode("utf-8"))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_json_has_no_such_numbers(number: float) -> None:
    with pytest.raises(ValueError):
        ToolResult.success({"x": number}).to_json()
