"""The registry, and `dispatch`: one answer and one audit event for every call, whatever the tool does."""

import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any, NoReturn

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from tidegate_tools import registry as registry_module
from tidegate_tools.arguments import Arguments, wrong
from tidegate_tools.grants import Grants, GrantStore
from tidegate_tools.registry import (
    AUDIT_GRACE,
    AuditEvent,
    Capabilities,
    ToolContext,
    ToolDenied,
    ToolError,
    ToolErrorInfo,
    ToolFailed,
    ToolFsDenied,
    ToolInvalidArgs,
    ToolNetDenied,
    ToolNotFound,
    ToolRegistry,
    ToolResult,
    ToolSpec,
    ask,
    dispatch,
    quoted,
)

AGENT = 7
SECRET = "s3cr3t-token"

Call = Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]


async def echo(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    return ToolResult.success({"args": dict(args)})


def spec(name: str = "Echo", call: Call = echo) -> ToolSpec:
    return ToolSpec(name=name, description="A tool of the tests.", parameters={"type": "object"}, call=call)


def registry_of(*specs: ToolSpec) -> ToolRegistry:
    registry = ToolRegistry()
    for each in specs:
        registry.register(each)
    return registry


def raising(error: BaseException) -> Call:
    async def call(args: Mapping[str, Any], ctx: ToolContext) -> NoReturn:
        raise error

    return call


@dataclass(frozen=True)
class ToyKernel:
    cap: Capabilities


def kernel_with(*tool_grants: str) -> ToyKernel:
    store = GrantStore()
    store.grant(AGENT, Grants(tool_grants))
    return ToyKernel(store)


@dataclass
class Audit:
    """A synchronous audit log that remembers."""

    events: list[AuditEvent] = field(default_factory=list)

    def __call__(self, event: AuditEvent) -> None:
        self.events.append(event)


async def run(call: Call, message: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """Dispatch one call to a tool that does what `call` does."""
    return await dispatch(message or {"tool": "Echo"}, registry_of(spec(call=call)), pid=AGENT, **options)


# --- Errors and their slugs ------------------------------------------------------------------------

SLUGS: dict[type[ToolError], str] = {
    ToolError: "tool_failed",
    ToolNotFound: "tool_not_found",
    ToolDenied: "permission_denied",
    ToolFsDenied: "fs_denied",
    ToolNetDenied: "net_denied",
    ToolInvalidArgs: "invalid_args",
    ToolFailed: "tool_failed",
}


def test_each_error_has_its_slug_and_one_root() -> None:
    """F-84, F-85, F-100, F-117: `net_denied` beside the others, which keep slug and place."""
    for kind, slug in SLUGS.items():
        assert kind("No.").info == ToolErrorInfo(slug, "No.")
        assert kind.__mro__[1] is (Exception if kind is ToolError else ToolError)
    assert set(ToolError.__subclasses__()) == set(SLUGS) - {ToolError}


def test_an_error_carries_its_facts() -> None:
    error = ToolNetDenied("Not there.", reason="not_granted", how_to_allow="Grant it.", retryable=True)
    assert str(error) == "Not there."
    assert error.info == ToolErrorInfo("net_denied", "Not there.", "not_granted", "Grant it.", True)
    assert error.info.to_dict() == {
        "error": "net_denied",
        "message": "Not there.",
        "reason": "not_granted",
        "how_to_allow": "Grant it.",
        "retryable": True,
    }


# --- Registry --------------------------------------------------------------------------------------


def test_nothing_is_built_in() -> None:
    """F-1, F-98, F-105: a new registry is empty, and nothing here fills one."""
    assert ToolRegistry().list() == []
    assert not hasattr(registry_module, "register_builtin_tools")


def test_registering_the_same_name_replaces_in_silence() -> None:
    """F-99: twice is harmless."""
    first, second = spec("Fetch"), replace(spec("Fetch"), description="Another.")
    registry = registry_of(first, second)
    assert registry.get("Fetch") is second
    assert registry.list() == ["Fetch"]


def test_the_list_is_sorted_and_iteration_follows_it() -> None:
    registry = registry_of(spec("web_request"), spec("Fetch"), spec("Echo"))
    assert registry.list() == ["Echo", "Fetch", "web_request"]
    assert [each.name for each in registry] == registry.list()
    assert (len(registry), "Fetch" in registry, "fetch" in registry) == (3, True, False)


def test_unregister_tells_whether_there_was_one() -> None:
    registry = registry_of(spec("Fetch"))
    assert registry.unregister("fetch") is False
    assert registry.unregister("Fetch") is True
    assert registry.unregister("Fetch") is False
    assert registry.list() == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("fetch", "There is no tool 'fetch'. Did you mean 'Fetch'?"),
        ("Fetsh", "There is no tool 'Fetsh'. Did you mean 'Fetch'?"),
        ("Exec", "There is no tool 'Exec'."),
        ("", "There is no tool ''."),
        ("a\nb\u202e", r"There is no tool 'a\nb\u202e'."),
        ("x" * 100_000, f"There is no tool '{'x' * 64}...'."),
    ],
)
def test_get_names_what_is_missing_and_what_is_near(name: str, sentence: str) -> None:
    """F-117: `tool_not_found`. Names are case-sensitive; the message cannot be made long or unreadable."""
    with pytest.raises(ToolNotFound) as caught:
        registry_of(spec("Fetch")).get(name)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("name", ["F", "web_request", "a-b", "9", "x" * 64])
