"""The operator's options, the same for every command that reaches out; everything stays above the floor."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any, TypeVar

import click

from tidegate import (
    DnsResolver,
    Policy,
    PrivateRange,
    Resolver,
    StaticResolver,
    SystemResolver,
    client_context,
)
from tidegate_tools.cli.exits import UsageError

_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--policy", "policy_file", metavar="FILE", help="Read the operator's policy (YAML)."),
    click.option(
        "--allow-private",
        metavar="CIDR=HOST",
        multiple=True,
        help="Let HOST resolve into a private range.",
    ),
    click.option("--ca", "ca_file", metavar="FILE", help="Trust these certificates (PEM) as well."),
    click.option(
        "--nameserver", "nameservers", metavar="ADDRESS", multiple=True, help="Ask this DNS server instead."
    ),
    click.option(
        "--resolve", metavar="HOST=ADDRESS", multiple=True, help="Use this address; it is checked, too."
    ),
)


def operator_options(command: _Command) -> _Command:
    """Add the operator's options to a command; `OperatorOptions` takes their values."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """What a policy file says; what it leaves out is as without one.

    Attributes:
        policy: the keys hosts, report_only, require_https, ports, private_ranges and request_rules.
        ca_file: PEM certificates to trust as well; relative to the file's own directory.
        ca_place: where the file says so, for a message.
        nameservers: asked instead of the system's resolver.
        resolve: addresses by host name.
    """

    policy: Mapping[str, Any] = field(default_factory=dict)
    ca_file: Path | None = None
    ca_place: str = ""
    nameservers: tuple[str, ...] = ()
    resolve: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions:
    """The options as they were given. Private ranges add up; for the rest an option beats the file."""

    policy_file: str | None
    allow_private: Sequence[str]
    ca_file: str | None
    nameservers: Sequence[str]
    resolve: Sequence[str]

    @property
    def of_policy(self) -> Mapping[str, object]:
        """Those that say what may be reached, and how: `web_request` has that from its configuration."""
        return {
            "--policy": self.policy_file,
            "--allow-private": self.allow_private,
            "--ca": self.ca_file,
            "--nameserver": self.nameservers,
        }

    def prepare(self) -> "Operator":
        """Read and check everything.

        Raises:
            UsageError: something is wrong; the message says what and where.
        """
        file = PolicyFile()
        if self.policy_file is not None:
            from tidegate_tools.cli.policy_file import load_policy_file  # with YAML, which few runs need

            file = load_policy_file(Path(self.policy_file))
        return Operator(self._policy(file), self._resolver(file), self._tls(file))

    def _policy(self, file: PolicyFile) -> Policy:
        values = dict(file.policy)
        ranges = [_range(text) for text in self.allow_private]
        values["private_ranges"] = (*values.get("private_ranges", ()), *ranges)
        # The person at the shell gave the credentials for this very origin (D-22).
        return Policy(**values, keep_credentials_within_origin=True)

    def _resolver(self, file: PolicyFile) -> Resolver:
        nameservers = tuple(self.nameservers) or file.nameservers
        table = _table(self.resolve)
        with _named("--nameserver" if self.nameservers else f"{self.policy_file}: nameservers"):
            resolver: Resolver = DnsResolver(nameservers) if nameservers else SystemResolver()
        with _named(f"{self.policy_file}: resolve"):
            resolver = StaticResolver(file.resolve, fallback=resolver) if file.resolve else resolver
        with _named("--resolve"):
            return StaticResolver(table, fallback=resolver) if table else resolver

    def _tls(self, file: PolicyFile) -> SSLContext:
        ca_file, place = (file.ca_file, file.ca_place) if self.ca_file is None else (self.ca_file, "--ca")
        try:
            return client_context(ca_file=ca_file)
        except ValueError as error:
            # A machine without trust anchors is no mistake of the file or the option.
            raise UsageError(f"{place}: {error}" if ca_file is not None else str(error)) from None


@dataclass(frozen=True, slots=True)
class Operator:
    """What an engine is opened with."""

    policy: Policy
    resolver: Resolver
    tls: SSLContext


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Tell which option, or which key of which file, a value is wrong of."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{place}: {error}") from None


def _pair(option: str, text: str) -> tuple[str, str]:
    left, equals, right = text.partition("=")
    if not (left and equals and right):
        wanted = "CIDR=HOST" if option == "--allow-private" else "HOST=ADDRESS"
        raise UsageError(f"{option} {text!r} is not {wanted}")
    return left.strip(), right.strip()


def _range(text: str) -> PrivateRange:
    cidr, host = _pair("--allow-private", text)
    try:
        return PrivateRange(cidr, host)
    except ValueError as error:
        raise UsageError(f"--allow-private {text!r}: {error}") from None


def _table(texts: Sequence[str]) -> Mapping[str, list[str]]:
    table: dict[str, list[str]] = {}
    for text in texts:
        host, address = _pair("--resolve", text)
        # As in a zone, giving a name twice gives it two addresses.
        table.setdefault(host, []).append(address)
    return table
