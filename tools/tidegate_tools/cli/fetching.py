"""What `tidegate fetch` does, from its options to an exit code."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple

import trio

from tidegate import FetchError, Hop, Limits, Observer, ResponseStream, TCPConnector, Timings, open_engine
from tidegate._policy.redirect import redirect_target
from tidegate_tools.cli.download import Saving, Target, open_saving, prepare_target
from tidegate_tools.cli.exits import CommandError, ExitCode, OutputClosed, UsageError, code_of_status
from tidegate_tools.cli.failures import failure_of, report, write_json
from tidegate_tools.cli.operator_options import Operator, OperatorOptions
from tidegate_tools.cli.outputs import KeptOutput, Output, standard_output, write_head
from tidegate_tools.cli.page_text import (
    convert_page,
    describe_page,
    is_unconverted,
    open_page_converter,
    page_facts,
    write_page,
)
from tidegate_tools.cli.request_options import MAX_CONTENT, RequestOptions
from tidegate_tools.cli.running import run
from tidegate_tools.cli.terminal import Notes, complain, output_is_terminal, output_may_block, say
from tidegate_tools.cli.trace import Narrator, Record, TellingConnector, TellingResolver
from tidegate_tools.cli.waterfall import waterfall
from tidegate_tools.pages import Format, Page, PageConverter, PageText

REDIRECTS: Final = 10
"""How many `-L` follows. Browsers take 20, the Fetch standard's figure; nobody honest needs ten."""

SHOWN: Final = Limits().max_content
"""Bytes of content that a terminal or `--json` gets unless `--max-bytes` says otherwise."""

UNBOUNDED: Final = 1 << 40
"""The ceiling of `Limits.max_content`, for content that goes to a file or a pipe and is not kept."""

TIMEOUT: Final = Limits().timeout
DOWNLOAD_TIMEOUT: Final = 3600.0
"""Seconds, into a file: the ceiling of `Limits.timeout`."""


_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """The options of `tidegate fetch` as they were given; its help says what they mean."""

    url: str
    request: RequestOptions
    operator: OperatorOptions
    output: str | None
    remote_name: bool
    location: bool
    max_redirects: int | None
    max_bytes: int | None
    timeout: float | None
    include: bool
    verbose: bool
    timings: bool
    as_json: bool
    fail_on_truncate: bool
    check_status: bool
    quiet: bool
    resume: bool
    page_format: Format

    @property
    def converts(self) -> bool:
        """True if the text of a page is wanted, and not the content as it came."""
        return self.page_format != "raw"

    @property
    def saves(self) -> bool:
        """True if the content goes into a file, and not to standard output."""
        return self.remote_name or self.output not in (None, "-")

    @property
    def shows_head(self) -> bool:
        """True if the head is printed. A HEAD request would show nothing without it."""
        return not self.as_json and (self.include or self.request.effective_method == "HEAD")

    @property
    def follows(self) -> bool:
        """True if an option says what is done about redirects."""
        return self.location or self.max_redirects is not None

    def limits(self) -> Limits:
        """The limits of the fetch."""
        kept = self.converts or (not self.saves and (self.as_json or output_is_terminal()))
        redirects = REDIRECTS if self.location else 0
        try:
            return Limits(
                timeout=self.timeout or (DOWNLOAD_TIMEOUT if self.saves else TIMEOUT),
                max_content=self.max_bytes if self.max_bytes is not None else SHOWN if kept else UNBOUNDED,
                max_redirects=self.max_redirects if self.max_redirects is not None else redirects,
                max_request_content=MAX_CONTENT,
            )
        except ValueError as error:
            raise UsageError(str(error).removeprefix("Limits.")) from None

    def target(self) -> Target | None:
        """Where the content is saved, None if it is not."""
        if self.output is not None and self.remote_name:
            raise UsageError("-o and -O exclude each other")
        if self.resume and (not self.saves or self.remote_name):
            raise UsageError("--continue needs -o FILE: it goes on with FILE.part")
        if self.converts and (self.remote_name or self.resume):
            raise UsageError(f"--format {self.page_format} goes with -o FILE, not with -O or --continue")
        if not self.saves:
            return None
        return prepare_target(None if self.remote_name else self.output, url=self.url, resume=self.resume)


def run_fetch(options: FetchOptions) -> int:
    """Fetch, deliver and tell; returns the exit code."""
    return _Fetch(options).run()


