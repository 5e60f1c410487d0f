"""What observers are told of `web_request`: everything but its secrets. The fetch itself is not changed."""

import traceback
from typing import Any, get_type_hints

import pytest

import tidegate
from tests.support.fetch_tool import Site, redirect
from tests.tools.web_request.agents import HOST, URL
from tests.tools.web_request.conftest import MakeAgent
from tidegate import FetchError, Hop
from tidegate._policy.events import ALL_KINDS
from tidegate.testing.observer import RecordingObserver
from tidegate_tools.web_request.observing import TELLING, RedactedObserver
from tidegate_tools.web_request.redaction import MARK, Redactor

SECRET = "sk-live-0123456789"
AUTH = [{"host": HOST, "headers": {"Authorization": {"env": "KEY"}}}]
ENVIRONMENT = {"KEY": f"Bearer {SECRET}"}
REDACTOR = Redactor([SECRET])


class Choosy(RecordingObserver):
    """Wants to hear of nothing but the ends of hops."""

    kinds = frozenset({tidegate.HopFinished})


async def test_where_a_redirect_really_goes_is_its_own_affair(agent: MakeAgent) -> None:
    """The fetch goes where it is sent; whoever watches sees where, but for the secret."""
    site = Site({URL: redirect(f"https://{SECRET}.evil.example:8443/a/{SECRET}?b={SECRET}")})
    observer = RecordingObserver()
    options = {"environment": ENVIRONMENT, "observer": observer}
    mine = agent(site, auth=AUTH, max_redirects=1, options=options)
    await mine.get()
    assert mine.resolver.asked == [HOST, f"{SECRET}.evil.example"]
    shown = [event.url for event in observer.of(tidegate.HopStarted)]
    assert [str(url) for url in shown] == [URL, f"https://{MARK}.evil.example:8443/a/{MARK}?b={MARK}"]
    assert [event.outcome.url for event in observer.of(tidegate.HopFinished)] == shown


async def test_an_error_is_told_without_what_is_behind_it(agent: MakeAgent) -> None:
    """Its kind, its reason and its place are there; its cause, whose text is another's, is not."""
    site = Site({URL: redirect(f"https://{SECRET}.local/{SECRET}")})
    observer = RecordingObserver()
    options = {"environment": ENVIRONMENT, "observer": observer}
    assert await agent(site, auth=AUTH, max_redirects=1, options=options).refusal() == (
        "blocked",
        "local_name",
    )
    errors: list[FetchError] = [
        event.error
        for event in observer.events
        if isinstance(event, tidegate.PhaseFailed | tidegate.HopFailed | tidegate.FetchFailed) and event.error
    ]
    assert len(errors) == 3
    for error in errors:
        assert isinstance(error, tidegate.HostDenied)
        assert (error.reason, error.phase, error.hop) == ("local_name", "check", 1)
        assert error.url == f"https://{MARK}.local/{MARK}"
        assert f"{MARK}.local" in error.message
        assert SECRET not in "".join(traceback.format_exception(error)) + repr(vars(error))


def test_an_error_that_the_caller_gets_is_not_touched() -> None:
    """There may be other observers, of the engine itself."""
    observer = RecordingObserver()
    try:
        raise tidegate.TLSError(f"{SECRET}.example: no", url=f"https://{SECRET}.example/") from OSError(
            SECRET
        )
    except tidegate.TLSError as error:
        event = tidegate.FetchFailed(fetch=1, time=0, duration=0, error=error)
        RedactedObserver(observer, lambda: REDACTOR).on_event(event)
        assert (str(error), error.__cause__ is None) == (f"{SECRET}.example: no", False)
    [told] = observer.of(tidegate.FetchFailed)
    assert told.error is not None
    assert (type(told.error), str(told.error)) == (tidegate.TLSError, f"{MARK}.example: no")
    assert (told.error.__cause__, told.error.__traceback__) == (None, None)


async def test_a_secret_that_is_renewed_meanwhile_is_known() -> None:
    """The redactor is asked for anew with each event."""
    known: list[str] = []
    observer = RecordingObserver()
    redacted = RedactedObserver(observer, lambda: Redactor(known))
    for number in range(2):
        url = tidegate.parse_url(f"https://a.example/token-number-{number}")
        known.append(f"token-number-{number}")
        redacted.on_event(tidegate.HopStarted(fetch=1, time=0, hop=0, method="GET", url=url))
    assert [str(event.url) for event in observer.of(tidegate.HopStarted)] == [f"https://a.example/{MARK}"] * 2


@pytest.mark.parametrize("auth", [AUTH, []], ids=["secrets", "no secrets"])
async def test_nobody_hears_more_than_they_asked_for(auth: Any, agent: MakeAgent) -> None:
    observer = Choosy()
    await agent(Site(), auth=auth, options={"environment": ENVIRONMENT, "observer": observer}).get()
    assert [type(event) for event in observer.events] == [tidegate.HopFinished]


HARMLESS = {
    "int", "float", "bool | None", "bool", "int | None",
    "Phase", "Mapping[tidegate._policy.reasons.Phase, float]",
}  # fmt: skip
"""Numbers, and names of ours."""

CHECKED = {
    "key": "the caller's own",
    "method": "one of seven",
    "peer": "an address that we connected to",
    "tls_version": "of OpenSSL's names",
    "http_version": "1.0 or 1.1",
}
"""Fields of events that are or hold texts, none of which a peer has a choice in."""


@pytest.mark.parametrize("kind", sorted(ALL_KINDS, key=str), ids=lambda kind: kind.__name__)
def test_every_fact_of_an_event_is_accounted_for(kind: type[tidegate.Event]) -> None:
    """Whoever adds one thinks of the secrets that a peer may put into it; see `TELLING`."""
    for name, annotation in get_type_hints(kind).items():
        alternatives: tuple[Any, ...] = getattr(annotation, "__args__", (annotation,))
        if any(isinstance(each, type) and issubclass(each, TELLING) for each in alternatives):
            continue
        shown = annotation.__name__ if isinstance(annotation, type) else str(annotation)
        assert shown.replace("typing.", "").replace("collections.abc.", "") in HARMLESS or name in CHECKED, (
            name
        )


def test_every_fact_of_a_hop_is_accounted_for() -> None:
    """Its URL is redacted; all else is checked, or numbers."""
    assert set(get_type_hints(Hop)) - CHECKED.keys() == {
        "url", "status", "reused", "tls_resumed", "timings"
    }  # fmt: skip
