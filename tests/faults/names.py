"""Faults of names and of whoever resolves them; in virtual time where nobody has to ask a real server."""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
import trio

import tidegate
from tests.faults.fault import BAD, Answer, Failure, LoopbackFault, MemoryFault, Outcome, timed_out
from tests.faults.peers import redirects
from tidegate import Phase, Reason
from tidegate._wire import resolve

STUCK_THREADS: Final = threading.Semaphore(0)
"""Counts the lookups that have begun to hang."""

# Resolvers in virtual time ...


class Raises:
    """Fails in its own way."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def resolve(self, host: str) -> Sequence[Any]:
        raise self._error


class Gives:
    """Answers with one thing after the other, whatever it is; the last one stays."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    async def resolve(self, host: str) -> Any:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class Hangs:
    """Never answers."""

    async def resolve(self, host: str) -> Sequence[Any]:
        await trio.sleep(float("inf"))
        return ()


class LookupsAbandonedBefore(tidegate.SystemResolver):
    """The system's, after so many fetches have given up on lookups that hang, a second each."""

    THREADS: Final = 2

    def __init__(self, abandoned: int) -> None:
        super().__init__(max_threads=self.THREADS, max_wait=3)
        self._abandoned = abandoned

    async def resolve(self, host: str) -> Sequence[Any]:
        try:
            for _ in range(self._abandoned):
                with trio.move_on_after(1):
                    await super().resolve(host)
            return await super().resolve(host)
        finally:
            # Virtual time does not wait for threads: they must be stuck before anything is put right again.
            for _ in range(min(self._abandoned + 1, self.THREADS)):
                assert STUCK_THREADS.acquire(timeout=10)


def addresses(*texts: str) -> list[Any]:
    """As resolvers give them."""
    return [ip_address(text) for text in texts]


# What is wrong with the machine ...


@contextmanager
def hosts_file(text: bytes) -> Iterator[None]:
    """The machine's table of hosts is this, and nobody else knows the name."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        file = Path(folder) / "hosts"
        file.write_bytes(text)
        patch.setattr(resolve, "_HOSTS_FILE", file)
        patch.setattr(socket, "getaddrinfo", _failing(OSError(-2, "Name or service not known")))
        yield


def hosts(text: bytes) -> Callable[[], AbstractContextManager[None]]:
    """As `hosts_file`, for a row."""
    return lambda: hosts_file(text)


@contextmanager
def lookups_that(does: Callable[..., Any]) -> Iterator[None]:
    """The system's own lookup does this, and the table of hosts cannot be read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolve, "_HOSTS_FILE", Path("/nowhere/hosts"))
        patch.setattr(socket, "getaddrinfo", does)
        yield


def _failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


def lookups_raise(error: Exception) -> Callable[[], AbstractContextManager[None]]:
    """The system's lookup raises."""
    return lambda: lookups_that(_failing(error))


def lookups_give(*texts: str) -> Callable[[], AbstractContextManager[None]]:
    """The system's lookup gives these addresses."""
    return lambda: lookups_that(lambda *_, **__: [(0, 0, 0, "", (text, 0)) for text in texts])


@contextmanager
def stuck_lookups() -> Iterator[None]:
    """The system's lookups hang until it is over."""
    release = threading.Event()

    def hang(*_: Any, **__: Any) -> Any:
        STUCK_THREADS.release()
        release.wait(60)
        return []

    with lookups_that(hang):
        try:
            yield
        finally:
            release.set()


# What must come of it ...

UNRESOLVED: Final = Failure(tidegate.ResolutionError, Phase.RESOLVE)


def unresolved(told: str, seconds: float = 0.0) -> Failure:
    """No addresses; the message says why."""
    return Failure(tidegate.ResolutionError, Phase.RESOLVE, told=told, seconds=seconds)


def denied(reason: Reason, phase: Phase = Phase.RESOLVE) -> Failure:
    """One address among them that must not be reached."""
    return Failure(tidegate.AddressDenied, phase, reason)


