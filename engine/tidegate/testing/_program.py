"""What the programs of this package share: addresses on the command line, lines of JSON, and when to stop."""

import argparse
import json
import signal
import sys

import trio


def parse_address(text: str) -> tuple[str, int]:
    """`127.0.0.1:80` or `[::1]:80` as host and port.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not ADDRESS:PORT; an IPv6 address stands in brackets")
    return host.removeprefix("[").removesuffix("]"), int(port)


def print_json(value: object) -> None:
    """Write `value` as one line of JSON, at once: whoever started the program waits for it."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def run_until_told(*, exit_with_stdin: bool) -> None:
    """Return at SIGINT or SIGTERM, or when standard input ends if asked to."""
    async with trio.open_nursery() as nursery:
        if exit_with_stdin:
            nursery.start_soon(_cancel_after_stdin, nursery.cancel_scope)
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                nursery.cancel_scope.cancel()


async def _cancel_after_stdin(scope: trio.CancelScope) -> None:
    await trio.to_thread.run_sync(sys.stdin.buffer.read, abandon_on_cancel=True)
    scope.cancel()
