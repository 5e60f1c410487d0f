"""`tidegate demo`: the engine fetching, refusing and cutting off, for real and without a network."""

import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import click
import trio

from tidegate import FetchError, Policy, StaticResolver, TCPConnector, client_context, open_engine
from tidegate_tools.cli.demo_scenes import EXCEPTION, NAME, SCENES, TABLE, Result, Scene, Stage
from tidegate_tools.cli.exits import CommandError, ExitCode
from tidegate_tools.cli.failures import write_json
from tidegate_tools.cli.running import run
from tidegate_tools.cli.trace import TellingConnector, TellingResolver

if TYPE_CHECKING:
    from rich.table import Table

_GRACE: Final = 2.0
"""Seconds that the origin has to end by itself."""

_START: Final = 10.0
"""Seconds that it has to begin: an interpreter, the engine and three certificates."""


@click.command("demo")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the table.")
@click.help_option("-h", "--help")
def command(as_json: bool) -> int:
    """Show the engine fetching, refusing and cutting off, without a network.

    An origin in a process of its own listens on loopback, which a private-range rule opens for one name;
    sockets and TLS are real. Every line says what was expected and what was measured; the exit code is 1 if
    they differ anywhere.
    """
    import trustme  # noqa: F401  # the origin needs it, and its process could only say so with a traceback

    held = run(_show_json if as_json else _show_table)
    return ExitCode.DONE if held else ExitCode.OTHER


@asynccontextmanager
async def _open_stage() -> AsyncIterator[Stage]:
    async with _open_origin() as ready:
        stage = Stage(
            plain=f"http://{NAME}:{ready['plain']}",
            tls=f"https://{NAME}:{ready['tls']}",
            untrusted=f"https://{NAME}:{ready['untrusted']}",
        )
        async with open_engine(
            Policy(private_ranges=[EXCEPTION]),
            resolver=TellingResolver(StaticResolver(TABLE), stage.on_answer),
            connector=TellingConnector(TCPConnector(), stage.on_connected),
            tls=client_context(ca_data=ready["ca"]),
        ) as stage.engine:
            yield stage


@asynccontextmanager
async def _open_origin() -> AsyncIterator[dict[str, Any]]:
    # -P: a module of the same name in the current directory must not be run.
    program = [sys.executable, "-P", "-m", "tidegate_tools.cli.demo_origin", NAME]
    process = await trio.lowlevel.open_process(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield await _greeting(process)
    finally:
        with trio.move_on_after(_GRACE, shield=True):
            assert process.stdin is not None
            await process.stdin.aclose()
            await process.wait()
        process.kill()


async def _greeting(process: trio.Process) -> dict[str, Any]:
    assert process.stdout is not None
    line = b""
    with trio.move_on_after(_START):
        while not line.endswith(b"\n") and (more := await process.stdout.receive_some()):
            line += more
    if not line.endswith(b"\n"):
        raise CommandError("the demo's origin did not start", reason="demo_failed")
    ready: dict[str, Any] = json.loads(line)
    return ready


async def _play(scene: Scene, stage: Stage) -> Result:
    """Play one scene; a fetch that ends as nobody expected is a result, too."""
    stage.forget()
    try:
        return await scene.play(stage)
    except FetchError as error:
        return Result(False, f"{error.reason}: {error.message}")


async def _show_json() -> bool:
    started = time.monotonic()
    async with _open_stage() as stage:
        results = [(scene, await _play(scene, stage)) for scene in SCENES]
    held = all(result.held for _, result in results)
    rows = [
        {"scene": scene.title, "expected": scene.expected, "measured": result.seen, "held": result.held}
        for scene, result in results
    ]
    write_json({"ok": held, "scenes": rows, "duration": time.monotonic() - started})
    return held


async def _show_table() -> bool:
    from rich.console import Console
    from rich.live import Live

    started = time.monotonic()
    table = _table()
    held = 0
    with Live(table, console=Console(), vertical_overflow="visible"):
        async with _open_stage() as stage:
            for scene in SCENES:
                result = await _play(scene, stage)
                held += result.held
                table.add_row(scene.title, scene.expected, result.seen, "yes" if result.held else "NO")
        table.caption = f"{held} of {len(SCENES)} held, in {time.monotonic() - started:.1f} s"
    return held == len(SCENES)


def _table() -> "Table":
    from rich.table import Table

    table = Table(
        title=f"tidegate: own origin on loopback, opened for {NAME} by a private-range rule", show_lines=True
    )
    for column in ("scene", "expected", "measured"):
        table.add_column(column, overflow="fold")
    table.add_column("held", no_wrap=True)
    return table
