"""The models: what they take, what they refuse, and what holds after defaults and ceilings."""

import json
import pickle
from itertools import product
from typing import Any, get_args

import jsonschema  # type: ignore[import-untyped]  # brings no types
import pytest
from pydantic import ValidationError

from tests.tools.web_request.test_scenarios import SCENARIOS
from tidegate._policy.messages import METHODS
from tidegate_tools.web_request.config import (
    OPERATOR_FIELDS,
    EffectiveCaps,
    PrivateRangeRule,
    RequestRule,
    WebRequestAgentOverride,
    WebRequestAuthProfile,
    WebRequestConfig,
    effective_caps,
)
from tidegate_tools.web_request.document import front_matter, parse_yaml
from tidegate_tools.web_request.files import AgentSpec, GlobalConfig
from tidegate_tools.web_request.references import (
    EnvReference,
    FileReference,
    KeyVaultReference,
    KeyVaultSecret,
    ManagedIdentityReference,
)
from tidegate_tools.web_request.schemas import config_schemas


def test_empty_global_config_dumps_the_key_path() -> None:
    """W-161: an empty file has the key, unset."""
    assert GlobalConfig().model_dump() == {"tools": None, "system_tools": {"web_request": None}}


def test_every_field_may_be_left_out() -> None:
    """W-73, W-74, W-75: no block needs any field, any public host, https only, caps unset in the model."""
    config = WebRequestConfig()
    assert config.allowed_hosts is None
    assert config.require_https is True
    assert config.allow_agent_override is True
    assert config.report_only is False
    assert (config.timeout_seconds, config.max_response_bytes, config.max_request_bytes) == (None, None, None)
    assert (config.auth, config.private_ranges, config.max_redirects) == (None, (), None)


@pytest.mark.parametrize("value", [None, True, False, {}, {"timeout_seconds": 5}])
def test_web_request_is_object_bool_or_null(value: Any) -> None:
    """W-55, W-57, AMB-41: in both files."""
    assert GlobalConfig.model_validate({"system_tools": {"web_request": value}}) is not None
    assert AgentSpec.model_validate({"system_tools": {"web_request": value}}) is not None


@pytest.mark.parametrize("value", ["false", "no", "yes", "", 0, 1, [], 1.0])
def test_switches_are_strict(value: Any) -> None:
    """Texts and numbers are no switches, neither for the block nor for what is in it."""
    for model in (GlobalConfig, AgentSpec):
        for data in (
            {"system_tools": {"web_request": value}},
            {"system_tools": value},
            {"system_tools": {"web_request": {"require_https": value}}},
        ):
            with pytest.raises(ValidationError):
                model.model_validate(data)


@pytest.mark.parametrize("key", ["allow_http", "http_call", "alowed_hosts", "retries"])
def test_unknown_keys_are_refused(key: str) -> None:
    """W-149, W-J8."""
    for model in (GlobalConfig, AgentSpec):
        for data in ({key: 1}, {"system_tools": {key: 1}}, {"system_tools": {"web_request": {key: 1}}}):
            with pytest.raises(ValidationError, match="extra"):
                model.model_validate(data)


def test_an_agent_has_no_operator_fields() -> None:
    """D-12: exceptions to the floor, whom to trust and whom to ask are never an agent's, nor is a trial."""
    assert sorted(OPERATOR_FIELDS) == [
        "allow_agent_override",
        "ca_file",
        "nameservers",
        "private_ranges",
        "report_only",
    ]
    assert OPERATOR_FIELDS.isdisjoint(WebRequestAgentOverride.model_fields)


# Caps -----------------------------------------------------------------------------------------------------

DEFAULTS = EffectiveCaps(
    timeout=30.0, max_response_bytes=5_000_000, max_request_bytes=1_000_000, max_redirects=0
)
CEILINGS = EffectiveCaps(
    timeout=120.0, max_response_bytes=10_000_000, max_request_bytes=10_000_000, max_redirects=10
)


def test_default_caps() -> None:
    """W-76, W-77, W-171, W-172, W-173, D-2."""
    assert effective_caps(WebRequestConfig()) == DEFAULTS


