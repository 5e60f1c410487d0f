"""The registry of tools, and what goes into it and comes out: specs, results, errors with their slugs.

A tool is a value (`ToolSpec`); its answer is a value too (`ToolResult`), a failure as much as a success
(decision D-24). `tidegate_tools.dispatch` calls tools by name.

There is no `register_builtin_tools`, and a new registry is empty. The built-in set of the reference kernel
(Echo, Read, Write, Glob, List, Diff, AST) is that kernel's own, and neither `Fetch` nor `web_request` may be
part of any such set (F-1, F-105): an operator registers each of them by name, or it is not there.
"""

import builtins
import json
import re
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from typing import Any, ClassVar, Final, Protocol, cast

from tidegate import Reason

# What every framework that we have tried takes for the name of a tool.
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


# --- Errors ---------------------------------------------------------------------------------------

RETRYABLE: Final = frozenset(
    (
        *(Reason.DNS_RESOLUTION_FAILED, Reason.CONNECT_FAILED, Reason.CONNECTION_LOST),
        *(Reason.TIMEOUT, Reason.INCOMPLETE_CONTENT, Reason.OVERLOADED),
    )
)
"""The reasons of the engine that may be gone the next time."""


@dataclass(frozen=True, slots=True)
class ToolErrorInfo:
    """Why a call was refused or failed, for a model and for a log.

    Attributes:
        slug: the kind of error, as the kernels know it: `net_denied`, `invalid_args` and so on.
        message: one plain sentence. It never holds a secret.
        reason: the finer cause, a value of `tidegate.Reason` (decisions, table A2); None if there is none.
        how_to_allow: which setting an operator would change; None if nothing can allow it.
        retryable: the same call may succeed later.
    """

    slug: str
    message: str
    reason: str | None = None
    how_to_allow: str | None = None
    retryable: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The five facts as a JSON object. The slug is called `error`, as in the envelope of `dispatch`."""
        facts = asdict(self)
        return {"error": facts.pop("slug"), **facts}


class ToolError(Exception):
    """A call was refused or failed in a way that its tool foresees. The root of all such errors.

    Args:
        message: one plain sentence for the agent. It is shown as it is, so it must not hold a secret.
        reason: see `ToolErrorInfo`.
        how_to_allow: see `ToolErrorInfo`.
        retryable: see `ToolErrorInfo`.
    """

    slug: ClassVar[str] = "tool_failed"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        how_to_allow: str | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.how_to_allow = how_to_allow
        self.retryable = retryable

    @property
    def info(self) -> ToolErrorInfo:
        """The same facts as a value."""
        return ToolErrorInfo(self.slug, str(self), self.reason, self.how_to_allow, self.retryable)


class ToolNotFound(ToolError):
    """The message names no tool, or one that is not registered."""

    slug = "tool_not_found"


class ToolDenied(ToolError):
    """The agent holds no tool grant for this tool."""

    slug = "permission_denied"


class ToolFsDenied(ToolError):
    """The agent may not touch that file. No tool of this project does; RFC 0021 has the slug (F-117)."""

    slug = "fs_denied"


class ToolNetDenied(ToolError):
    """The destination is refused: no net grant covers it, or the engine forbids it (F-84 to F-88)."""

    slug = "net_denied"


class ToolInvalidArgs(ToolError):
    """The arguments are wrong; nothing was sent. Mend them and call again."""

    slug = "invalid_args"


class ToolFailed(ToolError):
    """The tool ran and did not succeed."""

    slug = "tool_failed"


# --- Values ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call came to. Built with `success` or `failure`.

    Attributes:
        ok: whether the tool did what it was asked.
        value: an object (`Fetch`), or a text that is a JSON document (`web_request`; D-24). Always there on
            success; on failure only if the tool has a form of its own for errors (D-13).
        error: what went wrong; None exactly if `ok`.
    """

    ok: bool
    value: dict[str, Any] | str | None
    error: ToolErrorInfo | None = None

    def __post_init__(self) -> None:
        if self.ok is not (self.error is None):
            raise ValueError("A result carries an error exactly if it is not ok.")
        if not isinstance(self.value, dict | str) and (self.ok or self.value is not None):
            raise TypeError(f"The value of a result is a dict or a str, not {type(self.value).__name__}.")

    @classmethod
    def success(cls, value: dict[str, Any] | str) -> "ToolResult":
        """The tool did it, and this is its value."""
        return cls(ok=True, value=value)

    @classmethod
    def failure(
        cls, error: ToolError | ToolErrorInfo, value: dict[str, Any] | str | None = None
    ) -> "ToolResult":
        """The tool did not do it; `value` is the tool's own form of the error, if it has one."""
        return cls(ok=False, value=value, error=error.info if isinstance(error, ToolError) else error)

    def to_json(self) -> str:
        """The value, or else the error, as strict JSON (RFC 8259) that can always be encoded as UTF-8.

        A text value is a JSON document already and is passed on as it is. Lone surrogates become `?`.

        Raises:
            ValueError: the value holds NaN or an infinity: JSON has none.
            TypeError: the value holds something else that JSON does not know.
        """
        if isinstance(self.value, str):
            return self.value
        facts = self.value if self.value is not None else cast(ToolErrorInfo, self.error).to_dict()
        text = json.dumps(facts, ensure_ascii=False, allow_nan=False)
        return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class Capabilities(Protocol):
    """What we ask of a kernel's capability store (RFC 0005). An answer is a bool or an awaitable of one."""

    def check_tool(self, pid: Any, name: str, /) -> bool | Awaitable[bool]:
        """Whether this agent may call the tool of that name."""
        ...

    def check_net(self, pid: Any, host: str, /) -> bool | Awaitable[bool]:
        """Whether this agent may reach that host."""
        ...


