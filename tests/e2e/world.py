"""Who lives where in the network of the end-to-end tests; both sides of the harness read it.

Two namespaces, joined by a veth pair. In "internet" every address there is belongs to the machine (a local
default route), so an address that nobody serves refuses connections at once. In "agent" the engine runs; all
it has is this link, a default route over it, and its own loopback.
"""

from ipaddress import IPv4Address, IPv6Network, ip_address, ip_network

INTERNET_INTERFACE = "internet0"
AGENT_INTERFACE = "agent0"

# The link has public addresses, so that the agent's own is refused for being its own (D-7), not its range.
INTERNET_LINK = ("93.184.215.1", "2606:2800:215::1")
AGENT_LINK = ("93.184.215.2", "2606:2800:215::2")
LINK_PREFIXES = (30, 126)
INTERNET_LINK_LOCAL = "fe80::1"
AGENT_LINK_LOCAL = "fe80::2"

NAMESERVER = "93.184.216.53"
# nginx, on ports 80 and 443.
WEB = ("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946")
# The hostile origin: plain on port 80, TLS on 443, and these.
HOSTILE = ("93.184.216.66", "2606:2800:220:1::66")
SILENT_PORT = 8001
STALLED_TLS_PORT = 8443
# Public, and nothing ever comes back.
BLACK_HOLES = ("45.33.32.0/24", "2600:3c01::/32")
BLACK_HOLE = "45.33.32.156"
# Public, and refuses every connection.
CLOSED = "93.184.216.99"

# Sentinels listen on these ports of every address in the next two tables, and count who comes.
SENTINEL_PORTS = (22, 80, 443, 3000, 6379, 8080)
AGENT_SENTINELS = (
    "127.0.0.1",
    "127.1.2.3",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "169.254.0.1",
    "100.64.0.1",
    "::1",
    "fc00::1",
    "fd00::1",
    "fe80::2",
)
# The metadata services are here alone: they are off the machine in a real cloud as well.
INTERNET_SENTINELS = (
    "127.0.0.1",
    "10.20.30.40",
    "172.31.255.254",
    "192.168.178.1",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "168.63.129.16",
    "100.100.100.200",
    "100.127.255.254",
    "192.0.0.192",
    "198.18.0.1",
    "203.0.113.1",
    "240.0.0.1",
    "::1",
    "fc00::2",
    "fdff::1",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fec0::1",
    "fe80::1",
    "64:ff9b::a14:1e28",
    "2001:db8::1",
    "2002:a14:1e28::1",
)

# Written down here again, from RFC 6890's registries and the list of D-6, so as not to trust what is tested.
FORBIDDEN_NETWORKS = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
        "::/3",
        "4000::/2",
        "8000::/1",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3ffe::/16",
        "3fff::/20",
    )
)


# AMT and AS112 lie inside a forbidden block, and are public as the registry says (D-6).
_PUBLIC_EXCEPTIONS = (ip_network("2001:3::/32"), ip_network("2001:4:112::/48"))
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP_MARKS = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")


def is_forbidden(address: str) -> bool:
    """Whether no packet may ever go to this address."""
    parsed = ip_address(address)
    if parsed in _NAT64:
        parsed = IPv4Address(parsed.packed[12:])
    if parsed.version == 6 and parsed.packed[8:12] in _ISATAP_MARKS:
        return True
    return any(parsed in network for network in FORBIDDEN_NETWORKS) and not any(
        parsed in network for network in _PUBLIC_EXCEPTIONS
    )


_WEB_ANSWER = {"A": [WEB[0]], "AAAA": [WEB[1]]}
_HOSTILE_ANSWER = {"A": [HOSTILE[0]], "AAAA": [HOSTILE[1]]}

# The certificate of nginx and of the hostile origin holds for these names, and for their addresses.
CERTIFIED_NAMES = ("example.com", "*.example.com", "example.org", "*.example.org", *WEB, *HOSTILE)
# nginx shows each of these a certificate with one thing wrong.
EXPIRED, WRONG_NAME, UNTRUSTED = "expired.example.com", "wrong-name.example.com", "untrusted.example.com"

ZONE: dict[str, object] = {
    "example.com": _WEB_ANSWER,
    "www.example.com": _WEB_ANSWER,
    "other.example.org": _WEB_ANSWER,
    "v4.example.com": {"A": [WEB[0]]},
    "v6.example.com": {"AAAA": [WEB[1]]},
    "alias.example.com": {"CNAME": "www.example.com"},
    "hostile.example.com": _HOSTILE_ANSWER,
    "hostile.example.org": _HOSTILE_ANSWER,
    EXPIRED: _WEB_ANSWER,
    WRONG_NAME: _WEB_ANSWER,
    UNTRUSTED: _WEB_ANSWER,
    "closed.example.com": {"A": [CLOSED]},
    "black-hole.example.com": {"A": [BLACK_HOLE]},
    "half-dead.example.com": {"A": [BLACK_HOLE, CLOSED, WEB[0]]},
    "many.example.com": {"A": [f"93.184.217.{host}" for host in range(200)]},
    "self.example.com": {"A": [AGENT_LINK[0]], "AAAA": [AGENT_LINK[1]]},
    "private.example.com": {"A": ["10.20.30.40"]},
    "metadata.example.com": {"A": ["169.254.169.254"]},
    "mapped.example.com": {"AAAA": ["::ffff:127.0.0.1"]},
    "mixed.example.com": {"A": [WEB[0], "10.20.30.40"]},
    "rebind.example.com": [{"A": [WEB[0]]}, {"A": ["127.0.0.1"]}],
    "silent-dns.example.com": "TIMEOUT",
    "broken-dns.example.com": "SERVFAIL",
}

# What the agent finds in its own /etc; the second name only there (F-103: the floor holds for it too).
RESOLV_CONF = f"nameserver {NAMESERVER}\noptions timeout:1 attempts:2\n"
HOSTS = "127.0.0.1 localhost\n::1 localhost\n10.20.30.40 hosts-file.example.com\n"
NSSWITCH_CONF = "hosts: files dns\n"
