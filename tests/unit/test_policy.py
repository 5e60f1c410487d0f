"""D-7, D-8, D-11, D-12, D-15, D-22, W-5, W-50: what an operator's policy lets through before DNS."""

import dataclasses
import pickle
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate._policy.address import classify_address, may_never_be_admitted, wrapped_addresses
from tidegate._policy.fields import CREDENTIAL_FIELDS, OWN_FIELDS
from tidegate._policy.host import HostList
from tidegate._policy.messages import METHODS, Request
from tidegate._policy.policy import TARGET_RULES, Policy, PrivateRange, RequestRule, check_target
from tidegate._policy.ports import BAD_PORTS
from tidegate._policy.reasons import AddressClass, Reason
from tidegate._policy.url import URL, parse_url
from tidegate.errors import Denied, HostDenied, PortDenied, SchemeDenied

NAMED = "db.corp.example"


def request(url: URL, method: str, *fields: tuple[str, str]) -> Request:
    return Request(method, url, fields, b"")


def refusal(policy: Policy, text: str, method: str = "GET") -> Denied:
    with pytest.raises(Denied) as caught:
        check_target(policy, request(parse_url(text), method))
    return caught.value


def admits(rule: PrivateRange, address: str, host: str = NAMED) -> bool:
    return rule.admits(parse_url(f"https://{host}/").host, ip_address(address))


def private_range(cidr: Any, hosts: Any = NAMED) -> PrivateRange:
    return PrivateRange(cidr, hosts)


# Private ranges: which rules there can be -------------------------------------------------------------


@pytest.mark.parametrize(
    ("cidr", "shown"),
    [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.20.0.0/16", "10.20.0.0/16"),
        ("10.0.0.1", "10.0.0.1/32"),
        ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
        ("100.64.0.0/10", "100.64.0.0/10"),
        ("127.0.0.0/8", "127.0.0.0/8"),
        ("127.0.0.1", "127.0.0.1/32"),
        ("::1", "::1/128"),
        ("FD12:3456::/32", "fd12:3456::/32"),
        ("64:ff9b:1::/48", "64:ff9b:1::/48"),
        ("64:ff9b:1::/96", "64:ff9b:1::/96"),
        ("240.0.0.0/4", "240.0.0.0/4"),
        ("255.255.255.254/31", "255.255.255.254/31"),
        ("93.184.216.0/24", "93.184.216.0/24"),
    ],
)
def test_a_range_is_written_as_a_block(cidr: str, shown: str) -> None:
    rule = private_range(cidr)
    assert rule.cidr == shown
    assert rule.hosts == (NAMED,)


@pytest.mark.parametrize(
    "cidr",
    [
        "10.0.0.1/8",  # host bits: nobody knows which of the two was meant
        "10.0.0.0/33", "10/8", "10.0.0/8", "010.0.0.0/8", "0xa.0.0.0/8", "167772160", " 10.0.0.0/8",
        "10.0.0.0/8\n", "10.0.0.0/8/8", "10.0.0.0-10.0.0.255", "10.0.0.0/", "/8", "", "*", "fd00::/129",
        "[fd00::]/8", "db.internal", "１0.0.0.0/8", "10.0.0.0/٨",
    ],
)  # fmt: skip
def test_what_is_no_block_is_refused(cidr: str) -> None:
    with pytest.raises(ValueError, match=r"is no CIDR block such as '10\.20\.0\.0/16'"):
        private_range(cidr)


@pytest.mark.parametrize(
    "cidr", [None, 10, 167772160, b"10.0.0.0/8", ("10.0.0.0", 8), ip_network("10.0.0.0/8")]
)
def test_a_range_is_text(cidr: Any) -> None:
    """`ip_network` takes numbers and bytes, too; an operator who writes those has slipped."""
    with pytest.raises(ValueError, match=rf"must be text .*, not {type(cidr).__name__}$"):
        private_range(cidr)


@pytest.mark.parametrize(
    "cidr",
    [
        "169.254.0.0/16", "169.254.169.254/32", "169.254.170.2", "169.254.0.0/17", "168.63.129.16",
        "100.100.100.200/32", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23/128",
        "fd20:ce::254", "fe80::/10", "fe80::/64", "fe80::1", "fe80::%eth0/64", "224.0.0.0/4", "239.0.0.0/8",
        "ff00::/8", "ff02::1", "0.0.0.0/32", "0.0.0.0", "::/128", "255.255.255.255",
        # What wraps them: NAT64, 6to4, IPv4-compatible, Teredo, ISATAP.
        "64:ff9b::169.254.0.0/112", "64:ff9b::a9fe:a9fe", "64:ff9b::e000:0/100", "2002:a9fe:a9fe::/48",
        "2002:e000::/20", "::a9fe:a9fe", "2001:0:a9fe:a9fe::/64", "fd00::5efe:a9fe:a9fe",
    ],
)  # fmt: skip
def test_ranges_that_no_rule_can_admit_are_refused_when_the_rule_is_built(cidr: str) -> None:
    """D-12: `imds`, link-local, multicast, unspecified and broadcast, and what wraps one of those."""
    with pytest.raises(ValueError, match="can not be admitted by any rule"):
        private_range(cidr)


