"""OpenTelemetry: one CLIENT span a request sent, and the metrics of HTTP clients. Needs the extra `otel`.

Only the API is used: without an SDK that the program has set up, nothing happens. The conventions are those
of HTTP client spans 1.44; `error.type` is a value of `tidegate.Reason` where there is no response, so that
one word stands for a failure everywhere (decisions, table A2).

No `traceparent` goes out with a request: it would give our ids to strangers.
"""

import time
from collections.abc import Callable, Collection, Iterable
from typing import Final

try:
    from opentelemetry import metrics, trace
    from opentelemetry.context import get_current
    from opentelemetry.trace import SpanKind, Status, StatusCode
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "OpenTelemetry is not installed: pip install 'tidegate[otel]'", name=missing.name
    ) from None

from tidegate._policy.events import (
    DenialReported,
    Event,
    FetchFailed,
    HopFailed,
    HopFinished,
    HopStarted,
    RequestRepeated,
)
from tidegate._policy.host import HostList
from tidegate._policy.messages import Hop
from tidegate._policy.reasons import Phase, Reason
from tidegate._policy.url import URL
from tidegate._version import __version__
from tidegate.errors import FetchError
from tidegate.telemetry import conventions as names
from tidegate.telemetry.outcomes import Outcome, outcome_of
from tidegate.telemetry.providers import Providers
from tidegate.telemetry.redaction import shown_url

OPT_IN: Final = frozenset({
    names.URL_SCHEME,
    names.HTTP_RESPONSE_BODY_SIZE,
    names.CLIENT_RESPONSE_BODY_SIZE,
    names.CLIENT_ACTIVE_REQUESTS,
})  # fmt: skip
"""Attributes and metrics that the conventions leave to the operator, as far as the engine knows them."""

_SCOPE: Final = "tidegate"
_Attributes = dict[str, str | int]


def _unchanged(text: str) -> str:
    return text


