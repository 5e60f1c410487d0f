"""Credentials by host: who gets which, who never does, and that none of them comes back."""

import base64
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import AnyHost
from tests.support.fetch_tool import Site, answer, echo, redirect
from tests.tools.web_request.agents import HOST, URL
from tests.tools.web_request.conftest import MakeAgent
from tidegate._policy.host import HostList
from tidegate.testing.memory import Peer, ReceivedRequest
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.redaction import MARK
from tidegate_tools.web_request.references import KeyVaultSecret, ManagedIdentity
from tidegate_tools.web_request.secrets import SecretError, SecretValue, Token
from tidegate_tools.web_request.tool import BuildError, create_web_request_tools

SECRET = "sk-live-0123456789"
PARTNER = "partner-key-abcdef"
ENVIRONMENT = {"API_TOKEN": f"Bearer {SECRET}", "PARTNER_KEY": PARTNER, "OTHER": "another-secret-value"}
OPTIONS = {"environment": ENVIRONMENT}

API = {"host": HOST, "headers": {"Authorization": {"env": "API_TOKEN"}}}
PARTNERS = {"host": "*.partner.example", "headers": {"X-API-Key": {"env": "PARTNER_KEY"}}}


# Who gets which -------------------------------------------------------------------------------------------


async def test_a_profile_and_its_host(agent: MakeAgent) -> None:
    """W-24, W-44, W-129, W-159, W-D1: its host gets the credential, others do not."""
    site = Site()
    mine = agent(site, auth=[API, PARTNERS], options=OPTIONS)
    for url in (URL, "https://eu.partner.example/", "https://elsewhere.example/"):
        await mine.get(url)
    assert [(request.field("authorization"), request.field("x-api-key")) for request in site.requests] == [
        (f"Bearer {SECRET}", None),
        (None, PARTNER),
        (None, None),
    ]


MATCHES = [
    (HOST, HOST, True),
    (HOST, "API.Example.COM", True),
    (HOST, f"{HOST}.", True),
    (HOST, "sub.api.example.com", False),
    (HOST, "example.com", False),
    (HOST, "api.example.com.evil.example", False),
    ("*.partner.example", "eu.partner.example", True),
    ("*.partner.example", "a.b.partner.example", True),
    ("*.partner.example", "partner.example", False),
    ("*.partner.example", "evilpartner.example", False),
    ("bücher.example", "xn--bcher-kva.example", True),
    ("xn--bcher-kva.example", "bücher.example", True),
    ("8.8.8.8", "8.8.8.8", True),
    ("[2606:4700::1111]", "[2606:4700:0:0:0:0:0:1111]", True),
]


@pytest.mark.parametrize(("pattern", "host", "matches"), MATCHES)
async def test_one_matcher_for_both_lists(pattern: str, host: str, matches: bool, agent: MakeAgent) -> None:
    """W-169, W-D4, W-C10, W-159: the allow list and the profiles mean the same by a pattern."""
    profile = {"host": pattern, "headers": {"X-Key": {"env": "OTHER"}}}
    site = Site()
    await agent(site, auth=[profile], options=OPTIONS).get(f"https://{host}/")
    assert (site.requests[0].field("x-key") is not None) is matches
    assert (await agent(Site(), allowed_hosts=[pattern]).call(f"https://{host}/")).ok is matches
    assert HostList((pattern,)).matches(host) is matches


@pytest.mark.parametrize(
    ("hosts", "asked", "chosen"),
    [
        (["*.example.com", HOST], HOST, 1),
        ([HOST, "*.example.com"], HOST, 0),
        (["*.example.com", "*.api.example.com"], "a.api.example.com", 1),
        (["*.api.example.com", "*.example.com"], "a.api.example.com", 0),
        (["*.example.com", "*.api.example.com"], HOST, 0),
        ([HOST, HOST], HOST, 0),
    ],
)
async def test_the_most_specific_one(hosts: list[str], asked: str, chosen: int, agent: MakeAgent) -> None:
    """AMB-93: exact before wildcards, the longest first, else the order; one profile applies, whole."""
    names = ["X-First", "X-Second"]
    auth = [
        {"host": host, "headers": {name: {"env": "OTHER"}}} for host, name in zip(hosts, names, strict=True)
    ]
    site = Site()
    await agent(site, auth=auth, options=OPTIONS).get(f"https://{asked}/")
    assert [site.requests[0].field(name) is not None for name in names] == [chosen == 0, chosen == 1]


