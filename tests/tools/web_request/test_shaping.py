"""The result of `web_request`: its keys, what it leaves out, and how content becomes a value or a text."""

import gzip
import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it has no types
import pytest
import trio

from tests.support.data import rows_of_kind
from tests.support.fetch_tool import Site, answer
from tests.tools.web_request.agents import URL
from tests.tools.web_request.conftest import MakeAgent
from tidegate.testing.memory import Peer, ReceivedRequest
from tidegate_tools.web_request.shaping import RESULT

KEYS = [
    "status", "url", "content_type", "redirect_count", "response_headers", "body", "body_truncated",
    "body_omitted_reason",
]  # fmt: skip


async def result_of(
    agent: MakeAgent, content: bytes = b"", *fields: str, status: str = "200 OK", **config: Any
) -> dict[str, Any]:
    """The result of one call that is answered like this."""
    args = config.pop("args", {})
    return await agent(Site(default=answer(content, status, *fields)), **config).get(URL, **args)


# Keys -----------------------------------------------------------------------------------------------------


async def test_keys(agent: MakeAgent) -> None:
    """W-3, W-16, W-84, W-85, W-96, W-B2: exactly these, in the order of the spec."""
    result = await result_of(agent, b"text", "Content-Type: text/plain")
    assert list(result) == KEYS
    assert result == {
        "status": 200,
        "url": URL,
        "content_type": "text/plain",
        "redirect_count": 0,
        "response_headers": {"Content-Type": "text/plain", "Content-Length": "4"},
        "body": "text",
        "body_truncated": False,
        "body_omitted_reason": None,
    }


async def test_results_follow_their_schema(agent: MakeAgent) -> None:
    """Success and failure, and neither of them mixed with the other."""
    jsonschema.Draft202012Validator.check_schema(RESULT)
    for content_type in ("text/plain", "image/png", "application/json"):
        jsonschema.validate(await result_of(agent, b"{}", f"Content-Type: {content_type}"), RESULT)
    jsonschema.validate(await agent(Site(), allowed_hosts=[]).error(URL), RESULT)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"status": 200}, RESULT)


@pytest.mark.parametrize("status", ["200 OK", "201 Created", "404 Not Found", "503 Service Unavailable"])
async def test_any_status_is_a_result(status: str, agent: MakeAgent) -> None:
    """Section C: 4xx and 5xx are successes of the tool."""
    assert (await result_of(agent, b"x", status=status))["status"] == int(status[:3])


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("https://api.example.com/a?token=secret#part", "https://api.example.com/a"),
        ("https://API.example.com:443", "https://api.example.com/"),
        ("https://api.example.com.:8443/a%20b/../%41", "https://api.example.com:8443/%41"),
        ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
    ],
)
async def test_url(asked: str, shown: str, agent: MakeAgent) -> None:
    """W-90, AMB-55, AMB-56: as it was sent, without query, userinfo and fragment."""
    assert (await agent(Site()).get(asked))["url"] == shown


# Fields ---------------------------------------------------------------------------------------------------

HIDDEN = [
    "Set-Cookie", "Authorization", "Proxy-Authorization", "WWW-Authenticate", "Proxy-Authenticate", "Cookie",
    "Set-Cookie2", "Authentication-Info", "Proxy-Authentication-Info",
    "Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Upgrade",
]  # fmt: skip


@pytest.mark.parametrize("name", HIDDEN)
async def test_hidden_fields(name: str, agent: MakeAgent) -> None:
    """W-41, W-87, W-88, W-F4, AMB-52: whatever the case, and with underscores, as some servers echo them."""
    spellings = [name, name.upper(), name.lower(), name.replace("-", "_")]
    result = await result_of(agent, b"", *(f"{spelling}: value" for spelling in spellings), "X-Other: stays")
    assert set(result["response_headers"]) == {"X-Other", "Content-Length"}


