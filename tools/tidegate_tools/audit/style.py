"""The style of the report: light or dark as the reader's system is, and fit for a printer."""

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark;
  --page: #f5f6f8; --card: #fff; --ink: #1c2430; --soft: #667085; --line: #e4e7ec; --edge: #e4e7ec;
  --success: #3f7cc4; --would_deny: #e3b341; --blocked: #c4453c; --invalid: #98a2b3;
  --timeout: #8b62b8; --error: #e58441; --cancelled: #cfd4dc; --bytes: #4a9d94; }
@media (prefers-color-scheme: dark) { :root {
  --page: #11151b; --card: #191f28; --ink: #e6eaf0; --soft: #93a0b3; --line: #2a323e; --edge: #262e39;
  --success: #5b9be6; --would_deny: #e6bd5a; --blocked: #e2655b; --invalid: #77839a;
  --timeout: #a98ad6; --error: #ec9a5e; --cancelled: #4a5464; --bytes: #5fb8ae; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
  font-variant-numeric: tabular-nums; }
header, main, footer { max-width: 1160px; margin: 0 auto; padding: 0 24px; }
header { padding-top: 34px; padding-bottom: 8px; }
header p { margin: 2px 0; color: var(--soft); }
h1 { margin: 0; font-size: 27px; line-height: 1.25; letter-spacing: -.01em; overflow-wrap: anywhere; }
.kicker { text-transform: uppercase; letter-spacing: .1em; font-size: 12px; font-weight: 600; }
main { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 16px; padding-top: 14px; }
.tiles, .wide, .warning, .counted, main > .empty { grid-column: 1 / -1; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(118px, 1fr)); gap: 12px; }
.tile { background: var(--card); border: 1px solid var(--edge); border-top: 3px solid var(--line);
  border-radius: 10px; padding: 12px 14px; }
.tile.blocked { border-top-color: var(--blocked); } .tile.error { border-top-color: var(--error); }
.tile.would_deny { border-top-color: var(--would_deny); }
.tile b { display: block; font-size: 25px; font-weight: 650; letter-spacing: -.02em; white-space: nowrap; }
.tile span { display: block; font-weight: 550; } .tile small { color: var(--soft); }
.card { background: var(--card); border: 1px solid var(--edge); border-radius: 10px;
  padding: 16px 20px 18px; }
h2 { margin: 0 0 10px; font-size: 16px; font-weight: 650; }
h2 small { font-weight: 400; font-size: 13px; color: var(--soft); margin-left: 6px; }
.plot { overflow-x: auto; }
svg { display: block; width: 100%; height: auto; font-family: inherit; font-size: 12px; }
.wide svg { min-width: 640px; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 10px; padding: 0;
  font-size: 13px; color: var(--soft); }
.legend b { color: var(--ink); font-weight: 600; }
.key { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px; }
text { fill: var(--ink); } .axis { fill: var(--soft); font-size: 11.5px; } .value { fill: var(--soft); }
.grid { stroke: var(--line); } .base { stroke: var(--soft); stroke-opacity: .55; }
.success { fill: var(--success); background: var(--success); }
.would_deny { fill: var(--would_deny); } .key.would_deny { background: var(--would_deny); }
.blocked { fill: var(--blocked); } .key.blocked { background: var(--blocked); }
.invalid { fill: var(--invalid); background: var(--invalid); }
.timeout { fill: var(--timeout); background: var(--timeout); }
.error { fill: var(--error); } .key.error { background: var(--error); }
.cancelled { fill: var(--cancelled); background: var(--cancelled); }
.bytes { fill: var(--bytes); }
.range { stroke: var(--success); stroke-width: 3; stroke-opacity: .3; stroke-linecap: round; }
.p50 { fill: var(--success); }
.p90 { fill: var(--card); stroke: var(--success); stroke-width: 2; }
.p99 { fill: var(--card); stroke: var(--success); stroke-width: 1.5; }
.warning { margin: 0; padding: 10px 16px; border-radius: 10px; border-left: 4px solid var(--would_deny);
  background: var(--card); }
.empty { color: var(--soft); margin: 8px 0; }
.counted { color: var(--soft); margin: -4px 2px 0; font-size: 13px; }
summary { cursor: pointer; color: var(--soft); }
table { border-collapse: collapse; width: 100%; margin-top: 10px; font-size: 14px; }
th, td { text-align: right; padding: 5px 10px; border-bottom: 1px solid var(--line); font-weight: 400; }
th:first-child { text-align: left; overflow-wrap: anywhere; } thead th { color: var(--soft); }
footer { padding-top: 18px; padding-bottom: 40px; color: var(--soft); font-size: 13px; }
@media (max-width: 860px) { main { grid-template-columns: minmax(0, 1fr); } .card { padding: 14px; }
  header, main, footer { padding-left: 14px; padding-right: 14px; } header { padding-top: 22px; } }
@media print { body { background: #fff; } .card, .tile { break-inside: avoid; } }
"""