@pytest.mark.parametrize("name", ["Authorization", "authorization", "AUTHORIZATION"])
async def test_it_wins_over_the_model(name: str, agent: MakeAgent) -> None:
    """W-129, W-159, W-C6, W-D3: one field of that name is sent, and it is the operator's."""
    site = Site()
    await agent(site, auth=[API], options=OPTIONS).get(URL, headers={name: "Bearer of-the-model"})
    sent = [value for field, value in site.requests[0].fields if field.lower() == "authorization"]
    assert sent == [f"Bearer {SECRET}"]


async def test_never_over_http(agent: MakeAgent) -> None:
    """AMB-94: where http is allowed, it is without credentials; the model's own field is sent."""
    site = Site()
    mine = agent(site, auth=[API], require_https=False, options=OPTIONS)
    await mine.get("http://api.example.com/", headers={"Authorization": "mine"})
    assert site.requests[0].field("authorization") == "mine"


async def test_the_empty_list(agent: MakeAgent) -> None:
    """W-9, W-J2, AMB-96: with no profile nothing is ever added."""
    configs: list[dict[str, Any]] = [{}, {"auth": []}]
    for config in configs:
        site = Site()
        await agent(site, **config).get(URL)
        assert {name for name, _ in site.requests[0].fields} == {
            "Host", "User-Agent", "Accept", "Accept-Encoding",
        }  # fmt: skip


# Redirects ------------------------------------------------------------------------------------------------


async def test_never_to_another_host(agent: MakeAgent) -> None:
    """W-136, W-158, W-C8: it stays behind, and where it was overridden so does what the model sent."""
    site = Site({URL: redirect("https://elsewhere.example/")})
    mine = agent(site, auth=[API], max_redirects=3, options=OPTIONS)
    await mine.get(URL, headers={"Authorization": "Bearer of-the-model"})
    assert [request.field("authorization") for request in site.requests] == [f"Bearer {SECRET}", None]


async def test_rebuilt_on_every_hop(agent: MakeAgent) -> None:
    """W-158, W-C8: each host of a chain gets its own, the first one again when it is there again."""
    site = Site(
        {
            URL: redirect("/second"),
            f"{URL}second": redirect("https://eu.partner.example/"),
            "https://eu.partner.example/": redirect("https://elsewhere.example/"),
            "https://elsewhere.example/": redirect(f"{URL}last"),
        }
    )
    await agent(site, auth=[API, PARTNERS], max_redirects=5, options=OPTIONS).get(URL)
    bearer = f"Bearer {SECRET}"
    assert [(request.field("authorization"), request.field("x-api-key")) for request in site.requests] == [
        (bearer, None), (bearer, None), (None, PARTNER), (None, None), (bearer, None),
    ]  # fmt: skip


async def test_not_on_the_way_down_to_http(agent: MakeAgent) -> None:
    """AMB-89, AMB-94: the same host over http gets nothing; under the floor it is not even asked."""
    site = Site({URL: redirect("http://api.example.com/plain")})
    await agent(site, auth=[API], max_redirects=1, require_https=False, options=OPTIONS).get(URL)
    assert site.requests[1].field("authorization") is None
    mine = agent(
        Site({URL: redirect("http://api.example.com/plain")}), auth=[API], max_redirects=1, options=OPTIONS
    )
    assert await mine.refusal(URL) == ("blocked", "https_required")


# What comes back ------------------------------------------------------------------------------------------


async def test_reflection(agent: MakeAgent) -> None:
    """W-89, W-D2, W-F4, AMB-54: an echo of the request, in fields, text, Location and path, is redacted."""

    async def reflect(peer: Peer, request: ReceivedRequest) -> None:
        value = request.field("authorization") or ""
        fields = [("X-Echo", value), ("Location", f"/?key={SECRET}"), (f"X-{SECRET}", "1")]
        await peer.respond(f"You sent {value!r}.".encode(), fields=fields)

    result = await agent(Site(default=reflect), auth=[API], options=OPTIONS).get(URL)
    assert SECRET not in json.dumps(result)
    assert result["response_headers"]["X-Echo"] == MARK
    assert result["response_headers"]["Location"] == f"/?key={MARK}"
    assert f"X-{MARK}" in result["response_headers"]
    assert result["body"] == f"You sent '{MARK}'."


@pytest.mark.parametrize(
    ("content", "body"),
    [
        (
            json.dumps({"headers": {"Authorization": f"Bearer {SECRET}"}}),
            {"headers": {"Authorization": MARK}},
        ),
        ('{"a": "sk\\u002dlive\\u002D0123456789"}', {"a": MARK}),
        (json.dumps({"a": json.dumps({"b": SECRET})}), {"a": json.dumps({"b": MARK})}),
        (json.dumps({SECRET: [SECRET, 1]}), {MARK: [MARK, 1]}),
        (json.dumps([base64.b64encode(f"{SECRET}".encode()).decode()]), None),
    ],
)
async def test_reflection_in_json(content: str, body: Any, agent: MakeAgent) -> None:
    """W-89, W-150: redacted before it is parsed, so that it stays JSON; nested and escaped as well."""
    page = answer(content.encode(), "200 OK", "Content-Type: application/json")
    result = await agent(Site(default=page), auth=[API], options=OPTIONS).get(URL)
    assert isinstance(result["body"], dict | list)
    assert result["body"] == body or (body is None and MARK in result["body"][0])