PUBLIC: Final = "93.184.216.34"
MANY: Final = [f"93.184.{number // 200}.{number % 200}" for number in range(400)]


def resolving(done: str, gives: Outcome, resolver: Callable[[], Any], **more: Any) -> MemoryFault:
    """A row in virtual time."""
    return MemoryFault(done=done, gives=gives, options=lambda: {"resolver": resolver()}, **more)


def answering(done: str, gives: Outcome, *answers: Any, **more: Any) -> MemoryFault:
    """A row whose resolver gives these answers."""
    return resolving(done, gives, lambda: Gives(*answers), **more)


def system(done: str, gives: Outcome, around: Callable[[], AbstractContextManager[None]]) -> LoopbackFault:
    """A row about the system's own resolver, in a real thread."""
    return LoopbackFault(done=done, gives=gives, around=around, resolver=tidegate.SystemResolver)


ODD_RESOLVERS: Final = [
    *(
        resolving(
            f"a resolver that raises {type(error).__name__}",
            unresolved(type(error).__name__),
            partial(Raises, error),
        )
        for error in [
            OSError("down"),
            ValueError("odd"),
            UnicodeError("odd"),
            RecursionError(),
            MemoryError(),
            StopAsyncIteration(),
            ExceptionGroup("two", [OSError("one"), OSError("other")]),
            TimeoutError(),
        ]
    ),
    resolving("a resolver that hangs", timed_out(Phase.RESOLVE), Hangs),
    answering("a resolver that gives no addresses", unresolved("no addresses"), []),
]

ADDRESSES: Final = [
    *(
        answering(f"a name of {kind}", denied(reason), addresses(*texts))
        for kind, texts, reason in [
            ("loopback", ["127.0.0.1"], Reason.LOOPBACK),
            ("loopback, mapped", ["::ffff:127.0.0.1"], Reason.LOOPBACK),
            ("the metadata service", ["169.254.169.254"], Reason.IMDS),
            ("public and private addresses", [PUBLIC, "10.0.0.1"], Reason.PRIVATE),
            ("hundreds of addresses, the last of them private", [*MANY, "10.0.0.1"], Reason.PRIVATE),
            ("the unspecified address", ["0.0.0.0"], Reason.UNSPECIFIED),
        ]
    ),
    answering("a name of hundreds of addresses", Answer(), addresses(*MANY)),
    answering("a name of one address four hundred times", Answer(), addresses(PUBLIC) * 400),
    answering("a name of IPv6 alone", Answer(), addresses("2606:2800:220:1::1")),
    answering(
        "a name that is bound anew between two fetches",
        denied(Reason.LOOPBACK),
        addresses(PUBLIC),
        addresses("127.0.0.1"),
        earlier=1,
    ),
    answering(
        "a name that is bound anew between two hops",
        denied(Reason.LOOPBACK),
        addresses(PUBLIC),
        addresses("127.0.0.1"),
        script=redirects(("Location", "/again")),
        limits={"max_redirects": 1},
    ),
]

STUCK: Final = [
    resolving(
        "a lookup of the system's that hangs for good",
        timed_out(Phase.RESOLVE),
        lambda: LookupsAbandonedBefore(0),
        around=stuck_lookups,
    ),
    resolving(
        "all lookup threads stuck",
        unresolved("busy", 2 + 3),
        lambda: LookupsAbandonedBefore(2),
        around=stuck_lookups,
    ),
]

HOSTS_FILES: Final[list[tuple[str, bytes, Outcome]]] = [
    ("empty", b"", unresolved("not known")),
    ("bytes of all kinds", bytes(range(256)) * 10, unresolved("not known")),
    ("a line without names", b"127.0.0.1\n", unresolved("not known")),
    ("an address that is none", b"93.184.216 bad.example\n", UNRESOLVED),
    (
        "a broken line before a good one",
        b"93.184.216 other.example\n127.0.0.1 bad.example\n",
        Answer(),
    ),
    ("an address that is refused", b"10.0.0.1 localhost bad.example\n", denied(Reason.PRIVATE)),
    ("a megabyte of comment", b"#" * (1 << 20), unresolved("not known")),
]

