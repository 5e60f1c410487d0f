"""Failures of `web_request` as a model sees them: one sentence, an outcome, a reason (D-13, table A2).

The sentences are the tool's own. Those of the engine name hosts and ports for the people who run it; a model
gets no URL, no address and no host from here, of a redirect's target say, but the setting that decides.
"""

import json
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from tidegate import FetchError, IncompleteContent, Phase, Reason
from tidegate.telemetry import Outcome, outcome_of
from tidegate_tools.registry import RETRYABLE, ToolErrorInfo
from tidegate_tools.web_request.credentials import CredentialUnavailable
from tidegate_tools.web_request.redaction import Redactor


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that gave no response.

    Attributes:
        outcome: one that a model sees, and no success.
        reason: of the engine's reasons; `internal_error` for a defect of ours.
        sentence: what a model reads.
        how_to_allow: which setting would let it pass; None if none can, or nothing was refused.
    """

    outcome: Outcome
    reason: str
    sentence: str
    how_to_allow: str | None = None

    def redacted(self, redactor: Redactor) -> "Failure":
        """The same without a secret that the arguments held, in the name of a field say."""
        return replace(self, sentence=redactor.redact(self.sentence))

    @property
    def value(self) -> str:
        """The JSON object of decision D-13."""
        return json.dumps(
            {"error": self.sentence, "outcome": self.outcome, "reason": self.reason}, ensure_ascii=False
        )

    @property
    def info(self) -> ToolErrorInfo:
        """The same for a registry."""
        return ToolErrorInfo(
            slug=_SLUGS[self.outcome],
            message=self.sentence,
            reason=self.reason,
            how_to_allow=self.how_to_allow,
            retryable=self.reason in RETRYABLE,
        )


_SLUGS: Final = {
    Outcome.BLOCKED: "net_denied",
    Outcome.TIMEOUT: "tool_failed",
    Outcome.ERROR: "tool_failed",
    Outcome.INVALID: "invalid_args",
}
"""The outcomes of a failure that a model sees."""


class _Kind(NamedTuple):
    """What is said of one reason: `sentence` None means the engine's own, which is about arguments alone."""

    sentence: str | None
    how_to_allow: str | None = None


_RULE: Final = "a private_ranges rule for this host"


def _address(what: str, *, allowed: bool = True) -> _Kind:
    can = f"only {_RULE} can allow it" if allowed else "nothing can allow it"
    return _Kind(f"The host is, or resolves to, {what}: {can}.", _RULE if allowed else None)


