"""What is measured, what it is compared with, and what is aimed at: one table."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

SMALL: Final = KIB
LARGE: Final = 16 * MIB
TEXT: Final = MIB
LENGTHS: Final = {"/small": SMALL, "/large": LARGE, "/text": TEXT}
"""Content bytes of each file, once decoded."""

ENGINE: Final = "tidegate"
BARE: Final = "bare trio + h11"

SUBJECTS: Final = {
    ENGINE: "engine",
    BARE: "bare_loop",
    "httpcore": "httpcore_trio",
    "httpx": "httpx_trio",
    "aiohttp": "aiohttp_asyncio",
    "http.client": "http_client",
    "pycurl": "curl",
}
"""Clients, and the module of `tests.bench.subjects` that runs each."""

NO_PROVIDER: Final = "OpenTelemetry without a provider"
SPANS: Final = "OpenTelemetry with spans"
SPANS_AND_METRICS: Final = "OpenTelemetry with spans and metrics"
SAMPLED: Final = "OpenTelemetry with metrics and a tenth of the spans"
BY_HAND: Final = "span and metric by hand"

OBSERVED: Final = {
    NO_PROVIDER: "otel_no_provider",
    SPANS: "otel_spans",
    SPANS_AND_METRICS: "otel_spans_and_metrics",
    SAMPLED: "otel_sampled",
    BY_HAND: "otel_by_hand",
}
"""The engine with OpenTelemetry, compared with the engine alone, and with the least that tells the same."""

TOOL: Final = "the tool alone"
TOOL_RECORDED: Final = "record_web_request without a provider"
TOOL_OBSERVED: Final = "ToolTelemetry without a provider"

TOOLS: Final = {TOOL: "tool", TOOL_RECORDED: "tool_recorded", TOOL_OBSERVED: "tool_observed"}
"""`web_request` with what tells of its calls in place, compared with itself alone."""

_ALL: Final = tuple(SUBJECTS)
_CONCURRENT: Final = (ENGINE, BARE, "httpcore", "httpx", "aiohttp")


class Figure(Enum):
    """What is read off a turn. All but memory are compared as ratios."""

    CPU = "CPU per fetch"
    WALL = "wall clock"
    MEMORY = "MiB beside the content"
    IMPORT = "CPU of the import"


@dataclass(frozen=True, slots=True)
class Aim:
    """The figure of `who` is at most `bound` times that of `of`; without `of`, at most `bound` itself."""

    bound: float
    of: str | None = None
    who: str = ENGINE


@dataclass(frozen=True, slots=True)
class Work:
    """One row of the table.

    Attributes:
        key: its short name, for the command line.
        title: its name in the table.
        site: which of the sites of `servers` is asked.
        path: the file.
        batches: how many batches of fetches are measured at one turn of one client.
        aims: what it is to cost, and beside whom.
        figure: what is read off.
        at_once: fetches of a batch, started together and awaited together.
        subjects: the clients that can do this.
    """

    key: str
    title: str
    site: str
    path: str
    batches: int
    aims: tuple[Aim, ...]
    figure: Figure = Figure.CPU
    at_once: int = 1
    subjects: tuple[str, ...] = _ALL

    @property
    def has_clients(self) -> bool:
        """Others than the engine are in it."""
        return any(subject in SUBJECTS and subject != ENGINE for subject in self.subjects)

    @property
    def opens_connections(self) -> bool:
        """Every fetch is to open a connection: the server closes each."""
        return self.site.startswith(("new", "resumable"))

    @property
    def keeps_connections(self) -> bool:
        """Only the first fetch is to open a connection."""
        return self.site in ("plain", "tls") and self.figure is not Figure.MEMORY


WORKS: Final = (
    Work(
        "kept", "1 KB, kept connection, plain", "plain", "/small", 200,
        (Aim(0.3, "httpx"), Aim(0.95, "aiohttp"), Aim(1.0, BARE)),
    ),
    Work(
        "kept-tls", "1 KB, kept connection, TLS", "tls", "/small", 200,
        (Aim(0.35, "httpx"), Aim(0.95, "aiohttp")),
    ),
    Work(
        "telemetry", "1 KB, kept connection, plain", "plain", "/small", 200,
        (
            Aim(1.05, ENGINE, NO_PROVIDER), Aim(1.2, ENGINE, SPANS), Aim(1.2, ENGINE, SPANS_AND_METRICS),
            Aim(1.2, ENGINE, SAMPLED), Aim(1.1, BY_HAND, SPANS_AND_METRICS),
        ),
        subjects=(ENGINE, *OBSERVED),
    ),
    Work(
        "tool", "1 KB by `web_request`, kept connection, plain", "plain", "/small", 200,
        (Aim(1.03, TOOL, TOOL_RECORDED), Aim(1.03, TOOL, TOOL_OBSERVED)),
        subjects=tuple(TOOLS),
    ),
    Work("new", "1 KB, new plain connection", "new-plain", "/small", 100, (Aim(0.5, "aiohttp"),)),
    Work("new-tls", "1 KB, new TLS connection", "new-tls", "/small", 30, (Aim(0.75, "aiohttp"),)),
    Work(
        "resumed", "1 KB, new TLS connection, resumed if the client can", "resumable-tls", "/small", 30,
        (Aim(0.65, "aiohttp"),),
    ),
    Work("large", "16 MiB by length, plain", "plain", "/large", 4, (Aim(1.0, "http.client"),)),
    Work("large-tls", "16 MiB by length, TLS", "tls", "/large", 3, (Aim(1.1, "http.client"),)),
    Work("chunked", "16 MiB in chunks of 64 KiB", "chunked", "/large", 4, (Aim(1.0, "aiohttp"),)),
    Work("gzip", "1 MiB of text, gzip", "plain", "/text", 10, (Aim(1.0, "aiohttp"),)),
    Work(
        "burst", "64 fetches of 1 KB at once, kept connections", "plain", "/small", 5, (Aim(0.4, "httpx"),),
        Figure.WALL, 64, _CONCURRENT,
    ),
    Work("memory", "peak memory, 16 MiB by length", "plain", "/large", 1, (Aim(2.0),), Figure.MEMORY),
    Work("memory-chunked", "peak memory, 16 MiB chunked", "chunked", "/large", 1, (Aim(2.0),), Figure.MEMORY),
    Work(
        "import", "`import tidegate`", "", "", 1, (Aim(1.3, "trio, h11"),),
        Figure.IMPORT, 1, (ENGINE, "trio, h11"),
    ),
)  # fmt: skip
