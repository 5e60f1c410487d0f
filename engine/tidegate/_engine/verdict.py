"""`check`: what each check says of a URL, in order, without sending a request."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidegate._engine.call import Call, Core
from tidegate._engine.hop import Authorize, authorize_host, resolve_host
from tidegate._engine.progress import Progress
from tidegate._policy.limits import Limits
from tidegate._policy.messages import Request, check_method
from tidegate._policy.pin import check_addresses
from tidegate._policy.policy import TARGET_RULES, Policy
from tidegate._policy.reasons import Phase, Reason
from tidegate._policy.url import URL, parse_url
from tidegate._wire.resolve import Address
from tidegate.errors import FetchError, Overloaded


@dataclass(frozen=True, slots=True)
class Check:
    """One check and what it says.

    Attributes:
        name: such as "host list".
        passed: True or False; None if an earlier refusal left it unasked.
        reason: why not, if it did not pass.
        detail: one sentence.
        setting: the operator's setting that decides, None if nothing can change it.
        reported: why a host list on trial (`Policy.report_only`) would refuse, though it lets this pass.
    """

    name: str
    passed: bool | None
    reason: Reason | None
    detail: str
    setting: str | None
    reported: Reason | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `Engine.check` found.

    Attributes:
        url: as it would be fetched; None if the text is no URL.
        checks: all of them, in order.
        addresses: what DNS answered, for the operator's eyes; never put them into a model's context.
    """

    url: URL | None
    checks: tuple[Check, ...]
    addresses: tuple[Address, ...]

    @property
    def allowed(self) -> bool:
        """True if a fetch would be let through to the network."""
        return all(check.passed for check in self.checks)

    @property
    def reason(self) -> Reason | None:
        """Of the first check that refuses."""
        return next((check.reason for check in self.checks if check.reason is not None), None)


_UNASKED = "not asked, since an earlier check refuses"

# Every check with the setting behind it, in the order of a fetch.
_CHECKS = (
    ("url", None),
    *((rule.name, rule.setting) for rule in TARGET_RULES),
    ("grant", "authorize"),
    ("resolution", "resolver"),
    ("addresses", "private_ranges"),
)


class Examination(Call):
    """A check under way: bounded like a fetch; but no observer hears of it, and it ends before connecting."""

    def __init__(self, core: Core, limits: Limits, authorize: Authorize | None, key: object) -> None:
        super().__init__(core, limits, authorize, key)
        self.progress = Progress()

    async def examine(self, text: str, method: str) -> Verdict:
        """Run the checks of a first hop up to, and without, connecting.

        Raises:
            Overloaded: too many wait for a slot; that says nothing about the URL.
        """
        found = _Findings()
        try:
            request = Request(check_method(method), parse_url(text), (), b"")
            self.progress.start_hop(request)
            found.examine_target(self._core.policy, request)
            await self._ask_outside(request.url, found)
        except Overloaded:
            raise
        except FetchError as error:
            found.refusal = error
        return found.verdict()

    async def _ask_outside(self, url: URL, found: "_Findings") -> None:
        self.progress.enter(Phase.ADMIT)
        await self._core.admission.acquire(self._key, url.host)
        self._admitted = url.host
        if self._authorize is not None:
            self.progress.enter(Phase.AUTHORIZE)
            await authorize_host(self._authorize, url)
        found.passed["grant"] = "nobody has to be asked" if self._authorize is None else "the host is granted"
        self.progress.enter(Phase.RESOLVE)
        found.addresses = tuple(await resolve_host(self._core.resolver, url, self._key))
        found.passed["resolution"] = _counted(found.addresses, url)
        check_addresses(self._core.policy, url, found.addresses)
        found.passed["addresses"] = "every address may be reached"


@dataclass(slots=True)
class _Findings:
    """What is known so far."""

    url: URL | None = None
    passed: dict[str, str] = field(default_factory=dict)
    reported: dict[str, Reason] = field(default_factory=dict)
    refusal: FetchError | None = None
    addresses: tuple[Address, ...] = ()

    def examine_target(self, policy: Policy, request: Request) -> None:
        self.url = request.url
        self.passed["url"] = f"{request.url.without_query} is well formed"
        for rule in TARGET_RULES:
            denied = rule.check(policy, request)
            if denied is not None and not rule.is_on_trial(policy):
                raise denied
            self.passed[rule.name] = rule.passing
            if denied is not None:
                self.passed[rule.name] = f"{denied.message}, which is only reported: report_only is on"
                self.reported[rule.name] = denied.reason

    def verdict(self) -> Verdict:
        return Verdict(self.url, tuple(self._checks()), self.addresses)

    def _checks(self) -> Iterator[Check]:
        refusal = self.refusal
        for name, setting in _CHECKS:
            if name in self.passed:
                yield Check(name, True, None, self.passed[name], setting, self.reported.get(name))
            elif refusal is not None:
                yield Check(name, False, refusal.reason, refusal.message, setting)
                refusal = None
            else:
                yield Check(name, None, None, _UNASKED, setting)


def _counted(addresses: tuple[Address, ...], url: URL) -> str:
    if url.address is not None:
        return "the host is an address"
    return "the name has one address" if len(addresses) == 1 else f"the name has {len(addresses)} addresses"
