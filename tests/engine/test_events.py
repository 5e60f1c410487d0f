"""What an observer is told, and that it can neither break a fetch nor learn a secret."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

import tidegate
from tests.support.engines import engine_with
from tidegate.testing.memory import Peer
from tidegate.testing.observer import RecordingObserver

URL = "http://a.example/start?secret=1"


async def serve(peer: Peer) -> None:
    while (request := await peer.receive_request()) is not None:
        await trio.sleep(1)
        if "/start" in request.line:
            await peer.respond(status="302 Found", fields=[("Location", "/end")])
        else:
            await peer.respond(b"content")


def told(observer: RecordingObserver) -> list[str]:
    """The events as words, times left out."""
    words = []
    for event in observer.events:
        name = type(event).__name__
        if isinstance(event, tidegate.PhaseStarted | tidegate.PhaseFinished | tidegate.PhaseFailed):
            words.append(f"{name.removeprefix('Phase').lower()} {event.phase} {event.hop}")
        else:
            words.append(name)
    return words


async def test_a_fetch_with_a_redirect(nursery: trio.Nursery, autojump_clock: Any) -> None:
    observer = RecordingObserver()
    async with engine_with(nursery, serve, observer=observer) as (engine, _):
        await engine.fetch(URL, key="agent", limits=tidegate.Limits(max_redirects=1))
    hop = ["check", "resolve", "connect", "send", "head"]
    again = [phase for phase in hop if phase != "connect"]
    assert [
        "FetchStarted",
        *phases(["check", "admit"], 0),
        "HopStarted",
        *phases([*hop, "redirect"], 0),
        "HopFinished",
        "HopStarted",
        *phases([*again, "content"], 1),
        "HopFinished",
        "FetchFinished",
    ] == told(observer)
    started, finished = observer.events[0], observer.events[-1]
    assert (started.key, started.time) == ("agent", 0)
    assert (
        finished.duration,
        finished.status,
        finished.content_bytes,
        finished.truncated,
    ) == (2, 200, 7, False)
    assert len({event.fetch for event in observer.events}) == 1
    times = [event.time for event in observer.events]
    assert sorted(times) == times


def phases(names: list[str], hop: int) -> list[str]:
    return [f"{what} {name} {hop}" for name in names for what in ("started", "finished")]


@pytest.mark.parametrize(
    ("url", "phase", "reason"),
    [
        ("http://user@a.example/", "check", "userinfo_not_allowed"),
        ("http://10.0.0.1/", "check", "private"),
        ("http://a.example:22/", "check", "blocked_port"),
    ],
)
async def test_refusals_are_told(url: str, phase: str, reason: str, nursery: trio.Nursery) -> None:
    observer = RecordingObserver()
    async with engine_with(nursery, serve, observer=observer) as (engine, _):
        with pytest.raises(tidegate.FetchError):
            await engine.fetch(url)
    told_last = [f"failed {phase} 0", *(["HopFailed"] if "@" not in url else []), "FetchFailed"]
    assert told(observer)[-len(told_last) :] == told_last
    assert reason == observer.events[-1].error.reason


async def test_a_cancel_is_told_without_an_error(nursery: trio.Nursery, autojump_clock: Any) -> None:
    observer = RecordingObserver()
    async with engine_with(nursery, Peer.until_closed, observer=observer) as (engine, _):  # type: ignore[arg-type]
        with trio.move_on_after(3):
            await engine.fetch("http://a.example/")
        with trio.move_on_after(3):
            async with engine.stream("http://a.example/"):
                pass
    for last in observer.of(tidegate.FetchFailed):
        assert (last.duration, last.error) == (3, None)
    assert len(observer.of(tidegate.FetchFailed)) == 2


async def test_streams_are_told_once(nursery: trio.Nursery) -> None:
    """Read to the end, left early, left by an exception: one end each."""
    observer = RecordingObserver()
    async with engine_with(nursery, serve, observer=observer) as (engine, _):
        async with engine.stream("http://a.example/") as response:
            async for _ in response:
                pass
        async with engine.stream("http://a.example/"):
            pass
        with pytest.raises(KeyError):
            async with engine.stream("http://a.example/"):
                raise KeyError
    ends = (tidegate.FetchFinished, tidegate.FetchFailed)
    assert [type(event).__name__ for event in observer.events if isinstance(event, ends)] == [
        "FetchFinished",
        "FetchFinished",
        "FetchFailed",
    ]


async def test_a_hop_to_another_host_waits_before_it_is_checked(nursery: trio.Nursery) -> None:
    """And is not told to have passed checks that were never made."""
    observer = RecordingObserver()
    policy = tidegate.Policy(hosts=["a.example"])

    async def away(peer: Peer) -> None:
        await peer.receive_request()
        await peer.respond(status="302 Found", fields=[("Location", "http://b.example/")])

    async with engine_with(nursery, away, observer=observer, policy=policy) as (engine, _):
        with pytest.raises(tidegate.HostDenied):
            await engine.fetch(URL, limits=tidegate.Limits(max_redirects=1))
    assert told(observer)[-6:] == [
        *phases(["admit"], 1),
        "started check 1",
        "failed check 1",
        "HopFailed",
        "FetchFailed",
    ]


async def test_resends_count_redirects_and_repeats(nursery: trio.Nursery) -> None:
    """What OpenTelemetry calls `http.request.resend_count`."""
    asked = 0

    async def dies(peer: Peer) -> None:
        nonlocal asked
        while await peer.receive_request() is not None:
            asked += 1
            if asked == 2:
                return
            await peer.respond(status="302 Found", fields=[("Location", "/end")] if asked == 3 else [])

    observer = RecordingObserver()
    async with engine_with(nursery, dies, observer=observer) as (engine, _):
        await engine.fetch("http://a.example/")
        await engine.fetch("http://a.example/", limits=tidegate.Limits(max_redirects=1))
    told = [(event.hop, event.resends) for event in observer.of(tidegate.HopStarted)]
    assert told == [(0, 0), (0, 0), (1, 2)]
    assert len(observer.of(tidegate.RequestRepeated)) == 1


async def test_events_can_not_be_changed(nursery: trio.Nursery) -> None:
    """Several observers may be told the same one."""
    observer = RecordingObserver()
    async with engine_with(nursery, serve, observer=observer) as (engine, _):
        await engine.fetch("http://a.example/")
    for event in observer.events:
        for name in ("time", "added"):
            with pytest.raises(AttributeError):
                setattr(event, name, 0)


class Broken:
    def on_event(self, event: tidegate.Event) -> None:
        raise RuntimeError("the secret is 42")


async def test_a_broken_observer_touches_nothing(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "tidegate"):
        async with engine_with(nursery, serve, observer=Broken()) as (engine, _):
            assert (await engine.fetch("http://a.example/")).content == b"content"
    assert "the observer failed on FetchStarted" in caplog.text
    assert "42" not in caplog.text


async def test_errors_tell_where(nursery: trio.Nursery) -> None:
    """Phase, hop and the URL without its query; nothing of the query in message or repr (W-F3)."""

    async def script(peer: Peer) -> None:
        while await peer.receive_request() is not None:
            await peer.respond(status="302 Found", fields=[("Location", "http://10.0.0.1/x?secret=2#f")])

    async with engine_with(nursery, script) as (engine, _):
        with pytest.raises(tidegate.AddressDenied) as caught:
            await engine.fetch(URL, limits=tidegate.Limits(max_redirects=1))
    error = caught.value
    assert (error.reason, error.phase, error.hop, error.url) == ("private", "check", 1, "http://10.0.0.1/x")
    assert "secret" not in f"{error} {error!r}"


class Vault:
    """Gives every host the same secret."""

    async def fields_for(self, url: tidegate.URL) -> dict[str, str]:
        return {"Authorization": "Bearer s3cret-value"}


@pytest.mark.parametrize(
    "answer", [b"nonsense\r\n\r\n", b"HTTP/1.1 302 Found\r\nLocation: http://\r\n\r\n", b""]
)
async def test_no_frame_of_an_error_holds_a_credential(
    answer: bytes, nursery: trio.Nursery, server_tls: Any, client_tls: Any
) -> None:
    """Error reporters print the locals of a traceback."""
    sent: list[Any] = []

    async def script(peer: Peer) -> None:
        sent.append(await peer.receive_request())
        await peer.send(answer)

    options = {"server_tls": server_tls("a.example"), "tls": client_tls, "credentials": Vault()}
    async with engine_with(nursery, script, **options) as (engine, _):
        with pytest.raises(tidegate.FetchError) as caught:
            await engine.fetch("https://a.example/", limits=tidegate.Limits(max_redirects=1))
    assert sent[0].field("authorization") == "Bearer s3cret-value"
    frames = [entry.frame.f_locals for entry in caught.traceback if "/tidegate/" in str(entry.path)]
    assert frames
    assert "s3cret" not in repr(frames)


def _circle() -> Exception:
    """As a fall-back gives it that reports its first error: `first from second`, which came of `first`."""
    first, second = OSError("first"), OSError("second")
    second.__context__ = first
    first.__cause__ = second
    return first


def _own() -> Exception:
    error = OSError("its own cause")
    error.__cause__ = error
    return error


def _group() -> Exception:
    return ExceptionGroup("several", [_circle(), ValueError()])


@pytest.mark.parametrize("made", [_circle, _own, _group])
async def test_causes_that_lead_in_a_circle(made: Callable[[], Exception], nursery: trio.Nursery) -> None:
    """Other people's exceptions may do that; the fetch ends all the same."""

    class Broken:
        async def resolve(self, host: str) -> Any:
            await trio.lowlevel.checkpoint()
            raise made()

    async with engine_with(nursery, serve, resolver=Broken()) as (engine, _):
        with pytest.raises(tidegate.ResolutionError, match="the resolver failed"):
            await engine.fetch("http://a.example/")
