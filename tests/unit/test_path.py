"""W-50: whatever a server makes of a path that a star covers, it stays below the star."""

import posixpath
import re
import sys
import unicodedata
from collections.abc import Callable
from typing import Final, TypeAlias
from urllib.parse import unquote, unquote_to_bytes

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tidegate._policy import path as module
from tidegate._policy.path import MAX_DECODINGS, is_ambiguous
from tidegate._policy.policy import RequestRule
from tidegate._policy.url import MAX_URL_LENGTH, parse_url
from tidegate.errors import FetchError

RULE: Final = RequestRule("api.example", paths=["/v1/*"])

Decoder: TypeAlias = Callable[[str], str]


# What servers make of paths ---------------------------------------------------------------------------


def decoded(path: str) -> str:
    return unquote(path, "utf-8", "surrogateescape")


def decoded_as_latin_1(path: str) -> str:
    return unquote(path, "latin-1")


def decoded_lossily(path: str) -> str:
    return unquote(path, "utf-8", "ignore")


def decoded_overlong(path: str) -> str:
    """As IIS 5 did: whatever follows a leading byte is taken for its continuation."""
    octets, found = unquote_to_bytes(path.encode("utf-8", "surrogateescape")), ""
    while octets:
        size = 1 + sum(octets[0] >= lead for lead in (0xC0, 0xE0, 0xF0))
        point = octets[0] & 0x7F >> (size if size > 1 else 0)
        for octet in octets[1:size]:
            point = point << 6 | octet & 0x3F
        found += chr(point) if point <= sys.maxunicode and not 0xD800 <= point < 0xE000 else ""
        octets = octets[size:]
    return found