@pytest.mark.parametrize(
    ("field", "attribute", "given", "holds"),
    [
        ("timeout_seconds", "timeout", 120, 120),
        ("timeout_seconds", "timeout", 120.001, 120),
        ("timeout_seconds", "timeout", 9999, 120),
        ("timeout_seconds", "timeout", float("inf"), 120),
        ("timeout_seconds", "timeout", 0.001, 0.001),
        ("max_response_bytes", "max_response_bytes", 10_000_000, 10_000_000),
        ("max_response_bytes", "max_response_bytes", 10_000_001, 10_000_000),
        ("max_response_bytes", "max_response_bytes", 10**400, 10_000_000),
        ("max_response_bytes", "max_response_bytes", 1, 1),
        ("max_request_bytes", "max_request_bytes", 10_000_000, 10_000_000),
        ("max_request_bytes", "max_request_bytes", 10_000_001, 10_000_000),
        ("max_request_bytes", "max_request_bytes", 1, 1),
        ("max_redirects", "max_redirects", 0, 0),
        ("max_redirects", "max_redirects", 1, 1),
        ("max_redirects", "max_redirects", 10, 10),
        ("max_redirects", "max_redirects", 11, 10),
    ],
)
def test_caps_are_clamped_from_above_only(field: str, attribute: str, given: float, holds: float) -> None:
    """W-171..W-174, AMB-79, AMB-90, D-2."""
    caps = effective_caps(WebRequestConfig.model_validate({field: given}))
    assert getattr(caps, attribute) == holds


_NO_CAPS: list[Any] = [0, -1, float("nan"), float("-inf"), True, "30", "", []]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *product(("timeout_seconds", "max_response_bytes", "max_request_bytes"), _NO_CAPS),
        ("max_response_bytes", 1.5),
        ("max_response_bytes", 1e6),
        ("max_response_bytes", float("inf")),
        *(("max_redirects", value) for value in (-1, 1.0, True, "5")),
    ],
)  # fmt: skip
def test_caps_that_are_no_caps_are_refused(field: str, value: Any) -> None:
    """AMB-79: nothing is clamped upwards, and no text is a number."""
    for model in (WebRequestConfig, WebRequestAgentOverride):
        with pytest.raises(ValidationError):
            model.model_validate({field: value})


def test_no_setting_moves_a_ceiling() -> None:
    """W-174, W-A3: with every cap as high as it can be written, the ceilings hold."""
    highest = WebRequestConfig(
        timeout_seconds=1e300, max_response_bytes=10**30, max_request_bytes=10**30, max_redirects=10**30
    )
    assert effective_caps(highest) == CEILINGS


# Hosts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "canonical"),
    [
        ("API.Example.com", "api.example.com"),
        ("api.example.com.", "api.example.com"),
        ("Bücher.example", "xn--bcher-kva.example"),
        ("*.Partner.example.", "*.partner.example"),
        ("192.0.2.1", "192.0.2.1"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("2001:db8:0:0::1", "2001:db8::1"),
    ],
)
def test_hosts_are_kept_in_canonical_form(entry: str, canonical: str) -> None:
    """W-101, W-102, W-103, W-169: allow list, profiles and rules share one form."""
    reference = EnvReference(env="A")
    assert WebRequestConfig(allowed_hosts=(entry,)).allowed_hosts == (canonical,)
    assert WebRequestAuthProfile(host=entry, headers={"X-Key": reference}).host == canonical
    assert RequestRule(host=entry).host == canonical


@pytest.mark.parametrize(
    "entry",
    ["api.example.com:443", "https://api.example.com", "api.example.com/", "*", "*.com", "a.*.com",
     "**.a.com", "", " a.com", "user@a.com", "127.1", "0x7f.1", "10.0.0.0/8", "*.0.0.1", "a..com"],
)  # fmt: skip
def test_entries_that_are_no_hosts_are_refused(entry: str) -> None:
    """AMB-75, AMB-76, D-15: an invalid entry is an error, not a warning, wherever a host may stand."""
    for field, value in (
        ("allowed_hosts", [entry]),
        ("auth", [{"host": entry, "headers": {"X-Key": {"env": "A"}}}]),
        ("request_rules", [{"host": entry}]),
    ):
        with pytest.raises(ValidationError):
            WebRequestConfig.model_validate({field: value})


def test_an_empty_list_is_no_missing_list() -> None:
    """AMB-75: [] allows none, None any."""
    assert WebRequestConfig(allowed_hosts=()).allowed_hosts == ()


# Secrets and profiles -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        ({"env": "API_TOKEN"}, EnvReference, "{env: API_TOKEN}"),
        ({"file": "/run/secrets/key"}, FileReference, "{file: /run/secrets/key}"),
        (
            {"key_vault": {"vault": "corp", "name": "key"}},
            KeyVaultReference,
            "{key_vault: {vault: corp, name: key}}",
        ),
        (
            {"managed_identity": {"resource": "https://storage.azure.com"}},
            ManagedIdentityReference,
            "{managed_identity: {resource: https://storage.azure.com}}",
        ),
        (
            {"managed_identity": {"resource": "api://a", "client_id": "b-1"}},
            ManagedIdentityReference,
            "{managed_identity: {resource: api://a, client_id: b-1}}",
        ),
    ],
)
def test_secret_references_are_typed(data: dict[str, Any], kind: type, text: str) -> None:
    """W-134, W-146, W-149, W-D4, W-D5, AMB-49: each kind parses as its own type, never as a text."""
    profile = WebRequestAuthProfile.model_validate({"host": "a.example", "headers": {"X-Key": data}})
    reference = profile.headers["X-Key"]
    assert type(reference) is kind
    assert str(reference) == text


