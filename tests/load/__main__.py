"""`python -m tests.load`: attack the clients, print the tables, and keep them if asked to."""

import argparse
import json
import math
import os
import platform
import ssl
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.load.figures import Results
from tests.load.job import Outcome
from tests.load.namespace import ROOT, command, enter, missing
from tests.load.plan import ATTACKS, CLIENTS, INTERVAL, Attack
from tests.load.report import report
from tests.load.runs import run_attack

README: Final = Path(__file__).with_name("README.md")
_BEGIN, _END = "<!-- measured -->", "<!-- end of measured -->"
_CALM: Final = 8.0
_RUNS: Final = 3


def main() -> int:
    """Run the load test: once outside, which makes the namespace, and once inside."""
    arguments = _arguments()
    if arguments.outside:
        enter(arguments.outside)
        return _attack(arguments)
    if lacking := missing():
        print(f"the load test needs {', '.join(lacking)}", file=sys.stderr)
        return 2
    return subprocess.run(command("tests.load", sys.argv[1:]), cwd=ROOT, check=False).returncode


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.load",
        description="Thousands of fetches that never end, in the engine and in other clients.",
    )
    sizes = sorted({attack.holds for attack in ATTACKS})
    parser.add_argument(
        "--holds", type=int, action="append", choices=sizes, help="only attacks of this size; repeatable"
    )
    parser.add_argument("--scheme", choices=("http", "https"), help="only plain, or only TLS")
    parser.add_argument("--client", action="append", choices=list(CLIENTS), help="only these; repeatable")
    parser.add_argument(
        "--runs", type=int, default=_RUNS, help=f"of tidegate and the bare loop, by default {_RUNS}"
    )
    parser.add_argument("--calm", type=float, default=_CALM, help="seconds before and after an attack")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured there")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the plots there, as SVG")
    parser.add_argument("--write", action="store_true", help="keep tables and plots beside the README")
    parser.add_argument("--outside", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error(f"--runs must be 1 or more, not {arguments.runs}")
    if not 0 < arguments.calm < math.inf:
        parser.error(f"--calm must be seconds, more than 0, not {arguments.calm:g}")
    if arguments.write and (arguments.holds or arguments.scheme or arguments.client):
        parser.error("--write keeps a whole measurement only: without --holds, --scheme and --client")
    return arguments


def _attack(arguments: argparse.Namespace) -> int:
    clients = arguments.client or list(CLIENTS)
    results: dict[Attack, dict[str, list[Outcome]]] = {}
    for attack in ATTACKS:
        if attack.holds in (arguments.holds or [attack.holds]) and arguments.scheme in (None, attack.scheme):
            print(f"{attack.title} ...", file=sys.stderr, flush=True)
            results[attack] = run_attack(attack, clients, arguments.runs, arguments.calm)
    print(report(results))
    _keep(arguments, results)
    return 0


def _keep(arguments: argparse.Namespace, results: Results) -> None:
    files = [arguments.plot, README.with_name("load.svg") if arguments.write else None]
    for file in filter(None, files):
        from tests.load.plot import plot

        plot(results, file)
    if arguments.json:
        arguments.json.write_text(json.dumps(_as_json(results)), encoding="utf-8")
    if arguments.write:
        before, _, rest = README.read_text(encoding="utf-8").partition(_BEGIN)
        after = rest.partition(_END)[2]
        measured = f"{_BEGIN}\n{_circumstances(arguments.runs)}\n\n{report(results).rstrip()}\n{_END}"
        README.write_text(before + measured + after, encoding="utf-8")


def _as_json(results: Results) -> dict[str, dict[str, list[object]]]:
    return {
        attack.title: {client: [asdict(run) for run in runs] for client, runs in clients.items()}
        for attack, clients in results.items()
    }


def _circumstances(runs: int) -> str:
    names = ("trio", "h11", "httpx", "httpcore", "aiohttp")
    libraries = ", ".join(f"{name} {version(name)}" for name in names)
    cores = len(os.sched_getaffinity(0))
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d}: {platform.system()} on {platform.machine()}, {cores} "
        f"processors; CPython {platform.python_version()} with {ssl.OPENSSL_VERSION.rsplit(' ', 3)[0]}, "
        f"{libraries}. A hold drips every {INTERVAL:g} s. Medians of {runs} runs of tidegate and of "
        f"the bare loop, one run of the others."
    )


if __name__ == "__main__":
    raise SystemExit(main())