class OpenTelemetryObserver:
    """An observer for any number of engines. Its spans are children of the span that is current at a fetch.

    Of a refused request it shows host, port and reason, but no path and never an address (W-F3).

    Args:
        tracer_provider: None means the program's global one, also if it is set later.
        meter_provider: the same for metrics.
        query: show queries in `url.full`, with the values of a few known signature keys replaced. By default
            there is no query at all, since any key may hold a secret.
        redact: called on hosts and on `url.full`, to replace secrets that only the embedder knows.
        metric_hosts: the only hosts that metrics name, as in `Policy.hosts`; others are `_other`. None
            names all, and the number of time series is then up to whoever chooses the URLs.
        opt_in: what to add, out of `OPT_IN`.

    Raises:
        ValueError: `opt_in` or `metric_hosts` holds something unknown.
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        query: bool = False,
        redact: Callable[[str], str] = _unchanged,
        metric_hosts: Iterable[str] | None = None,
        opt_in: Collection[str] = (),
    ) -> None:
        unknown = sorted(set(opt_in) - OPT_IN)
        if unknown:
            raise ValueError(f"opt_in may hold {', '.join(sorted(OPT_IN))}, not {', '.join(unknown)}")
        self._providers = Providers(tracer_provider, meter_provider)
        self._tracer = trace.get_tracer(_SCOPE, __version__, tracer_provider, names.SCHEMA)
        self._metrics = _Metrics(meter_provider, metric_hosts, redact, opt_in)
        self._query = query
        self._redact = redact
        self._shows_scheme = names.URL_SCHEME in opt_in
        self._shows_size = names.HTTP_RESPONSE_BODY_SIZE in opt_in
        self._requests: dict[int, _Request] = {}

    @property
    def kinds(self) -> frozenset[type[Event]]:
        """What it wants to be told of: nothing as long as nobody has set a provider (W-11)."""
        return _KINDS if self._providers.are_set else _NONE

    def on_event(self, event: Event) -> None:
        """See `tidegate.Observer`."""
        match event:
            case HopStarted():
                self._begin(event.fetch, _Request(event.method, event.url, event.time, event.resends))
            case HopFinished():
                self._answered(event)
            case HopFailed():
                self._failed(event)
            case FetchFailed():
                self._metrics.failed(event.error)
            case RequestRepeated():
                self._repeated(event)
            case DenialReported():
                self._metrics.reported(event.refusal.reason)

    def _begin(self, fetch: int, request: "_Request") -> None:
        self._requests[fetch] = request
        self._metrics.began(request)

    # A request is not known if the provider was set while it was under way.

    def _repeated(self, event: RequestRepeated) -> None:
        request = self._requests.pop(event.fetch, None)
        if request is not None:
            self._end(request, event.time, error=event.error.reason.value)
            again = _Request(request.method, request.url, event.time, request.resends + 1)
            self._begin(event.fetch, again)

    def _answered(self, event: HopFinished) -> None:
        request = self._requests.pop(event.fetch, None)
        if request is None:
            return
        request.size = event.wire_bytes
        status = event.outcome.status
        self._end(request, event.time, event.outcome, error=None if status < 400 else str(status))

    def _failed(self, event: HopFailed) -> None:
        request = self._requests.pop(event.fetch, None)
        if request is None:
            return
        error = event.error
        # At a redirect, the request itself was let through, and its target was refused.
        request.blocked = _is_blocked(error) and error is not None and error.phase is not Phase.REDIRECT
        request.given_up = error is None
        self._end(request, event.time, event, error=None if error is None else error.reason.value)

    def _end(
        self, request: "_Request", now: float, answer: Hop | HopFailed | None = None, *, error: str | None
    ) -> None:
        """Measure the request, and make its span.

        Args:
            request: that has ended.
            now: the time on the trio clock.
            answer: what is known of the peer and of its answer.
            error: `error.type`, if there is one.
        """
        url = request.url
        facts: _Attributes = {
            names.HTTP_REQUEST_METHOD: request.method,
            names.SERVER_ADDRESS: self._redact(url.host),
            names.SERVER_PORT: url.port,
        }
        if answer is not None and answer.status is not None and answer.http_version is not None:
            facts[names.HTTP_RESPONSE_STATUS_CODE] = answer.status
            facts[names.NETWORK_PROTOCOL_VERSION] = answer.http_version
        if error is not None:
            facts[names.ERROR_TYPE] = error
        if self._providers.measures:
            self._metrics.ended(request, now, facts)
        if self._providers.traces:
            self._make_span(request, now, facts, None if answer is None else answer.peer)

    def _make_span(self, request: "_Request", now: float, facts: _Attributes, peer: str | None) -> None:
        # Made only now, with its times and its parent as they were: nothing can be its child, and one pass
        # over all attributes is a fifth cheaper than two. A sampler sees no fewer of them than at the start.
        span = self._tracer.start_span(
            request.method,
            context=request.context,
            kind=_CLIENT,
            attributes=self._attributes(request, facts, peer),
            start_time=request.began_at,
        )
        if names.ERROR_TYPE in facts:
            span.set_status(_FAILED)
        # By the monotonic clock, so that no correction of the wall clock makes a span run backwards, and span
        # and metric agree.
        span.end(request.began_at + round((now - request.started) * 1e9))

    def _attributes(self, request: "_Request", facts: _Attributes, peer: str | None) -> _Attributes:
        """The facts, and what metrics do not tell."""
        url = request.url
        attributes = dict(facts)  # the metrics' own may still be looked at
        if not request.blocked:
            attributes[names.URL_FULL] = self._redact(shown_url(url, query=self._query))
        if request.resends:
            attributes[names.HTTP_REQUEST_RESEND_COUNT] = request.resends
        if self._shows_scheme:
            attributes[names.URL_SCHEME] = url.scheme
        if peer is not None:  # so it was let through, and its address is no secret (W-F3)
            attributes[names.NETWORK_PEER_ADDRESS] = peer
            attributes[names.NETWORK_PEER_PORT] = url.port
        if self._shows_size and request.size is not None:
            attributes[names.HTTP_RESPONSE_BODY_SIZE] = request.size
        return attributes


_NONE: Final = frozenset[type[Event]]()
_KINDS: Final = frozenset[type[Event]](
    {HopStarted, HopFinished, HopFailed, FetchFailed, RequestRepeated, DenialReported}
)


def _is_blocked(error: FetchError | None) -> bool:
    return error is not None and outcome_of(error.reason) is Outcome.BLOCKED


# The members of enums are slow to get at.
_CLIENT: Final = SpanKind.CLIENT
_FAILED: Final = Status(StatusCode.ERROR)


class _Request:
    """A request under way, and then what became of it."""

    __slots__ = (
        "began_at", "blocked", "context", "given_up", "method", "resends", "size", "started", "url",
    )  # fmt: skip

    def __init__(self, method: str, url: URL, started: float, resends: int) -> None:
        self.method = method
        self.url = url
        self.started = started
        self.resends = resends
        self.began_at = time.time_ns()
        self.context = get_current()  # whose span is the parent
        self.blocked = False
        self.given_up = False
        self.size: int | None = None  # content bytes on the wire, once they are all there


class _Metrics:
    """The instruments."""

    def __init__(
        self,
        provider: metrics.MeterProvider | None,
        hosts: Iterable[str] | None,
        redact: Callable[[str], str],
        opt_in: Collection[str],
    ) -> None:
        meter = metrics.get_meter(_SCOPE, __version__, provider, names.SCHEMA)
        self._hosts = None if hosts is None else HostList(hosts)
        self._redact = redact
        self._duration = meter.create_histogram(
            names.CLIENT_REQUEST_DURATION,
            unit="s",
            description="Duration of HTTP client requests.",
            explicit_bucket_boundaries_advisory=names.DURATION_BUCKETS,
        )
        self._denied = meter.create_counter(
            names.DENIED, unit="{request}", description="Requests that a rule refused."
        )
        self._reported = meter.create_counter(
            names.REPORTED,
            unit="{request}",
            description="Requests that a host list on trial would have refused.",
        )
        self._size = (
            meter.create_histogram(
                names.CLIENT_RESPONSE_BODY_SIZE, unit="By", description="Content bytes received, as coded."
            )
            if names.CLIENT_RESPONSE_BODY_SIZE in opt_in
            else None
        )
        self._active = (
            meter.create_up_down_counter(
                names.CLIENT_ACTIVE_REQUESTS, unit="{request}", description="Requests under way."
            )
            if names.CLIENT_ACTIVE_REQUESTS in opt_in
            else None
        )

    def _target(self, request: _Request) -> _Attributes:
        return {
            names.HTTP_REQUEST_METHOD: request.method,
            names.SERVER_ADDRESS: self._redact(request.url.host) if self._names(request) else names.OTHER,
            names.SERVER_PORT: request.url.port,
        }

    def _names(self, request: _Request) -> bool:
        return self._hosts is None or self._hosts.matches(request.url.host)

    def began(self, request: _Request) -> None:
        if self._active is not None:
            self._active.add(1, self._target(request))

    def ended(self, request: _Request, now: float, facts: _Attributes) -> None:
        if self._active is not None:
            self._active.add(-1, self._target(request))
        if self._size is not None and request.size is not None:
            self._size.record(request.size, self._target(request))
        # The duration of one that was given up would look like that of a success.
        if not request.given_up:
            named = facts if self._names(request) else {**facts, names.SERVER_ADDRESS: names.OTHER}
            self._duration.record(now - request.started, named)

    def failed(self, error: FetchError | None) -> None:
        if error is not None and _is_blocked(error):
            self._denied.add(1, {names.REASON: error.reason.value})

    def reported(self, reason: Reason) -> None:
        self._reported.add(1, {names.REASON: reason.value})