@pytest.mark.parametrize(
    "cidr", ["::ffff:10.0.0.0/104", "::ffff:0:0/96", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe"]
)
def test_a_range_of_mapped_addresses_is_refused(cidr: str) -> None:
    """D-6: a mapped address is judged as IPv4, so the rule would look like one and never admit anything."""
    with pytest.raises(ValueError, match="write it as an IPv4 range"):
        private_range(cidr)


@pytest.mark.parametrize("hosts", [[], (), iter(())])
def test_a_range_is_bound_to_hosts(hosts: Any) -> None:
    """D-12: an exception for everybody is no exception."""
    with pytest.raises(ValueError, match="names no hosts"):
        private_range("10.0.0.0/8", hosts)


@pytest.mark.parametrize(
    "hosts",
    [
        "", [""], ["*", NAMED], [NAMED, "*"], ["*", "*"], ["*.*"], "**", "**.corp.example", ["*.com"],
        "db.corp.example:5432", "https://db.corp.example", "10.0.0.0/8", f"{NAMED},b.example", ["*.0.0.10"],
    ],
)  # fmt: skip
def test_hosts_that_cannot_be_meant(hosts: Any) -> None:
    """D-15: the same rules as for a host list, with the star alone for fake-IP proxies only."""
    with pytest.raises(ValueError, match=r"Host list entry .* is refused"):
        private_range("198.18.0.0/15", hosts)


@pytest.mark.parametrize("hosts", [None, 5, object(), [None], [b"db.corp.example"], [NAMED, 5]])
def test_hosts_are_a_list_of_texts(hosts: Any) -> None:
    with pytest.raises(ValueError, match=r"hosts of a private range must be a list, not|is not a text"):
        private_range("10.0.0.0/8", hosts)


# Private ranges: whom they admit ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cidr", "address", "admitted"),
    [
        ("10.20.0.0/16", "10.20.0.0", True),
        ("10.20.0.0/16", "10.20.255.255", True),
        ("10.20.0.0/16", "10.19.255.255", False),
        ("10.20.0.0/16", "10.21.0.0", False),
        ("10.20.0.0/16", "192.168.0.1", False),
        ("10.20.0.0/16", "fd00::a14:1", False),
        ("10.20.0.0/16", "64:ff9b::10.20.0.1", False),  # another address; the rule says IPv4
        ("10.20.0.0/16", "2002:a14:1::", False),
        ("10.20.0.0/16", "::ffff:10.20.0.1", False),  # is asked as 10.20.0.1: see test_pin.py
        ("fd12:3456::/32", "fd12:3456::1", True),
        ("fd12:3456::/32", "fd12:3457::", False),
        ("fd12:3456::/32", "10.0.0.1", False),
        ("100.64.0.0/10", "100.64.0.1", True),
        ("64:ff9b::a00:0/104", "64:ff9b::10.0.0.1", True),
        ("64:ff9b:1::/96", "64:ff9b:1::10.0.0.1", True),
    ],
)
def test_a_rule_admits_its_own_range_and_nothing_beside_it(cidr: str, address: str, admitted: bool) -> None:
    assert admits(private_range(cidr), address) is admitted


@pytest.mark.parametrize(
    ("hosts", "host", "named"),
    [
        (["db.corp.example"], "db.corp.example", True),
        (["db.corp.example"], "DB.Corp.Example.", True),
        (["DB.Corp.Example."], "db.corp.example", True),
        (["db.corp.example"], "corp.example", False),
        (["db.corp.example"], "a.db.corp.example", False),
        (["db.corp.example"], "xdb.corp.example", False),
        (["db.corp.example"], "db.corp.example.evil.example", False),
        (["*.corp.example"], "db.corp.example", True),
        (["*.corp.example"], "a.b.corp.example", True),
        (["*.corp.example"], "corp.example", False),
        (["*.corp.example"], "xcorp.example", False),
        (["a.example", "*.internal"], "db.internal", True),
        ("*.home.arpa", "nas.home.arpa", True),
        ("localhost", "localhost", True),
        ("10.20.0.5", "10.20.0.5", True),
        ("10.20.0.5", "10.20.0.6", False),
        ("[fd00:0::5]", "[fd00::5]", True),
        ("bücher.example", "xn--bcher-kva.example", True),
    ],
)
def test_a_rule_is_for_the_hosts_it_names(hosts: Any, host: str, named: bool) -> None:
    """D-12, D-15: only those may resolve into the range; a literal only if it is listed itself."""
    rule = private_range("10.20.0.0/16", hosts)
    url = parse_url(f"https://{host}/")
    assert rule.names(url.host) is named
    assert rule.admits(url.host, ip_address("10.20.1.2")) is named


WIDE = [
    "0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "96.0.0.0/3", "160.0.0.0/3", "168.0.0.0/5", "224.0.0.0/3",
    "192.0.0.0/24", "0.0.0.0/8", "100.64.0.0/10", "169.254.0.0/15", "::/0", "::/1", "::/96", "8000::/1",
    "64:ff9b::/96", "64:ff9b:1::/48", "2000::/3", "2001::/16", "2002::/16", "fc00::/6", "fc00::/7",
    "fd00::/8", "fd00:ec2::/32", "fe00::/7", "f000::/4",
]  # fmt: skip

