"""The pin: an address that has passed every check, as a type. `check_addresses` is its only maker."""

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from tidegate._policy.address import classify_address, dial_address
from tidegate._policy.host import address_of
from tidegate._policy.policy import Policy
from tidegate._policy.reasons import AddressClass, Reason
from tidegate._policy.url import URL
from tidegate.errors import AddressDenied, ResolutionError


class _Seal:
    """A type of its own, so that a type checker, too, refuses a target from anywhere else."""


_SEAL: Final = _Seal()


@dataclass(frozen=True, slots=True)
class PinnedTarget:
    """Where a connection may go, and nowhere else. A `Connector` takes nothing but this.

    Attributes:
        scheme: "http" or "https".
        host: the canonical host of the URL; certificates are checked against it.
        port: the port.
        address: the validated address that is dialled.
        self_allowed: a private-range rule admits this very address, so it may be this machine (D-7).
    """

    scheme: str
    host: str
    port: int
    address: IPv4Address | IPv6Address
    self_allowed: bool
    seal: InitVar[_Seal]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self, seal: _Seal) -> None:
        if seal is not _SEAL:
            raise TypeError("a PinnedTarget is made by check_addresses alone")
        # Idle connections and TLS sessions are looked up by it, several times a fetch.
        object.__setattr__(self, "_hash", hash((self.scheme, self.host, self.port, self.address)))

    def __hash__(self) -> int:
        return self._hash


def check_addresses(
    policy: Policy, url: URL, addresses: Sequence[IPv4Address | IPv6Address]
) -> tuple[PinnedTarget, ...]:
    """Pin a URL to the addresses its host has, if every single one of them may be reached.

    One bad answer refuses all: a name that is public and private at once is either an attack or a mistake
    (W-106). No message holds an address that DNS gave (W-F3).

    Raises:
        AddressDenied: at least one address is not public and no private-range rule admits it.
        ResolutionError: there are no addresses.
    """
    if not addresses:
        raise ResolutionError(f"{url.host} has no addresses")
    pinned = (_pin(policy, url.origin, address) for address in addresses)
    return tuple(dict.fromkeys(pinned))  # no address twice


@lru_cache(maxsize=1024)  # pure: DNS is asked every time, but what its answer means stays the same
def _pin(policy: Policy, origin: tuple[str, str, int], answer: IPv4Address | IPv6Address) -> PinnedTarget:
    scheme, host, port = origin
    address = dial_address(answer)
    admitted = any(rule.admits(host, address) for rule in policy.private_ranges)
    kind = classify_address(address)
    if kind is not AddressClass.GLOBAL and not admitted:
        raise _refusal(host, kind)
    return PinnedTarget(scheme, host, port, address, admitted, _SEAL)


_NAMES: Final = {
    AddressClass.IMDS: "a cloud metadata or platform address; nothing can allow it",
    AddressClass.LOOPBACK: "a loopback address; only a private-range rule that spells it out can allow it",
    AddressClass.LINK_LOCAL: "a link-local address; nothing can allow it",
    AddressClass.MULTICAST: "a multicast address; nothing can allow it",
    AddressClass.UNSPECIFIED: "the unspecified address; nothing can allow it",
    AddressClass.PRIVATE: "a private address; only a private-range rule for this host can allow it",
    AddressClass.ULA: "a unique local address; only a private-range rule for this host can allow it",
    AddressClass.CGNAT: "a carrier-grade NAT address; only a private-range rule for this host can allow it",
    AddressClass.RESERVED: "a reserved or special-purpose address; at most a private-range rule can allow it",
}


def _refusal(host: str, kind: AddressClass) -> AddressDenied:
    verb = "is" if address_of(host) is not None else "resolves to"
    return AddressDenied(f"{host} {verb} {_NAMES[kind]}", reason=Reason(kind.value))
