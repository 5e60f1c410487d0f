"""The configuration of `web_request` as typed, frozen values: what `agents.config.yaml` and agents may say.

Every model forbids unknown keys and takes no text for a number or a boolean. The docstring under a field says
what is allowed there; messages about mistakes, the JSON Schemas and the reference all quote it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    Strict,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from tidegate._policy import policy
from tidegate._policy.fields import check_fields
from tidegate._policy.host import HostList
from tidegate._policy.url import parse_url
from tidegate.errors import FetchError, InvalidField
from tidegate_tools.web_request.mistakes import UnquotingError
from tidegate_tools.web_request.references import STRICT, FileContext, FilePath, SecretReference

DEFAULT_TIMEOUT: Final = 30.0
MAX_TIMEOUT: Final = 120.0
"""Seconds (C7, W-171)."""

DEFAULT_RESPONSE_BYTES: Final = 5_000_000
MAX_RESPONSE_BYTES: Final = 10_000_000
DEFAULT_REQUEST_BYTES: Final = 1_000_000
MAX_REQUEST_BYTES: Final = 10_000_000
"""Bytes (C7, W-172, W-173); decimal megabytes, as the spec has them. Ceilings are no settings (W-174)."""

MAX_REDIRECTS: Final = 10
"""Decision D-2. Unset, a 3xx is returned as it is."""


def _canonical_pattern(entry: str) -> str:
    """One entry of a host list in its canonical form, so that equal entries are equal texts."""
    try:
        return HostList((entry,)).patterns[0]
    except ValueError as error:
        # The entry may come from an environment variable; what it was is said by the loader, as written.
        raise ValueError(str(error).replace(f"{entry!r} ", "")) from None


HostPattern: TypeAlias = Annotated[str, AfterValidator(_canonical_pattern)]
"""A host name, an IP address, or `*.example.com` for every name below example.com (D-15)."""

# Strictness is for what stands in a list: a list itself may come as any sequence, and is kept as a tuple.
_AnySequence: Final = Strict(False)
HostPatterns: TypeAlias = Annotated[tuple[HostPattern, ...], _AnySequence]


def _check_fields(names: Iterable[str]) -> None:
    """Names that only the engine sets are a mistake (AMB-92, D-26), as is what no field may be called."""
    try:
        check_fields([(name, "") for name in names])
    except InvalidField as error:
        raise ValueError(error.message) from None


def _field_name(name: str) -> str:
    _check_fields([name])
    return name


FieldName: TypeAlias = Annotated[str, AfterValidator(_field_name)]
"""The name of a request field that a profile may set."""


class WebRequestAuthProfile(BaseModel):
    """Credentials for one host: request fields whose values are secrets, added by the runtime (D1)."""

    model_config = STRICT

    host: HostPattern
    """A host name, an IP address, or *.example.com for every name below example.com; no port, no scheme."""

    headers: Annotated[dict[FieldName, SecretReference], Field(min_length=1)]
    """Field names, each with a reference to its secret: {env: NAME}, {file: PATH}, {key_vault: {vault: NAME,
    name: SECRET}} or {managed_identity: {resource: URI}}; never the secret itself."""

    @field_validator("headers")
    @classmethod
    def _check_names(cls, headers: dict[str, SecretReference]) -> dict[str, SecretReference]:
        _check_fields(headers)  # now together: no name twice, whatever the letter case
        return headers


def _check_loopback(network: IPv4Network | IPv6Network) -> None:
    """Loopback is admitted only by a rule that spells it out (D-12), so a wider one is a mistake."""
    for loopback in (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128")):
        if network.version == loopback.version and network.supernet_of(loopback) and network != loopback:  # type: ignore[arg-type]  # the versions are equal
            raise UnquotingError(
                f"covers loopback without spelling it out; a rule for loopback lies within {loopback}"
            )


class PrivateRangeRule(BaseModel):
    """An exception to the SSRF floor: the named hosts may resolve into one range, and only there (D-12)."""

    model_config = STRICT

    cidr: str
    """A range such as 10.20.0.0/16; never link-local, metadata, multicast or unspecified addresses, and
    loopback only by a range within 127.0.0.0/8 or ::1/128."""

    hosts: Annotated[
        tuple[str, ...],
        BeforeValidator(lambda hosts: ("*",) if hosts == "*" else hosts),
        _AnySequence,
        WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"const": "*"}]}),
    ]
    """A list of host names, *.domain patterns or addresses; or "*", only for the range of a fake-IP proxy."""

    @model_validator(mode="after")
    def _check(self) -> "PrivateRangeRule":
        self.as_policy()
        _check_loopback(ip_network(self.cidr))
        return self

    def as_policy(self) -> policy.PrivateRange:
        """The rule as the engine takes it."""
        return policy.PrivateRange(self.cidr, hosts=self.hosts)


def _check_path(pattern: str) -> str:
    """Paths are compared after parsing, so a pattern that no parsed path can equal is a mistake."""
    try:
        parsed = parse_url(f"https://host.example{pattern}").path if pattern.startswith("/") else ""
    except FetchError:
        parsed = ""
    if parsed != pattern or "*" in pattern.removesuffix("/*"):
        raise UnquotingError(
            "can never match: a path starts with /, holds no query and no dot segments, is percent-encoded "
            "where a URL is, and may end in /* for all below it"
        )
    return pattern


Methods: TypeAlias = Annotated[
    tuple[Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"], ...], _AnySequence
]
RulePaths: TypeAlias = Annotated[tuple[Annotated[str, AfterValidator(_check_path)], ...], _AnySequence]


class RequestRule(BaseModel):
    """What may be asked of one host. A host that a rule names may only be asked for what its rules allow."""

    model_config = STRICT

    host: HostPattern
    """A host name, an IP address, or *.example.com for every name below example.com."""

    methods: Annotated[Methods, Field(min_length=1)] | None = None
    """A list of GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS; left out, all of them."""

    paths: Annotated[RulePaths, Field(min_length=1)] | None = None
    """A list of paths, exact (/v1/users) or all below one (/v1/*); left out, all of them."""

    @model_validator(mode="after")
    def _check(self) -> "RequestRule":
        self.as_policy()
        return self

    def as_policy(self) -> policy.RequestRule:
        """The rule as the engine takes it."""
        return policy.RequestRule(self.host, methods=self.methods, paths=self.paths)


def _address(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise UnquotingError(
            "is no IP address, such as 192.0.2.53; a name or a port has no place here"
        ) from None


Addresses: TypeAlias = Annotated[tuple[Annotated[str, AfterValidator(_address)], ...], _AnySequence]


class _Overridable(BaseModel):
    """What both the operator and an agent may set. None means: not set here."""

    model_config = STRICT

    allowed_hosts: HostPatterns | None = None
    """A list of host names, IP addresses and *.example.com patterns: the only hosts that may be reached. An
    empty list allows none; left out, any public host."""

    timeout_seconds: Annotated[float, Field(gt=0)] | None = None
    """A number above 0: seconds for one call as a whole, 30 if left out; above 120 counts as 120."""

    max_response_bytes: Annotated[int, Field(gt=0)] | None = None
    """A whole number above 0: bytes of content that are kept, 5000000 if left out; above 10000000 counts as
    10000000."""

    max_request_bytes: Annotated[int, Field(gt=0)] | None = None
    """A whole number above 0: bytes of content that may be sent, 1000000 if left out; above 10000000 counts
    as 10000000."""

    max_redirects: Annotated[int, Field(ge=0)] | None = None
    """A whole number: redirects to follow, each hop checked afresh; 0, or left out, returns a 3xx as it is;
    above 10 counts as 10."""

    auth: Annotated[tuple[WebRequestAuthProfile, ...], _AnySequence] | None = None
    """A list of profiles, each a host and the headers that are added for it over https; the most specific
    host wins. In an agent it replaces the whole list."""

    request_rules: Annotated[tuple[RequestRule, ...], _AnySequence] | None = None
    """A list of rules, each a host with the methods and paths it may be asked for; left out, anything. In an
    agent it replaces the whole list."""


class WebRequestAgentOverride(_Overridable):
    """What one agent sets differently: what is set replaces the operator's field, the rest stays (A2, A5)."""

    require_https: bool | None = None
    """true or false: whether plaintext http is refused; left out, what agents.config.yaml says."""

    def given(self) -> dict[str, Any]:
        """The fields that are set, with their values."""
        return {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}


def _check_file(path: Path) -> None:
    try:
        is_file = path.is_file()
    except OSError as error:  # such as a folder that may not be entered
        raise UnquotingError(f"cannot be read: {error.strerror or type(error).__name__}") from None
    if not is_file:
        raise UnquotingError("there is no such file")


class WebRequestConfig(_Overridable):
    """The operator's configuration of `web_request`; every field may be left out (W-73).

    Caps are None until somebody sets them; `effective_caps` has what holds.
    """

    require_https: bool = True
    """true or false: whether plaintext http is refused, on every hop; true if left out."""

    report_only: bool = False
    """true or false: true puts allowed_hosts on trial: what the list refuses passes, and is logged as such;
    false if left out. Nothing else is on trial with it, the floor least of all."""

    allow_agent_override: bool = True
    """true or false: false makes this configuration a ceiling, under which an agent may only narrow it."""

    private_ranges: Annotated[tuple[PrivateRangeRule, ...], _AnySequence] = ()
    """A list of exceptions to the floor, each a cidr and the hosts that may be there; none if left out."""

    nameservers: Annotated[Addresses, Field(min_length=1)] | None = None
    """A list of IP addresses of DNS servers to ask instead of the system's resolver (extra `dns`)."""

    ca_file: FilePath | None = None
    """A path to a file of trusted certificates (PEM), beside the system's; relative ones are taken from the
    folder of the configuration file."""

    @field_validator("ca_file")
    @classmethod
    def _check_ca_file(cls, path: str | None, info: ValidationInfo) -> str | None:
        # Only for files: a value built in code may be for another machine.
        if path is not None and isinstance(info.context, FileContext):
            _check_file(Path(path))
        return path


OPERATOR_FIELDS: Final = frozenset(WebRequestConfig.model_fields) - frozenset(
    WebRequestAgentOverride.model_fields
)
"""What an agent can never set: exceptions to the floor, whom to trust and whom to ask (D-12), whether a list
is on trial, the ceiling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveCaps:
    """The caps that hold for a configuration, after defaults and ceilings.

    Attributes:
        timeout: seconds for one call as a whole.
        max_response_bytes: bytes of content that are kept; more is cut and flagged.
        max_request_bytes: bytes of content that may be sent; more is refused.
        max_redirects: redirects that are followed; 0 returns a 3xx as it is.
    """

    timeout: float
    max_response_bytes: int
    max_request_bytes: int
    max_redirects: int


_Number = TypeVar("_Number", int, float)


def _or(given: _Number | None, default: _Number) -> _Number:
    return default if given is None else given


def effective_caps(config: WebRequestConfig) -> EffectiveCaps:
    """Fill in the defaults and clamp to the ceilings (AMB-79: only from above). For the tool's build."""
    return EffectiveCaps(
        timeout=min(_or(config.timeout_seconds, DEFAULT_TIMEOUT), MAX_TIMEOUT),
        max_response_bytes=min(_or(config.max_response_bytes, DEFAULT_RESPONSE_BYTES), MAX_RESPONSE_BYTES),
        max_request_bytes=min(_or(config.max_request_bytes, DEFAULT_REQUEST_BYTES), MAX_REQUEST_BYTES),
        max_redirects=min(_or(config.max_redirects, 0), MAX_REDIRECTS),
    )
