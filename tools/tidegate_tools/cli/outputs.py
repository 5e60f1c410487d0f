"""Content on its way to standard output: as it came, as text that is harmless to a terminal, or for JSON."""

import base64
import codecs
import io
import sys
from typing import Any, Final, Protocol

from tidegate import Headers, ResponseStream
from tidegate._policy.content import (
    ContentKind,
    MediaType,
    charset_of,
    combine_content_type,
    cut_utf8,
    decode_text,
    kind_of,
)
from tidegate_tools.cli.exits import CommandError
from tidegate_tools.cli.terminal import (
    is_terminal,
    output_may_block,
    visible_line,
    visible_text,
    write_output,
    write_text,
)


class Output(Protocol):
    """Takes the content of one response, wherever it goes.

    Attributes:
        may_block: whoever reads it may keep `write` and `finish` waiting.
    """

    may_block: bool

    def write(self, piece: bytes) -> None:
        """Take a piece."""

    def finish(self, *, cut: bool) -> None:
        """There is no more, or (`cut`) no more is wanted."""


def head_of(response: ResponseStream) -> bytes:
    """The response's head as it came, apart from what an undone coding took with it."""
    lines = [f"HTTP/{response.http_version} {response.status} {response.reason_phrase}".encode("latin-1")]
    lines.extend(b"%b: %b" % pair for pair in response.headers.raw)
    return b"\r\n".join([*lines, b"", b""])


def write_head(response: ResponseStream) -> None:
    """Print the head: its bytes, or harmless lines on a terminal."""
    if not is_terminal(sys.stdout):
        write_output(head_of(response))
        return
    lines = head_of(response).decode("utf-8", "replace").split("\r\n")
    write_text("\n".join(map(visible_line, lines[:-1])) + "\n")


def standard_output(response: ResponseStream) -> Output:
    """What writes content to standard output, a terminal or not."""
    return TerminalOutput(response.headers) if is_terminal(sys.stdout) else RawOutput()


class RawOutput:
    """Bytes as they are, each piece at once."""

    def __init__(self) -> None:
        self.may_block = output_may_block()

    def write(self, piece: bytes) -> None:
        """See `Output.write`."""
        write_output(piece)

    def finish(self, *, cut: bool) -> None:
        """See `Output.finish`."""


def _media_type(headers: Headers) -> MediaType | None:
    return combine_content_type(headers.get_all("content-type"))


def is_coded(headers: Headers) -> bool:
    """True for content that nobody has decoded, since the caller asked for the coding (decision D-3)."""
    return headers.get("content-encoding", "identity").strip().lower() != "identity"


def _is_binary(headers: Headers, data: bytes) -> bool:
    """True for content that is no text, or that nobody has decoded."""
    return is_coded(headers) or kind_of(_media_type(headers), data) is ContentKind.BINARY


_WIDE: Final = ("UTF-16LE", "UTF-16BE")
"""Encodings in which text has NUL bytes."""


class TerminalOutput:
    """Text for a person, decoded piece by piece. Binary content is refused, controls are shown as escapes.

    Args:
        headers: of the response.
    """

    may_block = True

    def __init__(self, headers: Headers) -> None:
        self._headers = headers
        self._decoder: io.IncrementalNewlineDecoder | None = None
        self._ends_line = True

    def write(self, piece: bytes) -> None:
        """See `Output.write`.

        Raises:
            CommandError: the content is binary.
        """
        if self._decoder is not None:
            self._show(self._decoder.decode(piece))
            return
        self._decoder = self._begin(piece)
        self._show(self._decoder.decode(piece).removeprefix("\ufeff"))

    def _begin(self, piece: bytes) -> io.IncrementalNewlineDecoder:
        media_type = _media_type(self._headers)
        charset = charset_of(media_type, piece)
        has_nul = b"\0" in piece and charset.encoding not in _WIDE
        if has_nul or _is_binary(self._headers, cut_utf8(piece)):
            what = media_type.essence if media_type is not None else "of no known type"
            raise CommandError(
                f"the content is binary ({what}) and not shown on a terminal: use -o FILE, or redirect it",
                reason="binary_content",
            )
        # Translates line ends as well, so that no lone CR overwrites a line.
        return io.IncrementalNewlineDecoder(_codec(charset.encoding), translate=True)

    def _show(self, text: str) -> None:
        if text:
            write_text(visible_text(text))
            self._ends_line = text.endswith("\n")

    def finish(self, *, cut: bool) -> None:
        """See `Output.finish`. The shell's prompt gets a line of its own."""
        if self._decoder is not None:
            self._show(self._decoder.decode(b"", final=True))
        if not self._ends_line:
            write_text("\n")


def _codec(encoding: str) -> codecs.IncrementalDecoder:
    try:
        return codecs.getincrementaldecoder(encoding)("replace")
    except LookupError:  # an encoding of the web that Python has by no such name
        return codecs.getincrementaldecoder("utf-8")("replace")


class KeptOutput:
    """Content kept for `--json`, or to be converted."""

    may_block = False

    def __init__(self) -> None:
        self._content = bytearray()

    @property
    def content(self) -> bytes:
        """All of it, so far."""
        return bytes(self._content)

    def write(self, piece: bytes) -> None:
        """See `Output.write`."""
        self._content += piece

    def finish(self, *, cut: bool) -> None:
        """See `Output.finish`."""

    def as_json(self, headers: Headers, *, truncated: bool) -> dict[str, Any]:
        """The content as text in its charset, or in base64 if it is binary; the other one is None."""
        content = self.content
        charset = charset_of(_media_type(headers), content)
        whole = cut_utf8(content) if truncated else content
        if _is_binary(headers, whole):
            return {"content": None, "content_base64": base64.b64encode(content).decode()}
        text = decode_text(whole if charset.encoding == "UTF-8" else content, charset)
        return {"content": text, "content_base64": None}
