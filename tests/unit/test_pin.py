"""D-6, D-7, D-12, F-8..F-20, W-4, W-106, W-F3: every address is checked, and only such a one is dialled."""

import copy
import dataclasses
import pickle
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.data import corpus
from tidegate._policy.address import classify_address
from tidegate._policy.pin import PinnedTarget, check_addresses
from tidegate._policy.policy import Policy, PrivateRange
from tidegate._policy.reasons import AddressClass, Reason
from tidegate._policy.url import parse_url
from tidegate.errors import AddressDenied, ResolutionError

PUBLIC = "93.184.216.34"
PUBLIC_6 = "2606:4700:4700::1111"


def pin(policy: Policy, text: str, *addresses: str) -> tuple[PinnedTarget, ...]:
    return check_addresses(policy, parse_url(text), [ip_address(address) for address in addresses])


def pinned(*addresses: str, policy: Policy | None = None, host: str = "a.example") -> list[str]:
    return [str(target.address) for target in pin(policy or Policy(), f"https://{host}/", *addresses)]


def refusal(*addresses: str, policy: Policy | None = None, host: str = "a.example") -> AddressDenied:
    with pytest.raises(AddressDenied) as caught:
        pin(policy or Policy(), f"https://{host}/?token=hunter2", *addresses)
    return caught.value


def admitting(cidr: str, hosts: str | list[str] = "a.example") -> Policy:
    return Policy(private_ranges=[PrivateRange(cidr, hosts)])


# What a pin is ----------------------------------------------------------------------------------------


def test_a_pin_says_where_to_connect_and_as_whom() -> None:
    """W-122: certificates are checked against the host of the URL, never the address."""
    (target,) = pin(Policy(), "https://Bücher.example.:8443/x?y", PUBLIC)
    assert (target.scheme, target.host, target.port) == ("https", "xn--bcher-kva.example", 8443)
    assert target.address == IPv4Address(PUBLIC)
    assert target.self_allowed is False


@pytest.mark.parametrize("seal", [None, object(), True, "", PinnedTarget])
def test_nobody_else_makes_one(seal: Any) -> None:
    """The pin is a type: `check_addresses` is its only maker."""
    with pytest.raises(TypeError, match="made by check_addresses alone"):
        PinnedTarget("https", "a.example", 443, IPv4Address("10.0.0.1"), False, seal)


