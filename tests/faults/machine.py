"""Faults of the machine and of whoever the engine asks; and those that only a real socket can have."""

import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
import trio

import tidegate
from tests.faults.fault import BAD, Answer, Failure, LoopbackFault, MemoryFault, Outcome, timed_out
from tests.faults.names import HERE, asking
from tests.faults.peers import CUT, LOST, Pieces, falls_silent, reads_on
from tidegate import Phase, Reason
from tidegate.testing.origin import HandshakeFault, Listener

# What is out of order ...


@contextmanager
def no_file_descriptors() -> Iterator[None]:
    """The process may open nothing more: all numbers below the highest in use are taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def clock_stepped(seconds: float) -> Callable[[], AbstractContextManager[None]]:
    """Somebody sets the wall clock, over and over: it differs at each look."""

    @contextmanager
    def stepped() -> Iterator[None]:
        real, steps = time.time, iter(range(10**9))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time", lambda: real() + seconds * next(steps))
            yield

    return stepped


# Whoever is asked ...


class Fails:
    """An observer and a credential source that raise what no error may repeat."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error or ValueError("s3cret")

    def on_event(self, event: tidegate.Event) -> None:
        raise self._error

    async def fields_for(self, url: tidegate.URL) -> Any:
        raise self._error


class ForTheBadHost:
    """A credential source that asks another one, and that for the bad host alone."""

    def __init__(self, source: Any) -> None:
        self._source = source

    async def fields_for(self, url: tidegate.URL) -> Any:
        return await self._source.fields_for(url) if url.host == BAD else {}


class Gives:
    """A credential source that gives this."""

    def __init__(self, fields: Any) -> None:
        self._fields = fields

    async def fields_for(self, url: tidegate.URL) -> Any:
        return self._fields


class Hangs:
    """A credential source that never answers."""

    async def fields_for(self, url: tidegate.URL) -> Any:
        await trio.sleep_forever()


