"""`web_request` itself: built once for an agent, without an event loop, then called any number of times."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn, TypedDict, Unpack

import trio

from tidegate import (
    Connector,
    DnsResolver,
    FetchError,
    Limits,
    Observer,
    Policy,
    Resolver,
    Response,
    client_context,
)
from tidegate._policy.ports import BAD_PORTS, MAX_PORT
from tidegate.portal import RunLocalEngine
from tidegate.telemetry import Outcome
from tidegate_tools.grants import net_grants_of
from tidegate_tools.registry import ToolContext, ToolInvalidArgs, ToolResult, ToolSpec
from tidegate_tools.web_request.config import WebRequestConfig, effective_caps
from tidegate_tools.web_request.credentials import HostCredentials
from tidegate_tools.web_request.description import describe
from tidegate_tools.web_request.failures import INTERNAL_ERROR, Failure, failure_of, invalid
from tidegate_tools.web_request.observing import RedactedObserver
from tidegate_tools.web_request.parameters import PARAMETERS, WebRequest, read_arguments
from tidegate_tools.web_request.records import CallRecord
from tidegate_tools.web_request.redaction import Redactor
from tidegate_tools.web_request.secrets import SecretError, Vaults
from tidegate_tools.web_request.shaping import RESULT, shape_result, to_json
from tidegate_tools.web_request.trial import with_trial_log

logger: Final = logging.getLogger("tidegate.tools.web_request")

NAME: Final = "web_request"

_IN_THREAD: Final = 256 * 1024
"""Bytes of content from which on a result is shaped in a thread: parsing and redacting megabytes takes tenths
of a second, in which no other call would get on. Picked without measuring."""


class BuildError(Exception):
    """`web_request` cannot be built for an agent: a secret that cannot be had, a file of certificates.

    Attributes:
        problems: one sentence each; secrets are named by their references.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "web_request cannot be built: " + "; ".join(self.problems)


class BuildOptions(TypedDict, total=False):
    """What a tool is built with, beside its configuration.

    Attributes:
        environment: variables for `{env: NAME}`; by default this process's.
        vaults: where vaults and identities are asked; by default Azure.
        resolver: instead of the system's, or of the configured `nameservers`. Every answer is checked.
        connector: instead of TCP; for tests, which bring their own network.
        observer: told of every step of every fetch, without the secrets of the configuration.
        record: called once for each call that has ended; what it raises is swallowed.
        observed: gives the tool with its calls observed: `ToolTelemetry.observed`.
    """

    environment: Mapping[str, str] | None
    vaults: Vaults | None
    resolver: Resolver | None
    connector: Connector | None
    observer: Observer | None
    record: Callable[[CallRecord], object] | None
    observed: Callable[[ToolSpec], ToolSpec] | None


def create_web_request_tools(
    config: WebRequestConfig | None,
    *,
    agent: str | None = None,
    bad_ports_refused: bool = False,
    **options: Unpack[BuildOptions],
) -> tuple[ToolSpec, ...]:
    """The tool for one agent, as values for a registry or an adapter. Once an agent; it keeps no state.

    Needs no event loop. It blocks: secrets are resolved now, and vaults asked; under trio, call it through
    `trio.to_thread.run_sync`. The tool's `call` runs under trio, or through a `tidegate.portal.Portal`. Each
    trio run that calls it has one engine for it, opened with the first call and closed as the run ends.

    Args:
        config: what holds for the agent (`ResolvedAgent.web_request_config`); None if the tool is off.
        agent: its name, for records.
        bad_ports_refused: see `ResolvedAgent.bad_ports_refused`.
        options: see `BuildOptions`.

    Returns:
        One tool; none if it is off.

    Raises:
        BuildError: something that the configuration refers to cannot be had; all of it is listed.
    """
    if config is None:
        return ()
    problems: list[str] = []
    with _listing(problems):
        credentials = HostCredentials(
            config, environment=options.get("environment"), vaults=options.get("vaults")
        )
    with _listing(problems, "nameservers: "):
        resolver = options.get("resolver") or (
            DnsResolver(config.nameservers) if config.nameservers else None
        )
    with _listing(problems, "ca_file: "):
        tls = client_context(ca_file=config.ca_file)
    if problems:
        raise BuildError(problems)
    policy = policy_of(config, bad_ports_refused=bad_ports_refused)
    engine = RunLocalEngine(
        policy,
        resolver=resolver,
        connector=options.get("connector"),
        observer=_observer_of(policy, credentials, options.get("observer")),
        credentials=credentials,
        tls=tls,
    )
    tool = ToolSpec(
        name=NAME,
        description=describe(config, effective_caps(config)),
        parameters=deepcopy(dict(PARAMETERS)),
        call=_WebRequest(engine, credentials, limits_of(config), agent, options.get("record")),
        result_schema=deepcopy(RESULT),
    )
    observed = options.get("observed")
    return (tool if observed is None else observed(tool),)


def _observer_of(policy: Policy, credentials: HostCredentials, observer: Observer | None) -> Observer | None:
    """Whoever is told of the steps of fetches; where there are secrets, without them."""
    if policy.report_only:
        observer = with_trial_log(observer)
    if observer is not None and credentials.field_names:
        observer = RedactedObserver(observer, credentials.redactor)
    return observer