def test_none_is_made_of_another() -> None:
    """A copy with another address would be a way past every check."""
    (target,) = pin(Policy(), "https://a.example/", PUBLIC)
    inside: Any = {"address": IPv4Address("10.0.0.1")}
    with pytest.raises((TypeError, ValueError)):  # which of the two depends on the version of Python
        dataclasses.replace(target, **inside)
    with pytest.raises(TypeError, match="made by check_addresses alone"):
        dataclasses.replace(target, **{**inside, "seal": None})
    for name in ("address", "host", "port", "scheme", "self_allowed"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(target, name, getattr(target, name))
    assert not hasattr(target, "seal")
    assert not hasattr(target, "__dict__")


def test_pins_are_values() -> None:
    """The pool gives a kept connection only to a fetch that pinned the very same target (pitfall 6)."""
    (target,) = pin(Policy(), "https://a.example/", PUBLIC)
    assert pin(Policy(), "https://a.example/other", PUBLIC) == (target,)
    assert copy.copy(target) == target
    assert hash(copy.copy(target)) == hash(target)
    assert pickle.loads(pickle.dumps(target)) == target
    for other in (
        pin(Policy(), "http://a.example:443/", PUBLIC),
        pin(Policy(), "https://b.example/", PUBLIC),
        pin(Policy(), "https://a.example:444/", PUBLIC),
        pin(Policy(), "https://a.example/", "93.184.216.35"),
        pin(admitting("93.184.216.0/24"), "https://a.example/", PUBLIC),
    ):
        assert other != (target,)


# Which addresses pass ---------------------------------------------------------------------------------

REFUSED = [
    ("127.0.0.1", Reason.LOOPBACK), ("127.255.255.255", Reason.LOOPBACK), ("::1", Reason.LOOPBACK),
    ("10.0.0.0", Reason.PRIVATE), ("10.255.255.255", Reason.PRIVATE), ("172.16.0.0", Reason.PRIVATE),
    ("172.31.255.255", Reason.PRIVATE), ("192.168.0.1", Reason.PRIVATE),
    ("100.64.0.0", Reason.CGNAT), ("100.127.255.255", Reason.CGNAT),
    ("169.254.0.0", Reason.LINK_LOCAL), ("169.254.255.255", Reason.LINK_LOCAL),
    ("fe80::1", Reason.LINK_LOCAL),
    ("fe80::1%2", Reason.LINK_LOCAL), ("fd00::1%2", Reason.LINK_LOCAL), (f"{PUBLIC_6}%2", Reason.LINK_LOCAL),
    ("169.254.169.254", Reason.IMDS), ("168.63.129.16", Reason.IMDS), ("100.100.100.200", Reason.IMDS),
    ("fd00:ec2::254", Reason.IMDS),
    ("fc00::", Reason.ULA), ("fdff::1", Reason.ULA),
    ("224.0.0.1", Reason.MULTICAST), ("ff02::1", Reason.MULTICAST),
    ("0.0.0.0", Reason.UNSPECIFIED), ("::", Reason.UNSPECIFIED),
    ("0.0.0.1", Reason.RESERVED), ("240.0.0.1", Reason.RESERVED), ("255.255.255.255", Reason.RESERVED),
    ("192.0.2.1", Reason.RESERVED), ("198.18.0.1", Reason.RESERVED), ("2001:db8::1", Reason.RESERVED),
    ("fec0::1", Reason.RESERVED),
    ("::ffff:127.0.0.1", Reason.LOOPBACK), ("::ffff:169.254.169.254", Reason.IMDS),
    ("64:ff9b::10.0.0.1", Reason.PRIVATE), ("64:ff9b::169.254.169.254", Reason.IMDS),
    ("2002:a9fe:a9fe::", Reason.IMDS), ("2002:808:808::", Reason.RESERVED),
    ("64:ff9b:1::808:808", Reason.RESERVED), ("::127.0.0.1", Reason.LOOPBACK),
    ("2001:0:808:808::", Reason.RESERVED),
]  # fmt: skip


@pytest.mark.parametrize(("address", "reason"), REFUSED, ids=[address for address, _ in REFUSED])
@pytest.mark.parametrize(
    "policy", [Policy(), Policy(hosts=["a.example"], ports=[443])], ids=["any", "listed"]
)
def test_addresses_that_are_not_public_are_refused(address: str, reason: Reason, policy: Policy) -> None:
    """F-8..F-16, W-14, W-107..W-116: for listed hosts as well."""
    assert refusal(address, policy=policy).reason is reason


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255",
        "192.169.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255",
        "169.255.0.0", "223.255.255.255", "168.63.129.15", "168.63.129.17", "2000::", "3fee::1", PUBLIC_6,
        "64:ff9b::808:808",
    ],
)  # fmt: skip
def test_their_neighbours_are_pinned(address: str) -> None:
    """F-10, F-18, W-114."""
    assert pinned(address) == [str(ip_address(address))]


def is_refused(address: str) -> bool:
    try:
        return not pinned(address)
    except AddressDenied:
        return True


def test_corpus_of_addresses() -> None:
    """D-6: what the corpus calls public is pinned, and nothing else."""
    rows = corpus("addresses")
    wrong = [row["ip"] for row in rows if is_refused(row["ip"]) is not (row["expect"] == "denied")]
    assert (len(rows), wrong) == (393, [])


@given(st.lists(st.ip_addresses(), min_size=1, max_size=4))
def test_all_pass_or_none_does(addresses: list[IPv4Address | IPv6Address]) -> None:
    """W-106: and what passes without a rule is public, address by address."""
    url = parse_url("https://a.example/")
    try:
        targets = check_addresses(Policy(), url, addresses)
    except AddressDenied:
        assert any(classify_address(address) is not AddressClass.GLOBAL for address in addresses)
        return
    assert all(classify_address(target.address) is AddressClass.GLOBAL for target in targets)
    assert not any(target.self_allowed for target in targets)


