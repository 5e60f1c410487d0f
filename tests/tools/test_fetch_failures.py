"""What `Fetch` makes of failures and of limits: one slug each (table A2 of the decisions)."""

import base64
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
import trio.testing
import trustme

import tidegate
from tests.support.data import rows_of_kind
from tests.support.engines import AnyHost
from tests.support.fetch_tool import (
    PID,
    Agent,
    Play,
    Site,
    Zone,
    answer,
    hold,
    redirect,
)
from tidegate.testing.memory import MemoryConnector, Peer, ReceivedRequest
from tidegate_tools.dispatch import dispatch
from tidegate_tools.fetch import register_fetch_tool
from tidegate_tools.fetch.shaping import tool_error
from tidegate_tools.registry import ToolRegistry

URL = "http://site.example/"


# --- Failures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "connection_lost"),
        (b"HTTP/1.1 200 OK\r\nX", "connection_lost"),
        (b"220 smtp.example ready\r\n\r\n", "protocol_error"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello", "protocol_error"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", "incomplete_content"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello", "incomplete_content"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello", "protocol_error"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 300 + b"\r\n", "message_too_large"),
    ],
)
async def test_broken_answers(data: bytes, reason: str, nursery: trio.Nursery) -> None:
    """F-96, AMB-30, D-14: the message names the phase."""

    async def broken(peer: Peer, _: ReceivedRequest) -> None:
        await peer.send(data)
        await peer.stream.aclose()

    result = await Agent(nursery, Site({URL: broken})).call(URL)
    assert result.error is not None
    assert (result.error.slug, result.error.reason) == ("tool_failed", reason)
    assert "in the phase " in result.error.message
    assert "smtp" not in result.error.message


async def test_dns_and_connecting(nursery: trio.Nursery) -> None:
    """F-96, X-30: neither is ever shown as a denial; and both may pass later."""
    for resolver, unreachable, reason in [
        (Zone({}), set(), "dns_resolution_failed"),
        (Zone({"site.example": []}), set(), "dns_resolution_failed"),
        (AnyHost(), {"93.184.216.34"}, "connect_failed"),
    ]:
        agent = Agent(nursery, Site(), resolver=resolver)
        agent.connector.unreachable = frozenset(unreachable)
        result = await agent.call(URL)
        assert result.error is not None
        assert (result.error.slug, result.error.reason) == ("tool_failed", reason)
        assert result.error.retryable


@pytest.mark.parametrize("trickle", [b"X", b"X: y\r\n", b"x"])
async def test_a_trickle_ends_with_the_deadline(
    trickle: bytes, nursery: trio.Nursery, autojump_clock: Any
) -> None:
    """F-7, F-25, AMB-18: a byte a second, in the head or in the content, cannot hold a call."""

    async def drip(peer: Peer, _: ReceivedRequest) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\n")
        if trickle == b"x":
            await peer.send(b"Content-Length: 1000\r\n\r\n")
        while True:
            await trio.sleep(1)
            await peer.send(trickle)

    agent = Agent(nursery, Site({URL: drip}))
    started = trio.current_time()
    result = await agent.call(URL, timeout_s=7.25)
    assert trio.current_time() - started == pytest.approx(7.25)
    assert result.error is not None
    assert (result.error.slug, result.error.reason) == ("tool_failed", "timeout")
    assert ("content" if trickle == b"x" else "head") in result.error.message


