"""`classify_address` and its neighbours: tables with the address just inside and just outside every block."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.data import corpus
from tidegate._policy.address import (
    IPV4_SPECIAL_PURPOSE,
    IPV6_SPECIAL_PURPOSE,
    METADATA_ADDRESSES,
    classify_address,
    dial_address,
    may_never_be_admitted,
    wrapped_addresses,
)
from tidegate._policy.reasons import AddressClass

GLOBAL = AddressClass.GLOBAL
IMDS = AddressClass.IMDS
LOOPBACK = AddressClass.LOOPBACK
LINK_LOCAL = AddressClass.LINK_LOCAL
PRIVATE = AddressClass.PRIVATE
ULA = AddressClass.ULA
CGNAT = AddressClass.CGNAT
MULTICAST = AddressClass.MULTICAST
UNSPECIFIED = AddressClass.UNSPECIFIED
RESERVED = AddressClass.RESERVED

ipv4_addresses = st.integers(0, 2**32 - 1).map(IPv4Address)
ipv6_addresses = st.integers(0, 2**128 - 1).map(IPv6Address)


def is_denied(text: str) -> bool:
    """The verdict on address text: no address at all is as good as a denied one."""
    try:
        return classify_address(text) is not GLOBAL
    except ValueError:
        return True


def test_d6_every_row_of_the_address_corpus_gets_its_verdict() -> None:
    rows = corpus("addresses")
    wrong = [row["ip"] for row in rows if is_denied(row["ip"]) is not (row["expect"] == "denied")]
    assert (len(rows), wrong) == (393, [])


# One row a block: its first and last address, and the class of the addresses right before and after it.
BLOCKS = [
    pytest.param("127.0.0.0", "127.255.255.255", LOOPBACK, GLOBAL, GLOBAL, id="F-8 W-107 loopback 127/8"),
    pytest.param("10.0.0.0", "10.255.255.255", PRIVATE, GLOBAL, GLOBAL, id="F-9 W-109 10/8"),
    pytest.param("172.16.0.0", "172.31.255.255", PRIVATE, GLOBAL, GLOBAL, id="F-10 W-109 172.16/12"),
    pytest.param("192.168.0.0", "192.168.255.255", PRIVATE, GLOBAL, GLOBAL, id="F-11 W-109 192.168/16"),
    pytest.param(
        "169.254.0.0", "169.254.169.253", LINK_LOCAL, GLOBAL, IMDS, id="F-12 W-108 169.254/16, lower"
    ),
    pytest.param(
        "169.254.169.254", "169.254.169.254", IMDS, LINK_LOCAL, LINK_LOCAL, id="F-12 W-115 metadata"
    ),
    pytest.param(
        "169.254.170.24", "169.254.255.255", LINK_LOCAL, IMDS, GLOBAL, id="F-12 W-108 169.254/16, upper"
    ),
    pytest.param("::1", "::1", LOOPBACK, UNSPECIFIED, RESERVED, id="F-13 W-107 loopback ::1"),
    pytest.param(
        "fc00::",
        "fd00:ec2::22",
        ULA,
        RESERVED,
        IMDS,
        id="F-14 W-110 fc00::/7, up to the first metadata address",
    ),
    pytest.param(
        "fd20:ce::255",
        "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ULA,
        IMDS,
        RESERVED,
        id="F-14 W-110 fc00::/7, upper",
    ),
    pytest.param(
        "fe80::",
        "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        LINK_LOCAL,
        RESERVED,
        RESERVED,
        id="F-15 W-108 fe80::/10",
    ),
    pytest.param("0.0.0.1", "0.255.255.255", RESERVED, UNSPECIFIED, GLOBAL, id="F-16 0/8"),
    pytest.param("0.0.0.0", "0.0.0.0", UNSPECIFIED, None, RESERVED, id="F-16 W-111 0.0.0.0"),
    pytest.param("::", "::", UNSPECIFIED, None, LOOPBACK, id="W-111 unspecified ::"),
    pytest.param("240.0.0.0", "255.255.255.255", RESERVED, MULTICAST, None, id="W-112 240/4 and broadcast"),
    pytest.param("224.0.0.0", "239.255.255.255", MULTICAST, GLOBAL, RESERVED, id="W-113 224/4"),
    pytest.param(
        "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", MULTICAST, RESERVED, None, id="W-113 ff00::/8"
    ),
    pytest.param("100.64.0.0", "100.100.100.199", CGNAT, GLOBAL, IMDS, id="W-114 100.64/10, lower"),
    pytest.param("100.100.100.201", "100.127.255.255", CGNAT, IMDS, GLOBAL, id="W-114 100.64/10, upper"),
    pytest.param(
        "192.0.0.0", "192.0.0.191", RESERVED, GLOBAL, IMDS, id="192.0.0/24, lower: anycast included"
    ),
    pytest.param("192.0.0.193", "192.0.0.255", RESERVED, IMDS, GLOBAL, id="192.0.0/24, upper"),
    pytest.param("192.0.2.0", "192.0.2.255", RESERVED, GLOBAL, GLOBAL, id="TEST-NET-1"),
    pytest.param("192.88.99.0", "192.88.99.255", RESERVED, GLOBAL, GLOBAL, id="6to4 relay anycast"),
    pytest.param("198.18.0.0", "198.19.255.255", RESERVED, GLOBAL, GLOBAL, id="benchmarking 198.18/15"),
    pytest.param("198.51.100.0", "198.51.100.255", RESERVED, GLOBAL, GLOBAL, id="TEST-NET-2"),
    pytest.param("203.0.113.0", "203.0.113.255", RESERVED, GLOBAL, GLOBAL, id="TEST-NET-3"),
    pytest.param("168.63.129.16", "168.63.129.16", IMDS, GLOBAL, GLOBAL, id="Azure platform in public space"),
    pytest.param(
        "2000::",
        "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        GLOBAL,
        RESERVED,
        UNSPECIFIED,
        id="start of 2000::/3",
    ),
    pytest.param(
        "2001:1::", "2001:2:ffff:ffff::", RESERVED, None, RESERVED, id="protocol assignments, anycast too"
    ),
    pytest.param("2001:3::", "2001:3:ffff:ffff:ffff:ffff:ffff:ffff", GLOBAL, RESERVED, RESERVED, id="AMT"),
    pytest.param(
        "2001:4:112::",
        "2001:4:112:ffff:ffff:ffff:ffff:ffff",
        GLOBAL,
        RESERVED,
        RESERVED,
        id="AS112 over IPv6",
    ),
    pytest.param("2001:20::", "2001:3f::", RESERVED, RESERVED, RESERVED, id="ORCHIDv2, drones"),
    pytest.param("2001:db8::", "2001:db8:ffff::", RESERVED, GLOBAL, None, id="documentation 2001:db8::/32"),
    pytest.param(
        "2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff", GLOBAL, GLOBAL, GLOBAL, id="AS112 direct"
    ),
    pytest.param("3ffe::", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", RESERVED, GLOBAL, RESERVED, id="6bone"),
    pytest.param(
        "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", RESERVED, RESERVED, GLOBAL, id="3fff::/20"
    ),
    pytest.param("4000::", "5eff::", RESERVED, GLOBAL, RESERVED, id="right after 2000::/3"),
    pytest.param("5f00::", "5f00:ffff::", RESERVED, RESERVED, RESERVED, id="segment routing"),
    pytest.param(
        "fec0::",
        "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        RESERVED,
        LINK_LOCAL,
        MULTICAST,
        id="site-local fec0::/10",
    ),
]


@pytest.mark.parametrize(("first", "last", "inside", "before", "after"), BLOCKS)
def test_class_of_each_block_and_of_its_neighbours(
    first: str, last: str, inside: AddressClass, before: AddressClass | None, after: AddressClass | None
) -> None:
    start, end = ip_address(first), ip_address(last)
    assert {
        classify_address(first),
        classify_address(last),
        classify_address(start),
        classify_address(end),
    } == {inside}
    assert before is None or classify_address(start - 1) is before
    assert after is None or classify_address(end + 1) is after


@pytest.mark.parametrize(
    "text",
    [
        *(
            "192.0.0.9",
            "192.0.0.10",
            "2001:1::1",
            "2001:1::2",
            "2001:1::3",
            "192.88.99.2",
            "100::1",
            "100:0:0:1::1",
        ),
        *("2001:2::1", "2001:10::1", "2001:20::1", "2001:30::1", "2001:1ff::1", "100:0:0:2::1"),
    ],
)
def test_d6_special_purpose_addresses_inside_other_blocks_are_reserved(text: str) -> None:
    """The anycast addresses and overlay identifiers too, which the registry calls reachable."""
    assert classify_address(text) is RESERVED


@pytest.mark.parametrize(
    "text", ["1.1.1.1", "8.8.8.8", "192.31.196.1", "192.52.193.1", "192.175.48.1", "2606:4700:4700::1111"]
)
def test_f18_public_addresses_are_global(text: str) -> None:
    assert classify_address(text) is GLOBAL
    assert not may_never_be_admitted(text)


def test_f17_the_address_is_judged_not_how_it_was_written() -> None:
    spellings = ["2606:4700::1111", "2606:4700:0:0:0:0:0:1111", "2606:4700:0::1111", "2606:4700::0.0.17.17"]
    assert (
        {classify_address(text) for text in spellings}
        == {classify_address(IPv6Address(spellings[0]))}
        == {GLOBAL}
    )
    assert classify_address("FE80::ABCD") is LINK_LOCAL


@pytest.mark.parametrize(
    "text",
    [
        *(
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "127.0.0.01",
            "127.0.0.1.",
            " 127.0.0.1",
            "127.0.0.1\n",
        ),
        *(
            "１２７.0.0.1",
            "127.0.0.1/8",
            "256.0.0.1",
            "",
            "localhost",
            "[::1]",
            "::1::",
            "::ffff:127.1",
            "1::/64",
        ),
        *("fe80::1%1", "fe80::1%eth0", "::ffff:169.254.169.254%eth0", "2606:4700:4700::1111%eth0", "::1%"),
    ],
)
def test_w117_text_that_is_no_canonical_address_is_no_address(text: str) -> None:
    """W-117, W-118, W-119, D-9: disguised addresses; D-10: zones."""
    for function in (classify_address, dial_address, wrapped_addresses, may_never_be_admitted):
        with pytest.raises(ValueError, match="canonical"):
            function(text)


@pytest.mark.parametrize(
    ("scoped", "kind"),
    [
        ("2606:4700:4700::1111%eth0", LINK_LOCAL),
        ("::ffff:8.8.8.8%eth0", LINK_LOCAL),
        ("fd00::1%eth0", LINK_LOCAL),
        ("fe80::1%1", LINK_LOCAL),
        ("ff02::1%eth0", MULTICAST),
        ("fd00:ec2::254%eth0", IMDS),
    ],
)
def test_d10_a_zone_makes_an_address_link_local_at_best(scoped: str, kind: AddressClass) -> None:
    address = IPv6Address(scoped)
    assert classify_address(address) is kind
    assert dial_address(address) == address
    assert may_never_be_admitted(address)


@pytest.mark.parametrize("text", [text for text, _ in METADATA_ADDRESSES])
def test_w115_metadata_addresses_are_imds_and_their_neighbours_are_not(text: str) -> None:
    address = ip_address(text)
    others = {ip_address(other) for other, _ in METADATA_ADDRESSES}
    assert classify_address(address) is IMDS
    assert may_never_be_admitted(address)
    neighbours = {address - 1, address + 1} - others
    assert neighbours
    assert IMDS not in map(classify_address, neighbours)


def test_d6_the_metadata_list_is_the_decided_one() -> None:
    assert {text for text, _ in METADATA_ADDRESSES} == {
        *(
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
        ),
        *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
    }


def test_d6_the_registries_are_complete() -> None:
    """26 and 25 rows, each block once, each with its RFC."""
    rows = IPV4_SPECIAL_PURPOSE + IPV6_SPECIAL_PURPOSE
    assert (len(IPV4_SPECIAL_PURPOSE), len(IPV6_SPECIAL_PURPOSE)) == (26, 25)
    assert len({block for block, _, _ in rows}) == len(rows)
    assert all(source.startswith("RFC ") for _, _, source in rows)


# Ways to wrap an IPv4 address: how to build one, whether D-6 judges by the address inside.
def _wrap(template: str, address: IPv4Address) -> IPv6Address:
    high, low = divmod(int(address), 2**16)
    parts = {
        "mixed": str(address),
        "hex": f"{high:x}:{low:x}",
        "inverted": f"{high ^ 0xFFFF:x}:{low ^ 0xFFFF:x}",
        "at48": f"{high:x}:{low >> 8:x}:{(low & 0xFF) << 8:x}",
        "at56": f"{high >> 8:x}:{high & 0xFF:x}:{low:x}",
        "at64": f"0:{high >> 8:x}:{(high & 0xFF) << 8 | low >> 8:x}:{(low & 0xFF) << 8:x}",
    }
    return IPv6Address(template.format(**parts))


JUDGED = ["::ffff:{mixed}", "64:ff9b::{hex}"]
DENIED = [
    pytest.param("::{hex}", id="IPv4-compatible"),
    pytest.param("::ffff:0:{hex}", id="IPv4-translated"),
    pytest.param("64:ff9b:1::{hex}", id="NAT64 local, /96"),
    pytest.param("64:ff9b:1:{at48}::", id="NAT64 local, /48"),
    pytest.param("64:ff9b:1:{at56}::", id="NAT64 local, /56"),
    pytest.param("64:ff9b:1:{at64}:0", id="NAT64 local, /64"),
    pytest.param("2002:{hex}::", id="6to4"),
    pytest.param("2002:{hex}::1", id="6to4, host 1"),
    pytest.param("2001:0:{hex}::f7f7:fbfb", id="Teredo server"),
    pytest.param("2001:0:808:404::{inverted}", id="Teredo client"),
    pytest.param("2606:4700::5efe:{hex}", id="ISATAP"),
    pytest.param("2606:4700::200:5efe:{hex}", id="ISATAP, u bit"),
    pytest.param("2606:4700::300:5efe:{hex}", id="ISATAP, u and g bits"),
    pytest.param("2002:808:808::5efe:{hex}", id="ISATAP behind 6to4"),
]


@pytest.mark.parametrize("template", JUDGED)
@pytest.mark.parametrize(
    ("ipv4", "kind"),
    [
        ("8.8.8.8", GLOBAL),
        ("169.254.169.254", IMDS),
        ("100.100.100.200", IMDS),
        ("127.0.0.1", LOOPBACK),
        ("10.0.0.1", PRIVATE),
        ("169.254.1.1", LINK_LOCAL),
        ("100.64.0.1", CGNAT),
        ("224.0.0.1", MULTICAST),
        ("0.0.0.0", UNSPECIFIED),
        ("255.255.255.255", RESERVED),
    ],
)
def test_w116_mapped_and_nat64_addresses_are_what_they_carry(
    template: str, ipv4: str, kind: AddressClass
) -> None:
    assert classify_address(_wrap(template, IPv4Address(ipv4))) is kind
    assert classify_address(ipv4) is kind


def test_d6_the_mapped_and_nat64_prefixes_end_where_they_end() -> None:
    neighbours = ["::fffe:ffff:ffff", "::1:0:0:0", "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff", "64:ff9b::1:0:0"]
    assert {classify_address(text) for text in neighbours} == {RESERVED}
    assert [wrapped_addresses(text) for text in neighbours] == [()] * 4


@pytest.mark.parametrize("template", DENIED)
def test_d6_other_wrappers_are_denied_even_around_public_addresses(template: str) -> None:
    assert classify_address(_wrap(template, IPv4Address("8.8.8.8"))) is RESERVED
    assert classify_address(_wrap(template, IPv4Address("169.254.169.254"))) is IMDS
    assert classify_address(_wrap(template, IPv4Address("127.0.0.1"))) is LOOPBACK


@pytest.mark.parametrize("template", [*JUDGED, *DENIED])
@given(ipv4=ipv4_addresses.filter(lambda address: int(address) > 1))
def test_d12_every_wrapper_shows_what_it_wraps(template: str, ipv4: IPv4Address) -> None:
    wrapped = wrapped_addresses(_wrap(template, ipv4))
    assert ipv4 in wrapped
    assert len(set(wrapped)) == len(wrapped)


def test_d12_decoys_do_not_hide_the_address_at_the_other_place() -> None:
    metadata, public = IPv4Address("169.254.169.254"), IPv4Address("8.8.8.8")
    assert {metadata, public} <= set(wrapped_addresses("64:ff9b:1:a9fe:a9:fe00:808:808"))
    assert {metadata, public} <= set(wrapped_addresses("64:ff9b:1:808:8:800:a9fe:a9fe"))
    assert wrapped_addresses("2001:0:808:808::5601:5601") == (public, metadata)
    assert wrapped_addresses("2002:808:808::5efe:a9fe:a9fe") == (public, metadata)


@pytest.mark.parametrize(
    "text",
    ["8.8.8.8", "::", "::1", "2606:4700::1111", "2001:1::808:808", "2003:808:808::", "fe80::5eff:808:808"],
)
def test_d12_nothing_is_unwrapped_from_what_wraps_nothing(text: str) -> None:
    assert wrapped_addresses(text) == ()


def test_d12_zeros_in_a_nat64_layout_mean_that_another_layout_is_in_use() -> None:
    assert IPv4Address(0) not in wrapped_addresses("64:ff9b:1::a00:1")
    assert wrapped_addresses("64:ff9b:1::") == (IPv4Address(0),)
    assert may_never_be_admitted("64:ff9b:1::")
    assert not may_never_be_admitted("64:ff9b:1::a00:1")


@pytest.mark.parametrize(
    "ipv4", ["169.254.169.254", "168.63.129.16", "169.254.1.1", "224.0.0.1", "0.0.0.0", "255.255.255.255"]
)
@pytest.mark.parametrize("template", [*JUDGED, *DENIED])
def test_d12_what_wraps_an_inadmissible_address_is_inadmissible(template: str, ipv4: str) -> None:
    if (template, ipv4) == ("::{hex}", "0.0.0.0"):
        template = "::ffff:{mixed}"  # `::` wraps nothing, it is the unspecified address itself
    assert may_never_be_admitted(ipv4)
    assert may_never_be_admitted(_wrap(template, IPv4Address(ipv4)))


@pytest.mark.parametrize("template", [*JUDGED, *DENIED])
@pytest.mark.parametrize("ipv4", ["10.0.0.1", "127.0.0.1", "198.18.0.1", "100.64.0.1"])
def test_d12_what_wraps_an_admissible_address_may_be_admitted(template: str, ipv4: str) -> None:
    assert not may_never_be_admitted(_wrap(template, IPv4Address(ipv4)))


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("127.0.0.1", False),
        ("::1", False),
        ("10.0.0.1", False),
        ("fd00::1", False),
        ("fec0::1", False),
        ("240.0.0.1", False),
        ("255.255.255.254", False),
        ("255.255.255.255", True),
        ("169.253.255.255", False),
        ("169.254.0.0", True),
        ("fe80::1", True),
        ("224.0.0.0", True),
        ("ff02::1", True),
        ("0.0.0.0", True),
        ("0.0.0.1", False),
        ("::", True),
        ("::2", False),
        ("fd20:ce::254", True),
        ("fd20:ce::253", False),
    ],
)
def test_d12_what_no_rule_may_admit(text: str, never: bool) -> None:
    assert may_never_be_admitted(text) is never


@pytest.mark.parametrize(
    ("text", "dialled"),
    [
        ("::ffff:8.8.8.8", "8.8.8.8"),
        ("::ffff:0:0", "0.0.0.0"),
        ("::ffff:ffff:ffff", "255.255.255.255"),
        ("::fffe:ffff:ffff", "::fffe:ffff:ffff"),
        ("::1:0:0:0", "::1:0:0:0"),
        ("64:ff9b::808:808", "64:ff9b::808:808"),
        ("::808:808", "::808:808"),
        ("8.8.8.8", "8.8.8.8"),
        ("2606:4700::1111", "2606:4700::1111"),
    ],
)
def test_d6_a_mapped_address_is_dialled_as_ipv4(text: str, dialled: str) -> None:
    assert dial_address(text) == dial_address(ip_address(text)) == ip_address(dialled)


@given(ipv6_addresses)
def test_d6_no_ipv6_address_outside_2000_3_is_global_but_the_two_judged_by_ipv4(address: IPv6Address) -> None:
    if classify_address(address) is GLOBAL:
        judged = any(address in IPv6Network(block) for block in ("::ffff:0:0/96", "64:ff9b::/96"))
        assert judged or address in IPv6Network("2000::/3")


@given(st.one_of(ipv4_addresses, ipv6_addresses))
def test_text_and_value_are_judged_alike(address: IPv4Address | IPv6Address) -> None:
    assert classify_address(str(address)) is classify_address(address)
    assert may_never_be_admitted(str(address)) is may_never_be_admitted(address)
    assert classify_address(dial_address(address)) is classify_address(address)


@given(ipv4_addresses)
def test_d6_an_ipv4_address_is_global_unless_a_block_says_otherwise(address: IPv4Address) -> None:
    """An independent reading of the tables: linear, by longest prefix."""
    rows = [(IPv4Network(block), kind) for block, kind, _ in IPV4_SPECIAL_PURPOSE]
    rows += [(IPv4Network("0.0.0.0/0"), GLOBAL), (IPv4Network("224.0.0.0/4"), MULTICAST)]
    rows += [(IPv4Network(text), IMDS) for text, _ in METADATA_ADDRESSES if ":" not in text]
    _, expected = max((network.prefixlen, kind) for network, kind in rows if address in network)
    assert classify_address(address) is expected
