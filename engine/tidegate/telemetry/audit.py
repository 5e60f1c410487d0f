"""The audit log: one line of JSON a hop, and one a tool call, of who was let out, who was not, and why."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from ipaddress import ip_address
from types import TracebackType
from typing import Final, Self

from tidegate._policy.policy import Policy
from tidegate._policy.reasons import Phase
from tidegate._wire.resolve import Address, Resolver
from tidegate.telemetry.hops import HopObserver
from tidegate.telemetry.lines import LineWriter, stamped_line
from tidegate.telemetry.outcomes import RULES
from tidegate.telemetry.records import Decision, HopRecord
from tidegate.telemetry.sinks import RotatingFile, Sink, StandardError

MAX_QUEUE: Final = 10_000
"""Lines that may wait for the disk: about 5 MB of them. Picked without measuring."""

_MAX_TEXT: Final = 128
"""Characters of a text that an embedder or an agent chose: a key, a tool's name, an id."""

_AFTER_DNS: Final = (Phase.RESOLVE, Phase.CONNECT)

_last_answer: ContextVar[tuple[str, tuple[Address, ...]]] = ContextVar("tidegate_last_answer")


class RememberingResolver:
    """A resolver whose answers an audit log may show for refused hops: the operator's switch for that.

    Give the same one to `open_engine` and to `AuditLog.observer`.

    Args:
        inner: who is asked.
    """

    def __init__(self, inner: Resolver) -> None:
        self._inner = inner

    async def resolve(self, host: str) -> Sequence[Address]:
        """See `tidegate.Resolver`."""
        addresses = await self._inner.resolve(host)
        # The fetching task waits for this very call, so it is the one that finds the answer here.
        _last_answer.set((host, tuple(addresses)))
        return addresses

    def answer_for(self, host: str) -> tuple[Address, ...]:
        """What DNS last told this task of this host; nothing if it was asked something else since."""
        asked, addresses = _last_answer.get(("", ()))
        return addresses if asked == host else ()


class AuditLog:
    """Writes audit lines from a thread of its own. A fetch never waits for it and never fails by it.

    What cannot be written, since the disk is full say, is lost and counted: in `lost`, as a warning under
    `tidegate.audit` for each outage, and in the log itself as soon as it can be written again, at the latest
    when it is closed. Use it as a context manager around `trio.run`: leaving it waits for the lines to be
    written. A forked child may go on using it, and closes it for itself.

    Args:
        sink: where lines go; see `to_file` and `to_stderr`.
        max_queue: how many lines may wait.
        clock: the wall clock, in seconds since the epoch.
    """

    def __init__(
        self, sink: Sink, *, max_queue: int = MAX_QUEUE, clock: Callable[[], float] = time.time
    ) -> None:
        self._writer = LineWriter(sink, max_queue=max_queue, clock=clock)
        self._clock = clock

    @classmethod
    def to_file(
        cls,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = 10_000_000,
        keep: int = 5,
        must_open: bool = False,
    ) -> "AuditLog":
        """Append to a file, which is rotated to `path.1`, `path.2` and so on.

        Args:
            path: of the file. One process, and what is forked from it, to a file. Devices and named pipes
                are written, and not rotated.
            max_bytes: how large it may grow, if it can be renamed.
            keep: how many old files stay.
            must_open: open it now; by default the first line does, and is lost if that fails.

        Raises:
            ValueError: a bound is below 1.
            OSError: `must_open`, and it cannot be opened for writing.
        """
        sink = RotatingFile(path, max_bytes=max_bytes, keep=keep)
        if must_open:
            sink.open()
        return cls(sink)

    @classmethod
    def to_stderr(cls) -> "AuditLog":
        """Write to what is standard error now. If there is none, every line is lost, and counted."""
        return cls(StandardError())

    def observer(
        self, policy: Policy | None = None, *, blocked_addresses: RememberingResolver | None = None
    ) -> HopObserver:
        """An observer that writes here: `open_engine(policy, observer=log.observer(policy))`.

        Args:
            policy: that of the engine, for lines that tell which entry let a hop out. Without it, any number
                of engines may share the observer.
            blocked_addresses: show the addresses of refused hops, as this resolver got them; by default they
                are nowhere to be seen (W-F3).
        """

        def take(record: HopRecord) -> None:
            line = _hop_line(record, policy)
            if blocked_addresses is not None:
                line["blocked_addresses"] = _blocked_addresses(record, blocked_addresses)
            self.write("hop", line, record.time)

        return HopObserver(take, clock=self._clock)

    def write(self, event: str, facts: Mapping[str, object], at: float | None = None) -> None:
        """Write a line. Never waits, never raises.

        Args:
            event: what kind of line.
            facts: values that JSON knows, none of them secret; what is None is left out.
            at: seconds since the epoch, now by default.
        """
        present = {name: value for name, value in facts.items() if value is not None}
        self._writer.put(stamped_line(self._clock() if at is None else at, event, present))

    @property
    def lost(self) -> int:
        """Lines that could not be written so far; once it is closed, all that were not."""
        return self._writer.lost

    @property
    def lost_because(self) -> str | None:
        """Why the last of them was lost; None if none was."""
        return self._writer.lost_because

    def close(self, timeout: float = 5.0) -> None:
        """Write what waits and stop; blocks for at most `timeout` seconds. Other and later lines are lost."""
        self._writer.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def shown(value: object) -> str | int | None:
    """What somebody else chose, fit for a line: a number, or at most 128 characters of text."""
    return value if value is None or isinstance(value, int) else str(value)[:_MAX_TEXT]