@contextmanager
def _listing(problems: list[str], place: str = "") -> Iterator[None]:
    try:
        yield
    except SecretError as error:
        problems.extend(error.problems)
    except (ValueError, ModuleNotFoundError) as error:
        problems.append(f"{place}{error}")


def policy_of(config: WebRequestConfig, *, bad_ports_refused: bool = False) -> Policy:
    """What the engine may reach for a configuration. The floor is under it, whatever it says (W-5)."""
    return Policy(
        hosts=config.allowed_hosts,
        # The operator's, for whatever list holds; where there is none, nothing is on trial.
        report_only=config.report_only and config.allowed_hosts is not None,
        require_https=config.require_https,
        ports=frozenset(range(1, MAX_PORT + 1)) - BAD_PORTS if bad_ports_refused else None,
        private_ranges=[rule.as_policy() for rule in config.private_ranges],
        request_rules=[rule.as_policy() for rule in config.request_rules or ()],
        # What the model itself sends goes along within one origin, and never beyond (D-22, AMB-91).
        keep_credentials_within_origin=True,
    )


def limits_of(config: WebRequestConfig) -> Limits:
    """The bounds of one call for a configuration, clamped to the ceilings."""
    caps = effective_caps(config)
    return Limits(
        timeout=max(caps.timeout, _SHORTEST),
        max_content=caps.max_response_bytes,
        max_request_content=caps.max_request_bytes,
        max_redirects=caps.max_redirects,
    )


_SHORTEST: Final = 0.001
"""Seconds of the shortest deadline that the engine takes."""


# One call -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Account:
    """What is known of a call while it goes on."""

    started: float
    request: WebRequest | None = None
    response: Response | None = None
    result: dict[str, Any] | None = None
    failure: Failure | None = None

    @property
    def outcome(self) -> Outcome:
        """How the call ended. Without a result or a failure, its caller gave it up."""
        if self.failure is not None:
            return self.failure.outcome
        return Outcome.SUCCESS if self.result is not None else Outcome.CANCELLED


class _WebRequest:
    """The call of the tool. What it was built with stays in here: nothing prints it, nothing copies it."""

    def __init__(
        self,
        engine: RunLocalEngine,
        credentials: HostCredentials,
        limits: Limits,
        agent: str | None,
        record: Callable[[CallRecord], object] | None,
    ) -> None:
        self._engine = engine
        self._credentials = credentials
        self._limits = limits
        self._agent = agent
        self._record = record

    def __repr__(self) -> str:
        return f"<web_request of {self._agent}>" if self._agent else "<web_request>"

    def __copy__(self) -> "_WebRequest":
        return self

    def __deepcopy__(self, memo: object) -> "_WebRequest":
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a tool that is built cannot be pickled; pickle its configuration")

    async def __call__(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
        """One request. Nothing is raised but what cancels the call: a failure is a result, too (D-13)."""
        account = _Account(trio.current_time())
        try:
            await self._make(account, args, ctx)
        except ToolInvalidArgs as error:
            account.failure = invalid(str(error))
        except FetchError as error:
            account.failure = failure_of(error, timeout=self._limits.timeout)
        except Exception as error:
            # Its text may hold anything, and its frames hold fields and content.
            logger.error("web_request failed with %s", type(error).__name__)
            account.failure = INTERNAL_ERROR
        finally:
            self._tell(account)
        if account.failure is None:
            return ToolResult.success(to_json(account.result or {}))
        failure = account.failure.redacted(self._credentials.redactor())
        return ToolResult.failure(failure.info, failure.value)

    async def _make(self, account: _Account, args: object, ctx: ToolContext) -> None:
        account.request = request = read_arguments(args, max_request_bytes=self._limits.max_request_content)
        engine = await self._engine.get()
        account.response = await engine.fetch(
            str(request.url),
            method=request.method,
            headers=request.fields,
            content=request.content,
            limits=self._limits,
            authorize=net_grants_of(ctx),
            key=ctx.key,
        )
        account.result = await self._shape(account.response)

    async def _shape(self, response: Response) -> dict[str, Any]:
        shape = partial(shape_result, response, self._credentials.redactor(), self._credentials.field_names)
        if len(response.content) < _IN_THREAD:
            return shape()
        return await trio.to_thread.run_sync(shape, abandon_on_cancel=True)

    def _tell(self, account: _Account) -> None:
        if self._record is None:
            return
        try:
            self._record(_recorded(account, self._agent, self._credentials.redactor()))
        # Telemetry must not change what the agent gets.
        except Exception as error:
            logger.debug("the record of a call was lost: %s", type(error).__name__)


def _recorded(account: _Account, agent: str | None, redactor: Redactor) -> CallRecord:
    request, response, result, failure = account.request, account.response, account.result, account.failure
    url = redactor.redact_url(request.url) if request else None
    return CallRecord(
        agent=agent,
        method=request.method if request else None,
        host=url.host if url else None,
        path=url.path if url else None,
        status=response.status if response else None,
        duration=trio.current_time() - account.started,
        response_bytes=len(response.content) if response else None,
        body_truncated=bool(result and result["body_truncated"]),
        redirect_count=len(response.hops) - 1 if response else 0,
        outcome=account.outcome,
        reason=failure.reason if failure else None,
    )
