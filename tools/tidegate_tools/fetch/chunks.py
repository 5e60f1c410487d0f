"""The chunks of a streamed answer (RFC 0029 of the reference kernel)."""

from collections.abc import Callable
from typing import Any, Final

import trio

from tidegate import ResponseStream
from tidegate._policy.content import cut_utf8
from tidegate.portal import in_caller

PIECE: Final = 8192
"""Bytes of content in one chunk, at the most."""


class Chunks:
    """Passes the content of a final response on, piece by piece, as text.

    A piece goes out as soon as it is there, and never ends within a character. What the callback raises is
    swallowed: the answer of the call is the same with chunks and without (F-120).

    Args:
        on_chunk: sync or async, called in the thread or loop of whoever waits for the call.
        response: whose content it is.
        deadline: of the call. An async callback is not waited for any longer.
    """

    def __init__(
        self, on_chunk: Callable[[dict[str, Any]], object], response: ResponseStream, deadline: float
    ) -> None:
        self._on_chunk = on_chunk
        self._deadline = deadline
        self._metadata = {"tool": "Fetch", "url": str(response.url), "status": response.status}
        self._held_back = b""
        self._sent = 0

    async def add(self, content: bytes) -> None:
        """Pass on what has come, but for the beginning of a character at its end."""
        content, start = self._held_back + content, 0
        while piece := cut_utf8(content[start : start + PIECE]):
            start += len(piece)
            await self._send(piece)
        self._held_back = content[start:]

    async def finish(self) -> None:
        """Pass on what is left: the content is at its end, and no cap has cut it."""
        if self._held_back:
            await self._send(self._held_back)

    async def _send(self, piece: bytes) -> None:
        self._sent += len(piece)
        chunk = {
            "op": "chunk",
            "kind": "body",
            "content": piece.decode("utf-8", "replace"),
            "metadata": {**self._metadata, "bytes_so_far": self._sent},
        }
        try:
            with trio.CancelScope(deadline=self._deadline):
                await in_caller(self._on_chunk, chunk)
        except* Exception:  # noqa: S110  # swallowed by order of the specification; a cancellation passes
            pass
