"""`tidegate audit`: reading logs of any kind, and the host list that one asks for."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import tidegate
from tests.support.engines import AnyHost
from tidegate.telemetry import AuditLog
from tidegate.testing.memory import MemoryConnector, Peer
from tidegate_tools.audit.lines import MAX_LINE, Line, LogReader
from tidegate_tools.audit.suggest import as_yaml, suggest
from tidegate_tools.audit.summary import Latencies, Summary, Timeline, series_of, summarise
from tidegate_tools.cli import main
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.document import parse_yaml

NOON = "2026-08-03T12:00:00.000Z"


def hop(host: str | None = "a.example", **facts: Any) -> dict[str, Any]:
    """A line as the engine's audit log writes it."""
    line = {
        "time": NOON, "event": "hop", "agent": "crm", "fetch": 1, "hop": 0, "method": "GET",
        "scheme": "https", "host": host, "port": 443, "decision": "allowed", "outcome": "success",
        "status": 200, "reused": False, "wire_bytes": 10, "seconds": {"head": 0.1}, "duration": 0.1,
    }  # fmt: skip
    return {**line, **facts}


def call(**facts: Any) -> dict[str, Any]:
    """A line of a tool call, here of one that found no grant."""
    line = {
        "time": NOON, "event": "call", "agent": "evil", "tool": "Fetch", "kind": "tool.call.denied",
        "decision": "denied", "rule": "tool_grants", "outcome": "blocked", "error": "permission_denied",
    }  # fmt: skip
    return {**line, **facts}


def refused(host: str, reason: str = "not_in_allowlist") -> dict[str, Any]:
    return hop(host, decision="denied", outcome="blocked", reason=reason, status=None, wire_bytes=None)


def encoded(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def read(*data: bytes) -> tuple[list[Line], int]:
    reader = LogReader()
    return list(reader.read(map(io.BytesIO, data))), reader.unreadable


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., str]:
    """Writes lines into a file, and gives its name."""

    def write(*lines: dict[str, Any], name: str = "audit.jsonl") -> str:
        (tmp_path / name).write_bytes(encoded(*lines))
        return str(tmp_path / name)

    return write


# Reading -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"null",
        b"7",
        b'"text"',
        b"{}",
        b"\xff\xfe",
        b'{"event":"hop"}',
        b'{"event":"hop","time":5}',
        b'{"event":"hop","time":"yesterday"}',
        b'{"event":"else","time":"2026-08-03T12:00:00Z"}',
        b'{"event":["hop"],"time":"2026-08-03T12:00:00Z"}',
        b'{"event":"hop","time":"2026-08-03T12:00:00Z","fetch":' + b"9" * 5000 + b"}",
        b"[" * 60_000,
        b'{"event":"hop","time":"' + b"x" * MAX_LINE + b'"}',
    ],
)
def test_what_is_no_line_is_counted_and_skipped(data: bytes) -> None:
    """Before it, after it and in the middle of it are lines as always."""
    good = encoded(hop())
    lines, unreadable = read(good + data + b"\n" + good, data)
    assert (len(lines), unreadable) == (2, 2)


def test_blank_lines_and_a_last_line_without_end() -> None:
    lines, unreadable = read(b"\n\r\n" + encoded(hop()).rstrip(b"\n"))
    assert (len(lines), unreadable) == (1, 0)


@pytest.mark.parametrize("value", ["5", None, True, [], {}, -1, float("nan"), float("inf"), 10**400, 1.1e15])
def test_a_fact_of_another_kind_counts_as_none(value: Any) -> None:
    line = Line("hop", 0.0, {"x": value})
    assert line.number("x") == 0
    assert line.text("x") == (str(value) if isinstance(value, str | int) and value is not True else None)


def test_facts_of_any_kind_spoil_no_summary() -> None:
    """Whatever a line holds, it is one more request at the most."""
    odd: list[Any] = [None, True, -1, 1.5, 10**400, "x", "\ud800", [], {}, {"a": {}}, [[]]]
    names = [name for name in hop() if name not in ("time", "event")]
    lines = [Line("hop", 0.0, {**hop(), name: value}) for name in names for value in odd]
    lines += [Line("hop", 0.0, {**hop(), "seconds": {"head": value}}) for value in odd]
    assert summarise(lines).tallies.total.count == len(lines)
    suggest(lines)


def test_memory_is_bounded() -> None:
    """By names and by times, however many a log holds."""
    lines = (
        Line(
            "hop",
            float(number * 7919),
            {"host": f"h{number}.example", "agent": number, "reason": f"r{number}", "outcome": "error"},
        )
        for number in range(30_000)
    )
    tallies = summarise(lines).tallies
    assert tallies.total.count == 30_000
    for names in (tallies.hosts, tallies.agents, tallies.reasons):
        assert len(names) <= 20_001
    assert tallies.hosts["(others)"].count == 10_000
    assert len(tallies.timeline.buckets) <= 2048


