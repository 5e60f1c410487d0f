"""Observers for operators: hop records, audit lines, counters, logging, and host lists on trial."""

import json
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import tidegate
from tests.support.engines import AnyHost, engine_with
from tidegate.telemetry import (
    AuditLog,
    Counters,
    Decision,
    HopObserver,
    HopRecord,
    Observers,
    Outcome,
    RememberingResolver,
    ToolCall,
    logging_observer,
    outcome_of,
    within_tool_call,
)
from tidegate.telemetry.lines import LineWriter
from tidegate.telemetry.outcomes import RULES
from tidegate.telemetry.sinks import RotatingFile
from tidegate.testing.memory import MemoryConnector, Peer
from tidegate.testing.observer import RecordingObserver

NOON = 1_800_000_000.0


async def serve(peer: Peer) -> None:
    """Redirects /start to /end and /away to a private address; answers the rest after a second."""
    while (request := await peer.receive_request()) is not None:
        await trio.sleep(1)
        if "/start" in request.line:
            await peer.respond(status="302 Found", fields=[("Location", "/end")])
        elif "/away" in request.line:
            await peer.respond(status="302 Found", fields=[("Location", "http://10.0.0.1/inside")])
        elif "/ftp" in request.line:
            await peer.respond(status="302 Found", fields=[("Location", "ftp://b.example/")])
        else:
            await peer.respond(b"content", status="404 Not Found" if "/none" in request.line else "200 OK")


async def records_of(nursery: trio.Nursery, url: str, **options: Any) -> list[HopRecord]:
    """What one fetch, whatever comes of it, leaves behind."""
    taken: list[HopRecord] = []
    limits = tidegate.Limits(max_redirects=1, timeout=options.pop("timeout", 30))
    key = options.pop("key", None)
    observer = HopObserver(taken.append, clock=lambda: NOON)
    script = options.pop("script", serve)
    async with engine_with(nursery, script, observer=observer, **options) as (engine, _):
        with suppress(tidegate.FetchError):
            await engine.fetch(url, limits=limits, key=key)
    assert observer._fetches == {}  # nothing is kept of a fetch that is over
    return taken


# Hop records -------------------------------------------------------------------------------------------


async def test_one_record_a_hop(nursery: trio.Nursery, autojump_clock: Any) -> None:
    first, last = await records_of(nursery, "http://a.example/start?secret=1", key="agent")
    assert (first.hop, first.status, first.content_bytes, first.duration) == (0, 302, None, 1)
    assert (last.hop, last.status, last.content_bytes, last.duration) == (1, 200, 7, 1)
    assert last.reused
    for record in (first, last):
        assert (record.decision, record.outcome) == (Decision.ALLOWED, Outcome.SUCCESS)
        assert (record.method, record.url.host, record.key, record.time) == (
            "GET",
            "a.example",
            "agent",
            NOON,
        )
        assert record.reason is record.phase is record.reported is None
    assert first.seconds == {
        "check": 0, "admit": 0, "resolve": 0, "connect": 0, "send": 0, "head": 1, "redirect": 0,
    }  # fmt: skip
    assert last.seconds == {"check": 0, "resolve": 0, "send": 0, "head": 1, "content": 0}


@pytest.mark.parametrize(
    ("url", "policy", "decision", "reason", "outcome", "phase"),
    [
        ("http://a.example/", {}, "allowed", None, "success", None),
        ("http://a.example/none", {}, "allowed", None, "success", None),
        ("nonsense", {}, "denied", "malformed_url", "blocked", "check"),
        ("http://user@a.example/", {}, "denied", "userinfo_not_allowed", "blocked", "check"),
        ("http://a.example/", {"require_https": True}, "denied", "https_required", "blocked", "check"),
        ("http://a.example/", {"hosts": ["b.example"]}, "denied", "not_in_allowlist", "blocked", "check"),
        ("http://10.0.0.1/", {}, "denied", "private", "blocked", "check"),
        ("http://a.example:22/", {}, "denied", "blocked_port", "blocked", "check"),
        ("http://a.example/slow", {}, "allowed", "timeout", "timeout", "head"),
        # The request went out and was answered; it is its target that is refused, at the redirect.
        ("http://a.example/ftp", {}, "allowed", "unsupported_scheme", "blocked", "redirect"),
    ],
)
async def test_decision_and_outcome(
    url: str,
    policy: dict[str, Any],
    decision: str,
    reason: str | None,
    outcome: str,
    phase: str | None,
    nursery: trio.Nursery,
    autojump_clock: Any,
) -> None:
    timeout = 0.5 if "slow" in url else 30
    records = await records_of(nursery, url, policy=tidegate.Policy(**policy), timeout=timeout)
    [record] = records
    assert (record.decision, record.reason, record.outcome, record.phase) == (
        decision,
        reason,
        outcome,
        phase,
    )


