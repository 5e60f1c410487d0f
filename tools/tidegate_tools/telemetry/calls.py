"""Calls of tools: a span around each, a counter, its duration, and the audit line (F-118)."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tidegate import Reason
from tidegate.telemetry import (
    AuditLog,
    Decision,
    HopRecord,
    Outcome,
    ToolCall,
    current_tool_call,
    outcome_of,
    within_tool_call,
)
from tidegate.telemetry import conventions as names
from tidegate.telemetry.audit import shown
from tidegate.telemetry.outcomes import RULES
from tidegate_tools.dispatch import CANCELLED, AuditEvent, told_of
from tidegate_tools.registry import ToolContext, ToolErrorInfo, ToolResult, ToolSpec
from tidegate_tools.telemetry import web_request
from tidegate_tools.telemetry.signals import Signals, failed

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider


@dataclass(slots=True)
class _Call:
    """A call of an observed tool, and how it ended.

    Attributes:
        tool: what its fetches know of it.
        error: the slug, `cancelled` until the call has an answer.
        reason: the finer cause, if there is one.
        duration: in seconds.
        told: its audit event has come.
    """

    tool: ToolCall
    error: str | None = CANCELLED
    reason: str | None = None
    duration: float = 0.0
    told: bool = False

    def end(self, error: ToolErrorInfo | None) -> None:
        """There is an answer."""
        self.error = error.slug if error is not None else None
        self.reason = error.reason if error is not None else None


_BUCKETS: Final = tuple(0.01 * 2**power for power in range(14))
"""Seconds: what the conventions for generative AI advise, 0.01 to 81.92."""

# The last call that ended in this task, for the audit event that `dispatch` sends after it.
_last_call: Final[ContextVar[_Call | None]] = ContextVar("tidegate_last_call", default=None)


class ToolTelemetry:
    """Tells of the calls of tools.

    Args:
        audit: gets one line a call.
        spans: make a span `execute_tool NAME`. Turn it off where the host makes one of its own, as the SDK of
            MCP and many agent frameworks do. The span `web_request` and the metrics are made in any case.
        tracer_provider: None means the program's global one.
        meter_provider: the same for metrics.
    """

    def __init__(
        self,
        *,
        audit: AuditLog | None = None,
        spans: bool = True,
        tracer_provider: "TracerProvider | None" = None,
        meter_provider: "MeterProvider | None" = None,
    ) -> None:
        self._audit = audit
        self._spans = spans
        self._signals = Signals(tracer_provider, meter_provider)

    def observed(self, spec: ToolSpec, *, audited: bool = False) -> ToolSpec:
        """The same tool, with its calls observed. All fetches within a call know that they belong to it.

        Args:
            spec: the tool.
            audited: write the audit line of each call here, for a tool that is not called through
                `dispatch`. With `dispatch`, which knows of refused calls too, give it `record` instead.
        """

        async def observed_call(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
            tool = ToolCall(spec.name, ctx.pid, ctx.tool_call_id)
            if not self._is_heard:
                # Whoever observes its fetches is told whose they are all the same.
                token = current_tool_call.set(tool)
                try:
                    return await spec.call(args, ctx)
                finally:
                    current_tool_call.reset(token)
            call = _Call(tool)
            started = time.monotonic()
            try:
                return await self._observe(spec, args, ctx, call)
            finally:
                call.duration = time.monotonic() - started
                _last_call.set(call)
                self._count(spec.name, call.error, call.reason)
                self._measure(call)
                if audited:
                    self.record(_event(call))

        return replace(spec, call=observed_call)

    @property
    def _is_heard(self) -> bool:
        """Without a log and without a provider, a call must cost no more than it does unobserved (W-11)."""
        return self._signals.wanted or self._audit is not None

    async def _observe(
        self, spec: ToolSpec, args: Mapping[str, Any], ctx: ToolContext, call: _Call
    ) -> ToolResult:
        with ExitStack() as stack:
            stack.enter_context(within_tool_call(call.tool))
            span: Span | None = None
            if self._spans:
                span = stack.enter_context(
                    self._signals.span(f"{names.EXECUTE_TOOL} {spec.name}", _attributes(spec, ctx))
                )
            if spec.name == web_request.NAME:
                stack.enter_context(web_request.web_request_span(self._signals))
            try:
                result = await spec.call(args, ctx)
                call.end(result.error)
            except Exception as error:
                call.end(told_of(error))
                raise
            finally:
                if error_type := _error_type(call):
                    failed(span, error_type)
        return result

    def record(self, event: AuditEvent) -> None:
        """Write the audit line of one call: the `audit` of `dispatch`."""
        if not self._is_heard:
            return
        call = _last_call.get()
        if call is not None and (call.told or not _is_of(call, event)):
            call = None
        if call is not None:
            call.told = True
        else:  # it was refused before it came to a tool, whose name is then anybody's choice
            self._count(names.OTHER, event.payload["error"], None)
        if self._audit is not None:
            self._audit.write("call", _line(event, call))

    def _count(self, tool: str, error: str | None, reason: str | None) -> None:
        self._signals.count(
            names.TOOL_CALLS,
            {names.GEN_AI_TOOL_NAME: tool, names.OUTCOME: _outcome(error, reason).value},
            unit="{call}",
            description="Calls of tools.",
        )

    def _measure(self, call: _Call) -> None:
        attributes = {names.GEN_AI_TOOL_NAME: call.tool.tool}
        if error_type := _error_type(call):
            attributes[names.ERROR_TYPE] = error_type
        self._signals.measure(
            names.GEN_AI_EXECUTE_TOOL_DURATION,
            call.duration,
            attributes,
            description="Duration of one execution of a tool.",
            buckets=_BUCKETS,
        )


def _error_type(call: _Call) -> str | None:
    """What spans and metrics say of a failure; a cancelled call is none."""
    return None if call.error in (None, CANCELLED) else call.reason or call.error


def _attributes(spec: ToolSpec, ctx: ToolContext) -> dict[str, str]:
    attributes = {
        names.GEN_AI_OPERATION_NAME: names.EXECUTE_TOOL,
        names.GEN_AI_TOOL_NAME: spec.name,
        names.GEN_AI_TOOL_TYPE: "function",
        names.GEN_AI_TOOL_DESCRIPTION: spec.description,
    }
    if ctx.tool_call_id != "":
        attributes[names.GEN_AI_TOOL_CALL_ID] = str(ctx.tool_call_id)
    return attributes


def _event(call: _Call) -> AuditEvent:
    """What `dispatch` would send."""
    ok = call.error is None
    payload = {
        "tool": call.tool.tool,
        "tool_call_id": call.tool.call_id,
        "ok": ok,
        "error": call.error,
    }
    return AuditEvent(call.tool.agent, "tool.call.dispatched" if ok else "tool.call.denied", payload)


def _is_of(call: _Call, event: AuditEvent) -> bool:
    """Whether the event is about that call, and not about one that was refused before it came to a tool."""
    told = event.payload
    return (call.tool.tool, call.tool.call_id, call.error) == (
        told["tool"],
        told["tool_call_id"],
        told["error"],
    )


_OUTCOMES: Final = {
    None: Outcome.SUCCESS,
    CANCELLED: Outcome.CANCELLED,
    "permission_denied": Outcome.BLOCKED,
    "fs_denied": Outcome.BLOCKED,
    "net_denied": Outcome.BLOCKED,
    "tool_not_found": Outcome.INVALID,
    "invalid_args": Outcome.INVALID,
}


def _reason(text: str | None) -> Reason | None:
    return Reason(text) if text in set(Reason) else None


def _outcome(error: str | None, reason: str | None) -> Outcome:
    """By the reason, which is finer, or else by the slug."""
    known = _reason(reason)
    return outcome_of(known) if known is not None else _OUTCOMES.get(error, Outcome.ERROR)


def _line(event: AuditEvent, call: _Call | None) -> dict[str, object]:
    told, error = event.payload, event.payload["error"]
    hops: list[HopRecord] = call.tool.hops if call is not None else []
    reason = call.reason if call is not None else None
    outcome = _outcome(error, reason)
    return {
        "agent": shown(event.pid),
        "tool": shown(told["tool"]),
        "call": shown(told["tool_call_id"]) if told["tool_call_id"] != "" else None,
        "kind": event.kind,
        "decision": _decision(outcome, hops),
        "rule": _rule(error, _reason(reason)),
        "outcome": outcome,
        "error": error,
        "reason": reason,
        **_of_hops(hops),
        "duration": round(call.duration, 6) if call is not None else None,
    }


def _rule(error: str | None, reason: Reason | None) -> str | None:
    if error == "permission_denied":
        return "tool_grants"
    return RULES.get(reason) if reason is not None else None


def _decision(outcome: Outcome, hops: list[HopRecord]) -> Decision | None:
    if outcome in (Outcome.BLOCKED, Outcome.INVALID):
        return Decision.DENIED
    if any(hop.decision is Decision.WOULD_DENY for hop in hops):
        return Decision.WOULD_DENY
    return Decision.ALLOWED if any(hop.decision is Decision.ALLOWED for hop in hops) else None


def _of_hops(hops: list[HopRecord]) -> dict[str, object]:
    """Where the call went first, what came of it at last, and the sums."""
    if not hops:
        return {}
    first, last = hops[0], hops[-1]
    return {
        "method": first.method,
        "host": first.url.host if first.url is not None else None,
        "port": first.url.port if first.url is not None else None,
        "status": last.status,
        "hops": len(hops),
        "wire_bytes": sum(hop.wire_bytes for hop in hops),
        "content_bytes": last.content_bytes,
        "truncated": last.truncated or None,
    }
