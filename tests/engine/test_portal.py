"""The portal: one background trio thread for plain threads and for asyncio, on any loop."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio
import trio.testing

import tidegate
from tests.support.local_server import HOST, LocalServer, local_server
from tidegate.portal import Portal, PortalEngine, RunLocalEngine, in_caller, shared_portal
from tidegate.portal._callers import ThreadCaller
from tidegate.portal._thread import Call, TrioThread

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]

variable: ContextVar[str] = ContextVar("variable", default="unset")


@pytest.fixture
def portal() -> Iterator[Portal]:
    with Portal() as portal:
        yield portal


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with local_server() as server:
        yield server


@pytest.fixture(params=["asyncio", "uvloop"])
def run_loop(request: pytest.FixtureRequest) -> Run[Any]:
    """Runs a coroutine to its end in a new loop of one kind."""
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    if request.param == "uvloop":
        factory = pytest.importorskip("uvloop").new_event_loop

    def run(coroutine: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(coroutine)

    return run


async def add(one: int, other: int) -> int:
    await trio.lowlevel.checkpoint()
    return one + other


async def fail(error: BaseException) -> None:
    await trio.lowlevel.checkpoint()
    raise error


class Held:
    """A body that waits until it is cancelled, and takes a few steps to clean up."""

    def __init__(self, started: Callable[[], object]) -> None:
        self.log: list[str] = []
        self._started = started

    async def __call__(self) -> None:
        try:
            await in_caller(self._started)
            await trio.sleep_forever()
        except trio.Cancelled:
            self.log.append("cancelled")
            with trio.CancelScope(shield=True):
                for _ in range(20):
                    await trio.lowlevel.checkpoint()
            self.log.append("cleaned up")
            raise


# --- Values and errors ------------------------------------------------------------------------------------


def test_a_function_runs_in_one_daemon_thread(portal: Portal) -> None:
    async def where() -> threading.Thread:
        return threading.current_thread()

    threads = {portal.run_sync(where), portal.run_sync(where), asyncio.run(portal.run(where))}
    assert len(threads) == 1
    assert threads.pop().daemon
    assert portal.run_sync(add, 1, 2) == 3


def test_a_function_runs_from_a_loop(portal: Portal, run_loop: Run[int]) -> None:
    assert run_loop(portal.run(add, 1, 2)) == 3


def test_an_error_shows_where_it_came_from(portal: Portal, run_loop: Run[None]) -> None:
    calls: list[Callable[[], object]] = [
        lambda: portal.run_sync(fail, KeyError("mine")),
        lambda: run_loop(portal.run(fail, KeyError("mine"))),
    ]
    for call in calls:
        with pytest.raises(KeyError, match="mine") as caught:
            call()
        assert "fail" in [entry.name for entry in caught.traceback]


def test_what_is_no_exception_is_the_callers_and_leaves_the_portal_alone(portal: Portal) -> None:
    with pytest.raises(SystemExit, match="7"):
        portal.run_sync(fail, SystemExit(7))
    assert portal.run_sync(add, 1, 1) == 2


def test_a_function_that_is_not_async_is_the_callers_mistake(portal: Portal) -> None:
    with pytest.raises(TypeError):
        portal.run_sync(lambda: 5)  # type: ignore[arg-type, return-value]
    assert portal.run_sync(add, 1, 1) == 2


def test_context_variables_arrive_as_a_copy(portal: Portal, run_loop: Run[str]) -> None:
    async def body() -> str:
        seen = variable.get()
        variable.set("changed over there")
        return seen

    async def from_loop() -> str:
        variable.set("from the loop")
        return await portal.run(body)

    portal.start()
    token = variable.set("from the thread")
    assert portal.run_sync(body) == "from the thread"
    assert variable.get() == "from the thread"
    assert run_loop(from_loop()) == "from the loop"
    variable.reset(token)
    assert portal.run_sync(body) == "unset"


def test_the_thread_takes_nothing_of_whoever_came_first() -> None:
    seen: list[str] = []

    async def spawn() -> None:
        done = trio.Event()

        async def system_task() -> None:
            seen.append(variable.get())
            done.set()

        trio.lowlevel.spawn_system_task(system_task)
        await done.wait()

    token = variable.set("of the first caller")
    with Portal() as portal:
        portal.run_sync(spawn)
    variable.reset(token)
    assert seen == ["unset"]


def test_where_a_portal_cannot_be_used(portal: Portal) -> None:
    async def nested() -> None:
        portal.run_sync(add, 1, 2)

    async def nested_async() -> None:
        await portal.run(add, 1, 2)

    async def blocking_in_trio() -> None:
        Portal().run_sync(add, 1, 2)

    calls: list[Callable[[], object]] = [
        lambda: portal.run_sync(nested),
        lambda: portal.run_sync(nested_async),
        lambda: trio.run(blocking_in_trio),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="this thread runs trio"):
            call()
    with pytest.raises(RuntimeError, match="no running event loop"):
        portal.run(add, 1, 2).send(None)


# --- Cancellation from asyncio ----------------------------------------------------------------------------


async def cancelled_by_task(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def cancelled_twice(task: "asyncio.Task[None]") -> None:
    task.cancel()
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("cancel", [cancelled_by_task, cancelled_twice])
def test_a_cancelled_caller_goes_on_when_trio_has_cleaned_up(
    portal: Portal, run_loop: Run[None], cancel: Callable[[Any], Awaitable[None]]
) -> None:
    async def main() -> None:
        started = asyncio.Event()
        body = Held(started.set)
        task = asyncio.create_task(portal.run(body))
        await started.wait()
        await cancel(task)
        assert body.log == ["cancelled", "cleaned up"]

    run_loop(main())


def test_a_time_out_of_asyncio(portal: Portal, run_loop: Run[None]) -> None:
    async def main() -> None:
        body = Held(lambda: deadline.reschedule(asyncio.get_running_loop().time()))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as deadline:
                await portal.run(body)
        assert body.log == ["cancelled", "cleaned up"]

    run_loop(main())


def test_a_sibling_in_a_task_group(portal: Portal, run_loop: Run[None]) -> None:
    async def main() -> None:
        started = asyncio.Event()
        body = Held(started.set)

        async def sibling() -> None:
            await started.wait()
            raise KeyError("mine")

        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                group.create_task(portal.run(body))
                group.create_task(sibling())
        assert [type(error) for error in caught.value.exceptions] == [KeyError]
        assert body.log == ["cancelled", "cleaned up"]

    run_loop(main())


def test_a_cancellation_that_comes_before_the_function_begins(portal: Portal, run_loop: Run[None]) -> None:
    begun = []

    async def body() -> None:
        await trio.lowlevel.checkpoint()
        begun.append(True)

    async def main() -> None:
        task = asyncio.create_task(portal.run(body))
        # Queued before the answer can be: the loop gets to it first.
        asyncio.get_running_loop().call_soon(task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    async def hold_thread_up() -> None:
        blocked.set()
        assert may_go_on.wait(30)

    # With the trio thread held up, the cancellation is sure to overtake.
    blocked, may_go_on = threading.Event(), threading.Event()
    holder = threading.Thread(target=portal.run_sync, args=[hold_thread_up])
    holder.start()
    assert blocked.wait(30)

    async def release_when_cancelled() -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: loop.call_soon(lambda: loop.call_soon(may_go_on.set)))
        await main()

    run_loop(release_when_cancelled())
    holder.join()
    assert begun == []


def test_a_loop_that_is_torn_down_leaves_nothing_running(portal: Portal) -> None:
    loop = asyncio.new_event_loop()
    cancelled = threading.Event()

    async def body() -> None:
        loop.call_soon_threadsafe(loop.stop)
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    coroutine = portal.run(body)
    task = loop.create_task(coroutine)
    loop.run_forever()
    coroutine.close()
    loop.close()
    assert cancelled.wait(30)
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own switch for this warning


def test_what_was_asked_of_a_loop_that_has_closed_holds_nobody_up(portal: Portal) -> None:
    loop = asyncio.new_event_loop()
    errors: list[BaseException] = []
    closed, ended = threading.Event(), threading.Event()

    async def body() -> None:
        loop.call_soon_threadsafe(loop.stop)
        try:
            await trio.to_thread.run_sync(closed.wait)
            await in_caller(print)
        except RuntimeError as error:
            errors.append(error)
        finally:
            ended.set()

    coroutine = portal.run(body)
    task = loop.create_task(coroutine)
    loop.run_forever()
    loop.close()
    closed.set()
    assert ended.wait(30)
    assert [str(error) for error in errors] == ["Event loop is closed"]
    coroutine.close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # as above


# --- Interruption of a thread -----------------------------------------------------------------------------


ROOT = Path(__file__).resolve().parents[2]


def run_program(code: str, *args: object) -> "subprocess.Popen[str]":
    """Start a Python program beside us."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


