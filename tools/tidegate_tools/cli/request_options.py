"""What is sent: method, fields and content, out of the options `-X`, `-H`, `-d` and `--json-body`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import click

from tidegate._policy.content import parse_json
from tidegate_tools.cli.exits import UsageError

MAX_CONTENT: Final = 1 << 30
"""The ceiling of `Limits.max_request_content`: here the person at the shell says what is sent."""


def _check_url(context: click.Context, parameter: click.Parameter, url: str) -> str:
    # The engine would say what it says of example.com, that https:// is missing in front of it.
    if not url.strip():
        raise click.BadParameter("it is empty")
    return url


url_argument = click.argument("url", callback=_check_url)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """The options as they were given."""

    method: str | None
    headers: Sequence[str]
    data: Sequence[str]
    json_body: str | None

    @property
    def effective_method(self) -> str:
        """The method asked for, else POST if there is content and GET if there is none."""
        if self.method is not None:
            return self.method
        return "POST" if self.data or self.json_body is not None else "GET"

    def fields(self) -> list[tuple[str, str]]:
        """The request fields, with those that the kind of content asks for.

        Raises:
            UsageError: one has no colon. What else is wrong with it, the engine tells.
        """
        given = [_field(text) for text in self.headers]
        names = {name.lower() for name, _ in given}
        return given + [pair for pair in self._defaults() if pair[0].lower() not in names]

    def _defaults(self) -> list[tuple[str, str]]:
        # As curl's -d and --json have it.
        if self.json_body is not None:
            return [("Content-Type", "application/json"), ("Accept", "application/json")]
        return [("Content-Type", "application/x-www-form-urlencoded")] if self.data else []

    def content(self) -> bytes:
        """The request content. Standard input is read only where `@-` says so.

        Raises:
            UsageError: there are both kinds, a file cannot be read, or the JSON is none.
        """
        if self.data and self.json_body is not None:
            raise UsageError("-d and --json-body exclude each other")
        if self.json_body is None:
            return b"&".join(_value("-d", text) for text in self.data)
        content = _value("--json-body", self.json_body)
        try:
            parse_json(content.decode())
        except ValueError as error:
            raise UsageError(f"--json-body: {json_problem(error)}") from None
        return content


def json_problem(error: ValueError) -> str:
    """What `parse_json`, or decoding for it, has found, in words for somebody at a shell."""
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    # The rest is advice for whoever writes Python.
    return str(error).partition("; use sys.")[0]


def _field(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        # The text may be a secret whose name was forgotten, so it is not repeated.
        raise UsageError("-H needs a field as 'NAME: VALUE', with a colon")
    return name, value.strip()


def _value(option: str, text: str) -> bytes:
    """The bytes that an option means: its text, or with `@` a file's or standard input's."""
    if text == "@-":
        return read_input(f"{option} @-")
    if not text.startswith("@"):
        return text.encode("utf-8", "surrogateescape")
    try:
        with Path(text[1:]).open("rb") as file:
            return _bounded(option, file)
    except OSError as error:
        raise UsageError(f"{option} {text!r} cannot be read: {error.strerror}") from None


def read_input(place: str) -> bytes:
    """All of standard input.

    Args:
        place: which option or argument wants it, for a message.

    Raises:
        UsageError: it is closed, cannot be read, or is longer than `MAX_CONTENT`.
    """
    if sys.stdin is None:  # after `<&-`
        raise UsageError(f"{place}: standard input is closed")
    try:
        return _bounded(place, sys.stdin.buffer)
    except OSError as error:
        raise UsageError(f"{place}: standard input cannot be read: {error.strerror}") from None


def _bounded(option: str, file: BinaryIO) -> bytes:
    data = file.read(MAX_CONTENT + 1)
    if len(data) > MAX_CONTENT:
        raise UsageError(f"{option}: more than {MAX_CONTENT} bytes")
    return data
