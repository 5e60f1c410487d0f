"""What lines of tool calls add to a report and to a suggestion: what no request tells, and no more."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import tidegate
from tests.support.engines import AnyHost
from tests.tools.test_audit import call, encoded, hop, read, refused, serve, suggestion
from tests.tools.test_audit_page import Elements, page_of
from tidegate.telemetry import AuditLog
from tidegate.testing.memory import MemoryConnector
from tidegate_tools.audit.suggest import suggest
from tidegate_tools.audit.summary import Summary, summarise
from tidegate_tools.cli import main
from tidegate_tools.dispatch import dispatch
from tidegate_tools.fetch import make_fetch_tool
from tidegate_tools.grants import Grants, GrantStore
from tidegate_tools.registry import ToolRegistry
from tidegate_tools.telemetry import ToolTelemetry


def summary_of(*lines: dict[str, Any]) -> Summary:
    return summarise(read(encoded(*lines))[0])


def text_of(*lines: dict[str, Any]) -> str:
    return " ".join(Elements(page_of(*lines)).texts)


def tiles_of(*lines: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """The value and the detail of each tile, by name."""
    texts = Elements(page_of(*lines)).texts
    names = ("requests", "refused", "failed or timed out", "tool calls", "agents", "received")
    found = {name: texts.index(name) for name in names if name in texts}
    return {name: (texts[at - 1], texts[at + 1]) for name, at in found.items()}


SUCCESS = {"outcome": "success", "error": None, "decision": "allowed", "kind": "tool.call.dispatched"}


@pytest.mark.parametrize(
    ("facts", "counted"),
    [
        # Without a request: nobody else tells of it.
        ({}, ("blocked", "permission_denied")),
        ({"error": "tool_not_found", "outcome": "invalid"}, ("invalid", "tool_not_found")),
        (
            {"error": "invalid_args", "reason": "invalid_argument", "outcome": "invalid"},
            ("invalid", "invalid_argument"),
        ),
        ({"error": "net_denied"}, ("blocked", "net_denied")),  # by a robots.txt that was read before
        ({"error": "tool_failed", "outcome": "error", "hops": 0}, ("error", "tool_failed")),
        ({"error": "cancelled", "outcome": "cancelled"}, ("cancelled", None)),
        (SUCCESS, None),
        # With some, of which one was refused, failed or given up.
        ({"error": "net_denied", "reason": "private", "hops": 1}, None),
        ({"error": "net_denied", "reason": "not_granted", "hops": 2, "status": 302}, None),
        ({"error": "invalid_args", "reason": "malformed_url", "hops": 1}, None),
        ({"error": "tool_failed", "reason": "timeout", "outcome": "timeout", "hops": 1}, None),
        ({"error": "net_denied", "hops": 1}, None),  # robots.txt could not be had
        ({"error": "cancelled", "outcome": "cancelled", "hops": 1, "status": 200}, None),
        ({**SUCCESS, "hops": 3, "status": 200}, None),
        # With some, all of them answered: the tool itself refused or failed.
        ({"error": "net_denied", "hops": 1, "status": 200}, ("blocked", "net_denied")),
        (
            {"error": "tool_failed", "outcome": "error", "hops": 1, "status": 200},
            ("error", "tool_failed"),
        ),
        (
            {
                "error": "tool_failed",
                "reason": "internal_error",
                "outcome": "error",
                "hops": 1,
                "status": 200,
            },
            ("error", "internal_error"),
        ),
    ],
)
def test_a_call_counts_if_no_request_tells_of_its_end(
    facts: dict[str, Any], counted: tuple[str, str | None] | None
) -> None:
    """By time, by reason and by agent; never by host or in bytes, which are those of its requests."""
    alone = summary_of(hop(agent="good")).tallies
    summary = summary_of(hop(agent="good"), call(host="b.example", wire_bytes=5, **facts))
    tallies = summary.tallies
    assert (summary.calls, summary.untold) == (1, int(counted is not None))
    assert (tallies.hosts, tallies.total.wire_bytes) == (alone.hosts, 10)
    if counted is None:
        assert (tallies.agents, tallies.reasons, tallies.timeline.buckets) == (
            alone.agents,
            alone.reasons,
            alone.timeline.buckets,
        )
        return
    series, reason = counted
    assert dict(tallies.total.series) == {"success": 1, series: 1}
    assert [dict(tally.series) for tally in tallies.timeline.buckets.values()] == [{"success": 1, series: 1}]
    assert dict(tallies.agents["evil"].series) == {series: 1}
    assert dict(tallies.reasons) == ({(reason, series): 1} if reason is not None else {})


def test_a_hundred_refused_calls_and_one_good_request() -> None:
    lines = [call() for _ in range(100)] + [hop()]
    text = text_of(*lines)
    assert tiles_of(*lines) == {
        "requests": ("1", "1 host"), "refused": ("100", "99 %"), "failed or timed out": ("0", "0 %"),
        "tool calls": ("100", "100 told by no request"), "agents": ("2", "by key or pid"),
        "received": ("10 B", "content bytes"),
    }  # fmt: skip
    assert "evil: 100 refused" in text
    assert "permission_denied: 100 refused" in text
    assert "2026-08-03 12:00:00: 100 refused" in text
    assert "Counted: 1 request, a redirect being one more, and 100 tool calls whose refusal" in text
    assert "Nothing was refused" not in text


def test_calls_alone_are_no_empty_log() -> None:
    lines = [call() for _ in range(100)]
    text = text_of(*lines)
    assert tiles_of(*lines)["refused"] == ("100", "100 %")
    assert "evil: 100 refused" in text
    assert "No line of the log is of a request." in text
    assert "There is no request in this log" not in text
    assert "lines of tool calls alone" in text


def test_good_calls_without_requests_alone() -> None:
    text = text_of(call(**SUCCESS))
    assert "There is no request in this log, but 1 tool call: none sent a request" in text


def test_a_log_that_lacks_the_lines_of_requests_is_told_by_calls() -> None:
    """The engine had another observer: then a call is all there is, and says what became of its requests."""
    lines = [
        call(**{**SUCCESS, "hops": 2, "host": "a.example", "wire_bytes": 7, "agent": "crm", "status": 200}),
        call(**{**SUCCESS, "hops": 1, "host": "c.example", "decision": "would_deny"}),
        call(error="net_denied", reason="private", hops=1, host="10.0.0.1"),
        call(),
        call(**SUCCESS),
    ]
    tallies = summary_of(*lines).tallies
    assert dict(tallies.total.series) == {"success": 1, "would_deny": 1, "blocked": 2}
    assert set(tallies.hosts) == {"a.example", "c.example", "10.0.0.1"}
    assert tallies.total.wire_bytes == 7
    assert tallies.reported.total() == 1
    assert tiles_of(*lines)["requests"] == ("4", "3 hosts")
    assert "4 of 4 requests that tool calls say they sent without a line here." in text_of(*lines)
    # And the first line of a request changes that, wherever it stands.
    for mixed in ([hop(), *lines], [*lines, hop()]):
        assert dict(summary_of(*mixed).tallies.total.series) == {"success": 1, "blocked": 1}


@pytest.mark.parametrize(
    ("lines", "claim"),
    [
        ([hop()], "Nothing was refused, and nothing failed."),
        ([hop(), call(**SUCCESS, hops=1)], "Nothing was refused, and nothing failed."),
        ([hop(), call(**SUCCESS, hops=2)], "As far as this log tells, nothing was refused"),
        ([hop(), {"event": "lost", "lines": 1}], "As far as this log tells, nothing was refused"),
    ],
)
def test_nothing_was_refused_only_if_the_log_would_know(lines: list[dict[str, Any]], claim: str) -> None:
    assert claim in text_of(*lines)


# As dispatch writes it ---------------------------------------------------------------------------------


async def dispatched(
    nursery: trio.Nursery, path: Path, *messages: tuple[str, Any], policy: tidegate.Policy | None = None
) -> None:
    """The log of a kernel: `good` may call Fetch and reach `a.example`, `evil` may nothing."""
    store = GrantStore()
    store.grant("good", Grants(("Fetch",), ("a.example",)))

    class Kernel:
        cap = store

    with AuditLog.to_file(path) as log:
        telemetry = ToolTelemetry(audit=log)
        registry = ToolRegistry()
        tool = make_fetch_tool(
            policy=policy,
            connector=MemoryConnector(nursery, serve),
            resolver=AnyHost(),
            observer=log.observer(policy),
        )
        registry.register(telemetry.observed(tool))
        for agent, message in messages:
            await dispatch(message, registry, pid=agent, kernel=Kernel(), audit=telemetry.record)


def fetch(url: str, **args: Any) -> dict[str, Any]:
    return {"tool": "Fetch", "args": {"url": url, **args}}


async def test_a_log_of_dispatch(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Each refusal once, whoever refused and however far the call came; and both agents."""
    path = tmp_path / "audit.jsonl"
    await dispatched(
        nursery,
        path,
        ("good", fetch("http://a.example/")),
        ("good", fetch("http://a.example/start", follow_redirects=True)),  # to a host without a grant
        ("good", fetch("http://b.example/")),
        ("good", fetch("http://a.example/", method="PULL")),
        ("good", fetch("no url")),
        ("evil", fetch("http://a.example/")),
        ("evil", {"tool": "Nothing"}),
    )
    with path.open("rb") as file:
        summary = summarise(read(file.read())[0])
    tallies = summary.tallies
    assert (summary.requests, summary.calls, summary.untold, summary.missing) == (5, 7, 3, 0)
    assert dict(tallies.reasons) == {
        ("not_granted", "blocked"): 2, ("invalid_argument", "invalid"): 1, ("malformed_url", "blocked"): 1,
        ("permission_denied", "blocked"): 1, ("tool_not_found", "invalid"): 1,
    }  # fmt: skip
    assert {name: tally.count for name, tally in tallies.agents.items()} == {"good": 6, "evil": 2}
    assert tallies.total.count == 8


