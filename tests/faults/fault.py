"""What one fault is: what goes wrong, and what the engine must make of it, to the second."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import trio
import trustme

import tidegate
from tidegate import FetchError, Phase, Reason
from tidegate.testing.memory import Script
from tidegate.testing.origin import Listener

TIMEOUT = 10.0
"""Seconds of virtual time that a fetch has, unless a row says otherwise."""

BAD, HEALTHY = "bad.example", "healthy.example"
"""Where the fault waits, and where all is well: the same engine is asked for both."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of ours.

    Attributes:
        error: its type, exactly.
        phase: where it struck.
        reason: if it is not the type's own.
        seconds: how long it took: exact in virtual time, the least over real sockets.
        told: a word of the message that tells this failure from its neighbours.
    """

    error: type[FetchError]
    phase: Phase
    reason: Reason | None = None
    seconds: float = 0.0
    told: str = ""

    def check(self, caught: BaseException) -> None:
        """Compare with what came out of the fetch."""
        assert type(caught) is self.error, repr(caught)
        assert isinstance(caught, FetchError)
        assert (caught.reason, caught.phase) == (self.reason or self.error.default_reason, self.phase)
        assert self.told in str(caught), str(caught)


def timed_out(phase: Phase) -> Failure:
    """The deadline, at its very tick."""
    return Failure(tidegate.DeadlineExceeded, phase, seconds=TIMEOUT)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response in spite of the fault.

    Attributes:
        status: its status.
        complete: all content came, and something proves so.
        truncated: it was cut at a cap.
        size: how many content bytes there are; None where the fault leaves that to chance.
        odd: the response says that something was odd.
        seconds: as in `Failure`.
    """

    status: int = 200
    complete: bool = True
    truncated: bool = False
    size: int | None = None
    odd: bool = False
    seconds: float = 0.0

    def check(self, response: tidegate.Response) -> None:
        """Compare with what came out of the fetch."""
        assert (response.status, response.complete, response.truncated, bool(response.oddities)) == (
            self.status,
            self.complete,
            self.truncated,
            self.odd,
        )
        assert self.size is None or len(response.content) == self.size


Outcome: TypeAlias = Failure | Answer
Wire: TypeAlias = Callable[[trio.SocketStream, ssl.SSLContext], Awaitable[None]]
"""The far end of a connection below TLS, and the server context that it may use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """What both kinds share.

    Attributes:
        done: what goes wrong, in words: the name of the test.
        gives: what must come of it.
        scheme: of the URL.
        path: of the URL.
        arguments: of the fetch, apart from its URL and limits.
        limits: of the fetch, apart from the time-out.
        options: of the engine, made anew for each run.
        earlier: good fetches of the same URL that come before.
        around: what is out of order while the fetch runs, and put back after it.
    """

    done: str
    gives: Outcome
    scheme: str = "http"
    path: str = "/"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    options: Callable[[], dict[str, Any]] = dict
    earlier: int = 0
    around: Callable[[], AbstractContextManager[object]] = nullcontext

    def __str__(self) -> str:
        return self.done


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFault(_Fault):
    """A fault in virtual time: its seconds are exact.

    Attributes:
        script: what the peer does with HTTP; under TLS after a good handshake.
        wire: what it does below that, instead.
        server: makes the server's TLS context, if it is not a good one.
        client: changes the client's TLS context.
    """

    script: Script | None = None
    wire: Wire | None = None
    server: Callable[[trustme.CA], ssl.SSLContext] | None = None
    client: Callable[[ssl.SSLContext], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopbackFault(_Fault):
    """A fault over real sockets on loopback; its seconds are the least, `within` the most.

    Attributes:
        listener: makes the bad server's listener of a good TLS context.
        resolver: asks this one about the bad host, instead of a table.
        zone: asks a DNS server that answers so, instead.
        dns_timeout: of that resolver.
        timeout: of the fetch.
        within: seconds by which it must be over.
        heard: the peer hears of the end. One that has not read what it was sent does not: the system keeps
            that for it.
    """

    listener: Callable[[ssl.SSLContext], Listener] | None = None
    resolver: Callable[[], tidegate.Resolver] | None = None
    zone: Mapping[str, Any] | None = None
    dns_timeout: float = 0.5
    timeout: float = 5.0
    within: float = 2.0
    heard: bool = True
