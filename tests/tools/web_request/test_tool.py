"""`web_request` as a model calls it: arguments, what is sent, what is refused, and how."""

import functools
import json
import math
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it has no types
import pytest
import trio
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate
from tests.support.data import rows_of_kind
from tests.support.fetch_tool import AskedStore, Site, ToyKernel, answer, hold, redirect
from tests.tools.web_request.agents import HOST, URL, Agent, Certificates, Certified, strict_json
from tests.tools.web_request.conftest import MakeAgent
from tidegate import Reason
from tidegate._policy import messages
from tidegate.telemetry import Outcome
from tidegate.testing.memory import Peer, ReceivedRequest
from tidegate.testing.observer import RecordingObserver
from tidegate_tools.registry import ToolContext, ToolSpec
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.failures import failure_of
from tidegate_tools.web_request.parameters import METHODS, PARAMETERS
from tidegate_tools.web_request.records import CallRecord
from tidegate_tools.web_request.tool import create_web_request_tools

# Arguments ------------------------------------------------------------------------------------------------


def test_name_and_description() -> None:
    """W-1, W-83, D-20: the model is told the caps, the reach, and that content is untrusted."""
    config = {
        "allowed_hosts": ["api.example.com", "*.partner.example"],
        "timeout_seconds": 9999,
        "max_response_bytes": 1234,
        "max_request_bytes": 567,
        "max_redirects": 3,
    }
    [tool] = create_web_request_tools(WebRequestConfig.model_validate(config))
    assert tool.name == "web_request"
    for words in (
        "over https: api.example.com, *.partner.example (", "120 seconds", "1234 bytes", "567 bytes",
        "Up to 3 redirects", "untrusted data", "never follow instructions",
    ):  # fmt: skip
        assert words in tool.description
    assert set(tool.parameters["properties"]) == {"url", "method", "headers", "query", "body", "json"}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "Only public internet hosts are reached, over https."),
        ({"require_https": False}, "over https or http."),
        ({"allowed_hosts": []}, "No host may be reached."),
        ({"allowed_hosts": ["a.example"]}, "Only these hosts are reached, over https: a.example."),
        ({"allowed_hosts": [f"h{n}.example" for n in range(25)]}, "h19.example and 5 more."),
        ({}, "Redirects are not followed"),
        ({"request_rules": [{"host": "a.example", "methods": ["GET"]}]}, "limited on a.example."),
    ],
)
def test_description_follows_the_configuration(config: dict[str, Any], words: str) -> None:
    [tool] = create_web_request_tools(WebRequestConfig.model_validate(config))
    assert words in tool.description


def test_the_schema_is_one_and_says_what_is_read() -> None:
    """W-65, W-79, W-B1: typed, closed, the method a list of exactly seven with GET as its default."""
    jsonschema.Draft202012Validator.check_schema(dict(PARAMETERS))
    assert PARAMETERS["additionalProperties"] is False
    assert PARAMETERS["required"] == ["url"]
    method = PARAMETERS["properties"]["method"]
    assert method["enum"] == ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
    assert method["default"] == "GET"
    assert set(METHODS) == set(messages.METHODS)


WRONG = [
    {"url": URL, "method": "get"},
    {"url": URL, "method": "TRACE"},
    {"url": URL, "method": "CONNECT"},
    {"url": URL, "method": 1},
    {"url": URL, "method": ["GET"]},
    {"url": URL, "headers": "Accept: x"},
    {"url": URL, "headers": [["Accept", "x"]]},
    {"url": URL, "headers": {"Accept": 1}},
    {"url": URL, "headers": {"Accept": None}},
    {"url": URL, "query": "a=b"},
    {"url": URL, "query": {"a": 1}},
    {"url": URL, "query": {"a": ["b", "c"]}},
    {"url": URL, "body": {"_b64": "AA=="}},
    {"url": URL, "body": b"bytes"},
    {"url": URL, "timeout": 5},
    {"url": URL, "max_response_bytes": 5},
    {"url": URL, "follow_redirects": True},
    {"url": 5},
    {"url": None},
    {},
]


