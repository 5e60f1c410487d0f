"""Which kind of address is this? Own tables, one pure question (decisions D-6 and D-12).

`ipaddress.is_global` and its relatives are used nowhere: on Python 3.11 they call most of the addresses that
must be denied global, and their answers change between releases. The tables below are the IANA registries
as of their date, and one `bisect` over sorted ranges answers for an address.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from tidegate._policy.reasons import AddressClass

AddressLike = str | IPv4Address | IPv6Address
"""An address, as `ipaddress` value or as text; which text is accepted: see `classify_address`."""

_Row = tuple[str, AddressClass, str]

REGISTRY_DATE: Final = "2025-10-09"
"""State of the two IANA special-purpose registries below: the last update of the IPv6 one."""

METADATA_DATE: Final = "2026-11-30"
"""When the list below was written down; clouds add to theirs without any registry."""

METADATA_ADDRESSES: Final = (
    ("169.254.169.254", "AWS, Azure, Google Cloud, Oracle and most others"),
    ("169.254.170.2", "AWS ECS task credentials"),
    ("169.254.170.23", "AWS EKS pod identity"),
    ("168.63.129.16", "Azure platform (goal state, DNS); lies in public space"),
    ("100.100.100.200", "Alibaba Cloud; lies in shared space"),
    ("192.0.0.192", "Oracle Cloud Classic"),
    ("fd00:ec2::254", "AWS over IPv6"),
    ("fd00:ec2::23", "AWS EKS pod identity over IPv6"),
    ("fd20:ce::254", "Google Cloud over IPv6"),
)
"""Addresses that hand credentials or configuration to whoever asks from inside a cloud (D-6)."""

# https://www.iana.org/assignments/iana-ipv4-special-registry, all 26 rows. A row is GLOBAL where the registry
# says "Globally Reachable: True", with two exceptions that are marked.
IPV4_SPECIAL_PURPOSE: Final[tuple[_Row, ...]] = (
    ("0.0.0.0/8", AddressClass.RESERVED, "RFC 791: this network"),
    ("0.0.0.0/32", AddressClass.UNSPECIFIED, "RFC 1122: this host on this network"),
    ("10.0.0.0/8", AddressClass.PRIVATE, "RFC 1918"),
    ("100.64.0.0/10", AddressClass.CGNAT, "RFC 6598: shared address space"),
    ("127.0.0.0/8", AddressClass.LOOPBACK, "RFC 1122"),
    ("169.254.0.0/16", AddressClass.LINK_LOCAL, "RFC 3927"),
    ("172.16.0.0/12", AddressClass.PRIVATE, "RFC 1918"),
    ("192.0.0.0/24", AddressClass.RESERVED, "RFC 6890: IETF protocol assignments"),
    ("192.0.0.0/29", AddressClass.RESERVED, "RFC 7335: IPv4 service continuity"),
    ("192.0.0.8/32", AddressClass.RESERVED, "RFC 7600: dummy address"),
    # D-6: reachable by the registry, but anycast: whatever answers is the nearest gateway, not the internet.
    ("192.0.0.9/32", AddressClass.RESERVED, "RFC 7723: PCP anycast"),
    ("192.0.0.10/32", AddressClass.RESERVED, "RFC 8155: TURN anycast"),
    ("192.0.0.170/32", AddressClass.RESERVED, "RFC 8880, RFC 7050: NAT64 discovery"),
    ("192.0.0.171/32", AddressClass.RESERVED, "RFC 8880, RFC 7050: NAT64 discovery"),
    ("192.0.2.0/24", AddressClass.RESERVED, "RFC 5737: documentation"),
    ("192.31.196.0/24", AddressClass.GLOBAL, "RFC 7535: AS112"),
    ("192.52.193.0/24", AddressClass.GLOBAL, "RFC 7450: AMT"),
    ("192.88.99.0/24", AddressClass.RESERVED, "RFC 7526: 6to4 relay anycast, deprecated"),
    ("192.88.99.2/32", AddressClass.RESERVED, "RFC 6751: 6a44 relay anycast"),
    ("192.168.0.0/16", AddressClass.PRIVATE, "RFC 1918"),
    ("192.175.48.0/24", AddressClass.GLOBAL, "RFC 7534: AS112 direct delegation"),
    ("198.18.0.0/15", AddressClass.RESERVED, "RFC 2544: benchmarking"),
    ("198.51.100.0/24", AddressClass.RESERVED, "RFC 5737: documentation"),
    ("203.0.113.0/24", AddressClass.RESERVED, "RFC 5737: documentation"),
    ("240.0.0.0/4", AddressClass.RESERVED, "RFC 1112: reserved"),
    ("255.255.255.255/32", AddressClass.RESERVED, "RFC 8190, RFC 919: limited broadcast"),
)

# https://www.iana.org/assignments/iana-ipv6-special-registry, all 25 rows; exceptions are marked again.
IPV6_SPECIAL_PURPOSE: Final[tuple[_Row, ...]] = (
    ("::1/128", AddressClass.LOOPBACK, "RFC 4291"),
    ("::/128", AddressClass.UNSPECIFIED, "RFC 4291"),
    # These two are judged by the IPv4 address they carry, before this table is asked (D-6).
    ("::ffff:0:0/96", AddressClass.RESERVED, "RFC 4291: IPv4-mapped"),
    ("64:ff9b::/96", AddressClass.RESERVED, "RFC 6052: NAT64 well-known prefix"),
    ("64:ff9b:1::/48", AddressClass.RESERVED, "RFC 8215: NAT64 local use"),
    ("100::/64", AddressClass.RESERVED, "RFC 6666: discard-only"),
    ("100:0:0:1::/64", AddressClass.RESERVED, "RFC 9780: dummy prefix"),
    ("2001::/23", AddressClass.RESERVED, "RFC 2928: IETF protocol assignments"),
    ("2001::/32", AddressClass.RESERVED, "RFC 4380, RFC 8190: Teredo"),
    # D-6: anycast again, see 192.0.0.9.
    ("2001:1::1/128", AddressClass.RESERVED, "RFC 7723: PCP anycast"),
    ("2001:1::2/128", AddressClass.RESERVED, "RFC 8155: TURN anycast"),
    ("2001:1::3/128", AddressClass.RESERVED, "RFC 9665: SRP anycast"),
    ("2001:2::/48", AddressClass.RESERVED, "RFC 5180: benchmarking"),
    ("2001:3::/32", AddressClass.GLOBAL, "RFC 7450: AMT"),
    ("2001:4:112::/48", AddressClass.GLOBAL, "RFC 7535: AS112"),
    ("2001:10::/28", AddressClass.RESERVED, "RFC 4843: ORCHID, deprecated"),
    # D-6: reachable by the registry, but these are identifiers of overlays, not hosts that speak HTTP.
    ("2001:20::/28", AddressClass.RESERVED, "RFC 7343: ORCHIDv2"),
    ("2001:30::/28", AddressClass.RESERVED, "RFC 9374: drone remote identification"),
    ("2001:db8::/32", AddressClass.RESERVED, "RFC 3849: documentation"),
    ("2002::/16", AddressClass.RESERVED, "RFC 3056: 6to4"),
    ("2620:4f:8000::/48", AddressClass.GLOBAL, "RFC 7534: AS112 direct delegation"),
    ("3fff::/20", AddressClass.RESERVED, "RFC 9637: documentation"),
    ("5f00::/16", AddressClass.RESERVED, "RFC 9602: segment routing SIDs"),
    ("fc00::/7", AddressClass.ULA, "RFC 4193, RFC 8190"),
    ("fe80::/10", AddressClass.LINK_LOCAL, "RFC 4291"),
)

_IPV4_ROWS: Final[tuple[_Row, ...]] = (
    ("0.0.0.0/0", AddressClass.GLOBAL, "what no row below names"),
    *IPV4_SPECIAL_PURPOSE,
    ("224.0.0.0/4", AddressClass.MULTICAST, "RFC 5771; the multicast space has a registry of its own"),
)

# The inverse of IPv4: nothing is global but what IANA hands out for it. Site-local (fec0::/10, RFC 3879),
# IPv4-compatible and IPv4-translated addresses are covered by the first row.
_IPV6_ROWS: Final[tuple[_Row, ...]] = (
    ("::/0", AddressClass.RESERVED, "RFC 4291: reserved by IETF"),
    ("2000::/3", AddressClass.GLOBAL, "RFC 4291: global unicast, the only such block"),
    *IPV6_SPECIAL_PURPOSE,
    ("3ffe::/16", AddressClass.RESERVED, "RFC 3701: 6bone, returned to IANA"),
    ("ff00::/8", AddressClass.MULTICAST, "RFC 4291"),
)

_LOW_32: Final = 0xFFFF_FFFF
_MAPPED: Final = 0xFFFF  # ::ffff:0:0/96, the upper 96 bits
_TRANSLATED: Final = 0xFFFF_0000  # ::ffff:0:0:0/96, RFC 2765, obsolete
_NAT64: Final = 0x0064_FF9B << 64  # 64:ff9b::/96, RFC 6052
_NAT64_LOCAL: Final = 0x0064_FF9B_0001  # 64:ff9b:1::/48, RFC 8215
_SIX_TO_FOUR: Final = 0x2002  # RFC 3056
_TEREDO: Final = 0x2001_0000  # RFC 4380
_ISATAP: Final = 0x0000_5EFE  # RFC 5214 6.1: upper half of the interface identifier ...
_ISATAP_MASK: Final = 0xFCFF_FFFF  # ... in which the u and g bits may have any value

# D-6: a DNS64 network answers with these for every IPv4-only site, and a mapped address is that IPv4 address.
_JUDGED_BY_IPV4: Final = frozenset((_MAPPED, _NAT64))

# An address that is several things at once is the one furthest down.
_SEVERITY: Final = (
    AddressClass.GLOBAL,
    AddressClass.RESERVED,
    AddressClass.CGNAT,
    AddressClass.PRIVATE,
    AddressClass.ULA,
    AddressClass.LOOPBACK,
    AddressClass.UNSPECIFIED,
    AddressClass.LINK_LOCAL,
    AddressClass.MULTICAST,
    AddressClass.IMDS,
)

_NEVER_ADMITTED: Final = frozenset(
    (AddressClass.IMDS, AddressClass.LINK_LOCAL, AddressClass.MULTICAST, AddressClass.UNSPECIFIED)
)
_BROADCAST: Final = IPv4Address("255.255.255.255")

_NO_ADDRESS: Final = (
    "not a canonical IP address: write four plain decimal octets, or IPv6 without brackets and without a zone"
)

_CACHED_ADDRESSES: Final = 4096
"""Picked without measuring: more hosts than one agent visits, and under a megabyte."""


class _RangeTable:
    """Rows in which the longest prefix wins, flattened to sorted ranges that one bisect searches."""

    def __init__(self, rows: Iterable[tuple[str, AddressClass]]) -> None:
        networks = sorted(
            ((ip_network(block), kind) for block, kind in rows),
            key=lambda row: row[0].prefixlen,
            reverse=True,
        )
        blocks = [(int(net.network_address), int(net.broadcast_address), kind) for net, kind in networks]
        self._starts = sorted({edge for first, last, _ in blocks for edge in (first, last + 1)})
        self._classes = [
            next((kind for first, last, kind in blocks if first <= start <= last), AddressClass.RESERVED)
            for start in self._starts
        ]

    def find(self, value: int) -> AddressClass:
        """The class of the range that holds this address."""
        return self._classes[bisect_right(self._starts, value) - 1]


def _rows_with_metadata(rows: Iterable[_Row], *, colon: bool) -> Iterator[tuple[str, AddressClass]]:
    """The rows of one family, and the metadata addresses of that family as single-address rows."""
    yield from ((block, kind) for block, kind, _ in rows)
    yield from ((text, AddressClass.IMDS) for text, _ in METADATA_ADDRESSES if (":" in text) is colon)


_IPV4: Final = _RangeTable(_rows_with_metadata(_IPV4_ROWS, colon=False))
_IPV6: Final = _RangeTable(_rows_with_metadata(_IPV6_ROWS, colon=True))


def classify_address(address: AddressLike) -> AddressClass:
    """What kind of address this is; only `AddressClass.GLOBAL` is public.

    IPv4-mapped addresses and those under the NAT64 prefix 64:ff9b::/96 are what the IPv4 address in them is.
    Every other way to wrap an IPv4 address (64:ff9b:1::/48, 6to4, Teredo, ISATAP, IPv4-compatible,
    IPv4-translated) is never global: the class is that of the worst address wrapped, `RESERVED` if that one
    is public. An address with a zone is at best link-local, for zones name links (RFC 4007). Decision D-6.

    Args:
        address: an `ipaddress` value, or text: four plain decimal octets, or IPv6 in any form of RFC 4291 2.2
            (one address has one meaning there however it is written) without brackets and without a zone.

    Raises:
        ValueError: the text is not such an address.
    """
    return _classify(address)


def dial_address(address: AddressLike) -> IPv4Address | IPv6Address:
    """The address to connect to: the IPv4 address in an IPv4-mapped one, else the address itself (D-6).

    Otherwise the kernel would dial IPv4 on an IPv6 socket, and the peer would not compare equal to what was
    checked. An address under a NAT64 prefix stays what it is: only the network can translate it. One with a
    zone stays what it is, too, for `classify_address` to refuse.

    Raises:
        ValueError: as `classify_address`.
    """
    parsed = _parse(address)
    if isinstance(parsed, IPv4Address) or parsed.scope_id is not None or int(parsed) >> 32 != _MAPPED:
        return parsed
    return IPv4Address(int(parsed) & _LOW_32)


def wrapped_addresses(address: AddressLike) -> tuple[IPv4Address, ...]:
    """Every IPv4 address that an IPv6 address may stand for, without duplicates; empty for IPv4.

    IPv4-mapped, -compatible and -translated, NAT64, 6to4, Teredo (server and client) and ISATAP. Which of
    its four layouts (RFC 6052 2.2) a site uses under 64:ff9b:1::/48 can not be seen, so all readings count;
    one that finds only zeros has looked in the wrong place, unless all do.

    Raises:
        ValueError: as `classify_address`.
    """
    parsed = _parse(address)
    if parsed.version == 4:
        return ()
    return tuple(map(IPv4Address, dict.fromkeys(_wrapped(int(parsed)))))


def may_never_be_admitted(address: AddressLike) -> bool:
    """Whether no private-range rule, whatever it says, may admit this address (D-12).

    True for metadata, link-local, multicast, unspecified and broadcast addresses, and for whatever wraps one.

    Raises:
        ValueError: as `classify_address`.
    """
    parsed = _parse(address)
    # The class of a wrapper is already that of the worst address in it; broadcast alone has no class.
    return _classify(parsed) in _NEVER_ADMITTED or _BROADCAST in (parsed, *wrapped_addresses(parsed))


def _parse(address: AddressLike) -> IPv4Address | IPv6Address:
    if not isinstance(address, str):
        return address
    try:
        parsed = ip_address(address)
    except ValueError:
        raise ValueError(_NO_ADDRESS) from None
    if "%" in address:
        raise ValueError(_NO_ADDRESS)
    return parsed


@lru_cache(maxsize=_CACHED_ADDRESSES)
def _classify(address: AddressLike) -> AddressClass:
    parsed = _parse(address)
    if isinstance(parsed, IPv4Address):
        return _IPV4.find(int(parsed))
    found = _classify_ipv6(int(parsed))
    return found if parsed.scope_id is None else _worst((found, AddressClass.LINK_LOCAL))


def _classify_ipv6(value: int) -> AddressClass:
    if value >> 32 in _JUDGED_BY_IPV4:
        return _IPV4.find(value & _LOW_32)
    own = _IPV6.find(value)
    wrapped = [_IPV4.find(ipv4) for ipv4 in _wrapped(value)]
    if not wrapped:
        return own
    # RESERVED at least: these forms are denied outright, a public address in them included.
    return _worst((own, AddressClass.RESERVED, *wrapped))


def _worst(classes: Iterable[AddressClass]) -> AddressClass:
    return max(classes, key=_SEVERITY.index)


def _wrapped(value: int) -> Iterator[int]:
    prefix = value >> 32
    # :: and ::1 are addresses of their own, not IPv4-compatible ones (RFC 4291 2.5.5.1).
    if prefix in (_MAPPED, _TRANSLATED, _NAT64) or (prefix == 0 and value > 1):
        yield value & _LOW_32
    elif value >> 80 == _NAT64_LOCAL:
        yield from _nat64_readings(value)
    elif value >> 112 == _SIX_TO_FOUR:
        yield value >> 80 & _LOW_32
    elif value >> 96 == _TEREDO:
        yield value >> 64 & _LOW_32
        yield value & _LOW_32 ^ _LOW_32  # RFC 4380 4: the client's address is obfuscated by inverting it
    # Not an alternative: an interface identifier goes with any prefix, a 6to4 prefix too.
    if prefix & _ISATAP_MASK == _ISATAP:
        yield value & _LOW_32


def _nat64_readings(value: int) -> list[int]:
    """RFC 6052 2.2: prefixes of 48, 56, 64 and 96 bits; bits 64 to 71 are never part of the address."""
    readings = [
        (value >> 64 & 0xFFFF) << 16 | value >> 40 & 0xFFFF,
        (value >> 64 & 0xFF) << 24 | value >> 32 & 0xFF_FFFF,
        value >> 24 & _LOW_32,
        value & _LOW_32,
    ]
    return [reading for reading in readings if reading] or [0]