@pytest.mark.parametrize(
    ("addresses", "reason"),
    [
        ([PUBLIC, "10.0.0.1"], Reason.PRIVATE),
        (["10.0.0.1", PUBLIC], Reason.PRIVATE),
        ([PUBLIC, PUBLIC_6, "::1"], Reason.LOOPBACK),
        ([PUBLIC] * 50 + ["169.254.169.254"], Reason.IMDS),
        ([PUBLIC, "::ffff:10.0.0.1"], Reason.PRIVATE),
        (["10.0.0.1", "127.0.0.1"], Reason.PRIVATE),  # the first bad one is told
    ],
)
def test_one_bad_answer_refuses_all(addresses: list[str], reason: Reason) -> None:
    """F-71, W-106, AMB-2: public and private at once is an attack or a mistake."""
    assert refusal(*addresses).reason is reason


def test_order_is_kept_and_repeats_are_not() -> None:
    """AMB-81: in the resolver's order. A mapped address is the IPv4 one and no second target."""
    assert pinned("8.8.8.8", PUBLIC_6, "1.1.1.1", "8.8.8.8") == ["8.8.8.8", PUBLIC_6, "1.1.1.1"]
    assert pinned("::ffff:8.8.8.8", "8.8.8.8") == ["8.8.8.8"]
    assert pinned("8.8.8.8", "::ffff:8.8.8.8") == ["8.8.8.8"]


def test_a_mapped_address_is_dialled_as_ipv4() -> None:
    """D-6: so that the peer compares equal to what was checked. One under NAT64 stays what it is."""
    (target,) = pin(Policy(), "https://a.example/", "::ffff:8.8.8.8")
    assert target.address == IPv4Address("8.8.8.8")
    assert pinned("64:ff9b::808:808") == ["64:ff9b::808:808"]


def test_no_addresses_at_all() -> None:
    """D-24: a DNS failure is never shown as a block."""
    with pytest.raises(ResolutionError, match=r"^a\.example has no addresses$") as caught:
        pin(Policy(), "https://a.example/")
    assert caught.value.reason is Reason.DNS_RESOLUTION_FAILED


# Private-range rules ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cidr", "address", "admitted"),
    [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "64:ff9b::10.1.2.3", False),
        ("10.0.0.0/8", "11.0.0.1", None),
        ("10.0.0.0/8", "192.168.0.1", False),
        ("127.0.0.0/8", "127.0.0.1", True),
        ("127.0.0.0/8", "::ffff:127.0.0.1", True),
        ("127.0.0.0/8", "::1", False),
        ("0.0.0.0/0", "10.0.0.1", True),
        ("0.0.0.0/0", "127.0.0.1", False),
        ("0.0.0.0/0", "169.254.169.254", False),
        ("0.0.0.0/0", "0.0.0.0", False),
        ("0.0.0.0/0", "255.255.255.255", False),
        ("0.0.0.0/0", "224.0.0.1", False),
        ("::/0", "fd00::1", True),
        ("::/0", "::1", False),
        ("::/0", "10.0.0.1", False),
        ("::/0", "::ffff:10.0.0.1", False),
        ("::/0", "fe80::1", False),
        ("::/0", "fd00:ec2::254", False),
        ("::/0", "2002:a9fe:a9fe::", False),
        ("fd00::/8", "fd00::1%2", False),
    ],
)
def test_rules_admit_addresses_of_their_hosts(cidr: str, address: str, admitted: bool | None) -> None:
    """D-12. None: public anyway, and no business of the rule."""
    policy = admitting(cidr)
    if admitted is False:
        assert refusal(address, policy=policy).reason == classify_address(ip_address(address)).value
        return
    (target,) = pin(policy, "https://a.example/", address)
    assert target.self_allowed is bool(admitted)
    if admitted:
        assert refusal(address, policy=policy, host="b.example").reason == classify_address(address).value


def test_an_admitted_address_may_be_this_machine() -> None:
    """D-7: a rule that admits the very address lifts the comparison with ourselves, a public one's too."""
    policy = admitting("93.184.216.0/24")
    assert [target.self_allowed for target in pin(policy, "https://a.example/", PUBLIC, "8.8.8.8")] == [
        True,
        False,
    ]
    assert not pin(policy, "https://b.example/", PUBLIC)[0].self_allowed