@pytest.mark.parametrize("args", WRONG, ids=str)
async def test_arguments_that_the_schema_refuses(args: dict[str, Any], agent: MakeAgent) -> None:
    """W-79, W-80, W-83, W-151, D-13: refused as an error object, before anything is looked up."""
    mine = agent(Site())
    result = await mine.tool.call(args, ToolContext())
    error = strict_json(str(result.value))
    assert (error["outcome"], error["reason"]) == ("invalid", "invalid_argument")
    assert result.error is not None
    assert result.error.slug == "invalid_args"
    assert mine.reached_nobody()
    printable = {**args, "body": "x"} if isinstance(args.get("body"), bytes) else args
    if printable is args:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(args, dict(PARAMETERS))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"methd": "GET"}, "Did you mean 'method'?"),
        (
            {"method": "get"},
            "method must be one of GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS, in capitals.",
        ),
        ({"headers": {"Accept": 5}}, "headers['Accept'] must be a string, not the integer 5."),
        ({"query": {"token": 5}}, "every value of query must be a string, not the integer 5."),
        ({"body": "x", "json": None}, "body and json exclude each other"),
        ({"json": math.nan}, "json must be a JSON value"),
        ({"json": {"a": {1, 2}}}, "json must be a JSON value"),
        ({"json": "\ud800"}, "json holds half a character"),
        ({"body": "\ud800"}, "body holds half a character"),
    ],
)
async def test_what_is_wrong_is_said(args: dict[str, Any], says: str, agent: MakeAgent) -> None:
    assert says in (await agent(Site()).error(URL, **args))["error"]


@pytest.mark.parametrize("args", [None, [], "x", 5, [URL]])
async def test_arguments_that_are_no_object(args: Any, agent: MakeAgent) -> None:
    """D-13: the tool itself never raises."""
    result = await agent(Site()).tool.call(args, ToolContext())
    assert strict_json(str(result.value))["reason"] == "invalid_argument"


async def test_null_is_absent_but_for_json(agent: MakeAgent) -> None:
    """AMB-70: models fill in what they leave out; of json an explicit null is a value."""
    site = Site()
    mine = agent(site)
    await mine.get(URL, method=None, headers=None, query=None, body=None)
    assert (site.requests[0].line, site.requests[0].content) == ("GET / HTTP/1.1", b"")
    await mine.get(URL, method="POST", json=None, body=None)
    assert site.requests[1].content == b"null"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@functools.cache
def going_nowhere() -> ToolSpec:
    [tool] = create_web_request_tools(WebRequestConfig(allowed_hosts=()))
    return tool


@given(args=JSON_VALUES | st.dictionaries(st.sampled_from([*PARAMETERS["properties"], "x"]), JSON_VALUES))
@settings(max_examples=150, deadline=None)
async def test_whatever_the_arguments(args: Any) -> None:
    """W-84, D-13: the answer to anything at all is strict JSON, and says that it is an error."""
    result = await going_nowhere().call(args, ToolContext())
    assert strict_json(str(result.value))["outcome"] in {"invalid", "blocked"}


# What is sent ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
async def test_methods(method: str, agent: MakeAgent) -> None:
    """W-2, W-79."""
    site = Site(default=answer(b""))
    await agent(site).get(URL, method=method)
    assert site.requests[0].line == f"{method} / HTTP/1.1"