async def test_a_number_is_a_value_too(agent: MakeAgent) -> None:
    """A secret of digits in a JSON number: the text is no JSON any more then, but the secret is out."""
    auth = [{"host": HOST, "headers": {"X-Pin": {"env": "PIN"}}}]
    page = answer(b'{"pin": 1234567890}', "200 OK", "Content-Type: application/json")
    mine = agent(Site(default=page), auth=auth, options={"environment": {"PIN": "1234567890"}})
    assert (await mine.get(URL))["body"] == f'{{"pin": {MARK}}}'


async def test_reflection_in_the_url(agent: MakeAgent) -> None:
    """W-F4: of a redirect that puts it into a path, or into a host name, where letter case is lost."""
    auth = [{"host": HOST, "headers": {"X-Key": {"env": "KEY"}}}]
    options = {"environment": {"KEY": "AbCdEf0123456789"}}
    for location in ("/AbCdEf0123456789/x", "/AbCdEf%30123456789/x", "https://AbCdEf0123456789.example/"):
        site = Site({URL: redirect(location)})
        result = await agent(site, auth=auth, max_redirects=1, options=options).get(URL)
        assert MARK in result["url"]


@pytest.mark.parametrize("key", ["AbCdEf01?23456789", "AbCdEf01#23456789", "AbCdEf0123/456789"])
async def test_reflection_in_a_url_that_takes_it_apart(key: str, agent: MakeAgent) -> None:
    """W-F4: the result has no query and no fragment, and so may have the beginning of a value alone."""
    auth = [{"host": HOST, "headers": {"X-Key": {"env": "KEY"}}}]
    mine = agent(
        Site({URL: redirect(f"/x/{key}")}), auth=auth, max_redirects=1, options={"environment": {"KEY": key}}
    )
    assert (await mine.get(URL))["url"] == f"{URL}x/{MARK}"


async def test_a_cut_within_the_value(agent: MakeAgent) -> None:
    """What is left of a value at the cap is no less of a secret."""
    page = answer(f"echo: {SECRET} and more".encode(), "200 OK", "Content-Type: text/plain")
    mine = agent(Site(default=page), auth=[API], max_response_bytes=18, options=OPTIONS)
    result = await mine.get(URL)
    assert (result["body"], result["body_truncated"]) == (f"echo: {MARK}", True)


async def test_configured_names_are_hidden(agent: MakeAgent) -> None:
    """W-F4: in any case and with underscores, whichever profile names them."""
    fields = ["Authorization: a", "x-api-key: b", "X_API_KEY: c", "X-Other: d"]
    mine = agent(Site(default=answer(b"", "200 OK", *fields)), auth=[API, PARTNERS], options=OPTIONS)
    assert set((await mine.get(URL))["response_headers"]) == {"X-Other", "Content-Length"}


async def test_errors_and_records_are_redacted(agent: MakeAgent) -> None:
    """W-D2, W-F3: what a model was tricked into sending does not show up where operators look, either."""
    mine = agent(Site(), auth=[API], options=OPTIONS)
    error = await mine.error(URL, headers={SECRET: "a\nb"})
    assert MARK in error["error"]
    await mine.get(f"{URL}{SECRET}/x")
    assert [record.path for record in mine.records] == [None, f"/{MARK}/x"]
    assert SECRET not in repr(mine.records)


@pytest.mark.parametrize("shown", ["agent:correct-horse", "correct-horse"])
async def test_the_password_of_basic(shown: str, agent: MakeAgent) -> None:
    """RFC 7617: servers print user and password, not the base64 that they were sent."""
    basic = base64.b64encode(b"agent:correct-horse").decode()
    mine = agent(
        Site(default=answer(f"Hello {shown}!".encode(), "200 OK", "Content-Type: text/plain")),
        auth=[API],
        options={"environment": {"API_TOKEN": f"Basic {basic}"}},
    )
    assert (await mine.get(URL))["body"] == f"Hello {MARK}!"


# Secrets that cannot be had -------------------------------------------------------------------------------