def _hop_line(record: HopRecord, policy: Policy | None) -> dict[str, object]:
    url, call = record.url, record.call
    agent = call.agent if call is not None and call.agent is not None else record.key
    return {
        "agent": shown(agent),
        "tool": shown(call.tool) if call is not None else None,
        "call": (shown(call.call_id) if call.call_id != "" else None) if call is not None else None,
        "fetch": record.fetch,
        "hop": record.hop,
        "method": record.method,
        "scheme": url.scheme if url is not None else None,
        "host": url.host if url is not None else None,
        "port": url.port if url is not None else None,
        "decision": record.decision,
        "rule": _rule(record, policy),
        "reported": record.reported,
        "outcome": record.outcome,
        "reason": record.reason,
        "phase": record.phase,
        "status": record.status,
        "peer": record.peer,
        "reused": record.reused,
        "tls": record.tls_version,
        "repeats": record.repeats or None,
        "wire_bytes": record.wire_bytes if record.status is not None else None,
        "content_bytes": record.content_bytes,
        "truncated": record.truncated or None,
        "seconds": {phase.value: round(seconds, 6) for phase, seconds in record.seconds.items()},
        "duration": round(record.duration, 6),
    }


def _rule(record: HopRecord, policy: Policy | None) -> str | None:
    """Which rule decided: the one that refused, or the entry of the policy that let the hop out."""
    if record.reason is not None and record.reason in RULES:
        return RULES[record.reason]
    if record.reported is not None:
        return RULES[record.reported]
    if record.url is None or policy is None:
        return None
    return _admitting_rule(policy, record)


def _admitting_rule(policy: Policy, record: HopRecord) -> str | None:
    url = record.url
    assert url is not None
    if record.peer is not None:
        peer = ip_address(record.peer)
        for rule in policy.private_ranges:
            if rule.admits(url.host, peer):
                return f"private_ranges {rule.cidr}"
    entry = policy.hosts.most_specific(url.host) if policy.hosts is not None else None
    return f"hosts {entry}" if entry is not None else None


def _blocked_addresses(record: HopRecord, resolver: RememberingResolver) -> list[str] | None:
    """The addresses for which a name was refused; None for a hop that was not, or before DNS was asked."""
    if record.url is None or record.decision is not Decision.DENIED or record.phase not in _AFTER_DNS:
        return None
    return [str(address) for address in resolver.answer_for(record.url.host)]