def test_good_names(name: str) -> None:
    assert registry_of(spec(name)).list() == [name]


BAD_SCHEMAS: list[Any] = [{}, {"type": "string"}, [], None, "object", {"type": "object", "x": math.nan}]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        *(
            ({"name": name}, ValueError, "name")
            for name in ("", "a b", "x" * 65, "Fetch\n", "é", "a.b", None, 5)
        ),
        *(({"description": text}, ValueError, "description") for text in ("", " ", None)),
        *(({"call": call}, TypeError, "called") for call in (None, "echo")),
        *(({"parameters": schema}, ValueError, "parameters") for schema in BAD_SCHEMAS),
        ({"parameters": {"type": "object", "x": {1, 2}}}, ValueError, "JSON"),
        ({"result_schema": {"type": "array"}}, ValueError, "result_schema"),
    ],
)
def test_registration_validates(change: dict[str, Any], error: type[Exception], said: str) -> None:
    """Section C: registration validates. What is refused is not there afterwards."""
    registry = ToolRegistry()
    with pytest.raises(error, match=said):
        registry.register(replace(spec(), **change))
    assert registry.list() == []


def test_only_a_spec_can_be_registered() -> None:
    no_spec: Any = echo
    with pytest.raises(TypeError, match="ToolSpec"):
        ToolRegistry().register(no_spec)


def test_values_are_frozen() -> None:
    tool, ctx = spec(), ToolContext(AGENT)
    with pytest.raises(FrozenInstanceError):
        tool.name = "Other"  # type: ignore[misc]  # the very mistake that this test is about
    with pytest.raises(FrozenInstanceError):
        ctx.pid = 8  # type: ignore[misc]  # the very mistake that this test is about


# --- Results ---------------------------------------------------------------------------------------