async def test_what_connection_names_is_hidden(agent: MakeAgent) -> None:
    """W-88: Connection itself, and what it names; Transfer-Encoding, too."""
    lines = [
        *("HTTP/1.1 200 OK", "Connection: close, X-Mine", "connection: x-Yours", "X-Mine: 1", "x-yours: 2"),
        *("X-A: 3", "Transfer-Encoding: chunked", "", "2", "ok", "0", "X-Trailer: 4", "", ""),
    ]
    site = Site(default="\r\n".join(lines).encode())
    assert (await agent(site).get(URL))["response_headers"] == {"X-A": "3"}


async def test_repeated_fields(agent: MakeAgent) -> None:
    """AMB-53: joined under the spelling of the first one."""
    result = await result_of(agent, b"", "X-List: a", "x-LIST: b", "X-list: c, d")
    assert result["response_headers"]["X-List"] == "a, b, c, d"
    assert len(result["response_headers"]) == 2


async def test_control_characters_in_fields(agent: MakeAgent) -> None:
    """response-limits-022: what could drive a terminal is replaced."""
    head = b"HTTP/1.1 200 OK\r\nX-A: a\x1b[31mred\xc2\x9b1m\tb\r\nContent-Length: 0\r\n\r\n"
    result = await agent(Site(default=head)).get(URL)
    assert result["response_headers"]["X-A"] == "a\ufffd[31mred\ufffd1m\tb"


@pytest.mark.parametrize(
    ("fields", "content_type"),
    [
        ((), None),
        (("Content-Type: application/json; charset=utf-8",), "application/json"),
        (("Content-Type: Text/HTML",), "text/html"),
        (("Content-Type: nonsense",), None),
        (("Content-Type: text/html", "Content-Type: application/json"), "application/json"),
    ],
)
async def test_content_type(fields: tuple[str, ...], content_type: str | None, agent: MakeAgent) -> None:
    assert (await result_of(agent, b"x", *fields))["content_type"] == content_type


# Content --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b'{"a": [1, 2.5, null, true, "\xc3\xbc"]}', {"a": [1, 2.5, None, True, "ü"]}),
        (b" [1]\n", [1]),
        (b"null", None),
        (b'"text"', "text"),
        (b"\xef\xbb\xbf{}", {}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "application/problem+json", "text/json"])
async def test_json_is_parsed(content: bytes, value: Any, content_type: str, agent: MakeAgent) -> None:
    """W-86, W-B3, AMB-67."""
    result = await result_of(agent, content, f"Content-Type: {content_type}")
    assert (result["body"], result["body_omitted_reason"]) == (value, None)


@pytest.mark.parametrize(
    "content",
    [
        b"{", b"NaN", b"[Infinity]", b"1e999", b"{'a': 1}", b'"\\ud800"', b"[" * 100_000, b"1" * 5000,
        b"[1] [2]", b"undefined",
    ],
)  # fmt: skip
async def test_json_that_is_none_is_text(content: bytes, agent: MakeAgent) -> None:
    """W-84, W-86, AMB-67, cross-cutting 12: as it came; the result is strict JSON all the same."""
    result = await result_of(agent, content, "Content-Type: application/json")
    assert result["body"] == content.decode()
    assert result["content_type"] == "application/json"


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "image/png", None])
@pytest.mark.parametrize("status", ["200 OK", "204 No Content", "304 Not Modified"])
async def test_nothing_is_an_empty_text(content_type: str | None, status: str, agent: MakeAgent) -> None:
    """AMB-67, AMB-69: null is a JSON value, or says that something was left out."""
    fields = [f"Content-Type: {content_type}"] if content_type else []
    result = await result_of(agent, b"", *fields, status=status)
    assert (result["body"], result["body_omitted_reason"], result["body_truncated"]) == ("", None, False)


