"""How an adapter calls a tool: under trio in that run, from anywhere else through a portal.

What comes out is always a `ToolResult`. Frameworks know neither `trio.Cancelled` nor exception groups: who
cancels in asyncio gets asyncio's own cancellation, once the call has cleaned up.
"""

import json
from collections.abc import Callable, Mapping
from contextvars import copy_context
from copy import deepcopy
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import trio

from tidegate import EngineClosed
from tidegate.portal import Portal, in_caller, shared_portal
from tidegate_tools.dispatch import AuditEvent, dispatch_result
from tidegate_tools.registry import (
    Kernel,
    ToolContext,
    ToolFailed,
    ToolInvalidArgs,
    ToolRegistry,
    ToolResult,
    ToolSpec,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """On whose behalf a framework calls, and by which way.

    Attributes:
        context: the agent, and the kernel whose grants hold; without a kernel only the engine's rules do.
        audit: told of each call once, refused ones too, with arguments that cannot even be read as well; see
            `dispatch`. Called where the framework runs. A portal that is closed takes no calls.
        portal: for calls from outside of trio; by default the one of the process.
    """

    context: ToolContext = field(default_factory=ToolContext)
    audit: Callable[[AuditEvent], object] | None = field(default=None, repr=False)
    portal: Portal | None = field(default=None, repr=False)


async def call(spec: ToolSpec, args: object, caller: Caller | None = None) -> ToolResult:
    """Call a tool from trio or from asyncio.

    Args:
        spec: the tool.
        args: what the model said, of whatever kind.
        caller: on whose behalf; by default nobody's, without grants.

    Returns:
        The result. Every `Exception` is a failure in it, as in `dispatch`.
    """
    caller = caller or Caller()
    if _in_trio_task():
        return await _answer(spec, args, caller)
    try:
        return await (caller.portal or shared_portal()).run(_answer, spec, args, caller)
    except EngineClosed:
        return _broken_off(spec)


def call_sync(spec: ToolSpec, args: object, caller: Caller | None = None) -> ToolResult:
    """The same from a plain thread, which waits.

    Raises:
        RuntimeError: this thread runs trio, which would stand still.
    """
    caller = caller or Caller()
    try:
        return (caller.portal or shared_portal()).run_sync(_answer, spec, args, caller)
    except EngineClosed:
        return _broken_off(spec)


def refusing(spec: ToolSpec, error: ToolInvalidArgs) -> ToolSpec:
    """The tool as it answers to what cannot be read as arguments: to be called, so that the call is told of.

    Args:
        spec: the tool.
        error: what is wrong. It comes before any question for a grant, as arguments that are no object do.
    """

    async def refuse(_: Mapping[str, Any], __: ToolContext) -> ToolResult:
        raise error

    return replace(spec, call=refuse, requires_capability=False)


def parameters_of(spec: ToolSpec) -> dict[str, Any]:
    """The schema of the arguments, a copy: some frameworks change what they are given."""
    return deepcopy(dict(spec.parameters))


def read_json(arguments: object) -> Any:
    """The arguments as models write them, or as whoever stands between has read them.

    Args:
        arguments: a JSON text, empty for none; a mapping is taken as it is, None for none.

    Raises:
        ToolInvalidArgs: the text is no JSON, or it is something else.
    """
    if arguments is None or isinstance(arguments, Mapping):
        return arguments or {}
    if not isinstance(arguments, str):
        raise ToolInvalidArgs(f"The arguments must be one JSON object, not {type(arguments).__name__}.")
    try:
        return json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        raise ToolInvalidArgs("The arguments must be one JSON object; what came is no JSON.") from None


def require(module: str, package: str) -> Any:
    """A module of a framework.

    Args:
        module: its name.
        package: what to install for it.

    Raises:
        ImportError: it cannot be imported. The message names the package.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"This adapter needs {module}: pip install {package}", name=module) from error


def _in_trio_task() -> bool:
    # trio.lowlevel.in_trio_task is not in trio 0.27, the oldest that we take.
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True


def _broken_off(spec: ToolSpec) -> ToolResult:
    return ToolResult.failure(ToolFailed(f"The call of {spec.name} broke off: its portal was closed."))


async def _answer(spec: ToolSpec, args: object, caller: Caller) -> ToolResult:
    """By `dispatch`, for its checks, its audit event and its words for what nobody foresaw."""
    context = caller.context
    registry = ToolRegistry()
    # The tool knows which of its questions are for the caller's thread; what is below is for `dispatch`.
    registry.register(replace(spec, call=lambda args, _: spec.call(args, context)))
    return await dispatch_result(
        {"tool": spec.name, "args": args, "tool_call_id": context.tool_call_id},
        registry,
        pid=context.pid,
        kernel=None if context.kernel is None else _KernelOfCaller(context.kernel),
        audit=_audit_of_caller(caller.audit),
    )


def _audit_of_caller(audit: Callable[[AuditEvent], object] | None) -> Callable[[AuditEvent], object] | None:
    # In the context over here, where telemetry keeps what it knows of the call.
    return None if audit is None else lambda event: in_caller(copy_context().run, audit, event)


@dataclass(frozen=True, slots=True)
class _KernelOfCaller:
    """A kernel that is asked for tool grants where the caller lives: it need not be safe for our thread."""

    kernel: Kernel

    @property
    def cap(self) -> "_KernelOfCaller":
        return self

    async def check_tool(self, pid: Any, name: str, /) -> bool:
        return await in_caller(self.kernel.cap.check_tool, pid, name)

    async def check_net(self, pid: Any, host: str, /) -> bool:
        return await in_caller(self.kernel.cap.check_net, pid, host)
