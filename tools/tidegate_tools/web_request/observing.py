"""Observers of `web_request`, who never see a secret of its configuration.

A server that was sent a credential may redirect to a path, or to a host, that holds it. The fetch goes there
if it may; what observers are told of it goes through the redactor first, whoever they are.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, Final

from tidegate import URL, Event, FetchError, Hop, Observer
from tidegate._policy.events import kinds_of
from tidegate_tools.web_request.redaction import Redactor

TELLING: Final = (URL, Hop, FetchError)
"""What in events holds texts that a peer can choose. All else is numbers, names of ours, the caller's key."""


class RedactedObserver:
    """Tells another observer everything but secrets.

    Args:
        observer: who is told.
        redactor: gives one that knows the secrets of this moment, those of a token just renewed included.
    """

    def __init__(self, observer: Observer, redactor: Callable[[], Redactor]) -> None:
        self._observer = observer
        self._redactor = redactor

    @property
    def kinds(self) -> frozenset[type[Event]]:
        """What the other one wants to be told of."""
        return kinds_of(self._observer)

    def on_event(self, event: Event) -> None:
        """See `tidegate.Observer`."""
        told = {name: value for name, value in event._asdict().items() if isinstance(value, TELLING)}
        if told:
            redactor = self._redactor()
            shown: dict[str, Any] = {name: _redacted(value, redactor) for name, value in told.items()}
            event = event._replace(**shown)
        self._observer.on_event(event)


def _redacted(value: URL | Hop | FetchError, redactor: Redactor) -> URL | Hop | FetchError:
    match value:
        case URL():
            return redactor.redact_url(value)
        case Hop():
            return replace(value, url=redactor.redact_url(value.url))
        case FetchError():
            return _redacted_error(value, redactor)


def _redacted_error(error: FetchError, redactor: Redactor) -> FetchError:
    """A copy, which has neither traceback nor cause: in those the texts of others stand as they were."""
    told = copy(error)
    told.args = (redactor.redact(error.message, of_url=True), *error.args[1:])
    if error.url is not None:
        told.url = redactor.redact(error.url, of_url=True)
    return told