@pytest.mark.parametrize(
    ("content_type", "content", "text"),
    [
        ("text/html; charset=gbk", "中文".encode("gbk"), "中文"),
        ("text/plain; charset=utf-16", "x".encode("utf-16"), "x"),
        ("text/plain; charset=ISO-8859-1", b"\xfc", "ü"),
        ("text/plain", b"\xc3\xbc", "ü"),
        ("text/plain", b"a\xffb", "a\ufffdb"),
        ("text/plain; charset=utf-7", b"+ADw-", "+ADw-"),
        ("text/plain; charset=no-such", b"\xc3\xbc", "ü"),
        ("text/html", b"<meta charset=shift_jis>\x83\x65", "<meta charset=shift_jis>\u30c6"),
        ("application/x-www-form-urlencoded", b"a=b", "a=b"),
        ("image/svg+xml", b"<svg/>", "<svg/>"),
        ("application/json; charset=latin1", b'"\xfc"', "ü"),
        (None, b"plain", "plain"),
        (None, "ünï".encode(), "ünï"),
    ],
)
async def test_text(content_type: str | None, content: bytes, text: str, agent: MakeAgent) -> None:
    """W-86, AMB-65, AMB-66: the declared charset if the web knows it, else UTF-8 with replacement."""
    fields = [f"Content-Type: {content_type}"] if content_type else []
    assert (await result_of(agent, content, *fields))["body"] == text


@pytest.mark.parametrize(
    ("fields", "content", "shown"),
    [
        (("Content-Type: image/png",), b"\x89PNG", "image/png"),
        (("Content-Type: application/octet-stream",), b"text really", "application/octet-stream"),
        ((), b"a\0b", None),
        ((), b"\xff\xfe\xfd", None),
        ((), b"<meta charset=shift_jis>\x83\x65", None),
        (("Content-Type: text/html", "Content-Encoding: x-unknown"), b"coded", "text/html"),
    ],
)
async def test_binary(fields: tuple[str, ...], content: bytes, shown: str | None, agent: MakeAgent) -> None:
    """W-92, W-B5, AMB-64, AMB-65: left out, with its type and size; what is coded, too (D-3)."""
    result = await result_of(agent, content, *fields)
    assert list(result) == [*KEYS, "response_bytes"]
    assert (result["body"], result["body_omitted_reason"]) == (None, "binary")
    assert (result["content_type"], result["response_bytes"]) == (shown, len(content))


async def test_binary_that_is_cut(agent: MakeAgent) -> None:
    """AMB-63: the bytes that were read, at most the cap."""
    result = await result_of(agent, b"\0" * 100, "Content-Type: image/png", max_response_bytes=10)
    assert (result["body_truncated"], result["response_bytes"]) == (True, 10)


