"""What the model may say to `web_request`: the schema of its arguments, and how they are read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate import URL, InvalidArgument, Reason, parse_url
from tidegate._policy.fields import Fields, check_fields, is_own_field
from tidegate._policy.url import add_query
from tidegate_tools.arguments import Arguments, wrong
from tidegate_tools.registry import ToolInvalidArgs, quoted

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
"""W-79. Compared as they are written: no method is known in lower case (RFC 9110 9.1)."""

_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}

PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "url": {
            "type": "string",
            "description": "An absolute URL, such as https://api.example.com/v1/items.",
        },
        "method": {
            "type": "string",
            "enum": list(METHODS),
            "default": "GET",
            "description": "The HTTP method, in capitals.",
        },
        "headers": {
            **_TEXTS,
            "description": "Request header fields by name. Host, Content-Length and others that frame or "
            "route the message are set by the tool; given here, they are dropped.",
        },
        "query": {
            **_TEXTS,
            "description": "Query parameters by name, not yet encoded; they go behind a query that the URL "
            "already has.",
        },
        "body": {
            "type": "string",
            "description": "Text to send, as UTF-8; application/octet-stream unless headers say otherwise. "
            "Not together with json.",
        },
        "json": {
            "description": "Any JSON value to send, as application/json; null too is sent. Not together with "
            "body.",
        },
    },
    "required": ["url"],
    "additionalProperties": False,
}
"""The JSON Schema of the arguments (W-2, W-B1).

That body and json exclude each other stands in words only: several model APIs refuse a schema with `not` or
`oneOf` at its top. Time and size are the operator's (W-83).
"""


@dataclass(frozen=True, slots=True)
class WebRequest:
    """The arguments of one call, read and checked."""

    url: URL
    method: str
    fields: Fields = field(repr=False)
    content: bytes = field(repr=False)


def read_arguments(args: object, *, max_request_bytes: int) -> WebRequest:
    """Read the arguments of one call. Everything is checked here, before anything is looked up or sent.

    Args:
        args: as they came, of whatever kind.
        max_request_bytes: of encoded content (AMB-60); more is refused, never cut (AMB-59).

    Raises:
        ToolInvalidArgs: the schema does not allow them.
        FetchError: the URL, a field or the content is not one that can be sent.
    """
    if not isinstance(args, Mapping):
        raise wrong("The set of arguments", "an object", args)
    arguments = Arguments(args, PARAMETERS["properties"])
    url = add_query(parse_url(arguments.required_text("url")), _texts(arguments, "query").items())
    fields = tuple(_sendable_fields(_texts(arguments, "headers")))
    content, content_type = _content(arguments, args)
    if len(content) > max_request_bytes:
        raise InvalidArgument(
            f"The content of the request has {len(content)} bytes; at most {max_request_bytes} are sent "
            "(max_request_bytes).",
            reason=Reason.REQUEST_TOO_LARGE,
        )
    return WebRequest(url, _method(arguments), check_fields(_with_type(fields, content_type)), content)


def _method(arguments: Arguments) -> str:
    method = arguments.text("method", "GET")
    if method not in METHODS:
        raise ToolInvalidArgs(f"method must be one of {', '.join(METHODS)}, in capitals.")
    return method


def _texts(arguments: Arguments, name: str) -> Mapping[str, str]:
    """An object of texts. What a query holds may be secret, so no name of it is repeated."""
    texts = arguments.mapping(name)
    for key, value in texts.items():
        if not isinstance(key, str) or not isinstance(value, str):
            place = f"headers[{quoted(key)}]" if name == "headers" else f"every value of {name}"
            raise wrong(place, "a string", value)
    return texts


def _sendable_fields(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers.items() if not is_dropped(name)]


def is_dropped(name: str) -> bool:
    """Whether a field from the model is left out without a word: the engine sets it (W-126, D-26, AMB-86).

    Of Accept-Encoding the engine offers what it can decode (D-3); no field of a proxy ever goes to a server.
    """
    spelling = name.lower().replace("_", "-")
    return is_own_field(name) or spelling == "accept-encoding" or spelling.startswith("proxy-")


# Content --------------------------------------------------------------------------------------------------


_JSON_TYPE: Final = "application/json"
_BODY_TYPE: Final = "application/octet-stream"


def _content(arguments: Arguments, args: Mapping[str, Any]) -> tuple[bytes, str | None]:
    """The bytes to send, and the type that they have if the model gives none."""
    body = arguments.get("body")
    if "json" in args:  # its presence decides, for null is a JSON value, too (AMB-70)
        if body is not None:
            raise ToolInvalidArgs("body and json exclude each other: leave one of them out, null as well.")
        return _json_content(args["json"]), _JSON_TYPE
    content = _encoded("body", arguments.text("body", ""))
    return content, _BODY_TYPE if content else None


def _with_type(fields: Fields, content_type: str | None) -> Fields:
    """With json its own type holds (AMB-71), with body the model's if there is one (AMB-72)."""
    if content_type is None:
        return fields
    others = tuple(pair for pair in fields if pair[0].lower() != "content-type")
    if content_type == _BODY_TYPE and len(others) < len(fields):
        return fields
    return (*others, ("Content-Type", content_type))


def _json_content(value: object) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ToolInvalidArgs(
            "json must be a JSON value: null, booleans, finite numbers, strings, arrays and objects."
        ) from None
    return _encoded("json", text)


def _encoded(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolInvalidArgs(f"{name} holds half a character (a lone surrogate).") from None
