"""`--policy FILE`: an operator's choices in YAML; a mistake is told with its line and the nearest key."""

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tidegate import Policy, PrivateRange, RequestRule
from tidegate_tools.cli.exits import UsageError
from tidegate_tools.cli.operator_options import PolicyFile
from tidegate_tools.web_request.document import Document, parse_yaml, read_text
from tidegate_tools.web_request.mistakes import KeyPath, Mistake


def load_policy_file(path: Path) -> PolicyFile:
    """Read a policy file.

    Raises:
        UsageError: it cannot be read, or something in it is wrong; the message lists every mistake.
    """
    text = read_text(path, str(path))
    document = parse_yaml(text, str(path)) if isinstance(text, str) else Document(str(path), mistakes=(text,))
    reader = _Reader(document)
    values = reader.read()
    if reader.mistakes:
        raise UsageError("; ".join(str(mistake).rstrip(".") for mistake in reader.mistakes))
    ca_file = values.pop("ca_file", None)
    return PolicyFile(
        ca_file=path.parent / ca_file if ca_file is not None else None,
        nameservers=values.pop("nameservers", ()),
        resolve=values.pop("resolve", {}),
        policy=values,
    )


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
        return {host: self.text_or_texts(addresses, (*path, host)) for host, addresses in value.items()}


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
    "ca_file": _Reader.text,
    "nameservers": _Reader.texts,
    "resolve": _Reader.table,
}
