"""Names to addresses, afresh every time: nothing is cached. Every answer is checked by `_policy.pin`."""

import socket
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias
from weakref import WeakValueDictionary

import trio

from tidegate._policy.host import canonical_host
from tidegate.errors import FetchError, ResolutionError

if TYPE_CHECKING:
    import dns.asyncresolver

Address: TypeAlias = IPv4Address | IPv6Address

_HOSTS_FILE: Final = Path("/etc/hosts")


class Resolver(Protocol):
    """Asks for the addresses of a name. Called once per hop, never for an address literal."""

    async def resolve(self, host: str) -> Sequence[Address]:
        """The addresses of a host, best first.

        Args:
            host: a canonical name (A-labels, no final dot). It is absolute: no search list applies (D-23).

        Raises:
            ResolutionError: no such name, no answer, or the resolver is busy; the message says which.
        """
        ...


lookup_key: Final[ContextVar[object]] = ContextVar("tidegate_lookup_key", default=None)
"""Whose lookup it is: the `key` of the fetch, None for nobody's. The engine sets it around `resolve`."""


@dataclass(frozen=True, slots=True)
class ResolverStatistics:
    """How a `SystemResolver` is doing.

    Attributes:
        threads: lookups under way, those included whose fetch has given up: a thread cannot be stopped.
        max_threads: how many there can be.
        waiting: lookups that wait for a thread.
    """

    threads: int
    max_threads: int
    waiting: int


class SystemResolver:
    """The machine's own resolver, in threads of its own limiter.

    `/etc/hosts` counts, and its answers are checked like any other (F-103). A lookup that is given up keeps
    its thread until the system returns (with glibc's defaults that takes up to half a minute for a nameserver
    that never answers), so threads are bounded, and so is the wait for one.

    The fetches of one key never have all the threads, stuck ones included, so that an agent that asks for
    names which hang leaves room for others. Several such agents together can take them all, and so can
    fetches without a key, which have no bound of their own. A `DnsResolver` has no threads to run out of.

    Args:
        max_threads: lookups at once.
        max_wait: seconds to wait for a thread before a lookup fails as busy.
        max_threads_per_key: lookups at once of one key; by default half of all, rounded up.

    Raises:
        ValueError: a number of threads is less than one.
    """

    def __init__(
        self, *, max_threads: int = 20, max_wait: float = 5.0, max_threads_per_key: int | None = None
    ) -> None:
        per_key = (max_threads + 1) // 2 if max_threads_per_key is None else max_threads_per_key
        if min(max_threads, per_key) < 1:
            raise ValueError("max_threads and max_threads_per_key of a SystemResolver must be at least 1")
        self._threads = trio.CapacityLimiter(max_threads)
        self._per_key = per_key
        self._max_wait = max_wait
        # A share lives for as long as a lookup of its key holds it.
        self._shares: WeakValueDictionary[object, trio.CapacityLimiter] = WeakValueDictionary()

    async def resolve(self, host: str) -> Sequence[Address]:
        """See `Resolver.resolve`."""
        addresses: Sequence[Address] = await trio.to_thread.run_sync(
            _look_up,
            host,
            abandon_on_cancel=True,
            limiter=_Turn(self._limiters(), self._max_wait),  # type: ignore[arg-type]  # has what trio asks for
        )
        return addresses

    def _limiters(self) -> tuple[trio.CapacityLimiter, ...]:
        """Of the key, if there is one, and of all: in this order, so that a key waits behind itself."""
        key = lookup_key.get()
        if key is None:
            return (self._threads,)
        return (self._shares.setdefault(key, trio.CapacityLimiter(self._per_key)), self._threads)

    def statistics(self) -> ResolverStatistics:
        """A snapshot of the threads in use."""
        limiters = (self._threads, *self._shares.values())
        return ResolverStatistics(
            self._threads.borrowed_tokens,
            int(self._threads.total_tokens),
            sum(limiter.statistics().tasks_waiting for limiter in limiters),
        )


class _Turn:
    """The limiter of one lookup: a token of each of several, for which nobody waits longer than `max_wait`.

    Trio gives it back when the thread is done, however long its caller has been gone.
    """

    def __init__(self, limiters: Sequence[trio.CapacityLimiter], max_wait: float) -> None:
        self._limiters = limiters
        self._max_wait = max_wait
        self._held: list[trio.CapacityLimiter] = []

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        try:
            with trio.move_on_after(self._max_wait) as scope:
                for limiter in self._limiters:
                    await limiter.acquire_on_behalf_of(borrower)
                    self._held.append(limiter)
            # A token that came in the very tick of the time-out is kept: the scope then caught nothing.
            if scope.cancelled_caught:
                raise self._busy(self._limiters[len(self._held)])
        except BaseException:
            self.release_on_behalf_of(borrower)
            raise

    def release_on_behalf_of(self, borrower: object) -> None:
        while self._held:
            self._held.pop().release_on_behalf_of(borrower)

    def _busy(self, limiter: trio.CapacityLimiter) -> ResolutionError:
        whose = "" if limiter is self._limiters[-1] else " that one key may have"
        return ResolutionError(
            f"the resolver is busy: all {int(limiter.total_tokens)} lookup threads{whose} are taken "
            f"and none was free within {self._max_wait:g} s"
        )


