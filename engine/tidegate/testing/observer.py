"""An observer that remembers."""

from typing import TypeVar

from tidegate._policy.events import Event

_Kind = TypeVar("_Kind", bound=Event)


class RecordingObserver:
    """Keeps every event, for tests.

    Attributes:
        events: in the order in which they came.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        """See `tidegate.Observer`."""
        self.events.append(event)

    def of(self, kind: type[_Kind]) -> list[_Kind]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]