async def test_a_refused_redirect_is_a_hop_of_its_own(nursery: trio.Nursery, autojump_clock: Any) -> None:
    went, refused = await records_of(nursery, "http://a.example/away")
    assert (went.decision, went.status, went.outcome) == ("allowed", 302, "success")
    assert (refused.decision, refused.reason, refused.url.host) == ("denied", "private", "10.0.0.1")
    assert refused.status is None


class NoNames:
    async def resolve(self, host: str) -> Any:
        await trio.lowlevel.checkpoint()
        raise tidegate.ResolutionError(f"{host} does not exist")


async def test_nothing_is_decided_of_a_name_that_does_not_resolve(nursery: trio.Nursery) -> None:
    """A DNS failure is never shown as a block (table A2), and was not let out either."""
    [record] = await records_of(nursery, "http://a.example/", resolver=NoNames())
    assert (record.decision, record.outcome, record.phase) == (None, "error", "resolve")


async def test_a_cancel(nursery: trio.Nursery, autojump_clock: Any) -> None:
    taken: list[HopRecord] = []
    async with engine_with(nursery, Peer.until_closed, observer=HopObserver(taken.append)) as (engine, _):  # type: ignore[arg-type]
        with trio.move_on_after(3):
            await engine.fetch("http://a.example/")
    [record] = taken
    assert (record.cancelled, record.outcome, record.reason) == (True, "cancelled", None)
    assert (record.decision, record.phase, record.duration) == ("allowed", "head", 3)
    assert record.seconds == {"check": 0, "admit": 0, "resolve": 0, "connect": 0, "send": 0, "head": 3}
    assert (record.peer, record.reused, record.status) == ("93.184.216.34", False, None)


async def test_the_wait_for_a_slot_is_told(nursery: trio.Nursery, autojump_clock: Any) -> None:
    taken: list[HopRecord] = []
    observer = HopObserver(taken.append)
    async with (
        engine_with(nursery, serve, observer=observer, max_concurrency=1) as (engine, _),
        trio.open_nursery() as inner,
    ):
        for _ in range(2):
            inner.start_soon(engine.fetch, "http://a.example/")
    assert sorted(record.seconds[tidegate.Phase.ADMIT] for record in taken) == [0, 1]
    assert all(record.duration == sum(record.seconds.values()) for record in taken)


async def test_the_wait_for_an_authorization_is_told(nursery: trio.Nursery, autojump_clock: Any) -> None:
    async def authorize(host: str) -> bool:
        await trio.sleep(2)
        return True

    taken: list[HopRecord] = []
    async with engine_with(nursery, serve, observer=HopObserver(taken.append)) as (engine, _):
        await engine.fetch("http://a.example/", authorize=authorize)
        with pytest.raises(tidegate.AddressDenied):
            await engine.fetch("http://10.0.0.1/", authorize=authorize)
    went, refused = taken
    assert (went.seconds[tidegate.Phase.AUTHORIZE], went.duration) == (2, 3)
    assert (refused.seconds[tidegate.Phase.AUTHORIZE], refused.duration) == (2, 2)
    assert refused.phase is tidegate.Phase.CHECK  # it was authorized; what refused it is the floor


async def answers_and_stops(peer: Peer) -> None:
    """A head and some content, then what the path says."""
    request = await peer.receive_request()
    assert request is not None
    if "/loop" in request.line:
        await peer.respond(status="302 Found", fields=[("Location", "/loop")])
        await answers_and_stops(peer)
    elif "/bad-location" in request.line:
        await peer.respond(status="302 Found", fields=[("Location", "http://[")])
    else:
        await peer.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nfour")
    if "/slow" in request.line:
        await peer.until_closed()


