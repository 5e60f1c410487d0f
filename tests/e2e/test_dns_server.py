"""The scriptable DNS server answers as its zone says; asked here over loopback, no namespace needed."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import dns.asyncquery
import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest
import trio

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
        "NOSUCHCODE",
        [{"A": []}, 5],
        5,
    ],
)
async def test_a_zone_that_makes_no_sense_names_the_culprit(answer: object) -> None:
    with pytest.raises(ValueError, match=r"'bad\.example'"):
        async with open_dns_server({"bad.example": answer}):
            pass


def test_the_program_serves_a_file_and_counts(tmp_path: Path) -> None:
    zone = tmp_path / "zone.json"
    zone.write_text(json.dumps(ZONE))
    command = [sys.executable, "-m", "tidegate.testing.dns", "--zone", str(zone), "--exit-with-stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        server = DnsServer({})
        server.port = json.loads(program.stdout.readline())["port"]
        assert records(trio.run(ask, server, "www.example.com"), "A") == ["93.184.216.34"]
        program.stdin.close()
        assert json.loads(program.stdout.readline()) == {"queries": [["www.example.com", "A", "udp", 1]]}
        assert program.wait(timeout=10) == 0
