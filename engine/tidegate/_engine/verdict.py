"""`check`: what each check says of a URL, in order, without sending a request."""

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate._engine.hop import Authorize, authorize_host, resolve_host
from tidegate._policy.messages import Request, check_method
from tidegate._policy.pin import check_addresses
from tidegate._policy.policy import TARGET_RULES, Policy
from tidegate._policy.reasons import Reason
from tidegate._policy.url import URL, parse_url
from tidegate._wire.resolve import Address, Resolver
from tidegate.errors import FetchError


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


async def examine(
    policy: Policy, resolver: Resolver, authorize: Authorize | None, text: str, method: str
) -> Verdict:
    """Run the checks of a first hop up to, and without, connecting."""
    passed: dict[str, str] = {}
    reported: dict[str, Reason] = {}
    refusal: FetchError | None = None
    url: URL | None = None
    addresses: tuple[Address, ...] = ()
    try:
        checked = check_method(method)
        url = parse_url(text)
        request = Request(checked, url, (), b"")
        passed["url"] = f"{url.without_query} is well formed"
        for rule in TARGET_RULES:
            denied = rule.check(policy, request)
            if denied is not None and not rule.is_on_trial(policy):
                raise denied
            passed[rule.name] = rule.passing
            if denied is not None:
                passed[rule.name] = f"{denied.message}, which is only reported: report_only is on"
                reported[rule.name] = denied.reason
        if authorize is not None:
            await authorize_host(authorize, url)
        passed["grant"] = "nobody has to be asked" if authorize is None else "the host is granted"
        addresses = tuple(await resolve_host(resolver, url))
        passed["resolution"] = _counted(addresses, url)
        check_addresses(policy, url, addresses)
        passed["addresses"] = "every address may be reached"
    except FetchError as error:
        refusal = error
    return Verdict(url, tuple(_results(passed, reported, refusal)), addresses)


def _counted(addresses: tuple[Address, ...], url: URL) -> str:
    if url.address is not None:
        return "the host is an address"
    return "the name has one address" if len(addresses) == 1 else f"the name has {len(addresses)} addresses"


def _results(
    passed: dict[str, str], reported: dict[str, Reason], refusal: FetchError | None
) -> Iterator[Check]:
    for name, setting in _CHECKS:
        if name in passed:
            yield Check(name, True, None, passed[name], setting, reported.get(name))
        elif refusal is not None:
            yield Check(name, False, refusal.reason, refusal.message, setting)
            refusal = None
        else:
            yield Check(name, None, None, _UNASKED, setting)
