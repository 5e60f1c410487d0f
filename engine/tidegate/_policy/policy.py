"""`Policy`: what may be reached, and the checks of a target that need no DNS."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final, NamedTuple, TypeVar

from tidegate._policy.address import classify_address, may_never_be_admitted
from tidegate._policy.fields import CREDENTIAL_FIELDS, is_own_field, overrides_method, overrides_path
from tidegate._policy.host import HostList, address_of, is_local_name
from tidegate._policy.messages import METHODS, Request
from tidegate._policy.path import is_ambiguous
from tidegate._policy.ports import BAD_PORTS, MAX_PORT
from tidegate._policy.reasons import AddressClass, Reason
from tidegate._policy.url import URL
from tidegate.errors import Denied, HostDenied, PortDenied, SchemeDenied

_Value = TypeVar("_Value")

_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_LOOPBACK: Final = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
# A fake-IP proxy answers every name from this block (Clash, Surge, sing-box); see decision D-12.
_FAKE_IP: Final = (IPv4Network("198.18.0.0/15"), IPv6Network("fc00::/7"))
_FAKE_IP_V6_PREFIX: Final = 16  # sing-box uses an /18; a whole /8 would open every network of one's own


def _within(inner: IPv4Network | IPv6Network, outer: Iterable[IPv4Network | IPv6Network]) -> bool:
    return any(
        isinstance(inner, IPv4Network) is isinstance(net, IPv4Network) and inner.subnet_of(net)  # type: ignore[arg-type]
        for net in outer
    )


@dataclass(frozen=True, slots=True, init=False)
class PrivateRange:
    """An operator's exception to the floor: the named hosts may resolve into one range (D-12).

    No rule admits metadata addresses, link-local, multicast, unspecified or broadcast ones, nor an address
    that wraps one of those. Loopback needs a rule that lies within loopback.

    Args:
        cidr: the range, such as "10.20.0.0/16"; no host bits set.
        hosts: host-list patterns (exact, or "*.corp.example" for any depth below). "*" alone names all
            hosts and is only for fake-IP proxies: within 198.18.0.0/15, or a ULA prefix; it never admits
            an address typed into a URL.

    Raises:
        ValueError: one of them is wrong; the message says what and what is allowed.
    """

    cidr: str
    hosts: tuple[str, ...]
    _network: IPv4Network | IPv6Network = field(repr=False, compare=False)
    _host_list: HostList | None = field(repr=False, compare=False)

    def __init__(self, cidr: str, hosts: str | Iterable[str]) -> None:
        network = _parse_range(cidr)
        names = (hosts,) if isinstance(hosts, str) else _items("hosts of a private range", hosts)
        if not names:
            raise ValueError(f"private range {cidr} names no hosts; a range is always bound to host names")
        for_all = names == ("*",)
        if for_all and not _is_fake_ip(network):
            raise ValueError(
                f'private range {cidr}: hosts "*" is only for fake-IP proxies, within 198.18.0.0/15 or one '
                f"ULA prefix of /{_FAKE_IP_V6_PREFIX} or longer; name the hosts instead"
            )
        object.__setattr__(self, "cidr", str(network))
        object.__setattr__(self, "hosts", names)
        object.__setattr__(self, "_network", network)
        object.__setattr__(
            self, "_host_list", None if for_all else HostList(names, allow_special_suffix=True)
        )

    def names(self, host: str) -> bool:
        """True if the rule names this host; the star names none (D-8 stays in force)."""
        return self._host_list is not None and self._host_list.matches(host)

    def admits(self, host: str, address: IPv4Address | IPv6Address) -> bool:
        """True if this rule lets a host, in its canonical form, be at `address`."""
        named = self.names(host) if self._host_list is not None else address_of(host) is None
        return named and address in self._network and self._may_admit(address)

    def _may_admit(self, address: IPv4Address | IPv6Address) -> bool:
        if may_never_be_admitted(address):
            return False
        # By class, so that an address which wraps a loopback one counts as that: no rule spells it out.
        loopback = classify_address(address) is AddressClass.LOOPBACK
        return not loopback or _within(self._network, _LOOPBACK)


def _is_fake_ip(network: IPv4Network | IPv6Network) -> bool:
    long_enough = network.version == 4 or network.prefixlen >= _FAKE_IP_V6_PREFIX
    return long_enough and _within(network, _FAKE_IP)


def _parse_range(cidr: object) -> IPv4Network | IPv6Network:
    if not isinstance(cidr, str):
        raise ValueError(f"a private range must be text such as '10.20.0.0/16', not {type(cidr).__name__}")
    try:
        network = ip_network(cidr)
    except ValueError as error:
        raise ValueError(f"private range {cidr!r} is no CIDR block such as '10.20.0.0/16': {error}") from None
    if _within(network, (_MAPPED,)):
        # Such an address is dialled and judged as the IPv4 one in it (D-6): the rule would admit nothing.
        raise ValueError(f"private range {cidr} holds IPv4 addresses; write it as an IPv4 range")
    probes = (network[0], network[network.num_addresses // 2], network[-1])
    if all(may_never_be_admitted(address) for address in probes):
        raise ValueError(
            f"private range {cidr} can not be admitted by any rule (metadata, link-local, multicast ...)"
        )
    return network


@dataclass(frozen=True, slots=True, init=False)
class RequestRule:
    """What may be asked of one host: a method and path allow list.

    A host that at least one rule names may only be asked for what one of its rules allows.

    Args:
        host: a host-list pattern.
        methods: allowed methods; None means all. A field such as X-HTTP-Method-Override asks for a method,
            too; what a form or a query asks for (`_method=DELETE`) is not seen.
        paths: allowed paths, exact ("/v1/users") or everything below ("/v1/*"); None means all. A star
            covers no path on which servers disagree where it leads, however often it is decoded: with an
            encoded slash, backslash or control character, with bytes that are no UTF-8, or with dots in a
            disguise such as `..;`. A field such as X-Original-URL asks for a path that is not looked at: only
            a rule for all paths allows it.

    Raises:
        ValueError: one of them is wrong. An empty list is: to one reader it means all, to another none.
    """

    host: str
    methods: tuple[str, ...] | None
    paths: tuple[str, ...] | None
    _host_list: HostList = field(repr=False, compare=False)

    def __init__(
        self, host: str, methods: Iterable[str] | None = None, paths: Iterable[str] | None = None
    ) -> None:
        object.__setattr__(self, "host", host)
        object.__setattr__(self, "methods", _some_texts("methods of a request rule", methods))
        object.__setattr__(self, "paths", _some_texts("paths of a request rule", paths))
        object.__setattr__(self, "_host_list", HostList((host,)))
        for method in self.methods or ():
            if method not in METHODS:
                raise ValueError(
                    f"request rule for {host}: method {method!r} is none of {', '.join(METHODS)}"
                )
        for path in self.paths or ():
            if not path.startswith("/") or "*" in path.removesuffix("/*"):
                raise ValueError(
                    f"request rule for {host}: path {path!r} must be like '/v1/users' or '/v1/*'"
                )

    def names(self, host: str) -> bool:
        """True if the rule is about this host."""
        return self._host_list.matches(host)

    def allows(self, url: URL, method: str) -> bool:
        """True if this rule lets `method` be sent to the path of `url`; its host is not looked at."""
        return (self.methods is None or method in self.methods) and (
            self.paths is None or any(_path_matches(pattern, url.path) for pattern in self.paths)
        )


def _path_matches(pattern: str, path: str) -> bool:
    # Dot segments are gone from a parsed path, so what stands below a prefix stays below it.
    if not pattern.endswith("/*"):
        return path == pattern
    return path.startswith(pattern[:-1]) and not is_ambiguous(path)


def _some_texts(name: str, values: Iterable[str] | None) -> tuple[str, ...] | None:
    if values is None:
        return None
    texts = _texts(name, values)
    if not texts:
        raise ValueError(f"{name} must be a list of at least one; left out, all are allowed")
    return texts


def _texts(name: str, values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise ValueError(f"{name} must be a list of texts, not one text")
    texts = _items(name, values)
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"{name} must be texts, not {type(text).__name__}")
    return texts


def _items(name: str, values: Iterable[_Value]) -> tuple[_Value, ...]:
    try:
        return tuple(values)
    except TypeError:
        raise ValueError(f"{name} must be a list, not {type(values).__name__}") from None


@dataclass(frozen=True, slots=True, init=False)
class Policy:
    """What an engine may reach. The floor under it (public addresses only, pinned) is always on.

    Args:
        hosts: the only hosts that may be reached (exact, or "*.example.com" for any depth below, never the
            apex); an empty list allows none; None allows any public host.
        require_https: refuse http, on every hop.
        ports: the only ports that may be reached. None: any port on a host that `hosts` lists, otherwise
            any but the WHATWG bad ports (decision D-11).
        private_ranges: exceptions to the floor, each bound to host names (D-12).
        request_rules: method and path allow lists per host.
        redirect_fields: names of request fields that may follow a redirect to another origin, beside the
            known safe ones (D-22). Credentials never do.
        keep_credentials_within_origin: the caller's own Authorization and Cookie fields follow a redirect
            within one origin. Off, they are gone after the first redirect.
        report_only: `hosts` is on trial: what it would refuse passes, and an observer is told with
            `DenialReported`. Nothing else is on trial with it, the floor least of all.

    Raises:
        ValueError: the message names the argument, what was wrong and what is allowed.
    """

    hosts: HostList | None
    require_https: bool
    ports: frozenset[int] | None
    private_ranges: tuple[PrivateRange, ...]
    request_rules: tuple[RequestRule, ...]
    redirect_fields: frozenset[str]
    keep_credentials_within_origin: bool
    report_only: bool

    def __init__(
        self,
        *,
        hosts: Iterable[str] | HostList | None = None,
        require_https: bool = False,
        ports: Iterable[int] | None = None,
        private_ranges: Iterable[PrivateRange] = (),
        request_rules: Iterable[RequestRule] = (),
        redirect_fields: Iterable[str] = (),
        keep_credentials_within_origin: bool = False,
        report_only: bool = False,
    ) -> None:
        object.__setattr__(self, "hosts", _host_list(hosts))
        object.__setattr__(self, "require_https", _flag("require_https", require_https))
        object.__setattr__(self, "ports", None if ports is None else _ports(ports))
        object.__setattr__(self, "private_ranges", _private_ranges(private_ranges))
        object.__setattr__(self, "request_rules", _all_of(RequestRule, "request_rules", request_rules))
        object.__setattr__(self, "redirect_fields", _redirect_fields(redirect_fields))
        object.__setattr__(
            self,
            "keep_credentials_within_origin",
            _flag("keep_credentials_within_origin", keep_credentials_within_origin),
        )
        object.__setattr__(self, "report_only", _flag("report_only", report_only))
        if report_only and hosts is None:
            raise ValueError("Policy.report_only needs Policy.hosts: without a list nothing is on trial")


def _host_list(hosts: Iterable[str] | HostList | None) -> HostList | None:
    if hosts is None or isinstance(hosts, HostList):
        return hosts
    return HostList(_texts("Policy.hosts", hosts))


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"Policy.{name} must be True or False, not {value!r}")
    return value


def _ports(ports: Iterable[int]) -> frozenset[int]:
    checked = _items("Policy.ports", ports)
    for port in checked:
        if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= MAX_PORT:
            raise ValueError(f"Policy.ports must be whole numbers from 1 to {MAX_PORT}, not {port!r}")
    return frozenset(checked)


def _all_of(kind: type[_Value], name: str, values: Iterable[_Value]) -> tuple[_Value, ...]:
    checked = _items(f"Policy.{name}", values)
    for value in checked:
        if not isinstance(value, kind):
            raise ValueError(f"Policy.{name} must hold {kind.__name__} values, not {type(value).__name__}")
    return checked


def _private_ranges(rules: Iterable[PrivateRange]) -> tuple[PrivateRange, ...]:
    checked = _all_of(PrivateRange, "private_ranges", rules)
    stars = {rule.cidr for rule in checked if rule.hosts == ("*",) and ":" in rule.cidr}
    if len(stars) > 1:
        raise ValueError(
            f'Policy.private_ranges: hosts "*" is for one ULA prefix, not for {len(stars)} (D-12)'
        )
    return checked


def _redirect_fields(names: Iterable[str]) -> frozenset[str]:
    checked = frozenset(name.lower() for name in _texts("Policy.redirect_fields", names))
    refused = sorted(name for name in checked if name in CREDENTIAL_FIELDS or is_own_field(name))
    if refused:
        raise ValueError(
            f"Policy.redirect_fields may not name {', '.join(refused)}: never sent to another origin"
        )
    return checked


class Rule(NamedTuple):
    """One check of a target that needs no DNS.

    Attributes:
        name: of the check.
        setting: of `Policy`, that decides it.
        check: the refusal, or None.
        passing: what is true if it does not refuse.
        can_be_tried: `Policy.report_only` turns its refusals into reports.
    """

    name: str
    setting: str
    check: Callable[[Policy, Request], Denied | None]
    passing: str
    can_be_tried: bool = False

    def is_on_trial(self, policy: Policy) -> bool:
        """True if this policy wants the rule's refusals told and not enforced."""
        return self.can_be_tried and policy.report_only


