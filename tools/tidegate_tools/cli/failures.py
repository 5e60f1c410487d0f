"""Refusals and failures as a person and a program see them: which check, at which hop, what allows it.

The commonest complaint about fetchers that refuse is that nobody can tell why, or how to allow it.
"""

import json
import traceback
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidegate import URL, Denied, FetchError, Phase, PrivateRange, Reason, parse_url
from tidegate_tools.cli.exits import CommandError, ExitCode
from tidegate_tools.cli.terminal import complain, write_text


class Refusal(NamedTuple):
    """What stands behind one reason of a denial.

    Attributes:
        check: which check refuses, by the name that `tidegate check` gives it.
        allow: the setting that would let it pass, None if nothing can.
    """

    check: str
    allow: str | None


ADDRESSES: Final = "addresses"

_PRIVATE_RANGE: Final = "--allow-private {cidr}={host}, or private_ranges in the policy file"

REFUSALS: Final = {
    Reason.UNSUPPORTED_SCHEME: Refusal("url", None),
    Reason.NON_CANONICAL_IP: Refusal("url", None),
    Reason.HTTPS_REQUIRED: Refusal("scheme", "require_https in the policy file"),
    Reason.NOT_IN_ALLOWLIST: Refusal("host list", "hosts in the policy file"),
    Reason.LOCAL_NAME: Refusal("local name", _PRIVATE_RANGE),
    Reason.BLOCKED_PORT: Refusal("port", "ports in the policy file, or hosts there if it has no ports"),
    Reason.REQUEST_NOT_ALLOWED: Refusal("request", "request_rules in the policy file"),
    Reason.NOT_GRANTED: Refusal("grant", "a grant of the kernel"),
    Reason.IMDS: Refusal(ADDRESSES, None),
    Reason.LINK_LOCAL: Refusal(ADDRESSES, None),
    Reason.MULTICAST: Refusal(ADDRESSES, None),
    Reason.UNSPECIFIED: Refusal(ADDRESSES, None),
    Reason.LOOPBACK: Refusal(ADDRESSES, _PRIVATE_RANGE),
    Reason.PRIVATE: Refusal(ADDRESSES, _PRIVATE_RANGE),
    Reason.ULA: Refusal(ADDRESSES, _PRIVATE_RANGE),
    Reason.CGNAT: Refusal(ADDRESSES, _PRIVATE_RANGE),
    Reason.RESERVED: Refusal(ADDRESSES, _PRIVATE_RANGE),
    Reason.SELF: Refusal("this machine", _PRIVATE_RANGE),
}
"""Every reason of a denial. The rest of the reasons is in `_CODES`: nothing was refused there."""

_CODES: Final = {
    Reason.MALFORMED_URL: ExitCode.USAGE,
    Reason.USERINFO_NOT_ALLOWED: ExitCode.USAGE,
    Reason.INVALID_PORT: ExitCode.USAGE,
    Reason.INVALID_FIELD: ExitCode.USAGE,
    Reason.INVALID_ARGUMENT: ExitCode.USAGE,
    Reason.REQUEST_TOO_LARGE: ExitCode.USAGE,
    Reason.DNS_RESOLUTION_FAILED: ExitCode.DNS,
    Reason.CONNECT_FAILED: ExitCode.CONNECT,
    Reason.CONNECTION_LOST: ExitCode.CONNECT,
    Reason.TLS_FAILED: ExitCode.TLS,
    Reason.TIMEOUT: ExitCode.TIMED_OUT,
    Reason.PROTOCOL_ERROR: ExitCode.PROTOCOL,
    Reason.MESSAGE_TOO_LARGE: ExitCode.PROTOCOL,
    Reason.INCOMPLETE_CONTENT: ExitCode.PROTOCOL,
    Reason.BAD_REDIRECT: ExitCode.PROTOCOL,
    Reason.TOO_MANY_REDIRECTS: ExitCode.PROTOCOL,
    Reason.CONTENT_NOT_REPLAYABLE: ExitCode.PROTOCOL,
    Reason.OVERLOADED: ExitCode.OTHER,
    Reason.ENGINE_CLOSED: ExitCode.OTHER,
}


_OF_URLS: Final = (
    Reason.MALFORMED_URL,
    Reason.USERINFO_NOT_ALLOWED,
    Reason.INVALID_PORT,
    Reason.UNSUPPORTED_SCHEME,
    Reason.NON_CANONICAL_IP,
)
"""What may be wrong with a URL by itself, and so with a Location, before it is anybody's hop."""


def in_words_of_the_file(sentence: str) -> str:
    """What the engine says of a policy, with the keys that a policy file has for it."""
    return sentence.replace(" in allowed_hosts", " in hosts")


def code_of_reason(reason: Reason) -> ExitCode:
    """How the command ends for this reason (decisions, table A2)."""
    return ExitCode.DENIED if reason in REFUSALS else _CODES[reason]


def how_to_allow(reason: Reason, url: str | None) -> str | None:
    """The option or setting that would let a denied URL pass; None if nothing can.

    Args:
        reason: of the denial.
        url: what was denied, to name its host.
    """
    allow = REFUSALS[reason].allow
    if allow is None:
        return None
    target = parse_url(url) if url is not None else None
    cidr, host = "CIDR", target.host if target is not None else "HOST"
    if target is not None and target.address is not None and allow is _PRIVATE_RANGE:
        # A literal is its own range. What DNS gave is never repeated (W-F3): that range is theirs to name.
        address = getattr(target.address, "ipv4_mapped", None) or target.address
        cidr = str(address)
        if not _is_admissible(target, address):
            return None
    return allow.format(cidr=cidr, host=host)