def test_a_timeline_keeps_every_request_as_it_grows_coarser() -> None:
    timeline = Timeline()
    for second in (0, 1, 59, 60, 3600, 86_399, 86_400, 10**9, -(10**9), 10**11):
        timeline.add(second, "success", 1)
    timeline.fit(96)
    assert timeline.span <= 96 or timeline.step == 31_449_600 * 10_000
    assert sum(tally.count for tally in timeline.buckets.values()) == 10


@pytest.mark.parametrize("value", [1e-6, 0.00012, 0.001, 0.0999, 1.0, 7.3, 3600.0])
def test_quantiles_are_within_a_bin(value: float) -> None:
    latencies = Latencies()
    for factor in (0.5, 1, 1, 1, 2):
        latencies.add(value * factor)
    assert latencies.quantile(0.5) == pytest.approx(max(value, 1e-5), rel=0.1)


def test_a_summary() -> None:
    lines, _ = read(
        encoded(
            hop(reused=True),
            hop(decision="would_deny", reported="not_in_allowlist"),
            refused("b.example", "private"),
            hop(outcome="timeout", reason="timeout", status=None),
            hop(None, decision="denied", outcome="invalid", reason="invalid_field", status=None),
            {"event": "call", "time": NOON, "outcome": "success"},
            {"event": "lost", "lines": 3},
        )
    )
    summary = summarise(lines)
    tallies = summary.tallies
    assert dict(tallies.total.series) == {
        "success": 1, "would_deny": 1, "blocked": 1, "timeout": 1, "invalid": 1,
    }  # fmt: skip
    assert (summary.calls, summary.lost, summary.reused, summary.answered) == (1, 3, 1, 2)
    assert dict(tallies.reasons) == {
        ("private", "blocked"): 1, ("timeout", "timeout"): 1, ("invalid_field", "invalid"): 1,
    }  # fmt: skip
    assert dict(tallies.reported) == {"not_in_allowlist": 1}
    assert tallies.total.wire_bytes == 40
    assert {name: tally.count for name, tally in tallies.hosts.items()} == {
        "a.example": 3, "b.example": 1, "(none)": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "series"),
    [
        ({"outcome": "success"}, "success"),
        ({"outcome": "success", "decision": "would_deny"}, "would_deny"),
        ({"outcome": "blocked"}, "blocked"),
        ({"outcome": "cancelled", "decision": "denied"}, "cancelled"),
        ({"outcome": "of another version", "decision": "denied"}, "blocked"),
        ({"outcome": None, "decision": "denied"}, "blocked"),
        ({"outcome": "of another version", "reason": "odd"}, "error"),
        ({"outcome": [], "error": "tool_failed"}, "error"),
        ({"outcome": None, "decision": "would_deny"}, "would_deny"),
        ({"outcome": None}, "success"),
    ],
)
def test_what_became_of_a_request(facts: dict[str, Any], series: str) -> None:
    """An outcome that we do not know is not taken for a success while the line says otherwise."""
    assert series_of(Line("hop", 0.0, {**hop(), **facts})) == series


def test_a_failure_without_a_reason_is_one_all_the_same() -> None:
    lines, _ = read(encoded(hop(outcome="error"), hop(outcome="blocked", reason="")))
    assert dict(summarise(lines).tallies.reasons) == {("(none)", "error"): 1, ("(none)", "blocked"): 1}


# Suggesting --------------------------------------------------------------------------------------------


def suggestion(*lines: dict[str, Any]) -> Any:
    return suggest(read(encoded(*lines))[0])


def test_what_is_suggested() -> None:
    """Hosts that were reached or would have been; nothing that the floor refused."""
    found = suggestion(
        hop("a.example"),
        hop("a.example", decision="would_deny", reported="not_in_allowlist"),
        hop("failed.example", outcome="error", reason="connect_failed"),
        hop("2606:4700:4700::1111"),
        refused("b.example"),
        refused("a.example"),  # once refused, another time let out
        refused("10.0.0.1", "private"),
        refused("localhost", "local_name"),
        hop("unresolved.example", decision=None, outcome="error", reason="dns_resolution_failed"),
        {"event": "call", "time": NOON, "host": "call.example", "decision": "allowed"},
    )
    assert {host: wanted.requests for host, wanted in found.hosts.items()} == {
        "a.example": 2, "failed.example": 1, "2606:4700:4700::1111": 1,
    }  # fmt: skip
    assert set(found.refused) == {"b.example"}
    assert found.unusable == set()


@pytest.mark.parametrize(
    "host",
    ["*", "*.example.com", "a b", 'a"\n- evil.example', "https://a.example/", "", "a.example:443", "\x00"],
)
def test_a_name_that_is_no_host_is_left_out(host: str) -> None:
    """A log is not to be trusted: least of all may it put a wildcard into a list."""
    found = suggestion(hop(host))
    assert found.hosts == {}
    assert found.unusable == {host}


def test_the_yaml_is_what_the_configuration_takes() -> None:
    found = suggestion(hop("a.example"), hop("b.example"), hop("b.example"), hop("2606:4700:4700::1111"))
    text = as_yaml(found.hosts)
    document = parse_yaml(text, "suggested.yaml")
    assert document.mistakes == ()
    config = WebRequestConfig.model_validate(document.data)
    assert list(config.allowed_hosts or ()) == ["b.example", "2606:4700:4700::1111", "a.example"]
    assert '"b.example"             # 2 requests, the last on 2026-08-03' in text