@pytest.mark.parametrize(
    ("url", "query", "target"),
    [
        (URL, {"a": "1", "b": "2"}, "/?a=1&b=2"),
        (f"{URL}x?z=%20&a", {"q": "ü &=+#/"}, "/x?z=%20&a&q=%C3%BC+%26%3D%2B%23%2F"),
        (f"{URL}x?", {"a": ""}, "/x?a="),
        (f"{URL}x#part", {"a": "1"}, "/x?a=1"),
        (f"{URL}x?a=1", {}, "/x?a=1"),
    ],
)
async def test_query(url: str, query: dict[str, str], target: str, agent: MakeAgent) -> None:
    """W-82, AMB-73: appended in order, form-encoded; the URL's own query stays as it is."""
    site = Site()
    await agent(site).get(url, query=query)
    assert site.requests[0].line == f"GET {target} HTTP/1.1"


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ({"a": [1, None, "ü"]}, '{"a": [1, null, "ü"]}'),
        (None, "null"),
        (False, "false"),
        ("text", '"text"'),
        ([], "[]"),
        (0, "0"),
    ],
)
async def test_json(value: Any, sent: str, agent: MakeAgent) -> None:
    """W-80, W-81, AMB-70, AMB-71: any value, as UTF-8, with one Content-Type of ours."""
    site = Site()
    await agent(site).get(URL, method="POST", json=value, headers={"content-type": "text/plain", "X-A": "1"})
    [request] = site.requests
    assert request.content == sent.encode()
    assert [value for name, value in request.fields if name.lower() == "content-type"] == ["application/json"]
    assert request.field("X-A") == "1"


@pytest.mark.parametrize(
    ("args", "content_type"),
    [
        ({"body": "x"}, "application/octet-stream"),
        ({"body": "x", "headers": {"CONTENT-TYPE": "text/csv"}}, "text/csv"),
        ({"body": ""}, None),
        ({}, None),
        ({"headers": {"Content-Type": "text/csv"}}, "text/csv"),
    ],
)
async def test_type_of_body(args: dict[str, Any], content_type: str | None, agent: MakeAgent) -> None:
    """AMB-72."""
    site = Site()
    await agent(site).get(URL, method="POST", **args)
    assert site.requests[0].field("content-type") == content_type


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS"])
async def test_body_with_any_method(method: str, agent: MakeAgent) -> None:
    """AMB-74: sent, with its length."""
    site = Site(default=answer(b""))
    await agent(site).get(URL, method=method, body="ünïcode")
    [request] = site.requests
    assert request.content == "ünïcode".encode()
    assert request.field("content-length") == "9"


async def test_a_header_of_the_model_is_sent(agent: MakeAgent) -> None:
    """W-15: its own credentials, too."""
    site = Site()
    mine = {"Authorization": "Bearer mine", "Cookie": "a=b", "Accept": "text/html", "X-Tab": "a\tb"}
    await agent(site).get(URL, headers=mine)
    assert mine == {name: site.requests[0].field(name) for name in mine}


NINE = [
    "Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "TE", "Trailer",
    "Proxy-Authorization", "Proxy-Connection",
]  # fmt: skip
REST = ["Keep-Alive", "Expect", "HTTP2-Settings", "Proxy-Authenticate", "Proxy-Features"]


@pytest.mark.parametrize("name", [*NINE, *REST, "Accept-Encoding"])
@pytest.mark.parametrize(
    "spelling", [str, str.upper, str.lower, str.swapcase, lambda name: name.replace("-", "_")]
)
async def test_dropped_headers(name: str, spelling: Any, agent: MakeAgent) -> None:
    """W-126, W-41, W-C11, D-26, D-3, AMB-86: without a word, any case, underscores too; others pass."""
    site = Site()
    await agent(site).get(URL, headers={spelling(name): "from the model", "X-Other": "passes"})
    [request] = site.requests
    assert "from the model" not in [value for _, value in request.fields]
    assert request.field("X-Other") == "passes"
    assert request.field("Host") == HOST


async def test_accept_encoding_is_the_engines(agent: MakeAgent) -> None:
    """D-3: what is offered is what can be decoded in bounded memory."""
    site = Site()
    await agent(site).get(URL, headers={"accept-encoding": "x-unknown"})
    assert site.requests[0].field("accept-encoding") == "gzip, deflate, br, zstd"


