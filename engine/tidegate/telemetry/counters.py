"""Plain counters, for who has no OpenTelemetry: read them whenever you like, from any thread."""

from dataclasses import dataclass
from threading import Lock
from typing import Final

from tidegate._policy.reasons import Reason
from tidegate.telemetry.hops import HopObserver
from tidegate.telemetry.outcomes import Outcome
from tidegate.telemetry.records import HopRecord

_Key = tuple[Outcome, Reason | None]


@dataclass(frozen=True, slots=True)
class Count:
    """What hops of one outcome and reason come to.

    Attributes:
        hops: how many.
        reported: how many of them a host list on trial would have refused.
        wire_bytes: content bytes received, before decoding.
        seconds: how long they took together.
    """

    hops: int = 0
    reported: int = 0
    wire_bytes: int = 0
    seconds: float = 0.0


_NOTHING: Final = Count()


class Counters:
    """Counts hops by how they ended, of any number of engines and threads."""

    def __init__(self) -> None:
        self._counts: dict[_Key, Count] = {}
        self._lock = Lock()

    def observer(self) -> HopObserver:
        """An observer that counts here."""
        return HopObserver(self._take)

    def _take(self, record: HopRecord) -> None:
        key = record.outcome, record.reason
        with self._lock:
            count = self._counts.get(key, _NOTHING)
            self._counts[key] = Count(
                hops=count.hops + 1,
                reported=count.reported + (record.reported is not None),
                wire_bytes=count.wire_bytes + record.wire_bytes,
                seconds=count.seconds + record.duration,
            )

    def snapshot(self) -> dict[_Key, Count]:
        """The counts so far by outcome and reason; only what has happened is in it."""
        with self._lock:
            return dict(self._counts)