@pytest.mark.parametrize(
    ("path", "reason", "phase", "status", "wire_bytes"),
    [
        ("/slow", "timeout", "content", 503, 4),
        ("/cut", "incomplete_content", "content", 503, 4),
        ("/loop", "too_many_redirects", "redirect", 302, 0),
        ("/bad-location", "bad_redirect", "redirect", 302, 0),
    ],
)
async def test_what_came_before_a_failure_is_told(
    path: str,
    reason: str,
    phase: str,
    status: int,
    wire_bytes: int,
    nursery: trio.Nursery,
    autojump_clock: Any,
) -> None:
    """Slow and hostile peers are what an operator looks for: their answer, address and bytes are there."""
    record = (await records_of(nursery, f"http://a.example{path}", script=answers_and_stops, timeout=2))[-1]
    assert (record.reason, record.phase, record.decision) == (reason, phase, "allowed")
    assert (record.status, record.wire_bytes) == (status, wire_bytes)
    assert (record.peer, record.reused) == ("93.184.216.34", path == "/loop")
    assert record.seconds.keys() >= {"check", "resolve", "send", "head", phase}
    assert sum(record.seconds.values()) == record.duration


async def test_the_peer_of_a_failed_handshake_is_told(nursery: trio.Nursery, server_tls: Any) -> None:
    """It was connected to, though nothing was ever sent to it."""
    strangers = MemoryConnector(nursery, serve, server_tls("a.example"))
    [record] = await records_of(nursery, "https://a.example/", connector=strangers)
    assert (record.phase, record.peer, record.reused, record.tls_version) == (
        "tls",
        "93.184.216.34",
        False,
        None,
    )
    assert record.status is None


async def test_a_repeat_is_counted(nursery: trio.Nursery) -> None:
    """D-18: the kept connection was dead."""
    asked = 0

    async def dies(peer: Peer) -> None:
        nonlocal asked
        while await peer.receive_request() is not None:
            asked += 1
            if asked == 2:
                return
            await peer.respond(b"x")

    taken: list[HopRecord] = []
    async with engine_with(nursery, dies, observer=HopObserver(taken.append)) as (engine, _):
        for _ in range(2):
            await engine.fetch("http://a.example/")
    assert [record.repeats for record in taken] == [0, 1]
    assert not taken[1].reused


async def test_hops_know_their_tool_call(nursery: trio.Nursery) -> None:
    taken: list[HopRecord] = []
    call = ToolCall("Fetch", 7, "c1")
    observer = Observers(HopObserver(taken.append), Counters().observer())  # told of twice, there once
    async with engine_with(nursery, serve, observer=observer) as (engine, _):

        async def fetch() -> None:
            await engine.fetch("http://10.0.0.1/")

        with within_tool_call(call), pytest.raises(ExceptionGroup):
            async with trio.open_nursery() as inner:  # a child task inherits it
                inner.start_soon(fetch)
        with pytest.raises(tidegate.Denied):
            await fetch()
    assert [record.call for record in taken] == [call, None]
    assert call.hops == taken[:1]


def test_every_reason_that_refuses_has_a_rule() -> None:
    """A line always tells which rule decided; `RULES` and table A2 agree on what is a refusal."""
    refusing = {
        reason for reason in tidegate.Reason if outcome_of(reason) in (Outcome.BLOCKED, Outcome.INVALID)
    }
    assert refusing == set(RULES)
    assert {reason for reason in tidegate.Reason if outcome_of(reason) is Outcome.INVALID} == {
        "invalid_field", "invalid_argument", "request_too_large",
    }  # fmt: skip
    assert outcome_of(tidegate.Reason.TIMEOUT) is Outcome.TIMEOUT
    assert outcome_of(tidegate.Reason.DNS_RESOLUTION_FAILED) is Outcome.ERROR
    assert {kind.value for kind in tidegate.AddressClass} - {"global"} <= {reason.value for reason in RULES}
    assert outcome_of(None) is Outcome.SUCCESS


# Observers ---------------------------------------------------------------------------------------------


class Broken:
    kinds = frozenset({tidegate.HopStarted})

    def on_event(self, event: tidegate.Event) -> None:
        raise RuntimeError("the secret is 42")


async def test_several_observers(nursery: trio.Nursery, caplog: pytest.LogCaptureFixture) -> None:
    """A broken one does not silence the others, and what it says is not told."""
    recording, counters = RecordingObserver(), Counters()
    both = Observers(Broken(), recording, counters.observer())
    with caplog.at_level(logging.WARNING, "tidegate"):
        async with engine_with(nursery, serve, observer=both) as (engine, _):
            with pytest.raises(tidegate.Denied):
                await engine.fetch("http://10.0.0.1/")
    assert recording.of(tidegate.FetchFailed)
    assert counters.snapshot()[Outcome.BLOCKED, tidegate.Reason.PRIVATE].hops == 1
    assert "an observer failed on HopStarted" in caplog.text
    assert "42" not in caplog.text


