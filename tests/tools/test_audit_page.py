"""The report page: what it shows, that nothing in it can do harm, and how a browser draws it."""

import base64
import hashlib
import os
import re
import shutil
import struct
import subprocess
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.tools.test_audit import encoded, hop, read, refused
from tidegate import Reason
from tidegate_tools.audit import charts, marks
from tidegate_tools.audit.page import render_page
from tidegate_tools.audit.style import STYLE
from tidegate_tools.audit.summary import SERIES, Tally, summarise


def page_of(*lines: dict[str, Any], title: str = "audit.jsonl") -> str:
    return render_page(summarise(read(encoded(*lines))[0]), title)


class Elements(HTMLParser):
    """The elements, attributes and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def days_of_traffic() -> list[dict[str, Any]]:
    """Three days in which everything happens."""
    start = datetime(2026, 8, 3, tzinfo=UTC)
    lines = []
    for minute in range(0, 3 * 24 * 60, 4):
        when = (start + timedelta(minutes=minute)).isoformat(timespec="milliseconds")
        kinds: list[dict[str, Any]] = [
            hop(
                "api.example.com",
                reused=True,
                wire_bytes=minute * 10,
                seconds={"head": 0.08, "content": 0.01},
            ),
            hop("docs.example.org", seconds={"resolve": 0.02, "connect": 0.03, "tls": 0.05, "head": 0.2}),
        ]
        if minute % 60 == 0:
            kinds += [
                hop("new.example", decision="would_deny", reported="not_in_allowlist"),
                refused("169.254.169.254", "imds"),
                hop("slow.example", outcome="timeout", reason="timeout", status=None, seconds={"head": 30.0}),
                hop("down.example", outcome="error", reason="connect_failed", status=None),
                hop(None, decision="denied", outcome="invalid", reason="invalid_field", status=None),
                hop("a.example", outcome="cancelled", status=None),
            ]
        lines += [{**line, "time": when, "agent": f"agent-{minute % 3}"} for line in kinds]
    return lines


# What it shows -----------------------------------------------------------------------------------------


def test_all_that_the_issue_asks_for() -> None:
    """Requests and denials over time, by host, by reason, by agent, latency per phase, bytes."""
    elements = Elements(page_of(*days_of_traffic()))
    texts = " ".join(elements.texts)
    for title in (
        "Requests and refusals by time", "By host", "By reason", "By agent", "Latency by phase",
        "Bytes received by time", "All hosts",
    ):  # fmt: skip
        assert title in texts
    assert elements.tags["svg"] == 6
    for name in charts.NAMES.values():
        assert name in texts
    for name in ("api.example.com", "169.254.169.254", "imds", "not_in_allowlist", "agent-1", "30.1 s"):
        assert name in texts, name


def test_the_numbers_are_right() -> None:
    lines = [hop()] * 3 + [refused("b.example", "private")] + [hop(outcome="error", reason="tls_failed")] * 2
    texts = Elements(page_of(*lines)).texts
    for number, name in (
        ("6", "requests"),
        ("1", "refused"),
        ("2", "failed or timed out"),
        ("50 B", "received"),
    ):
        assert texts[texts.index(name) - 1] == number
    titles = " ".join(texts)
    assert "2026-08-03 12:00:00: 3 let out" in titles
    assert "private: 1 refused" in titles
    assert "tls_failed: 2 failed" in titles
    assert "head: 105 ms · 105 ms · 105 ms (p50, p90, p99 of 6)" in titles


def test_many_hosts_are_gathered() -> None:
    elements = Elements(page_of(*(hop(f"h{number}.example") for number in range(300))))
    assert "285 others" in " ".join(elements.texts)
    assert "and 100 more" in " ".join(elements.texts)
    assert elements.tags["tr"] == 201


def test_a_gap_in_the_log_is_said() -> None:
    page = page_of(hop(), {"event": "lost", "lines": 1234})
    assert "1\u202f234 lines lost before being written." in " ".join(Elements(page).texts)


@pytest.mark.parametrize(
    ("most", "whole", "ticks"),
    [
        (0, False, [0, 1]),
        (1, True, [0, 1]),
        (3, True, [0, 1, 2, 3]),
        (7, True, [0, 2, 4, 6, 8]),
        (100, True, [0, 50, 100]),
        (101, True, [0, 50, 100, 150]),
        (0.3, False, pytest.approx([0, 0.1, 0.2, 0.3])),
        (1e12, False, [0, 5e11, 1e12]),
    ],
)
def test_ticks(most: float, whole: bool, ticks: Any) -> None:
    assert charts.nice_ticks(most, whole=whole) == ticks


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (marks.size(0), "0 B"), (marks.size(999), "999 B"), (marks.size(1000), "1 kB"),
        (marks.size(1_234_567), "1.23 MB"), (marks.size(999_600), "1 MB"), (marks.size(5e15), "5e+03 TB"),
        (marks.duration(0.00012), "0.12 ms"), (marks.duration(0.0123), "12 ms"),
        (marks.duration(0.25), "250 ms"), (marks.duration(1.234), "1.23 s"), (marks.duration(30), "30 s"),
        (marks.share(1, 3), "33.3 %"), (marks.share(0, 3), "0 %"), (marks.share(1, 10_000), "< 0.1 %"),
        (marks.share(1, 0), "0 %"), (marks.plural(1, "line"), "1 line"), (marks.plural(2, "line"), "2 lines"),
        (marks.shortened("abcdefghij", 5), "abc…hij"), (marks.shortened("abc", 2), "abc"),
    ],
)  # fmt: skip
def test_numbers_for_people(told: str, text: str) -> None:
    assert told == text


# The last two are beyond what can be known: a ligature as wide as a word, a heap of marks.
WIDE_NAMES = [
    "東京の巨大なエージェントの名前はとても長いです一二三四五",
    "서울의 거대한 에이전트 이름은 아주 깁니다",
    "ＡＢＣＤＥＦＧＨＩＪＫＬＭＮＯＰ",
    "😀🎉🚀🔥" * 6,
    "W" * 40,
    "mmmmmmmmmmmmmmmmmmmmmmmmmm",
    "0123456789" * 4,
    "ЖЩЮШ" * 8,
    "ﷺ" * 13 + "www",
    "e" + "\u0301" * 200,
]


@pytest.mark.parametrize("name", [*WIDE_NAMES, "xn--a", "", "a.example"])
@pytest.mark.parametrize("most", [2.0, 5.5, 13.0])
def test_a_shortened_name_is_no_wider_than_its_room(name: str, most: float) -> None:
    shown = marks.shortened(name, most)
    assert marks.width(shown) <= most
    if shown != name:
        head, tail = shown.split("…")
        assert name.startswith(head)
        assert name.endswith(tail)
        assert not tail or unicodedata.category(tail[0]) != "Mn"


@pytest.mark.parametrize(
    ("wide", "narrow"), [("東", "a"), ("Ａ", "A"), ("😀", "a"), ("한", "a"), ("a", "e\u0301"[1:]), ("W", "i")]
)
def test_widths_are_those_of_the_characters(wide: str, narrow: str) -> None:
    """Not one each: East Asian ones and emoji take the room of two, marks nearly none."""
    assert marks.width(wide) >= 1.15 * marks.width(narrow)


def test_reasons_are_shown_whole() -> None:
    slugs = ("permission_denied", "tool_not_found", "invalid_args", "net_denied", "tool_failed", "fs_denied")
    page = page_of(*(hop(reason=reason, outcome="error") for reason in slugs))
    page += page_of(*(hop(reported=reason) for reason in Reason))
    assert "…" not in page
    for reason in Reason:
        assert marks.shortened(reason, 158 / 12) == reason


def test_the_longest_bar_leaves_room_for_its_value() -> None:
    """Also for more than a few digits."""
    tallies = {"a.example": Tally(Counter(success=123_456_789, error=1), 1.23e14), "b.example": Tally()}
    [row, _] = re.findall(
        r'<text x="([0-9.]+)" y="[0-9.]+" class="value"[^>]*>([^<]*)<',
        charts.tallies_by_name("x", tallies, 9),
    )
    assert float(row[0]) + 12 * marks.width(row[1]) <= 510
    [(x, text)] = re.findall(
        r'<text x="([0-9.]+)" y="[0-9.]+" class="value"[^>]*>([^<]*)<',
        charts.counts_by_name("x", [("private", 10**12, "blocked")]),
    )
    assert float(x) + 12 * marks.width(text) <= 510


# That it can do no harm --------------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</text></svg><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "' onload='alert(1)",
    "<!--",
    "]]>",
    "&lt;script&gt;",
    "javascript:alert(1)",
    "{{7*7}}",
    "a\x00b\x1b[2J\x7f",
    "paypal.example\u202emoc.elpmaxe",
    "zero\u200bwidth",
    "\u2028\u2029",
    "\ud800half",
    "x" * 5000,
]

ALLOWED_TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section", "p", "h1", "h2",
    "div", "b", "span", "small", "ul", "li", "i", "svg", "line", "rect", "circle", "text", "details",
    "summary", "table", "thead", "tbody", "tr", "th", "td", "code",
}  # fmt: skip
ALLOWED_ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "scope", "viewbox", "role", "aria-label",
    "x", "y", "x1", "x2", "y1", "y2", "width", "height", "cx", "cy", "r", "text-anchor",
}  # fmt: skip


def hostile_lines() -> list[dict[str, Any]]:
    lines = []
    for name in HOSTILE:
        lines.append(
            hop(name, agent=name, reason=name, reported=name, decision=name, outcome=name, tool=name)
        )
        lines.append(hop(name, agent=name, reason=name, outcome="blocked", seconds={name: 1, "head": 1}))
    return lines


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_strangers_stay_text(name: str) -> None:
    """Each where a log has names: nothing becomes an element or an attribute."""
    page = page_of(*(line for line in hostile_lines() if line["host"] == name), title=name)
    elements = Elements(page)
    assert set(elements.tags) <= ALLOWED_TAGS
    assert elements.attributes <= ALLOWED_ATTRIBUTES
    assert elements.tags["style"] == elements.tags["body"] == elements.tags["h1"] == 1
    assert page.encode().count(b"<script") == 0
    shown = marks.visible(name)
    assert shown in " ".join(elements.texts)
    hidden = {character for character in shown if not character.isprintable()}
    assert hidden == set()


def test_every_element_is_closed() -> None:
    """As much as an XML parser would say of the plots; HTML parsers forgive."""
    page = page_of(*days_of_traffic(), *hostile_lines())
    for plot in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        for tag in ("text", "title", "rect", "circle", "svg"):
            opened = len(re.findall(rf"<{tag}[ >]", plot))
            assert opened == plot.count(f"</{tag}>"), tag


def test_it_needs_nothing_from_elsewhere_and_would_get_nothing() -> None:
    page = page_of(*days_of_traffic(), *hostile_lines())
    assert Elements(page).attributes.isdisjoint({"src", "href", "srcset", "data", "action", "style"})
    assert not re.search(r"url\(|@import|@font-face", STYLE)
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'" in page


def test_every_series_has_a_colour_in_both_schemes() -> None:
    for series in (*SERIES, "bytes"):
        assert len(re.findall(rf"--{series}: #", STYLE)) == 2
        assert re.search(rf"^\.{series} {{ fill: var\(--{series}\)", STYLE, re.MULTILINE)


# How a browser draws it --------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is not installed; .ci/run installs it")
        pytest.skip("chromium is not installed")
    return found


def screenshot(chromium: str, page: Path, *options: str) -> tuple[Path, str]:
    """A picture of a page, and what the browser had to say."""
    picture = page.with_suffix(".png")
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
        f"--user-data-dir={page.parent / 'profile'}", "--window-size=1240,2000",
        "--force-device-scale-factor=0.5", "--host-resolver-rules=MAP * ~NOTFOUND",
        "--enable-logging=stderr", f"--screenshot={picture}", *options, page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return picture, done.stderr


def pixels(picture: bytes) -> Iterator[tuple[int, int, int]]:
    """Every pixel of a PNG as browsers write it: 8 bits, RGB or RGBA, not interlaced (ISO 15948)."""
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    at, data = 8, b""
    while at < len(picture):
        length, kind = struct.unpack(">I4s", picture[at : at + 8])
        if kind == b"IHDR":
            width, _, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", picture[at + 8 : at + 21])
            assert (depth, interlaced) == (8, 0)
            size = {2: 3, 6: 4}[colour]
        elif kind == b"IDAT":
            data += picture[at + 8 : at + 8 + length]
        at += 12 + length
    raw, stride = zlib.decompress(data), width * size
    above = bytes(stride)
    for start in range(0, len(raw), stride + 1):
        above = unfiltered(raw[start], raw[start + 1 : start + 1 + stride], above, size)
        yield from zip(above[0::size], above[1::size], above[2::size], strict=True)


def unfiltered(kind: int, row: bytes, above: bytes, size: int) -> bytes:
    """A row without its filter (ISO 15948, 9.2)."""
    if kind == 0:
        return row
    if kind == 2:
        return bytes((value + up) & 255 for value, up in zip(row, above, strict=True))
    done = bytearray(size) + bytearray(row)
    corner = bytes(size) + above
    for at in range(size, len(done)):
        left, up, diagonal = done[at - size], corner[at], corner[at - size]
        if kind == 1:
            guess = left
        elif kind == 3:
            guess = (left + up) // 2
        else:
            guess = min((left, up, diagonal), key=lambda value: abs(left + up - diagonal - value))
        done[at] = (done[at] + guess) & 255
    return bytes(done[size:])


def colours(scheme: int) -> dict[str, tuple[int, int, int]]:
    """The colours of the style by name: 0 the light ones, 1 the dark ones."""
    found: dict[str, tuple[int, int, int]] = {}
    for name in (*SERIES, "bytes", "page", "card"):
        text = re.findall(rf"--{name}: #([0-9a-f]+)", STYLE)[scheme]
        text = "".join(digit * 2 for digit in text) if len(text) == 3 else text
        found[name] = tuple(bytes.fromhex(text))  # type: ignore[assignment]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "option"), [(0, "1"), (1, "0")])
def test_a_browser_draws_it(scheme: int, option: str, chromium: str, tmp_path: Path) -> None:
    """Without a network, in both schemes: every series in its colour, so the policy lets the style in."""
    page = tmp_path / "report.html"
    page.write_text(page_of(*days_of_traffic(), *hostile_lines()), encoding="utf-8")
    picture, said = screenshot(chromium, page, f"--blink-settings=preferredColorScheme={option}")
    assert "Refused to" not in said
    assert "CONSOLE" not in said
    drawn = Counter(pixels(picture.read_bytes()))
    assert drawn.total() == 620 * 1000
    wanted = colours(scheme)
    for name in ("page", "card"):
        assert drawn[wanted[name]] > 50_000, name
    for name in (*SERIES, "bytes"):
        assert drawn[wanted[name]] >= 10, name
    assert drawn[wanted["success"]] > 5_000


@pytest.mark.slow
def test_a_browser_makes_text_of_names(chromium: str, tmp_path: Path) -> None:
    """The page as the browser's own parser has it."""
    page = tmp_path / "report.html"
    page.write_text(page_of(*hostile_lines()), encoding="utf-8")
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    elements = Elements(done.stdout)
    assert set(elements.tags) <= ALLOWED_TAGS
    assert elements.attributes <= ALLOWED_ATTRIBUTES | {"open"}
    assert "<title>audit.jsonl · tidegate audit</title>" in done.stdout


MEASURE = """<script>
const outside = [...document.querySelectorAll("svg text")].filter(text => {
  const box = text.getBBox(), room = text.ownerSVGElement.viewBox.baseVal;
  return box.x < 0 || box.x + box.width > room.width + 0.5;
});
document.title = "outside: " + outside.map(text => text.firstChild.data).join(", ");
</script></body>"""


@pytest.mark.slow
def test_a_browser_finds_room_for_every_label(chromium: str, tmp_path: Path) -> None:
    """As wide as its fonts make them: nothing of a plot is beyond its edges, where it would be cut off."""
    lines = [
        hop(name, agent=name, reason=name, outcome="error", wire_bytes=10**14) for name in WIDE_NAMES[:-2]
    ]
    content = page_of(*lines, *days_of_traffic())
    assert len(re.findall('class="label"[^>]*>[^<]*…', content)) >= len(lines)
    page = tmp_path / "report.html"
    # The page itself lets no script in, which would have to measure.
    policy = re.compile('<meta http-equiv="Content-Security-Policy"[^>]*>')
    page.write_text(policy.sub("", content).replace("</body>", MEASURE), encoding="utf-8")
    command = [
        chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "<title>outside: </title>" in done.stdout
