"""The SSRF floor under `web_request`, with and without an allow list, over https: the suite of the spec."""

import re
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import trio

import tidegate
from tests.support.data import corpus, rows_of_kind
from tests.support.engines import PUBLIC, AnyHost
from tests.support.fetch_tool import Site, answer
from tests.tools.web_request.agents import HOST, URL
from tests.tools.web_request.conftest import MakeAgent
from tidegate_tools.web_request.config import OPERATOR_FIELDS, WebRequestAgentOverride, WebRequestConfig

LISTED = pytest.mark.parametrize("listed", [False, True], ids=["any host", "allow list"])
"""W-14, W-152: the floor holds for a host that the operator lists, too."""


def hosts_of(listed: bool, *hosts: str) -> dict[str, Any]:
    return {"allowed_hosts": [*hosts]} if listed else {}


INTERNAL = [
    ("127.0.0.1", "loopback"), ("127.255.255.255", "loopback"), ("::1", "loopback"),
    ("169.254.0.1", "link_local"), ("fe80::1", "link_local"), ("febf::1", "link_local"),
    ("10.0.0.1", "private"), ("172.16.0.1", "private"), ("172.31.255.255", "private"),
    ("192.168.1.1", "private"), ("fc00::1", "ula"), ("fdff::1", "ula"),
    ("0.0.0.0", "unspecified"), ("::", "unspecified"),
    ("240.0.0.1", "reserved"), ("255.255.255.255", "reserved"), ("2001:db8::1", "reserved"),
    ("224.0.0.1", "multicast"), ("ff02::1", "multicast"),
    ("100.64.0.0", "cgnat"), ("100.127.255.255", "cgnat"),
    ("169.254.169.254", "imds"), ("168.63.129.16", "imds"), ("100.100.100.200", "imds"),
    ("fd00:ec2::254", "imds"),
    ("::ffff:169.254.169.254", "imds"), ("::ffff:a9fe:a9fe", "imds"), ("::ffff:127.0.0.1", "loopback"),
    ("64:ff9b::a9fe:a9fe", "imds"), ("64:ff9b::7f00:1", "loopback"), ("2002:a9fe:a9fe::", "imds"),
    ("2002:7f00:1::", "loopback"), ("fec0::1", "reserved"),
]  # fmt: skip
EVERY = pytest.mark.parametrize(("address", "reason"), INTERNAL, ids=[address for address, _ in INTERNAL])


@EVERY
@LISTED
async def test_literal(address: str, reason: str, listed: bool, agent: MakeAgent) -> None:
    """W-4, W-10, W-14, W-107..W-116, W-152, W-153, W-B4, W-C2, W-C9, cross-cutting 6, 7: as a host."""
    mine = agent(Site(), **hosts_of(listed, address))
    host = f"[{address}]" if ":" in address else address
    assert await mine.refusal(f"https://{host}/") == ("blocked", reason)
    assert mine.reached_nobody()


@EVERY
@LISTED
async def test_answer_of_dns(address: str, reason: str, listed: bool, agent: MakeAgent) -> None:
    """W-13, W-106..W-116, W-152, W-154, W-C3, W-C9: as what a name resolves to; one bad answer refuses."""
    for answers in ([address], [PUBLIC, address], [address, PUBLIC]):
        resolver = AnyHost(*answers)
        mine = agent(Site(), **hosts_of(listed, HOST), options={"resolver": resolver})
        error = await mine.error(URL)
        assert (error["outcome"], error["reason"]) == ("blocked", reason)
        assert address not in error["error"]
        assert resolver.asked == [HOST]
        assert not mine.connector.connected