@pytest.mark.parametrize(
    "value",
    [
        "Bearer sk-1", "$API_TOKEN", None, 5, [], {}, {"env": "A", "file": "b"}, {"vault": "a"},
        {"env": "A-B"}, {"env": "$A"}, {"env": ""}, {"env": None}, {"env": "A", "prefix": "Bearer "},
        {"file": ""},
        {"file": "a\0b"}, {"key_vault": "a/b"}, {"key_vault": {"vault": "corp"}},
        {"key_vault": {"vault": "http://a.example", "name": "b"}},
        {"key_vault": {"vault": "https://u:p@a.example", "name": "b"}},
        {"key_vault": {"vault": "https://a.example/x", "name": "b"}},
        {"key_vault": {"vault": "corp", "name": "a/b"}}, {"managed_identity": {}},
        {"managed_identity": {"resource": "a b"}}, {"managed_identity": {"resource": "a", "scope": "b"}},
    ],
)  # fmt: skip
def test_what_is_no_reference_is_refused(value: Any) -> None:
    """W-A5, W-D5: a secret itself, an unknown kind, two kinds at once. Pydantic's own error shows none."""
    with pytest.raises(ValidationError) as caught:
        WebRequestAuthProfile.model_validate({"host": "a.example", "headers": {"X-Key": value}})
    assert "sk-1" not in str(caught.value)


def test_a_vault_is_a_name_or_a_url() -> None:
    """Names are in the public cloud."""
    assert KeyVaultSecret(vault="corp", name="a").vault_url == "https://corp.vault.azure.net"
    assert (
        KeyVaultSecret(vault="https://corp.vault.azure.cn", name="a").vault_url
        == "https://corp.vault.azure.cn"
    )


@pytest.mark.parametrize(
    "headers",
    [{}, {"Host": 1}, {"content-length": 1}, {"Transfer_Encoding": 1}, {"Expect": 1}, {"a b": 1}, {"": 1},
     {"X-Key": 1, "x-key": 1}],
)  # fmt: skip
def test_names_that_no_profile_may_set(headers: dict[str, Any]) -> None:
    """AMB-92, D-26: the engine's own fields, what is no field name, one name twice."""
    data = {"host": "a.example", "headers": {name: {"env": "A"} for name in headers}}
    with pytest.raises(ValidationError):
        WebRequestAuthProfile.model_validate(data)


def test_cookie_is_a_credential_like_others() -> None:
    """Neighbour of the above: Authorization and Cookie are what profiles are for."""
    data = {"host": "a.example", "headers": {"Authorization": {"env": "A"}, "Cookie": {"env": "B"}}}
    assert list(WebRequestAuthProfile.model_validate(data).headers) == ["Authorization", "Cookie"]


# Private ranges and request rules -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cidr", "hosts"),
    [
        ("10.20.0.0/16", ("*.corp.internal",)),
        ("10.20.0.0/16", ["db"]),
        ("127.0.0.0/8", ["localhost"]),
        ("127.0.0.1/32", ["localhost"]),
        ("::1/128", ["localhost"]),
        ("fd12::/16", ["db.corp.internal"]),
        ("198.18.0.0/15", "*"),
        ("fd12:3456::/32", "*"),
        ("126.0.0.0/8", ["a.example"]),
        ("128.0.0.0/8", ["a.example"]),
    ],
)
def test_private_ranges(cidr: str, hosts: Any) -> None:
    """W-49, D-12: bound to hosts; loopback spelled out; a star only for fake-IP proxies."""
    rule = PrivateRangeRule.model_validate({"cidr": cidr, "hosts": hosts})
    assert rule.as_policy().cidr == cidr


