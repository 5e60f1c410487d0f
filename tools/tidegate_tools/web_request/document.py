"""YAML texts as plain values that know their lines, and the front matter of Markdown files.

ruamel.yaml composes the tree of nodes (YAML 1.2: `yes` and `no` are texts, no octal surprises); the values
are built from it here, because its constructors stop at the first duplicate key and keep no lines for plain
values, and because aliases and nesting need bounds.
"""

import functools
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tidegate_tools.web_request.mistakes import KeyPath, Mistake, dotted, unreadable

MAX_BYTES: Final = 1_000_000
"""No configuration that a person writes is longer; a larger file is a mistake, not a configuration."""

MAX_VALUES: Final = 20_000
"""Values after aliases are followed; stops a few lines of nested aliases from becoming billions."""

_CORE_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq")
)


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML text: its values as written, and where they stand.

    Attributes:
        file: the file, as the caller named it.
        data: plain dicts, lists, texts, numbers; an empty text is an empty dict.
        lines: the line of every key and list item, from 1.
        mistakes: what is wrong with the YAML itself; `data` holds what could be read.
        says_nothing: true if there is no value at all, only comments, a lone `---` or not even that; an
            explicit `{}` is a value.
    """

    file: str
    data: Any = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    mistakes: tuple[Mistake, ...] = ()
    says_nothing: bool = False

    def line(self, path: KeyPath) -> int | None:
        """The line of the value at `path`, or of the nearest one around it."""
        around = (path[:length] for length in range(len(path), -1, -1))
        return next((self.lines[part] for part in around if part in self.lines), None)

    def at(self, path: KeyPath) -> Any:
        """The value at `path` as written."""
        return functools.reduce(lambda value, part: value[part], path, self.data)

    def mistake(
        self,
        path: KeyPath,
        problem: str,
        *,
        found: str | None = None,
        allowed: str | None = None,
        nearest: str | None = None,
    ) -> Mistake:
        """A mistake in the value at `path`."""
        return Mistake(
            problem=problem,
            file=self.file,
            line=self.line(path),
            key=dotted(path),
            found=found,
            allowed=allowed,
            nearest=nearest,
        )


def read_text(path: Path, shown: str, *, pipe: bool = False) -> str | Mistake:
    """The text of a configuration file (UTF-8, a byte order mark is dropped), or why there is none.

    Args:
        path: the file.
        shown: how messages name it.
        pipe: whether it may be a pipe or a device, which somebody named and waits for; what is found in a
            folder may not, since reading could wait for ever. Never more than `MAX_BYTES` are taken.
    """
    try:
        if not (pipe or stat.S_ISREG(path.stat().st_mode)):
            return Mistake(problem="is no regular file", file=shown)
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        return unreadable(shown, error)
    if len(content) > MAX_BYTES:
        return Mistake(problem=f"has more than {MAX_BYTES} bytes", file=shown)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return Mistake(problem="is not UTF-8 text", file=shown, line=line)


def front_matter(text: str) -> tuple[str, int] | None:
    """The YAML between the first two `---` lines of a Markdown text, and the line it starts on.

    Blank lines before the first one are allowed: a front matter that is not seen would leave everything at
    its default, which here means on.

    Returns:
        None if the second `---` is missing; an empty text if there is no front matter at all.
    """
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    if first == len(lines) or lines[first].rstrip() != "---":
        return "", 1
    for number in range(first + 1, len(lines)):
        if lines[number].rstrip() == "---":
            return "\n".join(lines[first + 1 : number]), first + 2
    return None


def parse_yaml(
    text: str, file: str, *, first_line: int = 1, skip: Callable[[KeyPath], bool] = lambda path: False
) -> Document:
    """Read one YAML document.

    Args:
        text: the YAML text.
        file: how messages name the file.
        first_line: the line of the file on which the text starts.
        skip: true for keys that are not ours; their values are not even read.

    Returns:
        The document; what is wrong with it is in `mistakes`, every duplicate key for itself.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False
    try:
        root = yaml.compose(text)
    except YAMLError as error:
        return Document(file, mistakes=(_yaml_mistake(error, file, first_line),))
    except RecursionError:
        return Document(file, mistakes=(Mistake(problem="is nested too deeply", file=file),))
    except (AssertionError, KeyError, ValueError, IndexError):
        # What ruamel itself stumbles over, such as a %YAML directive with a version that it does not know.
        return Document(file, mistakes=(Mistake(problem="is no YAML 1.2", file=file),))
    if any(info.doc_version is not None for info in yaml.doc_infos):
        # %YAML 1.1 would turn `no` into a boolean and 0177 into 127.
        return Document(
            file, mistakes=(Mistake(problem="has a %YAML directive", file=file, allowed="YAML 1.2"),)
        )
    if root is None:
        return Document(file, says_nothing=True)
    reader = _Reader(file, first_line, skip, yaml.constructor.construct_object)
    data = reader.read(root, ())
    if data is None and not reader.mistakes:  # a lone --- or null
        return Document(file, says_nothing=True)
    if not isinstance(data, dict) and not reader.mistakes:
        reader.report("is no mapping of keys to values", (), root)
    return Document(file, data if isinstance(data, dict) else {}, reader.lines, tuple(reader.mistakes))


