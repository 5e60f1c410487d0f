"""Redaction: a value is found however it is escaped, what is no value stays, and neither takes for ever."""

import base64
import html
import json
import string
import time
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate import parse_url
from tidegate_tools.web_request.redaction import MARK, MIN_LENGTH, Redactor

SECRET = 'sk-live/+=&"\\<0123456789>%41'
ORDINARY = "sk_live_0123456789abcdef"


def _json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _percent(text: str) -> str:
    return "".join(f"%{ord(character):02X}" for character in text)


def _unicode(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


def _wrapped(text: str) -> str:
    return base64.encodebytes(text.encode()).decode()


ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "upper case": str.upper,
    "lower case": str.lower,
    "URL, what has to be": lambda text: urllib.parse.quote(text, safe=""),
    "URL, as a path": urllib.parse.quote,
    "URL, as a form": urllib.parse.quote_plus,
    "URL, all of it": _percent,
    "URL, lower case": lambda text: _percent(text).lower(),
    "URL twice": lambda text: urllib.parse.quote(urllib.parse.quote(text, safe=""), safe=""),
    "URL thrice": lambda text: _percent(_percent(_percent(text))),
    "JSON": _json,
    "JSON with slashes": lambda text: _json(text).replace("/", "\\/"),
    "JSON, all of it": _unicode,
    "JSON, capitals": lambda text: "".join(f"\\u{ord(character):04X}" for character in text),
    "JSON in JSON": lambda text: _json(_json(text)),
    "JSON in JSON, all of it": lambda text: _json(_unicode(text)),
    "URL in JSON": lambda text: _json(_percent(text)),
    "JSON in a URL": lambda text: urllib.parse.quote(_json(text), safe=""),
    "Python": lambda text: "".join(f"\\x{ord(character):02x}" for character in text),
    "HTML": html.escape,
    "HTML, decimal": lambda text: "".join(f"&#{ord(character)};" for character in text),
    "HTML, hexadecimal": lambda text: "".join(f"&#x{ord(character):04X};" for character in text),
    "HTML in JSON": lambda text: _json(html.escape(text)),
    "every other character": lambda text: "".join(
        _percent(character) if at % 2 else character for at, character in enumerate(text)
    ),
    "three escapes in turn": lambda text: "".join(
        (_percent, _unicode, lambda character: f"&#{ord(character)};")[at % 3](character)
        for at, character in enumerate(text)
    ),
}


@pytest.mark.parametrize(
    "secret", [SECRET, ORDINARY, "Bearer abc.def-ghi~jkl", "%41%42%43%44", "\\u0041\\u0042"]
)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_encodings(encoding: str, secret: str) -> None:
    """W-89, W-150, W-F3, W-F4: in the middle of a text, with nothing else gone."""
    encoded = ENCODINGS[encoding](secret)
    assert Redactor([secret]).redact(f'{{"a": "{encoded}", "b": "ü"}}') == f'{{"a": "{MARK}", "b": "ü"}}'


@pytest.mark.parametrize(
    "around", [("", ""), ("a", ""), ("ab", "c"), ("Authorization: ", "\r\n"), ("u:", ":v")]
)
@pytest.mark.parametrize(
    "encode",
    [
        lambda text: base64.b64encode(text.encode()).decode(),
        lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
        lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
        lambda text: urllib.parse.quote(base64.b64encode(text.encode()).decode(), safe=""),
        lambda text: json.dumps(base64.b64encode(text.encode()).decode()).replace("/", "\\/"),
        lambda text: _wrapped("x" * 40 + text + "y" * 40),
        lambda text: json.dumps(_wrapped("x" * 41 + text + "y" * 40)),
    ],
)
@pytest.mark.parametrize("secret", [SECRET, ORDINARY])
def test_base64(secret: str, encode: Callable[[str], str], around: tuple[str, str]) -> None:
    """W-150: alone or within something longer, at each of the three alignments, both alphabets, wrapped."""
    text = encode(around[0] + secret + around[1])
    redacted = Redactor([secret]).redact(text)
    assert redacted.count(MARK) == 1
    gone = len(_alphabet_only(text)) - len(_alphabet_only(redacted.replace(MARK, "")))
    # Six bits a character: all that hold nothing but the value are gone, and none that hold nothing of it.
    assert (8 * len(secret) - 10) // 6 <= gone <= (8 * len(secret)) // 6 + 1