class Wants(RecordingObserver):
    def __init__(self, *kinds: type) -> None:
        super().__init__()
        self.kinds = frozenset(kinds)


async def test_an_observer_is_told_what_it_wants(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """And no other event is made; read anew for each fetch, none at all for an empty set."""
    everything = RecordingObserver()
    async with engine_with(nursery, serve, observer=everything) as (engine, _):
        await engine.fetch("http://a.example/")
    kinds = {type(event) for event in everything.events}
    for kind in kinds:
        observer = Wants(kind)
        async with engine_with(nursery, serve, observer=observer) as (engine, _):
            await engine.fetch("http://a.example/")
            assert {type(event) for event in observer.events} == {kind}
            observer.kinds, told = frozenset(), len(observer.events)
            await engine.fetch("http://a.example/")
            assert len(observer.events) == told


async def test_engines_can_share_an_observer(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """Fetches of two engines at the same time, even in two threads, are never mixed up."""
    taken: list[HopRecord] = []
    observer = HopObserver(taken.append)
    async with (
        engine_with(nursery, serve, observer=observer) as (one, _),
        engine_with(nursery, serve, observer=observer) as (two, _),
        trio.open_nursery() as inner,
    ):
        inner.start_soon(one.fetch, "http://a.example/")
        inner.start_soon(two.fetch, "http://b.example/")
    assert {(record.url.host, record.outcome) for record in taken} == {
        ("a.example", "success"),
        ("b.example", "success"),
    }
    assert len({record.fetch for record in taken}) == 2


# Lists on trial ----------------------------------------------------------------------------------------

TRIAL = tidegate.Policy(hosts=["listed.example"], report_only=True)


async def test_a_list_on_trial_reports_and_does_not_refuse(
    nursery: trio.Nursery, autojump_clock: Any
) -> None:
    recording, taken = RecordingObserver(), list[HopRecord]()
    both = Observers(recording, HopObserver(taken.append))
    async with engine_with(nursery, serve, policy=TRIAL, observer=both) as (engine, _):
        assert (await engine.fetch("http://other.example/")).status == 200
        assert (await engine.fetch("http://listed.example/")).status == 200
    [told] = recording.of(tidegate.DenialReported)
    assert (told.hop, told.refusal.reason) == (0, "not_in_allowlist")
    assert "other.example" in told.refusal.message
    assert [(record.decision, record.reported) for record in taken] == [
        ("would_deny", "not_in_allowlist"),
        ("allowed", None),
    ]
    assert {record.outcome for record in taken} == {"success"}


async def test_every_hop_is_on_trial(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """A redirect off the list too."""
    policy = tidegate.Policy(hosts=["b.example"], report_only=True)
    records = await records_of(nursery, "http://a.example/start", policy=policy)
    assert [record.decision for record in records] == ["would_deny", "would_deny"]


@pytest.mark.parametrize(
    ("url", "options", "reason"),
    [
        ("http://10.0.0.1/", {}, "private"),
        ("http://169.254.169.254/", {}, "imds"),
        ("http://localhost/", {}, "local_name"),
        ("http://other.example:25/", {}, "blocked_port"),  # only a listed host may be reached there
        ("http://other.example:81/", {"ports": [80]}, "blocked_port"),
        ("http://other.example/", {"require_https": True}, "https_required"),
        ("http://2130706433/", {}, "non_canonical_ip"),
        (
            "http://other.example/",
            {"request_rules": [tidegate.RequestRule("other.example", methods=["POST"])]},
            "request_not_allowed",
        ),
    ],
)
async def test_nothing_but_the_list_is_on_trial(
    url: str, options: dict[str, Any], reason: str, nursery: trio.Nursery
) -> None:
    """The floor, local names, ports, https and request rules stay enforced."""
    policy = tidegate.Policy(hosts=["listed.example"], report_only=True, **options)
    [record] = await records_of(nursery, url, policy=policy)
    assert (record.decision, record.reason) == ("denied", reason)


async def test_an_address_behind_an_unlisted_name_is_still_checked(nursery: trio.Nursery) -> None:
    resolver = AnyHost("93.184.216.34", "10.0.0.1")
    [record] = await records_of(nursery, "http://other.example/", policy=TRIAL, resolver=resolver)
    assert (record.decision, record.reason, record.reported) == ("denied", "private", "not_in_allowlist")


async def test_a_grant_is_never_on_trial(nursery: trio.Nursery) -> None:
    async def nobody(host: str) -> bool:
        return False

    async with engine_with(nursery, serve, policy=TRIAL) as (engine, _):
        with pytest.raises(tidegate.HostDenied) as caught:
            await engine.fetch("http://other.example/", authorize=nobody)
    assert caught.value.reason == "not_granted"


async def test_check_shows_what_is_on_trial(nursery: trio.Nursery) -> None:
    async with engine_with(nursery, serve, policy=TRIAL) as (engine, _):
        other = await engine.check("http://other.example/")
        listed = await engine.check("http://listed.example/")
        inside = await engine.check("http://10.0.0.1/")
    assert other.allowed
    assert other.reason is None
    [on_list] = [check for check in other.checks if check.name == "host list"]
    assert (on_list.passed, on_list.reported) == (True, "not_in_allowlist")
    assert (
        on_list.detail == "other.example is not in allowed_hosts, which is only reported: report_only is on"
    )
    assert [check.reported for check in listed.checks] == [None] * len(listed.checks)
    assert (inside.allowed, inside.reason) == (False, "private")


def test_a_trial_needs_a_list() -> None:
    with pytest.raises(ValueError, match=r"report_only needs Policy\.hosts"):
        tidegate.Policy(report_only=True)
    with pytest.raises(ValueError, match="must be True or False"):
        tidegate.Policy(hosts=["a.example"], report_only=1)  # type: ignore[arg-type]
    assert not tidegate.Policy(hosts=[]).report_only
    assert tidegate.Policy(hosts=[], report_only=True).report_only


# The audit log -----------------------------------------------------------------------------------------


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def audited(
    nursery: trio.Nursery, path: Path, *urls: str, policy: tidegate.Policy | None = None, **options: Any
) -> list[dict[str, Any]]:
    """The audit lines of some fetches."""
    with AuditLog.to_file(path) as log:
        resolver = options.pop("blocked_addresses", None)
        observer = log.observer(policy, blocked_addresses=resolver)
        if resolver is not None:
            options["resolver"] = resolver
        async with engine_with(nursery, serve, policy=policy, observer=observer, **options) as (engine, _):
            for url in urls:
                with suppress(tidegate.FetchError):
                    await engine.fetch(url, key="agent", limits=tidegate.Limits(max_redirects=1))
        assert log.lost == 0
    return lines_of(path)


async def test_a_line_a_hop(nursery: trio.Nursery, tmp_path: Path, autojump_clock: Any) -> None:
    url = "http://a.example:8080/start?key=secret"
    first, last = await audited(nursery, tmp_path / "audit.jsonl", url)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    number = first.pop("fetch")
    assert first == {
        "event": "hop", "agent": "agent", "hop": 0, "method": "GET", "scheme": "http", "host": "a.example",
        "port": 8080, "decision": "allowed", "outcome": "success", "status": 302, "peer": "93.184.216.34",
        "reused": False, "wire_bytes": 0, "duration": 1.0,
        "seconds": {
            "check": 0.0, "admit": 0.0, "resolve": 0.0, "connect": 0.0, "send": 0.0, "head": 1.0,
            "redirect": 0.0,
        },
    }  # fmt: skip
    assert (last["fetch"], last["hop"], last["status"], last["reused"]) == (number, 1, 200, True)
    assert (last["wire_bytes"], last["content_bytes"]) == (7, 7)


async def test_the_rule_that_decided(nursery: trio.Nursery, tmp_path: Path, autojump_clock: Any) -> None:
    """The one that refused, or the entry of the policy that let the hop out."""
    policy = tidegate.Policy(
        hosts=["*.listed.example", "b.example", "10.1.2.3"],
        private_ranges=[tidegate.PrivateRange("10.0.0.0/8", "10.1.2.3")],
    )
    urls = {
        "http://a.listed.example/": "hosts *.listed.example",
        "http://b.example/": "hosts b.example",
        "http://10.1.2.3/": "private_ranges 10.0.0.0/8",
        "http://c.example/": "hosts",
        "nonsense": "url",
    }
    lines = await audited(nursery, tmp_path / "audit.jsonl", *urls, policy=policy)
    assert [line["rule"] for line in lines] == list(urls.values())
    lines = await audited(nursery, tmp_path / "any.jsonl", "http://a.example/", "http://10.0.0.1/")
    assert [line.get("rule") for line in lines] == [None, "floor"]


async def test_a_trial_in_the_log(nursery: trio.Nursery, tmp_path: Path, autojump_clock: Any) -> None:
    lines = await audited(
        nursery, tmp_path / "audit.jsonl", "http://other.example/", "http://10.0.0.1/", policy=TRIAL
    )
    told = [tuple(line.get(name) for name in ("decision", "reported", "rule", "reason")) for line in lines]
    assert told == [
        ("would_deny", "not_in_allowlist", "hosts", None),
        ("denied", "not_in_allowlist", "floor", "private"),
    ]


async def test_addresses_of_refused_hops_are_nowhere(nursery: trio.Nursery, tmp_path: Path) -> None:
    """W-F3: only for who asks for them, and then only what this very hop was refused for."""
    inside = AnyHost("10.9.8.7", "93.184.216.34")
    [line] = await audited(nursery, tmp_path / "no.jsonl", "http://a.example/", resolver=inside)
    assert line["reason"] == "private"
    assert "10.9.8.7" not in json.dumps(line)
    lines = await audited(
        nursery,
        tmp_path / "yes.jsonl",
        "http://a.example/",
        "http://a.example:22/",  # refused before DNS
        "http://10.0.0.1/",
        blocked_addresses=RememberingResolver(inside),
    )
    assert [line.get("blocked_addresses") for line in lines] == [["10.9.8.7", "93.184.216.34"], None, None]


class Key:
    def __str__(self) -> str:
        return "k" * 500


@pytest.mark.parametrize(
    ("key", "shown"), [(7, 7), ("crm", "crm"), ((1, "b"), "(1, 'b')"), (Key(), "k" * 128), (None, None)]
)
async def test_keys_of_all_kinds(key: object, shown: object, nursery: trio.Nursery, tmp_path: Path) -> None:
    with AuditLog.to_file(tmp_path / "audit.jsonl") as log:
        async with engine_with(nursery, serve, observer=log.observer()) as (engine, _):
            with pytest.raises(tidegate.Denied):
                await engine.fetch("http://10.0.0.1/", key=key)
    [line] = lines_of(tmp_path / "audit.jsonl")
    assert line.get("agent") == shown


def test_a_file_is_rotated_by_size(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    with AuditLog.to_file(path, max_bytes=1000, keep=2) as log:
        for number in range(100):
            log.write("test", {"number": number, "text": "x" * 100})
    files = [path, path.with_name("audit.jsonl.1"), path.with_name("audit.jsonl.2")]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    numbers = [line["number"] for file in reversed(files) for line in lines_of(file)]
    assert numbers == list(range(100 - len(numbers), 100))  # in order, none missing, the oldest gone
    assert (log.lost, path.stat().st_mode & 0o777) == (0, 0o600)
    assert all(file.stat().st_size <= 1000 for file in files)


def test_a_rotating_file_never_outgrows_its_bound(tmp_path: Path) -> None:
    sink = RotatingFile(tmp_path / "a", max_bytes=100, keep=1)
    for _ in range(9):
        sink.write(b"x" * 29 + b"\n")
        assert (tmp_path / "a").stat().st_size <= 100
    sink.close()
    assert [(tmp_path / name).stat().st_size for name in ("a", "a.1")] == [90, 90]


def test_an_existing_file_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for number in range(2):
        with AuditLog.to_file(path) as log:
            log.write("test", {"number": number})
    assert [line["number"] for line in lines_of(path)] == [0, 1]


@pytest.mark.parametrize("options", [{"max_bytes": 0}, {"keep": 0}])
def test_wrong_bounds(options: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        AuditLog.to_file(tmp_path / "a", **options)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
async def test_a_full_disk_fails_no_fetch(
    nursery: trio.Nursery, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The real error of the system, at every write: counted, told once, and harmless."""
    with caplog.at_level(logging.WARNING, "tidegate"):
        with AuditLog.to_file("/dev/full") as log:
            async with engine_with(nursery, serve, observer=log.observer()) as (engine, _):
                for _ in range(3):
                    assert (await engine.fetch("http://a.example/")).status == 200
        assert log.lost == 3
    assert caplog.messages == ["audit lines are being lost: No space left on device"]


def wait_until_lost(log: AuditLog, lines: int) -> None:
    """The writer is another thread: ask it to go on until it has tried."""
    for _ in range(10_000):
        if log.lost >= lines:
            return
        threading.Event().wait(0.001)
    raise AssertionError(f"{log.lost} lines are lost, not {lines}")


def test_a_gap_is_told_in_the_log_itself(tmp_path: Path) -> None:
    """As soon as it can be written again: here, the directory was missing."""
    path = tmp_path / "later" / "audit.jsonl"
    with AuditLog.to_file(path) as log:
        log.write("test", {"number": 1})
        wait_until_lost(log, 1)
        path.parent.mkdir()
        log.write("test", {"number": 2})
    gap, line = lines_of(path)
    assert gap == {"time": gap["time"], "event": "lost", "lines": 1}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", gap["time"])
    assert line["number"] == 2


FULL = """
import resource, sys, threading
from tidegate.telemetry import AuditLog
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
log = AuditLog.to_file("audit.jsonl")
log.write("test", {"text": "x" * 200})  # of which the system takes 100 bytes
while not log.lost:
    threading.Event().wait(0.001)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
log.write("test", {"number": 2})
log.close()
print(log.lost)
"""


def test_half_a_line_spoils_no_other(tmp_path: Path) -> None:
    """A real short write, by a limit of the system; in a process of its own, since it holds for all files."""
    done = subprocess.run([sys.executable, "-c", FULL], cwd=tmp_path, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"1\n", b"")
    torn, gap, line = (tmp_path / "audit.jsonl").read_bytes().splitlines()
    assert len(torn) == 100
    assert (json.loads(gap)["lines"], json.loads(line)["number"]) == (1, 2)


class Stuck:
    """A disk that does not answer until it is let go."""

    def __init__(self) -> None:
        self.asked, self.released = threading.Event(), threading.Event()
        self.written = b""

    def write(self, data: bytes) -> None:
        self.asked.set()
        self.released.wait()
        self.written += data

    def close(self) -> None:
        pass


async def test_a_disk_that_hangs_holds_up_nobody(nursery: trio.Nursery, autojump_clock: Any) -> None:
    """The queue is bounded; what does not fit is lost and counted. No virtual time passes."""
    disk = Stuck()
    log = AuditLog(disk, max_queue=5)
    log.write("test", {})
    disk.asked.wait()
    before = trio.current_time()
    async with engine_with(nursery, serve, observer=log.observer()) as (engine, _):
        for _ in range(8):
            with pytest.raises(tidegate.Denied):
                await engine.fetch("http://10.0.0.1/")
    assert (trio.current_time(), log.lost) == (before, 3)
    log.close(timeout=0.01)  # gives up on the disk, the line that it has in hand and those that wait
    assert log.lost == 3 + 1 + 5
    disk.released.set()
    log.write("test", {})
    assert log.lost == 10


def test_closing_writes_what_waits_and_is_harmless_twice(tmp_path: Path) -> None:
    disk = Stuck()
    log = AuditLog(disk)
    for number in range(200):
        log.write("test", {"number": number})
    disk.released.set()
    log.close()
    log.close()
    assert [json.loads(line)["number"] for line in disk.written.splitlines()] == list(range(200))


def test_a_defect_of_the_sink_does_not_end_the_writer() -> None:
    class Odd(Stuck):
        def write(self, data: bytes) -> None:
            if b"bad" in data:
                raise KeyError("what?")
            self.written += data

    disk = Odd()
    writer = LineWriter(disk, max_queue=10, clock=lambda: NOON)
    writer.put({"text": "bad"})
    for _ in range(10_000):
        if writer.lost:
            break
        threading.Event().wait(0.001)
    writer.put({"text": "good", "odd": object()})
    writer.close(5)
    assert [json.loads(line) for line in disk.written.splitlines()] == [
        {"time": "2027-01-15T08:00:00.000Z", "event": "lost", "lines": 1},
        {"text": "good", "odd": "<object>"},
    ]


def test_a_line_is_one_line_of_ascii(tmp_path: Path) -> None:
    with AuditLog.to_file(tmp_path / "audit.jsonl") as log:
        log.write("test", {"text": "a\nb\u2028c\u202ed\ud800\x1b[2J"})
    data = (tmp_path / "audit.jsonl").read_bytes()
    assert data.isascii()
    assert data.count(b"\n") == 1
    assert b"\x1b" not in data


PROGRAM = """
import sys
from tidegate.telemetry import AuditLog
log = AuditLog.to_stderr() if sys.argv[1] == "-" else AuditLog.to_file(sys.argv[1])
for number in range(50):
    log.write("test", {"number": number})
"""


@pytest.mark.parametrize("target", ["-", "audit.jsonl"])
def test_a_program_that_forgets_to_close_loses_nothing(target: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, target], cwd=tmp_path, capture_output=True, check=True
    )
    written = done.stderr if target == "-" else (tmp_path / target).read_bytes()
    assert [json.loads(line)["number"] for line in written.splitlines()] == list(range(50))


# Counters and logging ----------------------------------------------------------------------------------


async def test_counters(nursery: trio.Nursery, autojump_clock: Any) -> None:
    counters = Counters()
    async with engine_with(nursery, serve, policy=TRIAL, observer=counters.observer()) as (engine, _):
        for url in ("http://a.example/", "http://a.example/", "http://10.0.0.1/"):
            with suppress(tidegate.Denied):
                await engine.fetch(url)
    counted = counters.snapshot()
    good = counted[Outcome.SUCCESS, None]
    assert (good.hops, good.reported, good.wire_bytes, good.seconds) == (2, 2, 14, 2)
    assert counted[Outcome.BLOCKED, tidegate.Reason.PRIVATE].hops == 1
    assert len(counted) == 2


async def test_logging(nursery: trio.Nursery, autojump_clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    """One line a hop under `tidegate.fetch`; no path, no query."""
    with caplog.at_level(logging.INFO, "tidegate"):
        async with engine_with(nursery, serve, policy=TRIAL, observer=logging_observer()) as (engine, _):
            await engine.fetch("http://listed.example:8080/path?query")
            await engine.fetch("http://other.example/none")
            for url in ("http://10.0.0.1/path?query", "http://user:word@a.example/"):
                with pytest.raises(tidegate.FetchError):
                    await engine.fetch(url)
    assert {record.name for record in caplog.records} == {"tidegate.fetch"}
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "GET http://listed.example:8080 success status=200 bytes=7 ms=1000.0"),
        (
            "WARNING",
            "GET http://other.example success would_deny=not_in_allowlist status=404 bytes=7 ms=1000.0",
        ),
        ("WARNING", "GET http://10.0.0.1 blocked reason=private would_deny=not_in_allowlist ms=0.0"),
        ("WARNING", "- no valid URL blocked reason=userinfo_not_allowed ms=0.0"),
    ]


async def test_logging_to_another_logger(nursery: trio.Nursery, caplog: pytest.LogCaptureFixture) -> None:
    observer = logging_observer(logging.getLogger("mine"))
    with caplog.at_level(logging.INFO, "mine"):
        async with engine_with(nursery, serve, observer=observer) as (engine, _):
            with pytest.raises(tidegate.Denied):
                await engine.fetch("http://10.0.0.1/")
    assert [record.name for record in caplog.records] == ["mine"]


QUIET = """
import trio, tidegate
from contextlib import suppress
from tidegate.telemetry import logging_observer, Observers, AuditLog
class Broken:
    def on_event(self, event):
        raise RuntimeError("x")
async def main():
    log = AuditLog.to_file("/nowhere/audit.jsonl")
    observer = Observers(Broken(), logging_observer(), log.observer())
    for one in (observer, Broken()):
        async with tidegate.open_engine(observer=one) as engine:
            with suppress(tidegate.Denied):
                await engine.fetch("http://10.0.0.1/")
    log.close()
    assert log.lost
trio.run(main)
"""


def test_nothing_is_printed_unless_logging_is_set_up() -> None:
    """Not even what is a warning, which Python prints by itself if nobody handles it."""
    done = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


@contextmanager
def fresh_interpreter_modules(statement: str) -> Iterator[set[str]]:
    program = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    yield set(done.stdout.split())


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    """W-11: telemetry is opt-in, and OpenTelemetry needs a step of its own."""
    with fresh_interpreter_modules("import tidegate") as loaded:
        assert not {name for name in loaded if name.startswith(("tidegate.telemetry", "opentelemetry"))}
    with fresh_interpreter_modules("import tidegate.telemetry") as loaded:
        assert not {name for name in loaded if name.startswith(("tidegate.telemetry.otel", "opentelemetry"))}
    with fresh_interpreter_modules("import tidegate.telemetry.otel") as loaded:
        assert "opentelemetry.trace" in loaded


def test_without_the_extra_one_sentence_names_it(tmp_path: Path) -> None:
    (tmp_path / "opentelemetry.py").write_text(
        "raise ModuleNotFoundError('No module named opentelemetry', name='opentelemetry')"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import tidegate.telemetry.otel"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.rstrip().endswith("OpenTelemetry is not installed: pip install 'tidegate[otel]'")