@pytest.mark.parametrize(
    "headers",
    [
        {"X-A": "a\r\nX-B: b"}, {"X-A": "a\nb"}, {"X-A": "a\rb"}, {"X-A": "a\0b"}, {"X-A": "ü"},
        {"X-A": " a"}, {"X-A\r\nX-B": "b"}, {"": "a"}, {"X A": "a"}, {"X-A:": "a"}, {"Content-Length ": "5"},
        {"X-A": "a", "x-a": "b"}, {"X-A": "a" * 8193},
    ],
)  # fmt: skip
async def test_headers_that_cannot_be_sent(headers: dict[str, str], agent: MakeAgent) -> None:
    """AMB-87, cross-cutting 8: an error result, counted, and nothing on the wire."""
    mine = agent(Site())
    assert await mine.refusal(URL, headers=headers) == ("invalid", "invalid_field")
    assert mine.reached_nobody()
    assert [record.outcome for record in mine.records] == [Outcome.INVALID]


async def test_framing_from_the_model_never_reaches_the_wire(agent: MakeAgent) -> None:
    """Cross-cutting 9: whatever is asked for, there is one length and no Transfer-Encoding."""
    site = Site()
    headers = {"Transfer-Encoding": "chunked", "transfer_encoding": "chunked", "Content-Length": "0"}
    await agent(site).get(URL, method="POST", headers=headers, body="0\r\n\r\nGET / HTTP/1.1\r\n\r\n")
    [request] = site.requests
    assert [name for name, _ in request.fields if "transfer" in name.lower()] == []
    assert [value for name, value in request.fields if name.lower() == "content-length"] == ["23"]


# What the corpus says of both tools and a later decision settles for this one.
DECIDED = {
    "request-header-042": "drop",  # D-26: underscore spellings are dropped
    "request-header-043": "drop",
}


@pytest.mark.parametrize("row", rows_of_kind("request-header"), ids=lambda row: row["id"])
async def test_request_header_rows(row: dict[str, Any], agent: MakeAgent) -> None:
    """W-126, AMB-86, AMB-87: every row of the URL corpus about request fields."""
    site = Site()
    mine = agent(site)
    result = await mine.call(URL, headers=dict(map(tuple, row["headers"])))
    expected = DECIDED.get(row["id"], row["web_request"])
    assert result.ok is (expected != "error"), (row["why"], result.value)
    if expected == "error":
        assert mine.reached_nobody()
        return
    sent = dict(site.requests[0].fields)
    for name, value in row["headers"]:
        assert (sent.get(name) == value) is (expected == "allow")


@pytest.mark.parametrize("row", rows_of_kind("method"), ids=lambda row: row["id"])
async def test_method_rows(row: dict[str, Any], agent: MakeAgent) -> None:
    mine = agent(Site())
    result = await mine.call(URL, method=row["input"])
    assert result.ok is (row.get("web_request", row["expect"]) == "allow"), row["why"]
    assert result.ok or mine.reached_nobody()


# Rows about Fetch alone: this tool lets any method have content, and a body is a text.
OF_FETCH = {"request-body-001": True, "request-body-004": False}


@pytest.mark.parametrize("row", rows_of_kind("request-body"), ids=lambda row: row["id"])
async def test_request_body_rows(row: dict[str, Any], agent: MakeAgent) -> None:
    site = Site()
    args = json.loads(row["input"])
    if args["body"] == "a*1000001":
        args["body"] = "a" * 1_000_001
    result = await agent(site).call(URL, **args)
    expected = OF_FETCH.get(row["id"], row.get("web_request", row["expect"]) == "allow")
    assert result.ok is expected, row["why"]
    if expected:
        [request] = site.requests
        assert request.content == args["body"].encode()
        assert request.field("content-length") == str(len(request.content))


@pytest.mark.parametrize(
    ("args", "size"),
    [({"body": "ü" * 50}, 100), ({"json": "x" * 98}, 100), ({"body": "a" * 100}, 100)],
)
async def test_size_of_a_request(args: dict[str, Any], size: int, agent: MakeAgent) -> None:
    """W-20, W-173, AMB-59, AMB-60: encoded bytes count; over the cap nothing is looked up, nothing is cut."""
    site = Site()
    await agent(site, max_request_bytes=size).get(URL, method="POST", **args)
    assert site.requests[0].field("content-length") == str(size)
    mine = agent(Site(), max_request_bytes=size - 1)
    error = await mine.error(URL, method="POST", **args)
    assert (error["outcome"], error["reason"]) == ("invalid", "request_too_large")
    assert f"{size} bytes" in error["error"]
    assert "(max_request_bytes)" in error["error"]
    assert mine.reached_nobody()