HELD = """
import asyncio, signal, sys, trio
from tidegate.portal import Portal, in_caller
signal.signal(signal.SIGINT, signal.default_int_handler)
portal = Portal()

async def body():
    try:
        print("started", flush=True)
        await trio.sleep_forever()
    finally:
        with trio.CancelScope(shield=True):
            for _ in range(20):
                await trio.lowlevel.checkpoint()
        print("cleaned up", flush=True)
"""


@pytest.mark.parametrize("call", ["portal.run_sync(body)", "asyncio.run(portal.run(body))"])
def test_ctrl_c(call: str) -> None:
    """A real SIGINT in the waiting main thread: cleaned up over there, then KeyboardInterrupt here."""
    with run_program(
        f"{HELD}\ntry:\n    {call}\nexcept KeyboardInterrupt:\n    print('interrupted')"
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "started\n"
        program.send_signal(signal.SIGINT)
        output, errors = program.communicate(timeout=30)
    assert (program.returncode, output, errors) == (0, "cleaned up\ninterrupted\n", "")


def test_an_interruption_within_what_is_asked_of_the_caller(portal: Portal) -> None:
    """Ctrl+C strikes wherever the main thread is: in a kernel's own code, say."""
    log = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    async def body() -> None:
        try:
            await in_caller(interrupted)
        finally:
            log.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        portal.run_sync(body)
    assert log == ["cleaned up"]


def test_an_interrupted_caller_still_answers_while_the_body_cleans_up(portal: Portal) -> None:
    log: list[str] = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    async def body() -> None:
        try:
            await in_caller(interrupted)
        finally:
            with trio.CancelScope(shield=True):
                await in_caller(log.append, threading.current_thread().name)

    with pytest.raises(KeyboardInterrupt):
        portal.run_sync(body)
    assert log == ["tidegate-portal"]


# --- The end ----------------------------------------------------------------------------------------------


def test_closing_ends_calls_under_way(run_loop: Run[None]) -> None:
    """Mapped to EngineClosed, from a thread and from a loop, after both have cleaned up."""
    portal = Portal()
    in_thread = threading.Event()
    thread_body = Held(in_thread.set)
    errors: list[BaseException] = []

    def call_from_thread() -> None:
        try:
            portal.run_sync(thread_body)
        except tidegate.EngineClosed as error:
            errors.append(error)

    async def main() -> None:
        started = asyncio.Event()
        body = Held(started.set)
        task = asyncio.create_task(portal.run(body))
        await started.wait()
        await portal.aclose()
        with pytest.raises(tidegate.EngineClosed, match="the portal is closed"):
            await task
        assert body.log == ["cancelled", "cleaned up"]

    thread = threading.Thread(target=call_from_thread)
    thread.start()
    assert in_thread.wait(30)
    run_loop(main())
    thread.join()
    assert len(errors) == 1
    assert thread_body.log == ["cancelled", "cleaned up"]


def test_a_closed_portal_stays_closed() -> None:
    portal = Portal()
    portal.close()
    portal.close()
    with Portal() as used:
        used.start()
    for closed in (portal, used):
        with pytest.raises(tidegate.EngineClosed):
            closed.start()
        with pytest.raises(tidegate.EngineClosed):
            closed.run_sync(add, 1, 2)
        with pytest.raises(tidegate.EngineClosed):
            asyncio.run(closed.run(add, 1, 2))


def test_a_call_that_slips_in_as_the_portal_closes() -> None:
    """Neither lost nor run: whoever waits hears of it. A race, so it is played with the thread itself."""
    thread = TrioThread()
    first, late, too_late = (ThreadCaller() for _ in range(3))
    late_call = Call(late, add, (1, 2))

    async def stop_and_slip_in() -> None:
        thread.request_stop()
        thread.start(late_call)

    thread.start(Call(first, stop_and_slip_in, ()))
    late.wait()
    with pytest.raises(tidegate.EngineClosed):
        late_call.result()
    thread.stop()
    with pytest.raises(tidegate.EngineClosed):
        thread.start(Call(too_late, add, (1, 2)))
    thread.cancel(late_call)  # harmless
    thread.stop()


def test_a_thread_that_breaks_down_leaves_nobody_waiting(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug in somebody's trio code that takes the whole run with it; the next call starts a new one."""
    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)

    async def where() -> threading.Thread:
        return threading.current_thread()

    async def break_down() -> None:
        async def broken() -> None:
            raise KeyError("a bug")

        trio.lowlevel.spawn_system_task(broken)
        await trio.sleep_forever()

    thread = portal.run_sync(where)
    with pytest.raises(tidegate.EngineClosed):
        portal.run_sync(break_down)
    thread.join(30)
    assert [each.exc_type for each in told] == [trio.TrioInternalError]
    assert portal.run_sync(where) is not thread


def test_a_call_that_comes_while_the_thread_breaks_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused as well, though there is nothing left that could run it."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    thread = TrioThread()
    late = ThreadCaller()
    late_call = Call(late, add, (1, 2))

    async def last_words() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
            thread.start(late_call)

    async def break_down() -> None:
        trio.lowlevel.spawn_system_task(last_words)
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.spawn_system_task(fail, KeyError("a bug"))

    thread.start(Call(ThreadCaller(), break_down, ()))
    late.wait()
    with pytest.raises(tidegate.EngineClosed):
        late_call.result()
    thread.stop()
    assert not thread.is_alive


def test_a_portal_that_nobody_holds_ends_its_thread() -> None:
    async def where() -> threading.Thread:
        return threading.current_thread()

    portal = Portal()
    thread = portal.run_sync(where)
    del portal
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()


def test_async_with() -> None:
    async def main() -> None:
        async with Portal() as portal:
            assert await portal.run(add, 1, 2) == 3
        with pytest.raises(tidegate.EngineClosed):
            await portal.run(add, 1, 2)

    asyncio.run(main())


NEVER_CLOSED = """
import contextlib, sys, threading, trio
from tests.support.local_server import HOST
import tidegate
from tidegate.portal import shared_portal

policy = tidegate.Policy(private_ranges=[tidegate.PrivateRange("127.0.0.0/8", HOST)])
resolver = tidegate.StaticResolver({HOST: ["127.0.0.1"]})
engine = shared_portal().engine(policy, resolver=resolver)
url = f"http://{HOST}:{sys.argv[1]}"
assert engine.fetch_sync(f"{url}/echo").status == 200
"""

CALL_UNDER_WAY = """
def hold():
    with contextlib.suppress(tidegate.EngineClosed):
        engine.fetch_sync(f"{url}/hold")

threading.Thread(target=hold, daemon=True).start()
sys.stdin.readline()
"""


@pytest.mark.parametrize("last", ["", CALL_UNDER_WAY], ids=["an idle connection", "a call under way"])
def test_a_process_that_never_closes_its_portal_ends_at_once(server: LocalServer, last: str) -> None:
    with run_program(f"{NEVER_CLOSED}{last}\nprint('the end')", server.port) as program:
        if last:
            server.wait_until_held()
        output, errors = program.communicate("\n", timeout=30)
    assert (program.returncode, output, errors) == (0, "the end\n", "")
    if last:
        server.wait_until_hung_up()


FORKED = f"""{NEVER_CLOSED}
import os
child = os.fork()
response = engine.fetch_sync(f"{{url}}/echo")     # in both
assert response.status == 200
assert response.hops[0].reused is bool(child)     # the child has none of its parent's connections
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("child" if not child else "parent", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_starts_afresh(server: LocalServer) -> None:
    # From 3.12 on, Python warns of forks with threads about; that is what is tested.
    with run_program(f"import warnings\nwarnings.simplefilter('ignore')\n{FORKED}", server.port) as program:
        output, errors = program.communicate(timeout=60)
    assert (program.returncode, output, errors) == (0, "child\nparent\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_fork_while_another_thread_starts_the_portal() -> None:
    """The lock that it holds is a copy in the child, where nobody is left to release it."""
    code = """
import os, signal, warnings
from tidegate.portal import Portal
warnings.simplefilter("ignore")
portal = Portal()
portal._lock.acquire()
child = os.fork()
if not child:
    signal.alarm(20)
    portal.start()
    portal.close()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
portal._lock.release()
"""
    with run_program(code) as program:
        output, errors = program.communicate(timeout=60)
    assert (output, errors) == ("0\n", "")


def test_a_thread_that_cannot_start_says_why() -> None:
    code = """
import resource, os
from tidegate.portal import Portal
portal = Portal()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")), hard))
try:
    portal.start()
except OSError as error:
    print(error.errno)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
portal.start()
print("started")
"""
    with run_program(code) as program:
        output, errors = program.communicate(timeout=30)
    assert (output, errors) == ("24\nstarted\n", "")


# --- Many callers -----------------------------------------------------------------------------------------


def test_a_busy_loop_does_not_hold_up_trio(portal: Portal) -> None:
    """The asyncio loop stands still, and lives on only because a call over there has come to its end."""
    ended = threading.Event()

    async def body() -> None:
        with trio.move_on_after(0.01):
            await trio.sleep_forever()
        ended.set()

    async def main() -> None:
        task = asyncio.create_task(portal.run(body))
        await asyncio.sleep(0)
        assert ended.wait(30)
        await task

    asyncio.run(main())


def test_loops_and_threads_share_one_engine(portal: Portal, server: LocalServer) -> None:
    """Three loops with 50 calls each, and two plain threads, in one trio run over one pool."""
    engine = portal.engine(**server.options)
    results: list[int] = []

    async def many() -> None:
        responses = await asyncio.gather(
            *(engine.fetch(server.url(f"/bytes?size={size}")) for size in range(50))
        )
        results.extend(len(response.content) for response in responses)

    def one_by_one() -> None:
        responses = [engine.fetch_sync(server.url(f"/bytes?size={size}")) for size in range(50)]
        results.extend(len(response.content) for response in responses)

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(3)]
    threads += [threading.Thread(target=one_by_one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted([*range(50)] * 5)


# --- Asking the caller ------------------------------------------------------------------------------------


def test_a_thread_answers_where_it_waits(portal: Portal) -> None:
    async def body() -> tuple[int, int]:
        return await in_caller(threading.get_ident), threading.get_ident()

    asked, own = portal.run_sync(body)
    assert asked == threading.get_ident() != own


def test_a_loop_answers_in_its_own_thread_and_context(portal: Portal, run_loop: Run[None]) -> None:
    async def asked(suffix: str) -> str:
        await asyncio.sleep(0)
        return variable.get() + suffix

    async def body() -> list[Any]:
        return [await in_caller(threading.get_ident), await in_caller(asked, "!")]

    async def main() -> None:
        variable.set("of the loop")
        assert await portal.run(body) == [threading.get_ident(), "of the loop!"]

    run_loop(main())


async def test_in_trio_itself_nobody_is_in_between() -> None:
    assert await in_caller(threading.get_ident) == threading.get_ident()
    assert await in_caller(add, 1, 2) == 3


def test_an_awaitable_of_a_plain_thread_is_awaited_by_trio(portal: Portal) -> None:
    async def body() -> int:
        return await in_caller(add, 1, 2)

    assert portal.run_sync(body) == 3


def test_what_was_asked_may_fail(portal: Portal, run_loop: Run[str]) -> None:
    def broken() -> None:
        raise KeyError("mine")

    async def broken_async() -> None:
        raise KeyError("mine")

    async def body(asked: Callable[[], Any]) -> str:
        try:
            await in_caller(asked)
        except KeyError as error:
            return str(error)
        return "no error"

    assert portal.run_sync(body, broken) == "'mine'"
    for asked in (broken, broken_async):
        assert run_loop(portal.run(body, asked)) == "'mine'"


def test_a_cancellation_goes_out_and_back_in(portal: Portal, run_loop: Run[None]) -> None:
    """The caller's task is cancelled, so the body is, so what it asked of the caller's loop is."""
    log: list[str] = []

    async def main() -> None:
        started = asyncio.Event()

        async def asked() -> None:
            try:
                started.set()
                await asyncio.get_running_loop().create_future()
            finally:
                await asyncio.sleep(0)
                log.append("asked")

        async def body() -> None:
            try:
                await in_caller(asked)
            finally:
                log.append("body")

        task = asyncio.create_task(portal.run(body))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        log.append("caller")

    run_loop(main())
    assert log == ["asked", "body", "caller"]


def test_a_cancellation_of_what_was_asked_is_an_error_over_there(portal: Portal) -> None:
    """asyncio.CancelledError is no Exception; it must not tear through the trio run."""

    async def asked() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async def body() -> None:
        await in_caller(asked)

    with pytest.raises(RuntimeError, match="the caller's loop cancelled"):
        asyncio.run(portal.run(body))


def test_a_plain_function_that_was_given_up_before_it_began_is_not_called(portal: Portal) -> None:
    called: list[str] = []
    given_up = threading.Event()

    async def body() -> None:
        token, begun = trio.lowlevel.current_trio_token(), trio.Event()

        def first() -> None:
            called.append("first")
            token.run_sync_soon(begun.set)
            assert given_up.wait(30)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(in_caller, first)
            await begun.wait()
            nursery.start_soon(in_caller, called.append, "second")
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        given_up.set()

    portal.run_sync(body)
    assert called == ["first"]


# --- An engine behind a portal ----------------------------------------------------------------------------


def test_fetch_and_check(portal: Portal, server: LocalServer, run_loop: Run[None]) -> None:
    engine = portal.engine(**server.options)
    url = server.url("/echo")
    assert engine.fetch_sync(url, headers={"X-Mine": "1"}).content.startswith(b"GET /echo HTTP/1.1\n")
    assert engine.check_sync(url).allowed
    assert not engine.check_sync("http://127.0.0.1/").allowed
    mistakes: list[Any] = [{"limits": "none"}, {"key": []}]
    for wrong in mistakes:
        with pytest.raises(tidegate.InvalidArgument):
            engine.check_sync(url, **wrong)

    async def main() -> None:
        response = await engine.fetch(url, method="POST", content=b"content")
        assert response.content.endswith(b"\n\ncontent")
        assert (await engine.check(url, method="POST")).allowed
        with pytest.raises(tidegate.AddressDenied):
            await engine.fetch(server.url("/", "127.0.0.1"))

    run_loop(main())


def test_authorize_is_asked_where_the_caller_lives(
    portal: Portal, server: LocalServer, run_loop: Run[None]
) -> None:
    engine = portal.engine(**server.options)
    asked: list[tuple[str, int]] = []

    def authorize(host: str) -> bool:
        asked.append((host, threading.get_ident()))
        return len(asked) < 5

    async def authorize_async(host: str) -> bool:
        await asyncio.sleep(0)
        return authorize(host)

    async def main() -> None:
        await engine.fetch(server.url("/echo"), authorize=authorize_async)
        assert (await engine.check(server.url("/echo"), authorize=authorize_async)).allowed
        with pytest.raises(tidegate.HostDenied):
            await engine.fetch(server.url("/echo"), authorize=authorize_async)
        verdict = await engine.check(server.url("/echo"), authorize=authorize_async)
        assert verdict.reason is tidegate.Reason.NOT_GRANTED

    engine.fetch_sync(server.url("/echo"), authorize=authorize)
    assert engine.check_sync(server.url("/echo"), authorize=authorize).allowed
    run_loop(main())
    assert asked == [(HOST, threading.get_ident())] * 6


def test_content_in_pieces_from_a_loop(portal: Portal, server: LocalServer, run_loop: Run[bytes]) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"one", b"two"):
            await asyncio.sleep(0)
            yield piece

    async def main() -> bytes:
        sent = portal.engine(**server.options).fetch(server.url("/echo"), method="POST", content=pieces())
        return (await sent).content

    assert b"Transfer-Encoding: chunked" in run_loop(main())


def test_stream(portal: Portal, server: LocalServer, run_loop: Run[None]) -> None:
    engine = portal.engine(**server.options)
    limits = tidegate.Limits(max_content=99_999)

    async def main() -> None:
        async with engine.stream(server.url("/bytes?size=100000"), limits=limits) as response:
            assert response.announced == 100_000
            assert sum([len(piece) async for piece in response]) == 99_999
        assert response.truncated
        assert not response.complete

    run_loop(main())
    with engine.stream(server.url("/bytes?size=100000")) as response:
        assert (response.status, response.reason_phrase, response.http_version) == (200, "OK", "1.1")
        assert response.headers["content-type"] == "text/plain"
        assert sum(map(len, response)) == 100_000
    assert response.complete
    assert not response.truncated
    assert (response.codings, len(response.trailers), len(response.hops)) == ((), 0, 1)
    assert str(response.url) == server.url("/bytes?size=100000")


def test_a_stream_that_is_left_early_hangs_up(portal: Portal, server: LocalServer) -> None:
    engine = portal.engine(**server.options)
    with pytest.raises(KeyError), engine.stream(server.url("/bytes?size=10000000")) as response:
        next(iter(response))
        raise KeyError
    with engine.stream(server.url("/echo")) as response:
        assert response.status == 200


def test_a_cancelled_fetch_hangs_up(portal: Portal, server: LocalServer, run_loop: Run[None]) -> None:
    engine = portal.engine(**server.options)

    async def main() -> None:
        task = asyncio.create_task(engine.fetch(server.url("/hold")))
        await asyncio.to_thread(server.wait_until_held)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(server.wait_until_hung_up)

    run_loop(main())


def test_a_check_has_a_deadline(portal: Portal, run_loop: Run[None]) -> None:
    class Hangs:
        async def resolve(self, host: str) -> Any:
            await trio.sleep_forever()

    engine, limits = portal.engine(resolver=Hangs()), tidegate.Limits(timeout=0.05)

    async def main() -> None:
        with pytest.raises(tidegate.DeadlineExceeded):
            await engine.check("http://a.example/", limits=limits, key="agent")

    run_loop(main())
    with pytest.raises(tidegate.DeadlineExceeded) as caught:
        engine.check_sync("http://a.example/", limits=limits, key="agent")
    assert caught.value.phase is tidegate.Phase.RESOLVE


def test_one_portal_for_the_process(server: LocalServer) -> None:
    assert shared_portal() is shared_portal()
    assert shared_portal().engine(**server.options).fetch_sync(server.url("/echo")).status == 200


# --- One engine a trio run --------------------------------------------------------------------------------


@pytest.fixture
def own_server() -> Iterator[LocalServer]:
    """One that no other test has left a connection to."""
    with local_server() as server:
        yield server


def test_each_run_has_its_engine_and_leaves_nothing_open(own_server: LocalServer) -> None:
    server, engine = own_server, RunLocalEngine(**own_server.options)
    engines = []

    async def main() -> None:
        first = await engine.get()
        engines.append(first)
        assert await engine.get() is first
        assert (await first.fetch(server.url("/echo"))).status == 200
        assert (await first.fetch(server.url("/echo"))).hops[0].reused

    trio.run(main)
    server.wait_until_unconnected()
    trio.run(main)
    server.wait_until_unconnected()
    assert engines[0] is not engines[1]

    async def too_late() -> None:
        await engines[0].fetch(server.url("/echo"))

    with pytest.raises(tidegate.EngineClosed):
        trio.run(too_late)


async def test_whoever_asks_at_the_same_time_gets_the_same_engine() -> None:
    engine = RunLocalEngine()
    got = []

    async def get() -> None:
        got.append(await engine.get())

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(get)
    assert got == [got[0]] * 3


async def test_an_engine_that_cannot_be_opened_says_so_each_time() -> None:
    engine = RunLocalEngine(max_idle=-1)
    for _ in range(2):
        with pytest.raises(ValueError, match="max_idle"):
            await engine.get()


async def test_a_run_whose_first_asker_is_cancelled_gets_its_engine_all_the_same() -> None:
    engine = RunLocalEngine()
    with trio.CancelScope() as scope:
        scope.cancel()
        await engine.get()
    assert scope.cancelled_caught
    assert isinstance(await engine.get(), tidegate.Engine)


# --- Engines that nobody holds any more -------------------------------------------------------------------


async def tasks_living() -> int:
    await trio.testing.wait_all_tasks_blocked()
    return trio.lowlevel.current_statistics().tasks_living


def test_engines_that_are_dropped_leave_nothing_behind(portal: Portal, own_server: LocalServer) -> None:
    """Not a task, not an idle connection; whoever makes one a request must not fill a portal up."""
    before = portal.run_sync(tasks_living)
    for _ in range(5):
        engine = portal.engine(**own_server.options)
        assert engine.fetch_sync(own_server.url("/echo")).status == 200
        del engine
        gc.collect()
    own_server.wait_until_unconnected()
    assert portal.run_sync(tasks_living) == before


def test_a_stream_holds_its_engine(portal: Portal, server: LocalServer) -> None:
    with portal.engine(**server.options).stream(server.url("/bytes?size=300000")) as response:
        gc.collect()
        portal.run_sync(trio.testing.wait_all_tasks_blocked)
        assert sum(map(len, response)) == 300_000


async def test_an_engine_of_a_run_ends_with_its_owner() -> None:
    owner = RunLocalEngine()
    before = await tasks_living()
    engine = await owner.get()
    gc.collect()
    assert await tasks_living() == before + 1
    del owner
    gc.collect()
    assert await tasks_living() == before
    with pytest.raises(tidegate.EngineClosed):
        await engine.fetch("http://a.example/")


def test_an_owner_that_is_dropped_after_its_run_says_nothing() -> None:
    owner = RunLocalEngine()
    runs = []

    async def main(get: Callable[[], Awaitable[object]]) -> None:
        runs.append(trio.lowlevel.current_trio_token())
        await get()

    trio.run(main, owner.get)
    with pytest.MonkeyPatch.context() as patch:
        unraisable: list[object] = []
        patch.setattr(sys, "unraisablehook", unraisable.append)
        del owner
        gc.collect()
    assert unraisable == []


# --- Streams that outlive their engine --------------------------------------------------------------------


def test_a_stream_that_outlives_its_portal_hangs_up(own_server: LocalServer) -> None:
    """When the portal closes, not when the garbage collector comes by."""
    portal = Portal()
    stream = portal.engine(**own_server.options).stream(own_server.url("/bytes?size=9000000"))
    with pytest.raises(tidegate.EngineClosed, match="the portal is closed"), stream as response:
        next(iter(response))
        portal.close()
        own_server.wait_until_unconnected()
        with pytest.raises(tidegate.EngineClosed, match="the portal is closed"):
            next(iter(response))


def test_a_stream_that_outlives_its_run_hangs_up(own_server: LocalServer) -> None:
    streams = []

    async def main(engine: RunLocalEngine) -> None:
        streams.append((await engine.get()).stream(own_server.url("/bytes?size=9000000")))
        await anext(await streams[0].__aenter__())

    owner = RunLocalEngine(**own_server.options)
    trio.run(main, owner)
    own_server.wait_until_unconnected()
    assert len(streams) == 1


# --- Streams that nobody leaves -----------------------------------------------------------------------------


def dropped(engine: PortalEngine, url: str) -> None:
    next(iter(engine.stream(url).__enter__()))


def left_to_a_thread_that_ended(engine: PortalEngine, url: str) -> None:
    thread = threading.Thread(target=dropped, args=(engine, url))
    thread.start()
    thread.join()


def left_to_a_loop_that_is_closed(engine: PortalEngine, url: str) -> None:
    async def main() -> None:
        async with engine.stream(url) as response:
            await anext(response)
            started.set_result(None)
            await asyncio.sleep(3600)

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)  # which tells of the task that is thrown away
    started = loop.create_future()
    task = loop.create_task(main())
    loop.run_until_complete(started)
    loop.close()
    del task


@pytest.mark.parametrize("lose", [dropped, left_to_a_thread_that_ended, left_to_a_loop_that_is_closed])
def test_a_lost_stream_gives_its_slot_back(
    lose: Callable[[PortalEngine, str], None], own_server: LocalServer, portal: Portal
) -> None:
    """It would keep it for as long as the engine lives."""
    engine = portal.engine(**own_server.options, max_concurrency=1)
    lose(engine, own_server.url("/bytes?size=9000000"))
    gc.collect()
    own_server.wait_until_unconnected()
    limits = tidegate.Limits(timeout=20)
    assert engine.fetch_sync(own_server.url("/bytes?size=9"), limits=limits).status == 200