async def test_one_deadline_over_all_hops(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """F-25, AMB-18, D-16."""

    async def slow(peer: Peer, request: ReceivedRequest) -> None:
        await trio.sleep(4)
        await peer.send(redirect("/more"))

    agent = Agent(nursery, Site(default=slow))
    started = trio.current_time()
    assert await agent.refusal(URL, follow_redirects=True, max_redirects=5, timeout_s=10) == "tool_failed"
    assert trio.current_time() - started == pytest.approx(10)


async def test_certificates(
    nursery: trio.Nursery,
    client_tls: ssl.SSLContext,
    server_tls: Callable[..., ssl.SSLContext],
    authority: trustme.CA,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F-29, F-30, F-102, AMB-25: verified against the host name, and no environment turns that off."""
    expired = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    past = datetime.now(UTC) - timedelta(days=2)
    authority.issue_cert("site.example", not_after=past).configure_cert(expired)
    good = server_tls("site.example")
    good.set_alpn_protocols(["h2", "http/1.1"])
    monkeypatch.setenv("PYTHONHTTPSVERIFY", "0")
    for context, passes in [
        (good, True),
        (server_tls("other.example"), False),
        (server_tls("site.example", issuer=trustme.CA()), False),
        (expired, False),
    ]:
        agent = Agent(nursery, Site(), tls=client_tls, server_tls=context)
        result = await agent.call("https://site.example/")
        assert result.ok is passes
        if result.error is not None:
            assert (result.error.slug, result.error.reason) == ("tool_failed", "tls_failed")


async def test_the_environment_steers_nothing(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-28, AMB-32, D-17."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:3128")
    monkeypatch.setenv("NO_PROXY", "")
    agent = Agent(nursery, Site())
    assert (await agent.fetch(URL))["body"].startswith("GET / HTTP/1.1\n")
    assert [(target.host, target.port) for target in agent.connector.connected] == [("site.example", 80)]


async def test_every_call_is_in_the_audit_log_without_its_arguments(nursery: trio.Nursery) -> None:
    """F-118, F-89: one event a call, refused or not."""
    agent = Agent(nursery, Site(), net_grants=["site.example"])
    await agent.fetch(URL + "?q=secret", headers={"Authorization": "secret"})
    await agent.refusal("http://other.example/?q=secret")
    await agent.refusal(URL, body="secret")
    assert [(event.pid, event.kind, event.payload["error"]) for event in agent.events] == [
        (PID, "tool.call.dispatched", None),
        (PID, "tool.call.denied", "net_denied"),
        (PID, "tool.call.denied", "invalid_args"),
    ]
    assert "secret" not in repr(agent.events)


async def test_a_defect_below_does_not_escape_dispatch(nursery: trio.Nursery) -> None:
    """F-119."""

    class Broken(MemoryConnector):
        async def connect(self, targets: Any) -> Any:
            raise ZeroDivisionError("hunter2")

    registry = ToolRegistry()
    register_fetch_tool(registry, connector=Broken(nursery, Site()), resolver=AnyHost())
    response = await dispatch({"tool": "Fetch", "args": {"url": URL}}, registry, pid=PID)
    assert response["error"] == "tool_failed"
    assert "hunter2" not in response["message"]


async def test_a_cancelled_call_is_gone(nursery: trio.Nursery) -> None:
    """Cancelling the agent cancels the fetch: no answer, no connection, one line in the log."""
    agent = Agent(nursery, Site(default=hold))
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as agents:
            agents.start_soon(agent.dispatch, {"url": URL})
            await trio.testing.wait_all_tasks_blocked()
            assert agent.connector.open_connections == 1
            scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    assert agent.connector.open_connections == 0
    assert [event.payload["error"] for event in agent.events] == ["cancelled"]


FETCH_ERRORS: list[tuple[type[tidegate.FetchError], str, str, str]] = [
    *(
        (tidegate.InvalidURL, r, "invalid_args", "net_denied")
        for r in ("malformed_url", "userinfo_not_allowed")
    ),
    (tidegate.InvalidURL, "invalid_port", "invalid_args", "net_denied"),
    (tidegate.SchemeDenied, "unsupported_scheme", "invalid_args", "net_denied"),
    (tidegate.SchemeDenied, "https_required", "net_denied", "net_denied"),
    *(
        (tidegate.HostDenied, r, "net_denied", "net_denied")
        for r in ("not_granted", "not_in_allowlist", "local_name")
    ),
    *(
        (tidegate.HostDenied, r, "net_denied", "net_denied")
        for r in ("non_canonical_ip", "request_not_allowed")
    ),
    (tidegate.PortDenied, "blocked_port", "net_denied", "net_denied"),
    *(
        (tidegate.AddressDenied, r, "net_denied", "net_denied")
        for r in ("imds", "loopback", "link_local", "private")
    ),
    *(
        (tidegate.AddressDenied, r, "net_denied", "net_denied")
        for r in ("ula", "cgnat", "multicast", "unspecified")
    ),
    *((tidegate.AddressDenied, r, "net_denied", "net_denied") for r in ("reserved", "self")),
    (tidegate.InvalidField, "invalid_field", "invalid_args", "invalid_args"),
    *(
        (tidegate.InvalidArgument, r, "invalid_args", "invalid_args")
        for r in ("invalid_argument", "request_too_large")
    ),
    (tidegate.ResolutionError, "dns_resolution_failed", "tool_failed", "tool_failed"),
    (tidegate.ConnectError, "connect_failed", "tool_failed", "tool_failed"),
    (tidegate.ConnectionLost, "connection_lost", "tool_failed", "tool_failed"),
    (tidegate.TLSError, "tls_failed", "tool_failed", "tool_failed"),
    (tidegate.DeadlineExceeded, "timeout", "tool_failed", "tool_failed"),
    (tidegate.RemoteProtocolError, "protocol_error", "tool_failed", "tool_failed"),
    (tidegate.MessageTooLarge, "message_too_large", "tool_failed", "tool_failed"),
    (tidegate.IncompleteContent, "incomplete_content", "tool_failed", "tool_failed"),
    *(
        (tidegate.BadRedirect, r, "tool_failed", "tool_failed")
        for r in ("bad_redirect", "content_not_replayable")
    ),
    (tidegate.TooManyRedirects, "too_many_redirects", "tool_failed", "tool_failed"),
    (tidegate.Overloaded, "overloaded", "tool_failed", "tool_failed"),
    (tidegate.EngineClosed, "engine_closed", "tool_failed", "tool_failed"),
]


def test_every_reason_has_its_slug() -> None:
    """Table A2, whole: on the first URL, and on a redirect."""
    assert {reason for _, reason, _, _ in FETCH_ERRORS} == {*tidegate.Reason}
    for kind, name, first, redirected in FETCH_ERRORS:
        reason = tidegate.Reason(name)
        for hop, phase, slug in [
            (0, tidegate.Phase.CHECK, first),
            (0, tidegate.Phase.REDIRECT, redirected),
            (1, tidegate.Phase.CHECK, redirected),
        ]:
            error = tool_error(kind("Because.", reason=reason, phase=phase, hop=hop))
            assert (error.slug, error.reason) == (slug, reason)


# --- Rows of the corpus about limits ----------------------------------------------------------------


async def drip_head(peer: Peer, _: ReceivedRequest) -> None:
    await peer.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await trio.sleep(1)
        await peer.send(b"X")


async def head_with_content(peer: Peer, _: ReceivedRequest) -> None:
    await peer.send(answer(b"a body that must not be there"))


GBK = "网页".encode("gbk")
DEEP = b"[" * 100_000
LIMITS: dict[str, tuple[bytes | Play, dict[str, Any], Any]] = {
    "response-limits-002": (drip_head, {}, "timeout"),
    "response-limits-004": (hold, {}, "timeout"),
    "response-limits-005": (answer(b"x" * 2048), {"max_bytes": 2048}, ("x" * 2048, "utf-8", False)),
    "response-limits-006": (answer(b"x" * 2049), {"max_bytes": 2048}, ("x" * 2048, "utf-8", True)),
    "response-limits-008": (head_with_content, {"method": "HEAD"}, ("", "utf-8", False)),
    "response-limits-010": (
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        {},
        ("", "utf-8", False),
    ),
    "response-limits-012": (
        answer(GBK, "200 OK", "Content-Type: text/html; charset=gbk"),
        {},
        (base64.b64encode(GBK).decode(), "base64", False),
    ),
    "response-limits-013": (
        answer(b"<meta charset=shift_jis>\x83\x65"),
        {},
        (base64.b64encode(b"<meta charset=shift_jis>\x83\x65").decode(), "base64", False),
    ),
    "response-limits-014": (
        answer(b"+ADw-script+AD4-", "200 OK", "Content-Type: text/html; charset=utf-7"),
        {},
        ("+ADw-script+AD4-", "utf-8", False),
    ),
    "response-limits-015": (
        answer(b"{nope", "200 OK", "Content-Type: application/json"),
        {},
        ("{nope", "utf-8", False),
    ),
    "response-limits-016": (
        answer(DEEP, "200 OK", "Content-Type: application/json"),
        {},
        (DEEP.decode(), "utf-8", False),
    ),
    "response-limits-017": (
        answer(b'{"a": NaN, "a": 1e999}'),
        {},
        ('{"a": NaN, "a": 1e999}', "utf-8", False),
    ),
    "response-limits-018": (answer(b"\x89PNG\x00"), {}, ("iVBORwA=", "base64", False)),
}
ELSEWHERE = {
    "response-limits-007": "test_content_without_an_end",
    "response-limits-019": "test_no_cookie_is_kept",
    "response-limits-020": "web_request only: Fetch gives every field (X-22)",
    "response-limits-022": "test_header_values_are_cleaned",
}


ROWS = {row["id"]: row for row in rows_of_kind("response-limits")}


def test_every_row_is_somewhere() -> None:
    assert ROWS.keys() == LIMITS.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize("row", [pytest.param(ROWS[name], id=name) for name in LIMITS])
async def test_limits(row: dict[str, Any], nursery: trio.Nursery, autojump_clock: Any) -> None:
    page, args, expected = LIMITS[row["id"]]
    result = await Agent(nursery, Site({URL: page})).call(URL, **args)
    if row["expect"] == "error":
        assert result.error is not None
        assert (result.error.slug, result.error.reason) == ("tool_failed", expected)
        return
    assert isinstance(result.value, dict)
    assert (result.value["body"], result.value["encoding"], result.value["truncated"]) == expected


async def test_header_values_are_cleaned(nursery: trio.Nursery) -> None:
    """Terminal escapes and other controls never get through; text of any script does."""
    fields = (
        "X-Esc: a\x1b[31mb",
        "X-Text: grüße",
        "X-Tab: a\tb",
        "X-C1: a\x9bb",
        "Set-Cookie: a\x1b=b",
        "Set-Cookie: c=d",
    )
    result = await Agent(nursery, Site({URL: answer(b"", "200 OK", *fields)})).fetch(URL)
    assert result["headers"] == {
        "x-esc": "a\ufffd[31mb",
        "x-text": "grüße",
        "x-tab": "a\tb",
        "x-c1": "a\ufffdb",
        "set-cookie": "a\ufffd=b\nc=d",
        "content-length": "0",
    }
