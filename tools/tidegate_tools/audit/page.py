"""One page of HTML that shows an audit log: readable without a network, without a script, and by anybody.

Its content security policy lets nothing in but its own style, by hash. So even a mistake in escaping would
load nothing and run nothing.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tidegate_tools.audit import charts
from tidegate_tools.audit.marks import count, escaped, moment, plural, share, size
from tidegate_tools.audit.style import STYLE
from tidegate_tools.audit.summary import FAILED, NONE, PHASES, REFUSED, SERIES, Summary, Tallies, Tally

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
    tallies = summary.tallies
    body = "".join(_body(summary) if tallies.total.count else _nothing(summary))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        f"content=\"default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escaped(title)} · tidegate audit</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"{_header(tallies, title)}<main>{_warnings(summary)}{body}</main>\n"
        "<footer>Times are UTC. Bytes are content as it came over the wire. Made by "
        "<code>tidegate audit report</code>.</footer>\n</body>\n</html>\n"
    )


def _header(tallies: Tallies, title: str) -> str:
    period = ""
    if tallies.first is not None and tallies.last is not None:
        period = f"<p>{moment(tallies.first)} to {moment(tallies.last)}</p>"
    return f"<header><p class=kicker>tidegate audit</p><h1>{escaped(title)}</h1>{period}</header>\n"


def _nothing(summary: Summary) -> Iterator[str]:
    if not summary.calls:
        yield "<p class=empty>There is no request in this log.</p>"
        return
    calls = plural(summary.calls, "tool call")
    yield (
        f"<p class=empty>There is no request in this log, but {calls}: none sent a request, and none was "
        "refused or failed.</p>"
    )


def _warnings(summary: Summary) -> str:
    told = []
    if summary.lost:
        told.append(f"{plural(summary.lost, 'line')} lost before being written")
    if summary.unreadable:
        told.append(f"{plural(summary.unreadable, 'line')} of the log unreadable")
    if summary.broken:
        broken = plural(summary.broken, "compressed log")
        told.append(f"{broken} damaged or cut off, and read as far as it goes")
    if summary.missing:
        sent = plural(summary.claimed, "request")
        told.append(f"{count(summary.missing)} of {sent} that tool calls say they sent without a line here")
    return f"<p class=warning>{'; '.join(told)}.</p>" if told else ""


def _body(summary: Summary) -> Iterator[str]:
    tallies = summary.tallies
    yield f"<section class=tiles>{''.join(_tiles(summary))}</section>"
    yield f"<p class=counted>{_counted(summary)}</p>"
    tallies.timeline.fit(charts.MOST_COLUMNS)
    by_time = charts.by_time(tallies.timeline)
    yield _card("Requests and refusals by time", by_time, "wide", _legend(tallies.total))
    yield _card("By host", _hosts(tallies), note="requests · bytes received")
    yield _card("By reason", _by_reason(summary), note="of refusals and failures; yellow: by a list on trial")
    agents = charts.tallies_by_name("Requests and refused calls by agent", tallies.agents, _MOST_AGENTS)
    what = "requests and calls" if summary.untold else "requests"
    yield _card("By agent", agents, note=f"{what} · bytes received")
    if summary.latencies:
        latency = charts.latency_by_phase(summary.latencies, PHASES)
        yield _card("Latency by phase", latency, note="logarithmic; waiting for a slot is admit")
    if tallies.total.wire_bytes:
        yield _card("Bytes received by time", charts.bytes_by_time(tallies.timeline), "wide")
    if tallies.hosts:
        yield _card("All hosts", _table(tallies), "wide")


def _hosts(tallies: Tallies) -> str:
    if not tallies.hosts:
        return "<p class=empty>No line of the log is of a request.</p>"
    return charts.tallies_by_name("Requests by host", tallies.hosts, _MOST_HOSTS)


def _by_reason(summary: Summary) -> str:
    reasons = _reasons(summary.tallies)
    if reasons:
        return charts.counts_by_name("Refusals and failures by reason", reasons)
    # True of the log; whether it is true of what went on depends on what the log lacks.
    gaps = summary.lost or summary.unreadable or summary.broken or summary.missing
    start = "As far as this log tells, nothing" if gaps else "Nothing"
    return f"<p class=empty>{start} was refused, and nothing failed.</p>"


def _counted(summary: Summary) -> str:
    """What the numbers are of."""
    if not summary.requests:
        return (
            "The log has lines of tool calls alone, so each call counts once: by its first host if it sent "
            "requests, by its reason if it was refused or failed. Calls that did neither do not count."
        )
    told = f"Counted: {plural(summary.requests, 'request')}, a redirect being one more"
    if summary.untold:
        calls = plural(summary.untold, "tool call")
        told += f", and {calls} whose refusal, failure or cancellation no request tells of"
    others = (
        " Other tool calls went well, or their requests tell of them."
        if summary.calls > summary.untold
        else ""
    )
    return f"{told}.{others}"


def _tiles(summary: Summary) -> Iterator[str]:
    tallies = summary.tallies
    series, counted = tallies.total.series, tallies.total.count
    refused, failed = (sum(series[name] for name in names) for names in (REFUSED, FAILED))
    yield _tile("requests", count(summary.requests or summary.claimed), plural(_known(tallies.hosts), "host"))
    invalid = f", {count(series['invalid'])} invalid" if series["invalid"] else ""
    yield _tile("refused", count(refused), share(refused, counted) + invalid, "blocked")
    reported = tallies.reported.total()
    if reported:
        yield _tile("would be refused", count(reported), "by a list on trial", "would_deny")
    yield _tile("failed or timed out", count(failed), share(failed, counted), "error")
    if summary.calls:
        yield _tile("tool calls", count(summary.calls), f"{count(summary.untold)} told by no request")
    yield _tile("received", size(tallies.total.wire_bytes), "content bytes")
    yield _tile("agents", count(_known(tallies.agents)), "by key or pid")
    if summary.answered:
        reuse = share(summary.reused, summary.answered)
        yield _tile("kept connections", reuse, "of answered requests")


def _known(tallies: Mapping[str, Tally]) -> int:
    """How many have a name."""
    return len(tallies.keys() - {NONE})


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


def _reasons(tallies: Tallies) -> Sequence[tuple[str, int, str]]:
    rows = [(name, times, series) for (name, series), times in tallies.reasons.items()]
    rows += [(name, times, "would_deny") for name, times in tallies.reported.items()]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:_MOST_REASONS]


def _table(tallies: Tallies) -> str:
    rows = sorted(tallies.hosts.items(), key=lambda item: (-item[1].count, item[0]))
    shown = [series for series in SERIES if tallies.total.series[series]]
    head = "".join(f"<th>{charts.NAMES[series]}</th>" for series in shown)
    body = "".join(_row(host, tally, shown) for host, tally in rows[:_MOST_ROWS])
    more = len(rows) - _MOST_ROWS
    rest = f"<p class=empty>and {count(more)} more</p>" if more > 0 else ""
    return (
        f"<details><summary>{plural(_known(tallies.hosts), 'host')} as a table</summary><table>"
        f"<thead><tr><th>host</th>{head}<th>bytes</th></tr></thead><tbody>{body}</tbody></table>{rest}</details>"
    )


def _row(host: str, tally: Tally, shown: Sequence[str]) -> str:
    cells = "".join(f"<td>{count(tally.series[series])}</td>" for series in shown)
    return f"<tr><th scope=row>{escaped(host)}</th>{cells}<td>{size(tally.wire_bytes)}</td></tr>"
