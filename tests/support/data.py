"""Where test data lies: our corpora beside the tests, other projects' suites in the shared folder."""

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORPORA = ROOT / "tests" / "corpora"
SUITES = ROOT.parent / "shared" / "suites"


def corpus(name: str) -> list[dict[str, Any]]:
    """The rows of one of our corpora: `addresses`, `urls` or `wire`."""
    lines = (CORPORA / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def suite(name: str) -> Path:
    """The path of another project's test table; skips the calling test, saying so, where it is missing."""
    path = SUITES / name
    if not path.exists():
        pytest.skip(f"public suite {name} is not beside this checkout")
    return path


def suite_json(name: str) -> Any:
    """The parsed JSON of a suite file; skips like `suite`."""
    return json.loads(suite(name).read_text(encoding="utf-8"))


def rows_of_kind(kind: str) -> list[dict[str, Any]]:
    """The rows of the URL corpus of one kind."""
    return [row for row in corpus("urls") if row["kind"] == kind]
