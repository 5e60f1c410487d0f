"""The arguments of `Fetch`: bounds, defaults, and what bad input gets, through `dispatch`."""

import base64
import json
import math
from types import MappingProxyType
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.data import rows_of_kind
from tests.support.engines import AnyHost
from tests.support.fetch_tool import Agent, AskedStore, Play, Site, ToyKernel, hold, system_tls
from tidegate.testing.memory import MemoryConnector
from tidegate_tools.fetch import make_fetch_tool
from tidegate_tools.registry import ToolContext, ToolResult

URL = "http://site.example/"
MIB = 1024 * 1024


def rows(kind: str) -> list[Any]:
    return [pytest.param(row, id=row["id"]) for row in rows_of_kind(kind)]


async def refused(nursery: trio.Nursery, **args: Any) -> str:
    """The message of a call whose arguments are wrong; nobody was asked, nothing was sent (F-61)."""
    store = AskedStore(["site.example"])
    agent = Agent(nursery, Site(), cap=store)
    response = await agent.dispatch({"url": URL, **args})
    assert (response["ok"], response["error"]) == (False, "invalid_args"), response
    assert store.asked == []
    assert agent.reached_nobody()
    message: str = response["message"]
    return message


# --- What there is, and what it means when it is absent ---------------------------------------------


async def test_the_name_and_the_arguments_of_the_tool() -> None:
    """F-36, F-37; D-20: the description says that content is untrusted, and what the limits are."""
    spec = make_fetch_tool()
    assert spec.name == "Fetch"
    assert [*spec.parameters["properties"]] == [
        *("url", "method", "headers", "cookies", "body", "max_bytes", "timeout_s"),
        *("follow_redirects", "max_redirects", "stream"),
    ]
    assert spec.parameters["required"] == ["url"]
    assert (spec.read_only, spec.idempotent, spec.open_world) == (False, False, True)
    for phrase in ("untrusted", "4 MiB", "16 MiB", "30 s", "120 s", "at most 5"):
        assert phrase in spec.description


def test_the_schemas_of_two_tools_are_not_one_object() -> None:
    """Adapters bend schemas to what their framework takes."""
    one, other = make_fetch_tool(), make_fetch_tool()
    one.parameters["properties"].clear()
    assert "url" in other.parameters["properties"]
    assert "url" in make_fetch_tool().parameters["properties"]


async def test_defaults(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """F-39, F-40, F-42, F-43, F-44; AMB-21: null is the same as absent."""
    big = b"HTTP/1.1 200 OK\r\nContent-Length: 4194305\r\n\r\n" + b"x" * 4194305
    pages: dict[str, bytes | Play] = {
        URL: b"HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n",
        URL + "big": big,
        URL + "hold": hold,
    }
    optional = dict.fromkeys(make_fetch_tool().parameters["properties"].keys() - {"url"})
    for absent in ({}, optional):
        site = Site(pages)
        agent = Agent(nursery, site)
        result = await agent.fetch(URL, **absent)
        assert (result["status"], result["redirects"], site.urls) == (302, [], [URL])
        assert site.requests[0].line == "GET / HTTP/1.1"
        assert [name for name, _ in site.requests[0].fields] == [
            "Host",
            "User-Agent",
            "Accept",
            "Accept-Encoding",
        ]
        assert (await agent.fetch(URL + "big", **absent))["body_bytes"] == 4194304
        started = trio.current_time()
        assert await agent.refusal(URL + "hold", **absent) == "tool_failed"
        assert trio.current_time() - started == pytest.approx(30)
        assert agent.chunks == []


async def test_an_argument_of_another_name(nursery: trio.Nursery) -> None:
    """AMB-22: refused, with the nearest name."""
    assert "'timeout'. Did you mean 'timeout_s'?" in await refused(nursery, timeout=3)
    assert "There is no argument 'verify'" in await refused(nursery, verify=False)


async def test_arguments_that_are_no_object(nursery: trio.Nursery) -> None:
    for args in (["url"], "url", 5):
        response = await Agent(nursery, Site()).dispatch(args)
        assert response["error"] == "invalid_args"
        call = make_fetch_tool().call
        result = await call(args, ToolContext())  # type: ignore[arg-type]
        assert result.error is not None
        assert result.error.slug == "invalid_args"


# --- url and method ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        *("", None, 5, True, ["http://site.example/"], "site.example", "//site.example/", "/path"),
        *("https://", "http:///x", "http://", "https://:443/", "localhost:3000", "http:site.example"),
        *("http://site.example:0/", "http://site.example:65536/", "http://site.example:x/", "http://[::1/"),
        *("http://user@site.example/", "http://user:secret@site.example/", "http://@site.example/"),
        *(
            "http://site example/",
            "http://site.example/\x00",
            "http://site.example/\r\nX: y",
            "http://exa%6dple/",
        ),
        "http://site.example/" + "x" * 16_384,
    ],
)
async def test_a_url_that_is_none(url: Any, nursery: trio.Nursery) -> None:
    """F-38, F-47, F-48, AMB-14: and the message keeps what may be secret to itself."""
    message = await refused(nursery, url=url)
    assert message.startswith("url")
    assert "secret" not in message