NEVER = [
    "169.254.169.254", "169.254.0.1", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192",
    "0.0.0.0", "224.0.0.1", "239.255.255.255", "255.255.255.255", "::", "fe80::1", "febf::1", "ff02::1",
    "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
    "64:ff9b::a9fe:a9fe", "64:ff9b::0.0.0.0", "64:ff9b::255.255.255.255", "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::", "2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::1", "2001:0:1:1::5601:5601",
    "::a9fe:a9fe", "::ffff:0:a9fe:a9fe", "fd00::5efe:a9fe:a9fe", "fd00::200:5efe:e000:1",
    "2002:ffff:ffff::1",
    # Loopback, and what wraps it: none of the ranges above spells it out.
    "127.0.0.1", "127.255.255.255", "::1", "64:ff9b::127.0.0.1", "64:ff9b:1::127.0.0.1", "2002:7f00:1::",
    "2001:0:7f00:1::", "::127.0.0.1", "::ffff:0:127.0.0.1", "fd00::5efe:127.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("cidr", WIDE)
def test_no_wide_rule_admits_what_no_rule_may_admit(cidr: str) -> None:
    """D-12, W-5: though it lies in the range. Loopback is among it, as none of these rules spells it out."""
    rule = private_range(cidr)
    within = [address for address in NEVER if ip_address(address) in ip_network(cidr)]
    assert [address for address in within if admits(rule, address)] == []


def test_every_forbidden_address_is_in_one_of_the_wide_rules() -> None:
    """So the test above has looked at each."""
    for address in NEVER:
        assert any(ip_address(address) in ip_network(cidr) for cidr in WIDE), address


@pytest.mark.parametrize(
    ("cidr", "address"),
    [
        ("0.0.0.0/0", "10.0.0.1"),
        ("0.0.0.0/0", "192.168.0.1"),
        ("169.254.0.0/15", "169.255.0.1"),
        ("100.64.0.0/10", "100.100.100.199"),
        ("100.64.0.0/10", "100.100.100.201"),
        ("192.0.0.0/24", "192.0.0.191"),
        ("fd00::/8", "fd00:ec2::253"),
        ("fd00:ec2::254/127", "fd00:ec2::255"),
        ("::/0", "fd00::1"),
        ("fc00::/6", "fd00::1"),
        ("240.0.0.0/4", "255.255.255.254"),
        ("64:ff9b::/96", "64:ff9b::10.0.0.1"),
        ("2002::/16", "2002:a00:1::"),
    ],
)
def test_a_wide_rule_still_admits_the_neighbours(cidr: str, address: str) -> None:
    """The refusals above come from the address, not from a rule that admits nothing."""
    assert admits(private_range(cidr), address)


@pytest.mark.parametrize(
    ("cidr", "address", "admitted"),
    [
        ("127.0.0.0/8", "127.0.0.1", True),
        ("127.0.0.0/8", "127.255.255.255", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("127.0.0.0/8", "::1", False),
        ("::1", "::1", True),
        ("::1", "127.0.0.1", False),
        ("126.0.0.0/7", "127.0.0.1", False),
        ("126.0.0.0/7", "126.0.0.1", True),
        ("::/127", "::1", False),
        ("64:ff9b::127.0.0.0/104", "64:ff9b::127.0.0.1", False),
        ("2002:7f00::/24", "2002:7f00:1::", False),
    ],
)
def test_loopback_only_by_a_rule_that_spells_it_out(cidr: str, address: str, admitted: bool) -> None:
    """D-12: a rule that lies within 127.0.0.0/8 or is ::1; nothing that wraps it counts as spelling out."""
    assert admits(private_range(cidr, "localhost"), address, host="localhost") is admitted


@given(
    st.one_of(st.ip_addresses(), st.sampled_from(NEVER).map(ip_address)),
    st.sampled_from(WIDE),
)
def test_a_rule_never_admits_more_than_the_floor_allows(address: Any, cidr: str) -> None:
    """The invariant of D-12, over any address and the widest rules."""
    rule = private_range(cidr)
    if rule.admits(NAMED, address):
        assert address in ip_network(cidr)
        assert not may_never_be_admitted(address)
        loopback = AddressClass.LOOPBACK
        assert loopback not in map(classify_address, (address, *wrapped_addresses(address)))


# Private ranges: fake-IP proxies ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "cidr",
    ["198.18.0.0/15", "198.18.0.0/16", "198.19.255.0/24", "198.18.0.1", "fc00::/18", "fdfe:dcba:9876::/64"],
)
@pytest.mark.parametrize("hosts", ["*", ["*"], ("*",), {"*"}])
def test_the_star_is_for_the_ranges_of_fake_ip_proxies(cidr: str, hosts: Any) -> None:
    """D-12: 198.18/15, or a ULA prefix that the operator names (sing-box has fc00::/18)."""
    rule = private_range(cidr, hosts)
    assert rule.hosts == ("*",)
    assert admits(rule, str(ip_network(cidr)[0]), host="any.example")


@pytest.mark.parametrize(
    "cidr",
    ["10.0.0.0/8", "198.16.0.0/14", "198.0.0.0/8", "198.20.0.0/16", "198.17.0.0/16", "0.0.0.0/0", "::/0",
     "fc00::/6", "fe00::/8", "127.0.0.1", "::1", "93.184.216.0/24", "64:ff9b::c612:0/111", "2002:c612::/31"],
)  # fmt: skip
def test_the_star_is_for_no_other_range(cidr: str) -> None:
    with pytest.raises(ValueError, match=r'hosts "\*" is only for fake-IP proxies'):
        private_range(cidr, "*")


@pytest.mark.parametrize(
    ("cidr", "host", "address", "admitted"),
    [
        ("198.18.0.0/15", "any.example", "198.18.0.5", True),
        ("198.18.0.0/15", "any.example", "198.19.255.255", True),
        ("198.18.0.0/15", "any.example", "198.17.255.255", False),
        ("198.18.0.0/15", "any.example", "198.20.0.0", False),
        ("198.18.0.0/15", "any.example", "10.0.0.1", False),
        ("198.18.0.0/15", "198.18.0.5", "198.18.0.5", False),
        ("198.18.0.0/15", "[::ffff:198.18.0.5]", "198.18.0.5", False),
        ("fc00::/18", "any.example", "fc00::5", True),
        ("fc00::/18", "[fc00::5]", "fc00::5", False),
        ("fd00:ec2::/32", "any.example", "fd00:ec2::254", False),
        ("fd00:ec2::/32", "any.example", "fd00:ec2::255", True),
        ("fd00::/16", "any.example", "fd00::5efe:7f00:1", False),
    ],
)
def test_the_star_admits_every_name_and_no_address_in_a_url(
    cidr: str, host: str, address: str, admitted: bool
) -> None:
    """D-12: and it lifts nothing else of the floor."""
    assert admits(private_range(cidr, "*"), address, host=host) is admitted


@pytest.mark.parametrize(
    "host", ["localhost", "printer.local", "db.internal", "intranet", "nas.home.arpa", "x.onion"]
)
def test_the_star_does_not_lift_the_ban_on_local_names(host: str) -> None:
    """D-8, D-12: only a rule that names the host does."""
    star = PrivateRange("198.18.0.0/15", "*")
    assert not star.names(host)
    assert refusal(Policy(private_ranges=[star]), f"http://{host}/").reason is Reason.LOCAL_NAME
    policy = Policy(private_ranges=[star, PrivateRange("10.0.0.0/8", host)])
    check_target(policy, request(parse_url(f"http://{host}/"), "GET"))


def test_private_ranges_are_values() -> None:
    rule = PrivateRange("10.0.0.0/8", "a.example")
    assert rule == PrivateRange("10.0.0.0/8", ["a.example"])
    assert rule != PrivateRange("10.0.0.0/9", ["a.example"])
    assert rule != PrivateRange("10.0.0.0/8", ["b.example"])
    assert hash(rule) == hash(PrivateRange("10.0.0.0/8", ["a.example"]))
    assert repr(rule) == "PrivateRange(cidr='10.0.0.0/8', hosts=('a.example',))"
    restored = pickle.loads(pickle.dumps(rule))
    assert restored == rule
    assert restored.names("a.example")
    assert not hasattr(rule, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        rule.cidr = "0.0.0.0/0"  # type: ignore[misc]  # that is what must fail


# Request rules ----------------------------------------------------------------------------------------


def rule_allows(paths: Any, path: str, *, method: str = "GET", methods: Any = None) -> bool:
    rule = RequestRule("api.example", methods=methods, paths=paths)
    return rule.allows(parse_url(f"https://api.example{path}"), method)


@pytest.mark.parametrize(
    ("pattern", "path", "allowed"),
    [
        ("/v1/users", "/v1/users", True),
        ("/v1/users", "/v1/users?page=2", True),
        ("/v1/users", "/v1/users#top", True),
        ("/v1/users", "/v1/./users", True),
        ("/v1/users", "/v1/x/../users", True),
        ("/v1/users", "/v1/users/", False),
        ("/v1/users", "/v1/users/1", False),
        ("/v1/users", "/v1/user", False),
        ("/v1/users", "/v1/userss", False),
        ("/v1/users", "/V1/users", False),
        ("/v1/users", "/v1/Users", False),
        ("/v1/users", "/v1/%75sers", False),
        ("/v1/users", "/v1//users", False),
        ("/v1/users", "//v1/users", False),
        ("/v1/users", "/v1/users;x=1", False),
        ("/v1/users", "/v1/users%00", False),
        ("/v1/users", "/v1/users%2f", False),
        ("/v1/users", "/x?/v1/users", False),
        ("/", "", True),
        ("/", "/", True),
        ("/", "//", False),
        ("/v1/*", "/v1/", True),
        ("/v1/*", "/v1/a/b?c", True),
        ("/v1/*", "/v1//a", True),
        ("/v1/*", "/v1", False),
        ("/v1/*", "/v1?x=/v1/", False),
        ("/v1/*", "/v10/a", False),
        ("/v1/*", "//v1/a", False),
        ("/v1/*", "/V1/a", False),
        ("/v1/*", "/%76%31/a", False),
        ("/v1/*", "/v1/../admin", False),
        ("/v1/*", "/v1/%2e%2e/admin", False),
        ("/v1/*", "/v1/.%2E/admin", False),
        ("/v1/*", "/v1//../../admin", False),
        ("/v1/*", "/v1/a/../b", True),
        ("/*", "/", True),
        ("/*", "//", True),
        ("/*", "/anything", True),
    ],
)
def test_paths(pattern: str, path: str, allowed: bool) -> None:
    """W-50: exact, or everything below; compared after the URL was parsed, so without dot segments."""
    assert rule_allows([pattern], path) is allowed


@pytest.mark.parametrize(
    "path",
    [
        "/v1/a%2fb", "/v1/a%2Fb", "/v1/..%2fadmin", "/v1/%2f..%2fadmin", "/v1/..%5cadmin", "/v1/%5C",
        "/v1/..%252fadmin", "/v1/..%25252Fadmin", "/v1/..%255cadmin",
        "/v1/%252e%252e/admin", "/v1/.%252E/admin", "/v1/%25252e%25252e/admin", "/v1/%252e%252e",
        "/v1/..;/admin", "/v1/..;x=1/admin", "/v1/%2e%2e;/admin", "/v1/..%3b/admin", "/v1/..%253B/admin",
        "/v1/..;", "/v1/a/..;/..;/admin", "/v1/.;/admin",
        "/v1/%25%32%65%25%32%65/admin", "/v1/%%32%65%%32%65/admin", "/v1/%2%35%32%65%2%352e/admin",
        "/v1/..%25%32%66admin", "/v1/..%%32%66admin", "/v1/..%252%66admin", "/v1/..%25%35%63admin",
        "/v1/%c0%ae%c0%ae/admin", "/v1/..%c0%afadmin", "/v1/..%c1%9cadmin", "/v1/..%e0%80%afadmin",
        "/v1/..%f0%80%80%afadmin", "/v1/..%25c0%25afadmin", "/v1/..%c0%25afadmin", "/v1/..%c0%qfadmin",
        "/v1/caf%E9", "/v1/%ED%A0%80", "/v1/%FF", "/v1/caf%C3%25A9",
        "/v1/..%00/admin", "/v1/a%00", "/v1/a%2500b", "/v1/..%0d/admin", "/v1/.%09./admin", "/v1/%7F",
        "/v1/%C2%85", "/v1/..%09/admin", "/v1/..%20/admin", "/v1/%20../admin", "/v1/..%2520/admin",
        "/v1/..%C2%A0/admin", "/v1/..%E3%80%80", "/v1/..%3f/admin", "/v1/..%253Fadmin", "/v1/..%23/admin",
        "/v1/%uff0e%uff0e/admin", "/v1/..%u2215admin", "/v1/%u0041", "/v1/%25U002e%25u002E/admin",
        "/v1/%%75002e./admin", "/v1/%ef%bc%8e%ef%bc%8e%ef%bc%8fadmin", "/v1/%e2%80%a5/admin",
        "/v1/..%e2%88%95admin", "/v1/..%c2%a5admin", "/v1/..%ef%bc%bcadmin", "/v1/..%ef%bc%9b/admin",
        "/v1/\uff0e\uff0e/admin", "/v1/%" + "25" * 9,
    ],
)  # fmt: skip
@pytest.mark.parametrize("pattern", ["/v1/*", "/*"])
def test_a_star_covers_no_path_on_which_servers_disagree(pattern: str, path: str) -> None:
    """W-50: encoded slashes and backslashes, dots in a disguise, what some decode and others do not.

    The digits of an escape may be encoded as well as its percent sign; bytes may be an overlong form.
    """
    assert not rule_allows([pattern], path)
    assert rule_allows(
        [parse_url(f"https://api.example{path}").path], path
    )  # meant by whoever wrote the rule
    assert rule_allows(None, path)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/a;b", "/v1/a..;/b", "/v1/...;/b", "/v1/..a/b", "/v1/...", "/v1/.hidden",
        "/v1/100%25", "/v1/%2525", "/v1/2f", "/v1/%252g", "/v1/caf%C3%A9", "/v1/a?x=%2f..%2f",
        "/v1/a?..;/", "/v1/a,b:c@d", "/v1/%2e", "/v1/a%2e%2e", "/v1/;..",
        "/v1/a%20b", "/v1/%20.hidden", "/v1/a%2520b", "/v1/100%25u", "/v1/100%25up", "/v1/50%25%20off",
        "/v1/a%3Fb%23c", "/v1/%E6%97%A5%E6%9C%AC", "/v1/AC%EF%BC%8FDC", "/v1/%E2%82%A9100", "/v1/.%C3%A9",
        "/v1/%F0%9F%8C%8A", "/v1/\u00e9\uff0f", "/v1/a.b..c/..d",
    ],
)  # fmt: skip
def test_a_star_covers_their_harmless_neighbours(path: str) -> None:
    assert rule_allows(["/v1/*"], path)


