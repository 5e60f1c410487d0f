"""`dispatch`: one answer and one audit event for every call, whatever the tool does."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.tools.toys import Call, echo, registry_of, spec
from tidegate_tools.dispatch import AUDIT_GRACE, AuditEvent, ask, call_tool, dispatch, dispatch_result
from tidegate_tools.grants import Grants, GrantStore
from tidegate_tools.registry import (
    Capabilities,
    ToolContext,
    ToolError,
    ToolFailed,
    ToolInvalidArgs,
    ToolNetDenied,
    ToolResult,
)

AGENT = 7
SECRET = "s3cr3t-token"


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


async def test_the_result_itself() -> None:
    """For hosts with an envelope of their own: with the reason and the advice, and with the same event."""
    denied = ToolNetDenied("No.", reason="private", how_to_allow="a rule")
    audit = Audit()
    registry = registry_of(spec(call=raising(denied)))
    result = await dispatch_result({"tool": "Echo"}, registry, pid=AGENT, audit=audit)
    assert result == ToolResult.failure(denied)
    result = await dispatch_result({"tool": "Nothing"}, registry, pid=AGENT, audit=audit)
    assert (result.error.slug, result.value) == ("tool_not_found", None)
    assert [event.payload["error"] for event in audit.events] == ["net_denied", "tool_not_found"]


# --- The envelope ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [{"status": 200, "body": "x"}, {}, '{"status": 200}', ""])
async def test_success(value: dict[str, Any] | str) -> None:
    """Section C: these four keys and no other; a text value (D-24) as well as an object."""

    async def call(args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
        return ToolResult.success(value)

    response = await run(call, {"tool": "Echo", "tool_call_id": "c1"})
    assert response == {"op": "tool_response", "tool_call_id": "c1", "ok": True, "result": value}


@pytest.mark.parametrize("kind", [ToolError, *ToolError.__subclasses__()])
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
        "error": kind.slug,
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


# --- A call alone -----------------------------------------------------------------------------------


async def test_a_call_alone_asks_nobody() -> None:
    """No grant, no event: those are of whoever calls; the context comes to the tool as it is."""
    ctx = ToolContext(AGENT, kernel_with())

    async def call(args: Mapping[str, Any], given: ToolContext) -> ToolResult:
        assert given is ctx
        return ToolResult.success(dict(args))

    assert await call_tool(spec(call=call), {"a": 1}, ctx) == ToolResult.success({"a": 1})


@pytest.mark.parametrize(
    ("error", "slug", "start"),
    [
        (ToolNetDenied("No.", reason="private"), "net_denied", "No."),
        (ExceptionGroup("x", [ValueError(SECRET), ToolFailed("It broke.")]), "tool_failed", "It broke."),
        (ValueError(SECRET), "tool_failed", "ValueError: "),
    ],
)
async def test_a_call_alone_never_raises(error: Exception, slug: str, start: str) -> None:
    result = await call_tool(spec(call=raising(error)), {}, ToolContext())
    assert result.error is not None
    assert (result.error.slug, result.error.message.startswith(start)) == (slug, True)
    assert SECRET not in result.error.message


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
