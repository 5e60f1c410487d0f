"""The converter process: `python -m tidegate_tools.pages.worker`, one job after the other over its pipes.

A job is two frames, a `Job` as JSON and the content; the answer is two frames, the name of an error (empty if
there is none) and the text. The process limits itself, for the program that started it may be gone.
"""

import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import BinaryIO, Final
from urllib.parse import urljoin

from tidegate._policy.content import Charset, decode_text
from tidegate_tools.pages.framing import LENGTH, MAX_FRAME, Job, frame

LEAST: Final = 200
"""Characters of main content below which the whole page is taken: it is small, or the guess was wrong."""


_GRACE: Final = 1.0
"""Seconds after the deadline: the program that started this process ends it first, if it is there."""


class TooLittle(Exception):
    """There is no main content worth the name."""


class TooMuch(Exception):
    """The text is far longer than any page should be."""


# The steps ------------------------------------------------------------------------------------------------


def _markdown(html: str, base: str, output: str = "markdown") -> str:
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert

    options = ConversionOptions(
        base_url=base,
        extract_metadata=False,
        output_format=output,
        # An inline image is a megabyte of base64, and nothing to read.
        inline_data_media="alt_text_only",
        preprocessing=PreprocessingOptions(preset="aggressive"),
    )
    return convert(html, options).content or ""


def _main_markdown(html: str, url: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    tree = HTMLTree.parse(html)
    base = tree.document.query_selector("base[href]") if tree.document else None
    main = extract_plain_text(tree, preserve_formatting="minimal_html", main_content=True, links=True)
    # The main content has lost the element that says what its links are relative to.
    base_url = urljoin(url, base.getattr("href") or "") if base is not None else url
    return _enough(_markdown(main, base_url))


def _main_text(html: str, _: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    return _enough(extract_plain_text(html, preserve_formatting=True, main_content=True))


def _enough(text: str) -> str:
    if len(text.strip()) < LEAST:
        raise TooLittle
    return text


def _whole_markdown(html: str, url: str) -> str:
    return _some(_markdown(html, url))


def _whole_text(html: str, url: str) -> str:
    return _some(_markdown(html, url, "plain"))


def _some(text: str) -> str:
    if not text.strip():
        raise TooLittle
    return text


def _raw(text: str, _: str) -> str:
    return text


STEPS: Final[Mapping[str, Callable[[str, str], str]]] = {
    "main markdown": _main_markdown,
    "main text": _main_text,
    "whole markdown": _whole_markdown,
    "whole text": _whole_text,
    "raw": _raw,
}


# The process ----------------------------------------------------------------------------------------------


def _import_libraries() -> None:
    """Before the first job, whose time it would take. What is missing is told when it is needed."""
    for name in ("html_to_markdown", "resiliparse.extract.html2text", "resiliparse.parse.html"):
        with suppress(ImportError):
            importlib.import_module(name)


def _read_frame(source: BinaryIO) -> bytes:
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    return source.read(LENGTH.unpack(head)[0])


def _answer(job: Job, content: bytes) -> tuple[str, bytes]:
    try:
        text = STEPS[job.step](decode_text(content, Charset(job.charset, "field")), job.url)
        result = text.encode("utf-8", "replace")
        if len(result) > MAX_FRAME:
            raise TooMuch
    # Whatever a parser does with a hostile page, MemoryError and panics of Rust too, its turn is over.
    except BaseException as error:
        return type(error).__name__, b""
    return "", result


def _serve(source: BinaryIO, target: BinaryIO) -> None:
    while True:
        job = Job(**json.loads(_read_frame(source)))
        content = _read_frame(source)
        # The default action of the alarm ends the process, whatever it is busy with.
        signal.setitimer(signal.ITIMER_REAL, job.timeout + _GRACE)
        error, text = _answer(job, content)
        signal.setitimer(signal.ITIMER_REAL, 0)
        target.write(frame(error.encode()) + frame(text))
        target.flush()


def main(memory: int) -> None:
    """Serve jobs until standard input ends.

    Args:
        memory: bytes of address space that the process may have.
    """
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Ctrl+C goes to every process of a terminal; what becomes of this one is its parent's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(1), "wb") as target, os.fdopen(os.dup(0), "rb") as source:
        # What a library prints must not get between the frames.
        os.dup2(2, 1)
        try:
            _import_libraries()
            target.write(frame(b"ready"))
            target.flush()
            _serve(source, target)
        except (EOFError, BrokenPipeError):
            return


if __name__ == "__main__":
    main(int(sys.argv[1]))