@pytest.mark.parametrize(
    ("methods", "method", "allowed"),
    [
        (None, "DELETE", True),
        (["GET"], "GET", True),
        (["GET"], "HEAD", False),
        (["GET", "HEAD"], "HEAD", True),
        (["POST"], "GET", False),
    ],
)
def test_methods(methods: list[str] | None, method: str, allowed: bool) -> None:
    """W-50: HEAD is not allowed by GET; the operator says what is meant."""
    assert rule_allows(None, "/", methods=methods, method=method) is allowed


def test_method_and_path_must_both_be_allowed_by_one_rule() -> None:
    """W-50: rules on one host add up, but not by mixing the method of one with the path of another."""
    policy = Policy(
        request_rules=[
            RequestRule("api.corp.example", methods=["GET"], paths=["/v1/*"]),
            RequestRule("*.corp.example", methods=["POST"], paths=["/v1/jobs"]),
        ]
    )
    check_target(policy, request(parse_url("https://api.corp.example/v1/x"), "GET"))
    check_target(policy, request(parse_url("https://corp.example/anything"), "DELETE"))  # no rule is about it
    check_target(policy, request(parse_url("https://api.corp.example/v1/jobs"), "POST"))
    error = refusal(policy, "https://api.corp.example/v1/x?token=hunter2", "POST")
    assert error.reason is Reason.REQUEST_NOT_ALLOWED
    assert str(error) == "no request rule for api.corp.example allows POST on this path"