def _alphabet_only(text: str) -> str:
    """The characters of base64 in a text, however they are escaped."""
    plain = urllib.parse.unquote(text).replace("\\n", "").replace("\\/", "/")
    return "".join(character for character in plain if character.isalnum() or character in "+/-_")


@given(
    # Without the backslash: raw, in front of an escape of JSON, it can be read in two ways.
    secret=st.text(
        st.sampled_from(string.printable[:94].replace("\\", "")), min_size=MIN_LENGTH, max_size=40
    ),
    choices=st.lists(
        st.sampled_from([lambda c: c, _percent, _unicode, _json, html.escape]), min_size=40, max_size=40
    ),
    before=st.text(st.sampled_from("ab ,."), max_size=5),
    after=st.text(st.sampled_from("ab ,."), max_size=5),
)
@settings(max_examples=300)
def test_any_mixture_of_escapes(
    secret: str, choices: list[Callable[[str], str]], before: str, after: str
) -> None:
    """Each character of a value escaped in a way of its own: found, and nothing but it is taken out."""
    mixed = "".join(choose(character) for choose, character in zip(choices, secret, strict=False))
    redacted = Redactor([secret]).redact(before + mixed + after)
    assert MARK in redacted
    assert Redactor([secret]).redact(redacted) == redacted
    assert secret.lower() not in redacted.lower()


@given(text=st.text(), secret=st.text(st.sampled_from("abAB%u0041\\&#;"), min_size=MIN_LENGTH, max_size=12))
@settings(max_examples=300)
def test_any_text(text: str, secret: str) -> None:
    """Never an exception; what does not hold the value comes back as it is."""
    redactor = Redactor([secret])
    redacted = redactor.redact(text)
    assert redacted == text or MARK in redacted
    assert MARK in redactor.redact(text + secret)
    redactor.redact(text, cut=True)


@pytest.mark.parametrize(
    "text",
    [
        "", "ordinary text", "sk_live_", "sk_live_0123456789abcde", "sk_live_0123456789abcdeg", "%", "\\",
        "&",
        "%zz \\q &nope; &#999999; \\ud800 %C3%BC", "100% of it & more \\ and so on", '{"a": "\\u00fc"}',
    ],
)  # fmt: skip
def test_what_is_no_value_stays(text: str) -> None:
    assert Redactor([ORDINARY]).redact(text) == text


def test_several_values() -> None:
    """Each for itself; where they overlap, all of it."""
    redactor = Redactor(["first-secret", "second-secret", "first-secret-and-more"])
    text = "a first-secret b SECOND-secret c first-secret-and-more d"
    assert redactor.redact(text) == f"a {MARK} b {MARK} c {MARK} d"
    assert redactor.redact("first-secretsecond-secret") == MARK


def test_short_values_are_left_alone() -> None:
    """A value of seven characters would be found everywhere; the tool is not built with one."""
    assert MIN_LENGTH == 8
    assert Redactor(["a", "1234567"]).redact("a 1234567") == "a 1234567"
    assert Redactor(["12345678"]).redact("a 12345678") == f"a {MARK}"
    assert Redactor([]).redact("text") == "text"


@pytest.mark.parametrize(
    "encoding", ["plain", "URL, all of it", "JSON, all of it", "URL twice", "HTML, decimal"]
)
def test_cut_in_the_middle_of_a_value(encoding: str) -> None:
    """A text that ends within a value shows at most its first three characters, half an escape or not."""
    encoded = ENCODINGS[encoding](ORDINARY)
    redactor = Redactor([ORDINARY])
    enough = len(ENCODINGS[encoding](ORDINARY[:4]))
    for length in range(enough, len(encoded) + 1):
        assert redactor.redact("text " + encoded[:length], cut=True) == f"text {MARK}"
    for length in range(enough):
        assert redactor.redact("text " + encoded[:length], cut=True) == "text " + encoded[:length]
    # Where nothing was cut off, the beginning of a value is none.
    assert redactor.redact("text " + encoded[:-1]) == "text " + encoded[:-1]


def test_cut_in_the_middle_of_base64() -> None:
    encoded = base64.b64encode(f"Authorization: {ORDINARY}".encode()).decode()
    redacted = Redactor([ORDINARY]).redact(encoded[:-8], cut=True)
    assert redacted.endswith(MARK)
    assert ORDINARY[:4] not in base64.b64decode(redacted.removesuffix(MARK) + "===").decode(
        "utf-8", "replace"
    )


def test_nothing_prints_a_value() -> None:
    redactor = Redactor([ORDINARY])
    assert ORDINARY not in f"{redactor!r} {redactor}"