@pytest.mark.parametrize(
    ("cidr", "hosts"),
    [
        ("10.0.0.1/8", ["a.example"]),  # host bits
        ("10.0.0.0/8", []),
        ("10.0.0.0/8", "*"),
        ("10.0.0.0/8", "a.example"),
        ("10.0.0.0/8", ["a.example:5432"]),
        ("169.254.0.0/16", ["a.example"]),
        ("169.254.169.254/32", ["a.example"]),
        ("224.0.0.0/4", ["a.example"]),
        ("0.0.0.0/0", ["a.example"]),
        ("0.0.0.0/1", ["a.example"]),  # loopback, not spelled out
        ("126.0.0.0/7", ["a.example"]),
        ("::/0", ["a.example"]),
        ("::/127", ["a.example"]),
        ("db.internal", ["a.example"]),
        (10, ["a.example"]),
    ],
)
def test_private_ranges_that_no_rule_may_name(cidr: Any, hosts: Any) -> None:
    """D-12, W-5: no setting reaches metadata, link-local or multicast; none opens loopback by accident."""
    with pytest.raises(ValidationError):
        PrivateRangeRule.model_validate({"cidr": cidr, "hosts": hosts})


@pytest.mark.parametrize("path", ["/", "/*", "/v1/users", "/v1/*", "/a%20b", "/caf%C3%A9", "/100%", "/a;b"])
def test_paths_of_rules(path: str) -> None:
    """W-50: exact, or everything below."""
    assert RequestRule(host="a.example", paths=(path,)).as_policy().paths == (path,)


@pytest.mark.parametrize(
    "path", ["", "v1", "*", "/a?b", "/a#b", "/a/../b", "/./a", "/a b", "/x*", "/*/a", "/café", "/\x01"]
)
def test_paths_that_can_never_match_are_refused(path: str) -> None:
    """W-50: a rule that allows nothing by a slip of the pen would be found only in production."""
    with pytest.raises(ValidationError):
        RequestRule(host="a.example", paths=(path,))


def test_methods_are_those_of_the_engine() -> None:
    """W-79: one list of methods."""
    (inner,) = (
        argument
        for argument in get_args(RequestRule.model_fields["methods"].annotation)
        if argument is not type(None)
    )
    assert set(get_args(get_args(get_args(inner)[0])[0])) == set(METHODS)


def test_a_rule_without_limits_says_so_by_leaving_out() -> None:
    """An empty list would mean "all" to one reader and "none" to another."""
    for field in ("methods", "paths"):
        with pytest.raises(ValidationError):
            RequestRule.model_validate({"host": "a.example", field: []})
    assert RequestRule(host="a.example").as_policy().methods is None


@pytest.mark.parametrize("server", ["dns.example", "192.0.2.53:53", "", "127.1"])
def test_nameservers_are_addresses(server: str) -> None:
    with pytest.raises(ValidationError):
        WebRequestConfig(nameservers=(server,))


def test_models_are_frozen_and_pickle() -> None:
    """Configuration objects hold no secret, so they may go anywhere."""
    profile = WebRequestAuthProfile(host="a.example", headers={"X-Key": EnvReference(env="A")})
    config = WebRequestConfig(auth=(profile,))
    assert pickle.loads(pickle.dumps(config)) == config
    with pytest.raises(ValidationError):
        config.timeout_seconds = 5


# JSON Schemas ---------------------------------------------------------------------------------------------

SCHEMAS = config_schemas()


def _errors(name: str, data: Any) -> list[str]:
    validator = jsonschema.Draft202012Validator(SCHEMAS[name])
    return [error.message for error in validator.iter_errors(data)]


def _files(number: str) -> list[tuple[str, Any]]:
    folder = next(folder for folder in SCENARIOS if folder.name.startswith(number))
    found: list[tuple[str, Any]] = []
    for path in sorted(folder.rglob("*")):
        if path.name == "agents.config.yaml":
            found.append((path.name, parse_yaml(path.read_text("utf-8"), path.name).data))
        elif path.name.endswith(".agent.md"):
            text, _ = front_matter(path.read_text("utf-8")) or ("", 1)
            found.append(("*.agent.md", parse_yaml(text, path.name).data))
    return found


@pytest.mark.parametrize("number", ["01", "02", "03", "04", "05", "06", "07", "08", "09", "11", "14", "20"])
def test_schemas_take_what_loads(number: str) -> None:
    """W-164: every scenario that loads is valid by the schemas, keys of the host included."""
    for name, data in _files(number):
        # The host's own values are not read; a schema sees them.
        assert _errors(name, data) == []


@pytest.mark.parametrize("number", ["15", "17"])
def test_schemas_refuse_unknown_and_empty_keys(number: str) -> None:
    """W-164: editors show what loading would refuse."""
    for name, data in _files(number):
        assert _errors(name, data) != []


def test_schemas_are_json_and_say_what_is_allowed() -> None:
    """W-164: every setting of ours is described; unknown keys are closed off at each level."""
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert json.loads(json.dumps(schema)) == schema
        for definition in (schema, *schema["$defs"].values()):
            assert definition["additionalProperties"] is False
            for field in definition["properties"].values():
                assert "\n" not in field["description"]
