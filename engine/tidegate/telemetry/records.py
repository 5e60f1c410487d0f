"""What telemetry knows of one hop, and of the tool call that it belongs to. No query, field or content."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tidegate._policy.reasons import Phase, Reason
from tidegate._policy.url import URL
from tidegate.telemetry.outcomes import Outcome, outcome_of


class Decision(StrEnum):
    """What became of the question whether a hop may go out."""

    ALLOWED = "allowed"
    DENIED = "denied"
    WOULD_DENY = "would_deny"
    """Allowed, but only because the host list is on trial (`Policy.report_only`)."""


@dataclass(slots=True, eq=False)
class ToolCall:
    """A call of a tool under way.

    Attributes:
        tool: its name.
        agent: who called, None if nobody said.
        call_id: the caller's own mark, "" if it gave none.
    """

    tool: str
    agent: object = None
    call_id: str | int = ""
    _hops: "dict[tuple[int, int], HopRecord]" = field(default_factory=dict, repr=False)

    def add(self, hop: "HopRecord") -> None:
        """A hop of the call has ended. Several observers may say so of the same one."""
        self._hops.setdefault((hop.fetch, hop.hop), hop)

    @property
    def hops(self) -> "list[HopRecord]":
        """The hops of its fetches that have ended, in that order."""
        return list(self._hops.values())


current_tool_call: Final[ContextVar[ToolCall | None]] = ContextVar("tidegate_tool_call", default=None)
"""The call that whatever happens here belongs to. Child tasks inherit it."""


@contextmanager
def within_tool_call(call: ToolCall) -> Iterator[ToolCall]:
    """Let every fetch inside the block belong to `call`. Enter and leave it in one task."""
    token = current_tool_call.set(call)
    try:
        yield call
    finally:
        current_tool_call.reset(token)


@dataclass(frozen=True, slots=True, kw_only=True)
class HopRecord:
    """One hop that has ended, or a fetch that ended before it had one.

    Attributes:
        fetch: shared by all hops of one fetch, unique within this process.
        hop: 0 for the first request.
        time: when it began, in seconds since the epoch.
        duration: seconds that it took.
        key: the caller's key of the fetch.
        call: the tool call around it, if there is one.
        method: of the request; None if there was no valid one.
        url: of the request; None if there was no valid one.
        decision: None if it ended before anything was decided.
        reported: why a host list on trial would have refused it.
        reason: why it was refused or failed.
        phase: where it ended, if it was refused, failed or cancelled.
        cancelled: its caller gave it up.
        peer: the address that was connected to, as text; None if there was no connection.
        reused: that connection had served an earlier fetch.
        tls_version: such as "TLSv1.3".
        status: of the response head, if there was one, also of a hop that failed afterwards.
        repeats: how often it was sent again because a kept connection was dead.
        wire_bytes: content bytes received, before decoding.
        content_bytes: decoded content bytes handed over; None if it was not the last hop of a good fetch.
        truncated: the content was cut at a cap.
        seconds: how long each phase took.
    """

    fetch: int
    hop: int
    time: float
    duration: float
    key: object
    call: ToolCall | None
    method: str | None
    url: URL | None
    decision: Decision | None
    reported: Reason | None
    reason: Reason | None
    phase: Phase | None
    cancelled: bool
    peer: str | None
    reused: bool | None
    tls_version: str | None
    status: int | None
    repeats: int
    wire_bytes: int
    content_bytes: int | None
    truncated: bool
    seconds: Mapping[Phase, float]

    @property
    def outcome(self) -> Outcome:
        """How it ended."""
        return Outcome.CANCELLED if self.cancelled else outcome_of(self.reason)