@pytest.mark.parametrize(
    "name",
    [
        "X-HTTP-Method-Override", "X-HTTP-Method", "x-method-override", "X_Http_Method", "X.HTTP!Method",
        "X-Original-Method", "x_forwarded-method",
    ],
)  # fmt: skip
@pytest.mark.parametrize("method", ["DELETE", "delete", "PURGE", "", "POST, DELETE"])
def test_a_field_that_asks_for_another_method_counts_as_one(name: str, method: str) -> None:
    """Servers heed it on a POST, so a rule for POST alone would be none."""
    policy = Policy(request_rules=[RequestRule("a.example", methods=["POST"])])
    url = parse_url("https://a.example/")
    with pytest.raises(HostDenied) as caught:
        check_target(policy, request(url, "POST", (name, method)))
    assert caught.value.reason is Reason.REQUEST_NOT_ALLOWED
    assert (
        str(caught.value)
        == f"no request rule for a.example allows the method that {name} asks for on this path"
    )
    check_target(policy, request(url, "POST", (name, "post")))
    check_target(policy, request(url, "POST", (f"{name}-2", method)))
    check_target(
        Policy(request_rules=[RequestRule("b.example", methods=["POST"])]),
        request(url, "POST", (name, method)),
    )


@pytest.mark.parametrize(
    "name",
    [
        "X-Original-URL", "X-Rewrite-URL", "X-Original-URI", "X-Forwarded-Uri", "X-Forwarded-Path",
        "x-forwarded-url", "X-HTTP-Path-Override", "X-Override-URL", "X-Envoy-Original-Path",
        "X-Replaced-Path", "X-Matched-Path", "X-Invoke-Path", "X-MS-Original-URL", "X-Forwarded-Prefix",
        "Script_Name", "Path_Info", "X-Script-Name", "X_ORIGINAL_URL", "X.Original~Url",
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", ["/admin", "/v1/x", "https://a.example/v1/x", ""])
def test_only_a_rule_for_all_paths_allows_a_field_that_asks_for_another_path(name: str, value: str) -> None:
    """Whatever it says: servers differ in what they take of it, and how often they decode that."""
    some, every = RequestRule("a.example", ["GET"], ["/v1/*"]), RequestRule("a.example", ["GET"])
    exact = RequestRule("a.example", paths=["/v1/x"])
    asked = request(parse_url("https://a.example/v1/x"), "GET", (name, value))
    for rules in ([some], [exact], [some, exact], [some, RequestRule("a.example", ["POST"])]):
        with pytest.raises(HostDenied) as caught:
            check_target(Policy(request_rules=rules), asked)
        assert caught.value.reason is Reason.REQUEST_NOT_ALLOWED
        assert (
            str(caught.value) == f"no request rule for a.example allows GET on the path that {name} asks for"
        )
    for rules in ([every], [some, every], [RequestRule("b.example", paths=["/v1/*"])], []):
        check_target(Policy(request_rules=rules), asked)
    neighbour = request(parse_url("https://a.example/v1/x"), "GET", (f"{name}-2", value))
    check_target(Policy(request_rules=[some]), neighbour)


def test_a_field_for_another_path_and_one_for_another_method() -> None:
    rules = [RequestRule("a.example", ["GET"]), RequestRule("a.example", ["DELETE"], ["/v1/*"])]
    fields = [("X-Original-Method", "DELETE"), ("X-Original-URL", "/v1/y")]
    url = parse_url("https://a.example/v1/x")
    for allowed in ([], fields[:1], fields[1:]):
        check_target(Policy(request_rules=rules), request(url, "GET", *allowed))
    with pytest.raises(
        HostDenied, match="the method that X-Original-Method asks for on the path that X-Original-URL asks"
    ):
        check_target(Policy(request_rules=rules), request(url, "GET", *fields))


def test_rules_of_a_wildcard_and_an_exact_host_add_up() -> None:
    policy = Policy(
        request_rules=[
            RequestRule("a.corp.example", methods=["GET"]),
            RequestRule("*.corp.example", methods=["POST"]),
        ]
    )
    for host, method, allowed in (
        ("a.corp.example", "GET", True),
        ("a.corp.example", "POST", True),
        ("A.CORP.EXAMPLE.", "POST", True),
        ("a.corp.example", "PUT", False),
        ("b.corp.example", "GET", False),
        ("b.corp.example", "POST", True),
        ("corp.example", "PUT", True),
    ):
        url = f"https://{host}/"
        if allowed:
            check_target(policy, request(parse_url(url), method))
        else:
            assert refusal(policy, url, method).reason is Reason.REQUEST_NOT_ALLOWED


@pytest.mark.parametrize("method", ["get", "Get", "TRACE", "CONNECT", "GET ", "", "*"])
def test_a_rule_names_methods_that_are_sent(method: str) -> None:
    with pytest.raises(
        ValueError, match=rf"^request rule for a\.example: method .* is none of {', '.join(METHODS)}"
    ):
        RequestRule("a.example", methods=["GET", method])


@pytest.mark.parametrize(
    "path", ["", "v1", "*", "/v1*", "/*/x", "/v1/**", "/v1/*/", "/a*b/*", "https://a.example/v1"]
)
def test_a_rule_names_paths_that_are_paths(path: str) -> None:
    with pytest.raises(ValueError, match=r"^request rule for a\.example: path .* must be like"):
        RequestRule("a.example", paths=["/", path])


@pytest.mark.parametrize("argument", ["methods", "paths"])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("GET", "a list of texts, not one text"),
        (5, "a list, not int"),
        ([5], "texts, not int"),
        ([None], "texts, not NoneType"),
        ([], "a list of at least one; left out, all are allowed"),
        (iter(()), "a list of at least one; left out, all are allowed"),
    ],
)
def test_methods_and_paths_are_lists_of_texts(argument: str, value: Any, told: str) -> None:
    with pytest.raises(ValueError, match=rf"^{argument} of a request rule must be {told}$"):
        RequestRule("a.example", **{argument: value})