def grant(answer: Any) -> Any:
    """An `authorize` that answers so."""

    async def authorize(host: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return authorize


async def never(host: str) -> bool:
    """An `authorize` that never answers."""
    await trio.sleep(float("inf"))
    return True


NOT_GRANTED: Final = Failure(tidegate.HostDenied, Phase.AUTHORIZE, Reason.NOT_GRANTED)


def asked(done: str, gives: Outcome, authorize: Any) -> MemoryFault:
    """A row about `authorize`."""
    return MemoryFault(done=done, gives=gives, arguments={"authorize": authorize})


def secret(done: str, gives: Outcome, source: Callable[[], Any]) -> MemoryFault:
    """A row about a credential source."""
    return MemoryFault(
        done=done, gives=gives, scheme="https", options=lambda: {"credentials": ForTheBadHost(source())}
    )


OTHERS: Final = [
    MemoryFault(
        done="the observer raises at each event", gives=Answer(), options=lambda: {"observer": Fails()}
    ),
    MemoryFault(
        done="the observer raises, and the peer is silent",
        script=falls_silent(b""),
        gives=timed_out(Phase.HEAD),
        options=lambda: {"observer": Fails()},
    ),
    asked("the grant check raises", NOT_GRANTED, grant(ValueError("odd"))),
    asked("the grant check raises a group", NOT_GRANTED, grant(ExceptionGroup("odd", [ValueError("odd")]))),
    asked("the grant check says 1", NOT_GRANTED, grant(1)),
    asked("the grant check says yes in words", NOT_GRANTED, grant("yes")),
    asked("the grant check is no coroutine", NOT_GRANTED, lambda host: True),
    asked("the grant check hangs", timed_out(Phase.AUTHORIZE), never),
    secret("the credential source raises", Failure(tidegate.ConnectError, Phase.RESOLVE), Fails),
    secret("the credential source hangs", timed_out(Phase.RESOLVE), Hangs),
    secret(
        "the credential is no field",
        Failure(tidegate.InvalidField, Phase.RESOLVE),
        lambda: Gives({"Authorization": "s3cret\r\nX: y"}),
    ),
    secret(
        "the credential is for framing",
        Failure(tidegate.InvalidField, Phase.RESOLVE),
        lambda: Gives({"Content-Length": "5"}),
    ),
    MemoryFault(
        done="pieces of content that are no bytes",
        gives=Failure(tidegate.InvalidArgument, Phase.SEND),
        arguments={"method": "POST", "content": Pieces("text")},  # type: ignore[arg-type]  # that is the fault
    ),
    MemoryFault(
        done="pieces of content over the cap",
        script=reads_on,
        gives=Failure(tidegate.InvalidArgument, Phase.SEND, Reason.REQUEST_TOO_LARGE),
        arguments={"method": "POST", "content": Pieces(*[bytes(65536)] * 17)},
    ),
    *(
        MemoryFault(
            done=f"the wall clock is stepped by {seconds:g} s",
            script=falls_silent(b""),
            gives=timed_out(Phase.HEAD),
            around=clock_stepped(seconds),
        )
        for seconds in (-1e6, 1e6)
    ),
]

# Real sockets ...


def origin(done: str, path: str, gives: Outcome, **more: Any) -> LoopbackFault:
    """A row over the hostile origin; without a slash it is named by the origin's own table."""
    return LoopbackFault(done=done, path=f"/{path}", gives=gives, **more)


def waited(phase: Phase) -> Failure:
    """A deadline of 0.4 seconds."""
    return Failure(tidegate.DeadlineExceeded, phase, seconds=0.4)


BIG: Final = {"method": "POST", "content": bytes(16 << 20)}
UNREAD: Final[dict[str, Any]] = {
    "arguments": BIG,
    "limits": {"max_request_content": 16 << 20},
    "listener": lambda tls: Listener(receive_buffer=4096),
    "heard": False,
}
SLOW: Final = {"timeout": 0.4, "within": 1.5}

FLOODS: Final[list[tuple[str, Outcome]]] = [
    ("endless-head", Failure(tidegate.MessageTooLarge, Phase.HEAD)),
    ("endless-field", Failure(tidegate.MessageTooLarge, Phase.HEAD)),
    ("endless-interim", Failure(tidegate.MessageTooLarge, Phase.HEAD)),
    ("endless-redirects", Failure(tidegate.TooManyRedirects, Phase.REDIRECT)),
    ("endless-content", Answer(complete=False, truncated=True, size=1 << 20)),
    ("endless-extensions", Failure(tidegate.MessageTooLarge, Phase.CONTENT)),
    ("endless-trailers", Failure(tidegate.MessageTooLarge, Phase.CONTENT)),
    ("bomb", Answer(complete=False, truncated=True, size=1 << 20)),
    ("half-close", Answer()),
]

SOCKETS: Final = [
    *(
        origin(f"{scheme}: {how} after {after} bytes", f"{how}?after={after}&size=1000", gives, scheme=scheme)
        for scheme in ("http", "https")
        for how in ("reset", "cut")
        for after, gives in [(0, LOST), (1, LOST), (17, LOST), (500, CUT), (1000, CUT)]
    ),
    *(
        origin(f"{scheme}: silent in the {phase}", path, waited(phase), scheme=scheme, **SLOW)
        for scheme in ("http", "https")
        for phase, path in [
            (Phase.HEAD, "hold"),
            (Phase.HEAD, "drip-head?interval=0.1"),
            (Phase.HEAD, "drip-interim?interval=0.1"),
            (Phase.CONTENT, "drip-content?interval=0.1&size=100"),
            (Phase.CONTENT, "drip-chunk-size?interval=0.1"),
            (Phase.CONTENT, "wrong-length?then=hold"),
        ]
    ),
    *(
        origin(
            f"{scheme}: {path}",
            path,
            gives,
            scheme=scheme,
            limits={"max_redirects": 3, "max_content": 1 << 20},
        )
        for scheme in ("http", "https")
        for path, gives in FLOODS
    ),
    origin("an upload read slowly", "slow-reader?interval=0.1&size=1", waited(Phase.SEND), **UNREAD, **SLOW),
    origin("an upload answered early and read no more", "early", Answer(413), **UNREAD),
    origin(
        "an upload answered early and reset",
        "early?then=reset",
        Answer(413),
        arguments={"method": "POST", "content": b"x" * 1000},
    ),
    origin("a kept connection closed in flight", "drop-second", Answer(size=6), earlier=1),
    origin("a kept connection reset in flight", "drop-second?then=reset", Answer(size=6), earlier=1),
    origin("a kept connection with a late 408", "late-408?after=0", Answer(size=6), earlier=1),
    origin(
        "accepts an upload and does nothing",
        "",
        waited(Phase.SEND),
        **{**UNREAD, **SLOW, "listener": lambda tls: Listener(silent=True, receive_buffer=4096)},
    ),
    origin(
        "accepts and does nothing", "", waited(Phase.HEAD), listener=lambda tls: Listener(silent=True), **SLOW
    ),
    origin(
        "accepts and does nothing, TLS",
        "",
        waited(Phase.TLS),
        scheme="https",
        listener=lambda tls: Listener(silent=True),
        **SLOW,
    ),
    *(
        origin(
            f"handshake {then} after {after} bytes",
            "",
            waited(Phase.TLS) if then in ("hold", "stall") else Failure(tidegate.TLSError, Phase.TLS),
            scheme="https",
            listener=lambda tls, then=then, after=after: Listener(
                tls=tls, handshake=HandshakeFault(after=after, then=then)
            ),
            **SLOW,
        )
        for then in ("hold", "stall", "reset", "cut")
        for after in (0, 100)
    ),
    origin(
        "plain HTTP on the TLS port",
        "content",
        Failure(tidegate.TLSError, Phase.TLS),
        scheme="https",
        listener=lambda tls: Listener(),
    ),
    origin("TLS on the plain port", "content", LOST, listener=lambda tls: Listener(tls=tls)),
    origin(
        "no file descriptors for a connection",
        "content",
        Failure(tidegate.ConnectError, Phase.CONNECT, told="Too many open files"),
        around=no_file_descriptors,
    ),
    asking(
        "no file descriptors for a lookup",
        HERE,
        Failure(tidegate.ResolutionError, Phase.RESOLVE),
        around=no_file_descriptors,
    ),
    origin(
        "no file descriptors, but a kept connection",
        "content",
        Answer(),
        earlier=1,
        around=no_file_descriptors,
    ),
    *(
        origin(
            f"the wall clock is stepped by {seconds:g} s",
            "hold",
            waited(Phase.HEAD),
            around=clock_stepped(seconds),
            **SLOW,
        )
        for seconds in (-86400, 86400)
    ),
    *(
        asking(
            f"the wall clock is stepped by {seconds:g} s in a lookup that nobody answers",
            "TIMEOUT",
            Failure(tidegate.ResolutionError, Phase.RESOLVE),
            around=clock_stepped(seconds),
        )
        for seconds in (-86400, 86400)
    ),
]