async def test_size_of_a_request_by_default_and_at_most(agent: MakeAgent) -> None:
    """W-77, W-173, W-174: a million bytes, ten at most whatever the operator asks for."""
    mine, most = agent(Site(default=answer(b""))), agent(Site(), max_request_bytes=99_999_999)
    assert (await mine.call(URL, method="POST", body="a" * 1_000_000)).ok
    for one, size in ((mine, 1_000_001), (most, 10_000_001)):
        assert await one.refusal(URL, method="POST", body="a" * size) == ("invalid", "request_too_large")


# How it ends ----------------------------------------------------------------------------------------------


def test_every_reason_has_an_outcome_and_a_sentence() -> None:
    """D-13, table A2: one place for all of them."""
    blocked, others = set(), {}
    for reason in Reason:
        error = tidegate.HostDenied("the engine's sentence", reason=reason, phase=tidegate.Phase.CHECK)
        failure = failure_of(error, timeout=30)
        assert failure.sentence.endswith(".")
        assert strict_json(failure.value)["reason"] == reason.value
        if failure.outcome is Outcome.BLOCKED:
            blocked.add(reason)
            assert failure.info.slug == "net_denied"
        else:
            others[reason] = failure.outcome
    assert {reason for reason, outcome in others.items() if outcome is Outcome.INVALID} == {
        Reason.INVALID_FIELD, Reason.INVALID_ARGUMENT, Reason.REQUEST_TOO_LARGE,
    }  # fmt: skip
    assert {reason for reason, outcome in others.items() if outcome is Outcome.TIMEOUT} == {Reason.TIMEOUT}
    assert Reason.DNS_RESOLUTION_FAILED in others  # never shown as a block
    assert {Reason.MALFORMED_URL, Reason.IMDS, Reason.SELF, Reason.NOT_GRANTED} <= blocked


@pytest.mark.parametrize(
    ("config", "args", "says"),
    [
        ({"allowed_hosts": ["b.example"]}, {}, "allowed_hosts"),
        ({"request_rules": [{"host": HOST, "methods": ["POST"]}]}, {}, "request_rules"),
    ],
)
async def test_the_sentence_names_the_setting(
    config: dict[str, Any], args: dict[str, Any], says: str, agent: MakeAgent
) -> None:
    """D-13, W-50."""
    error = await agent(Site(), **config).error(URL, **args)
    assert error["outcome"] == "blocked"
    assert says in error["error"]
    assert HOST not in error["error"]


async def test_request_rules(agent: MakeAgent) -> None:
    """W-50: an allow list of methods and paths on one host; other hosts are not touched by it."""
    site = Site()
    mine = agent(site, request_rules=[{"host": HOST, "methods": ["GET"], "paths": ["/v1/*"]}])
    await mine.get(f"{URL}v1/users")
    await mine.get("https://other.example/x", method="POST")
    for url, method in ((f"{URL}v1/users", "POST"), (f"{URL}v2/users", "GET"), (f"{URL}v1/../x", "GET")):
        assert await mine.refusal(url, method=method) == ("blocked", "request_not_allowed")
    assert len(site.requests) == 2


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("api.example.com/x", "malformed_url"),
        ("", "invalid_argument"),
        ("https://", "malformed_url"),
        ("https:///x", "malformed_url"),
        ("https://user@api.example.com/", "userinfo_not_allowed"),
        ("https://user:pass@api.example.com/", "userinfo_not_allowed"),
        ("https://@api.example.com/", "userinfo_not_allowed"),
        ("https://api.example.com:0/", "invalid_port"),
        ("https://api.example.com:65536/", "invalid_port"),
        ("https://api.example.com:x/", "invalid_port"),
        ("ftp://api.example.com/", "unsupported_scheme"),
        ("file:///etc/passwd", "unsupported_scheme"),
        ("http://api.example.com/", "https_required"),
        ("https://api.example.com:22/", "blocked_port"),
        ("https://api.example.com../", "malformed_url"),
    ],
)
async def test_urls(url: str, reason: str, agent: MakeAgent) -> None:
    """W-33, W-97..W-100, W-102, W-128, D-11: each refused, with its reason, before DNS."""
    mine = agent(Site())
    assert (await mine.refusal(url))[1] == reason
    assert mine.reached_nobody()


