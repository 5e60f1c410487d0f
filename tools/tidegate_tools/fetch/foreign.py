"""`Fetch` in a kernel that is not ours: its own classes, its own exceptions, synchronous handlers."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from tidegate.portal import Portal, shared_portal
from tidegate_tools.registry import ToolContext, ToolErrorInfo, ToolSpec


class ForeignKernel(Protocol):
    """The namespace of such a kernel, as decisions section C describes it: a module, or anything like one.

    Attributes:
        Tool: called with `name`, `description` and `handler`; what it returns is what is registered.
        ToolNetDenied: an exception made of one message, for `net_denied`.
        ToolInvalidArgs: the same for `invalid_args`.
        ToolFailed: the same for everything else.
    """

    @property
    def Tool(self) -> Callable[..., Any]: ...  # noqa: D102, N802  # the names are theirs
    @property
    def ToolNetDenied(self) -> type[Exception]: ...  # noqa: D102, N802
    @property
    def ToolInvalidArgs(self) -> type[Exception]: ...  # noqa: D102, N802
    @property
    def ToolFailed(self) -> type[Exception]: ...  # noqa: D102, N802


_NAMES: Final = ("Tool", "ToolNetDenied", "ToolInvalidArgs", "ToolFailed")


def make_foreign_fetch_tool(spec: ToolSpec, kernel: ForeignKernel, *, portal: Portal | None = None) -> Any:
    """A tool of our own as a tool of a synchronous kernel.

    Its `handler(args, ctx)` blocks the thread that calls it, and runs the call in the one background trio
    thread of the process (AMB-34). What belongs to the kernel is asked for in that waiting thread, so it need
    not be safe for threads: `ctx.kernel.cap.check_net(ctx.pid, host)` on every hop before DNS, unless
    `ctx.kernel` is None, and `ctx.on_chunk` if there is one. Ctrl+C ends the call, cleaned up.

    Args:
        spec: from `make_fetch_tool`.
        kernel: the namespace that holds its classes.
        portal: by default the one of the process.

    Returns:
        What the kernel's `Tool` makes of it. Its handler returns a dict, and raises the kernel's own
        `ToolNetDenied`, `ToolInvalidArgs` or `ToolFailed`, and nothing else.

    Raises:
        TypeError: the namespace lacks one of the names.
    """
    missing = [name for name in _NAMES if not hasattr(kernel, name)]
    if missing:
        raise TypeError(f"The kernel's namespace lacks {', '.join(missing)}.")
    handler = partial(_handle, spec, kernel, portal or shared_portal())
    return kernel.Tool(name=spec.name, description=spec.description, handler=handler)


def _handle(spec: ToolSpec, kernel: ForeignKernel, portal: Portal, args: Any, ctx: Any) -> dict[str, Any]:
    try:
        result = portal.run_sync(spec.call, args or {}, _our_context(ctx))
    # The portal is closed, this thread runs trio, or a defect: to that kernel each is a failure of the tool.
    except Exception as error:
        raise kernel.ToolFailed(f"{type(error).__name__}: the call of {spec.name} broke off.") from error
    if result.error is not None:
        raise _their_exception(kernel, result.error)
    assert isinstance(result.value, dict)
    return result.value


def _their_exception(kernel: ForeignKernel, error: ToolErrorInfo) -> Exception:
    kinds = {"net_denied": kernel.ToolNetDenied, "invalid_args": kernel.ToolInvalidArgs}
    return kinds.get(error.slug, kernel.ToolFailed)(error.message)


def _our_context(ctx: Any) -> ToolContext:
    # Theirs may be older than RFC 0029, and then has no on_chunk.
    return ToolContext(pid=ctx.pid, kernel=ctx.kernel, on_chunk=getattr(ctx, "on_chunk", None))
