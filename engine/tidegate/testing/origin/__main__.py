"""The program: `python -m tidegate.testing.origin`."""

import argparse
import itertools
import ssl
import sys
from dataclasses import replace

import trio

from tidegate.testing._program import parse_address, print_json, run_until_told
from tidegate.testing.origin.listeners import HandshakeFault, Listener, issue_tls
from tidegate.testing.origin.server import open_origin


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tidegate.testing.origin",
        description="A hostile HTTP/1.1 origin for tests. Prints one line of JSON when it is ready.",
        epilog="GET / lists what it can do. It listens on a port of 127.0.0.1 if no address is given.",
    )
    _add_addresses(parser)
    _add_tls(parser)
    parser.add_argument(
        "--receive-buffer", metavar="BYTES", type=int, help="SO_RCVBUF: a small one blocks uploads soon"
    )
    parser.add_argument("--log-limit", type=int, default=10_000, help="how many requests /requests remembers")
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
    parser.add_argument("--stall-flight", type=int, default=0, help="the server's flight to stall, from 0")
    parser.add_argument("--stall-after", type=int, default=0, help="bytes of that flight that are sent")
    parser.add_argument(
        "--stall-interval",
        metavar="SECONDS",
        type=float,
        default=0.0,
        help="before each of those bytes; 0 sends them together",
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate chain, PEM")
    parser.add_argument("--tls-key", metavar="FILE", help="its key, PEM")
    parser.add_argument(
        "--tls-name", action="append", help="without --tls-cert: make a certificate for this host"
    )
    parser.add_argument("--tls-authority", metavar="FILE", help="where to write who signed it, PEM")


def _tls_context(options: argparse.Namespace) -> ssl.SSLContext:
    if options.tls_cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.tls_cert, options.tls_key)
        return context
    authority, context = issue_tls(*options.tls_name or ["localhost", "127.0.0.1", "::1"])
    if options.tls_authority:
        authority.cert_pem.write_to_path(options.tls_authority)
    return context


def _listeners(options: argparse.Namespace) -> dict[str, list[Listener]]:
    tls = _tls_context(options) if options.tls_bind or options.stall_bind else None
    fault = HandshakeFault(
        flight=options.stall_flight, after=options.stall_after, interval=options.stall_interval
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
        print_json(
            {kind: [[one.host, next(ports)] for one in listeners] for kind, listeners in kinds.items()}
        )
        await run_until_told(exit_with_stdin=options.exit_with_stdin)


def main() -> None:
    """Run the program; `tidegate.testing.origin` shows how."""
    try:
        trio.run(_run, _arguments().parse_args())
    except OSError as error:
        sys.exit(f"tidegate.testing.origin: {error}")


if __name__ == "__main__":
    main()
