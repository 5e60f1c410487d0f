"""The program: `python -m tidegate.testing.origin`."""

import argparse
import itertools
import ssl
import sys
from dataclasses import replace
from typing import Final

import trio

from tidegate.testing._program import number_within, parse_address, parse_seconds, run_until_told
from tidegate.testing.origin.listeners import HandshakeFault, Listener, issue_tls
from tidegate.testing.origin.server import open_origin

_LARGEST_BUFFER: Final = (1 << 31) - 1  # what SO_RCVBUF takes


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tidegate.testing.origin",
        description="A hostile HTTP/1.1 origin for tests. Prints one line of JSON when it is ready.",
        epilog="GET / lists what it can do. It listens on a port of 127.0.0.1 if no address is given.",
    )
    _add_addresses(parser)
    _add_tls(parser)
    parser.add_argument(
        "--receive-buffer",
        metavar="BYTES",
        type=number_within(1, _LARGEST_BUFFER),
        help="SO_RCVBUF: a small one blocks uploads soon",
    )
    parser.add_argument(
        "--log-limit",
        metavar="COUNT",
        type=number_within(0, sys.maxsize),
        default=10_000,
        help="how many requests /requests remembers (10000)",
    )
    parser.add_argument("--exit-with-stdin", action="store_true", help="stop when standard input ends")
    return parser


def _add_addresses(parser: argparse.ArgumentParser) -> None:
    for option, what in {
        "--bind": "plain HTTP",
        "--tls-bind": "HTTP over TLS",
        "--silent-bind": "accept, and neither read nor write",
        "--stall-bind": "stall the TLS handshake",
    }.items():
        parser.add_argument(
            option, metavar="ADDRESS:PORT", action="append", type=parse_address, default=[], help=what
        )


def _add_tls(parser: argparse.ArgumentParser) -> None:
    count = number_within(0)
    parser.add_argument(
        "--stall-flight", metavar="NUMBER", type=count, help="the server's flight to stall, from 0 (0)"
    )
    parser.add_argument("--stall-after", metavar="BYTES", type=count, help="of that flight that are sent (0)")
    parser.add_argument(
        "--stall-interval",
        metavar="SECONDS",
        type=parse_seconds,
        help="before each of those bytes; 0 sends them together (0)",
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate chain, PEM")
    parser.add_argument("--tls-key", metavar="FILE", help="its key, PEM")
    parser.add_argument(
        "--tls-name",
        metavar="HOST",
        action="append",
        help="without --tls-cert: make a certificate for this host (localhost and both loopback addresses)",
    )
    parser.add_argument("--tls-authority", metavar="FILE", help="where to write who signed it, PEM")


def _parse() -> argparse.Namespace:
    """The options. One that would do nothing for want of another is a usage error."""
    parser = _arguments()
    options = parser.parse_args()
    for option, wanted, needs in (
        ("--tls-key", "--tls-cert", ["tls_cert"]),
        ("--tls-cert", "--tls-bind or --stall-bind", ["tls_bind", "stall_bind"]),
        ("--tls-name", "--tls-bind or --stall-bind", ["tls_bind", "stall_bind"]),
        ("--tls-authority", "--tls-bind or --stall-bind", ["tls_bind", "stall_bind"]),
        ("--stall-flight", "--stall-bind", ["stall_bind"]),
        ("--stall-after", "--stall-bind", ["stall_bind"]),
        ("--stall-interval", "--stall-bind", ["stall_bind"]),
    ):
        if _given(options, option) and not any(getattr(options, name) for name in needs):
            parser.error(f"{option} does nothing without {wanted}")
    for option in ("--tls-name", "--tls-authority"):
        if options.tls_cert and _given(options, option):
            parser.error(f"{option} is for a certificate that is made here, and --tls-cert brings one")
    return options


def _given(options: argparse.Namespace, option: str) -> bool:
    return getattr(options, option.removeprefix("--").replace("-", "_")) is not None


def _tls_context(options: argparse.Namespace) -> ssl.SSLContext:
    if options.tls_cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(options.tls_cert, options.tls_key)
        except OSError as error:
            files = " and ".join(filter(None, (options.tls_cert, options.tls_key)))
            raise ValueError(f"no certificate and key can be read from {files}: {error}") from error
        return context
    names = options.tls_name or ["localhost", "127.0.0.1", "::1"]
    try:
        authority, context = issue_tls(*names)
    except ValueError as error:
        raise ValueError(f"no certificate can be made for {', '.join(map(repr, names))}: {error}") from error
    if options.tls_authority:
        authority.cert_pem.write_to_path(options.tls_authority)
    return context


def _listeners(options: argparse.Namespace) -> dict[str, list[Listener]]:
    tls = _tls_context(options) if options.tls_bind or options.stall_bind else None
    fault = HandshakeFault(
        flight=options.stall_flight or 0,
        after=options.stall_after or 0,
        interval=options.stall_interval or 0.0,
    )
    kinds = {
        "plain": (options.bind, Listener()),
        "tls": (options.tls_bind, Listener(tls=tls)),
        "silent": (options.silent_bind, Listener(silent=True)),
        "stall": (options.stall_bind, Listener(tls=tls, handshake=fault)),
    }
    return {
        kind: [
            replace(listener, host=host, port=port, receive_buffer=options.receive_buffer)
            for host, port in addresses
        ]
        for kind, (addresses, listener) in kinds.items()
    }


async def _run(options: argparse.Namespace) -> None:
    kinds = _listeners(options)
    if not any(kinds.values()):
        kinds["plain"].append(Listener(receive_buffer=options.receive_buffer))
    async with open_origin(*itertools.chain(*kinds.values()), log_limit=options.log_limit) as origin:
        ports = iter(origin.ports)
        ready = {kind: [[one.host, next(ports)] for one in listeners] for kind, listeners in kinds.items()}
        await run_until_told(exit_with_stdin=options.exit_with_stdin, ready=ready)


def main() -> None:
    """Run the program; `tidegate.testing.origin` shows how."""
    try:
        trio.run(_run, _parse())
    except ModuleNotFoundError as error:
        sys.exit(f"tidegate.testing.origin: {'; '.join([str(error), *getattr(error, '__notes__', [])])}")
    except (OSError, ValueError) as error:
        sys.exit(f"tidegate.testing.origin: {error}")


if __name__ == "__main__":
    main()
