"""`tidegate fetch --format text` and `markdown`: what a person would read of a page, instead of its bytes."""

import sys
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final

from tidegate_tools.cli.exits import CommandError
from tidegate_tools.cli.outputs import is_coded
from tidegate_tools.cli.terminal import is_terminal, visible_text, write_output, write_text
from tidegate_tools.pages import Format, Page, PageConverter, PageText, open_converter

FORMATS: Final[tuple[Format, ...]] = ("raw", "text", "markdown")
"""What `--format` takes. `raw` is content as it came, and needs no converter."""


def open_page_converter(wanted: Format) -> AbstractAsyncContextManager[PageConverter | None]:
    """A converter for this format; None for `raw`. Opened before anything is sent.

    Raises:
        ModuleNotFoundError: the extra `text` is not installed.
    """
    return nullcontext() if wanted == "raw" else open_converter()


async def convert_page(converter: PageConverter, response: Page, wanted: Format) -> PageText:
    """The text of a page.

    Args:
        converter: from `open_page_converter`.
        response: what came.
        wanted: `text` or `markdown`.

    Raises:
        CommandError: the content is no text, so there is nothing to read in it.
    """
    if not response.content:  # a HEAD, a 204: no type makes binary of nothing
        return PageText(text="", url=str(response.url), converter="raw")
    if is_coded(response.headers):
        coding = response.headers.get("content-encoding")
        raise _no_text(f"the content is still coded ({coding}), as the field Accept-Encoding asked for")
    page = await converter.convert(response, wanted)
    if page.converter != "none":
        return page
    kind = "a PDF document" if _is_pdf(response.content, page) else "binary"
    given = f"of the type {page.media_type}" if page.media_type else "without a type"
    raise _no_text(f"the content is {kind}, {len(response.content)} bytes {given}, and no text")


def _is_pdf(content: bytes, page: PageText) -> bool:
    return page.media_type == "application/pdf" or content.startswith(b"%PDF-")


def _no_text(what: str) -> CommandError:
    return CommandError(f"{what}: leave --format out, and use -o FILE", reason="binary_content")


def write_page(page: PageText) -> None:
    """Print a page: in UTF-8, or on a terminal as text that cannot drive it."""
    if not is_terminal(sys.stdout):
        write_output(page.text.encode())
        return
    ending = "" if page.text.endswith("\n") or not page.text else "\n"
    write_text(visible_text(page.text) + ending)


def describe_page(page: PageText, wanted: Format) -> str:
    """Which converter made it, and what became of those before it."""
    before = f" ({'; '.join(page.tried)})" if page.tried else ""
    if not page.text:
        return "there is no content"
    if page.converter == "raw":
        kind = page.media_type or "content without a type"
        return f"{kind} is shown as it came{before}"
    return f"{wanted} by {page.converter}{before}"


def is_unconverted(page: PageText) -> bool:
    """True if HTML stayed HTML, because no converter could make anything of it."""
    return page.is_html and page.converter == "raw"


def page_facts(page: PageText, wanted: Format) -> dict[str, Any]:
    """What `--json` tells of a page beside its text."""
    return {"format": wanted, "converter": page.converter, "tried": list(page.tried), "is_html": page.is_html}
