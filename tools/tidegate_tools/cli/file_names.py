"""A file name out of what a server says: one component, nothing special, nothing that exists already."""

import os
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final
from urllib.parse import unquote, unquote_to_bytes

from tidegate import URL, Headers

FALLBACK: Final = "download"

MAX_BYTES: Final = 200
"""File systems take 255 bytes; room is left for `-12`, `.part` and `.json`."""

# RFC 6266 4.1. The value ends where a semicolon does; a quoted one may lack its end.
_PARAMETER: Final = re.compile(
    r';\s*(?P<name>filename\*?)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)|(?P<bare>[^;"]*))', re.IGNORECASE
)
_EXTENDED: Final = re.compile(r"(utf-8|iso-8859-1)'[^']*'(.*)", re.IGNORECASE)  # RFC 8187 3.2.1

# Controls, marks that reorder text (`exe.gpj` shown for `jpg.exe`), and what Windows has no files with.
_UNSAFE: Final = re.compile(
    '[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"*:<>?|]+'
)
_DEVICES: Final = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
_LONGEST_VALUE: Final = 4096


def remote_name(headers: Headers, url: URL) -> str:
    """The name that Content-Disposition gives, else the last segment of the path, made safe."""
    for value in headers.get_all("content-disposition"):
        for name in _disposition_names(value[:_LONGEST_VALUE]):
            if safe := safe_name(name):
                return safe
    return safe_name(unquote(url.path.rpartition("/")[2])) or FALLBACK


def _disposition_names(value: str) -> Iterator[str]:
    """The names in a Content-Disposition field, the extended form first (RFC 6266 4.3)."""
    found: dict[str, str] = {}
    for match in _PARAMETER.finditer(value):
        quoted, bare = match["quoted"], match["bare"]
        text = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else bare.strip()
        found.setdefault(match["name"].lower(), text)
    extended = _EXTENDED.fullmatch(found.get("filename*", ""))
    if extended:
        yield unquote_to_bytes(extended[2]).decode(extended[1], "replace")
    if "filename" in found:
        yield found["filename"]


def safe_name(name: str) -> str:
    """One path component: not hidden, no option, no device, not too long; empty if nothing is left."""
    last = re.split(r"[/\\]", name)[-1]
    name = _UNSAFE.sub("_", last).strip(" .\t")
    if name.startswith("-") or _DEVICES.fullmatch(name):
        name = f"_{name}"
    return _shortened(name) if name.strip("_") else ""


def _shortened(name: str) -> str:
    """The name in at most `MAX_BYTES` bytes, its short extension kept."""
    if len(name.encode()) <= MAX_BYTES:
        return name
    stem, dot, extension = name.rpartition(".")
    tail = dot + extension if stem and len(extension.encode()) <= 16 else ""
    kept = name.removesuffix(tail).encode()[: MAX_BYTES - len(tail.encode())]
    return kept.decode("utf-8", "ignore") + tail


def free_path(directory: Path, name: str, suffixes: tuple[str, ...]) -> Path:
    """A path at which nothing is yet: `name`, or `name-1`, `name-2` and so on before its extension.

    Args:
        directory: where.
        name: from `remote_name`.
        suffixes: of the files beside it that must not exist either.
    """
    stem, dot, extension = name.rpartition(".")
    if not stem:
        stem, dot, extension = name, "", ""
    for number in count():
        path = directory / (name if not number else f"{stem}-{number}{dot}{extension}")
        # The name itself last: a download that ends meanwhile has it before it gives up the others.
        if not any(os.path.lexists(f"{path}{suffix}") for suffix in (*suffixes, "")):
            break
    return path
