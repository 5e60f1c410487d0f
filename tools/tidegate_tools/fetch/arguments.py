"""The arguments of `Fetch`: what a model is told of them, and what becomes of what it sends.

All of it happens before anybody is asked for a grant, before DNS, and before any socket (F-61). What a URL
and a field may be is the engine's to say, which does so at that same point.
"""

import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidegate import Limits, Reason
from tidegate._policy.fields import MAX_VALUE
from tidegate_tools.arguments import Arguments, wrong
from tidegate_tools.registry import ToolInvalidArgs, quoted

METHODS: Final = ("GET", "HEAD", "POST")

# AMB-20: binary units.
LEAST_MAX_BYTES: Final = 1024
MOST_MAX_BYTES: Final = 16 * 1024 * 1024
DEFAULT_MAX_BYTES: Final = 4 * 1024 * 1024
MAX_BODY: Final = 1024 * 1024
MOST_TIMEOUT_S: Final = 120
DEFAULT_TIMEOUT_S: Final = 30
MOST_REDIRECTS: Final = 5
DEFAULT_REDIRECTS: Final = 3

PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "url": {
            "type": "string",
            "minLength": 1,
            "description": "An absolute http or https URL, without user name and password.",
        },
        "method": {"type": "string", "enum": list(METHODS), "default": "GET"},
        "headers": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Request fields by name, printable ASCII. Host, Content-Length and others that "
            "frame or route a message are the tool's own.",
        },
        "cookies": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Cookies for this one call, name to value. Never kept, gone after a redirect.",
        },
        "body": {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"_b64": {"type": "string", "description": "Base64 of the bytes."}},
                    "required": ["_b64"],
                    "additionalProperties": False,
                },
            ],
            "description": f"For POST only: text, sent as UTF-8, or bytes. At most {MAX_BODY} bytes.",
        },
        "max_bytes": {
            "type": "integer",
            "minimum": LEAST_MAX_BYTES,
            "maximum": MOST_MAX_BYTES,
            "default": DEFAULT_MAX_BYTES,
            "description": "How much of the content is kept; what is longer is cut, and `truncated` says so.",
        },
        "timeout_s": {
            "type": "number",
            "minimum": 1,
            "maximum": MOST_TIMEOUT_S,
            "default": DEFAULT_TIMEOUT_S,
            "description": "Seconds for the whole call, redirects included.",
        },
        "follow_redirects": {"type": "boolean", "default": False},
        "max_redirects": {
            "type": "integer",
            "minimum": 0,
            "maximum": MOST_REDIRECTS,
            "default": DEFAULT_REDIRECTS,
            "description": "With follow_redirects; one redirect more is an error.",
        },
        "stream": {
            "type": "boolean",
            "default": False,
            "description": "Pass the content on in chunks while it comes, if the caller takes any.",
        },
    },
    "required": ["url"],
    "additionalProperties": False,
}
"""The JSON Schema of the arguments. A method in lower case and a null for what is optional are taken, too."""

_KNOWN: Final = tuple(PARAMETERS["properties"])


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchArguments:
    """The arguments of one call, checked.

    Attributes:
        url: as given.
        method: one of `METHODS`.
        headers: a copy of the caller's, with the cookies in it.
        content: of the request.
        max_bytes: of content that is kept.
        timeout: seconds for the whole call.
        follow_redirects: whether redirects are followed at all.
        max_redirects: how many, if they are.
        stream: whether chunks are wanted.
    """

    url: str = field(repr=False)
    method: str
    headers: Mapping[str, str] = field(repr=False)
    content: bytes = field(repr=False)
    max_bytes: int
    timeout: float
    follow_redirects: bool
    max_redirects: int
    stream: bool

    @property
    def limits(self) -> Limits:
        """The same bounds as the engine takes them."""
        return Limits(
            timeout=self.timeout,
            max_content=self.max_bytes,
            max_request_content=MAX_BODY,
            max_redirects=self.max_redirects if self.follow_redirects else 0,
        )


def parse_arguments(args: object) -> FetchArguments:
    """Check the arguments of a call. What is given is left as it is (F-97).

    Raises:
        ToolInvalidArgs: one of them is wrong; the message names it, its bound, and what kind of value came.
    """
    if not isinstance(args, Mapping):
        raise wrong("args", "an object", args)
    given = Arguments(args, _KNOWN)
    url, method = given.required_text("url"), _method(given)
    return FetchArguments(
        url=url,
        method=method,
        headers=_headers(given),
        content=_content(given, method),
        max_bytes=given.integer("max_bytes", DEFAULT_MAX_BYTES, low=LEAST_MAX_BYTES, high=MOST_MAX_BYTES),
        timeout=given.number("timeout_s", DEFAULT_TIMEOUT_S, low=1, high=MOST_TIMEOUT_S),
        follow_redirects=given.flag("follow_redirects", False),
        max_redirects=given.integer("max_redirects", DEFAULT_REDIRECTS, low=0, high=MOST_REDIRECTS),
        stream=given.flag("stream", False),
    )


