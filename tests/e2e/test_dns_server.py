"""The scriptable DNS server answers as its zone says; asked here over loopback, no namespace needed."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dns.asyncquery
import dns.exception
import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdatatype
import pytest
import trio

from tests.support.data import ROOT
from tidegate.testing.dns import DnsServer, open_dns_server

ZONE: dict[str, object] = {
    "www.example.com": {"A": ["93.184.216.34"], "AAAA": ["2606:2800:220:1::34"], "ttl": 60},
    "rebind.example.com": [{"A": ["93.184.216.34"]}, {"A": ["127.0.0.1"]}],
    "flaky.example.com": ["SERVFAIL", {"A": ["93.184.216.34"]}],
    "gone.example.com": "NXDOMAIN",
    "broken.example.com": "SERVFAIL",
    "refused.example.com": "REFUSED",
    "hole.example.com": "TIMEOUT",
    "one.example.com": {"CNAME": "Two.Example.com."},
    "two.example.com": {"CNAME": "www.example.com"},
    "loop.example.com": {"CNAME": "pool.example.com"},
    "pool.example.com": {"CNAME": "loop.example.com"},
    "dangling.example.com": {"CNAME": "gone.example.com"},
    "answer.example.com": {"CNAME": "metadata.google.internal", "A": ["169.254.169.254"]},
    "many.example.com": {"A": [f"93.184.{block}.{host}" for block in (216, 217) for host in range(250)]},
    "tcp.example.com": {"A": ["93.184.216.34"], "truncate": True},
    "slow.example.com": {"A": ["93.184.216.34"], "AAAA": ["2606:2800:220:1::34"], "delay": {"AAAA": 3600}},
}


async def ask(
    server: DnsServer,
    name: str,
    kind: str = "A",
    *,
    tcp: bool = False,
    edns: bool = True,
    host: str = "127.0.0.1",
) -> dns.message.Message:
    query = dns.message.make_query(name, kind, use_edns=edns)
    send = dns.asyncquery.tcp if tcp else dns.asyncquery.udp
    return await send(query, host, port=server.port)


def records(response: dns.message.Message, kind: str) -> list[str]:
    wanted = dns.rdatatype.from_text(kind)
    return [record.to_text() for rrset in response.answer if rrset.rdtype == wanted for record in rrset]


@pytest.mark.parametrize("tcp", [False, True])
@pytest.mark.parametrize(
    ("name", "kind", "rcode", "answer"),
    [
        ("www.example.com", "A", "NOERROR", ["93.184.216.34"]),
        ("WWW.Example.COM.", "A", "NOERROR", ["93.184.216.34"]),
        ("www.example.com", "AAAA", "NOERROR", ["2606:2800:220:1::34"]),
        ("www.example.com", "TXT", "NOERROR", []),
        ("rebind.example.com", "AAAA", "NOERROR", []),
        ("gone.example.com", "A", "NXDOMAIN", []),
        ("not.in.the.zone", "A", "NXDOMAIN", []),
        ("broken.example.com", "A", "SERVFAIL", []),
        ("refused.example.com", "A", "REFUSED", []),
        ("one.example.com", "A", "NOERROR", ["93.184.216.34"]),
        ("dangling.example.com", "A", "NXDOMAIN", []),
        ("answer.example.com", "A", "NOERROR", ["169.254.169.254"]),
    ],
)
async def test_answers(name: str, kind: str, rcode: str, answer: Sequence[str], tcp: bool) -> None:
    async with open_dns_server(ZONE) as server:
        response = await ask(server, name, kind, tcp=tcp)
    assert dns.rcode.to_text(response.rcode()) == rcode
    assert records(response, kind) == answer


async def test_chains_are_shown_link_by_link() -> None:
    async with open_dns_server(ZONE) as server:
        response = await ask(server, "one.example.com")
        assert records(response, "CNAME") == ["two.example.com.", "www.example.com."]
        target = await ask(server, "answer.example.com")
        assert [rrset.name.to_text() for rrset in target.answer] == [
            "answer.example.com.",
            "metadata.google.internal.",
        ]


async def test_a_loop_ends() -> None:
    async with open_dns_server(ZONE) as server:
        response = await ask(server, "loop.example.com", tcp=True)
    assert set(records(response, "CNAME")) == {"loop.example.com.", "pool.example.com."}
    assert records(response, "A") == []


async def test_successive_answers_are_counted_by_name_and_type() -> None:
    async with open_dns_server(ZONE) as server:
        await ask(server, "rebind.example.com", "AAAA")
        answers = [records(await ask(server, "rebind.example.com"), "A") for _ in range(3)]
        assert answers == [["93.184.216.34"], ["127.0.0.1"], ["127.0.0.1"]]
        codes = [(await ask(server, "flaky.example.com")).rcode() for _ in range(2)]
        assert codes == [dns.rcode.SERVFAIL, dns.rcode.NOERROR]
        assert server.count("rebind.example.com") == 4
        assert server.count("Rebind.example.com.", "A", "udp") == 3
        assert server.count("rebind.example.com", "A", "tcp") == server.count("other.example.com") == 0


async def test_a_new_zone_starts_afresh() -> None:
    async with open_dns_server(ZONE) as server:
        await ask(server, "rebind.example.com")
        server.set_zone({"rebind.example.com": ZONE["rebind.example.com"], "*": {"A": ["8.8.8.8"]}})
        assert records(await ask(server, "rebind.example.com"), "A") == ["93.184.216.34"]
        assert records(await ask(server, "www.example.com"), "A") == ["8.8.8.8"]


@pytest.mark.parametrize("edns", [False, True])
async def test_hundreds_of_addresses_need_tcp(edns: bool) -> None:
    async with open_dns_server(ZONE) as server:
        over_udp = await ask(server, "many.example.com", edns=edns)
        assert over_udp.flags & dns.flags.TC
        assert len(records(await ask(server, "many.example.com", tcp=True), "A")) == 500


async def test_an_answer_can_be_had_by_tcp_only() -> None:
    async with open_dns_server(ZONE) as server:
        over_udp = await ask(server, "tcp.example.com")
        assert (bool(over_udp.flags & dns.flags.TC), records(over_udp, "A")) == (True, [])
        assert records(await ask(server, "tcp.example.com", tcp=True), "A") == ["93.184.216.34"]


@pytest.mark.parametrize(("name", "kind"), [("hole.example.com", "A"), ("slow.example.com", "AAAA")])
async def test_what_is_silent_or_slow_holds_up_nothing_else(name: str, kind: str) -> None:
    async with open_dns_server(ZONE) as server, trio.open_nursery() as nursery:
        nursery.start_soon(ask, server, name, kind)
        while not server.count(name):
            await trio.lowlevel.checkpoint()
        assert records(await ask(server, "slow.example.com"), "A") == ["93.184.216.34"]
        nursery.cancel_scope.cancel()


async def test_junk_is_ignored() -> None:
    async with open_dns_server(ZONE) as server:
        sock = trio.socket.socket(type=trio.socket.SOCK_DGRAM)
        with sock:
            for junk in (b"", b"\0", b"x" * 100, dns.message.Message().to_wire()):
                await sock.sendto(junk, ("127.0.0.1", server.port))
            assert records(await ask(server, "www.example.com"), "A") == ["93.184.216.34"]
        assert server.queries.total() == 1


def not_a_query(kind: str) -> bytes:
    query = dns.message.make_query("www.example.com", "A")
    if kind == "response":
        return dns.message.make_response(query).to_wire()
    query.set_opcode(dns.opcode.from_text(kind))
    return query.to_wire()


@pytest.mark.parametrize("tcp", [False, True])
@pytest.mark.parametrize("kind", ["response", "IQUERY", "STATUS", "NOTIFY", "UPDATE"])
async def test_what_is_no_query_is_ignored(kind: str, tcp: bool) -> None:
    wire = not_a_query(kind)
    async with open_dns_server(ZONE) as server:
        if tcp:
            async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
                await stream.send_all(len(wire).to_bytes(2) + wire)
                await stream.send_eof()
                assert await stream.receive_some() == b""
        else:
            with trio.socket.socket(type=trio.socket.SOCK_DGRAM) as sock:
                await sock.sendto(wire, ("127.0.0.1", server.port))
        assert records(await ask(server, "www.example.com"), "A") == ["93.184.216.34"]
        assert server.queries.total() == 1
        assert not server.errors


@pytest.mark.parametrize("payload", [0, 100, 512, 65535])
async def test_any_size_can_be_said_in_edns(payload: int) -> None:
    """RFC 6891, 6.2.3: less than 512 is 512; and no more is sent than a datagram can hold."""
    zone = {"large.example.com": {"A": [f"10.0.{n // 250}.{n % 250}" for n in range(4090)]}}
    query = dns.message.make_query("large.example.com", "A", use_edns=0, payload=payload)
    async with open_dns_server(zone) as server:
        response = await dns.asyncquery.udp(query, "127.0.0.1", port=server.port, timeout=5)
        assert not server.errors
    assert bool(response.flags & dns.flags.TC) == (payload < 65535)


async def test_an_address_in_use_is_named() -> None:
    async with open_dns_server(ZONE) as server:
        with pytest.raises(OSError, match=f"127.0.0.1:{server.port}: Address already in use"):
            async with open_dns_server(ZONE, port=server.port):
                pass


async def test_a_name_stands_once_in_a_zone() -> None:
    with pytest.raises(ValueError, match="twice"):
        DnsServer({"a.example": "TIMEOUT", "A.Example.": "SERVFAIL"})


async def test_it_serves_ipv6_too() -> None:
    async with open_dns_server(ZONE, host="::1") as server:
        assert records(await ask(server, "www.example.com", host="::1"), "A") == ["93.184.216.34"]


@pytest.mark.parametrize(
    "answer",
    [
        {"a": ["93.184.216.34"]},
        {"A": "93.184.216.34"},
        {"A": ["93.184.216.256"]},
        {"A": ["::1"]},
        {"AAAA": ["127.0.0.1"]},
        {"CNAME": "two..dots"},
        {"A": [1]},
        {"CNAME": 5},
        {"delay": "2"},
        {"delay": -1},
        {"delay": {"AAAA": True}},
        {"delay": {"a": 1}},
        {"delay": {"NOSUCHTYPE": 1}},
        {"ttl": []},
        {"ttl": 2**31},
        {"ttl": float("nan")},
        {"truncate": "no"},
        "NOSUCHCODE",
        [{"A": []}, 5],
        5,
    ],
)
async def test_a_zone_that_makes_no_sense_names_the_culprit(answer: object) -> None:
    with pytest.raises(ValueError, match=r"'bad\.example'"):
        async with open_dns_server({"bad.example": answer}):
            pass


@pytest.mark.parametrize("zone", [[], "TIMEOUT", None, 5])
async def test_a_zone_is_an_object(zone: Any) -> None:
    with pytest.raises(ValueError, match="the zone must be an object by name"):
        async with open_dns_server(zone):
            pass


@pytest.mark.parametrize("name", ["a..b", "a" * 64])
async def test_a_zone_is_about_names(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}'"):
        async with open_dns_server({name: "TIMEOUT"}):
            pass


def run_program(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tidegate.testing.dns", *options]
    return subprocess.run(command, input="", capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize(
    ("content", "told"),
    [("[]", "must be an object by name"), ("{", "Expecting"), ('{"a": 5}', "answer for 'a'")],
)
def test_a_file_that_is_no_zone_is_told_in_a_sentence(content: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "zone.json").write_text(content)
    done = run_program("--zone", str(tmp_path / "zone.json"), "--exit-with-stdin")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"tidegate.testing.dns: {tmp_path}/zone.json: ")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_shows_a_zone(tmp_path: Path) -> None:
    """What stands there can be cut out and served."""
    text = run_program("--help").stdout
    shown = re.search(r"^    (\{\n.*?^    \})$", text, re.MULTILINE | re.DOTALL)
    assert shown is not None
    DnsServer(json.loads(shown[1]))
    for word in ("CNAME", "TIMEOUT", "delay", "truncate", "ttl", "NXDOMAIN"):
        assert word in text


def readme_zone() -> str:
    page = (ROOT / "engine/tidegate/testing/README.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- file: zone\.json -->\n```json\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    return shown[1]


@pytest.mark.parametrize(
    ("zone", "name"), [(json.dumps(ZONE), "www.example.com"), (readme_zone(), "alias.example.com")]
)
def test_the_program_serves_a_file_and_counts(zone: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / "zone.json"
    file.write_text(zone)
    command = [sys.executable, "-m", "tidegate.testing.dns", "--zone", str(file), "--exit-with-stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        server = DnsServer({})
        server.port = json.loads(program.stdout.readline())["port"]
        assert records(trio.run(ask, server, name), "A") == ["93.184.216.34"]
        program.stdin.close()
        assert json.loads(program.stdout.readline()) == {"queries": [[name, "A", "udp", 1]]}
        assert program.wait(timeout=10) == 0
