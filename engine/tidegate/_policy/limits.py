"""`Limits`: every bound of one fetch, with its default, floor and ceiling, in one table."""

from dataclasses import dataclass, fields
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# name: (floor, ceiling), both inclusive. Ceilings keep a typing mistake from becoming an outage; nobody
# who meant what they wrote has needed more.
_BOUNDS: Final[dict[str, tuple[float, float]]] = {
    "timeout": (0.001, 3600),
    "max_content": (0, 2**40),
    "max_encoded_content": (0, 2**41),
    "max_request_content": (0, 2**30),
    "max_redirects": (0, 20),
    "max_head": (KIB, MIB),
    "max_fields": (1, 10_000),
    "max_interim": (0, 1_000),
    "max_trailers": (0, 1_000),
    "max_chunk_overhead": (KIB, MIB),
    "max_codings": (0, 8),
    "max_coding_members": (1, 100_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one fetch (decisions D-4, D-16, D-25). A wrong value is a `ValueError` that names it.

    Content over its cap is cut and flagged; every other limit is an error (D-4).

    Attributes:
        timeout: seconds from the call to the last byte, redirects included; up to 3600.
        max_content: bytes of decoded content that are kept; up to 1 TiB (meant for streams).
        max_encoded_content: bytes of content as they come over the wire, counted where a content coding is
            decoded; None means `max_content` and 1/64 and 64 KiB more, since stored blocks grow a little.
        max_request_content: bytes of request content; more is `request_too_large` before anything is sent.
        max_redirects: redirects that are followed; 0 returns a 3xx as it is; up to 20.
        max_head: bytes of one response head, of all interim responses, and of the trailer section.
        max_fields: field lines in a head.
        max_interim: interim (1xx) responses before the final one (curl counts bytes, Go takes 5).
        max_trailers: field lines in the trailer section.
        max_chunk_overhead: bytes of chunk lines beyond 16 and twice the chunk's size each, as Go counts.
        max_codings: content codings applied one after the other.
        max_coding_members: gzip members or zstd frames in one content (aiohttp takes 1,024).
    """

    timeout: float = 30.0
    max_content: int = 4 * MIB
    max_encoded_content: int | None = None
    max_request_content: int = MIB
    max_redirects: int = 0
    max_head: int = 256 * KIB
    max_fields: int = 256
    max_interim: int = 16
    max_trailers: int = 100
    max_chunk_overhead: int = 16 * KIB
    max_codings: int = 3
    max_coding_members: int = 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            _check_bound(field.name, getattr(self, field.name))

    @property
    def encoded_content(self) -> int:
        """The cap on encoded content in bytes, whether given or derived."""
        if self.max_encoded_content is not None:
            return self.max_encoded_content
        return self.max_content + self.max_content // 64 + 64 * KIB


def _check_bound(name: str, value: object) -> None:
    if value is None and name == "max_encoded_content":
        return
    floor, ceiling = _BOUNDS[name]
    wanted = "a number of seconds" if name == "timeout" else "a whole number"
    kinds = (int, float) if name == "timeout" else (int,)
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise ValueError(f"Limits.{name} must be {wanted}, not {type(value).__name__}")
    if not floor <= value <= ceiling:  # NaN is in no range
        raise ValueError(f"Limits.{name} must be {wanted} from {floor} to {ceiling}, not {value!r}")