@pytest.mark.parametrize(
    "address", ["100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "1.1.1.1"]
)
@LISTED
async def test_neighbours(address: str, listed: bool, agent: MakeAgent) -> None:
    """W-114 and the like: right beside a block is public."""
    mine = agent(Site(), **hosts_of(listed, HOST), options={"resolver": AnyHost(address)})
    await mine.get(URL)
    assert [str(target.address) for target in mine.connector.connected] == [address]


DISGUISED = [
    "2130706433", "0177.0.0.1", "0x7f000001", "127.1", "0x7f.1", "127.0.0.1.", "017700000001", "1",
    "\uff11\uff12\uff17.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("host", DISGUISED)
async def test_disguised_address(host: str, agent: MakeAgent) -> None:
    """W-117..W-119, W-153, AMB-82: refused as such without a question to any resolver."""
    mine = agent(Site())
    assert await mine.refusal(f"https://{host}/") == ("blocked", "non_canonical_ip")
    assert mine.reached_nobody()


@pytest.mark.parametrize("host", ["localhost", "printer", "a.localhost", "db.internal", "nas.local"])
@LISTED
async def test_local_names(host: str, listed: bool, agent: MakeAgent) -> None:
    """D-8."""
    mine = agent(Site(), **hosts_of(listed, host))
    assert await mine.refusal(f"https://{host}/") == ("blocked", "local_name")
    assert mine.reached_nobody()


# Allow lists ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "host", "allowed"),
    [
        ([HOST], HOST, True),
        ([HOST], "API.Example.com", True),
        ([HOST], f"{HOST}.", True),
        ([HOST], "sub.api.example.com", False),
        ([HOST], "example.com", False),
        ([HOST], "evil-api.example.com", False),
        (["*.example.com"], HOST, True),
        (["*.example.com"], "a.b.example.com", True),
        (["*.example.com"], "example.com", False),
        (["*.example.com"], "notexample.com", False),
        (["Bücher.example"], "xn--bcher-kva.example", True),
        (["xn--bcher-kva.example"], "bücher.example", True),
        (["xn--bcher-kva.example"], "bucher.example", False),
        ([], HOST, False),
        (["8.8.8.8"], "8.8.8.8", True),
        (["8.8.8.8"], "8.8.4.4", False),
    ],
)  # fmt: skip
async def test_allow_list(entries: list[str], host: str, allowed: bool, agent: MakeAgent) -> None:
    """Before any DNS: case, one final dot and script aside; a star at any depth, never the apex.

    W-6, W-27, W-42, W-47, W-74, W-101..W-104, W-124, W-125, W-137, W-153, W-155, W-C1, W-C10, W-J5, AMB-75,
    AMB-77.
    """
    mine = agent(Site(), allowed_hosts=entries)
    if allowed:
        await mine.get(f"https://{host}/")
        return
    assert await mine.refusal(f"https://{host}/") == ("blocked", "not_in_allowlist")
    assert mine.reached_nobody()


@pytest.mark.parametrize("row", rows_of_kind("allowlist"), ids=lambda row: row["id"])
async def test_allow_list_rows(row: dict[str, Any], agent: MakeAgent) -> None:
    """W-155, D-15: every row of the URL corpus about host lists."""
    try:
        mine = agent(Site(), allowed_hosts=[row["pattern"]])
    except ValueError:
        assert row["expect"] == "error", row["why"]
        return
    result = await mine.call(f"https://{row['host']}/")
    assert result.ok is (row["expect"] == "allow"), (row["why"], result.value)
    assert result.ok or mine.reached_nobody()


# The pin --------------------------------------------------------------------------------------------------


class Rebinding:
    """A resolver that says something else every time."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def resolve(self, host: str) -> Sequence[Any]:
        await trio.lowlevel.checkpoint()
        self.asked.append(host)
        return [ip_address(self._answers.pop(0))]


@LISTED
async def test_rebinding(listed: bool, agent: MakeAgent) -> None:
    """W-4, W-105, W-120, W-123, W-170, cross-cutting 1: the answer that was checked is dialled.

    The next call asks afresh; what it hears is checked like the first answer.
    """
    resolver = Rebinding(PUBLIC, "127.0.0.1", "8.8.8.8")
    mine = agent(Site(), **hosts_of(listed, HOST), options={"resolver": resolver})
    await mine.get(URL)
    assert await mine.refusal(URL) == ("blocked", "loopback")
    await mine.get(URL)
    assert [str(target.address) for target in mine.connector.connected] == [PUBLIC, "8.8.8.8"]
    assert resolver.asked == [HOST] * 3


async def test_both_families_count(agent: MakeAgent) -> None:
    """Cross-cutting 2: a public A beside a loopback AAAA is refused."""
    mine = agent(Site(), options={"resolver": AnyHost("::1", PUBLIC)})
    assert await mine.refusal(URL) == ("blocked", "loopback")


async def test_host_and_name_of_the_certificate(agent: MakeAgent) -> None:
    """W-121, W-122, W-170: Host with its port as the URL has it; the certificate is for the name."""
    site = Site()
    mine = agent(site)
    await mine.get("https://API.example.com:8443/")
    assert site.requests[0].field("host") == "api.example.com:8443"
    [target] = mine.connector.connected
    assert (target.host, target.port, str(target.address)) == (HOST, 8443, PUBLIC)


ROWS = {
    "ipv4-special", "ipv4-noncanonical", "ipv4-unicode", "name-unicode", "ipv6-literal", "ipv6-zone",
    "ipv6-malformed", "userinfo", "backslash", "whitespace-control", "percent-host", "authority-edge",
    "scheme", "scheme-malformed", "port", "bad-port", "host-syntax", "special-name", "wildcard-dns",
    "dns-answer",
}  # fmt: skip
DENIED = [
    row
    for row in corpus("urls")
    if row["kind"] in ROWS and "allow" not in {row["expect"], *row.get("also", ())}
]


class Answering:
    """Answers as a row of the corpus says; which one, is set from outside."""

    row: dict[str, Any]

    async def resolve(self, host: str) -> Sequence[Any]:
        await trio.lowlevel.checkpoint()
        zone = self.row.get("dns", {})
        answer = zone.get(host, zone.get("*"))
        if not isinstance(answer, dict) or not set(answer) & {"A", "AAAA"}:
            raise tidegate.ResolutionError("no such name")
        texts = [*answer.get("AAAA", ()), *answer.get("A", ())]
        return [ip_address(text) for text in texts if len(text) > 1]  # one row counts its answers in words


@pytest.mark.parametrize("https", [True, False], ids=["https floor", "http allowed"])
async def test_denied_rows(https: bool, agent: MakeAgent) -> None:
    """W-33, W-97..W-100, W-152, W-153, W-156, cross-cutting 6: whatever the URL corpus denies, in one sweep.

    Over http such a test is vacuous while the https floor refuses first; so every URL is tried over https.
    """
    resolver = Answering()
    mine = agent(Site(), require_https=https, options={"resolver": resolver})
    for row in DENIED:
        resolver.row = row
        for url in (row["input"], re.sub("(?i)^http:", "https:", row["input"])):
            result = await mine.call(url)
            assert not result.ok, (row["id"], url, result.value)
            assert mine.connector.connected == [], row["id"]


FLOOR_FIELDS = {
    "allowed_hosts": ["127.0.0.1", "169.254.169.254", "10.0.0.1", "localhost", HOST],
    "require_https": False,
    "timeout_seconds": 120,
    "max_response_bytes": 10_000_000,
    "max_request_bytes": 10_000_000,
    "max_redirects": 10,
    "auth": [{"host": "169.254.169.254", "headers": {"Metadata": {"env": "SECRET"}}}],
    "request_rules": [{"host": "169.254.169.254"}],
    "report_only": True,
    "allow_agent_override": True,
    "nameservers": ["169.254.169.253"],
    "private_ranges": [{"cidr": "0.0.0.0/0", "hosts": ["169.254.169.254", HOST]}],
}
"""Every field that a configuration has, set to whatever might open something."""


def test_every_field_is_tried() -> None:
    """W-5."""
    assert set(FLOOR_FIELDS) | {"ca_file"} == set(WebRequestConfig.model_fields)


@pytest.mark.parametrize("names", [*([name] for name in FLOOR_FIELDS), list(FLOOR_FIELDS)], ids=str)
async def test_no_field_opens_the_floor(names: list[str], agent: MakeAgent) -> None:
    """W-5, W-18, W-28, AMB-47: neither one field nor all of them together, for what may never be reached."""
    config = {name: FLOOR_FIELDS[name] for name in names}
    if "private_ranges" in config:
        with pytest.raises(ValueError, match="loopback"):
            agent(Site(), **config)
        config["private_ranges"] = [{"cidr": "169.0.0.0/8", "hosts": ["169.254.169.254", HOST]}]
    options = {"environment": {"SECRET": "sk-live-0123456789"}}
    mine = agent(Site(), **config, options={**options, "resolver": AnyHost("169.254.169.254")})
    for url in (
        "https://169.254.169.254/",
        URL,
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://localhost/",
    ):
        assert (await mine.refusal(url))[0] == "blocked"
    assert not mine.connector.connected


async def test_a_private_range_and_its_hosts(agent: MakeAgent) -> None:
    """W-49, D-12: the operator's exception holds for its hosts and its range, for nothing else."""
    ranges = [{"cidr": "10.20.0.0/16", "hosts": ["db.corp.internal"]}]
    for host, address, reason in (
        ("db.corp.internal", "10.20.0.1", None),
        ("db.corp.internal", "10.21.0.1", "private"),
        ("api.example.com", "10.20.0.1", "private"),
        ("other.corp.internal", "10.20.0.1", "local_name"),
    ):
        mine = agent(Site(), private_ranges=ranges, options={"resolver": AnyHost(address)})
        result = await mine.call(f"https://{host}/")
        assert (result.error.reason if result.error else None) == reason


def test_an_agent_has_no_say_in_the_floor() -> None:
    """W-49, D-12: exceptions are the operator's; the object of an agent has no such field."""
    assert {
        "private_ranges", "nameservers", "ca_file", "report_only", "allow_agent_override",
    } == OPERATOR_FIELDS  # fmt: skip
    for name in OPERATOR_FIELDS:
        with pytest.raises(ValueError, match="Extra inputs"):
            WebRequestAgentOverride.model_validate({name: FLOOR_FIELDS.get(name, "x")})


# The environment ------------------------------------------------------------------------------------------


async def test_the_environment_steers_nothing(
    agent: MakeAgent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """AMB-85, D-17, X-29: no proxy, no .netrc, no key log."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:3128")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    (tmp_path / ".netrc").write_text(f"machine {HOST} login me password secret\n")
    site = Site()
    mine = agent(site)
    await mine.get(URL)
    assert [str(target.address) for target in mine.connector.connected] == [PUBLIC]
    assert site.requests[0].line == "GET / HTTP/1.1"
    assert site.requests[0].field("authorization") is None
    assert not (tmp_path / "keys").exists()


async def test_no_cookies_are_kept(agent: MakeAgent) -> None:
    """W-32, X-29."""
    site = Site(default=answer(b"", "200 OK", "Set-Cookie: a=b"))
    mine = agent(site)
    await mine.get(URL)
    await mine.get(URL)
    assert [request.field("cookie") for request in site.requests] == [None, None]
