"""`ResponseStream`: a response whose content is read piece by piece."""

from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

from tidegate._engine.call import Call
from tidegate._policy.fields import Headers
from tidegate._policy.messages import Hop, Request
from tidegate._policy.url import URL
from tidegate.errors import FetchError


class ResponseStream:
    """A response under way. Made by `Engine.stream`; enter it with `async with`, then iterate over it.

    The deadline runs from the call on and counts the time between two pieces, but only what the engine does
    is ever cut off by it, never the caller's own code. Leaving the block early closes the connection.

    Attributes after entering: `status`, `reason_phrase`, `http_version`, `url`, `headers`; after the last
    piece also `truncated`, `complete`, `trailers`, `hops` in full. They mean what they mean in `Response`.
    """

    def __init__(self, call: Call, prepare: Callable[[], Request]) -> None:
        self._call = call
        self._prepare = prepare
        self._received = 0
        self._over = False

    async def __aenter__(self) -> Self:
        try:
            with self._call.bounded():
                self._call.begin()
                await self._call.open(self._prepare())
        except BaseException as error:
            self._fail(error)
            raise
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._over:
            raise StopAsyncIteration
        try:
            with self._call.bounded():
                piece = await self._call.reader.receive()
        except BaseException as error:
            self._fail(error)
            raise
        if not piece:
            self._finish()
            raise StopAsyncIteration
        self._received += len(piece)
        return piece

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._over:
            return
        if error is None:
            self._finish()
        else:
            self._fail(None)  # the caller's own error, whose frames are the caller's

    def fail(self, error: FetchError) -> FetchError:
        """End this fetch with an error that the caller found in the response, so that observers hear of it.

        Args:
            error: why, such as a redirect that may not be followed.

        Returns:
            The error, to be raised.
        """
        if not self._over:
            self._fail(error)
        return error

    def abandon(self) -> None:
        """End this fetch, whose block nobody will leave any more. Never waits; harmless when it is over."""
        if not self._over:
            self._fail(None)

    def _finish(self) -> None:
        self._over = True
        self._call.finish(self._received)
        self._call.close()

    def _fail(self, error: BaseException | None) -> None:
        self._over = True
        self._call.fail(error)
        self._call.close()

    @property
    def status(self) -> int:
        """The status code."""
        return self._call.head.status

    @property
    def reason_phrase(self) -> str:
        """The text beside the status."""
        return self._call.head.reason.decode("latin-1")

    @property
    def http_version(self) -> str:
        """The peer's version: "1.1" or "1.0"."""
        return self._call.head.http_version

    @property
    def url(self) -> URL:
        """The URL of the last hop."""
        return self._call.url

    @property
    def headers(self) -> Headers:
        """The header fields, without those that described an undone coding."""
        return self._call.headers()

    @property
    def trailers(self) -> Headers:
        """Fields after chunked content; empty before its end."""
        return self._call.trailers()

    @property
    def truncated(self) -> bool:
        """The content was cut at a cap."""
        return self._call.reader.truncated

    @property
    def complete(self) -> bool:
        """All content came, and something proves so; False before the end."""
        return self._call.reader.complete

    @property
    def codings(self) -> tuple[str, ...]:
        """The content codings that are undone."""
        return self._call.reader.codings

    @property
    def announced(self) -> int | None:
        """Content bytes still to come as the peer says, None if it does not or if a coding is undone."""
        return None if self.codings else self._call.announced

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The requests that were answered, the last one once its content is read."""
        return tuple(self._call.progress.hops)