class Kernel(Protocol):
    """What we ask of a kernel: its capability store, nothing else."""

    @property
    def cap(self) -> Capabilities:
        """The capability store."""
        ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Who is calling.

    Attributes:
        pid: the agent, in whatever form its kernel numbers agents.
        kernel: whom to ask for grants; None skips the checks of grants, never those of the engine (F-92).
        on_chunk: called with each piece of a streamed answer, sync or async (RFC 0029); None: no streaming.
        tool_call_id: the caller's own mark of this call; "" if it gave none.
    """

    pid: Any = None
    kernel: Kernel | None = field(default=None, repr=False)
    on_chunk: Callable[[dict[str, Any]], object] | None = field(default=None, repr=False)
    tool_call_id: str | int = ""

    @property
    def key(self) -> Hashable:
        """The agent as the engine takes it, for turns by agent: None if its pid is not hashable."""
        try:
            hash(self.pid)
        except TypeError:
            return None
        key: Hashable = self.pid
        return key


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """One tool: what a model is told about it, and how it is called.

    The flags and their defaults are those of the tool annotations of MCP. There is no `requires_net`, because
    the host stands in a URL and is asked about again on every hop; and no `requires_fs`, because no tool here
    touches files, so step 4 of RFC 0021 is empty.

    Attributes:
        name: 1 to 64 ASCII letters, digits, hyphens and underscores, case-sensitive.
        description: what a model reads; it says what the limits are and that content is untrusted (D-20).
        parameters: the JSON Schema of the arguments, of type object.
        call: `await call(args, ctx)`. It checks its own arguments and returns a `ToolResult` for every
            failure that it foresees; a `ToolError` that it raises counts as one too.
        read_only: it changes nothing anywhere.
        idempotent: calling it twice is the same as calling it once.
        open_world: it deals with things outside, such as the web.
        requires_capability: only an agent with a tool grant for it may call it.
        result_schema: the JSON Schema of the value; None if it is not described.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    call: Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]
    read_only: bool = False
    idempotent: bool = False
    open_world: bool = True
    requires_capability: bool = True
    result_schema: Mapping[str, Any] | None = None


# --- The registry ---------------------------------------------------------------------------------


class ToolRegistry:
    """Tools by name. Empty when made; iterating gives the tools in the order of their names."""

    def __init__(self) -> None:
        self._tools: dict[str, ToolSpec] = {}

    def register(self, spec: ToolSpec) -> None:
        """Add a tool; one of the same name is replaced without a word (RFC 0021).

        Raises:
            TypeError: `spec` is no `ToolSpec`, or its `call` cannot be called.
            ValueError: the name, the description or a schema is not what `ToolSpec` asks for.
        """
        _validate(spec)
        self._tools[spec.name] = spec

    def unregister(self, name: str) -> bool:
        """Remove a tool; False if there was none of that name."""
        return self._tools.pop(name, None) is not None

    def get(self, name: str) -> ToolSpec:
        """The tool of exactly that name.

        Raises:
            ToolNotFound: there is none. The message names the nearest one.
        """
        try:
            return self._tools[name]
        except KeyError:
            raise ToolNotFound(f"There is no tool {quoted(name)}.{did_you_mean(name, self._tools)}") from None

    def list(self) -> builtins.list[str]:
        """The names, sorted."""
        return sorted(self._tools)

    def __iter__(self) -> Iterator[ToolSpec]:
        return iter([self._tools[name] for name in self.list()])

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools


def _validate(spec: ToolSpec) -> None:
    if not isinstance(spec, ToolSpec):
        raise TypeError(f"Only a ToolSpec can be registered, not {type(spec).__name__}.")
    if not (isinstance(spec.name, str) and _TOOL_NAME.fullmatch(spec.name)):
        raise ValueError("The name of a tool has 1 to 64 ASCII letters, digits, hyphens and underscores.")
    if not (isinstance(spec.description, str) and spec.description.strip()):
        raise ValueError(f"The tool {spec.name} needs a description: it is all that a model knows of it.")
    if not callable(spec.call):
        raise TypeError(f"The tool {spec.name} has a call that cannot be called.")
    _validate_schema(spec.name, "parameters", spec.parameters)
    if spec.result_schema is not None:
        _validate_schema(spec.name, "result_schema", spec.result_schema)


def _validate_schema(name: str, attribute: str, schema: Mapping[str, Any]) -> None:
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        raise ValueError(f'The tool {name} needs {attribute} of {{"type": "object", ...}}.')
    try:
        json.dumps(dict(schema), allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError(f"The {attribute} of the tool {name} cannot be written as JSON.") from None


def quoted(name: object) -> str:
    """A name that somebody else chose, fit for a message: ASCII, in quotes, at most 64 characters of it."""
    text = str(name)
    return ascii(text[:64] + ("..." if len(text) > 64 else ""))


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A sentence with the nearest known name, a space before it; "" if nothing is near."""
    by_folded = {each.casefold(): each for each in known}
    near = get_close_matches(name[:64].casefold(), by_folded, n=1) if isinstance(name, str) else []
    return f" Did you mean {by_folded[near[0]]!r}?" if near else ""