def _method(given: Arguments) -> str:
    method = given.text("method", "GET")
    # Only ASCII is folded: there are other letters that become one of POST.
    folded = method.upper() if method.isascii() else ""
    if folded not in METHODS:
        raise ToolInvalidArgs(f"method must be GET, HEAD or POST, not the string {quoted(method)}.")
    return folded


def _headers(given: Arguments) -> Mapping[str, str]:
    headers = given.mapping("headers")
    for name, value in headers.items():
        _check_text("headers", name, value)
        # RFC 9110 has the tab in field values; the printable ASCII of this tool has not (AMB-5).
        if "\t" in value:
            raise ToolInvalidArgs(f"headers[{quoted(name)}] must be printable ASCII, and a tab is not.")
    cookie = _cookie(given)
    if cookie and any(name.lower() == "cookie" for name in headers):
        raise ToolInvalidArgs("cookies must be absent if headers has a Cookie field: there is only one.")
    return {**headers, "Cookie": cookie} if cookie else dict(headers)


# RFC 6265 4.1.1 for the name. For the value what browsers send back (5.4): a server gets what it once set,
# quotes and commas included; only a semicolon would begin another cookie.
_COOKIE_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_COOKIE_VALUE: Final = re.compile(r"(?:[!-:<-~](?:[ -:<-~]*[!-:<-~])?)?")


def _cookie(given: Arguments) -> str:
    """The value of the one Cookie field; empty for none."""
    pairs = given.mapping("cookies")
    for name, value in pairs.items():
        _check_text("cookies", name, value)
        if not _COOKIE_NAME.fullmatch(name):
            raise ToolInvalidArgs(
                f"A name in cookies must be a token such as session-id, not {quoted(name)}.",
                reason=Reason.INVALID_FIELD,
            )
        if not _COOKIE_VALUE.fullmatch(value):
            raise ToolInvalidArgs(
                f"cookies[{quoted(name)}] must be printable ASCII without semicolons and without white space "
                "at its ends.",
                reason=Reason.INVALID_FIELD,
            )
    cookie = "; ".join(f"{name}={value}" for name, value in pairs.items())
    if len(cookie) > MAX_VALUE:
        raise ToolInvalidArgs(f"cookies must make a field of at most {MAX_VALUE} bytes, not {len(cookie)}.")
    return cookie


def _check_text(argument: str, name: object, value: object) -> None:
    if not isinstance(name, str):
        raise wrong(f"A name in {argument}", "a string", name)
    if not isinstance(value, str):
        raise wrong(f"{argument}[{quoted(name)}]", "a string", value)


def _content(given: Arguments, method: str) -> bytes:
    body = given.get("body")
    if body is None:
        return b""
    if method != "POST":
        raise ToolInvalidArgs(f"body must be absent unless method is POST; it is {method}.")
    content = _utf8(body) if isinstance(body, str) else _from_base64(body)
    if len(content) > MAX_BODY:
        raise _too_large()
    return content


def _utf8(body: str) -> bytes:
    if len(body) > MAX_BODY:
        raise _too_large()
    try:
        return body.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolInvalidArgs("body must be text that UTF-8 can carry; it holds half a character.") from None


def _from_base64(body: object) -> bytes:
    if not isinstance(body, Mapping) or set(body) != {"_b64"}:
        raise wrong("body", 'a string, or an object of the one key "_b64"', body)
    text = body["_b64"]
    if not isinstance(text, str):
        raise wrong('body["_b64"]', "a string of base64", text)
    if len(text) > 4 * (MAX_BODY // 3 + 2):
        raise _too_large()
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:  # binascii.Error is one, and what is not ASCII raises another
        raise ToolInvalidArgs(
            'body["_b64"] must be a string of base64 with its padding and nothing else (RFC 4648).'
        ) from None


def _too_large() -> ToolInvalidArgs:
    return ToolInvalidArgs(
        f"body must have at most {MAX_BODY} bytes after decoding.", reason=Reason.REQUEST_TOO_LARGE
    )
