"""`open_engine` and `Engine`: what an embedder holds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from ssl import SSLContext
from typing import TYPE_CHECKING

from tidegate._engine.admission import Admission
from tidegate._engine.call import Call, Core
from tidegate._engine.credentials import CredentialSource
from tidegate._engine.hop import Authorize
from tidegate._engine.stream import ResponseStream
from tidegate._policy.fields import HeadersInput, check_fields
from tidegate._policy.limits import Limits
from tidegate._policy.messages import Content, Request, Response, check_method
from tidegate._policy.policy import Policy
from tidegate._policy.reasons import Reason
from tidegate._policy.url import parse_url
from tidegate._wire.connect import Connector, TCPConnector
from tidegate._wire.pool import Pool
from tidegate._wire.resolve import Resolver, SystemResolver
from tidegate._wire.tls import check_context, client_context
from tidegate.errors import InvalidArgument

if TYPE_CHECKING:
    from tidegate._engine.verdict import Verdict
    from tidegate._policy.events import Observer

_DEFAULT_LIMITS = Limits()


class Engine:
    """Fetches, each checked hop by hop, within one policy. Made by `open_engine`.

    Any number of tasks of one trio run may use it at once.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: HeadersInput = None,
        content: Content = b"",
        limits: Limits = _DEFAULT_LIMITS,
        authorize: Authorize | None = None,
        key: object = None,
    ) -> Response:
        """Fetch a URL and return the whole response, its content cut at the cap.

        Args:
            url: an absolute http or https URL.
            method: GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS.
            headers: request fields; those that frame or route a message are the engine's own (D-26). With
                an Accept-Encoding of your own, content comes as it is on the wire.
            content: bytes, or an async iterable of bytes that is sent in chunks and cannot be repeated.
            limits: every bound of this fetch.
            authorize: asked about the host on every hop before DNS; only True lets it pass.
            key: whose fetch this is (a pid, an agent), for fairness and for the observer. Hashable.

        Returns:
            The response, whatever its status.

        Raises:
            FetchError: and nothing else, whatever the peer does; see `tidegate.errors`. `trio.Cancelled`
                passes through; the deadline of `limits` is `DeadlineExceeded`.
        """
        call = self._call(limits, authorize, key)
        try:
            with call.bounded():
                call.begin()
                await call.open(_request(url, method, headers, content, limits))
                received = await call.reader.receive_all()
                call.finish(len(received))
        except BaseException as error:
            call.fail(error)
            raise
        finally:
            call.close()
        return call.response(received)

    def stream(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: HeadersInput = None,
        content: Content = b"",
        limits: Limits = _DEFAULT_LIMITS,
        authorize: Authorize | None = None,
        key: object = None,
    ) -> ResponseStream:
        """Like `fetch`, for content that is read piece by piece: `async with engine.stream(url) as response`.

        Errors come from entering the block and from iterating. The cap applies: `truncated` tells.
        """
        call = self._call(limits, authorize, key)
        return ResponseStream(call, partial(_request, url, method, headers, content, limits))

    def _call(self, limits: Limits, authorize: Authorize | None, key: object) -> Call:
        _check_options(limits, key)
        return Call(self._core, limits, authorize, key)

    async def check(
        self,
        url: str,
        *,
        method: str = "GET",
        limits: Limits = _DEFAULT_LIMITS,
        authorize: Authorize | None = None,
        key: object = None,
    ) -> "Verdict":
        """Say what each check makes of a URL. Resolves the name if all before it pass; connects nowhere.

        It is asked as a request without fields; one that asks for another method or path may be refused
        beside it. The observer hears nothing of it.

        Args:
            url: an absolute http or https URL; a text that is none is a verdict, too.
            method: as of `fetch`.
            limits: of these, `timeout` alone: seconds for all checks, the wait for a slot included.
            authorize: as of `fetch`.
            key: whose check this is. While it asks somebody outside, it takes a slot as a fetch does.

        Raises:
            DeadlineExceeded: the time is up; `phase` says what was going on.
            Overloaded: too many wait for a slot.
            EngineClosed: the engine's block has ended, or ends meanwhile.
            InvalidArgument: `limits` or `key` is of the wrong type.
        """
        from tidegate._engine.verdict import Examination

        _check_options(limits, key)
        examination = Examination(self._core, limits, authorize, key)
        try:
            with examination.bounded():
                verdict = await examination.examine(url, method)
        except BaseException as error:
            examination.fail(error)
            raise
        finally:
            examination.close()
        return verdict


