"""What a page is: the value that comes of a conversion, and what the content is to be treated as."""

import re
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from tidegate import URL, Headers, ResponseStream
from tidegate._policy.content import ContentKind, MediaType, charset_of, combine_content_type, kind_of

Format: TypeAlias = Literal["markdown", "text", "raw"]
"""`markdown` and `text`: the main content of HTML, other text as it is. `raw`: text as it came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageText:
    """The text of a page. It comes from the peer and is data, never instructions (D-20).

    Attributes:
        text: what to show. Of binary content a sentence that says so, never the content.
        url: where it came from, after redirects.
        converter: which converter made it: `resiliparse+html-to-markdown`, `resiliparse`,
            `html-to-markdown`, `raw` (text as it came), or `none` (binary content).
        tried: the converters before it and what became of them, one phrase each.
        media_type: such as `text/html`; None if the response names none.
        is_html: whether it was treated as HTML.
        truncated: there was more: a cap cut the content, or nothing proves that all of it came.
    """

    text: str
    url: str
    converter: str
    tried: tuple[str, ...] = ()
    media_type: str | None = None
    is_html: bool = False
    truncated: bool = False


class Received(Protocol):
    """What is converted: a `tidegate.Response` or a `Page`."""

    @property
    def url(self) -> URL:
        """Where it came from."""
        ...

    @property
    def headers(self) -> Headers:
        """Its fields."""
        ...

    @property
    def content(self) -> bytes:
        """Its content, within the cap of the fetch."""
        ...

    @property
    def truncated(self) -> bool:
        """The content was cut at a cap."""
        ...

    @property
    def complete(self) -> bool:
        """All content came, and something proves so."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A response that was read piece by piece; its attributes mean what they do in `tidegate.Response`."""

    url: URL
    status: int
    headers: Headers
    content: bytes
    truncated: bool
    complete: bool

    @classmethod
    def of(cls, response: ResponseStream, content: bytes) -> "Page":
        """What a response came to.

        Args:
            response: it has been read to its end.
            content: as much of its content as was kept.
        """
        return cls(
            url=response.url,
            status=response.status,
            headers=response.headers,
            content=content,
            truncated=response.truncated,
            complete=response.complete,
        )


class Treatment:
    """What a response is to be treated as, from its media type and its first bytes.

    Attributes:
        media_type: the essence, None if there is none.
        charset: the name of the encoding.
        is_html: HTML or XHTML, or HTML by its looks where no media type is given.
        is_binary: nothing that could be shown as text, whatever its media type claims.
    """

    def __init__(self, response: Received) -> None:
        content = response.content
        media_type = combine_content_type(response.headers.get_all("content-type"))
        kind = kind_of(media_type, content[:_LOOK])
        self.media_type = media_type.essence if media_type else None
        self.charset = charset_of(media_type, content[:_LOOK]).encoding
        self.is_binary = kind is ContentKind.BINARY or _is_disguised(content[:_LOOK], self.charset)
        self.is_html = not self.is_binary and _is_html(media_type, kind, content[:_LOOK])


_LOOK: Final = 64 * 1024
"""Bytes from the beginning that decide."""

_HTML: Final = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*(?:<!--.{0,1000}?-->\s*)?<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL
)


def _is_html(media_type: MediaType | None, kind: ContentKind, start: bytes) -> bool:
    if media_type is None:
        return _HTML.match(start) is not None
    return kind is ContentKind.HTML or media_type.essence == "application/xhtml+xml"


_MAGIC: Final = (b"%PDF-", b"\x89PNG\r\n", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b", b"\x7fELF")
"""How files begin that servers often send under the name of some text."""


def _is_disguised(start: bytes, charset: str) -> bool:
    # In UTF-16 every other byte of English text is a NUL.
    return start.startswith(_MAGIC) or (b"\0" in start and not charset.startswith("UTF-16"))


def binary_notice(treatment: Treatment, content: bytes) -> str:
    """What stands for content that is no text."""
    is_pdf = treatment.media_type == "application/pdf" or content.startswith(b"%PDF-")
    kind = "a PDF document" if is_pdf else "binary"
    given = f"of the type {treatment.media_type}" if treatment.media_type else "without a type"
    return (
        f"[The content is {kind}, sent as {len(content)} bytes {given}. It is no text, so it is not shown.]"
    )
