"""Numbers and times out of any bound, and lines of any kind: the commands tell of them and never break."""

import json
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.tools.test_audit import NOON, encoded, hop, read
from tidegate_tools.audit.lines import LAST_TIME, Line
from tidegate_tools.audit.summary import summarise
from tidegate_tools.cli import main


def run(data: bytes) -> list[int]:
    """Both commands on a log; how they end."""
    with tempfile.TemporaryDirectory() as folder:
        log, page = Path(folder, "audit.jsonl"), Path(folder, "page.html")
        log.write_bytes(data)
        codes = [main(["audit", "report", str(log), "-o", str(page)])]
        codes += [main(["audit", "suggest", str(log), *options]) for options in ([], ["--denied", "--json"])]
        assert page.read_text().endswith("</html>\n")
        return codes


@pytest.mark.parametrize(
    "lines",
    [
        [hop(wire_bytes=1.7e308), hop(wire_bytes=1.7e308)],
        [hop(wire_bytes=1e308)],
        [hop(wire_bytes=10**4000)],
        [hop(wire_bytes=5e-324)],
        [hop(seconds={"head": 1e308, "connect": 5e-324})],
        [hop(seconds={"head": 1.7e308})],
        [hop(), {"event": "lost", "lines": 1.7e308}, {"event": "lost", "lines": 1.7e308}],
        [hop(), {"event": "call", "time": NOON, "outcome": "success", "hops": 1.7e308}],
        [hop(), hop(time="9999-12-31T23:59:59Z")],
        [hop(), hop(time="9999-12-31T20:00:00Z")],
        [hop(), hop(time="9999-12-31T23:59:59-14:00")],
        [hop(), hop(time="0001-01-01T00:00:00Z")],
        [hop(), hop(time="0001-01-01T00:00:00+14:00")],
        [hop(), hop(time="2199-12-31T23:59:59.999Z"), hop(time="1970-01-01T00:00:00Z")],
        [hop(time="2199-12-31T23:59:59.999Z")],
        [hop(wire_bytes=1e15)] * 1000,
        [hop(agent="a" * 60_000, host="\ud800"), hop(reason="\u0301" * 10_000, outcome="error")],
    ],
)
def test_no_number_and_no_time_breaks_them(
    lines: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(encoded(*lines)) == [0, 0, 0]
    told = capsys.readouterr()
    assert "inf" not in told.out + told.err
    assert "nan" not in told.out + told.err


@pytest.mark.parametrize(
    ("time", "taken"),
    [
        ("1970-01-01T00:00:00Z", True),
        ("1969-12-31T23:59:59.999Z", False),
        ("1970-01-01T00:30:00+01:00", False),
        ("2199-12-31T23:59:59.999Z", True),
        ("2200-01-01T00:00:00Z", False),
        ("2199-12-31T23:30:00-01:00", False),
        ("9999-12-31T23:59:59-14:00", False),
        ("0001-01-01T00:00:00+14:00", False),
        ("2026-08-03", True),
    ],
)
def test_a_time_out_of_reach_is_unreadable(time: str, taken: bool) -> None:
    lines, unreadable = read(encoded(hop(time=time)))
    assert (len(lines), unreadable) == (int(taken), int(not taken))
    assert all(0 <= line.time < LAST_TIME for line in lines)


@pytest.mark.parametrize(
    ("value", "number"),
    [(1e15, 1e15), (10**15, 1e15), (1e15 + 1, 0.0), (1e-9, 1e-9), (1e-10, 0.0), (0, 0.0), (-0.0, 0.0)],
)
def test_numbers_have_bounds(value: float, number: float) -> None:
    """What is beyond them is none."""
    assert Line("hop", 0.0, {"x": value}).number("x") == number


@pytest.mark.parametrize("value", [1e308, -1, "1", None, True, [], float("nan"), 10**400])
def test_a_time_that_is_none_is_no_latency(value: Any) -> None:
    """Rather than a very short one."""
    line = Line("hop", 0.0, {**hop(), "seconds": {"head": value, "connect": 0}})
    assert list(line.seconds()) == [("connect", 0.0)]
    assert set(summarise([line]).latencies) == {"connect"}


# Anything ----------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([1e15, 1.7e308, 5e-324, -0.0, 10**400, 2**63, 1e-9]),
)
WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            *("allowed", "denied", "would_deny", "success", "blocked", "error", "cancelled", "timeout"),
            *("not_in_allowlist", "private", "permission_denied", "a.example", "*", "10.0.0.1", "xn--a"),
        ]
    ),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
TIMES = st.one_of(
    st.datetimes(timezones=st.sampled_from([timezone(timedelta(hours=hours)) for hours in (-14, 0, 14)])).map(
        datetime.isoformat
    ),
    st.datetimes().map(datetime.isoformat),
    VALUES,
)
FACTS = st.dictionaries(st.sampled_from([*hop(), "reported", "error", "hops", "lines", "tool"]), VALUES)
SECONDS = st.dictionaries(st.sampled_from(["head", "connect", "content"]), NUMBERS)
LINES = st.builds(
    lambda event, time, facts, seconds: {**hop(), "seconds": seconds, **facts, "event": event, "time": time},
    st.sampled_from(["hop", "call", "lost"]) | VALUES,
    st.just(NOON) | TIMES,
    FACTS,
    SECONDS,
)


@pytest.mark.slow
@given(st.lists(LINES | VALUES, max_size=6))
@example([hop(wire_bytes=1.7e308), hop(wire_bytes=1.7e308)])
@settings(max_examples=120, deadline=None)
def test_any_lines_end_well(lines: list[Any]) -> None:
    """One of them is good, so that there is a log at all."""
    data = "".join(f"{json.dumps(line)}\n" for line in [hop(), *lines])
    assert run(data.encode()) == [0, 0, 0]
