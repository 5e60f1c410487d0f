"""`--policy FILE`: an operator's choices in YAML; a mistake is told with its line and the nearest key."""

import contextlib
import difflib
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tidegate import DnsResolver, Policy, PrivateRange, RequestRule, StaticResolver
from tidegate_tools.cli.exits import UsageError
from tidegate_tools.cli.operator_options import PolicyFile
from tidegate_tools.web_request.document import Document, parse_yaml, read_text
from tidegate_tools.web_request.mistakes import KeyPath, Mistake


def load_policy_file(path: Path) -> PolicyFile:
    """Read a policy file.

    Args:
        path: the file; a pipe as well, as a shell makes of `<(...)`.

    Raises:
        UsageError: it cannot be read or says nothing, or something in it is wrong; the message lists every
            mistake.
    """
    document = _document(path)
    reader = _Reader(document)
    values = reader.read()
    if reader.mistakes:
        raise UsageError("; ".join(str(mistake).rstrip(".") for mistake in reader.mistakes))
    return PolicyFile(
        ca_file=values.pop("ca_file", None),
        ca_place=f"{path}:{document.line(('ca_file',))}: ca_file",
        nameservers=values.pop("nameservers", ()),
        resolve=values.pop("resolve", {}),
        policy=values,
    )


def _document(path: Path) -> Document:
    name = str(path)
    text = read_text(path, name, pipe=True)
    if isinstance(text, Mistake):
        return Document(name, mistakes=(text,))
    document = parse_yaml(text, name)
    if document.says_nothing:  # what a deployment cut off: every public host would pass
        return Document(
            name, mistakes=(Mistake(problem="says nothing", file=name, allowed="{} for no rules"),)
        )
    return document


class _Reader:
    """Turns the values of a document into those of a `PolicyFile`, noting what is wrong on the way."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.mistakes: list[Mistake] = list(document.mistakes)

    def read(self) -> dict[str, Any]:
        return {} if self.mistakes else self._mapping(self._document.data, _KEYS, ())

    def _mapping(self, value: object, keys: "Mapping[str, _Read]", path: KeyPath) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._report(path, "must be a mapping of keys to values")
            return {}
        read = {}
        for key, item in value.items():
            here = (*path, key)
            if key not in keys:
                self._unknown(here, keys)
                continue
            try:
                read[key] = keys[key](self, item, here)
            except ValueError as error:
                self._report(here, str(error))
        return read

    def _unknown(self, path: KeyPath, keys: "Mapping[str, _Read]") -> None:
        nearest = next(iter(difflib.get_close_matches(str(path[-1]), keys, 1, 0.5)), None)
        known = ", ".join(keys)
        self.mistakes.append(
            self._document.mistake(path, "is an unknown key", nearest=nearest, allowed=known)
        )

    def _report(self, path: KeyPath, problem: str) -> None:
        self.mistakes.append(self._document.mistake(path, problem))

    # One method a kind of value; each raises ValueError for what is wrong.

    def text(self, value: object, path: KeyPath) -> str:
        if not isinstance(value, str) or not value:
            raise ValueError("must be a text")
        return value

    def file(self, value: object, path: KeyPath) -> Path:
        file = Path(self._document.file).parent / self.text(value, path)
        # What is not there is told when it is needed: an option may stand in for it.
        with contextlib.suppress(OSError):
            if not stat.S_ISREG(file.stat().st_mode):  # reading could wait for ever
                raise ValueError("is no regular file")
        return file

    def texts(self, value: object, path: KeyPath) -> tuple[str, ...]:
        return tuple(self.text(item, path) for item in self._list(value, "must be a list of texts"))

    def text_or_texts(self, value: object, path: KeyPath) -> tuple[str, ...]:
        return self.texts([value] if isinstance(value, str) else value, path)

    def _list(self, value: object, problem: str) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(problem)
        return value

    def hosts(self, value: object, path: KeyPath) -> tuple[str, ...]:
        hosts = self.texts(value, path)
        Policy(hosts=hosts)
        return hosts

    def flag(self, value: object, path: KeyPath) -> bool:
        if not isinstance(value, bool):
            raise ValueError("must be true or false")
        return value

    def nameservers(self, value: object, path: KeyPath) -> tuple[str, ...]:
        nameservers = self.texts(value, path)
        DnsResolver(nameservers)
        return nameservers

    def ports(self, value: object, path: KeyPath) -> tuple[int, ...]:
        ports = tuple(self._list(value, "must be a list of port numbers"))
        if not all(isinstance(port, int) for port in ports):
            raise ValueError("must be a list of port numbers")
        Policy(ports=ports)
        return ports

    def private_ranges(self, value: object, path: KeyPath) -> tuple[PrivateRange, ...]:
        return self._rules(PrivateRange, _RANGE_KEYS, ("cidr", "hosts"), value, path)

    def request_rules(self, value: object, path: KeyPath) -> tuple[RequestRule, ...]:
        return self._rules(RequestRule, _RULE_KEYS, ("host",), value, path)

    def _rules(
        self,
        kind: Callable[..., Any],
        keys: "Mapping[str, _Read]",
        needed: tuple[str, ...],
        value: object,
        path: KeyPath,
    ) -> tuple[Any, ...]:
        rules = []
        for index, item in enumerate(self._list(value, "must be a list of mappings")):
            here, before = (*path, index), len(self.mistakes)
            parts = self._mapping(item, keys, here)
            missing = [key for key in needed if isinstance(item, dict) and key not in item]
            if missing:
                self._report(here, f"lacks the key {missing[0]}")
            if len(self.mistakes) > before:
                continue
            try:
                rules.append(kind(**parts))
            except ValueError as error:
                self._report(here, str(error))
        return tuple(rules)

    def table(self, value: object, path: KeyPath) -> dict[str, tuple[str, ...]]:
        if not isinstance(value, dict):
            raise ValueError("must be a mapping of host names to addresses")
        return self._mapping(value, dict.fromkeys(value, _Reader._addresses), path)

    def _addresses(self, value: object, path: KeyPath) -> tuple[str, ...]:
        addresses = self.text_or_texts(value, path)
        StaticResolver({str(path[-1]): addresses})
        return addresses


_Read = Callable[[_Reader, object, KeyPath], Any]

_RANGE_KEYS: Final[Mapping[str, _Read]] = {"cidr": _Reader.text, "hosts": _Reader.text_or_texts}

_RULE_KEYS: Final[Mapping[str, _Read]] = {
    "host": _Reader.text,
    "methods": _Reader.texts,
    "paths": _Reader.texts,
}

_KEYS: Final[Mapping[str, _Read]] = {
    "hosts": _Reader.hosts,
    "report_only": _Reader.flag,
    "require_https": _Reader.flag,
    "ports": _Reader.ports,
    "private_ranges": _Reader.private_ranges,
    "request_rules": _Reader.request_rules,
    "ca_file": _Reader.file,
    "nameservers": _Reader.nameservers,
    "resolve": _Reader.table,
}