@pytest.mark.parametrize("content_type", ["application/json", "image/png", "text/plain"])
async def test_head(content_type: str, agent: MakeAgent) -> None:
    """W-93, AMB-68: "head" wins over "binary", and nothing is missing from it."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: 999999999\r\n\r\n".encode()
    result = await agent(Site(default=head)).get(URL, method="HEAD")
    assert (result["body"], result["body_omitted_reason"]) == (None, "head")
    assert (result["content_type"], result["body_truncated"]) == (content_type, False)
    assert "response_bytes" not in result


@pytest.mark.parametrize(("size", "cut"), [(9, False), (10, False), (11, True), (10_000, True)])
async def test_cap(size: int, cut: bool, agent: MakeAgent) -> None:
    """W-20, W-94, AMB-62: more than the cap is cut and flagged, exactly the cap is not."""
    result = await result_of(agent, b"x" * size, "Content-Type: text/plain", max_response_bytes=10)
    assert (result["body"], result["body_truncated"]) == ("x" * min(size, 10), cut)


async def test_cap_by_default_and_at_most(agent: MakeAgent) -> None:
    """W-77, W-172, W-174: five million bytes, ten at most whatever the operator asks for."""

    async def endless(peer: Peer, _: ReceivedRequest) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            await peer.send(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")

    for config, cap in (({}, 5_000_000), ({"max_response_bytes": 99_999_999}, 10_000_000)):
        mine = agent(Site(default=endless), **config)
        result = await mine.get(URL)
        assert (len(result["body"]), result["body_truncated"]) == (cap, True)
        with trio.fail_after(10):
            while mine.connector.open_connections:  # until the peer has noticed that we hung up
                await trio.lowlevel.checkpoint()


async def test_json_that_is_cut_is_text(agent: MakeAgent) -> None:
    """W-95, W-B5, even if what is left is JSON."""
    result = await result_of(agent, b"[1]  ...", "Content-Type: application/json", max_response_bytes=4)
    assert (result["body"], result["body_truncated"]) == ("[1] ", True)


@pytest.mark.parametrize(("cap", "text"), [(1, "a"), (2, "a"), (3, "a"), (4, "a€"), (5, "a€b")])
async def test_cut_between_characters(cap: int, text: str, agent: MakeAgent) -> None:
    """Cross-cutting 11: a character that lost its end is left out, rather than replaced."""
    result = await result_of(agent, "a€bc".encode(), "Content-Type: text/plain", max_response_bytes=cap)
    assert (result["body"], result["body_truncated"]) == (text, True)


async def test_codings_are_undone(agent: MakeAgent) -> None:
    """D-3, D-4: decoded bytes count, and nothing tells of the coding; a bomb is cut."""
    coded = gzip.compress(b'{"a": 1}')
    result = await result_of(agent, coded, "Content-Type: application/json", "Content-Encoding: gzip")
    assert result["body"] == {"a": 1}
    assert set(result["response_headers"]) == {"Content-Type"}
    bomb = gzip.compress(b"x" * 100_000_000, 9)
    result = await result_of(agent, bomb, "Content-Type: text/plain", "Content-Encoding: gzip")
    assert (len(result["body"]), result["body_truncated"]) == (5_000_000, True)


@pytest.mark.parametrize(
    ("head", "content"),
    [
        (b"Content-Encoding: gzip\r\nContent-Length: 20\r\n", gzip.compress(b"text" * 10)[:20]),
        (b"", b"text"),
    ],
)
async def test_content_that_nothing_proves_whole(head: bytes, content: bytes, agent: MakeAgent) -> None:
    """D-5: a coding cut short, or no framing and no close_notify: delivered, and shown as truncated."""

    async def script(peer: Peer) -> None:
        await peer.receive_request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + head + b"\r\n" + content)
        peer.cut()

    result = await agent(script).get(URL)
    assert result["body_truncated"] is True
    assert isinstance(result["body"], str)


async def test_large_results_are_shaped_all_the_same(agent: MakeAgent) -> None:
    """Above a quarter of a megabyte a thread does it, so that other calls get on."""
    value = [{"number": number, "text": "ü" * 10} for number in range(20_000)]
    content = json.dumps(value).encode()
    assert len(content) > 256 * 1024
    assert (await result_of(agent, content, "Content-Type: application/json"))["body"] == value


# What each row of the corpus comes to here; in words, for they are scenarios in words.
LIMITS = {
    "response-limits-002": "test_one_deadline[drip_head]",
    "response-limits-004": "test_one_deadline[hold]",
    "response-limits-005": "test_cap",
    "response-limits-006": "test_cap",
    "response-limits-007": "test_cap_by_default_and_at_most",
    "response-limits-008": "test_head",
    "response-limits-010": "test_nothing_is_an_empty_text",
    "response-limits-012": "test_text",
    "response-limits-013": "test_binary",
    "response-limits-014": "test_text",
    "response-limits-015": "test_json_that_is_none_is_text",
    "response-limits-016": "test_json_that_is_none_is_text",
    "response-limits-017": "test_json_is_parsed, test_json_that_is_none_is_text",
    "response-limits-018": "test_binary",
    "response-limits-019": "test_no_cookie_of_a_hop_is_sent_on",
    "response-limits-020": "test_hidden_fields",
    "response-limits-022": "test_control_characters_in_fields",
}


def test_every_row_about_limits_and_shaping_has_a_test() -> None:
    """A row that is new in the corpus must be given one."""
    assert set(LIMITS) == {row["id"] for row in rows_of_kind("response-limits")}
