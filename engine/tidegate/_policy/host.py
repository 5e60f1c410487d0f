"""Hosts: one canonical form for names and addresses, names that are local, and lists of hosts.

Everything that looks at a host (lists, grants, DNS, SNI, the certificate, the pool, the Host field) sees the
one form that `canonical_host` makes, so no two of them can take the same text for different hosts.
"""

import ipaddress
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import idna

from tidegate._policy.reasons import Reason
from tidegate.errors import HostDenied, InvalidURL

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# RFC 1035 2.3.4: 63 octets a label, 255 a name on the wire, which leaves 253 for its text.
_MAX_LABEL: Final = 63
_MAX_NAME: Final = 253
# Mapping can only shorten text by dropping characters such as the soft hyphen. A bound before it keeps the
# work small; 1,024 is the one that the idna package has itself since 3.11.
_MAX_TEXT: Final = 1024

# What the DNS and real hosts use: letters, digits, hyphen anywhere, underscore (D-10a). It is narrower than
# WHATWG's list of forbidden code points, which lets through quotes, braces, `$`, `!` and more.
_NOT_PLAIN: Final = re.compile(r"[\x00-,./:-^`{-\x7f]")
# A name that is canonical as it stands: plain labels, none of them an A-label, the last one no number.
_USUAL_NAME: Final = re.compile(
    r"(?:(?!xn--)[a-z0-9_-]{1,63}\.)*(?!xn--)[a-z_-][a-z0-9_-]{0,62}",
)
# WHATWG "ends in a number": such a host can never be a name, whatever the rest of it is (D-9).
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")

_A_LABEL_PREFIX: Final = "xn--"
_JOINERS: Final = frozenset("\u200c\u200d")


def canonical_host(text: str) -> str:
    """Turn the text of a host into the one form under which it is compared, looked up and sent.

    A name becomes lower-case A-labels without a final dot (UTS 46, non-transitional, as WHATWG URL has it;
    narrower where D-10a says so). An address becomes four plain octets, or compressed IPv6 without brackets.

    Args:
        text: a domain or an address; IPv6 with or without brackets. No port, no white space.

    Raises:
        InvalidURL: `malformed_url`: no host name can be written like this.
        HostDenied: `non_canonical_ip`: the last label is a number but the whole is not four plain decimal
            octets, such as `0x7f.1`, `127.0.0.1.` and their full-width spellings (D-9).
    """
    if len(text) <= _MAX_NAME and _USUAL_NAME.fullmatch(text):
        return text
    if ":" in text or text.startswith("["):
        return _canonical_ipv6(text)
    mapped = _mapped(text).removesuffix(".")
    if _NUMBER.fullmatch(mapped.rpartition(".")[2]):
        return _canonical_ipv4(text)
    name = ".".join(_ascii_label(label) for label in _labels(mapped))
    if len(name) > _MAX_NAME:
        raise _malformed("is longer than 253 octets")
    return name


def address_of(host: str) -> Address | None:
    """The address, if a canonical host is a literal one; None for a name.

    Args:
        host: what `canonical_host` returned. On other text that ends in a number it raises ValueError
            rather than take it for a name.
    """
    if ":" in host:
        return ipaddress.IPv6Address(host)
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return ipaddress.IPv4Address(host)
    return None


# D-8. RFC 6761 6.3 (localhost), RFC 6762 (local), ICANN resolution 2024.07.29.06 (internal), RFC 8375
# (home.arpa), RFC 7686 (onion): none of them may ever be asked of the public DNS.
_LOCAL_SUFFIXES: Final = ("localhost", "local", "internal", "home.arpa", "onion")
_LOCAL_ENDINGS: Final = tuple(f".{suffix}" for suffix in _LOCAL_SUFFIXES)


def is_local_name(host: str) -> bool:
    """Whether a canonical host is local by definition, whatever a resolver would say (D-8).

    True for single-label names and for everything under `localhost`, `local`, `internal`, `home.arpa` and
    `onion`; False for addresses, which have rules of their own.
    """
    if ":" in host:
        return False
    return "." not in host or f".{host}".endswith(_LOCAL_ENDINGS)


