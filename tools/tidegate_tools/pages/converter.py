"""Converting in a process of its own, which is killed at its deadline and started again."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from subprocess import DEVNULL, PIPE
from typing import Final, NamedTuple

import trio

from tidegate._policy.content import Charset, cut_utf8, decode_text
from tidegate_tools.pages.framing import LENGTH, MAX_FRAME, Job, frame
from tidegate_tools.pages.page import Format, PageText, Received, Treatment, binary_notice


@dataclass(frozen=True, slots=True, kw_only=True)
class ConverterLimits:
    """The bounds of one conversion. Picked by the hostile pages of the tests, which none of it lets through.

    Attributes:
        timeout: seconds for all converters together, without the start of their process, which takes
            tenths of a second. Each gets half of what is left for those after it.
        memory: bytes of address space of the process.
    """

    timeout: float = 5.0
    memory: int = 1024 * 1024 * 1024

    def __post_init__(self) -> None:
        if not 0.1 <= self.timeout <= 60:
            raise ValueError(f"ConverterLimits.timeout must be from 0.1 to 60 seconds, not {self.timeout!r}")
        if self.memory < 256 * 1024 * 1024:
            raise ValueError(f"ConverterLimits.memory must be at least 256 MiB, not {self.memory!r}")


_STEPS: Final[dict[Format, tuple[str, ...]]] = {
    "markdown": ("main markdown", "whole markdown"),
    "text": ("main text", "whole text"),
    "raw": (),
}

_NAMES: Final = {
    "main markdown": "resiliparse+html-to-markdown",
    "whole markdown": "html-to-markdown",
    "main text": "resiliparse",
    "whole text": "html-to-markdown",
    "raw": "raw",
}
"""What a step is called in a result."""

_SMALL: Final = 64 * 1024
"""Bytes that are decoded at once, since that takes few milliseconds in any encoding."""

_START: Final = 10.0
"""Seconds after which a process is given up that does not even start."""


class ConversionFailed(Exception):
    """A converter has not made a text; the message is a phrase that says why."""


@asynccontextmanager
async def open_converter(
    limits: ConverterLimits | None = None, *, max_processes: int = 2
) -> AsyncIterator["PageConverter"]:
    """Open a converter for the length of an `async with` block; at its end, its processes are killed.

    Args:
        limits: of each conversion.
        max_processes: conversions at once; more wait. One process is kept for the next page.

    Raises:
        ModuleNotFoundError: the extra `text` is not installed.
    """
    _require_extra()
    converter = PageConverter(limits or ConverterLimits(), max_processes)
    try:
        yield converter
    finally:
        await converter.aclose()


def _require_extra() -> None:
    missing = [name for name in ("html_to_markdown", "resiliparse") if find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(f"{missing[0]} is not installed: pip install 'tidegate[text]'")


async def convert(response: Received, format: Format = "markdown") -> PageText:  # noqa: A002  # the word
    """The text of one response, with a process for this one page; see `PageConverter.convert`.

    Raises:
        ModuleNotFoundError: the extra `text` is not installed, and `format` asks for more than raw text.
    """
    if format == "raw":
        return await PageConverter(ConverterLimits(), 1).convert(response, format)
    async with open_converter() as converter:
        return await converter.convert(response, format)


class PageConverter:
    """Makes text of responses. Made by `open_converter`. Any number of tasks of one trio run may use it."""

    def __init__(self, limits: ConverterLimits, max_processes: int) -> None:
        self._limits = limits
        self._turns = trio.CapacityLimiter(max_processes)
        self._warm: _Process | None = None

    async def convert(self, response: Received, format: Format = "markdown") -> PageText:  # noqa: A002
        """The text of a response. Never fails: at worst it is the text as it came.

        Args:
            response: what came; its content within the cap of the fetch.
            format: `markdown` or `text`: the main content of HTML, with absolute links; else the whole page;
                else raw. Other text is always raw. `raw`: as it came.
        """
        treatment = Treatment(response)
        if treatment.is_binary:
            made = _Made(binary_notice(treatment, response.content), "none")
        else:
            steps = _STEPS[format] if treatment.is_html else ()
            made = await self._make(response, treatment.charset, (*steps, "raw"))
        return PageText(
            text=made.text,
            url=str(response.url),
            converter=made.converter,
            tried=made.tried,
            media_type=treatment.media_type,
            is_html=treatment.is_html,
            truncated=made.cut or response.truncated or not response.complete,
        )

    async def _make(self, response: Received, charset: str, steps: tuple[str, ...]) -> "_Made":
        if steps == ("raw",) and len(response.content) <= _SMALL:
            return _Made(_decoded(response.content, charset), "raw")
        tried: list[str] = []
        async with self._turns:
            timeout = self._limits.timeout
            for step in steps:
                timeout /= 2
                job = Job(step=step, charset=charset, url=str(response.url), timeout=timeout)
                try:
                    return _Made(await self._run(job, response.content), _NAMES[step], tuple(tried))
                except ConversionFailed as error:
                    tried.append(f"{_NAMES[step]}: {error}")
        # No process will do it, not even the simplest thing: the beginning is better than nothing.
        beginning = cut_utf8(response.content[:_SMALL])
        return _Made(_decoded(beginning, charset), "raw", tuple(tried), cut=len(response.content) > _SMALL)

    async def _run(self, job: Job, content: bytes) -> str:
        process, self._warm = self._warm, None
        try:
            if process is not None and not process.is_alive:
                await process.kill()
                process = None
            process = process or await _Process.start(self._limits.memory)
            with trio.move_on_after(job.timeout) as scope:
                text = await process.run(job, content)
            if not scope.cancelled_caught:
                process = self._keep(process)
                return text
        except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
            raise ConversionFailed("its process broke down") from error
        except ConversionFailed:
            # It has answered, so it is sound.
            process = self._keep(process)
            raise
        finally:
            if process is not None:
                await process.kill()
        raise ConversionFailed(f"not done within {job.timeout:.1f} s")

    def _keep(self, process: "_Process | None") -> "_Process | None":
        """Keep a sound process for the next page; it comes back if another one is kept already."""
        if self._warm is not None:
            return process
        self._warm = process
        return None

    async def aclose(self) -> None:
        """Kill the process that was kept."""
        if self._warm is not None:
            process, self._warm = self._warm, None
            await process.kill()


class _Made(NamedTuple):
    """A text, what made it, what failed before, and whether it is only the beginning."""

    text: str
    converter: str
    tried: tuple[str, ...] = ()
    cut: bool = False


def _decoded(content: bytes, charset: str) -> str:
    return decode_text(content, Charset(charset, "field"))


class _Process:
    """One converter process."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._buffer = bytearray()

    @classmethod
    async def start(cls, memory: int) -> "_Process":
        # -P: a file of that name in the current directory is not meant.
        program = [sys.executable, "-P", "-m", "tidegate_tools.pages.worker", str(memory)]
        # Shielded, since trio starts it in a thread: a process whose handle is lost could not be killed.
        with trio.CancelScope(shield=True):
            process = await trio.lowlevel.open_process(program, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
        converter = cls(process)
        try:
            with trio.fail_after(_START):
                await converter._receive_frame()
        except BaseException:
            await converter.kill()
            raise
        return converter

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    async def run(self, job: Job, content: bytes) -> str:
        await self._stdin.send_all(frame(job.encode()) + frame(content))
        error = (await self._receive_frame()).decode()
        text = (await self._receive_frame()).decode()
        if error:
            raise ConversionFailed(_PHRASES.get(error, f"failed with {error}"))
        return text

    async def _receive_frame(self) -> bytes:
        size = LENGTH.unpack(await self._receive(LENGTH.size))[0]
        if size > MAX_FRAME:
            raise trio.BrokenResourceError("a frame is too long")
        return await self._receive(size)

    async def _receive(self, size: int) -> bytes:
        while len(self._buffer) < size:
            piece = await self._stdout.receive_some(256 * 1024)
            if not piece:
                raise trio.BrokenResourceError("the process has ended")
            self._buffer += piece
        content = bytes(self._buffer[:size])
        del self._buffer[:size]
        return content

    async def kill(self) -> None:
        """End it and see that nothing is left of it, even if the caller is cancelled: SIGKILL is quick."""
        with suppress(ProcessLookupError):
            self._process.kill()
        with trio.CancelScope(shield=True):
            await self._stdin.aclose()
            await self._stdout.aclose()
            await self._process.wait()


_PHRASES: Final = {
    "TooLittle": "found too little text",
    "TooMuch": "made too much text",
    "MemoryError": "ran out of memory",
}
