"""What is no message, whatever transport it comes by, and the answer to it.

The SDK says nothing to some of it, and repeats the whole of it to others. A client whose request is not
answered by its id waits for ever, so the id is looked for even where the SDK can read nothing.
"""

import json
from math import inf
from typing import Any, Final

from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

MAX_MESSAGE: Final = 4 * 1024 * 1024
"""Bytes of one message."""

_MAX_DIGITS: Final = 1000
"""Digits of a number that is read as one: no id has more, and reading more takes quadratic time."""


def problem_of(text: bytes) -> dict[str, Any] | None:
    """The answer to what is no message; None to a message. The details would repeat it, so there are none.

    Its id is that of the request, and null only where there is none to be found (JSON-RPC 2.0, section 5).
    """
    if len(text) > MAX_MESSAGE:
        return _error(PARSE_ERROR, f"Parse error: the message has more than {MAX_MESSAGE} bytes")
    try:
        message = jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValidationError as error:
        return _answer_to_refused(text, error)
    # To pydantic a request with an id that is none is a notification.
    if isinstance(message, JSONRPCNotification) and "id" in _lenient(text):
        return _error(INVALID_REQUEST, "Invalid request: its id is neither a text nor a whole number")
    return None


def _answer_to_refused(text: bytes, error: ValidationError) -> dict[str, Any]:
    value = _lenient(text)
    number = value.get("id") if "method" in value else None
    if isinstance(number, bool) or not isinstance(number, str | int):
        number = None
    kinds = {detail["type"] for detail in error.errors(include_input=False, include_url=False)}
    if "json_invalid" not in kinds:
        return _error(INVALID_REQUEST, "Invalid request: this is no JSON-RPC 2.0 message", number)
    if number is None:
        return _error(PARSE_ERROR, "Parse error: this is no JSON")
    return _error(
        INVALID_PARAMS,
        "Invalid params: they hold what cannot be read, such as half a surrogate pair, bytes that are not "
        "UTF-8, a number of thousands of digits or hundreds of levels",
        number,
    )


def _lenient(text: bytes) -> dict[str, Any]:
    """The object in a text that Python can read, where the SDK's parser is stricter; else an empty one."""
    try:
        value = json.loads(text.decode("utf-8", "replace"), parse_int=_integer)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_DIGITS else inf


def _error(code: int, message: str, number: str | int | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