def _check_options(limits: Limits, key: object) -> None:
    """Before there is a call, since its deadline and its turn come from these two."""
    if not isinstance(limits, Limits):
        raise InvalidArgument(f"limits must be a tidegate.Limits, not {type(limits).__name__}")
    try:
        hash(key)
    except TypeError:
        raise InvalidArgument(f"key must be hashable, which a {type(key).__name__} is not") from None


def _request(url: str, method: str, headers: HeadersInput, content: Content, limits: Limits) -> Request:
    return Request(
        check_method(method), parse_url(url), check_fields(headers), _check_content(content, limits)
    )


def _check_content(content: Content, limits: Limits) -> Content:
    if isinstance(content, bytearray | memoryview):
        content = bytes(content)
    if not isinstance(content, bytes):
        if hasattr(content, "__aiter__"):
            return content
        raise InvalidArgument(
            f"content must be bytes or an async iterable of bytes, not {type(content).__name__}"
        )
    if len(content) > limits.max_request_content:
        raise InvalidArgument(
            f"the request content has {len(content)} bytes; "
            f"at most {limits.max_request_content} are sent (max_request_content)",
            reason=Reason.REQUEST_TOO_LARGE,
        )
    return content


@asynccontextmanager
async def open_engine(
    policy: Policy | None = None,
    *,
    resolver: Resolver | None = None,
    connector: Connector | None = None,
    observer: "Observer | None" = None,
    credentials: CredentialSource | None = None,
    tls: SSLContext | None = None,
    max_concurrency: int = 100,
    max_concurrency_per_key: int | None = None,
    max_concurrency_per_host: int | None = None,
    max_idle: int = 100,
) -> AsyncIterator[Engine]:
    """Open an engine for the length of an `async with` block.

    At its end, fetches that are still under way fail with `EngineClosed`, and idle connections are closed.

    Args:
        policy: what may be reached; by default any public host.
        resolver: by default the system's, in threads of its own.
        connector: by default TCP.
        observer: told of every step.
        credentials: gives secret fields by host.
        tls: from `client_context`, with a private CA say; by default the system's trust anchors. It must
            verify certificates and names.
        max_concurrency: fetches at once; more wait in turns by key and host, and far too many are
            `Overloaded`.
        max_concurrency_per_key: fetches at once of one key; by default half of all, rounded up, so that one
            agent whose peers never answer leaves room for others. Fetches without a key have no such bound.
        max_concurrency_per_host: fetches at once of one host, whoever asks; None for no bound of its own.
        max_idle: connections kept for reuse; 0 for none.

    Raises:
        ValueError: a bound is out of range, or the TLS context does not verify.
        TypeError: something is not what it has to be.
    """
    if policy is not None and not isinstance(policy, Policy):
        raise TypeError(f"policy must be a tidegate.Policy, not a {type(policy).__name__}")
    _can("resolver", resolver, "resolve")
    _can("connector", connector, "connect")
    _can("observer", observer, "on_event")
    _can("credentials", credentials, "fields_for")
    core = Core(
        policy=policy or Policy(),
        resolver=resolver or SystemResolver(),
        connector=connector or TCPConnector(),
        tls=tls or client_context(),
        observer=observer,
        credentials=credentials,
        admission=_admission(max_concurrency, max_concurrency_per_key, max_concurrency_per_host),
        pool=Pool(_at_least("max_idle", max_idle, 0)),
    )
    check_context(core.tls)
    try:
        yield Engine(core)
    finally:
        core.close()


def _admission(slots: int, per_key: int | None, per_host: int | None) -> Admission:
    _at_least("max_concurrency", slots, 1)
    return Admission(
        slots,
        (slots + 1) // 2 if per_key is None else _at_least("max_concurrency_per_key", per_key, 1),
        slots if per_host is None else _at_least("max_concurrency_per_host", per_host, 1),
    )


def _can(name: str, value: object, method: str) -> None:
    # An audit log in the place of its observer, say, would be noticed only when nothing is in it.
    if value is not None and not callable(getattr(value, method, None)):
        raise TypeError(f"{name} must have a method {method}, and a {type(value).__name__} has none")


def _at_least(name: str, value: int, floor: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < floor:
        raise ValueError(f"{name} must be a whole number of at least {floor}, not {value!r}")
    return value