@pytest.mark.parametrize(
    "url",
    [
        *(
            "file:///etc/passwd",
            "gopher://site.example/",
            "ftp://site.example/",
            "data:text/html,x",
            "about:blank",
        ),
        *(
            "javascript:alert(1)",
            "ws://site.example/",
            "wss://site.example/",
            "HTTPX://site.example/",
            "unix:/run/x",
        ),
    ],
)
async def test_another_scheme(url: str, nursery: trio.Nursery) -> None:
    """F-26, F-46."""
    assert "neither https nor http" in await refused(nursery, url=url)


async def test_a_scheme_in_capitals(nursery: trio.Nursery) -> None:
    """F-46: case does not matter."""
    assert (await Agent(nursery, Site()).fetch("HTTP://SITE.example/"))["url"] == URL


@pytest.mark.parametrize("row", rows("method"))
async def test_method(row: dict[str, Any], nursery: trio.Nursery) -> None:
    """F-49; a method in lower case is folded (X-23)."""
    if row.get("fetch", row["expect"]) == "error":
        assert (await refused(nursery, method=row["input"])).startswith("method must be GET, HEAD or POST")
        return
    site = Site()
    await Agent(nursery, site).fetch(URL, method=row["input"])
    assert site.requests[0].line.split(" ")[0] == row["input"].upper()


@pytest.mark.parametrize("method", [5, True, ["GET"], {"GET": 1}, "", "poſt", " GET", "G" * 5000])
async def test_a_method_that_is_none(method: Any, nursery: trio.Nursery) -> None:
    """F-49. There are letters whose upper case is the S of POST."""
    message = await refused(nursery, method=method)
    assert message.startswith("method must be")
    assert len(message) < 200


# --- headers and cookies ----------------------------------------------------------------------------


@pytest.mark.parametrize("row", rows("request-header"))
async def test_request_field(row: dict[str, Any], nursery: trio.Nursery) -> None:
    """F-50 to F-53, AMB-3, AMB-4, AMB-5, D-26: an error here where `web_request` drops."""
    headers = dict(row["headers"])
    if row["fetch"] == "error":
        message = await refused(nursery, headers=headers)
        assert message.startswith("headers")
        return
    site = Site()
    await Agent(nursery, site).fetch(URL, headers=headers)
    for name, value in headers.items():
        assert site.requests[0].field(name) == value


@pytest.mark.parametrize(
    "headers",
    [
        *([], [["A", "b"]], "A: b", 5, True),
        *({"A": 1}, {"A": None}, {"A": ["b"]}, {"A": b"b"}, {1: "b"}, {None: "b"}),
        *(
            {"": "b"},
            {"A\x00": "b"},
            {"A": "\x00"},
            {"A": " b"},
            {"A": "b "},
            {"A": "\x7f"},
            {"A": "x" * 8193},
        ),
        {f"A{number}": "x" * 8000 for number in range(9)},
    ],
)
async def test_headers_that_are_none(headers: Any, nursery: trio.Nursery) -> None:
    """F-50, F-51, F-52."""
    assert "headers" in await refused(nursery, headers=headers)


async def test_a_refused_value_is_not_repeated(nursery: trio.Nursery) -> None:
    for headers in (
        {"Authorization": "Bearer secret\t"},
        {"Authorization": "Bearer sécret"},
        {"X": ["secret"]},
    ):
        assert "cret" not in await refused(nursery, headers=headers)
    assert "secret" not in await refused(nursery, cookies={"a": "secret;"})
    assert "c2VjcmV0" not in await refused(nursery, method="POST", body={"_b64": "c2VjcmV0!"})


async def test_what_the_caller_gave_is_left_alone(nursery: trio.Nursery) -> None:
    """F-97, AMB-11: stripping and folding happen on a copy."""
    args = {
        "headers": {"Authorization": "secret", "Cookie": "a=b", "Accept": "text/html"},
        "method": "get",
        "follow_redirects": True,
    }
    before = json.dumps(args)
    site = Site({URL: b"HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n"})
    await Agent(nursery, site).fetch(URL, **args)
    assert len(site.requests) == 2
    assert json.dumps(args) == before
    read_only = MappingProxyType({"url": URL, "headers": MappingProxyType({"Accept": "text/html"})})
    assert (await Agent(nursery, site).dispatch(read_only))["ok"]


