"""What a refusal or failure counts as, and which rule refuses for it (table A2 of the decisions)."""

from enum import StrEnum
from typing import Final

from tidegate._policy.reasons import AddressClass, Reason


class Outcome(StrEnum):
    """How a request ended. A DNS failure is an error and never a block."""

    SUCCESS = "success"
    BLOCKED = "blocked"
    TIMEOUT = "timeout"
    ERROR = "error"
    INVALID = "invalid"
    CANCELLED = "cancelled"
    """Given up by its caller; no result ever shows this one."""


_URL: Final = (
    Reason.MALFORMED_URL,
    Reason.USERINFO_NOT_ALLOWED,
    Reason.INVALID_PORT,
    Reason.UNSUPPORTED_SCHEME,
)
_INVALID: Final = (Reason.INVALID_FIELD, Reason.INVALID_ARGUMENT, Reason.REQUEST_TOO_LARGE)
_FLOOR: Final = (
    Reason.LOCAL_NAME,
    Reason.NON_CANONICAL_IP,
    Reason.SELF,
    *(Reason(kind.value) for kind in AddressClass if kind is not AddressClass.GLOBAL),
)

RULES: Final[dict[Reason, str]] = {
    **dict.fromkeys(_URL, "url"),
    **dict.fromkeys(_INVALID, "arguments"),
    **dict.fromkeys(_FLOOR, "floor"),
    Reason.HTTPS_REQUIRED: "require_https",
    Reason.NOT_GRANTED: "authorize",
    Reason.NOT_IN_ALLOWLIST: "hosts",
    Reason.REQUEST_NOT_ALLOWED: "request_rules",
    Reason.BLOCKED_PORT: "ports",
}
"""Which rule refuses for a reason: a setting of the policy or of the call, or what no setting is behind."""


def outcome_of(reason: Reason | None) -> Outcome:
    """The outcome of a request that was refused or failed for this reason; None is a success."""
    if reason is None:
        return Outcome.SUCCESS
    if reason in _INVALID:
        return Outcome.INVALID
    if reason in RULES:
        return Outcome.BLOCKED
    return Outcome.TIMEOUT if reason is Reason.TIMEOUT else Outcome.ERROR