def _check_scheme(policy: Policy, request: Request) -> Denied | None:
    if policy.require_https and request.url.scheme != "https":
        return SchemeDenied("http is refused here: require_https is on", reason=Reason.HTTPS_REQUIRED)
    return None


def _check_host(policy: Policy, request: Request) -> Denied | None:
    url = request.url
    if policy.hosts is None or policy.hosts.matches(url.host):
        return None
    return HostDenied(f"{url.host} is not in allowed_hosts", reason=Reason.NOT_IN_ALLOWLIST)


def _check_local_name(policy: Policy, request: Request) -> Denied | None:
    url = request.url
    if not is_local_name(url.host) or any(rule.names(url.host) for rule in policy.private_ranges):
        return None
    return HostDenied(
        f"{url.host} is a name of the local network; only a private-range rule that names it can allow it",
        reason=Reason.LOCAL_NAME,
    )


def _check_port(policy: Policy, request: Request) -> Denied | None:
    url = request.url
    if policy.ports is not None:
        if url.port in policy.ports:
            return None
        return PortDenied(f"port {url.port} is not among the allowed ports")
    if url.port not in BAD_PORTS or (policy.hosts is not None and policy.hosts.matches(url.host)):
        return None
    return PortDenied(f"port {url.port} is on the list of ports that belong to other protocols")