def _look_up(host: str) -> list[Address]:
    """Runs in a thread. glibc does not look for `name.` in /etc/hosts, so that file is read here."""
    found = _from_hosts_file(host)
    if found:
        return found
    try:
        answers = socket.getaddrinfo(f"{host}.", None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ResolutionError(f"{host} could not be resolved: {error.strerror or error}") from None
    except UnicodeError:
        raise ResolutionError(f"{host} could not be resolved: the system refuses the name") from None
    return list(dict.fromkeys(_address(str(answer[4][0])) for answer in answers))


def _address(text: str) -> Address:
    # A scope id belongs to link-local addresses, which are refused whatever it says.
    return ip_address(text.partition("%")[0])


def _from_hosts_file(host: str) -> list[Address]:
    try:
        text = _HOSTS_FILE.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found: list[Address] = []
    for line in text.split("\n"):
        address, *names = line.partition("#")[0].split() or [""]
        if host in (name.lower().removesuffix(".") for name in names):
            found.append(_address(address))
    return found


class StaticResolver:
    """A fixed table, for tests, demonstrations and an operator's own pins. The floor still applies.

    Args:
        table: host names to address texts.
        fallback: who is asked for every other name; None means that no other name exists.

    Raises:
        ValueError: a host or an address in the table is none.
    """

    def __init__(self, table: Mapping[str, Iterable[str]], *, fallback: Resolver | None = None) -> None:
        self._table = {_table_host(host): tuple(map(ip_address, texts)) for host, texts in table.items()}
        self._fallback = fallback

    async def resolve(self, host: str) -> Sequence[Address]:
        """See `Resolver.resolve`."""
        if host in self._table:
            return self._table[host]
        if self._fallback is not None:
            return await self._fallback.resolve(host)
        raise ResolutionError(f"{host} could not be resolved: no such name")


def _table_host(host: str) -> str:
    try:
        return canonical_host(host)
    except FetchError as error:
        raise ValueError(f"{host!r} is no host name: {error}") from None


class DnsResolver:
    """Asks nameservers that the operator names, and nobody else (F-103).

    Needs the extra `dns` (dnspython: it validates and follows answers, and speaks trio without threads).
    Neither `/etc/hosts` nor a search list is read. A and AAAA are asked at the same time.

    Args:
        nameservers: addresses, with a port if it is not 53, such as "192.0.2.1:5353" or "[2001:db8::1]:53".
        timeout: seconds until a lookup fails, over all nameservers and tries.

    Raises:
        ValueError: there are none, or one is no address.
        ModuleNotFoundError: dnspython is not installed; the message names the extra.
    """

    def __init__(self, nameservers: Iterable[str], *, timeout: float = 5.0) -> None:
        self._timeout = timeout
        self._resolver = _dns_resolver([_nameserver(text) for text in nameservers], timeout)

    async def resolve(self, host: str) -> Sequence[Address]:
        """See `Resolver.resolve`."""
        found: dict[str, list[Address]] = {}
        failures: list[str] = []

        async def ask(kind: str) -> None:
            try:
                found[kind] = await self._ask(host, kind)
            except _NoAddress as error:
                failures.append(str(error))

        with trio.move_on_after(self._timeout):  # dnspython goes by the wall clock, which can be stepped
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, "A")
                nursery.start_soon(ask, "AAAA")
        addresses = [*found.get("AAAA", ()), *found.get("A", ())]
        if not addresses:
            told = failures[0] if failures else f"no answer within {self._timeout:g} s"
            raise ResolutionError(f"{host} could not be resolved: {told}")
        return addresses

    async def _ask(self, host: str, kind: str) -> list[Address]:
        import dns.exception
        import dns.resolver

        try:
            answer = await self._resolver.resolve(f"{host}.", kind, search=False)
        except dns.resolver.NXDOMAIN:
            raise _NoAddress("no such name") from None
        except dns.resolver.NoAnswer:
            raise _NoAddress("the name has no addresses") from None
        except dns.exception.Timeout:
            raise _NoAddress("the nameservers do not answer") from None
        except (dns.exception.DNSException, OSError, ValueError) as error:
            raise _NoAddress(f"the nameservers answer with a failure ({type(error).__name__})") from None
        return [ip_address(record.address) for record in answer]


class _NoAddress(Exception):
    """One query brought no address; the text says why."""


def _nameserver(text: str) -> tuple[str, int]:
    host, port = text, "53"
    if text.count(":") == 1 or text.startswith("["):
        host, _, port = text.rpartition(":") if not text.endswith("]") else (text, "", "53")
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
        number = int(port)
    except ValueError:
        raise ValueError(f"nameserver {text!r} is no address such as '192.0.2.1' or '192.0.2.1:53'") from None
    if not 1 <= number <= 65535:
        raise ValueError(f"nameserver {text!r}: the port must be from 1 to 65535")
    return str(address), number


def _dns_resolver(nameservers: list[tuple[str, int]], timeout: float) -> "dns.asyncresolver.Resolver":
    if not nameservers:
        raise ValueError("DnsResolver needs at least one nameserver")
    try:
        import dns.asyncresolver
        import dns.nameserver
    except ModuleNotFoundError:
        raise ModuleNotFoundError("DnsResolver needs dnspython: install tidegate[dns]") from None
    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.nameservers = [dns.nameserver.Do53Nameserver(host, port) for host, port in nameservers]
    resolver.lifetime = timeout
    return resolver
