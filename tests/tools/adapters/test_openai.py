"""The schemas for OpenAI, strict ones too, and the way back."""

import asyncio
import json
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it has no types
import pytest
import trio

from tests.support.fetch_tool import PID
from tests.tools.adapters.conftest import UNGRANTED, Bench, grantless, is_echo
from tidegate_tools.adapters.openai import (
    call_tool,
    call_tool_sync,
    chat_tool,
    parameters,
    read_arguments,
    response_tool,
)
from tidegate_tools.adapters.strict import from_strict, strict_schema
from tidegate_tools.fetch import make_fetch_tool
from tidegate_tools.registry import ToolInvalidArgs
from tidegate_tools.web_request.parameters import PARAMETERS as WEB_REQUEST

SPEC = make_fetch_tool()
FETCH = SPEC.parameters


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and all schemas in it."""
    yield schema
    nested = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    for part in [*nested, *([schema["items"]] if "items" in schema else [])]:
        yield from parts(part)


def test_the_plain_tool() -> None:
    function = {
        "name": "Fetch",
        "description": SPEC.description,
        "parameters": FETCH,
        "strict": False,
    }
    assert chat_tool(SPEC) == {"type": "function", "function": function}
    assert response_tool(SPEC) == {"type": "function", **function}


@pytest.mark.parametrize("schema", [FETCH, WEB_REQUEST], ids=["Fetch", "web_request"])
def test_the_strict_schema(schema: Any) -> None:
    """Every object is closed, every key is required, and each part has a type."""
    before = deepcopy(schema)
    strict = strict_schema(schema)
    jsonschema.Draft202012Validator.check_schema(strict)
    for part in parts(strict):
        assert set(part) <= {
            *("type", "anyOf", "enum", "items", "properties", "required", "additionalProperties"),
            *("minimum", "maximum", "description"),
        }
        assert "type" in part or "anyOf" in part
        if part.get("type") == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])
    assert schema == before


def test_what_may_be_left_out_may_be_null() -> None:
    properties = parameters(SPEC, strict=True)["properties"]
    nullable = {name for name, part in properties.items() if {"type": "null"} in part.get("anyOf", [])}
    assert nullable == set(FETCH["properties"]) - {"url"}
    assert properties["timeout_s"]["description"].endswith("Null for 30.")
    pairs = properties["headers"]["anyOf"][0]
    assert pairs["items"]["required"] == ["name", "value"]


FULL = {
    "url": "https://a.example/",
    "method": "POST",
    "headers": {"Accept": "text/plain"},
    "body": {"_b64": "aGk="},
    "max_bytes": 2048,
}


def test_a_round_trip() -> None:
    strict = (
        dict.fromkeys(FETCH["properties"]) | FULL | {"headers": [{"name": "Accept", "value": "text/plain"}]}
    )
    jsonschema.validate(strict, parameters(SPEC, strict=True))
    assert read_arguments(SPEC, json.dumps(strict), strict=True) == FULL


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"url": "u", "json": '{"a": null}'}, {"url": "u", "json": {"a": None}}),
        ({"url": "u", "json": "null"}, {"url": "u", "json": None}),
        ({"url": "u", "json": None}, {"url": "u"}),
        ({"url": None}, {"url": None}),
        ({"url": "u", "headers": []}, {"url": "u", "headers": {}}),
        ({"url": "u", "other": None}, {"url": "u", "other": None}),
        ("no object", "no object"),
    ],
)
def test_the_way_back(said: Any, meant: Any) -> None:
    """What is wrong otherwise stays as it is, for the tool to refuse."""
    assert from_strict(WEB_REQUEST, said) == meant


@pytest.mark.parametrize(
    "said",
    [
        {"headers": {"Accept": "a"}},
        {"headers": [{"name": "a"}]},
        {"headers": [{"name": "a", "value": "1", "more": "2"}]},
        {"headers": [{"name": 7, "value": "1"}]},
        {"headers": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]},
        {"json": "{"},
        {"json": "[" * 200_000},
    ],
    ids=["object", "half", "more", "number", "twice", "open", "deep"],
)
def test_what_is_not_of_the_strict_form(said: Any) -> None:
    with pytest.raises(ToolInvalidArgs):
        from_strict(WEB_REQUEST, {"url": "u", **said})


def test_a_list_of_maps_goes_both_ways() -> None:
    schema = {
        "type": "object",
        "properties": {
            "rows": {
                "type": "array",
                "items": {"type": "object", "additionalProperties": {"type": "integer"}},
            }
        },
    }
    said = {"rows": [[{"name": "a", "value": 1}]]}
    jsonschema.validate(said, strict_schema(schema))
    assert from_strict(schema, said) == {"rows": [{"a": 1}]}


@pytest.mark.parametrize("strict", [False, True])
def test_a_fetch(strict: bool, bench: Bench) -> None:
    """From asyncio and from a plain thread; refusals come back as text."""
    said = {"url": bench.url, "headers": [{"name": "X-Mark", "value": "1"}] if strict else {"X-Mark": "1"}}
    text = asyncio.run(call_tool(bench.spec, json.dumps(said), strict=strict, caller=bench.caller))
    assert is_echo(json.loads(text))
    assert "X-Mark: 1" in json.loads(text)["body"]
    plain = call_tool_sync(bench.spec, json.dumps({"url": UNGRANTED}), strict=strict, caller=bench.caller)
    assert json.loads(plain)["error"] == "net_denied"
    assert json.loads(call_tool_sync(bench.spec, "{", caller=bench.caller))["error"] == "invalid_args"
    broken = asyncio.run(call_tool(bench.spec, "{", strict=strict, caller=bench.caller))
    assert json.loads(broken)["error"] == "invalid_args"


@pytest.mark.parametrize("strict", [False, True])
def test_arguments_that_are_no_text(strict: bool, bench: Bench) -> None:
    """An object as of a client that has read it, nothing at all, and what is neither."""
    said: Any = {"url": bench.url}
    assert is_echo(json.loads(call_tool_sync(bench.spec, said, strict=strict, caller=bench.caller)))
    for wrong in (None, 7, b"{}", ["url"]):
        text = asyncio.run(call_tool(bench.spec, wrong, strict=strict, caller=bench.caller))  # type: ignore[arg-type]  # that is the point
        assert json.loads(text)["error"] == "invalid_args"


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("granted", [True, False])
def test_every_call_has_its_audit_event(strict: bool, granted: bool, bench: Bench) -> None:
    """F-118: one a call, also of what cannot be read, or is not of the strict form; from each side."""
    caller = bench.caller if granted else grantless(bench)
    said = ["{", "7", "[1]", *(['{"url": "x", "headers": {"A": "b"}}'] if strict else [])]
    for text in said:
        asyncio.run(call_tool(bench.spec, text, strict=strict, caller=caller))
        call_tool_sync(bench.spec, text, strict=strict, caller=caller)
        trio.run(partial(call_tool, bench.spec, text, strict=strict, caller=caller))
    told = [(event.pid, event.payload["tool"], event.payload["error"]) for event in bench.events]
    assert told == [(PID, "Fetch", "invalid_args")] * 3 * len(said)


async def test_a_fetch_under_trio(bench: Bench) -> None:
    assert is_echo(
        json.loads(await call_tool(bench.spec, json.dumps({"url": bench.url}), caller=bench.caller))
    )


def test_the_strict_schema_as_the_sdk_sees_it() -> None:
    """The Agents SDK's own check of strict schemas finds nothing to change."""
    sdk = pytest.importorskip("agents.strict_schema", reason="openai-agents is not installed")
    for schema in (FETCH, WEB_REQUEST):
        strict = strict_schema(schema)
        assert sdk.ensure_strict_json_schema(deepcopy(strict)) == strict