@pytest.mark.parametrize("host", ["*", "*.com", "a.example:443", "https://a.example", "", "0x7f.1"])
def test_a_rule_is_about_a_host_of_a_host_list(host: Any) -> None:
    """D-15: the same refusals as everywhere."""
    with pytest.raises(ValueError, match=r"Host list entry .* is refused"):
        RequestRule(host)


def test_request_rules_are_values() -> None:
    rule = RequestRule("a.example", methods=iter(["GET"]), paths=iter(["/v1/*"]))
    assert rule == RequestRule("a.example", ["GET"], ["/v1/*"])
    assert rule != RequestRule("a.example", ["GET"], ["/v2/*"])
    assert hash(rule) == hash(RequestRule("a.example", ["GET"], ["/v1/*"]))
    assert (rule.methods, rule.paths) == (("GET",), ("/v1/*",))
    assert "_host_list" not in repr(rule)
    assert not hasattr(rule, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        rule.paths = ()  # type: ignore[misc]  # that is what must fail


# The policy itself ------------------------------------------------------------------------------------


def test_the_default_policy() -> None:
    """Any public host, http too; the floor is not here but under everything."""
    policy = Policy()
    assert (policy.hosts, policy.require_https, policy.ports) == (None, False, None)
    assert (policy.private_ranges, policy.request_rules) == ((), ())
    assert (policy.redirect_fields, policy.keep_credentials_within_origin) == (frozenset(), False)
    assert policy.report_only is False


def test_policies_are_values() -> None:
    policy = Policy(
        hosts=["a.example"], ports=[443], private_ranges=[PrivateRange("10.0.0.0/8", "a.example")]
    )
    again = Policy(hosts=["a.example"], ports=[443], private_ranges=[PrivateRange("10.0.0.0/8", "a.example")])
    assert policy == again
    assert hash(policy) == hash(again)
    assert policy != Policy(hosts=["b.example"], ports=[443])
    assert Policy(hosts=[]) != Policy(hosts=None)
    assert not hasattr(policy, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.hosts = None  # type: ignore[misc]  # that is what must fail
    with pytest.raises(TypeError):
        Policy(["a.example"])  # type: ignore[call-arg]  # every argument has a name


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"hosts": "example.com"}, "Policy.hosts must be a list of texts, not one text"),
        ({"hosts": 5}, "Policy.hosts must be a list, not int"),
        ({"hosts": [5]}, "Policy.hosts must be texts, not int"),
        ({"hosts": [None]}, "Policy.hosts must be texts, not NoneType"),
        ({"require_https": "false"}, "Policy.require_https must be True or False, not 'false'"),
        ({"require_https": 0}, "Policy.require_https must be True or False, not 0"),
        ({"report_only": 1, "hosts": []}, "Policy.report_only must be True or False, not 1"),
        ({"require_https": None}, "Policy.require_https must be True or False, not None"),
        (
            {"keep_credentials_within_origin": 1},
            "Policy.keep_credentials_within_origin must be True or False",
        ),
        ({"ports": 443}, "Policy.ports must be a list, not int"),
        ({"ports": [0]}, "Policy.ports must be whole numbers from 1 to 65535, not 0"),
        ({"ports": [65536]}, "Policy.ports must be whole numbers from 1 to 65535, not 65536"),
        ({"ports": [-1]}, "Policy.ports must be whole numbers from 1 to 65535, not -1"),
        ({"ports": [443.0]}, "Policy.ports must be whole numbers from 1 to 65535, not 443.0"),
        ({"ports": ["443"]}, "Policy.ports must be whole numbers from 1 to 65535, not '443'"),
        ({"ports": "443"}, "Policy.ports must be whole numbers from 1 to 65535, not '4'"),
        ({"ports": [1, True]}, "Policy.ports must be whole numbers from 1 to 65535, not True"),
        ({"ports": [[443]]}, "Policy.ports must be whole numbers"),
        ({"private_ranges": ["10.0.0.0/8"]}, "Policy.private_ranges must hold PrivateRange values, not str"),
        ({"private_ranges": "10.0.0.0/8"}, "Policy.private_ranges must hold PrivateRange values, not str"),
        (
            {"private_ranges": PrivateRange("10.0.0.0/8", "a.example")},
            "Policy.private_ranges must be a list, not PrivateRange",
        ),
        ({"request_rules": [{"host": "a.example"}]}, "Policy.request_rules must hold RequestRule values"),
        ({"request_rules": RequestRule("a.example")}, "Policy.request_rules must be a list, not RequestRule"),
        ({"redirect_fields": "X-A"}, "Policy.redirect_fields must be a list of texts, not one text"),
        ({"redirect_fields": [5]}, "Policy.redirect_fields must be texts, not int"),
        ({"redirect_fields": None}, "Policy.redirect_fields must be a list, not NoneType"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], told: str) -> None:
    """Validated when built, and never by a TypeError or AttributeError from inside."""
    with pytest.raises(ValueError, match=r"^Policy\.") as caught:
        Policy(**arguments)
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize(
    "entry", ["*", "*.com", "a.example:443", "https://a.example", "a.example/x", "0x7f.1", "127.1"]
)
def test_host_lists_are_validated_when_the_policy_is_built(entry: str) -> None:
    """D-15, AMB-75, AMB-76: an entry that cannot be meant is an error, not a list that denies."""
    with pytest.raises(ValueError, match=r"Host list entry .* is refused"):
        Policy(hosts=[entry])