# Suggesting --------------------------------------------------------------------------------------------


async def test_a_call_that_a_grant_stops_at_a_redirect(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Its line names the first host and says `net_denied`; only those of its requests tell which is which."""
    path = tmp_path / "audit.jsonl"
    trial = tidegate.Policy(hosts=["list.example"], report_only=True)
    wanted = ("good", fetch("http://a.example/start", follow_redirects=True))
    await dispatched(nursery, path, wanted, ("evil", fetch("http://c.example/")), policy=trial)
    found = suggest(read(path.read_bytes())[0])
    assert (set(found.hosts), set(found.refused)) == ({"a.example"}, set())
    assert (found.unsent, found.missing) == (1, 0)


def test_lines_of_calls_suggest_no_host() -> None:
    """The decision of a call may be about another host than the one it names."""
    found = suggestion(
        hop("a.example"),
        call(decision="would_deny", outcome="success", error=None, host="b.example", hops=2),
        call(decision="allowed", outcome="success", error=None, host="c.example", hops=1),
        call(error="net_denied", reason="not_in_allowlist", host="d.example", hops=1),
        call(error="net_denied", reason="not_granted", host="e.example", hops=1),
    )
    assert (set(found.hosts), found.refused) == ({"a.example"}, {})
    assert (found.unsent, found.missing) == (0, 4)


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., str]:
    def write(*lines: dict[str, Any]) -> str:
        path = tmp_path / "audit.jsonl"
        path.write_bytes(encoded(*lines))
        return str(path)

    return write


def test_suggest_says_what_calls_do_not_tell(
    log: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    good = call(**SUCCESS, hops=1, host="b.example")
    path = log(hop("a.example"), refused("10.0.0.1", "private"), call(), call(), good, good, good)
    assert main(["audit", "suggest", path]) == 0
    told = capsys.readouterr()
    assert told.out.count("\n  - ") == 1
    assert told.err.splitlines() == [
        "tidegate: 2 tool calls refused before any request: no line tells which hosts they were for",
        "tidegate: 1 request of tool calls without a line here, so their hosts may be missing: "
        "the engine needs the log's observer, too",
    ]
    assert main(["audit", "suggest", "--json", path]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["unsent_calls"], facts["missing_requests"]) == (2, 1)


@pytest.mark.parametrize("lines", [[], [call()], [refused("10.0.0.1", "private")], [refused("b.example")]])
def test_without_a_host_there_is_no_empty_list(
    lines: list[dict[str, Any]], log: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """`allowed_hosts: []` refuses every host: nobody has asked for that."""
    assert main(["audit", "suggest", log(*lines)]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("# Nothing to suggest: ")