def test_a_result_is_a_value_or_an_error() -> None:
    """D-24: an object or a text; a failure may have the tool's own form of the error beside it."""
    info = ToolErrorInfo("net_denied", "No.")
    assert ToolResult.failure(ToolNetDenied("No.")) == ToolResult(False, None, info)
    assert ToolResult.failure(info, '{"error": "No."}').value == '{"error": "No."}'
    not_values: list[Any] = [None, 5, [], b"x"]
    for not_value in not_values:
        with pytest.raises(TypeError):
            ToolResult.success(not_value)
    with pytest.raises(ValueError):
        ToolResult(ok=True, value={}, error=info)
    with pytest.raises(ValueError):
        ToolResult(ok=False, value={})


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult.success({"a": [1, None, True]}), '{"a": [1, null, true]}'),
        (ToolResult.success({"text": "Füße 東京 😀"}), '{"text": "Füße 東京 😀"}'),
        (ToolResult.success({"text": "a\ud800b"}), '{"text": "a?b"}'),
        (ToolResult.success('{"status":200}'), '{"status":200}'),
        (
            ToolResult.failure(ToolNetDenied("No.", reason="private")),
            '{"error": "net_denied", "message": "No.", "reason": "private", "how_to_allow": null, '
            '"retryable": false}',
        ),
        (ToolResult.failure(ToolFailed("No."), '{"error":"No."}'), '{"error":"No."}'),
    ],
)
def test_to_json(result: ToolResult, text: str) -> None:
    assert result.to_json() == text
    assert json.loads(text.encode("utf-8"))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_json_has_no_such_numbers(number: float) -> None:
    with pytest.raises(ValueError):
        ToolResult.success({"x": number}).to_json()


