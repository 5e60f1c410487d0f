"""What is left of a broken download, and how to ask for the rest of it (RFC 9110 13.1.5 and 14).

Beside `FILE.part` lies `FILE.part.json` with the validator of the representation that the part is of. Without
a validator nothing proves that the rest would fit, so then there is no such file and no resuming.
"""

import contextlib
import hashlib
import json
import re
import stat
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

from tidegate import Headers

_VERSION: Final = 1
_LARGEST: Final = 64 * 1024
"""Bytes of a side file. A validator is one field of a response, and those are bounded."""
_CONTENT_RANGE: Final = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18}|\*)", re.IGNORECASE)
_STRONG_TAG: Final = re.compile(
    r'"[\x21\x23-\x7e]*"'
)  # RFC 9110 8.8.3, as far as a field of ours may hold it


@dataclass(frozen=True, slots=True, kw_only=True)
class Validator:
    """Which representation a part is of.

    Attributes:
        request: a digest of the URL: the same tag under another URL says nothing, and a URL may hold secrets.
        value: for If-Range: a strong entity tag, or the date of the last change.
        length: of the whole representation in bytes, None if unknown.
    """

    request: str
    value: str
    length: int | None


def validator_of(url: str, headers: Headers, length: int | None) -> Validator | None:
    """The validator of a full response, None if it has none that If-Range may use.

    Args:
        url: as it was asked for.
        headers: of the response.
        length: what Content-Length says.
    """
    tag = headers.get("etag", "")
    value = tag if _STRONG_TAG.fullmatch(tag) else _strong_date(headers)
    return Validator(request=_digest(url), value=value, length=length) if value else None


def _strong_date(headers: Headers) -> str:
    """Last-Modified, if it is a strong validator: at least a second older than Date (RFC 9110 8.8.2.2)."""
    changed = headers.get("last-modified", "")
    try:
        age = parsedate_to_datetime(headers.get("date", "")) - parsedate_to_datetime(changed)
        return changed if age.total_seconds() >= 1 else ""
    except (TypeError, ValueError, OverflowError):
        return ""


def _digest(url: str) -> str:
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()


def save_validator(path: Path, validator: Validator) -> None:
    """Write the side file, of which there is none yet: nobody's link is followed."""
    with path.open("x", encoding="ascii") as file:
        json.dump({"version": _VERSION, **asdict(validator)}, file)


def load_validator(path: Path, url: str) -> Validator | None:
    """Read the side file; None if it is not there, not ours or of another URL."""
    # RecursionError: of JSON that is nested without end.
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            return None
        data = json.loads(path.read_bytes())
        validator = Validator(request=data["request"], value=data["value"], length=data["length"])
        if data["version"] == _VERSION and validator.request == _digest(url) and _is_sane(validator):
            return validator
    return None


def _is_sane(validator: Validator) -> bool:
    length = validator.length
    known = length is None or (isinstance(length, int) and length >= 0)
    return known and isinstance(validator.value, str) and bool(validator.value)


@dataclass(frozen=True, slots=True)
class ContentRange:
    """A Content-Range field: `bytes first-last/length`, or `bytes */length` where first is None."""

    first: int | None
    last: int | None
    length: int | None


def content_range(headers: Headers) -> ContentRange | None:
    """The range that a 206 or 416 names, None if it names none that makes sense."""
    match = _CONTENT_RANGE.fullmatch(headers.get("content-range", "").strip())
    if match is None:
        return None
    first, last, length = (int(text) if text and text != "*" else None for text in match.groups())
    if first is not None and last is not None and (last < first or (length is not None and last >= length)):
        return None
    return ContentRange(first, last, length)


def fits(validator: Validator, headers: Headers, found: ContentRange, offset: int) -> bool:
    """True if a 206 is the rest of the very representation that the part is of.

    If-Range has made sure of that where the server heeds it; not every server does.
    """
    tag = headers.get("etag", "")
    same_tag = not (validator.value.startswith('"') and tag) or tag == validator.value
    same_length = None in (validator.length, found.length) or validator.length == found.length
    return found.first == offset and same_tag and same_length
