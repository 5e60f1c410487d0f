"""Reading arguments: each mistake is named, and nothing of the caller's is repeated."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from tests.tools.toys import spec
from tidegate_tools.arguments import Arguments, wrong
from tidegate_tools.dispatch import call_tool
from tidegate_tools.registry import (
    ToolContext,
    ToolResult,
    quoted,
)

SECRET = "s3cr3t-token"
KNOWN = ("url", "method", "headers", "max_bytes", "timeout_s", "follow_redirects", "max_redirects")


async def read_arguments(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    """A tool with one argument of every kind."""
    given = Arguments(args, KNOWN)
    for name, value in given.mapping("headers").items():
        if not isinstance(value, str):
            raise wrong(f"headers[{quoted(name)}]", "a string", value)
    return ToolResult.success(
        {
            "url": given.required_text("url"),
            "method": given.text("method", "GET"),
            "headers": dict(given.mapping("headers")),
            "max_bytes": given.integer("max_bytes", 4096, low=1024, high=8192),
            "timeout_s": given.number("timeout_s", 30, low=1, high=120),
            "follow_redirects": given.flag("follow_redirects", False),
            "max_redirects": given.integer("max_redirects", 3, low=0, high=5),
        }
    )


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"method": None, "headers": None, "max_bytes": None, "timeout_s": None, "follow_redirects": None},
        {"method": "", "headers": {"A": "b"}, "max_bytes": 1024, "timeout_s": 1, "follow_redirects": True},
        {"max_bytes": 8192, "timeout_s": 120, "max_redirects": 0},
        {"timeout_s": 1.5},
        {"timeout_s": 120.0},
    ],
)
async def test_arguments_within_their_bounds(args: dict[str, Any]) -> None:
    """AMB-19, AMB-21: null is absent; an integer is a number too; the bounds belong to the range."""
    defaults = {"method": "GET", "headers": {}, "max_bytes": 4096, "timeout_s": 30.0}
    defaults |= {"follow_redirects": False, "max_redirects": 3}
    sent = {name: value for name, value in args.items() if value is not None}
    result = await call_tool(spec(call=read_arguments), {"url": "x", **args}, ToolContext())
    assert result.value == {"url": "x", **defaults, **sent}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"url": None}, "url is missing; it must be a non-empty string."),
        ({"url": ""}, "url must be a non-empty string, not an empty string."),
        ({"url": ["x"]}, "url must be a non-empty string, not an array."),
        ({"method": 5}, "method must be a string, not the integer 5."),
        ({"headers": "A: b"}, "headers must be an object, not a string."),
        ({"headers": [SECRET]}, "headers must be an object, not an array."),
        ({"headers": {"A": "b", "C": None}}, "headers['C'] must be a string, not null."),
        *(
            ({"max_bytes": value}, f"max_bytes must be an integer from 1024 to 8192, not {kind}.")
            for value, kind in [
                (1023, "the integer 1023"),
                (8193, "the integer 8193"),
                (-1, "the integer -1"),
                (10**15, "an integer of more than 15 digits"),
                (10**5000, "an integer of more than 15 digits"),
                (2048.0, "the number 2048.0"),
                (True, "a boolean"),
                ("2048", "a string"),
                ({}, "an object"),
                (b"2048", "a value of the type bytes"),
            ]
        ),
        *(
            ({"timeout_s": value}, f"timeout_s must be a number from 1 to 120, not {kind}.")
            for value, kind in [
                (0, "the integer 0"),
                (0.999, "the number 0.999"),
                (121, "the integer 121"),
                (math.nan, "the number nan"),
                (math.inf, "the number inf"),
                (True, "a boolean"),
                (SECRET, "a string"),
            ]
        ),
        # In range as a number, were it one.
        ({"max_redirects": True}, "max_redirects must be an integer from 0 to 5, not a boolean."),
        ({"follow_redirects": "true"}, "follow_redirects must be true or false, not a string."),
        ({"follow_redirects": 1}, "follow_redirects must be true or false, not the integer 1."),
        ({"Method": "GET"}, "There is no argument 'Method'. Did you mean 'method'?"),
        ({"timeout": 5}, "There is no argument 'timeout'. Did you mean 'timeout_s'?"),
        ({"zzz": None}, "There is no argument 'zzz'."),
        ({"\n" * 1000: 1}, f"There is no argument '{chr(92)}n{(chr(92) + 'n') * 63}...'."),
        ({5: 1}, "There is no argument '5'."),
    ],
)
async def test_wrong_arguments_are_named(args: dict[Any, Any], message: str) -> None:
    """F-117, AMB-22: the argument, what it should be, what kind of value came. No text of the caller's."""
    result = await call_tool(spec(call=read_arguments), {"url": "x", **args}, ToolContext())
    assert result.error is not None
    assert (result.error.slug, result.error.message) == ("invalid_args", message)