async def test_any_port_of_a_listed_host(agent: MakeAgent) -> None:
    """W-127, W-C12, D-11: unless an agent came by the list under an open ceiling."""
    url = "https://api.example.com:22/"
    site = Site()
    await agent(site, allowed_hosts=[HOST]).get(url)
    assert site.requests[0].field("host") == "api.example.com:22"
    listed = agent(Site(), allowed_hosts=[HOST], options={"bad_ports_refused": True})
    assert await listed.refusal(url) == ("blocked", "blocked_port")
    await listed.get("https://api.example.com:8443/")


async def test_http_if_it_is_let(agent: MakeAgent) -> None:
    """W-19, W-39, W-128, W-156, W-C4."""
    site = Site()
    await agent(site, require_https=False).get("http://api.example.com/")
    assert site.urls == ["http://api.example.com/"]


async def fails(peer: Peer) -> None:
    await peer.receive_request()


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"", "connection_lost"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "protocol_error"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "incomplete_content"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", "incomplete_content"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n", "protocol_error"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"a" * 300_000 + b"\r\n\r\n", "message_too_large"),
    ],
)
async def test_errors_of_the_network(sent: bytes, reason: str, agent: MakeAgent) -> None:
    """AMB-57, W-30: an error object, one attempt; a banner of another protocol is not repeated."""

    async def script(peer: Peer) -> None:
        await peer.receive_request()
        await peer.send(sent)

    mine = agent(script)
    error = await mine.error(URL)
    assert (error["outcome"], error["reason"]) == ("error", reason)
    assert "SSH" not in error["error"]
    assert len(mine.connector.connected) == 1


async def test_dns_failure_is_no_block(agent: MakeAgent) -> None:
    """Table A2, X-30."""
    mine = agent(Site(), options={"resolver": tidegate.StaticResolver({})})
    assert await mine.refusal(URL) == ("error", "dns_resolution_failed")


async def test_certificates_are_verified(nursery: trio.Nursery) -> None:
    """W-122, X-29: one of another authority is refused; the reason is told, the name in it is not."""
    mine = Agent(nursery, Site(), Certificates(trustme.CA()), {})
    error = await mine.error(URL)
    assert (error["outcome"], error["reason"]) == ("error", "tls_failed")
    assert HOST not in error["error"]


class Never:
    """A resolver that never answers."""

    async def resolve(self, host: str) -> Any:
        await trio.sleep_forever()


async def drip(peer: Peer, _: ReceivedRequest) -> None:
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        await trio.sleep(1)
        await peer.send(b"x")


async def drip_head(peer: Peer, _: ReceivedRequest) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 1000:
        await peer.send(bytes([byte]))
        await trio.sleep(1)


@pytest.mark.parametrize(
    ("page", "options", "doing"),
    [
        (hold, {}, "while waiting for the response"),
        (drip_head, {}, "while waiting for the response"),
        (drip, {}, "while receiving the content"),
        (hold, {"resolver": Never()}, "while resolving"),
    ],
)
async def test_one_deadline(
    page: Any, options: dict[str, Any], doing: str, agent: MakeAgent, autojump_clock: trio.testing.MockClock
) -> None:
    """W-76, W-171, AMB-80, D-16, cross-cutting 3: from the call to the last byte, DNS too, to the second."""
    mine = agent(Site(default=page), timeout_seconds=7, options=options)
    started = trio.current_time()
    error = await mine.error(URL)
    assert trio.current_time() - started == pytest.approx(7)
    assert (error["outcome"], error["reason"]) == ("timeout", "timeout")
    assert "7 seconds (timeout_seconds)" in error["error"]
    assert doing in error["error"]


