"""Invariant: a text has a front matter of its own lines or none; as YAML it is plain values or mistakes.

Every value knows its line, every mistake names the file, and nothing else is ever raised.
"""

from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path

from tests.support.data import ROOT
from tidegate_tools.web_request.document import Document, front_matter, parse_yaml

SCENARIOS = ROOT / "tests" / "tools" / "web_request" / "scenarios"


def check(data: bytes) -> None:
    """The text as an agent's file."""
    text = data.decode("utf-8", "replace")
    found = front_matter(text)
    if found is None:
        return
    yaml, first_line = found
    lines = text.split("\n")
    assert yaml == "" or lines[first_line - 1 :][: yaml.count("\n") + 1] == yaml.split("\n")
    document = parse_yaml(yaml, "a.agent.md", first_line=first_line)
    _check_mistakes(document, len(lines))
    _check_plain(document.data)
    assert all(1 <= line <= len(lines) + 1 for line in document.lines.values())


def _check_mistakes(document: Document, lines: int) -> None:
    assert isinstance(document.data, dict)
    for mistake in document.mistakes:
        assert mistake.file == "a.agent.md"
        assert mistake.line is None or 1 <= mistake.line <= lines + 1, mistake
        assert str(mistake)


def _check_plain(value: object) -> None:
    if isinstance(value, dict):
        assert all(type(key) is str for key in value)
        for item in value.values():
            _check_plain(item)
    elif isinstance(value, list):
        for item in value:
            _check_plain(item)
    else:
        assert value is None or isinstance(value, str | int | float | bool | date | datetime), repr(value)


def files(pattern: str) -> Iterator[bytes]:
    """The contents of the files of the scenarios."""
    yield from (Path(path).read_bytes() for path in sorted(SCENARIOS.rglob(pattern)))


def seeds() -> Iterator[bytes]:
    """The agents of the scenarios, and their configurations as front matter."""
    yield from files("*.agent.md")
    yield from (b"---\n" + text + b"\n---\n" for text in files("agents.config.yaml"))
