"""Raw bytes as the arguments of a target: a few for its settings, the rest for the subject."""

import ast
from collections.abc import Iterator

from tests.support.data import corpus


class Cutter:
    """Takes small numbers off the front of an input; an input that is too short gives zeros."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def number(self, below: int) -> int:
        """A number from 0 to `below` - 1, at most 256 of them."""
        first, self._data = self._data[:1] or b"\0", self._data[1:]
        return first[0] % below

    def rest(self) -> bytes:
        """All that is left."""
        return self._data


def messages() -> Iterator[bytes]:
    """The responses of the wire corpus."""
    for row in corpus("wire"):
        if "server_bytes" in row:
            yield ast.literal_eval(row["server_bytes"])