_KINDS: Final = {
    Reason.MALFORMED_URL: _Kind(None),
    Reason.USERINFO_NOT_ALLOWED: _Kind(None),
    Reason.INVALID_PORT: _Kind(None),
    Reason.UNSUPPORTED_SCHEME: _Kind(None),
    Reason.NON_CANONICAL_IP: _Kind(None),
    Reason.HTTPS_REQUIRED: _Kind("Plaintext http is refused (require_https is on).", "require_https"),
    Reason.NOT_GRANTED: _Kind("This agent has no net grant for the host.", "a net grant"),
    Reason.NOT_IN_ALLOWLIST: _Kind("The host is not in allowed_hosts.", "allowed_hosts"),
    Reason.LOCAL_NAME: _Kind(
        f"The host is a name of the local network: only {_RULE} can allow it.",
        _RULE,
    ),
    Reason.REQUEST_NOT_ALLOWED: _Kind(
        "The request_rules do not allow this method and path on the host.", "request_rules"
    ),
    Reason.BLOCKED_PORT: _Kind(
        "The port belongs to another protocol: only a host in the operator's allowed_hosts may be reached on "
        "it.",
        "allowed_hosts",
    ),
    Reason.IMDS: _address("a cloud metadata or platform address", allowed=False),
    Reason.LINK_LOCAL: _address("a link-local address", allowed=False),
    Reason.MULTICAST: _address("a multicast address", allowed=False),
    Reason.UNSPECIFIED: _address("the unspecified address", allowed=False),
    Reason.LOOPBACK: _address("a loopback address"),
    Reason.PRIVATE: _address("a private address"),
    Reason.ULA: _address("a unique local address"),
    Reason.CGNAT: _address("a carrier-grade NAT address"),
    Reason.RESERVED: _address("a reserved address"),
    Reason.SELF: _address("an address of the machine that this tool runs on"),
    Reason.INVALID_FIELD: _Kind(None),
    Reason.INVALID_ARGUMENT: _Kind(None),
    Reason.REQUEST_TOO_LARGE: _Kind(None, "max_request_bytes"),
    Reason.DNS_RESOLUTION_FAILED: _Kind("The name of the host could not be resolved."),
    Reason.CONNECT_FAILED: _Kind("The host accepted no connection."),
    Reason.CONNECTION_LOST: _Kind("The connection ended before there was a response."),
    Reason.TLS_FAILED: _Kind(
        "TLS with the host failed: its certificate or its protocol was not accepted. Verification cannot be "
        "turned off.",
    ),
    Reason.TIMEOUT: _Kind("", "timeout_seconds"),
    Reason.PROTOCOL_ERROR: _Kind("The host's answer is no valid HTTP."),
    Reason.MESSAGE_TOO_LARGE: _Kind(
        "The host's answer goes beyond a fixed limit: of its head, framing or codings."
    ),
    Reason.INCOMPLETE_CONTENT: _Kind(""),
    Reason.BAD_REDIRECT: _Kind("The host redirects to something that is no URL."),
    Reason.TOO_MANY_REDIRECTS: _Kind("There are more redirects than max_redirects allows.", "max_redirects"),
    Reason.CONTENT_NOT_REPLAYABLE: _Kind("The content of the request cannot be sent again."),
    Reason.OVERLOADED: _Kind("Too many requests are waiting already; try again later."),
    Reason.ENGINE_CLOSED: _Kind("The tool is being shut down."),
}


def outcomes() -> dict[Outcome, list[Reason]]:
    """Which reasons give which outcome, for the reference."""
    return {outcome: [reason for reason in _KINDS if outcome_of(reason) is outcome] for outcome in _SLUGS}


_DOING: Final = {
    Phase.ADMIT: "while waiting for a free slot",
    Phase.CHECK: "while checking the target",
    Phase.AUTHORIZE: "while asking for the grant",
    Phase.RESOLVE: "while resolving the name of the host",
    Phase.CONNECT: "while connecting",
    Phase.TLS: "in the TLS handshake",
    Phase.SEND: "while sending the request",
    Phase.HEAD: "while waiting for the response",
    Phase.REDIRECT: "while following a redirect",
    Phase.CONTENT: "while receiving the content",
}


def failure_of(error: FetchError, *, timeout: float) -> Failure:
    """What a model is told of an error of the engine.

    Args:
        error: the error.
        timeout: the deadline of the call in seconds, for the sentence about it.
    """
    kind = _KINDS[error.reason]
    redirects = (error.hop or 0) + (error.phase is Phase.REDIRECT)
    place = f"At redirect {redirects}: " if redirects else ""
    return Failure(
        outcome_of(error.reason), error.reason, place + _sentence(error, kind, timeout), kind.how_to_allow
    )


def _sentence(error: FetchError, kind: _Kind, timeout: float) -> str:
    if error.reason is Reason.TIMEOUT:
        doing = f" {_DOING[error.phase]}" if error.phase is not None else ""
        return f"The call did not end within {timeout:g} seconds (timeout_seconds): time ran out{doing}."
    if isinstance(error, IncompleteContent):
        expected = "all" if error.expected is None else f"{error.expected} bytes"
        return f"The connection ended after {error.received} bytes of content, before {expected} had come."
    if isinstance(error, CredentialUnavailable):
        return "The credential for this host could not be renewed (auth); nothing was sent to it."
    return kind.sentence or f"{error.message[:1].upper()}{error.message[1:].rstrip('.')}."


def invalid(sentence: str) -> Failure:
    """The failure of arguments that the schema does not allow."""
    return Failure(Outcome.INVALID, Reason.INVALID_ARGUMENT, sentence)


INTERNAL_ERROR: Final = Failure(
    Outcome.ERROR, "internal_error", "The tool failed by a defect of its own; the request may have been sent."
)
"""What nobody foresaw. Its text is withheld: it may hold a URL, a field or content."""