async def test_cookies(nursery: trio.Nursery) -> None:
    """F-101, D-1: one field, in the order given, as browsers would send what a server once set."""
    site = Site()
    agent = Agent(nursery, site)
    values = {"session-id": "abc=", "prefs": '{"lang":"de", "n":1}', "empty": ""}
    await agent.fetch(URL, cookies=values, headers={"Accept": "text/html"})
    await agent.fetch(URL, cookies={})
    await agent.fetch(URL, headers={"Cookie": "a=b"}, cookies={})
    assert [request.field("cookie") for request in site.requests] == [
        'session-id=abc=; prefs={"lang":"de", "n":1}; empty=', None, "a=b",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "cookies",
    [
        *([], "a=b", 5, {"a": 1}, {"a": None}, {1: "b"}),
        *({"": "b"}, {"a b": "c"}, {"a;b": "c"}, {"a=b": "c"}, {"ä": "c"}, {"a\r\nX": "c"}),
        *({"a": "b;c"}, {"a": "b\r\nX: y"}, {"a": " b"}, {"a": "b "}, {"a": "ä"}, {"a": "\t"}, {"a": "\x00"}),
        {"a": "x" * 8191},
    ],
)
async def test_cookies_that_are_none(cookies: Any, nursery: trio.Nursery) -> None:
    assert "cookies" in await refused(nursery, cookies=cookies)


@pytest.mark.parametrize("name", ["Cookie", "cookie", "COOKIE"])
async def test_cookies_beside_a_cookie_field(name: str, nursery: trio.Nursery) -> None:
    assert "only one" in await refused(nursery, cookies={"a": "b"}, headers={name: "c=d"})


# --- body -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", rows("request-body"))
async def test_request_body(row: dict[str, Any], nursery: trio.Nursery) -> None:
    """F-41, F-54 to F-57."""
    args = json.loads(row["input"])
    if args["body"] == "a*1000001":
        args["body"] = "a" * 1_000_001
    if row.get("fetch", row["expect"]) == "error":
        await refused(nursery, **args)
        return
    site = Site()
    await Agent(nursery, site).fetch(URL, **args)
    body = args["body"]
    sent = base64.b64decode(body["_b64"]) if isinstance(body, dict) else body.encode()
    assert site.requests[0].content == sent
    assert site.requests[0].field("content-length") == str(len(sent))


@pytest.mark.parametrize("method", ["GET", "HEAD", None])
@pytest.mark.parametrize("body", ["", "x", {"_b64": ""}])
async def test_a_body_without_post(method: Any, body: Any, nursery: trio.Nursery) -> None:
    """F-54: the empty string, too."""
    assert (await refused(nursery, method=method, body=body)).startswith("body must be absent unless")


@pytest.mark.parametrize(
    "body",
    [
        *(5, True, [], ["x"], b"x", {}, {"b64": "AA=="}, {"_b64": "AA==", "more": 1}, {"_b64": 5}),
        *({"_b64": None}, {"_b64": "A"}, {"_b64": "AA="}, {"_b64": "AA==="}, {"_b64": "A A="}),
        *({"_b64": "AA==\n"}, {"_b64": "-_=="}, {"_b64": "AA==AA=="}, {"_b64": "ä"}, {"_b64": "\ud800"}),
        "half a character \ud800",
    ],
)  # fmt: skip
async def test_a_body_that_is_none(body: Any, nursery: trio.Nursery) -> None:
    """F-56."""
    assert (await refused(nursery, method="POST", body=body)).startswith("body")


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        ("x" * MIB, True),
        ("x" * (MIB + 1), False),
        ("ä" * (MIB // 2), True),
        ("ä" * (MIB // 2) + "x", False),
        ({"_b64": base64.b64encode(b"x" * MIB).decode()}, True),
        ({"_b64": base64.b64encode(b"x" * (MIB + 1)).decode()}, False),
        ({"_b64": "A" * (64 * MIB)}, False),
    ],
    ids=["text", "text+1", "umlauts", "umlauts+1", "base64", "base64+1", "base64, very long"],
)
async def test_the_size_of_a_body(body: Any, fits: bool, nursery: trio.Nursery) -> None:
    """F-57, AMB-20: 1 MiB after encoding or decoding, and not a byte more."""
    if not fits:
        assert "1048576" in await refused(nursery, method="POST", body=body)
        return
    site = Site(default=b"HTTP/1.1 204 No Content\r\n\r\n")
    await Agent(nursery, site).fetch(URL, method="POST", body=body)
    assert len(site.requests[0].content) == MIB


async def test_a_post_without_a_body(nursery: trio.Nursery) -> None:
    site = Site()
    await Agent(nursery, site).fetch(URL, method="POST")
    assert site.requests[0].field("content-length") == "0"


# --- numbers and flags ------------------------------------------------------------------------------

HUGE = 10**5000


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("max_bytes", [1024, 16_777_216], [1023, 16_777_217, 0, -1, 4096.0, "4096", True, [], HUGE]),
        ("timeout_s", [1, 120, 1.5], [0, 0.999, 120.001, 121, -1, math.nan, math.inf, "30", True, {}, HUGE]),
        ("max_redirects", [0, 5], [-1, 6, 1.0, "3", False, HUGE]),
        ("follow_redirects", [True, False], [0, 1, "true", "", [], {}]),
        ("stream", [True, False], [0, 1, "false", 1.0]),
    ],
)
async def test_bounds(name: str, good: list[Any], bad: list[Any], nursery: trio.Nursery) -> None:
    """F-45, F-58, F-59, F-60, AMB-19, AMB-20: both ends included, a boolean is no number, NaN is none."""
    agent = Agent(nursery, Site())
    for value in good:
        await agent.fetch(URL, **{name: value})
    for value in bad:
        message = await refused(nursery, **{name: value})
        assert message.startswith(f"{name} must be ")
        assert len(message) < 200


