"""One page of HTML that shows an audit log: readable without a network, without a script, and by anybody.

Its content security policy lets nothing in but its own style, by hash. So even a mistake in escaping would
load nothing and run nothing.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

from tidegate import Reason
from tidegate.telemetry import Outcome, outcome_of
from tidegate_tools.audit import charts
from tidegate_tools.audit.marks import count, escaped, moment, plural, share, size
from tidegate_tools.audit.style import STYLE
from tidegate_tools.audit.summary import PHASES, SERIES, Summary, Tally

_MOST_HOSTS: Final = 15
_MOST_AGENTS: Final = 12
_MOST_REASONS: Final = 14
_MOST_ROWS: Final = 200


def render_page(summary: Summary, title: str) -> str:
    """The page.

    Args:
        summary: of the log.
        title: what the log is called; shown as it is.
    """
    style = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    body = "".join(_body(summary) if summary.total.requests else _nothing())
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        f"content=\"default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escaped(title)} · tidegate audit</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"{_header(summary, title)}<main>{_warnings(summary)}{body}</main>\n"
        "<footer>Times are UTC. Bytes are content as it came over the wire. Made by "
        "<code>tidegate audit report</code>.</footer>\n</body>\n</html>\n"
    )


def _header(summary: Summary, title: str) -> str:
    period = ""
    if summary.first is not None and summary.last is not None:
        period = f"<p>{moment(summary.first)} to {moment(summary.last)}</p>"
    return f"<header><p class=kicker>tidegate audit</p><h1>{escaped(title)}</h1>{period}</header>\n"


def _nothing() -> Iterator[str]:
    yield "<p class=empty>There is no request in this log.</p>"


def _warnings(summary: Summary) -> str:
    told = []
    if summary.lost:
        told.append(f"{plural(summary.lost, 'line')} lost before being written")
    if summary.unreadable:
        told.append(f"{plural(summary.unreadable, 'line')} of the log unreadable")
    return f"<p class=warning>{'; '.join(told)}.</p>" if told else ""


def _body(summary: Summary) -> Iterator[str]:
    yield f"<section class=tiles>{''.join(_tiles(summary))}</section>"
    summary.timeline.fit(charts.MOST_COLUMNS)
    legend = _legend(summary.total)
    yield _card("Requests and refusals by time", charts.requests_by_time(summary.timeline), "wide", legend)
    hosts = charts.tallies_by_name("Requests by host", summary.hosts, _MOST_HOSTS)
    yield _card("By host", hosts, note="requests · bytes received")
    reasons = _reasons(summary)
    nothing = "<p class=empty>Nothing was refused, and nothing failed.</p>"
    by_reason = charts.counts_by_name("Refusals and failures by reason", reasons) if reasons else nothing
    yield _card("By reason", by_reason, note="of refusals and failures; yellow: by a list on trial")
    agents = charts.tallies_by_name("Requests by agent", summary.agents, _MOST_AGENTS)
    yield _card("By agent", agents, note="requests · bytes received")
    if summary.latencies:
        latency = charts.latency_by_phase(summary.latencies, PHASES)
        yield _card("Latency by phase", latency, note="logarithmic; waiting for a slot is admit")
    if summary.total.wire_bytes:
        yield _card("Bytes received by time", charts.bytes_by_time(summary.timeline), "wide")
    yield _card("All hosts", _table(summary), "wide")


def _tiles(summary: Summary) -> Iterator[str]:
    series, requests = summary.total.series, summary.total.requests
    refused = series["blocked"] + series["invalid"]
    failed = series["timeout"] + series["error"]
    yield _tile("requests", count(requests), f"{plural(len(summary.hosts), 'host')}")
    yield _tile("refused", count(refused), share(refused, requests), "blocked")
    reported = summary.reported.total()
    if reported:
        yield _tile("would be refused", count(reported), "by a list on trial", "would_deny")
    yield _tile("failed or timed out", count(failed), share(failed, requests), "error")
    if summary.calls:
        yield _tile("tool calls", count(summary.calls), "by agents")
    yield _tile("received", size(summary.total.wire_bytes), "content bytes")
    yield _tile("agents", count(len(summary.agents)), "by key or pid")
    reuse = share(summary.reused, summary.answered)
    yield _tile("kept connections", reuse, "of answered requests")


def _tile(name: str, value: str, detail: str, kind: str = "") -> str:
    return f'<div class="tile {kind}"><b>{value}</b><span>{name}</span><small>{detail}</small></div>'


def _card(title: str, content: str, kind: str = "", extra: str = "", note: str = "") -> str:
    hint = f"<small>{note}</small>" if note else ""
    head = f"<h2>{title} {hint}</h2>{extra}"
    return f'<section class="card {kind}">{head}<div class=plot>{content}</div></section>'


def _legend(tally: Tally) -> str:
    keys = (
        f'<li><i class="key {series}"></i>{charts.NAMES[series]} <b>{count(tally.series[series])}</b></li>'
        for series in SERIES
        if tally.series[series]
    )
    return f"<ul class=legend>{''.join(keys)}</ul>"


def _series_of(reason: str) -> str:
    """Which series a reason belongs to; an unknown one, of another version say, is a failure."""
    return outcome_of(Reason(reason)).value if reason in set(Reason) else Outcome.ERROR.value


def _reasons(summary: Summary) -> Sequence[tuple[str, int, str]]:
    rows = [(name, times, _series_of(name)) for name, times in summary.reasons.items()]
    rows += [(name, times, "would_deny") for name, times in summary.reported.items()]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:_MOST_REASONS]


def _table(summary: Summary) -> str:
    rows = sorted(summary.hosts.items(), key=lambda item: (-item[1].requests, item[0]))
    shown = [series for series in SERIES if summary.total.series[series]]
    head = "".join(f"<th>{charts.NAMES[series]}</th>" for series in shown)
    body = "".join(_row(host, tally, shown) for host, tally in rows[:_MOST_ROWS])
    more = len(rows) - _MOST_ROWS
    rest = f"<p class=empty>and {count(more)} more</p>" if more > 0 else ""
    return (
        f"<details><summary>{plural(len(rows), 'host')} as a table</summary><table>"
        f"<thead><tr><th>host</th>{head}<th>bytes</th></tr></thead><tbody>{body}</tbody></table>{rest}</details>"
    )


def _row(host: str, tally: Tally, shown: Sequence[str]) -> str:
    cells = "".join(f"<td>{count(tally.series[series])}</td>" for series in shown)
    return f"<tr><th scope=row>{escaped(host)}</th>{cells}<td>{size(tally.wire_bytes)}</td></tr>"
