"""The one way to call a tool by name: `dispatch`.

It finds the tool, asks the kernel whether this agent may call it, runs it, and wraps the answer in the
envelope of RFC 0021, with one audit event a call. `dispatch_result` is the same for hosts that have an
envelope of their own; `call_tool` is the part that runs the tool, for those that have checks, too.
"""

import inspect
import logging
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import trio

from tidegate_tools.registry import (
    Kernel,
    ToolContext,
    ToolDenied,
    ToolError,
    ToolErrorInfo,
    ToolFailed,
    ToolInvalidArgs,
    ToolNotFound,
    ToolRegistry,
    ToolResult,
    ToolSpec,
)

logger = logging.getLogger("tidegate.tools")

T = TypeVar("T")

# How many seconds an async audit may take for one event. It is shielded from cancellation, so it needs a
# bound: a log that hangs must not hold an agent. Picked without measuring: long for an append, short for who
# waits.
AUDIT_GRACE = 5.0

# What the audit event of a cancelled call says. No response ever says it: a cancelled call gets none.
CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One call, allowed or refused, without its arguments: they hold URLs, fields and content (F-118).

    Attributes:
        pid: the agent.
        kind: `tool.call.dispatched` if the call succeeded, `tool.call.denied` for every failure.
        payload: `tool`, `tool_call_id`, `ok` and `error`, which is the slug, None on success, and
            `cancelled` if the call was cancelled before there was an answer.
    """

    pid: Any
    kind: str
    payload: dict[str, Any]


async def ask(value: T | Awaitable[T]) -> T:
    """The answer of a function that may be sync or async: awaited if it has to be.

    Kernels differ: `check_tool`, `check_net`, audit and chunk callbacks are plain functions in one and
    coroutine functions in another. Never test such a value for truth before: a coroutine is always true.
    """
    return await value if inspect.isawaitable(value) else value


async def dispatch(
    message: object,
    registry: ToolRegistry | None,
    *,
    pid: Any,
    kernel: Kernel | None = None,
    audit: Callable[[AuditEvent], object] | None = None,
    on_chunk: Callable[[dict[str, Any]], object] | None = None,
) -> dict[str, Any]:
    """Call a tool for an agent, and answer in the envelope of RFC 0021, whatever happens.

    The order of the checks: `tool` is a text and `args` an object (anything falsy counts as `{}`); the tool
    is registered; the agent holds a grant for it, unless there is no kernel or the tool asks for none; the
    call itself, which checks its own arguments.

    No `Exception` comes out. One that the tool does not foresee becomes `tool_failed` with the name of its
    type and a fixed sentence: its text may hold a URL, a field or content, so neither agent nor log gets it
    (D-14). What is no `Exception` passes: `trio.Cancelled`, also out of an exception group, and Ctrl+C. Such
    a call has no response, but it has its audit event.

    Args:
        message: `{"tool": ..., "args": {...}, "tool_call_id": ...}`, checked here, so anything may come.
        registry: where to look; None answers `tool_not_found` to everything.
        pid: the agent that asks.
        kernel: whose `cap.check_tool(pid, name)` decides, sync or async; an exception there is a no.
            None skips the check.
        audit: called once with an `AuditEvent`, sync or async; its exceptions are swallowed. An async one is
            shielded from the call's cancellation for at most `AUDIT_GRACE` seconds.
        on_chunk: for a tool that streams; None for no streaming.

    Returns:
        `{"op": "tool_response", "tool_call_id": ..., "ok": True, "result": ...}`, or with `"ok": False` the
        slug as `error` and a `message`.
    """
    result = await dispatch_result(message, registry, pid=pid, kernel=kernel, audit=audit, on_chunk=on_chunk)
    return _envelope(_tool_call_id(_fields(message)), result)


async def dispatch_result(
    message: object,
    registry: ToolRegistry | None,
    *,
    pid: Any,
    kernel: Kernel | None = None,
    audit: Callable[[AuditEvent], object] | None = None,
    on_chunk: Callable[[dict[str, Any]], object] | None = None,
) -> ToolResult:
    """The same without the envelope, which leaves out the reason of a failure and how to allow it.

    Args:
        message: as of `dispatch`, and so are the others.
        registry: the same.
        pid: the same.
        kernel: the same.
        audit: the same.
        on_chunk: the same.

    Returns:
        The result of the tool, or a failure for what came before it.
    """
    fields = _fields(message)
    ctx = ToolContext(pid, kernel, on_chunk, _tool_call_id(fields))
    error: str | None = CANCELLED
    try:
        result = await _result_of(_checked(fields, registry, ctx))
        error = result.error.slug if result.error else None
    finally:
        await _record(audit, _event(fields, ctx, error))
    return result


async def call_tool(spec: ToolSpec, args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    """Run a tool, and answer with a result, whatever happens. No grant is asked for, no event is sent.

    Args:
        spec: the tool.
        args: its arguments; it checks them itself.
        ctx: who is calling.

    Returns:
        The tool's own result. What it raises is a failure, and passes or not as `dispatch` says.
    """
    return await _result_of(_run(spec, args, ctx))


def unforeseen(error: BaseException) -> ToolFailed:
    """The failure that stands for an error nobody foresaw. It names the type alone (D-14)."""
    sentence = "the tool did not foresee this error; its text is withheld, since it may hold a secret."
    return ToolFailed(f"{type(error).__name__}: {sentence}")


def told_of(error: BaseException) -> ToolErrorInfo:
    """What `dispatch` would tell of an error: of a group, the first `ToolError` in it."""
    leaves = list(_leaves(error)) if isinstance(error, BaseExceptionGroup) else [error]
    for leaf in leaves:
        if isinstance(leaf, ToolError):
            return leaf.info
    return unforeseen(leaves[0]).info


async def _result_of(answer: Awaitable[ToolResult]) -> ToolResult:
    result: ToolResult
    try:
        result = await answer
    # Not `except`: a nursery wraps what its tasks raise, and a cancellation may stand in the same group. This
    # takes the exceptions out of the group; what is left, Cancelled, goes on, as whoever cancelled expects.
    except* Exception as errors:
        result = _failure(errors)
    return result


async def _run(spec: ToolSpec, args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    result: object = await spec.call(args, ctx)
    if not isinstance(result, ToolResult):
        raise ToolFailed(
            f"The tool {spec.name} returned {type(result).__name__}, which is no result of a tool."
        )
    return result


async def _checked(fields: Mapping[str, Any], registry: ToolRegistry | None, ctx: ToolContext) -> ToolResult:
    name, args = _read(fields)
    spec = (registry if registry is not None else ToolRegistry()).get(name)
    if ctx.kernel is not None and spec.requires_capability:
        await _require_grant(ctx.kernel, ctx.pid, name)
    return await _run(spec, args, ctx)


def _read(fields: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    name = fields.get("tool")
    if not isinstance(name, str):
        raise ToolNotFound('The message names no tool: "tool" must be a string.')
    args = fields.get("args") or {}
    if not isinstance(args, Mapping):
        raise ToolInvalidArgs(f'"args" must be an object, not {type(args).__name__}.')
    return name, args


async def _require_grant(kernel: Kernel, pid: Any, name: str) -> None:
    granted = False
    try:
        granted = bool(await ask(kernel.cap.check_tool(pid, name)))
    # A store that breaks has not said yes: default deny (RFC 0005).
    except* Exception as errors:
        _log("check_tool", errors)
    if not granted:
        advice = f"Add {name!r} to its tool_grants to allow it."
        raise ToolDenied(f"This agent has no grant for the tool {name!r}. {advice}", how_to_allow=advice)


def _failure(errors: BaseExceptionGroup[Exception]) -> ToolResult:
    """The one answer to whatever came out; a `ToolError` first, because its message is made to be shown."""
    if not any(isinstance(error, ToolError) for error in _leaves(errors)):
        _log("a tool", errors)
    return ToolResult.failure(told_of(errors))


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _log(where: str, errors: BaseExceptionGroup[Exception]) -> None:
    """Types and places of code, for whoever mends the defect; never the text of an exception (D-14, D-20)."""
    for error in _leaves(errors):
        frames = traceback.walk_tb(error.__traceback__)
        places = [f"{frame.f_code.co_filename}:{line}" for frame, line in frames]
        logger.debug("%s raised %s at %s", where, type(error).__name__, " > ".join(places))


def _fields(message: object) -> Mapping[str, Any]:
    return message if isinstance(message, Mapping) else {}


def _tool_call_id(fields: Mapping[str, Any]) -> str | int:
    """Echoed as it came; an id that is neither text nor number could smuggle arguments into the audit log."""
    given = fields.get("tool_call_id", "")
    return given if isinstance(given, str | int) else ""


def _envelope(tool_call_id: str | int, result: ToolResult) -> dict[str, Any]:
    head = {"op": "tool_response", "tool_call_id": tool_call_id, "ok": result.ok}
    if result.error is None:
        return {**head, "result": result.value}
    return {**head, "error": result.error.slug, "message": result.error.message}


def _event(fields: Mapping[str, Any], ctx: ToolContext, error: str | None) -> AuditEvent:
    name = fields.get("tool")
    payload = {
        # An agent may ask for a tool of any name; the log keeps no more of it than a real name can have.
        "tool": name[:64] if isinstance(name, str) else "",
        "tool_call_id": ctx.tool_call_id,
        "ok": error is None,
        "error": error,
    }
    return AuditEvent(ctx.pid, "tool.call.dispatched" if error is None else "tool.call.denied", payload)


async def _record(audit: Callable[[AuditEvent], object] | None, event: AuditEvent) -> None:
    if audit is None:
        return
    try:
        answer = audit(event)
        if inspect.isawaitable(answer):
            await _shielded(answer)
    # An audit log that is full or gone must not change what the agent gets (section C of the decisions).
    except* Exception as errors:
        _log("audit", errors)


async def _shielded(answer: Awaitable[object]) -> None:
    """Wait, even if the call was cancelled: who cancels an agent must not lose the trace of what it did."""
    with trio.move_on_after(AUDIT_GRACE, shield=True):
        await answer