async def serve(peer: Peer) -> None:
    while (request := await peer.receive_request()) is not None:
        if "/start" in request.line:
            await peer.respond(status="302 Found", fields=[("Location", "http://elsewhere.example/")])
        else:
            await peer.respond(b"content")


TRAFFIC = ("http://a.example/start", "http://b.example/", "http://sub.b.example/", "http://10.0.0.1/")


async def outcomes(nursery: trio.Nursery, policy: tidegate.Policy, log: AuditLog | None = None) -> list[str]:
    told = []
    async with tidegate.open_engine(
        policy,
        connector=MemoryConnector(nursery, serve),
        resolver=AnyHost(),
        observer=log.observer(policy) if log else None,
    ) as engine:
        for url in TRAFFIC:
            try:
                response = await engine.fetch(url, limits=tidegate.Limits(max_redirects=1))
                told.append(str(response.status))
            except tidegate.Denied as error:
                told.append(error.reason)
    return told


async def test_from_a_list_on_trial_to_the_list(
    nursery: trio.Nursery, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole way: an empty list on trial, its log, the suggestion, and then the same traffic passes."""
    path = str(tmp_path / "audit.jsonl")
    with AuditLog.to_file(path) as log:
        before = await outcomes(nursery, tidegate.Policy(hosts=[], report_only=True), log)
    assert before == ["200", "200", "200", "private"]
    assert await outcomes(nursery, tidegate.Policy(hosts=[])) == ["not_in_allowlist"] * 4
    assert main(["audit", "suggest", path]) == 0
    hosts = parse_yaml(capsys.readouterr().out, "x").data["allowed_hosts"]
    assert set(hosts) == {"a.example", "elsewhere.example", "b.example", "sub.b.example"}
    after = await outcomes(nursery, tidegate.Policy(hosts=hosts))
    assert after == ["200", "200", "200", "not_in_allowlist"]


# The command -------------------------------------------------------------------------------------------


def test_suggest_prints_a_list(log: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    path = log(hop("a.example"), refused("b.example"), hop("*"))
    assert main(["audit", "suggest", path]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "allowed_hosts:",
        '  - "a.example"  # 1 request, the last on 2026-08-03',
    ]
    assert told.err.splitlines() == [
        "tidegate: 1 host refused by a list left out: --denied adds them",
        "tidegate: 1 name in the log that no host list takes left out",
    ]


def test_suggest_with_what_was_refused(log: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "suggest", "--denied", log(hop("a.example"), refused("b.example"))]) == 0
    told = capsys.readouterr()
    assert '"b.example"' in told.out
    assert told.err == ""


def test_suggest_as_json(log: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """Several files, the rotated one among them."""
    new, old = log(hop("a.example")), log(hop("b.example"), hop("a.example"), name="audit.jsonl.1")
    assert main(["audit", "suggest", "--json", new, old]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["allowed_hosts"] == ["a.example", "b.example"]
    assert told["hosts"][0] == {
        "host": "a.example", "requests": 2, "last": "2026-08-03T12:00:00+00:00", "refused": False,
    }  # fmt: skip
    assert (told["ok"], told["exit_code"], told["unreadable"]) == (True, 0, 0)


def test_standard_input_is_read_if_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(encoded(hop()) + b"torn")))
    assert main(["audit", "suggest", "-"]) == 0
    told = capsys.readouterr()
    assert '"a.example"' in told.out
    assert told.err == "tidegate: 1 line could not be read\n"


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["audit", "suggest"], 2, "Missing argument 'LOG...'"),
        (
            ["audit", "report", "nowhere.jsonl", "-o", "x.html"],
            2,
            "nowhere.jsonl cannot be read: No such file",
        ),
        (["audit", "report", "{log}"], 2, "Missing option '-o'"),
        (["audit", "report", "{log}", "-o", "/nowhere/x.html"], 1, "cannot be written: No such file"),
        (["audit", "suggest", "."], 2, ". cannot be read: Is a directory"),
        (["audit", "nothing"], 2, "No such command 'nothing'"),
    ],
)
def test_wrong_command_lines(
    arguments: list[str],
    code: int,
    problem: str,
    log: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = log(hop())
    assert main([argument.replace("{log}", path) for argument in arguments]) == code
    told = capsys.readouterr()
    assert problem in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("command", ["suggest", "report"])
def test_the_help_fits_a_screen(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", command, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 40


def test_report_writes_a_page(
    log: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, page = log(hop()), tmp_path / "report.html"
    assert main(["audit", "report", path, "-o", str(page)]) == 0
    assert "<h1>audit.jsonl</h1>" in page.read_text()
    assert main(["audit", "report", path, path, "-o", "-", "--title", "August <3"]) == 0
    told = capsys.readouterr()
    assert "<h1>August &lt;3</h1>" in told.out
    assert told.err == ""


def test_an_empty_log(log: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "report", log(), "-o", "-"]) == 0
    assert "There is no request in this log." in capsys.readouterr().out
    assert isinstance(summarise([]), Summary)