def test_a_host_list_may_be_given_ready_made() -> None:
    hosts = HostList(["a.example"])
    assert Policy(hosts=hosts).hosts is hosts
    assert Policy(hosts=iter(["a.example"])) == Policy(hosts=hosts)


@pytest.mark.parametrize(
    "name", [*sorted(CREDENTIAL_FIELDS | OWN_FIELDS), "Authorization", "COOKIE", "content_length"]
)
def test_credentials_can_not_be_let_across_origins(name: str) -> None:
    """D-22: no setting makes them follow."""
    with pytest.raises(ValueError, match=rf"may not name {name.lower()}: never sent to another origin"):
        Policy(redirect_fields=["X-A", name])


def test_every_refused_redirect_field_is_named() -> None:
    with pytest.raises(ValueError, match="may not name authorization, cookie: never"):
        Policy(redirect_fields=["Cookie", "X-A", "Authorization"])


def test_redirect_fields_are_compared_in_lower_case() -> None:
    assert Policy(redirect_fields=["X-Trace-Id", "x-a"]).redirect_fields == {"x-trace-id", "x-a"}


# The checks of a target -------------------------------------------------------------------------------


@pytest.mark.parametrize(("require_https", "scheme", "allowed"), [
    (False, "http", True), (False, "https", True), (True, "https", True), (True, "http", False),
])  # fmt: skip
def test_scheme(require_https: bool, scheme: str, allowed: bool) -> None:
    """W-128, AMB-89: the https floor, on every hop."""
    policy = Policy(require_https=require_https)
    if allowed:
        check_target(policy, request(parse_url(f"{scheme}://a.example/"), "GET"))
        return
    error = refusal(policy, f"{scheme}://a.example/?token=hunter2")
    assert isinstance(error, SchemeDenied)
    assert error.reason is Reason.HTTPS_REQUIRED
    assert str(error) == "http is refused here: require_https is on"


@pytest.mark.parametrize(
    ("hosts", "host", "allowed"),
    [
        (None, "anything.example", True),
        ([], "anything.example", False),
        (["a.example"], "a.example", True),
        (["a.example"], "A.EXAMPLE.", True),
        (["a.example"], "b.a.example", False),
        (["a.example"], "a.example.evil.example", False),
        (["*.a.example"], "b.a.example", True),
        (["*.a.example"], "c.b.a.example", True),
        (["*.a.example"], "a.example", False),
        (["93.184.216.34"], "93.184.216.34", True),
        (["93.184.216.34"], "[::ffff:93.184.216.34]", False),
        (["[2606:4700::1111]"], "[2606:4700:0::1111]", True),
        (["a.example"], "93.184.216.34", False),
    ],
)
def test_host_list(hosts: Any, host: str, allowed: bool) -> None:
    """W-74, W-104, W-124, W-125, AMB-75, AMB-77: any depth and never the apex; a literal only if listed."""
    policy = Policy(hosts=hosts)
    if allowed:
        check_target(policy, request(parse_url(f"https://{host}/"), "GET"))
        return
    error = refusal(policy, f"https://{host}/path?token=hunter2")
    assert isinstance(error, HostDenied)
    assert error.reason is Reason.NOT_IN_ALLOWLIST
    assert str(error) == f"{parse_url(f'https://{host}/').host} is not in allowed_hosts"


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True), ("a.localhost", True), ("printer.local", True), ("db.internal", True),
        ("metadata.google.internal", True), ("nas.home.arpa", True), ("home.arpa", True), ("x.onion", True),
        ("intranet", True), ("a", True), ("LOCALHOST.", True),
        ("localhost.example", False), ("xlocalhost.example", False), ("local.example", False),
        ("internal.example", False), ("arpa.example", False), ("a.notlocal.example", False),
    ],
)  # fmt: skip
def test_local_names(host: str, local: bool) -> None:
    """D-8: refused before DNS, unless a private-range rule names the very host. A host list is not enough."""
    url = parse_url(f"http://{host}/")
    listed = Policy(hosts=[host], private_ranges=[PrivateRange("10.0.0.0/8", "other.internal")])
    if not local:
        check_target(listed, request(url, "GET"))
        return
    error = refusal(listed, f"http://{host}/")
    assert isinstance(error, HostDenied)
    assert error.reason is Reason.LOCAL_NAME
    assert "only a private-range rule that names it can allow it" in str(error)
    check_target(Policy(private_ranges=[PrivateRange("10.0.0.0/8", host)]), request(url, "GET"))


@pytest.mark.parametrize("pattern", ["*.internal", "db.internal", "*.corp.internal"])
def test_a_rule_with_a_star_names_local_hosts_below_it(pattern: str) -> None:
    """D-15: private-range rules may say `*.internal`."""
    policy = Policy(private_ranges=[PrivateRange("10.0.0.0/8", pattern)])
    for host in ("db.internal", "x.corp.internal", "internal", "db.local"):
        if HostList([pattern], allow_special_suffix=True).matches(host):
            check_target(policy, request(parse_url(f"http://{host}/"), "GET"))
        else:
            assert refusal(policy, f"http://{host}/").reason is Reason.LOCAL_NAME


@pytest.mark.parametrize("port", [80, 443, 8080, 6379, 65535, *sorted(BAD_PORTS - {0})])
def test_ports(port: int) -> None:
    """D-11, W-127: bad ports are refused, unless the operator lists the host or the port."""
    text = f"https://a.example:{port}/"
    url = parse_url(text)
    for policy in (
        Policy(hosts=["a.example"]),
        Policy(hosts=["*.a.example", "a.example"]),
        Policy(ports=[port]),
    ):
        check_target(policy, request(url, "GET"))
    if port not in BAD_PORTS:
        check_target(Policy(), request(url, "GET"))
        return
    error = refusal(Policy(), text)
    assert isinstance(error, PortDenied)
    assert error.reason is Reason.BLOCKED_PORT
    assert str(error) == f"port {port} is on the list of ports that belong to other protocols"