# A thread's time is real, so these are, too.
SYSTEM: Final = [
    *(
        system(f"the system's lookup: {name}", gives, around)
        for name, gives, around in [
            (
                "no such name",
                unresolved("not known"),
                lookups_raise(OSError(-2, "Name or service not known")),
            ),
            (
                "try again",
                unresolved("Temporary failure"),
                lookups_raise(OSError(-3, "Temporary failure in name resolution")),
            ),
            (
                "a name it cannot encode",
                unresolved("refuses the name"),
                lookups_raise(UnicodeError("label too long")),
            ),
            ("an exception of its own", UNRESOLVED, lookups_raise(SystemError("odd"))),
            ("no memory", UNRESOLVED, lookups_raise(MemoryError())),
            ("no answer and no error", unresolved("no addresses"), lookups_give()),
            ("text that is no address", UNRESOLVED, lookups_give("fe80::zz")),
            ("a link-local address with its zone", denied(Reason.LINK_LOCAL), lookups_give("fe80::1%eth0")),
        ]
    ),
    *(system(f"hosts file: {name}", gives, hosts(text)) for name, text, gives in HOSTS_FILES),
]

# Real servers ...


def asking(done: str, answer: Any, gives: Outcome, **more: Any) -> LoopbackFault:
    """A row over a real DNS server that answers so for the bad name."""
    zone = {BAD: answer, **more.pop("zone", {})}
    return LoopbackFault(done=f"DNS: {done}", zone=zone, gives=gives, **more)


HERE: Final = {"A": ["127.0.0.1"]}

DNS_FAULTS: Final = [
    *SYSTEM,
    asking("no such name", "NXDOMAIN", unresolved("no such name")),
    asking("no records", {}, unresolved("no addresses")),
    *(asking(code, code, unresolved("failure")) for code in ("SERVFAIL", "REFUSED", "FORMERR", "NOTIMP")),
    asking("never an answer", "TIMEOUT", unresolved("", 0.5)),
    asking("slower than the resolver waits", {**HERE, "delay": 5}, unresolved("", 0.5)),
    asking(
        "slower than the fetch waits",
        {**HERE, "delay": 5},
        Failure(tidegate.DeadlineExceeded, Phase.RESOLVE, seconds=0.3),
        timeout=0.3,
        dns_timeout=5,
    ),
    asking("IPv4 alone", HERE, Answer()),
    asking("IPv4 at once and IPv6 never", {**HERE, "delay": {"AAAA": 60}}, Answer(seconds=0.5)),
    asking("IPv6 refused by us, IPv4 fine", {**HERE, "AAAA": ["fe80::1"]}, denied(Reason.LINK_LOCAL)),
    asking("cut over UDP, whole over TCP", {**HERE, "truncate": True}, Answer()),
    asking(
        "hundreds of addresses that refuse",
        {"A": [f"127.1.{n // 200}.{1 + n % 200}" for n in range(600)]},
        Failure(tidegate.ConnectError, Phase.CONNECT),
    ),
    asking(
        "hundreds, one of them private",
        {"A": [*(f"127.0.0.{n}" for n in range(1, 200)), "10.0.0.1"]},
        denied(Reason.PRIVATE),
    ),
    asking("an alias of itself", {"CNAME": BAD}, unresolved("failure")),
    asking(
        "aliases in a circle",
        {"CNAME": "one.example"},
        unresolved("failure"),
        zone={"one.example": {"CNAME": BAD}},
    ),
    asking("an alias of nothing", {"CNAME": "nothing.example"}, unresolved("no such name")),
    asking(
        "an alias of a metadata address",
        {"CNAME": "one.example"},
        denied(Reason.IMDS),
        zone={"one.example": {"A": ["169.254.169.254"]}},
    ),
    asking("bound anew between two fetches", [HERE, {"A": ["10.0.0.1"]}], denied(Reason.PRIVATE), earlier=1),
]

NAME_FAULTS: Final = [*ODD_RESOLVERS, *ADDRESSES, *STUCK]