# Names ------------------------------------------------------------------------------------------------


def _malformed(problem: str) -> InvalidURL:
    return InvalidURL(f"The host {problem}.")


def _described(character: str) -> str:
    """`U+0025 (%)`; the character itself only if it cannot disturb a terminal or a log."""
    shown = f" ({character})" if character.isascii() and character.isprintable() else ""
    return f"U+{ord(character):04X}{shown}"


def _mapped(text: str) -> str:
    """UTS 46 mapping, case folding and NFC; the full stops of other scripts become dots here."""
    if len(text) > _MAX_TEXT:
        raise _malformed("is longer than 253 octets")
    if text.isascii():
        return text.lower()
    _refuse_unassigned(text)
    try:
        return idna.uts46_remap(text, std3_rules=False)
    except idna.IDNAError:
        bad = next(character for character in text if not _is_mappable(character))
        raise _malformed(f"holds {_described(bad)}, which no host name may hold") from None


def _refuse_unassigned(text: str) -> None:
    """Refuse what this Python's Unicode does not know: two peers may see two names in it.

    The tables of idna may be newer, but case, normal form and direction come from `unicodedata`.
    """
    for character in text:
        if unicodedata.category(character) == "Cn":
            raise _malformed(
                f"holds {_described(character)}, which is not assigned in this version of Unicode"
            )


def _is_mappable(character: str) -> bool:
    try:
        idna.uts46_remap(character, std3_rules=False)
    except idna.IDNAError:
        return False
    return True


def _labels(name: str) -> list[str]:
    labels = name.split(".")
    if labels == [""]:
        raise _malformed("is empty")
    if "" in labels:
        raise _malformed("has an empty label: a dot at the start, or two dots together")
    return labels


def _ascii_label(label: str) -> str:
    """One mapped label as ASCII, after every check of D-10a."""
    # An A-label is never shorter than what it stands for, so this holds for Unicode labels too and keeps
    # the quadratic punycode away from long input.
    if len(label) > _MAX_LABEL:
        raise _malformed("has a label longer than 63 octets")
    # Before punycode, which takes any ASCII as it is.
    if odd := _NOT_PLAIN.search(label):
        hint = "; percent-encoding is not decoded there" if odd[0] == "%" else ""
        raise _malformed(f"holds {_described(odd[0])}, which no host name may hold{hint}")
    if label.startswith(_A_LABEL_PREFIX):
        return _checked_a_label(label)
    if label.isascii():
        return label
    return _encoded(label)


def _encoded(label: str) -> str:
    """The A-label of a Unicode label (RFC 3492)."""
    _check_unicode_label(label)
    encoded = _A_LABEL_PREFIX + label.encode("punycode").decode("ascii")
    if len(encoded) > _MAX_LABEL:
        raise _malformed("has a label longer than 63 octets")
    return encoded


def _checked_a_label(label: str) -> str:
    """The same A-label, if it is the only spelling of what it stands for.

    WHATWG lets broken punycode pass in pure ASCII hosts. Here it must decode, hold non-ASCII and encode back
    to itself, or a list could be shown one name and a registry another (D-10a).
    """
    try:
        decoded = label.removeprefix(_A_LABEL_PREFIX).encode("ascii").decode("punycode")
    except UnicodeError:
        decoded = ""
    if decoded.isascii() or _encoded(decoded) != label:
        raise _malformed("has an xn-- label that is not valid punycode")
    return label


def _check_unicode_label(label: str) -> None:
    """UTS 46 section 4.1, "validity criteria", for a label that holds non-ASCII."""
    if label.startswith(_A_LABEL_PREFIX):
        raise _malformed("has an xn-- label that is not valid punycode")
    _refuse_unassigned(label)
    try:
        unchanged = idna.uts46_remap(label, std3_rules=False) == label
        idna.check_initial_combiner(label)
        idna.check_bidi(label)
        joined = all(idna.valid_contextj(label, at) for at, c in enumerate(label) if c in _JOINERS)
    except ValueError:  # IDNAError is one
        unchanged = joined = False
    if not (unchanged and joined):
        raise _malformed("has a label that UTS 46 does not allow (characters, joiners or direction)")