class _Fetch:
    """One run of the command."""

    def __init__(self, options: FetchOptions) -> None:
        self._options = options
        self._notes = Notes(quiet=options.quiet)
        self._record = Record()
        self._saving: Saving | None = None
        self._kept: KeptOutput | None = None
        self._page: PageText | None = None
        self._size = 0
        self._timeout = 0.0
        self._deadline = 0.0

    def run(self) -> int:
        try:
            return self._fetch()
        except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:
            left = self._saving.abandon() if self._saving is not None else None
            if isinstance(error, OutputClosed):
                raise
            code = report(failure_of(error), as_json=self._options.as_json, **self._facts())
            if left is not None:
                self._notes.note(left)
            return code
        finally:
            self._show_timings()

    def _fetch(self) -> int:
        options = self._options
        target, limits, content = options.target(), options.limits(), options.request.content()
        operator = options.operator.prepare()
        fields = self._fields(target)
        return run(self._transfer, operator, limits, fields, content, target)

    def _fields(self, target: Target | None) -> list[tuple[str, str]]:
        fields = self._options.request.fields()
        if target is None or self._options.converts:
            return fields
        fields.extend(target.fields.items())
        if any(name.lower() == "accept-encoding" for name, _ in fields):
            return fields
        # As HTTPie does: the length is known then, and a part can be resumed.
        return [*fields, ("Accept-Encoding", "identity")]

    def _observer(self, narrator: Narrator | None) -> Observer:
        if narrator is None:
            return self._record
        from tidegate.telemetry import Observers  # few runs are verbose

        return Observers(self._record, narrator)

    async def _transfer(
        self,
        operator: Operator,
        limits: Limits,
        fields: list[tuple[str, str]],
        content: bytes,
        target: Target | None,
    ) -> int:
        narrator = Narrator(say) if self._options.verbose else None
        async with (
            open_page_converter(self._options.page_format) as converter,
            open_engine(
                operator.policy,
                resolver=TellingResolver(operator.resolver, narrator.on_answer)
                if narrator
                else operator.resolver,
                connector=TellingConnector(TCPConnector(), narrator.on_connected) if narrator else None,
                observer=self._observer(narrator),
                tls=operator.tls,
            ) as engine,
        ):
            response = engine.stream(
                self._options.url,
                method=self._options.request.effective_method,
                headers=fields,
                content=content,
                limits=limits,
            )
            self._timeout, self._deadline = limits.timeout, trio.current_time() + limits.timeout
            async with response:
                if converter is None:
                    await self._receive(response, target)
                else:
                    await self._receive_page(converter, response, target)
        return self._conclude(response)

    # The response ...

    async def _receive(self, response: ResponseStream, target: Target | None) -> None:
        await self._show_head(response)
        output = await self._output(response, target)
        await self._read(response, output)
        await self._finish(output, cut=response.truncated)

    async def _show_head(self, response: ResponseStream) -> None:
        if self._options.shows_head:
            await self._in_time(output_may_block(), write_head, response)

    async def _in_time(
        self, may_block: bool, work: Callable[[*_Arguments], _Result], *arguments: *_Arguments
    ) -> _Result:
        """Write, within the time-out too: in a thread that is left behind if nobody takes what it writes."""
        if not may_block:
            return work(*arguments)
        with trio.move_on_at(self._deadline):
            return await trio.to_thread.run_sync(work, *arguments, abandon_on_cancel=True)
        raise CommandError(
            f"nobody has taken the output within the {self._timeout:g} s of --timeout",
            ExitCode.TIMED_OUT,
            "timeout",
        )

    async def _read(self, response: ResponseStream, output: Output) -> None:
        async for piece in response:
            await self._in_time(output.may_block, output.write, piece)
            self._size += len(piece)
        self._check_whole(response)

    async def _finish(self, output: Output, *, cut: bool) -> None:
        await self._in_time(output.may_block, partial(output.finish, cut=cut))
        if self._saving is not None:
            self._notes.note(f"{self._size} bytes came; the file is {self._saving.path}")

    async def _receive_page(
        self, converter: PageConverter, response: ResponseStream, target: Target | None
    ) -> None:
        """The same for `--format`: a page can be converted only once all of it is there."""
        if target is not None:
            self._check_savable(response, target)
        await self._show_head(response)
        kept = KeptOutput()
        await self._read(response, kept)
        whole = Page.of(response, kept.content)
        self._page = await convert_page(converter, whole, self._options.page_format)
        self._tell_page(self._page)
        if self._page.truncated and whole.complete:
            self._tell_cut("the page is too much for the converter: only its beginning is left")
        await self._deliver_page(self._page, response, target)

    def _tell_page(self, page: PageText) -> None:
        told = describe_page(page, self._options.page_format)
        if self._options.verbose:
            say(f"* page: {told}")
        elif is_unconverted(page):
            self._notes.warn(f"the page could not be converted: {told}")
        else:
            self._notes.note(told)

    async def _deliver_page(self, page: PageText, response: ResponseStream, target: Target | None) -> None:
        if target is not None:
            saving = open_saving(target, url=self._options.url, progress=False, as_it_came=False)
            await self._save(saving, response)
            await self._in_time(saving.may_block, saving.write, page.text.encode())
            await self._finish(saving, cut=page.truncated)
        elif not self._options.as_json:
            await self._in_time(output_may_block(), write_page, page)

    async def _output(self, response: ResponseStream, target: Target | None) -> Output:
        if target is not None:
            self._check_savable(response, target)
            show = self._notes.watched and not self._options.verbose
            return await self._save(open_saving(target, url=self._options.url, progress=show), response)
        if self._options.as_json:
            self._kept = KeptOutput()
            return self._kept
        return standard_output(response)

    async def _save(self, saving: Saving, response: ResponseStream) -> Saving:
        self._saving = saving
        await self._in_time(saving.may_block, saving.start, response)
        return saving

    def _check_savable(self, response: ResponseStream, target: Target) -> None:
        """An error page under the name of a file would be taken for it."""
        saved = response.status // 100 == 2 or (target.remainder is not None and response.status == 416)
        if self._options.check_status and not saved:
            line = _status_line(response, self._options)
            raise CommandError(
                f"{line}: nothing is saved; --no-check-status saves it all the same",
                code_of_status(response.status),
                "status",
            )

    def _check_whole(self, response: ResponseStream) -> None:
        """Complain, or fail if asked to, about content that is cut or may be (decisions D-4 and D-5)."""
        if response.complete:
            return
        what = (
            f"the content is cut after {self._size} bytes (--max-bytes)"
            if response.truncated
            else f"nothing proves that the content is whole after {self._size} bytes"
        )
        self._tell_cut(what)

    def _tell_cut(self, what: str) -> None:
        if self._options.fail_on_truncate:
            raise CommandError(what, ExitCode.TRUNCATED, "truncated")
        self._notes.warn(what)

    # ... and what is told of it.

    def _conclude(self, response: ResponseStream) -> int:
        # What is saved has passed `_check_savable`, and a 416 may have said that all of it was there.
        checks = self._options.check_status and self._saving is None
        code = code_of_status(response.status) if checks else ExitCode.DONE
        if self._options.as_json:
            write_json(
                {"ok": True, "exit_code": int(code), **self._response_facts(response), **self._facts()}
            )
        if code is not ExitCode.DONE:
            complain(_status_line(response, self._options))
        return code

    def _response_facts(self, response: ResponseStream) -> dict[str, Any]:
        content: dict[str, Any] = {"content": None, "content_base64": None}
        if self._kept is not None:
            content = self._kept.as_json(response.headers, truncated=response.truncated)
        page: dict[str, Any] = {}
        if self._page is not None:
            content["content"] = self._page.text if self._saving is None else None
            page = {"page": page_facts(self._page, self._options.page_format)}
        return {
            "url": str(response.url),
            "status": response.status,
            "reason_phrase": response.reason_phrase,
            "http_version": response.http_version,
            "headers": _pairs(response.headers.raw),
            "trailers": _pairs(response.trailers.raw),
            **content,
            **page,
            "content_bytes": self._size,
            "wire_bytes": self._record.wire_bytes,
            "truncated": response.truncated,
            "complete": response.complete,
            "codings": list(response.codings),
            "file": str(self._saving.path) if self._saving is not None else None,
        }

    def _facts(self) -> dict[str, Any]:
        return {"hops": [_hop_facts(hop) for hop in self._record.hops], "duration": self._record.duration}

    def _show_timings(self) -> None:
        if self._options.timings:
            for line in waterfall(self._record, shutil.get_terminal_size().columns):
                say(line)


def _status_line(response: ResponseStream, options: FetchOptions) -> str:
    """Status and, of a redirect, where it leads: without query and userinfo, which may be secrets."""
    line = f"HTTP {response.status} {_text(response.reason_phrase.encode('latin-1'))}".rstrip()
    locations = [value for name, value in response.headers.raw if name.lower() == b"location"]
    try:
        target = redirect_target(response.url, response.status, locations)
    except FetchError as error:
        return f"{line}; where it leads nothing can follow: {error.message.rstrip('.')}"
    if target is None:
        return line
    return f"{line} to {target.without_query}{'' if options.follows else '; -L follows it'}"


def _pairs(raw: tuple[tuple[bytes, bytes], ...]) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), _text(value)) for name, value in raw]


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _hop_facts(hop: Hop) -> dict[str, Any]:
    return {
        "url": str(hop.url),
        "method": hop.method,
        "status": hop.status,
        "peer": hop.peer,
        "reused": hop.reused,
        "tls_version": hop.tls_version,
        "timings": {name: getattr(hop.timings, name) for name in Timings.__slots__},
    }