# --- Order, and everything else ---------------------------------------------------------------------


async def test_a_disguised_address_is_a_refusal_and_comes_after_the_mistakes(nursery: trio.Nursery) -> None:
    """F-61, AMB-29."""
    store = AskedStore([])
    agent = Agent(nursery, Site(), cap=store)
    assert await agent.refusal("http://2130706433/", max_bytes=1) == "invalid_args"
    assert await agent.refusal("http://2130706433/") == "net_denied"
    assert store.asked == []
    assert agent.reached_nobody()


async def test_wrong_arguments_have_a_reason(nursery: trio.Nursery) -> None:
    """Table A2."""
    agent = Agent(nursery, Site())
    table: list[tuple[dict[str, Any], str]] = [
        ({"max_bytes": 1}, "invalid_argument"),
        ({"verify": False}, "invalid_argument"),
        ({"headers": {"Host": "x"}}, "invalid_field"),
        ({"cookies": {"a": ";"}}, "invalid_field"),
        ({"method": "POST", "body": "x" * (MIB + 1)}, "request_too_large"),
        ({"url": "http://site.example:0/"}, "invalid_port"),
        ({"url": "ftp://site.example/"}, "unsupported_scheme"),
        ({"url": "http://u@site.example/"}, "userinfo_not_allowed"),
    ]
    for args, reason in table:
        result = await agent.call(args.pop("url", URL), **args)
        assert result.error is not None
        assert (result.error.slug, result.error.reason) == ("invalid_args", reason)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
PLAUSIBLE = {
    "url": st.sampled_from(
        [URL, "http://site.example/a?b#c", "https://user@x/", "http://127.1/", "ftp://x/"]
    ),
    "method": st.sampled_from(["GET", "get", "POST", "HEAD", "PUT"]),
    "headers": st.dictionaries(
        st.sampled_from(["Accept", "Host", "Cookie", "X\n"]), st.text(max_size=5), max_size=3
    ),
    "cookies": st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=3),
    "body": st.text(max_size=10) | st.fixed_dictionaries({"_b64": st.text(max_size=8)}),
    "max_bytes": st.integers(0, 2**25),
    "timeout_s": st.floats(0, 130),
    "follow_redirects": st.booleans(),
    "max_redirects": st.integers(-1, 7),
    "stream": st.booleans(),
}
ARGUMENTS = st.fixed_dictionaries({}, optional={name: values | JSON for name, values in PLAUSIBLE.items()})


@settings(max_examples=150, deadline=None)
@given(args=ARGUMENTS | st.dictionaries(st.text(max_size=12), JSON, max_size=4) | JSON)
def test_whatever_comes_there_is_an_answer(args: Any) -> None:
    """Never an exception; and wrong arguments reach nobody (F-61)."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            store = AskedStore(["site.example"])
            connector, resolver = MemoryConnector(nursery, Site()), AnyHost()
            tool = make_fetch_tool(connector=connector, resolver=resolver, tls=system_tls())
            result = await tool.call(args, ToolContext(7, ToyKernel(store)))
            assert isinstance(result, ToolResult)
            if result.error is not None and result.error.slug == "invalid_args":
                assert store.asked == resolver.asked == []
                assert connector.connected == []
            result.to_json().encode()
            nursery.cancel_scope.cancel()

    trio.run(main)
