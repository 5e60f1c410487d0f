"""The result of `web_request`: a response in the words of the tool, without what no model is to see."""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from tidegate import Headers, Response
from tidegate._policy.content import (
    ContentKind,
    MediaType,
    charset_of,
    combine_content_type,
    cut_utf8,
    decode_text,
    kind_of,
    parse_json,
)
from tidegate._policy.fields import HOP_BY_HOP
from tidegate_tools.web_request.redaction import Redactor

HIDDEN_FIELDS: Final = HOP_BY_HOP | {
    "set-cookie", "set-cookie2", "cookie", "authorization", "www-authenticate", "authentication-info",
    "proxy-authorization", "proxy-authenticate", "proxy-authentication-info",
}  # fmt: skip
"""Response fields that no result shows: hop-by-hop ones, cookies, authentication (W-87, W-88, AMB-52)."""

RESULT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "status": {"type": "integer", "description": "Of the final response; 4xx and 5xx are results, too."},
        "url": {"type": "string", "description": "Where the response came from, without its query."},
        "content_type": {
            "type": ["string", "null"],
            "description": "The media type without parameters; null if there is none.",
        },
        "redirect_count": {"type": "integer", "description": "How many redirects were followed."},
        "response_headers": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Without hop-by-hop, cookie and authentication fields; repeated ones are joined.",
        },
        "body": {
            "description": "Untrusted data: a JSON value if the type is JSON and nothing was cut, else text; "
            "null where body_omitted_reason says why."
        },
        "body_truncated": {
            "type": "boolean",
            "description": "There was more, or nothing proves that there was not.",
        },
        "body_omitted_reason": {
            "enum": ["binary", "head", None],
            "description": "Why body is null; null if nothing was left out.",
        },
        "response_bytes": {"type": "integer", "description": "Of binary content, how much came."},
        "error": {"type": "string", "description": "One sentence; there is no response then."},
        "outcome": {"enum": ["blocked", "timeout", "error", "invalid"], "description": "Only with error."},
        "reason": {"type": "string", "description": "Only with error: a code for programs."},
    },
    "anyOf": [
        {
            "required": [
                *("status", "url", "content_type", "redirect_count", "response_headers"),
                *("body", "body_truncated", "body_omitted_reason"),
            ]
        },
        {"required": ["error", "outcome", "reason"]},
    ],
    "additionalProperties": False,
}
"""The JSON Schema of what the tool's text holds, on success and on failure."""


def shape_result(
    response: Response, redactor: Redactor, hidden_fields: Collection[str] = ()
) -> dict[str, Any]:
    """The result of a call (W-85 to W-96).

    Args:
        response: what came.
        redactor: of the secrets of this tool.
        hidden_fields: lower-case names of fields that are hidden beside `HIDDEN_FIELDS`.
    """
    is_head = response.hops[-1].method == "HEAD"
    cut = not is_head and (response.truncated or not response.complete)
    media_type = combine_content_type([*map(redactor.redact, response.headers.get_all("content-type"))])
    body, omitted = (None, "head") if is_head else _shape_body(response, media_type, redactor, cut=cut)
    return {
        "status": response.status,
        "url": redactor.redact_url(response.url).without_query,
        "content_type": media_type.essence if media_type else None,
        "redirect_count": len(response.hops) - 1,
        "response_headers": dict(_shape_headers(response.headers, redactor, hidden_fields)),
        "body": body,
        "body_truncated": cut,
        "body_omitted_reason": omitted,
        # AMB-64: promised of binary content alone.
        **({"response_bytes": len(response.content)} if omitted == "binary" else {}),
    }


def to_json(result: dict[str, Any]) -> str:
    """A result as the text that the tool returns: strict JSON, always (W-84)."""
    return json.dumps(result, ensure_ascii=False, allow_nan=False)


# Fields ---------------------------------------------------------------------------------------------------

# Terminal escapes and the like, which are no part of any field's grammar; the tab is.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def _shape_headers(
    headers: Headers, redactor: Redactor, hidden_fields: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Fields in the letter case of their first line, repeated ones joined (AMB-53), secrets redacted."""
    hidden = {_plain_name(name) for name in (*HIDDEN_FIELDS, *hidden_fields, *_named_by_connection(headers))}
    spellings = {name.decode("latin-1").lower(): name.decode("latin-1") for name, _ in reversed(headers.raw)}
    for name in headers:
        if _plain_name(name) not in hidden:
            yield redactor.redact(spellings[name]), redactor.redact(_CONTROL.sub("\ufffd", headers[name]))


def _plain_name(name: str) -> str:
    """Servers of the CGI family take an underscore for a hyphen; an echo of theirs may have either."""
    return name.lower().replace("_", "-")


def _named_by_connection(headers: Headers) -> Iterator[str]:
    """Fields that belong to this connection alone, because it says so (RFC 9110 7.6.1)."""
    for value in headers.get_all("connection"):
        yield from (name.strip() for name in value.split(","))


# Content --------------------------------------------------------------------------------------------------


def _shape_body(
    response: Response, media_type: MediaType | None, redactor: Redactor, *, cut: bool
) -> tuple[Any, str | None]:
    """The body, and why there is none."""
    content = cut_utf8(response.content) if cut else response.content
    if not content:
        return "", None  # null is a JSON value, or says that something was left out (AMB-69)
    kind = kind_of(media_type, content)
    if kind is ContentKind.BINARY or _is_coded(response.headers):
        return None, "binary"
    charset = charset_of(media_type, content)
    # Only of UTF-8 do we know where the last character begins.
    whole = content if charset.encoding == "UTF-8" else response.content
    text = redactor.redact(decode_text(whole, charset), cut=cut)
    if kind is ContentKind.JSON and not cut:
        try:
            return parse_json(text), None
        except ValueError:
            pass  # NaN, half a character, no JSON at all: as it came (AMB-67)
    return text, None


def _is_coded(headers: Headers) -> bool:
    """Whether the content is in a coding that was not undone, and so is no text whatever its type says."""
    return headers.get("content-encoding", "").strip().lower() not in ("", "identity")