def decoded_u(path: str) -> str:
    return re.sub("%u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), path)


def compatible(path: str) -> str:
    return unicodedata.normalize("NFKC", path)


def slashed(path: str) -> str:
    return re.sub(r"[\\¥₩∖⧵]", "/", path).replace("∕", "/").replace("⁄", "/")


def without_parameters(path: str) -> str:
    return re.sub(";[^/]*", "", path)


def cut(path: str) -> str:
    return re.split("[\0?#\r\n]", path)[0]


def trimmed(path: str) -> str:
    return "/".join(re.sub(r"\A[\s\0-\x1f]+|[\s\0-\x1f]+\Z", "", segment) for segment in path.split("/"))


def without_controls(path: str) -> str:
    return re.sub("[\0-\x1f\x7f-\x9f]", "", path)


DECODERS: Final[list[Decoder]] = [
    decoded, decoded_as_latin_1, decoded_lossily, decoded_overlong, decoded_u, compatible, slashed,
    without_parameters, cut, trimmed, without_controls, posixpath.normpath,
]  # fmt: skip


def stays(path: str) -> bool:
    """Below /v1/, dot segments resolved; the folder itself is where it begins."""
    return (posixpath.normpath(path) + "/").startswith("/v1/")


# Paths that mean to go up -----------------------------------------------------------------------------


def _percent(octets: bytes) -> str:
    return "".join(f"%{octet:02x}" for octet in octets)


_FORMS: Final = {
    ".": [".", "%2e", "%2E", "%c0%ae", "%e0%80%ae", "%u002e", "%uff0e", "%ef%bc%8e", "%e2%80%a4"],
    "/": ["/", "%2f", "\\", "%5c", "%c0%af", "%u2215", "%ef%bc%8f", "%e2%88%95", "%c2%a5", "%c1%9c"],
    "": [*12 * [""], "%00", ";", ";x", "%3b", "%20", "%09", "%0d", "%3f", "%23", "%7f", "%e3%80%80"],
}


@st.composite
def written(draw: st.DrawFn, character: str) -> str:
    """One character in some disguise, encoded over and over again, in whole or in part."""
    text = draw(st.sampled_from(_FORMS[character]))
    for _ in range(draw(st.integers(0, 3))):
        text = "".join(_percent(letter.encode()) if draw(st.booleans()) else letter for letter in text)
    return text


@st.composite
def ways_up(draw: st.DrawFn) -> str:
    first, *others = [draw(written(character)) for character in ("", ".", "", ".", "", "/")]
    return f"{first}{''.join(others)}admin"


segments = st.one_of(
    ways_up(),
    ways_up(),
    st.text("aé.%25eEfFcC0u/; ", max_size=8),
    st.sampled_from(["a", "caf%C3%A9", "100%25", "a%20b", "..a", "...", "%2e%2e", "x;y", "%u00e9"]),
)
paths = st.lists(segments, min_size=1, max_size=2).map(lambda parts: f"/v1/{'/'.join(parts)}")


def made_of(path: str) -> dict[str, str]:
    """Whatever comes out of up to four decoders in a row, each with the way to it."""
    seen, latest = {path: ""}, [path]
    for _ in range(4):
        new: dict[str, str] = {}
        for form in latest:
            for decode in DECODERS:
                new.setdefault(decode(form), f"{seen[form]} {decode.__name__}")
        latest = [form for form in new if form not in seen]
        seen.update({form: new[form] for form in latest})
    return seen


@given(paths)
@settings(max_examples=200, deadline=None)
def test_what_a_star_covers_stays_below_it(path: str) -> None:
    """Decoded once, twice, or by whatever servers there are, in whatever order they come."""
    try:
        url = parse_url(f"https://api.example{path}")
    except FetchError:
        return
    allowed = RULE.allows(url, "GET")
    event(f"allowed: {allowed}")
    if allowed:
        assert [(form, way) for form, way in made_of(url.path).items() if not stays(form)] == []


def test_that_property_sees_ways_up() -> None:
    """Each of the disguises is one for some decoder, so none of them stands there in vain."""
    for dot in _FORMS["."]:
        assert not all(map(stays, made_of(f"/v1/{dot}{dot}/admin"))), dot
    for slash in _FORMS["/"]:
        assert not all(map(stays, made_of(f"/v1/..{slash}admin"))), slash
    for more in set(_FORMS[""]):
        assert not all(map(stays, made_of(f"/v1/..{more}/admin"))), more


@pytest.mark.parametrize("times", range(12))
def test_decoded_any_number_of_times(times: int) -> None:
    """The same without luck: each way of writing the way up, decoded until it leads up."""
    for dot in _FORMS["."]:
        for slash in _FORMS["/"]:
            way = f"{dot}{dot}{slash}admin"
            for _ in range(times):
                way = way.replace("%", "%25")
            try:
                url = parse_url(f"https://api.example/v1/{way}")
            except FetchError:  # a plain backslash
                continue
            assert not RULE.allows(url, "GET"), way


# The rest ---------------------------------------------------------------------------------------------


def test_a_path_that_is_encoded_too_often_is_refused() -> None:
    assert not is_ambiguous("/%" + "25" * MAX_DECODINGS)
    assert is_ambiguous("/%" + "25" * (MAX_DECODINGS + 1))


@pytest.mark.parametrize("part", ["%25", "%2525", "25", "%", "/ ", "/.", "..%20", "%CC%81", "%E2%80%A5"])
def test_the_work_is_in_proportion_to_the_length(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No text makes more of it: so many forms at most, none longer than the path."""
    forms: list[bytes] = []

    def noted(form: bytes) -> bytes:
        forms.append(form)
        return unquote_to_bytes(form)

    monkeypatch.setattr(module, "_decoded", noted)
    path = "/%" + part * (MAX_URL_LENGTH // len(part) - 1)
    is_ambiguous(path)
    assert len(forms) <= MAX_DECODINGS + 1
    assert max(map(len, forms), default=0) <= len(path)


def test_every_compatible_form_of_what_matters_is_known() -> None:
    """Of all of Unicode, as this Python knows it."""
    plain = {".", "..", "/", "\\", ";", "?", "#"}
    for point in range(0x80, sys.maxunicode + 1):
        if (form := unicodedata.normalize("NFKC", chr(point))) in plain:
            assert chr(point).translate(module._BEST_FIT) == form, f"U+{point:04X}"