# Addresses --------------------------------------------------------------------------------------------


def _canonical_ipv4(text: str) -> str:
    """Four ASCII decimal octets without leading zeros, or a refusal: parsers differ on everything else."""
    try:
        return str(ipaddress.IPv4Address(text))
    except ipaddress.AddressValueError:
        raise HostDenied(
            "The host ends in a number but is not an address; write an address as four decimal octets without"
            " leading zeros, or use a name.",
            reason=Reason.NON_CANONICAL_IP,
        ) from None


def _canonical_ipv6(text: str) -> str:
    """RFC 5952 text without brackets and without a dotted tail, as WHATWG serialises it."""
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if "%" in inner:
        raise _malformed("has an IPv6 zone id, which means nothing beyond this machine")
    try:
        address = ipaddress.IPv6Address(inner)
    except ipaddress.AddressValueError:
        raise _malformed("is neither a name nor an IPv6 address in brackets") from None
    mapped = address.ipv4_mapped
    if mapped is None:
        return str(address)
    # Since Python 3.13 str() gives these a dotted tail; one canonical form must not depend on the version.
    return f"::ffff:{int(mapped) >> 16:x}:{int(mapped) & 0xFFFF:x}"


# Lists of hosts ---------------------------------------------------------------------------------------
#
# Two meanings of a star, two matchers (D-15, X-3). They share the canonical form and nothing else: each one
# lists the patterns that would cover a host and looks whether one of them is there.


@dataclass(frozen=True, slots=True, init=False)
class HostList:
    """An operator's list of hosts: exact ones, and `*.example.com` for every name below example.com.

    The star covers any depth and never example.com itself. Order and duplicates do not matter for matching.

    Args:
        patterns: host names, addresses (IPv6 with or without brackets) and `*.domain`; no port, no scheme,
            no path. They are canonicalised, so `*.Bücher.example.` is `*.xn--bcher-kva.example`.
        allow_special_suffix: also take a star over a suffix that is no public one, such as `*.internal` or
            `*.home.arpa`; for private-range rules.

    Attributes:
        patterns: the canonical entries, in the order given, each once.

    Raises:
        ValueError: an entry cannot be meant as written; the message names it and says what is allowed.
    """

    patterns: tuple[str, ...]
    _known: frozenset[str] = field(compare=False, repr=False)

    def __init__(self, patterns: Iterable[str], *, allow_special_suffix: bool = False) -> None:
        if isinstance(patterns, str):
            raise ValueError("A host list is a list of texts, not one text; put it into brackets.")
        entries = (_list_entry(entry, allow_special_suffix) for entry in patterns)
        object.__setattr__(self, "patterns", tuple(dict.fromkeys(entries)))
        object.__setattr__(self, "_known", frozenset(self.patterns))

    def matches(self, host: str) -> bool:
        """Whether an entry covers this host; False for text that is no host."""
        return self.most_specific(host) is not None

    def most_specific(self, host: str) -> str | None:
        """The entry that covers this host; the exact one before wildcards, the longest wildcard first."""
        name = _canonical_or_none(host)
        if name is None:
            return None
        covering = (name, *(f"*.{parent}" for parent in _parents(name)))
        return next((pattern for pattern in covering if pattern in self._known), None)

    def __bool__(self) -> bool:
        return bool(self.patterns)


