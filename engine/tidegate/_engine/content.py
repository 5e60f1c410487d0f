"""Content within its caps: decoded in bounded steps, cut with a flag and never with an error (D-3, D-4)."""

from collections.abc import Sequence
from io import BytesIO
from typing import Final

import trio

from tidegate._policy.limits import Limits
from tidegate._wire.decode import Decoder, make_decoder, parse_codings
from tidegate._wire.heads import Head
from tidegate._wire.http1 import Exchange

_STEP: Final = 64 * 1024  # decoded bytes between two checkpoints


class ContentReader:
    """Reads the content of one final response.

    Attributes:
        truncated: it was cut at a cap; there was more.
        complete: all of it came, and something proves so (D-5). Known once `receive` gave b"".
        codings: the codings that are undone.
        oddities: what was tolerated in the coding.
    """

    def __init__(self, exchange: Exchange, head: Head, limits: Limits, *, decode: bool) -> None:
        self._exchange = exchange
        self._room = limits.max_content
        self._encoded_room = limits.encoded_content
        self._decoder: Decoder | None = None
        self._ended = False
        self.truncated = False
        self.complete = False
        self.codings: tuple[str, ...] = ()
        self.oddities: tuple[str, ...] = ()
        if decode and exchange.has_content:
            self._set_codings(head.values(b"content-encoding"), limits)

    def _set_codings(self, values: Sequence[bytes], limits: Limits) -> None:
        if not values:
            return
        codings = parse_codings(b", ".join(values).decode("latin-1"), limits.max_codings)
        if codings is None:
            self.oddities = ("an unknown content coding was left as it is",)
        elif codings:
            self.codings = codings
            self._decoder = make_decoder(codings, max_members=limits.max_coding_members)

    async def receive(self) -> bytes:
        """The next piece of decoded content, b"" at its end or at a cap.

        Raises:
            IncompleteContent, RemoteProtocolError, MessageTooLarge: as `Exchange.receive_content`; a
                corrupt coding is a RemoteProtocolError.
        """
        if self._ended:
            return b""
        piece = await (self._receive_decoded() if self._decoder else self._exchange.receive_content())
        if not piece:
            self._ended = True
            self.complete = not self.truncated and self._exchange.complete and self._coding_complete()
        elif len(piece) > self._room:
            piece = piece[: self._room]
            self.truncated = self._ended = True
        self._room -= len(piece)
        if not self._room and self._decoder is None and self._exchange.announced:
            self.truncated = self._ended = True  # no need to wait for bytes that are known to come
        return piece

    async def _receive_decoded(self) -> bytes:
        decoder = self._decoder
        assert decoder is not None
        while decoder.encoded_size <= self._encoded_room:  # of an inner coding, too: a bomb within a bomb
            if not decoder.needs_input:
                await trio.lowlevel.checkpoint()
                piece = decoder.read(min(_STEP, self._room + 1))
                if piece:
                    return piece
                continue
            room = self._encoded_room - self._exchange.wire_bytes
            if room < 0:
                break  # all that was below the cap has been decoded
            encoded = await self._exchange.receive_content()
            if not encoded:
                return b""
            if room:
                decoder.write(encoded[:room])
        self.truncated = True
        return b""

    def _coding_complete(self) -> bool:
        if self._decoder is None:
            return True
        complete = self._decoder.finish()
        if self._decoder.trailing_junk:
            self.oddities = ("bytes after the end of the content coding",)
        return complete

    async def receive_all(self) -> bytes:
        """All content up to its cap."""
        announced = self._exchange.announced
        if self._decoder is None and announced is not None:
            content = await self._exchange.receive_rest(self._room)
            self._ended = True
            self.truncated = len(content) < announced
            self.complete = not self.truncated and self._exchange.complete
            return content
        whole = BytesIO()
        while piece := await self.receive():
            whole.write(piece)
        return whole.getvalue()