def test_rules_on_one_host_add_up() -> None:
    """D-12: and an address that none of them admits still refuses all."""
    policy = Policy(
        private_ranges=[
            PrivateRange("10.0.0.0/8", "a.example"),
            PrivateRange("192.168.0.0/16", ["a.example", "b.example"]),
        ]
    )
    assert pinned("10.0.0.1", "192.168.0.1", PUBLIC, policy=policy) == ["10.0.0.1", "192.168.0.1", PUBLIC]
    assert refusal("10.0.0.1", "172.16.0.1", policy=policy).reason is Reason.PRIVATE
    assert refusal("10.0.0.1", policy=policy, host="b.example").reason is Reason.PRIVATE


@pytest.mark.parametrize(
    ("hosts", "host", "address", "admitted"),
    [
        ("*", "any.example", "198.18.0.7", True),
        ("*", "198.18.0.7", "198.18.0.7", False),
        ("*", "[::ffff:198.18.0.7]", "::ffff:198.18.0.7", False),
        ("198.18.0.7", "198.18.0.7", "198.18.0.7", True),
        ("*", "any.example", "198.20.0.7", None),
        ("*", "any.example", "10.0.0.1", False),
    ],
)
def test_fake_ip_proxies(hosts: str, host: str, address: str, admitted: bool | None) -> None:
    """D-12: every name, never an address typed into a URL, unless the operator names it as such."""
    policy = admitting("198.18.0.0/15", hosts)
    if admitted is False:
        refusal(address, policy=policy, host=host)
    else:
        assert len(pinned(address, policy=policy, host=host)) == 1


def test_a_verdict_holds_for_one_policy_one_origin_and_one_address() -> None:
    """Verdicts are remembered, since they are pure: what one policy admits must never help another."""
    admitted, same = admitting("10.0.0.0/8"), admitting("10.0.0.0/8")
    for _ in range(2):
        assert pinned("10.0.0.1", policy=admitted) == ["10.0.0.1"]
        assert pinned("10.0.0.1", policy=same) == ["10.0.0.1"]
        assert refusal("10.0.0.1").reason is Reason.PRIVATE
        assert refusal("10.0.0.1", policy=admitting("10.0.0.0/9", "b.example")).reason is Reason.PRIVATE
        assert refusal("10.0.0.1", policy=admitted, host="b.example").reason is Reason.PRIVATE
        assert refusal("::a00:1", policy=admitted).reason is Reason.PRIVATE  # the same number in IPv6
        assert refusal(f"{PUBLIC_6}%2").reason is Reason.LINK_LOCAL
        assert pinned(PUBLIC_6) == [PUBLIC_6]


# What is told -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("address", "reason"), REFUSED[:-1], ids=[address for address, _ in REFUSED[:-1]])
def test_no_message_holds_an_answer_of_dns(address: str, reason: Reason) -> None:
    """W-F3: the host and the kind of address; which one it is tells an attacker about the inside."""
    error = refusal(PUBLIC, address)
    assert str(error).startswith("a.example resolves to ")
    shown = {str(ip_address(address)), PUBLIC, "hunter2"} - {"::"}
    assert not any(text in f"{error} {error!r}" for text in shown)
    assert error.url is None


@pytest.mark.parametrize(
    ("host", "address", "told"),
    [
        (
            "127.0.0.1",
            "127.0.0.1",
            "127.0.0.1 is a loopback address; only a private-range rule that spells it",
        ),
        ("[::1]", "::1", "::1 is a loopback address"),
        ("10.0.0.1", "10.0.0.1", "10.0.0.1 is a private address; only a private-range rule for this host"),
        (
            "169.254.169.254",
            "169.254.169.254",
            "is a cloud metadata or platform address; nothing can allow it",
        ),
    ],
)
def test_a_literal_is_what_the_caller_wrote(host: str, address: str, told: str) -> None:
    assert told in str(refusal(address, host=host))


def test_every_class_but_global_has_its_reason_and_its_words() -> None:
    """One enum value per decision: the class is the reason."""
    seen = {refusal(address).reason for address, _ in REFUSED}
    assert {reason.value for reason in seen} == {kind.value for kind in AddressClass} - {"global"}