def _is_admissible(target: URL, address: IPv4Address | IPv6Address) -> bool:
    """True if a rule made for this very address would admit it."""
    try:
        return PrivateRange(str(address), target.host).admits(target.host, address)
    except ValueError:
        return False


def way_out(reason: Reason, allow: str | None) -> str:
    """What a refusal ends with: what would allow it, or that nothing can.

    Args:
        reason: of the denial.
        allow: from `how_to_allow`.
    """
    if allow is not None:
        return f"to allow it: {allow}"
    # Of an address that nothing can allow the engine says so itself.
    return "" if REFUSALS[reason] == Refusal(ADDRESSES, None) else "no setting can allow it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How a command went wrong.

    Attributes:
        code: the exit code.
        reason: a value of `tidegate.Reason`, or one of the command's own (`usage`, `interrupted` ...).
        message: one sentence.
        phase: where in the fetch it happened.
        url: of the hop, without its query.
        hop: 0 for the first request.
        check: which check refused; None if nothing was refused.
        allow: what would let it pass; None if nothing can, or nothing was refused.
    """

    code: ExitCode
    reason: str
    message: str
    phase: str | None = None
    url: str | None = None
    hop: int | None = None
    check: str | None = None
    allow: str | None = None

    def __str__(self) -> str:
        message = self.message.rstrip(".")
        if self.phase == Phase.REDIRECT and Reason(self.reason) in _OF_URLS:
            return f"redirect {(self.hop or 0) + 1}, by {self.url}, is refused ({self.reason}): {message}"
        place = f" at hop {self.hop}, {self.url}" if self.hop else ""
        if self.check is not None:
            ending = way_out(Reason(self.reason), self.allow)
            message = f"{message}; {ending}" if ending else message
            return f"denied by the check of {self.check}{place or ' at hop 0'} ({self.reason}): {message}"
        return f"{message} ({self.reason}{place})" if self.phase is not None else message

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        error = {
            "reason": self.reason,
            "message": self.message,
            "phase": self.phase,
            "url": self.url,
            "hop": self.hop,
            "check": self.check,
            "how_to_allow": self.allow,
        }
        return {"ok": False, "exit_code": int(self.code), "error": error}


_EXTRAS: Final = {"rich": "cli", "ruamel": "cli", "trustme": "testing"}
"""Which extra brings a module that a command found missing."""


def _missing_extra(error: ModuleNotFoundError) -> str | None:
    """A sentence about an extra that is not installed; None if it is something else that is missing."""
    if error.name is None:
        return str(error)  # the engine's own sentence
    package = error.name.partition(".")[0]
    return (
        f"{package} is not installed: pip install 'tidegate[{_EXTRAS[package]}]'"
        if package in _EXTRAS
        else None
    )


def failure_of(error: BaseException) -> Failure:
    """The failure that an exception stands for; one that nobody foresaw is told without a traceback."""
    if isinstance(error, FetchError):
        return _fetch_failure(error)
    if isinstance(error, CommandError):
        return Failure(code=error.code, reason=error.reason, message=error.message)
    if isinstance(error, ModuleNotFoundError) and (message := _missing_extra(error)):
        return Failure(code=ExitCode.OTHER, reason="missing_extra", message=message)
    if _is_interrupt(error):
        return Failure(code=ExitCode.INTERRUPTED, reason="interrupted", message="interrupted")
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}, line {frame.lineno}"
    message = f"internal error: {type(error).__name__} in {place}; please report it"
    return Failure(code=ExitCode.OTHER, reason="internal_error", message=message)


def _is_interrupt(error: BaseException) -> bool:
    # Trio may raise it in a nursery of the engine, and then it comes in a group.
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


def _fetch_failure(error: FetchError) -> Failure:
    denied = isinstance(error, Denied)
    code = code_of_reason(error.reason)
    if error.phase is Phase.REDIRECT and code is ExitCode.USAGE:
        code = ExitCode.PROTOCOL  # it is the peer's URL that is none, not the user's
    return Failure(
        code=code,
        reason=str(error.reason),
        message=in_words_of_the_file(error.message) if denied else error.message,
        phase=str(error.phase) if error.phase is not None else None,
        url=error.url,
        hop=error.hop,
        check=REFUSALS[error.reason].check if denied else None,
        allow=how_to_allow(error.reason, error.url) if denied else None,
    )


def report(failure: Failure, *, as_json: bool, **more: Any) -> ExitCode:
    """Tell of a failure: a sentence on standard error, and an object on standard output if asked for.

    Args:
        failure: what went wrong.
        as_json: the option `--json`.
        more: what else the object holds.

    Returns:
        The exit code.
    """
    if as_json:
        write_json({**failure.as_json(), **more})
    complain(str(failure))
    return failure.code


def write_json(value: object) -> None:
    """Print one object. Nothing but ASCII, so nothing in it can drive a terminal."""
    write_text(json.dumps(value, indent=2) + "\n")
