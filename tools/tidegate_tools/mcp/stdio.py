"""The transport over standard input and output.

The SDK reads standard input in a thread that cannot be cancelled, so that Ctrl+C hangs until the client
closes the pipe (python-sdk #3551), and it says nothing to a message that is none. So both streams are our
own.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import trio
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from tidegate_tools.mcp.messages import MAX_MESSAGE, problem_of


async def serve_stdio(server: Server[Any]) -> None:
    """Serve the client at the other end of standard input and output, until it is gone.

    What anything prints meanwhile goes to standard error. POSIX only. Both must be open.
    """
    with _diverted() as (source, target), trio.CancelScope() as scope:
        async with trio.lowlevel.FdStream(source) as pipe_in, trio.lowlevel.FdStream(target) as pipe_out:
            output = _Output(pipe_out, scope)
            # Duck-typed: of a file the SDK uses no more than these methods.
            lines: Any = _Lines(pipe_in, output)
            writer: Any = output
            async with stdio_server(lines, writer) as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())


@contextmanager
def _diverted() -> Iterator[tuple[int, int]]:
    """Private duplicates of both, while 0 is empty and 1 is standard error; the taker closes them."""
    kept = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    # After `2>&-` the number 2 may be anything by now.
    os.dup2(2 if sys.stderr is not None else null, 1)
    os.close(null)
    try:
        yield os.dup(kept[0]), os.dup(kept[1])
    finally:
        for number, original in enumerate(kept):
            os.dup2(original, number)
            os.close(original)


class _Output:
    """Standard output, whole messages at a time. If the client has gone, the server ends."""

    def __init__(self, stream: trio.lowlevel.FdStream, scope: trio.CancelScope) -> None:
        self._stream = stream
        self._scope = scope
        self._lock = trio.Lock()

    async def write(self, text: str) -> None:
        try:
            async with self._lock:
                await self._stream.send_all(text.encode("utf-8", "replace"))
        except trio.BrokenResourceError:
            self._scope.cancel()
            await trio.lowlevel.checkpoint()

    async def flush(self) -> None:
        await trio.lowlevel.checkpoint()


class _Lines:
    """Standard input, line by line; a line that is no message is answered here, with an error."""

    def __init__(self, stream: trio.lowlevel.FdStream, output: _Output) -> None:
        self._stream = stream
        self._output = output
        self._buffer = bytearray()

    def __aiter__(self) -> "_Lines":
        return self

    async def __anext__(self) -> str:
        while (line := await self._next_line()) is not None:
            problem = problem_of(line)
            if problem is None:
                return line.decode()
            if line.strip():
                await self._output.write(json.dumps(problem) + "\n")
        raise StopAsyncIteration

    async def _next_line(self) -> bytes | None:
        """The next line, cut one byte behind `MAX_MESSAGE`; None at the end."""
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            # Of a line that is too long no more is kept than what shows that.
            del self._buffer[MAX_MESSAGE + 1 :]
            searched = len(self._buffer)
            piece = await self._stream.receive_some(64 * 1024)
            if not piece:
                rest, self._buffer = bytes(self._buffer), bytearray()
                return rest or None
            self._buffer += piece
        line = bytes(self._buffer[: min(end, MAX_MESSAGE + 1)])
        del self._buffer[: end + 1]
        return line
