"""`python -m tests.bench`: measure, print the tables, and keep them if asked to."""

import argparse
import os
import platform
import ssl
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.bench.plot import plot
from tests.bench.report import report
from tests.bench.runs import Cores, Effort, Row, measure
from tests.bench.servers import Missing, nginx_program, running_servers
from tests.bench.works import WORKS

README: Final = Path(__file__).with_name("README.md")
_BEGIN, _END = "<!-- measured -->", "<!-- end of measured -->"

_FULL: Final = Effort(runs=3, turns=7)
_QUICK: Final = Effort(runs=1, turns=4, only_aims=True)


def main() -> int:
    """Run the benchmark."""
    arguments = _arguments()
    effort = _QUICK if arguments.quick else Effort(arguments.runs, _FULL.turns)
    cores = Cores.available()
    rows = []
    try:
        with running_servers(cores.servers) as servers:
            for work in WORKS:
                if not arguments.rows or work.key in arguments.rows:
                    print(f"{work.title} ...", file=sys.stderr, flush=True)
                    rows.append(measure(work, effort, servers, cores))
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 2
    print(report(rows))
    _keep(arguments, rows, effort, cores)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="The engine beside six other clients, against one nginx."
    )
    parser.add_argument("--quick", action="store_true", help="less of everything, for development")
    parser.add_argument("--runs", type=int, default=_FULL.runs, help=f"by default {_FULL.runs}")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="draw ratios.svg there")
    parser.add_argument("--write", action="store_true", help="keep the tables and the plot beside the README")
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help="only these: " + ", ".join(work.key for work in WORKS)
    )
    arguments = parser.parse_args()
    unknown = set(arguments.rows) - {work.key for work in WORKS}
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    if arguments.write and (arguments.quick or arguments.rows):
        parser.error("--write keeps a whole measurement only: without --quick and without rows")
    return arguments


def _keep(arguments: argparse.Namespace, rows: list[Row], effort: Effort, cores: Cores) -> None:
    folders = {arguments.plot, README.parent if arguments.write else None} - {None}
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ratios.svg").write_text(plot(rows), encoding="utf-8")
    if arguments.write:
        before, _, rest = README.read_text(encoding="utf-8").partition(_BEGIN)
        after = rest.partition(_END)[2]
        measured = f"{_BEGIN}\n{_circumstances(effort, cores)}\n\n{report(rows).rstrip()}\n{_END}"
        README.write_text(before + measured + after, encoding="utf-8")


def _circumstances(effort: Effort, cores: Cores) -> str:
    names = ("trio", "h11", "httpx", "httpcore", "aiohttp", "pycurl", "opentelemetry-sdk")
    libraries = ", ".join(f"{name} {version(name)}" for name in names)
    place = "servers and clients on a core each" if cores.servers is not None else "all on one core"
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d}: {platform.system()} on {platform.machine()}, {place}; "
        f"CPython {platform.python_version()} with {ssl.OPENSSL_VERSION.rsplit(' ', 3)[0]}, {libraries} "
        f"beside {_nginx_version()}. {effort.runs} runs of {effort.turns} turns; "
        f"load average {os.getloadavg()[2]:.1f}, of which 1 is the benchmark's own."
    )


def _nginx_version() -> str:
    shown = subprocess.run([nginx_program(), "-v"], capture_output=True, text=True, check=True)
    return shown.stderr.strip().removeprefix("nginx version: ")


if __name__ == "__main__":
    raise SystemExit(main())
