"""The page of telemetry is true: its examples are run as they stand there, and its lists are complete."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the exporter is in the group `test`")

from tests.support.data import ROOT
from tests.support.examples import examples
from tests.tools.test_telemetry_otlp import Collector, values
from tests.tools.test_telemetry_otlp import collector as collector
from tidegate.telemetry.otel import OPT_IN
from tidegate.telemetry.redaction import SIGNATURES

PAGE = "engine/tidegate/telemetry/README.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


def run(name: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", examples(PAGE)[name]],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_program_of_the_page_is_run_here() -> None:
    assert set(examples(PAGE)) == {"audit", "addresses", "counters", "otel", "tools"}
    assert TEXT.count("```python") == 5


def test_audit(tmp_path: Path) -> None:
    done = run("audit", tmp_path)
    assert (done.stdout, done.stderr) == ("not_in_allowlist\n", "")
    [line] = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    block = re.search(r'    (\{"time".*?\})\n\n', TEXT, re.DOTALL)
    assert block is not None
    shown = json.loads(block[1])
    assert set(shown) == set(line)
    assert set(shown["seconds"]) == set(line["seconds"])
    varying = {"time", "fetch", "seconds", "duration"}
    for name in set(line) - varying:
        assert shown[name] == line[name], name
    for name in line:
        assert f"`{name}`" in TEXT or name in ("time", "method", "scheme", "host", "port"), name


def test_addresses(tmp_path: Path) -> None:
    done = run("addresses", tmp_path)
    assert done.stdout == "private\n"
    [line] = [json.loads(line) for line in done.stderr.splitlines()]
    assert (line["host"], line["decision"]) == ("intranet.example.com", "denied")
    assert line["blocked_addresses"] == ["10.0.0.5"]
    for shown in re.findall(r'"[a-z_]+":(?:"[a-z]+"|\[[^]]*\])', examples(PAGE)["addresses"]):
        assert shown in done.stderr


def test_counters(tmp_path: Path) -> None:
    done = run("counters", tmp_path)
    assert (done.stdout, done.stderr) == ("blocked private 1\n", "")


def test_otel(tmp_path: Path, collector: Collector) -> None:
    """To a collector that the environment names, as the SDK has it."""
    done = run("otel", tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=collector.address)
    assert (done.stdout, done.stderr) == ("private\n", "")
    [(_, span)] = collector.spans
    assert values(span.attributes)["error.type"] == "private"


def test_tools(tmp_path: Path) -> None:
    done = run("tools", tmp_path)
    assert (done.stdout, done.stderr) == ("net_denied\n", "")
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(line["event"], line["agent"], line["tool"]) for line in lines] == [
        ("hop", 7, "Fetch"),
        ("call", 7, "Fetch"),
    ]


@pytest.mark.parametrize("name", sorted({*SIGNATURES, *OPT_IN}))
def test_what_can_be_chosen_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in TEXT