def build(auth: list[dict[str, Any]], environment: Mapping[str, str], **config: Any) -> None:
    create_web_request_tools(
        WebRequestConfig.model_validate({"auth": auth, **config}), environment=environment
    )


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ({}, "{env: API_TOKEN}: the variable is not set"),
        ({"API_TOKEN": ""}, "{env: API_TOKEN}: it is empty"),
        ({"API_TOKEN": "sk-live\n0123456789"}, "{env: API_TOKEN}: it is no value for a header"),
        ({"API_TOKEN": "1234567"}, "{env: API_TOKEN}: it has fewer than 8 characters"),
        ({"API_TOKEN": "Bearer 1234567"}, "{env: API_TOKEN}: it has fewer than 8 characters"),
    ],
)
def test_the_build_fails(environment: dict[str, str], problem: str) -> None:
    """AMB-95, W-134: no tool, and a message that names the reference alone."""
    with pytest.raises(BuildError) as caught:
        build([API], environment)
    assert problem in str(caught.value)
    assert caught.value.__cause__ is None
    for value in environment.values():
        assert not value or value not in str(caught.value)


def test_eight_characters_are_enough() -> None:
    build([API], {"API_TOKEN": "Bearer 12345678"})


def test_every_problem_is_listed(tmp_path: Path) -> None:
    """All secrets that are missing, and what else the configuration refers to."""
    (tmp_path / "no.pem").write_text("no certificate")
    files = [{"host": "b.example", "headers": {"X-Key": {"file": str(tmp_path / "missing")}}}]
    with pytest.raises(BuildError) as caught:
        build([API, PARTNERS, *files], {}, ca_file=str(tmp_path / "no.pem"))
    assert len(caught.value.problems) == 4
    for words in ("API_TOKEN", "PARTNER_KEY", "there is no such file", "ca_file: "):
        assert words in str(caught.value)


# Tokens that are renewed ----------------------------------------------------------------------------------


class Issuer:
    """A cloud whose tokens have ended the moment they are there."""

    def __init__(self) -> None:
        self.issued: list[str] = []
        self.broken = False

    def secret(self, reference: KeyVaultSecret) -> SecretValue:
        return SecretValue(f"secret-in-{reference.vault}")

    def token(self, reference: ManagedIdentity) -> Token:
        if self.broken:
            raise SecretError([f"{{managed_identity: {{resource: {reference.resource}}}}}: no answer"])
        self.issued.append(f"token-number-{len(self.issued)}")
        return Token(SecretValue(self.issued[-1]), 0)


IDENTITY = {
    "host": HOST,
    "headers": {"Authorization": {"managed_identity": {"resource": "https://storage.azure.com"}}},
}


async def test_a_managed_identity(agent: MakeAgent) -> None:
    """W-51: its token comes with its scheme, is renewed when it has ended, and both are redacted."""
    issuer = Issuer()
    site = Site(
        default=answer(b"token-number-0 token-number-1 token-number-9", "200 OK", "Content-Type: text/plain")
    )
    mine = agent(site, auth=[IDENTITY], options={"vaults": issuer})
    result = await mine.get(URL)
    assert site.requests[0].field("authorization") == "Bearer token-number-1"
    assert result["body"] == f"{MARK} {MARK} token-number-9"


async def test_a_key_vault(agent: MakeAgent) -> None:
    """W-51, W-146."""
    reference = {"key_vault": {"vault": "corp-vault", "name": "key"}}
    site = Site()
    mine = agent(site, auth=[{"host": HOST, "headers": {"X-Key": reference}}], options={"vaults": Issuer()})
    await mine.get(URL)
    assert site.requests[0].field("x-key") == "secret-in-corp-vault"


async def test_asked_for_only_after_the_checks(agent: MakeAgent) -> None:
    """W-68, W-129, W-D1: no token is fetched for a request that is refused."""
    issuer = Issuer()
    resolver = AnyHost("10.0.0.1")
    mine = agent(Site(), auth=[IDENTITY], options={"vaults": issuer, "resolver": resolver})
    assert await mine.refusal(URL) == ("blocked", "private")
    assert issuer.issued == ["token-number-0"]


async def test_no_token_to_be_had(agent: MakeAgent, caplog: pytest.LogCaptureFixture) -> None:
    """The call fails before anything is sent; the log names the reference, the model hears of the setting."""
    issuer = Issuer()
    site = Site(default=echo)
    mine = agent(site, auth=[IDENTITY], options={"vaults": issuer})
    issuer.broken = True
    with caplog.at_level(logging.WARNING):
        error = await mine.error(URL)
    assert (error["outcome"], error["reason"]) == ("error", "connect_failed")
    assert "(auth)" in error["error"]
    assert "storage.azure.com" in caplog.text
    assert "storage.azure.com" not in error["error"]
    assert site.requests == []