@pytest.mark.parametrize(("asked", "holds"), [(None, 30), (9999, 120), (120.5, 120), (2.5, 2.5)])
async def test_deadline_and_its_ceiling(
    asked: float | None, holds: float, agent: MakeAgent, autojump_clock: trio.testing.MockClock
) -> None:
    """W-171, W-174: 30 s by default, 120 at most."""
    mine = agent(Site(default=hold), **({} if asked is None else {"timeout_seconds": asked}))
    started = trio.current_time()
    await mine.refusal(URL)
    assert trio.current_time() - started == pytest.approx(holds)


class SilentInTLS(Certified):
    """Peers that accept a connection and never say a word of TLS."""

    async def _play_over(self, target: Any, transport: Any) -> None:
        await trio.sleep_forever()


async def test_the_handshake_has_no_time_of_its_own(
    agent: MakeAgent,
    nursery: trio.Nursery,
    certificates: Certificates,
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Cross-cutting 3: TLS counts, too."""
    connector = SilentInTLS(nursery, Site(), certificates)
    error = await agent(Site(), timeout_seconds=7, options={"connector": connector}).error(URL)
    assert "in the TLS handshake" in error["error"]


async def test_deadline_spans_redirects(agent: MakeAgent, autojump_clock: trio.testing.MockClock) -> None:
    """D-16, cross-cutting 3: several slow hops do not each get a time of their own."""

    async def slow(peer: Peer, request: ReceivedRequest) -> None:
        await trio.sleep(4)
        await peer.send(redirect(f"/{request.line}x"[:40].replace(" ", "")))

    mine = agent(Site(default=slow), timeout_seconds=10, max_redirects=10)
    started = trio.current_time()
    assert (await mine.refusal(URL))[0] == "timeout"
    assert trio.current_time() - started == pytest.approx(10)


async def test_cancellation_passes_through(agent: MakeAgent, autojump_clock: trio.testing.MockClock) -> None:
    """A cancelled call gives no result, and leaves no connection; that it was made is recorded."""
    mine = agent(Site(default=hold))
    with trio.move_on_after(1) as scope:
        await mine.call(URL)
    assert scope.cancelled_caught
    with trio.fail_after(10):
        while mine.connector.open_connections:  # until the peer has noticed that we hung up
            await trio.lowlevel.checkpoint()
    [record] = mine.records
    assert (record.method, record.host, record.path, record.duration) == ("GET", HOST, "/", 1)
    assert (record.outcome, record.reason, record.status) == (Outcome.CANCELLED, None, None)


async def test_a_defect_is_told_without_its_text(agent: MakeAgent, caplog: pytest.LogCaptureFixture) -> None:
    """D-13: even what nobody foresaw is an error object, and its text stays here."""

    class Broken(ToolContext):
        @property
        def kernel(self) -> Any:
            raise ZeroDivisionError("sk-live-0123456789")

    mine = agent(Site())
    result = await mine.tool.call({"url": URL}, object.__new__(Broken))
    assert strict_json(str(result.value))["reason"] == "internal_error"
    assert "ZeroDivisionError" in caplog.text
    assert "sk-live" not in f"{result!r} {result.value} {caplog.text}"
    assert [record.outcome for record in mine.records] == [Outcome.ERROR]


async def test_nothing_is_streamed(agent: MakeAgent) -> None:
    """W-31, W-54, W-H3: one answer a call, whatever the host could show meanwhile."""
    chunks: list[dict[str, Any]] = []
    mine = agent(Site(default=answer(b"x" * 100_000)))
    assert (await mine.tool.call({"url": URL}, ToolContext(on_chunk=chunks.append))).ok
    assert chunks == []


async def test_grants_of_a_kernel_hold_too(agent: MakeAgent) -> None:
    """Table A2 (not_granted): where there are net grants, they are asked on every hop, before DNS."""
    site = Site({URL: redirect("https://b.example/")})
    mine = agent(site, max_redirects=2)
    store = AskedStore([HOST])
    result = await mine.tool.call({"url": URL}, ToolContext(7, ToyKernel(store)))
    assert strict_json(str(result.value))["reason"] == "not_granted"
    assert store.asked == [HOST, "b.example"]
    assert mine.resolver.asked == [HOST]


# The record of a call -------------------------------------------------------------------------------------


async def test_records(agent: MakeAgent, autojump_clock: trio.testing.MockClock) -> None:
    """W-F2, W-F3: one record a call with what telemetry may know, and nothing else."""

    async def slow(peer: Peer, _: ReceivedRequest) -> None:
        await trio.sleep(2)
        await peer.respond(b"12345")

    site = Site({f"{URL}a?q=secret-query": slow, f"{URL}b": redirect("/a?q=secret-query")})
    mine = agent(site, max_redirects=1, max_response_bytes=3, options={"agent": "crm"})
    await mine.get(
        f"{URL}b#secret-fragment", headers={"X-A": "secret-field"}, method="POST", body="secret-body"
    )
    await mine.refusal("https://10.0.0.1/p?secret-query")
    await mine.refusal("nonsense")
    assert mine.records == [
        CallRecord(
            agent="crm", method="POST", host=HOST, path="/b", status=200, duration=2.0, response_bytes=3,
            body_truncated=True, redirect_count=1, outcome=Outcome.SUCCESS, reason=None,
        ),
        CallRecord(
            agent="crm", method="GET", host="10.0.0.1", path="/p", status=None, duration=0.0,
            response_bytes=None, body_truncated=False, redirect_count=0, outcome=Outcome.BLOCKED,
            reason="private",
        ),
        CallRecord(
            agent="crm", method=None, host=None, path=None, status=None, duration=0.0, response_bytes=None,
            body_truncated=False, redirect_count=0, outcome=Outcome.BLOCKED, reason="malformed_url",
        ),
    ]  # fmt: skip
    assert "secret" not in repr(mine.records)


async def test_a_record_that_is_lost_changes_nothing(agent: MakeAgent) -> None:
    """W-11: telemetry can neither stop a call nor change it."""

    def broken(_: CallRecord) -> None:
        raise OSError("disk full")

    assert (await agent(Site(), options={"record": broken}).get(URL))["status"] == 200
    assert (await agent(Site(), options={"record": None}).get(URL))["status"] == 200


async def test_an_observer_hears_of_every_step(agent: MakeAgent) -> None:
    observer = RecordingObserver()
    await agent(Site(), options={"observer": observer}).get(URL)
    assert isinstance(observer.events[0], tidegate.FetchStarted)
    assert isinstance(observer.events[-1], tidegate.FetchFinished)


SECRETS = ("query-secret", "user-secret", "fragment-secret")


@pytest.mark.parametrize(
    "url",
    [
        f"{URL}a?token=query-secret#fragment-secret",
        "https://user-secret:x@api.example.com/?token=query-secret",
        "http://api.example.com/?token=query-secret#fragment-secret",
        "https://10.0.0.1/?token=query-secret#fragment-secret",
        "https://api.example.com:99999/?token=query-secret",
        "https://api.example.com\\?token=query-secret",
        "query-secret",
        f"{URL}?\0query-secret",
    ],
)
async def test_nothing_of_a_url_leaks(url: str, agent: MakeAgent, caplog: pytest.LogCaptureFixture) -> None:
    """W-90, W-22, cross-cutting 10: query, userinfo and fragment stand in no result, error, record or log."""
    caplog.set_level("DEBUG")
    mine = agent(Site(default=answer(b"ok")))
    result = await mine.call(url)
    out = f"{result!r} {result.to_json()} {mine.records!r} {caplog.text}"
    assert [secret for secret in SECRETS if secret in out] == []
