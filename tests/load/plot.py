"""The plots, by matplotlib: overshoot, memory and healthy latency of every client."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib import pyplot

from tests.load.figures import UNDER_ATTACK, Results, Runs, bytes_per_hold, latencies, overshoots
from tests.load.job import BEFORE
from tests.load.plan import BARE, ENGINE, KIB, MAX_BYTES, Attack

# Okabe and Ito's palette, which colour-blind readers can tell apart.
_COLOURS: Final = {ENGINE: "#000000", BARE: "#999999", "aiohttp": "#0072b2", "httpx": "#d55e00"}
_SHORTEST: Final = 1e-4
_TITLES: Final = {"http": "plain", "https": "TLS"}


def plot(results: Results, file: Path) -> None:
    """Draw an SVG: a row for each scheme, in it overshoot, memory and latency.

    Args:
        results: of all attacks.
        file: to write.
    """
    # Text stays text, and the same figures give the same bytes.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "tidegate", "font.size": 9})
    schemes = sorted({attack.scheme for attack in results})
    figure, rows = pyplot.subplots(len(schemes), 3, figsize=(13, 4 * len(schemes)), squeeze=False)
    for scheme, (left, middle, right) in zip(schemes, rows, strict=True):
        attacks = [attack for attack in results if attack.scheme == scheme]
        largest = max(attacks, key=lambda attack: attack.holds)
        _plot_overshoot(left, largest.title, results[largest])
        _plot_memory(middle, scheme, {attack: results[attack] for attack in attacks})
        _plot_latency(right, largest.title, results[largest])
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def _plot_overshoot(axes: Any, title: str, clients: Mapping[str, Runs]) -> None:
    for client, runs in clients.items():
        _distribution(axes, [late for run in runs for late in overshoots(run)], client, "-", client)
    axes.set(title=f"Past the deadline: {title}", xlabel="seconds", ylabel="share of holds")
    axes.legend()


def _plot_memory(axes: Any, scheme: str, by_attack: Mapping[Attack, Mapping[str, Runs]]) -> None:
    attacks = sorted(by_attack, key=lambda attack: attack.holds)
    for client in by_attack[attacks[0]]:
        memory = [bytes_per_hold(by_attack[one][client], one) * one.holds / KIB / KIB for one in attacks]
        axes.plot([one.holds for one in attacks], memory, "o-", color=_COLOURS[client], label=client)
    most = attacks[-1].holds
    axes.plot([0, most], [0, MAX_BYTES[scheme] * most / KIB / KIB], ":", color="#009e73", label="aim")
    axes.set(title=f"Memory of all holds, {_TITLES[scheme]}", xlabel="holds", ylabel="MiB")
    axes.legend()


def _plot_latency(axes: Any, title: str, clients: Mapping[str, Runs]) -> None:
    for client, runs in clients.items():
        before = [value for run in runs for value in latencies(run, BEFORE)]
        during = [value for run in runs for value in latencies(run, *UNDER_ATTACK)]
        _distribution(axes, before, client, ":", None)
        _distribution(axes, during, client, "-", client)
    axes.set(title=f"Healthy fetches: {title}", xlabel="seconds (dotted: before the attack)", ylabel="share")
    axes.legend()


def _distribution(axes: Any, values: Sequence[float], client: str, style: str, label: str | None) -> None:
    """The share of values that is at most so large."""
    # Ten thousand points look no different from five hundred.
    shown = sorted(max(value, _SHORTEST) for value in values)
    step = max(1, len(shown) // 500)
    points = [(value, (place + 1) / len(shown)) for place, value in enumerate(shown)]
    points = [*points[::step], points[-1]]
    axes.plot(*zip(*points, strict=True), style, color=_COLOURS[client], label=label)
    axes.set_xscale("log")
