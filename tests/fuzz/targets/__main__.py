"""Runs the targets, each in a process of its own, and says what they found. See the package."""

import argparse
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.targets import NAMES
from tests.support.data import ROOT

INSTRUMENTED = ["tidegate", "tidegate_tools", "h11", "idna", "ruamel"]
# A single input that takes longer, or more memory, is a finding.
SLOWEST_SECONDS = 20
MOST_MEGABYTES = 2048
LONGEST = 4096


def fuzz(name: str, corpus: str, options: Sequence[str]) -> None:
    """In the process of one target: for ever, or as long as the options say."""
    atheris = importlib.import_module("atheris")  # it ships no types
    with atheris.instrument_imports(include=INSTRUMENTED):
        target = importlib.import_module(f"tests.fuzz.targets.{name}")
    atheris.Setup([name, corpus, *options], target.check)
    atheris.Fuzz()


def seed(name: str, folder: Path) -> int:
    """Write the seeds of a target; how many there are."""
    target = importlib.import_module(f"tests.fuzz.targets.{name}")
    seeds = sorted({data for data in target.seeds() if len(data) <= LONGEST})
    for number, data in enumerate(seeds):
        (folder / f"seed-{number:04}").write_bytes(data)
    return len(seeds)


def run(name: str, seconds: int, found: Path) -> bool:
    """Run one target for so long; says whether it held."""
    found.mkdir(parents=True, exist_ok=True)
    before = set(found.iterdir())
    with tempfile.TemporaryDirectory() as folder:
        seeds = seed(name, Path(folder))
        print(f"{name}: {seeds} seeds, {seconds} s", flush=True)
        arguments = [
            f"-max_total_time={seconds}",
            f"-max_len={LONGEST}",
            f"-timeout={SLOWEST_SECONDS}",
            f"-rss_limit_mb={MOST_MEGABYTES}",
            f"-artifact_prefix={found}/",
        ]
        command = [sys.executable, "-m", "tests.fuzz.targets", "--target", name, folder, *arguments]
        result = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    new = sorted(set(found.iterdir()) - before)
    held = result.returncode == 0 and not new
    print(_last_words(result.stdout, held), flush=True)
    for path in new:
        print(f"  found: {shown(path)}", flush=True)
    if not any(found.iterdir()):
        found.rmdir()
    return held


def shown(path: Path) -> Path:
    """`path` as seen from the repository, if it is in there."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def _last_words(output: str, held: bool) -> str:
    lines = output.strip().splitlines()
    if held:
        done = [line for line in lines if line.startswith("Done ")]
        return f"  held: {done[-1] if done else 'no runs were counted'}"
    start = next((number for number, line in enumerate(lines) if "Uncaught Python exception" in line), -30)
    return "\n".join(f"  {line}" for line in lines[start:][:30])


def main() -> int:
    """The program."""
    if sys.argv[1:2] == ["--target"]:
        fuzz(sys.argv[2], sys.argv[3], sys.argv[4:])
        return 0
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.targets", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target, at least 1 (60)")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="TARGET")
    parser.add_argument("--found", type=Path, default=ROOT / "tests" / "fuzz" / "targets" / "found")
    options = parser.parse_args()
    if options.seconds < 1:  # to libFuzzer 0 is for ever
        parser.error(f"--seconds must be 1 or more, not {options.seconds}")
    held = [run(name, options.seconds, options.found.resolve() / name) for name in options.only]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
