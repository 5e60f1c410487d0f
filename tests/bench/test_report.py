"""The benchmark's own arithmetic. That it measures is seen by running it: `make bench`."""

from xml.etree import ElementTree

import pytest

from tests.bench.plot import plot
from tests.bench.report import Ratio, is_met, ratio, report
from tests.bench.runs import Effort, Row
from tests.bench.servers import Wire
from tests.bench.works import ENGINE, NO_PROVIDER, TOOL, TOOL_OBSERVED, WORKS, Aim, Work

KEPT = next(work for work in WORKS if work.key == "kept")
MEMORY = next(work for work in WORKS if work.key == "memory")
TOOLS = next(work for work in WORKS if work.key == "tool")
TELEMETRY = next(work for work in WORKS if work.key == "telemetry")


def row(**figures: list[float]) -> Row:
    return Row(KEPT, {ENGINE: [3.0, 3.0, 6.0], **figures})


def test_a_ratio_is_the_median_of_the_turns_not_the_ratio_of_the_medians() -> None:
    measured = ratio(row(httpx=[10.0, 30.0, 30.0]), "httpx")
    assert measured is not None
    assert (measured.low, measured.middle, measured.high) == pytest.approx((0.15, 0.2, 0.25))


def test_what_was_not_measured_has_no_ratio() -> None:
    assert ratio(row(httpx=[10.0, 30.0, 30.0]), "aiohttp") is None
    assert ratio(Row(KEPT, {"httpx": [1.0]}), "httpx") is None


@pytest.mark.parametrize(("middle", "met"), [(0.29, True), (0.3, True), (0.304, True), (0.306, False)])
def test_an_aim_is_met_to_the_digits_that_are_shown(middle: float, met: bool) -> None:
    assert is_met(Aim(0.3, "httpx"), Ratio(middle, middle, middle)) is met


def test_the_table_has_a_line_for_each_aim_whose_client_ran() -> None:
    lines = report([row(httpx=[10.0, 10.0, 20.0])]).splitlines()
    aims = [line for line in lines if "at most" in line]
    assert len(aims) == 1
    assert [cell.strip() for cell in aims[0].split("|")[3:-1]] == [
        "at most 0.3 of httpx", "0.30", "0.30 to 0.30", "yes",
    ]  # fmt: skip


def test_the_engine_with_telemetry_is_compared_with_the_engine_alone() -> None:
    """Its work has no other clients, so it is in no table of clients and not in the plot."""
    observed = Row(TELEMETRY, {ENGINE: [2.0, 2.0], NO_PROVIDER: [2.2, 2.2]})
    lines = [line for line in report([observed]).splitlines() if line.startswith("| 1 KB")]
    assert len(lines) == 1
    assert [cell.strip() for cell in lines[0].split("|")[1:-1]] == [
        f"{TELEMETRY.title}, {NO_PROVIDER}",
        "CPU per fetch",
        "at most 1.05 of tidegate",
        "1.10",
        "1.10 to 1.10",
        "NO",
    ]
    assert TELEMETRY.title not in plot([observed])


def test_the_tool_is_compared_with_itself() -> None:
    """Its row has no engine in it, and is in no table of clients and not in the plot either."""
    measured = Row(TOOLS, {TOOL: [2.0, 2.0], TOOL_OBSERVED: [2.1, 2.1]})
    [line] = [line for line in report([measured]).splitlines() if line.startswith("| 1 KB")]
    assert [cell.strip() for cell in line.split("|")[1:-1]] == [
        f"{TOOLS.title}, {TOOL_OBSERVED}",
        "CPU per fetch",
        "at most 1.03 of the tool alone",
        "1.05",
        "1.05 to 1.05",
        "NO",
    ]
    assert TOOLS.title not in plot([measured])


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.key)
def test_whoever_an_aim_names_is_measured(work: Work) -> None:
    """In a quick run, too; else the aim would never be judged."""
    named = {aim.who for aim in work.aims} | {aim.of for aim in work.aims if aim.of is not None}
    assert named <= set(Effort(runs=1, turns=1, only_aims=True).subjects(work))


def test_memory_is_compared_with_a_bound_of_its_own() -> None:
    assert "| 2.50     | 2.50 to 2.50 | NO" in report([Row(MEMORY, {ENGINE: [2.5, 2.5]})])


def test_connections_that_were_not_kept_are_remarked_upon() -> None:
    kept = row(httpx=[10.0] * 3)
    kept.wires = {"httpx": Wire(requests=100, connections=1), ENGINE: Wire(requests=100, connections=50)}
    assert f"{ENGINE} opened a connection for 50% of its fetches" in report([kept])
    assert "httpx opened" not in report([kept])


def test_the_plot_is_well_formed_and_has_a_dot_for_each_client() -> None:
    tree = ElementTree.fromstring(plot([row(httpx=[10.0] * 3, aiohttp=[3.0] * 3)]))
    legend = 6
    assert len(tree.findall("{http://www.w3.org/2000/svg}circle")) == legend + 2