@dataclass(frozen=True, slots=True, init=False)
class GrantPatterns:
    """The host patterns of a capability grant, as a kernel gives them.

    `example.com` is that host; `*.example.com` exactly one label more; `**.example.com` any depth and
    example.com itself; `*` and `**.*` every host. Nothing here raises: a pattern or host that cannot be
    understood matches nothing (section C of the decisions), and so does one text given for the list.

    Args:
        patterns: the grants; host names and addresses are canonicalised like a URL's host (AMB-28).

    Attributes:
        patterns: the grants as they were given, odd ones included: deriving capabilities compares texts.
    """

    patterns: tuple[str, ...]
    _known: frozenset[str] = field(compare=False, repr=False)

    def __init__(self, patterns: Iterable[str]) -> None:
        # Taken letter by letter, "*.example.com" would grant everything.
        given = () if isinstance(patterns, str) else tuple(patterns)
        object.__setattr__(self, "patterns", given)
        object.__setattr__(self, "_known", frozenset(filter(None, map(_grant_entry, given))))

    def covers(self, host: str) -> bool:
        """Whether a grant covers this host. Never raises; False for whatever is no host."""
        name = _canonical_or_none(host)
        if name is None:
            return False
        parents = list(_parents(name))
        one_label = (f"*.{parent}" for parent in parents[:1])
        any_depth = (f"**.{domain}" for domain in (name, *parents))
        return not self._known.isdisjoint(("*", name, *one_label, *any_depth))

    def __bool__(self) -> bool:
        return bool(self.patterns)


def _canonical_or_none(host: object) -> str | None:
    try:
        return canonical_host(host) if isinstance(host, str) else None
    except (InvalidURL, HostDenied):
        return None


def _parents(name: str) -> Iterator[str]:
    """`b.c`, then `c`, of `a.b.c`: the nearest first."""
    while name := name.partition(".")[2]:
        yield name


def _grant_entry(pattern: object) -> str | None:
    """The canonical grant, or None for one that matches nothing."""
    if not isinstance(pattern, str):
        return None
    if pattern in ("*", "**.*"):
        return "*"
    stars, domain = _split_stars(pattern, ("**.", "*."))
    host = _canonical_or_none(domain)
    # A number is not a domain: without this `*.0.0.1` would be a grant for 127.0.0.1.
    if host is None or (stars and address_of(host)):
        return None
    return stars + host


def _split_stars(pattern: str, prefixes: tuple[str, ...]) -> tuple[str, str]:
    stars = next((prefix for prefix in prefixes if pattern.startswith(prefix)), "")
    return stars, pattern.removeprefix(stars)


# Suffixes that private networks use and that are in no public zone: D-8, RFC 6761 6.2 (test), and the list
# in appendix G of RFC 6762. A star over one of them cannot reach a stranger's host (D-15).
_SPECIAL_SUFFIXES: Final = frozenset(
    (*_LOCAL_SUFFIXES, "test", "intranet", "private", "corp", "home", "lan"),
)
_ALLOWED_ENTRIES: Final = (
    "Allowed are a host name, an IP address, or *.example.com for every name below example.com."
)
_PORT: Final = re.compile(r"(?:\[.*\]|[^:\[\]]*):[0-9]*")


def _list_entry(entry: object, allow_special_suffix: bool) -> str:
    """The canonical entry of a host list, or ValueError."""
    if not isinstance(entry, str):
        raise ValueError(f"Host list entry {entry!r} is not a text. {_ALLOWED_ENTRIES}")
    star, domain = _split_stars(entry, ("*.",))
    problem = _problem_of_form(domain)
    try:
        host = "" if problem else canonical_host(domain)
    except (InvalidURL, HostDenied) as error:
        host, problem = "", error.message
    if star and not problem:
        problem = _problem_of_star(host, allow_special_suffix)
    if problem:
        raise ValueError(f"Host list entry {entry!r} is refused. {problem} {_ALLOWED_ENTRIES}")
    return star + host


def _problem_of_form(domain: str) -> str:
    """What somebody meant who wrote more than a host; empty if it is none of the usual things."""
    if "://" in domain:
        return "It is a URL."
    if "/" in domain:
        return "It has a path or is a range of addresses."
    if "*" in domain:
        return "A star can only be the whole first label, with a domain after it."
    if _PORT.fullmatch(domain):
        return "It has a port; a listed host may be reached on any port."
    return ""


def _problem_of_star(host: str, allow_special_suffix: bool) -> str:
    if address_of(host):
        return "A star cannot stand before a number."
    if host in _SPECIAL_SUFFIXES and allow_special_suffix:
        return ""
    if "." not in host or host in _SPECIAL_SUFFIXES:
        return "A star over a whole top-level or special domain covers too much."
    return ""
