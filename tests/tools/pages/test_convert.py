"""Page text: what comes of a page, which converter made it, and what hostile pages get."""

import os
import time
from typing import Any

import pytest
import trio

from tests.tools.pages.responses import URL, article, response
from tidegate_tools.pages import ConverterLimits, Format, PageConverter, PageText, convert, open_converter


@pytest.fixture
async def converter() -> Any:
    async with open_converter() as opened:
        yield opened


async def test_markdown_of_the_main_content(converter: PageConverter) -> None:
    page = await converter.convert(response(article()))
    assert page.text.startswith("# Tides\n\nSome [link](https://site.example/dir/moon?a=1) in a text")
    assert "imprint" not in page.text
    assert "elsewhere" not in page.text
    assert (page.converter, page.tried, page.is_html, page.media_type) == (
        "resiliparse+html-to-markdown",
        (),
        True,
        "text/html",
    )
    assert page.url == URL


async def test_plain_text_of_the_main_content(converter: PageConverter) -> None:
    page = await converter.convert(response(article()), "text")
    assert page.text.startswith("Tides\n\nSome link in a text about tides.")
    assert page.converter == "resiliparse"


@pytest.mark.parametrize("more", ["", "Water rises and falls. " * 30])
@pytest.mark.parametrize(
    ("base", "link"),
    [
        ("", "https://site.example/dir/moon?a=1"),
        ("<base href='/b/'>", "https://site.example/b/moon?a=1"),
        ("<base href='https://other.example/c/'>", "https://other.example/c/moon?a=1"),
        ("<base target='_blank'>", "https://site.example/dir/moon?a=1"),
    ],
)
async def test_links_are_absolute(converter: PageConverter, more: str, base: str, link: str) -> None:
    """In the main content and in the whole page alike."""
    page = await converter.convert(response(article(more, base)))
    assert f"[link]({link})" in page.text


async def test_a_small_page_is_taken_whole(converter: PageConverter) -> None:
    page = await converter.convert(response(article(more="")))
    assert "# Tides" in page.text
    assert page.converter == "html-to-markdown"
    assert page.tried == ("resiliparse+html-to-markdown: found too little text",)


@pytest.mark.parametrize("wanted", ["markdown", "text", "raw"])
@pytest.mark.parametrize(
    ("content", "content_type", "sentence"),
    [
        (
            b"%PDF-1.7 \x00\x01",
            "application/pdf",
            "a PDF document, sent as 11 bytes of the type application/pdf",
        ),
        (b"%PDF-1.7 text", "text/html", "a PDF document, sent as 13 bytes of the type text/html"),
        (b"%PDF-1.7 text", None, "a PDF document, sent as 13 bytes without a type"),
        (b"\x89PNG\r\n\x1a\n", "image/png", "binary, sent as 8 bytes of the type image/png"),
        (b"a\x00b", "text/plain", "binary, sent as 3 bytes of the type text/plain"),
        (b"a\x00b", None, "binary, sent as 3 bytes without a type"),
    ],
)
async def test_binary_content_is_said_to_be_such(
    converter: PageConverter, content: bytes, content_type: str | None, sentence: str, wanted: Format
) -> None:
    page = await converter.convert(response(content, content_type), wanted)
    assert page.text == f"[The content is {sentence}. It is no text, so it is not shown.]"
    assert page.converter == "none"


@pytest.mark.parametrize(
    ("content", "content_type", "is_html"),
    [
        ("<!DOCTYPE html><p>x", None, True),
        ("<!-- a --> <HTML><p>x", None, True),
        ("x <html>", None, False),
        ("<html><p>x", "text/plain", False),
        ("<p>x", "text/html", True),
        ("<html xmlns='http://www.w3.org/1999/xhtml'><p>x</p></html>", "application/xhtml+xml", True),
        ("<feed/>", "application/atom+xml", False),
        ('{"a": 1}', "application/json", False),
    ],
)
async def test_what_is_html(
    converter: PageConverter, content: str, content_type: str | None, is_html: bool
) -> None:
    page = await converter.convert(response(content, content_type))
    assert page.is_html is is_html
    assert (page.text == content) is not is_html
    assert page.converter == ("html-to-markdown" if is_html else "raw")


@pytest.mark.parametrize(
    ("content", "content_type", "text"),
    [
        ("caf\xe9".encode("latin-1"), "text/html; charset=iso-8859-1", "caf\xe9"),
        (b"<meta charset=shift_jis>" + "\u65e5\u672c".encode("shift_jis"), "text/html", "\u65e5\u672c"),
        (b"\xff\xfe" + "caf\xe9".encode("utf-16-le"), "text/plain", "caf\xe9"),
        (b"\xe6\x97", "text/plain; charset=utf-8", "\ufffd"),
    ],
)
@pytest.mark.parametrize("size", [0, 100_000])
async def test_charset(
    converter: PageConverter, content: bytes, content_type: str, text: str, size: int
) -> None:
    """Short content is decoded at once, long content in the process."""
    padding = b" \x00" * size if b"\xff\xfe" in content else b" " * size
    page = await converter.convert(response(content + padding, content_type))
    assert page.text.strip() == text


async def test_inline_images_are_not_text(converter: PageConverter) -> None:
    page = await converter.convert(
        response(f"<p>words<img alt='a boat' src='data:image/png;base64,{'A' * 9000}'>")
    )
    assert "AAAA" not in page.text
    assert "words" in page.text


async def test_truncated_is_passed_on(converter: PageConverter) -> None:
    page = await converter.convert(response(article(), truncated=True))
    assert page.truncated


