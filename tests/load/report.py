"""What the attacks did, as tables in Markdown: the aims, and each client beside the bare loop."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tests.load.figures import (
    UNDER_ATTACK,
    Results,
    Runs,
    bytes_per_hold,
    elsewhere,
    growth,
    overshoot,
    slowdown,
)
from tests.load.plan import (
    BARE,
    ENGINE,
    FROM_HOLDS,
    KIB,
    MAX_BYTES,
    MAX_GROWTH,
    MAX_OVERSHOOT,
    MAX_SLOWDOWN,
    Attack,
)
from tests.support.markdown import table

_CLIENT = (
    "client",
    "overshoot p50",
    "p99",
    "KiB a hold",
    "healthy p99: opening",
    "held",
    "ending",
    "in use after",
    "resident",
    "descriptors",
    "ended otherwise",
)


def report(results: Results) -> str:
    """All tables."""
    parts = [table([("attack", "figure", "aim", "measured", "met"), *_aims(results)])]
    for attack, clients in results.items():
        parts.append([f"### {attack.title}, deadline {attack.deadline:g} s", "", *_clients(attack, clients)])
    parts.append([*_remarks(results)])
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _aims(results: Results) -> Iterator[tuple[str, ...]]:
    for attack, clients in results.items():
        if ENGINE in clients:
            for figure, aim, measured, met in _aims_of(attack, clients):
                yield attack.title, figure, aim, measured, "yes" if met else "NO"


def _aims_of(attack: Attack, clients: Mapping[str, Runs]) -> Iterator[tuple[str, str, str, bool]]:
    engine = clients[ENGINE]
    if BARE in clients and attack.holds >= FROM_HOLDS:
        ratio = overshoot(engine, 99) / overshoot(clients[BARE], 99)
        met = round(ratio, 2) <= MAX_OVERSHOOT
        yield "overshoot of the deadline, p99", f"{MAX_OVERSHOOT:g} of {BARE}", f"{ratio:.2f}", met
    memory, limit = bytes_per_hold(engine, attack) / KIB, MAX_BYTES[attack.scheme] / KIB
    yield "memory of a hold", f"{limit:g} KiB", f"{memory:.2f} KiB", memory <= limit
    slower = slowdown(engine, *UNDER_ATTACK)
    aim = f"{MAX_SLOWDOWN:g} times before"
    yield "healthy fetch, p99", aim, f"{slower:.1f} times", round(slower, 1) <= MAX_SLOWDOWN
    for name, share in growth(engine).items():
        yield f"{name} afterwards", f"{MAX_GROWTH:+.0%}", f"{share:+.1%}", share <= MAX_GROWTH


def _clients(attack: Attack, clients: Mapping[str, Runs]) -> list[str]:
    """One attack; overshoots in units of the bare loop's p99."""
    unit = overshoot(clients[BARE], 99) if BARE in clients else float("nan")
    lines: list[Sequence[str]] = [_CLIENT]
    for client, runs in clients.items():
        lines.append((
            client,
            *(f"{overshoot(runs, percent) / unit:.2f}" for percent in (50, 99)),
            f"{bytes_per_hold(runs, attack) / KIB:.1f}",
            *(f"{slowdown(runs, stage):.1f}" for stage in UNDER_ATTACK),
            *(f"{share:+.1%}" for share in growth(runs).values()),
            str(sum(_endings(runs).values())),
        ))  # fmt: skip
    return table(lines)


def _remarks(results: Results) -> Iterator[str]:
    """What ended otherwise than it had to."""
    for attack, clients in results.items():
        for client, runs in clients.items():
            for said, times in _endings(runs).items():
                yield f"- {attack.title}: {client}: {times} times {said}."
            early = elsewhere(runs, attack)
            if early:
                yield f"- {attack.title}: {client}: {early:.1%} of the holds never got to their phase."


def _endings(runs: Runs) -> Counter[str]:
    endings: Counter[str] = Counter()
    for run in runs:
        endings.update(run.endings)
        endings.update({f"healthy fetch: {said}": times for said, times in run.failures.items()})
    return endings
