"""`--timings`: bars that lie where their phases lie, whatever the width."""

import pytest

from tidegate import FetchFailed, FetchStarted, HopStarted, Phase, PhaseFailed, PhaseFinished, parse_url
from tidegate_tools.cli.trace import Record
from tidegate_tools.cli.waterfall import waterfall


def record(*phases: tuple[Phase, float], failed: bool = False) -> Record:
    """A fetch of one hop with these phases and seconds, the last of which may have failed."""
    made = Record()
    now = 100.0
    made.on_event(FetchStarted(fetch=1, time=now, key=None))
    made.on_event(
        HopStarted(fetch=1, time=now, hop=0, method="GET", url=parse_url("http://a.example/x?secret"))
    )
    for phase, seconds in phases:
        now += seconds
        common = {"fetch": 1, "time": now, "hop": 0, "phase": phase, "duration": seconds}
        if failed and phase is phases[-1][0]:
            made.on_event(PhaseFailed(**common, error=None))
        else:
            made.on_event(PhaseFinished(**common))
    made.on_event(FetchFailed(fetch=1, time=now, duration=now - 100.0, error=None))
    return made


def test_bars_follow_one_another():
    lines = list(waterfall(record((Phase.RESOLVE, 0.5), (Phase.CONNECT, 0.25), (Phase.HEAD, 0.25)), 46))
    assert lines == [
        "hop 0: GET http://a.example/x",
        "  resolve      500.0 ms |==========          |",
        "  connect      250.0 ms |          =====     |",
        "  head         250.0 ms |               =====|",
        "total 1000.0 ms",
    ]


def test_a_failed_phase_is_crossed_out_and_brief_ones_are_left_out():
    lines = list(waterfall(record((Phase.CHECK, 0.0001), (Phase.TLS, 1.0), failed=True), 46))
    assert [line.split()[0] for line in lines[1:-1]] == ["tls"]
    assert "x" in lines[1].partition("|")[2]


@pytest.mark.parametrize("width", [0, 1, 30, 80, 1000])
@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e5])
def test_every_bar_fits(width, seconds):
    lines = list(
        waterfall(record((Phase.RESOLVE, seconds), (Phase.CONTENT, seconds), (Phase.TLS, 0.5)), width)
    )
    bars = [line.partition("|")[2] for line in lines[1:-1]]
    assert len({len(bar) for bar in bars}) == 1
    assert all(bar.endswith("|") and "=" in bar for bar in bars)


def test_nothing_is_shown_of_a_fetch_that_never_began():
    assert list(waterfall(Record(), 80)) == []
