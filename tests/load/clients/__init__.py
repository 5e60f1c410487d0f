"""The clients under attack, each with the best time-out settings that it has. A module each.

Each has `open_client(job)`, an asynchronous context manager, and `EVENT_LOOP`, the loop that it runs on.
"""

from typing import Protocol

from tests.load.plan import Hold


class DeadlinePassed(Exception):
    """A hold ended as it must. Its argument is the phase, of a client that tells."""


class Client(Protocol):
    """What an attack does with a client."""

    async def hold(self, hold: Hold) -> None:
        """Fetch what never ends.

        Raises:
            DeadlinePassed: at the deadline of the job.
        """

    async def fetch(self) -> None:
        """Fetch the healthy URL, which must give its 1 KB."""