async def test_a_page_of_its_own() -> None:
    assert (await convert(response(article()))).text.startswith("# Tides")
    assert (await convert(response(article()), "raw")).text == article()


# Hostile pages --------------------------------------------------------------------------------------------

HOSTILE = {
    "50,000 attributes": "<p " + " ".join(f'a{i}="1"' for i in range(50_000)) + ">hello</p>",
    "200,000 levels": "<div>" * 200_000 + "x",
    "100,000 links": "<a href='/x'>y</a>" * 100_000,
    "megabytes of text": "<p>" + "word " * 800_000,
    "links that share a long base": f"<base href='https://e.example/{'b' * 4000}/'>"
    + "<a href='x'>y</a>" * 20_000,
    "tables in tables": "<table><tr><td>" * 5_000 + "x",
    "lists in lists": "<ul><li>" * 20_000 + "x",
    "an endless comment": "<!--" + "-" * 1_000_000,
    "entities": "&amp;" * 500_000,
}

LIMITS = ConverterLimits(timeout=4.0)


class Watch:
    """A task that wants to run every 5 ms, and notes what kept it from running.

    Attributes:
        stalls: seconds between two turns.
        work: seconds of those that this thread itself was busy, which no load of the machine can change.
    """

    def __init__(self) -> None:
        self.stalls: list[float] = []
        self.work: list[float] = []

    async def run(self) -> None:
        while True:
            before, busy = trio.current_time(), time.thread_time()
            await trio.sleep(0.005)
            self.stalls.append(trio.current_time() - before - 0.005)
            self.work.append(time.thread_time() - busy)


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_pages_end_in_time(name: str) -> None:
    """Within the deadline with some text, and the loop never stands still over 100 ms."""
    watch = Watch()
    async with open_converter(LIMITS) as converter, trio.open_nursery() as nursery:
        await converter.convert(response(article()))
        nursery.start_soon(watch.run)
        started = trio.current_time()
        page = await converter.convert(response(HOSTILE[name]))
        taken = trio.current_time() - started
        again = await converter.convert(response(article()))
        nursery.cancel_scope.cancel()
    assert page.text
    assert page.converter in ("resiliparse+html-to-markdown", "html-to-markdown", "raw")
    # Beside the deadline, two starts of a process on a busy machine.
    assert taken < LIMITS.timeout + 6
    assert max(watch.work) < 0.1
    # Other programs may have kept both cores busy; a call that blocks would take as long as the conversion.
    assert max(watch.stalls) < 1
    assert again.converter == "resiliparse+html-to-markdown"


async def test_the_fallback_after_a_deadline_is_reported() -> None:
    async with open_converter(ConverterLimits(timeout=0.2)) as converter:
        page = await converter.convert(response(HOSTILE["50,000 attributes"]))
    assert page.tried[0] == "resiliparse+html-to-markdown: not done within 0.1 s"
    assert page.converter in ("html-to-markdown", "raw")


async def test_the_last_fallback_is_the_text_as_it_came(converter: PageConverter) -> None:
    """Neither converter finds anything in a page that is so deep."""
    page = await converter.convert(response("<div>" * 200_000 + "x"))
    assert (page.converter, page.text) == ("raw", "<div>" * 200_000 + "x")
    assert [phrase.partition(":")[0] for phrase in page.tried] == [
        "resiliparse+html-to-markdown",
        "html-to-markdown",
    ]


async def test_memory_is_limited() -> None:
    """What a page can make the process take is bounded, and the page has a text all the same."""
    bomb = "<table>" + "<tr>" + "<td>x" * 3_000 + "<tr><td>" * 30_000
    async with open_converter(ConverterLimits(memory=256 * 1024 * 1024, timeout=4)) as converter:
        page = await converter.convert(response(bomb))
    assert page.text


async def processes() -> set[str]:
    """The converter processes of this one, zombies too."""
    command = ["ps", "--ppid", str(os.getpid()), "-o", "pid=,stat=,args="]
    listing = (await trio.run_process(command, capture_stdout=True)).stdout.decode()
    lines = [line.split(maxsplit=2) for line in listing.splitlines()]
    return {pid for pid, state, args in lines if "tidegate_tools.pages.worker" in args or state == "Z"}


async def test_cancelling_kills_the_process() -> None:
    before = await processes()
    with trio.move_on_after(0.3) as scope:
        async with open_converter(ConverterLimits(timeout=60)) as converter:
            await converter.convert(response(HOSTILE["50,000 attributes"] * 3))
    assert scope.cancelled_caught
    assert await processes() <= before


async def test_one_process_is_kept_and_killed_at_the_end() -> None:
    before = await processes()
    async with open_converter() as converter, trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(converter.convert, response(article()))
    assert await processes() <= before


async def test_one_process_serves_page_after_page() -> None:
    async with open_converter() as converter:
        await converter.convert(response(article()))
        first = await processes()
        assert len(first) == 1
        await converter.convert(response(article()))
        assert await processes() == first


async def test_pages_at_once(converter: PageConverter) -> None:
    pages: list[PageText] = []

    async def one(number: int) -> None:
        pages.append(await converter.convert(response(article(f"Page {number}. " * 50))))

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(one, number)
    assert {
        page.text.count(f"Page {number}. ") > 40 for number, page in enumerate(sorted(pages, key=str))
    } == {True}


@pytest.mark.parametrize("bad", [{"timeout": 0}, {"timeout": 61}, {"memory": 1}])
def test_limits_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="ConverterLimits"):
        ConverterLimits(**bad)