def _yaml_mistake(error: YAMLError, file: str, first_line: int) -> Mistake:
    if not isinstance(error, MarkedYAMLError):
        return Mistake(problem="holds a character that YAML does not allow", file=file)
    mark = error.problem_mark or error.context_mark
    problem = error.problem or error.context or "cannot be read"
    return Mistake(
        problem=f"is no YAML: {problem}", file=file, line=first_line + mark.line if mark is not None else None
    )


class _TooMuch(Exception):
    """The document has more values than any configuration."""


class _Reader:
    """Builds plain values from nodes, noting lines and mistakes on the way."""

    def __init__(
        self, file: str, first_line: int, skip: Callable[[KeyPath], bool], scalar: Callable[[Node], Any]
    ) -> None:
        self.file = file
        self.first_line = first_line
        self.skip = skip
        self.scalar = scalar
        self.lines: dict[KeyPath, int] = {}
        self.mistakes: list[Mistake] = []
        self._values = 0
        self._open: set[int] = set()  # nodes being read, to find an alias to something around it

    def read(self, root: Node, path: KeyPath) -> Any:
        try:
            return self._read(root, path)
        except _TooMuch:
            self.report(f"has more than {MAX_VALUES} values", (), root)
        except RecursionError:  # composing has the same bound, but aliases can add up
            self.report("is nested too deeply", (), root)
        return None

    def report(self, problem: str, path: KeyPath, node: Node, allowed: str | None = None) -> None:
        self.mistakes.append(
            Mistake(problem=problem, file=self.file, line=self._line(node), key=dotted(path), allowed=allowed)
        )

    def _line(self, node: Node) -> int:
        return int(self.first_line + node.start_mark.line)

    def _read(self, node: Node, path: KeyPath) -> Any:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _TooMuch
        if str(node.tag) not in _CORE_TAGS:
            self.report(f"has the YAML tag {node.tag}", path, node, allowed="plain values without tags")
            return None
        if id(node) in self._open:
            self.report("is an alias to something around it", path, node)
            return None
        self._open.add(id(node))
        try:
            return self._built(node, path)
        finally:
            self._open.discard(id(node))

    def _built(self, node: Node, path: KeyPath) -> Any:
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            for index, item in enumerate(node.value):
                self.lines[(*path, index)] = self._line(item)
            return [self._read(item, (*path, index)) for index, item in enumerate(node.value)]
        try:
            return self.scalar(node)
        except (ValueError, YAMLError):  # such as 2001-99-99, or more digits than Python reads
            self.report("cannot be read as the number or date it looks like", path, node)
            return None

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            here = (*path, key)
            if key in seen:
                self.report(f"is given twice, first on line {seen[key]}", here, key_node, "each key once")
                continue
            seen[key] = self.lines[here] = self._line(key_node)
            if not self.skip(here):
                values[key] = self._read(value_node, here)
        return values

    def _key(self, node: Node, path: KeyPath) -> str | None:
        if isinstance(node, ScalarNode) and str(node.tag) == "tag:yaml.org,2002:str":
            return str(node.value)
        if isinstance(node, ScalarNode) and node.value == "<<":
            self.report("uses a merge key (<<)", path, node, allowed="the keys themselves; aliases are fine")
        else:
            self.report("has a key that is no text", path, node, allowed="keys that are texts")
        return None