URLS = [
    ("https://a.example/x", "https://a.example/x"),
    ("https://a.example:8443/x?y", "https://a.example:8443/x?y"),
    ("https://a.example/{}", "https://a.example/*"),
    ("https://a.example/x/{}/y?z={}&u", "https://a.example/x/*/y?z=*&u"),
    ("https://{}.a.example/x", "https://*.a.example/x"),
    ("https://{}.a.example:8443/x?y", "https://*.a.example:8443/x?y"),
    ("https://{}.a.example", "https://*.a.example/"),
    ("https://x.{}", "https://x.*/"),
    ("https://{}./x", "https://*/x"),
    ("https://[2606:4700::1111]/{}", "https://[2606:4700::1111]/*"),
    ("https://[2606:4700::1111]:8443/{}", "https://[2606:4700::1111]:8443/*"),
    ("https://1.1.1.1/{}?", "https://1.1.1.1/*?"),
]


@pytest.mark.parametrize(("url", "shown"), URLS)
def test_urls(url: str, shown: str) -> None:
    """W-F3, W-F4: host, path and query each for itself; port and scheme stay."""
    redacted = Redactor(["Sk-Live-0123456789"]).redact_url(parse_url(url.format(*["Sk-Live-0123456789"] * 2)))
    assert str(redacted) == shown.replace("*", MARK)
    assert redacted.port == parse_url(url.format("a", "a")).port


@pytest.mark.parametrize(
    ("secret", "url", "shown"),
    [
        ("0123abcdef/xyz", "https://{}.a.example/x", "https://*.a.example/x"),
        ("0123abcdef/xyz?123", "https://{}.a.example/x", "https://*.a.example/x"),
        ("0123abcdef/xyz#123", "https://{}.a.example/x", "https://*/"),
        ("0123abcdef/xyz#123", "https://a.example/x/{}", "https://a.example/x/*"),
        ("0123abcdef?123", "https://a.example/x/{}", "https://a.example/x/*"),
        ("0123abcdef.", "https://{}/x", "https://*/x"),
        ("https://0123abcdef", "{}", "https://*/"),
        # What is left of it is too short to be told from ordinary text.
        ("0123abc#def", "https://a.example/{}", "https://a.example/0123abc"),
    ],
)
def test_a_value_that_a_url_takes_apart(secret: str, url: str, shown: str) -> None:
    """It may end a host or a path, and the rest of it is elsewhere, or gone."""
    redacted = Redactor([secret]).redact_url(parse_url(url.format(secret)))
    assert redacted.without_query == shown.replace("*", MARK)


def test_sentences_about_urls() -> None:
    """They name a host, in which no more of a value may be than its beginning."""
    redactor = Redactor(["0123abcdef/xyz"])
    assert redactor.redact("0123abcdef is a local name", of_url=True) == f"{MARK} is a local name"
    assert redactor.redact("0123abcdef is a number") == "0123abcdef is a number"


HOSTILE: dict[str, Callable[[int], str]] = {
    "plain text": lambda size: "x" * size,
    "escapes of a URL": lambda size: "%41" * (size // 3),
    "escaped percent signs": lambda size: "%25" * (size // 3),
    "escapes twice over": lambda size: "%2541" * (size // 5),
    "escapes and letters in turn": lambda size: "a%41" * (size // 4),
    "backslashes": lambda size: "\\" * size,
    "escapes of JSON": lambda size: "\\u0041" * (size // 6),
    "references that do not end": lambda size: "&#0000000" * (size // 9),
    "references": lambda size: "&#65;" * (size // 5),
    "white space": lambda size: " \n" * (size // 2),
    "the value, again and again": lambda size: ORDINARY * (size // len(ORDINARY)),
    "nearly the value": lambda size: (ORDINARY[:-1] + "x") * (size // len(ORDINARY)),
    "the value, escaped": lambda size: _percent(_percent(ORDINARY)) * (size // 9 // len(ORDINARY)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_time_grows_with_the_text(kind: str) -> None:
    """However a text is made: eight times as long takes about eight times as long, never sixty-four."""

    def seconds(size: int) -> float:
        text = HOSTILE[kind](size)
        return min(timed(text), timed(text), timed(text))

    def timed(text: str) -> float:
        started = time.thread_time()
        redactor.redact(text, cut=True)
        return time.thread_time() - started

    redactor = Redactor([ORDINARY, "x" * 4000 + "y"])
    assert seconds(800_000) < 24 * max(seconds(100_000), 0.001)