# --- The envelope ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [{"status": 200, "body": "x"}, {}, '{"status": 200}', ""])
async def test_success(value: dict[str, Any] | str) -> None:
    """Section C: these four keys and no other; a text value (D-24) as well as an object."""

    async def call(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
        return ToolResult.success(value)

    response = await run(call, {"tool": "Echo", "tool_call_id": "c1"})
    assert response == {"op": "tool_response", "tool_call_id": "c1", "ok": True, "result": value}


@pytest.mark.parametrize("kind", SLUGS)
@pytest.mark.parametrize("raised", [True, False])
async def test_each_error_gets_its_slug(kind: type[ToolError], raised: bool) -> None:
    """F-84, F-85, F-89, F-117: raised or returned, the envelope is the same."""

    async def fail(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
        if raised:
            raise kind("Not like this.")
        return ToolResult.failure(kind("Not like this."), '{"error": "Not like this."}')

    assert await run(fail, {"tool": "Echo", "tool_call_id": "c1"}) == {
        "op": "tool_response",
        "tool_call_id": "c1",
        "ok": False,
        "error": SLUGS[kind],
        "message": "Not like this.",
    }


@pytest.mark.parametrize(
    ("given_id", "echoed"), [("c1", "c1"), ("", ""), (5, 5), (None, ""), ({"args": SECRET}, ""), ([], "")]
)
async def test_the_call_id_is_echoed(given_id: object, echoed: object) -> None:
    """F-89: as text or number; anything else counts as absent."""
    audit = Audit()
    for tool in ("Echo", "Nothing"):
        response = await run(echo, {"tool": tool, "tool_call_id": given_id}, audit=audit)
        assert response["tool_call_id"] == echoed
        assert audit.events[-1].payload["tool_call_id"] == echoed
    assert (await run(echo, {"tool": "Echo"}))["tool_call_id"] == ""


@pytest.mark.parametrize("args", [None, {}, [], "", 0, False])
async def test_falsy_args_are_none_at_all(args: object) -> None:
    """Section C, step 1."""
    assert (await run(echo, {"tool": "Echo", "args": args}))["result"] == {"args": {}}


@pytest.mark.parametrize("args", [[1], "{}", 5, True, 0.5])
async def test_other_args_are_invalid(args: object) -> None:
    response = await run(echo, {"tool": "Echo", "args": args})
    assert response["error"] == "invalid_args"
    assert response["message"] == f'"args" must be an object, not {type(args).__name__}.'


@pytest.mark.parametrize(
    "message", [None, [], "Fetch", 5, {}, {"tool": None}, {"tool": ["Echo"]}, {"op": "x"}]
)
async def test_a_message_without_a_tool(message: object) -> None:
    """Section C, step 1."""
    response = await dispatch(message, registry_of(spec()), pid=AGENT)
    assert (response["ok"], response["error"]) == (False, "tool_not_found")


async def test_no_registry_knows_no_tool() -> None:
    """Section C: a supervisor without a registry."""
    response = await dispatch({"tool": "Echo"}, None, pid=AGENT)
    assert response["error"] == "tool_not_found"


@pytest.mark.parametrize(
    ("message", "slug"),
    [
        # Each row has every fault of the rows below it too; the first check to fail is the one that speaks.
        ({"tool": 5, "args": [1]}, "tool_not_found"),
        ({"tool": "Nothing", "args": [1]}, "invalid_args"),
        ({"tool": "Nothing"}, "tool_not_found"),
        ({"tool": "Ungranted"}, "permission_denied"),
        ({"tool": "Granted"}, "net_denied"),
    ],
)
async def test_the_order_of_the_checks(message: dict[str, Any], slug: str) -> None:
    """Section C, dispatch order."""
    deny = raising(ToolNetDenied("No."))
    registry = registry_of(spec("Granted", deny), spec("Ungranted", deny))
    response = await dispatch(message, registry, pid=AGENT, kernel=kernel_with("Granted"))
    assert response["error"] == slug


async def test_the_tool_learns_who_calls() -> None:
    """F-92: pid and kernel; and what streaming needs."""
    seen: list[ToolContext] = []

    async def look(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
        seen.append(ctx)
        return ToolResult.success({})

    kernel, chunks = kernel_with("*"), list[dict[str, Any]]()
    await run(look, {"tool": "Echo", "tool_call_id": "c1"}, kernel=kernel, on_chunk=chunks.append)
    await run(look)
    assert seen == [ToolContext(AGENT, kernel, chunks.append, "c1"), ToolContext(AGENT)]


# --- Grants ----------------------------------------------------------------------------------------


class AsyncStore:
    """A foreign kernel's store, whose questions are coroutines; it holds what it was given."""

    def __init__(self, *names: str) -> None:
        self.names = names

    async def check_tool(self, pid: object, name: str) -> bool:
        await trio.lowlevel.checkpoint()
        return name in self.names

    async def check_net(self, pid: object, host: str) -> bool:
        await trio.lowlevel.checkpoint()
        return host in self.names


class BrokenStore:
    """A store that cannot answer."""

    def check_tool(self, pid: object, name: str) -> bool:
        raise LookupError(SECRET)

    def check_net(self, pid: object, host: str) -> bool:
        raise LookupError(SECRET)


NO_ROW = ToyKernel(GrantStore())


@pytest.mark.parametrize(
    ("kernel", "allowed"),
    [
        (kernel_with("Echo"), True),
        (kernel_with("*"), True),
        (kernel_with("echo"), False),
        (kernel_with("Fetch"), False),
        (kernel_with(), False),
        (NO_ROW, False),
        (None, True),
        (ToyKernel(AsyncStore("Echo")), True),
        (ToyKernel(AsyncStore("Fetch")), False),
        (ToyKernel(AsyncStore()), False),
        (ToyKernel(BrokenStore()), False),
        ("a kernel without a store", False),
    ],
)
async def test_only_a_granted_tool_runs(kernel: Any, allowed: bool) -> None:
    """F-62, F-66: else `permission_denied`, and the tool never ran.

    Stores may be sync or async; without a kernel there is no check (F-92).
    """
    ran: list[str] = []

    async def call(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
        ran.append("ran")
        return ToolResult.success({})

    response = await run(call, kernel=kernel)
    assert response["ok"] is allowed
    assert ran == (["ran"] if allowed else [])
    if not allowed:
        assert response["error"] == "permission_denied"
        assert response["message"] == (
            "This agent has no grant for the tool 'Echo'. Add 'Echo' to its tool_grants to allow it."
        )


async def test_a_tool_may_ask_for_no_grant() -> None:
    """`requires_capability`, by default on."""
    free = replace(spec("Free"), requires_capability=False)
    registry = registry_of(spec(), free)
    answers = {
        name: await dispatch({"tool": name}, registry, pid=AGENT, kernel=NO_ROW) for name in registry.list()
    }
    assert {name: answer["ok"] for name, answer in answers.items()} == {"Echo": False, "Free": True}


@pytest.mark.parametrize(
    ("cap", "slug"),
    [
        (kernel_with("Echo").cap, "net_denied"),
        (AsyncStore("Echo"), "net_denied"),
        (AsyncStore("Echo", "a.example"), None),
    ],
)
async def test_a_tool_asks_for_the_host_of_a_sync_or_async_store(cap: Capabilities, slug: str | None) -> None:
    """F-63, F-86, F-89: a `check_net` that says no ends as `net_denied`."""

    async def reach(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
        if ctx.kernel is not None and not await ask(ctx.kernel.cap.check_net(ctx.pid, "a.example")):
            raise ToolNetDenied("net not granted: a.example", reason="not_granted")
        return ToolResult.success({})

    response = await run(reach, {"tool": "Echo", "tool_call_id": "c9"}, kernel=ToyKernel(cap))
    assert (response.get("error"), response["tool_call_id"]) == (slug, "c9")
    assert ("net not granted" in response.get("message", "")) is (slug is not None)


# --- What a tool must not do -----------------------------------------------------------------------


def group(*errors: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup(SECRET, errors)


@pytest.mark.parametrize(
    ("error", "slug", "start"),
    [
        (ValueError(SECRET), "tool_failed", "ValueError: "),
        (KeyError(SECRET), "tool_failed", "KeyError: "),
        (RecursionError(SECRET), "tool_failed", "RecursionError: "),
        (StopAsyncIteration(SECRET), "tool_failed", "StopAsyncIteration: "),
        (group(OSError(SECRET)), "tool_failed", "OSError: "),
        # A nursery wraps what its tasks raise; a foreseen error stays one in there.
        (group(ToolNetDenied("No.")), "net_denied", "No."),
        (group(group(ToolInvalidArgs("Bad."))), "invalid_args", "Bad."),
        (group(ValueError(SECRET), ToolNetDenied("No.")), "net_denied", "No."),
    ],
)
async def test_no_exception_gets_out(
    error: Exception, slug: str, start: str, caplog: pytest.LogCaptureFixture
) -> None:
    """F-119, D-14: the type's name is told; the text neither to the agent, nor to audit or log."""
    caplog.set_level(logging.DEBUG)
    audit = Audit()
    response = await run(raising(error), audit=audit)
    assert (response["ok"], response["error"]) == (False, slug)
    assert response["message"].startswith(start)
    assert [event.payload["error"] for event in audit.events] == [slug]
    assert SECRET not in f"{response} {audit.events} {caplog.text}"


async def test_a_defect_can_be_found_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """F-119: type and place, at debug level."""
    caplog.set_level(logging.DEBUG, "tidegate.tools")
    await run(raising(ValueError(SECRET)))
    assert "ValueError" in caplog.text
    assert __file__ in caplog.text


@pytest.mark.parametrize("returned", [None, {"status": 200}, "text", 5])
async def test_a_tool_that_returns_something_else(returned: Any) -> None:
    """Section C, step 5: no result, no success."""

    async def call(args: Mapping[str, Any], ctx: ToolContext) -> Any:
        return returned

    response = await run(call)
    assert response["error"] == "tool_failed"
    assert type(returned).__name__ in response["message"]


async def test_a_tool_that_is_not_async() -> None:
    """F-119."""

    def call(args: Mapping[str, Any], ctx: ToolContext) -> Any:
        return {}

    assert (await run(call))["error"] == "tool_failed"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MESSAGES = JSON | st.fixed_dictionaries(
    {}, optional={"tool": st.just("Echo") | JSON, "args": JSON, "tool_call_id": JSON, "op": JSON}
)


# A shared machine may be slow; what is tested is no time.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(message=MESSAGES)
async def test_whatever_comes_there_is_one_answer_and_one_event(message: Any) -> None:
    """F-118, F-119."""
    audit = Audit()
    response = await dispatch(message, registry_of(spec()), pid=AGENT, audit=audit)
    keys = {"result"} if response["ok"] else {"error", "message"}
    assert set(response) == {"op", "tool_call_id", "ok"} | keys
    assert [event.payload["ok"] for event in audit.events] == [response["ok"]]


# --- Audit -----------------------------------------------------------------------------------------

ARGS = {"url": f"https://a.example/?key={SECRET}", "headers": {"Authorization": SECRET}, "body": SECRET}


@pytest.mark.parametrize(
    ("tool", "error"),
    [
        ("Echo", None),
        ("Nothing", "tool_not_found"),
        ("Ungranted", "permission_denied"),
        ("Denied", "net_denied"),
        ("Invalid", "invalid_args"),
        ("Failed", "tool_failed"),
        ("Broken", "tool_failed"),
    ],
)
async def test_each_call_is_one_event_without_arguments(tool: str, error: str | None) -> None:
    """F-118: `dispatched` on success, `denied` for every failure."""
    audit = Audit()
    registry = registry_of(
        spec(),
        spec("Ungranted"),
        spec("Denied", raising(ToolNetDenied("No."))),
        spec("Invalid", raising(ToolInvalidArgs("No."))),
        spec("Failed", raising(ToolFailed("No."))),
        spec("Broken", raising(ValueError(SECRET))),
    )
    kernel = kernel_with("Echo", "Denied", "Invalid", "Failed", "Broken")
    message = {"tool": tool, "args": ARGS, "tool_call_id": "c1"}
    await dispatch(message, registry, pid=AGENT, kernel=kernel, audit=audit)
    kind = "tool.call.denied" if error else "tool.call.dispatched"
    payload = {"tool": tool, "tool_call_id": "c1", "ok": error is None, "error": error}
    assert audit.events == [AuditEvent(AGENT, kind, payload)]
    assert SECRET not in repr(audit.events)


@pytest.mark.parametrize(("tool", "logged"), [("x" * 1000, "x" * 64), (None, ""), ({"key": SECRET}, "")])
async def test_the_name_in_the_event_is_short(tool: object, logged: str) -> None:
    """F-118: the agent chooses the name, not what the log has to keep."""
    audit = Audit()
    await run(echo, {"tool": tool, "args": ARGS}, audit=audit)
    assert audit.events[0].payload["tool"] == logged


async def test_an_audit_may_be_async() -> None:
    """F-118."""
    events: list[AuditEvent] = []

    async def audit(event: AuditEvent) -> None:
        await trio.lowlevel.checkpoint()
        events.append(event)

    assert (await run(echo, audit=audit))["ok"]
    assert [event.kind for event in events] == ["tool.call.dispatched"]


def broken_audit(event: AuditEvent) -> None:
    raise OSError(SECRET)


async def broken_async_audit(event: AuditEvent) -> None:
    await trio.lowlevel.checkpoint()
    raise OSError(SECRET)


async def broken_nursery_audit(event: AuditEvent) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broken_async_audit, event)


@pytest.mark.parametrize("audit", [broken_audit, broken_async_audit, broken_nursery_audit])
@pytest.mark.parametrize(("tool", "ok"), [("Echo", True), ("Nothing", False)])
async def test_a_failing_audit_changes_no_answer(
    audit: Callable[[AuditEvent], object], tool: str, ok: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Section C: audit failures are swallowed; the log has the type, not the text."""
    caplog.set_level(logging.DEBUG, "tidegate.tools")
    assert (await run(echo, {"tool": tool}, audit=audit))["ok"] is ok
    assert "audit raised OSError" in caplog.text
    assert SECRET not in caplog.text


async def test_an_audit_that_hangs_is_given_up(autojump_clock: MockClock) -> None:
    async def audit(event: AuditEvent) -> None:
        await trio.sleep_forever()

    start = trio.current_time()
    assert (await run(echo, audit=audit))["ok"]
    assert trio.current_time() - start == AUDIT_GRACE


# --- Cancellation ----------------------------------------------------------------------------------


async def wait(args: Mapping[str, Any], ctx: ToolContext) -> NoReturn:
    await trio.sleep_forever()
    raise AssertionError("sleep_forever came back")


async def wait_in_nursery(args: Mapping[str, Any], ctx: ToolContext) -> NoReturn:
    """Cancelled, this ends in a group of Cancelled."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        nursery.start_soon(trio.sleep_forever)
    raise AssertionError("the nursery ended")


async def fail_while_cancelled(args: Mapping[str, Any], ctx: ToolContext) -> NoReturn:
    """Cancelled, this ends in a group of Cancelled and an error: one task breaks while it cleans up."""

    async def break_on_the_way_out() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError(SECRET)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        nursery.start_soon(break_on_the_way_out)
    raise AssertionError("the nursery ended")


async def wait_then_raise_group(args: Mapping[str, Any], ctx: ToolContext) -> NoReturn:
    """The same nested deeper, and with an error that the tool foresees."""
    try:
        await trio.sleep_forever()
    except trio.Cancelled as cancelled:
        raise BaseExceptionGroup("", [BaseExceptionGroup("", [cancelled]), ToolNetDenied("No.")]) from None


@pytest.mark.parametrize("call", [wait, wait_in_nursery, fail_while_cancelled, wait_then_raise_group])
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_cancelled_call_is_cancelled_and_logged(
    call: Call, is_async: bool, autojump_clock: MockClock
) -> None:
    """F-118, F-119: Cancelled passes, alone and in groups; no answer, nothing else; the event is there."""
    sync_audit, answers = Audit(), []

    async def async_audit(event: AuditEvent) -> None:
        await trio.sleep(AUDIT_GRACE / 2)
        sync_audit(event)

    with trio.move_on_after(3) as scope:
        answers.append(await run(call, audit=async_audit if is_async else sync_audit))
    assert scope.cancelled_caught
    assert answers == []
    payload = {"tool": "Echo", "tool_call_id": "", "ok": False, "error": "cancelled"}
    assert sync_audit.events == [AuditEvent(AGENT, "tool.call.denied", payload)]


async def test_an_audit_that_hangs_holds_a_cancelled_call_only_so_long(autojump_clock: MockClock) -> None:
    async def audit(event: AuditEvent) -> None:
        await trio.sleep_forever()

    start = trio.current_time()
    with trio.move_on_after(3):
        await run(wait, audit=audit)
    assert trio.current_time() - start == 3 + AUDIT_GRACE


async def test_a_cancel_while_the_grant_is_asked_for(autojump_clock: MockClock) -> None:
    """A store that waits is cancelled like a tool: not taken for a no."""

    class WaitingStore(AsyncStore):
        async def check_tool(self, pid: object, name: str) -> bool:
            await trio.sleep_forever()
            raise AssertionError("sleep_forever came back")

    answers = []
    with trio.move_on_after(3) as scope:
        answers.append(await run(echo, kernel=ToyKernel(WaitingStore())))
    assert (scope.cancelled_caught, answers) == (True, [])


async def test_an_interrupt_passes() -> None:
    """What is no Exception is not ours to answer."""
    audit = Audit()
    with pytest.raises(KeyboardInterrupt):
        await run(raising(KeyboardInterrupt()), audit=audit)
    assert [event.payload["error"] for event in audit.events] == ["cancelled"]


# --- Arguments -------------------------------------------------------------------------------------

KNOWN = ("url", "method", "headers", "max_bytes", "timeout_s", "follow_redirects", "max_redirects")


async def read_arguments(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    """A tool with one argument of every kind."""
    given = Arguments(args, KNOWN)
    for name, value in given.mapping("headers").items():
        if not isinstance(value, str):
            raise wrong(f"headers[{quoted(name)}]", "a string", value)
    return ToolResult.success(
        {
            "url": given.required_text("url"),
            "method": given.text("method", "GET"),
            "headers": dict(given.mapping("headers")),
            "max_bytes": given.integer("max_bytes", 4096, low=1024, high=8192),
            "timeout_s": given.number("timeout_s", 30, low=1, high=120),
            "follow_redirects": given.flag("follow_redirects", False),
            "max_redirects": given.integer("max_redirects", 3, low=0, high=5),
        }
    )


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"method": None, "headers": None, "max_bytes": None, "timeout_s": None, "follow_redirects": None},
        {"method": "", "headers": {"A": "b"}, "max_bytes": 1024, "timeout_s": 1, "follow_redirects": True},
        {"max_bytes": 8192, "timeout_s": 120, "max_redirects": 0},
        {"timeout_s": 1.5},
        {"timeout_s": 120.0},
    ],
)
async def test_arguments_within_their_bounds(args: dict[str, Any]) -> None:
    """AMB-19, AMB-21: null is absent; an integer is a number too; the bounds belong to the range."""
    defaults = {"method": "GET", "headers": {}, "max_bytes": 4096, "timeout_s": 30.0}
    defaults |= {"follow_redirects": False, "max_redirects": 3}
    sent = {name: value for name, value in args.items() if value is not None}
    response = await run(read_arguments, {"tool": "Echo", "args": {"url": "x", **args}})
    assert response["result"] == {"url": "x", **defaults, **sent}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"url": None}, "url is missing; it must be a non-empty string."),
        ({"url": ""}, "url must be a non-empty string, not an empty string."),
        ({"url": ["x"]}, "url must be a non-empty string, not an array."),
        ({"method": 5}, "method must be a string, not the integer 5."),
        ({"headers": "A: b"}, "headers must be an object, not a string."),
        ({"headers": [SECRET]}, "headers must be an object, not an array."),
        ({"headers": {"A": "b", "C": None}}, "headers['C'] must be a string, not null."),
        *(
            ({"max_bytes": value}, f"max_bytes must be an integer from 1024 to 8192, not {kind}.")
            for value, kind in [
                (1023, "the integer 1023"),
                (8193, "the integer 8193"),
                (-1, "the integer -1"),
                (10**15, "an integer of more than 15 digits"),
                (10**5000, "an integer of more than 15 digits"),
                (2048.0, "the number 2048.0"),
                (True, "a boolean"),
                ("2048", "a string"),
                ({}, "an object"),
                (b"2048", "a value of the type bytes"),
            ]
        ),
        *(
            ({"timeout_s": value}, f"timeout_s must be a number from 1 to 120, not {kind}.")
            for value, kind in [
                (0, "the integer 0"),
                (0.999, "the number 0.999"),
                (121, "the integer 121"),
                (math.nan, "the number nan"),
                (math.inf, "the number inf"),
                (True, "a boolean"),
                (SECRET, "a string"),
            ]
        ),
        # In range as a number, were it one.
        ({"max_redirects": True}, "max_redirects must be an integer from 0 to 5, not a boolean."),
        ({"follow_redirects": "true"}, "follow_redirects must be true or false, not a string."),
        ({"follow_redirects": 1}, "follow_redirects must be true or false, not the integer 1."),
        ({"Method": "GET"}, "There is no argument 'Method'. Did you mean 'method'?"),
        ({"timeout": 5}, "There is no argument 'timeout'. Did you mean 'timeout_s'?"),
        ({"zzz": None}, "There is no argument 'zzz'."),
        ({"\n" * 1000: 1}, f"There is no argument '{chr(92)}n{(chr(92) + 'n') * 63}...'."),
        ({5: 1}, "There is no argument '5'."),
    ],
)
async def test_wrong_arguments_are_named(args: dict[Any, Any], message: str) -> None:
    """F-117, AMB-22: the argument, what it should be, what kind of value came. No text of the caller's."""
    response = await run(read_arguments, {"tool": "Echo", "args": {"url": "x", **args}})
    assert (response["error"], response["message"]) == ("invalid_args", message)