@pytest.mark.parametrize(
    ("ports", "hosts", "port", "allowed"),
    [
        ([443], None, 443, True),
        ([443], None, 80, False),
        ([443], None, 4430, False),
        ([], None, 443, False),
        ([22], None, 22, True),
        ([443], ["a.example"], 8080, False),
        ([443], ["a.example"], 443, True),
    ],
)
def test_the_operators_ports_are_the_only_ones(ports: Any, hosts: Any, port: int, allowed: bool) -> None:
    """D-11: they replace the list of bad ports and hold for listed hosts, too."""
    policy = Policy(ports=ports, hosts=hosts)
    if allowed:
        check_target(policy, request(parse_url(f"https://a.example:{port}/"), "GET"))
    else:
        assert (
            str(refusal(policy, f"https://a.example:{port}/"))
            == f"port {port} is not among the allowed ports"
        )


def test_the_checks_come_in_a_fixed_order() -> None:
    """F-68, W-67: one that fails several is told the first; each one mended reveals the next."""
    everything: dict[str, Any] = {
        "require_https": True,
        "hosts": ["a.example"],
        "ports": [443],
        "request_rules": [RequestRule("intranet", methods=["POST"])],
    }
    mended: list[tuple[str, Any, Reason]] = [
        ("require_https", False, Reason.HTTPS_REQUIRED),
        ("hosts", None, Reason.NOT_IN_ALLOWLIST),
        ("private_ranges", [PrivateRange("10.0.0.0/8", "intranet")], Reason.LOCAL_NAME),
        ("ports", None, Reason.BLOCKED_PORT),
        ("request_rules", (), Reason.REQUEST_NOT_ALLOWED),
    ]
    assert [rule.setting for rule in TARGET_RULES] == [setting for setting, _, _ in mended]
    for setting, value, reason in mended:
        assert refusal(Policy(**everything), "http://intranet/").reason is reason
        everything[setting] = value
    check_target(Policy(**everything), request(parse_url("http://intranet/"), "GET"))


def test_every_check_names_a_setting_of_the_policy() -> None:
    """`tidegate check` shows the setting that decides, so it must exist."""
    settings = {setting.name for setting in dataclasses.fields(Policy)}
    assert {rule.setting for rule in TARGET_RULES} <= settings
    assert all(rule.name and rule.passing for rule in TARGET_RULES)
    assert len({rule.name for rule in TARGET_RULES}) == len(TARGET_RULES)


def test_no_policy_is_a_way_around_the_floor() -> None:
    """W-5: the only exceptions are rules bound to a range and to hosts; a new setting needs a look here."""
    assert {setting.name for setting in dataclasses.fields(Policy)} == {
        "hosts", "require_https", "ports", "private_ranges", "request_rules", "redirect_fields",
        "keep_credentials_within_origin", "report_only",
    }  # fmt: skip


# A host list on trial ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hosts", "host", "listed"),
    [
        (["a.example"], "a.example", True),
        (["*.a.example"], "b.a.example", True),
        (["a.example"], "b.example", False),
        (["*.a.example"], "a.example", False),
        ([], "a.example", False),
    ],
)
def test_a_list_on_trial_is_told_and_not_enforced(hosts: list[str], host: str, listed: bool) -> None:
    url = parse_url(f"https://{host}/")
    told = check_target(Policy(hosts=hosts, report_only=True), request(url, "GET"))
    if listed:
        assert told is None
        return
    assert isinstance(told, HostDenied)
    enforced = refusal(Policy(hosts=hosts), f"https://{host}/")
    assert (told.reason, str(told)) == (enforced.reason, str(enforced))


@pytest.mark.parametrize(
    ("arguments", "text", "reason"),
    [
        ({"require_https": True}, "http://b.example/", Reason.HTTPS_REQUIRED),
        ({}, "https://localhost/", Reason.LOCAL_NAME),
        ({}, "https://b.example:22/", Reason.BLOCKED_PORT),  # a host that is not listed has no port for free
        ({"ports": [443]}, "https://b.example:8443/", Reason.BLOCKED_PORT),
        (
            {"request_rules": [RequestRule("b.example", ["POST"])]},
            "https://b.example/",
            Reason.REQUEST_NOT_ALLOWED,
        ),
    ],
)
def test_nothing_else_is_on_trial_with_it(arguments: dict[str, Any], text: str, reason: Reason) -> None:
    """W-5: least of all the floor; a refusal of another check is raised, whichever came first."""
    assert refusal(Policy(hosts=["a.example"], report_only=True, **arguments), text).reason is reason


def test_only_the_host_list_can_be_on_trial() -> None:
    assert [rule.setting for rule in TARGET_RULES if rule.can_be_tried] == ["hosts"]
    on_trial = Policy(hosts=["a.example"], report_only=True)
    assert [rule.setting for rule in TARGET_RULES if rule.is_on_trial(on_trial)] == ["hosts"]
    assert not any(rule.is_on_trial(Policy(hosts=["a.example"])) for rule in TARGET_RULES)


def test_without_a_list_nothing_is_on_trial() -> None:
    with pytest.raises(ValueError, match=r"^Policy\.report_only needs Policy\.hosts"):
        Policy(report_only=True)


@pytest.mark.parametrize("prefix", [7, 8, 15])
def test_a_star_over_ula_is_one_network_of_a_proxy(prefix: int) -> None:
    """D-12: fake-IP over IPv6 uses one ULA prefix; a shorter one would open every network of one's own."""
    with pytest.raises(ValueError, match="/16 or longer"):
        PrivateRange(f"fc00::/{prefix}", "*")


def test_stars_over_two_ula_prefixes() -> None:
    """D-12: one prefix, though it may be said twice; IPv4 and named hosts do not count."""
    one = PrivateRange("fc00::/18", "*")
    others = [PrivateRange("198.18.0.0/15", "*"), PrivateRange("fd00:1::/32", "a.example")]
    assert Policy(private_ranges=[one, one, *others]).private_ranges == (one, one, *others)
    with pytest.raises(ValueError, match="one ULA prefix, not for 2"):
        Policy(private_ranges=[one, PrivateRange("fd00::/16", "*")])
