"""What the programs of this package share: addresses on the command line, lines of JSON, and when to stop."""

import argparse
import ipaddress
import json
import math
import signal
import sys
from collections.abc import Callable
from typing import Final

import trio

_MAX_PORT: Final = 65535


def parse_address(text: str) -> tuple[str, int]:
    """`127.0.0.1:80` or `[::1]:80` as host and port.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not ADDRESS:PORT; an IPv6 address stands in brackets")
    if len(port.lstrip("0")) > len(str(_MAX_PORT)) or int(port) > _MAX_PORT:
        # The system would take the lowest 16 bits of it.
        raise argparse.ArgumentTypeError(f"{text!r}: a port is at most {_MAX_PORT}; 0 lets the system choose")
    bare = host.removeprefix("[").removesuffix("]")
    try:
        version = ipaddress.ip_address(bare).version
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not ADDRESS:PORT; a name is no address") from None
    if host != (f"[{bare}]" if version == 6 else bare):
        raise argparse.ArgumentTypeError(f"{text!r} is not ADDRESS:PORT; an IPv6 address stands in brackets")
    return bare, int(port)


def number_within(least: int, most: int | None = None) -> Callable[[str], int]:
    """A `type` for an option: whole numbers from `least` to `most`."""
    span = f"{least} or more" if most is None else f"from {least} to {most}"

    def parse(text: str) -> int:
        digits = text.removeprefix("-")
        number = int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
        if number is None or number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"{text} is not a whole number, {span}")
        return number

    return parse


def parse_seconds(text: str) -> float:
    """A `type` for an option: seconds such as `0.25`, not negative, and finite.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds, 0 or more")
    return seconds


def naming_address(error: OSError, host: str, port: int) -> OSError:
    """`error`, met where this address was to be listened on, saying which one it was."""
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return OSError(error.errno, f"cannot listen on {shown}: {error.strerror or error}")


def print_json(value: object) -> None:
    """Write `value` as one line of JSON, at once: whoever started the program waits for it."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def run_until_told(*, exit_with_stdin: bool, ready: object = None) -> None:
    """Return at SIGINT or SIGTERM, or when standard input ends if asked to.

    Args:
        exit_with_stdin: whether the end of standard input is the end.
        ready: what to write with `print_json` first, if anything: signals are heard by then, so whoever waits
            for that line may send one at once.
    """
    async with trio.open_nursery() as nursery:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            if ready is not None:
                print_json(ready)
            if exit_with_stdin:
                nursery.start_soon(_cancel_after_stdin, nursery.cancel_scope)
            async for _ in signals:
                nursery.cancel_scope.cancel()


async def _cancel_after_stdin(scope: trio.CancelScope) -> None:
    await trio.to_thread.run_sync(sys.stdin.buffer.read, abandon_on_cancel=True)
    scope.cancel()