def _check_request(policy: Policy, request: Request) -> Denied | None:
    url = request.url
    rules = [rule for rule in policy.request_rules if rule.names(url.host)]
    if not rules:
        return None
    path = "this path"
    if (name := _path_override(request)) is not None:
        path = f"the path that {name} asks for"
        rules = [rule for rule in rules if rule.paths is None]
    for what, method in _methods(request):
        if not any(rule.allows(url, method) for rule in rules):
            return HostDenied(
                f"no request rule for {url.host} allows {what} on {path}", reason=Reason.REQUEST_NOT_ALLOWED
            )
    return None


def _path_override(request: Request) -> str | None:
    """The name of a field that makes some server take the request for one of another path.

    Its value may be a path, a URL or a part of either, decoded again by whoever heeds it: it is not judged.
    """
    return next((name for name, _ in request.fields if overrides_path(name)), None)


def _methods(request: Request) -> Iterator[tuple[str, str]]:
    """Every method that a server may take the request for, and how to call it in a message.

    Rails, Express, Laravel, ASP.NET and others heed these fields on a POST. To drop one would send a plain
    POST, which nobody asked for.
    """
    yield request.method, request.method
    for name, value in request.fields:
        if overrides_method(name):
            yield f"the method that {name} asks for", value.upper()


TARGET_RULES: Final = (
    Rule("scheme", "require_https", _check_scheme, "the scheme is allowed"),
    Rule("host list", "hosts", _check_host, "the host is allowed", can_be_tried=True),
    Rule("local name", "private_ranges", _check_local_name, "the host is no local name, or a rule names it"),
    Rule("port", "ports", _check_port, "the port is allowed"),
    Rule("request", "request_rules", _check_request, "no request rule is against it"),
)
"""What is asked of every hop before DNS, in this order. `parse_url` has refused disguised hosts already."""


def check_target(policy: Policy, request: Request) -> Denied | None:
    """Refuse a target that no DNS answer could make acceptable.

    Args:
        policy: that decides.
        request: as a hop would send it; of its fields only those count that ask for another method or path.

    Returns:
        The refusal of a list on trial (`Policy.report_only`), which is to be told and not raised.

    Raises:
        Denied: the first rule that refuses; its message names the setting that decides.
    """
    reported = None
    for rule in TARGET_RULES:
        refusal = rule.check(policy, request)
        if refusal is None:
            continue
        if not rule.is_on_trial(policy):
            raise refusal
        reported = refusal
    return reported
