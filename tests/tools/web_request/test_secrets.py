"""Secrets: where they come from, when they are renewed, and that nothing shows them."""

import copy
import dataclasses
import gc
import json
import logging
import pickle
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio.testing
import trustme

from tests.tools.web_request.fake_azure import FakeAzure, fake_azure
from tidegate_tools.web_request.config import WebRequestConfig
from tidegate_tools.web_request.references import (
    EnvReference,
    FileReference,
    KeyVaultReference,
    KeyVaultSecret,
    ManagedIdentity,
    ManagedIdentityReference,
    SecretReference,
)
from tidegate_tools.web_request.secrets import (
    RENEW_BEFORE,
    RETRY_AFTER_END,
    RETRY_RENEWAL_AFTER,
    SecretError,
    SecretStore,
    SecretValue,
    Token,
    references_of,
)

SECRET = "sk-live-0123456789"
A = EnvReference(env="A")
STORAGE = ManagedIdentityReference(managed_identity=ManagedIdentity(resource="https://storage.azure.com"))


async def _value(store: SecretStore, reference: SecretReference, name: str = "X-Key") -> str:
    return (await store.field_value(name, reference)).reveal()


# Showing nothing ------------------------------------------------------------------------------------------


@dataclasses.dataclass
class _Holder:
    secret: SecretValue


@pytest.mark.parametrize(
    "shown",
    [
        str,
        repr,
        lambda secret: f"{secret}",
        lambda secret: f"{secret!s:>40}",
        lambda secret: f"{secret!r}",
        lambda secret: "%s %r" % (secret, secret),  # noqa: UP031  # old-style formatting is what is tested
        lambda secret: str([secret]),
        lambda secret: str({"a": (secret,)}),
        lambda secret: str(_Holder(secret)),
        lambda secret: str(dataclasses.asdict(_Holder(secret))),
        lambda secret: str(dataclasses.astuple(_Holder(secret))),
        lambda secret: json.dumps([secret], default=str),
        lambda secret: str(copy.copy(secret)),
        lambda secret: str(copy.deepcopy({"a": secret})),
        lambda secret: str([getattr(secret, name, None) for name in dir(secret)]),
        lambda secret: str(SecretStore([A], environment={"A": secret.reveal()})),
    ],
)
def test_nothing_that_prints_shows_a_secret(shown: Callable[[SecretValue], str]) -> None:
    """W-150, W-D2: text, format, containers, dataclasses, copies, JSON, attributes."""
    secret = SecretValue(SECRET)
    text = shown(secret)
    assert SECRET not in text
    assert text != ""
    assert secret.reveal() == SECRET


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_secrets_do_not_pickle(protocol: int) -> None:
    """W-150: neither a value, nor a store, nor what holds one."""
    store = SecretStore([A], environment={"A": SECRET})
    for thing in (SecretValue(SECRET), store, _Holder(SecretValue(SECRET)), Token(SecretValue(SECRET), 0)):
        with pytest.raises(TypeError):
            pickle.dumps(thing, protocol)


def test_secrets_have_no_state_and_do_not_compare() -> None:
    """What walks over objects finds no text, and equality is no oracle."""
    secret = SecretValue(SECRET)
    with pytest.raises(TypeError):
        secret.__getstate__()
    with pytest.raises(TypeError):
        vars(secret)
    assert secret != SecretValue(SECRET)
    assert not [referent for referent in gc.get_referents(secret) if isinstance(referent, str)]


# The environment and files --------------------------------------------------------------------------------


async def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """W-68, W-134: resolved when the store is built; what the variable holds later does not matter."""
    monkeypatch.setenv("TIDEGATE_TEST_TOKEN", SECRET)
    reference = EnvReference(env="TIDEGATE_TEST_TOKEN")
    store = SecretStore([reference])
    monkeypatch.setenv("TIDEGATE_TEST_TOKEN", "changed")
    assert await _value(store, reference) == SECRET


def test_building_needs_no_event_loop() -> None:
    """W-66, W-G4: this is no async test."""
    assert repr(SecretStore([A, A], environment={"A": SECRET})) == "<SecretStore of {env: A}>"
    assert repr(SecretStore([])) == "<SecretStore of nothing>"


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
async def test_file(tmp_path: Path, ending: str) -> None:
    """Issue 4: the text of a file without one final line break, as editors and `echo` leave it."""
    path = tmp_path / "token"
    path.write_bytes(f"{SECRET}{ending}".encode())
    link = tmp_path / "link"
    link.symlink_to(path)  # as mounted secrets are
    for place in (path, link):
        reference = FileReference(file=str(place))
        assert await _value(SecretStore([reference]), reference) == SECRET


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "the variable is not set"),
        ("", "it is empty"),
        (f"{SECRET}\n", "it is no value for a header"),
        (f"{SECRET}\r\nX-Other: a", "it is no value for a header"),
        (f" {SECRET}", "it is no value for a header"),
        (f"{SECRET}\0", "it is no value for a header"),
        (f"{SECRET}é", "it is no value for a header"),
        (SECRET * 1000, "it is longer than 8192 characters"),
    ],
)
def test_variables_that_are_no_secrets(value: str | None, problem: str) -> None:
    """AMB-95: the build fails and names the reference, not the value; nothing of it is in the traceback."""
    environment = {} if value is None else {"A": value}
    with pytest.raises(SecretError) as caught:
        SecretStore([A], environment=environment)
    assert str(caught.value).startswith(f"Secrets cannot be resolved: {{env: A}}: {problem}")
    _check_traceback(caught.value)


def _check_traceback(error: BaseException) -> None:
    """Error reporters print the local variables of every frame of ours, and follow the chain of causes."""
    assert error.__context__ is None
    assert error.__cause__ is None
    step = error.__traceback__
    while step is not None:
        if "tidegate_tools" in step.tb_frame.f_code.co_filename:
            # The test's own environment stands in for the process's, which is no local variable.
            known = {name: value for name, value in step.tb_frame.f_locals.items() if name != "environment"}
            assert SECRET not in repr(known)
        step = step.tb_next
    assert SECRET not in repr(error)
    assert SECRET.encode() not in pickle.dumps(error)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.mkdir(), "it is no regular file"),
        (lambda path: path.write_text(""), "it is empty"),
        (lambda path: path.write_text("\n"), "it is empty"),
        (lambda path: path.write_text(f"{SECRET}\n\n"), "it is no value for a header"),
        (lambda path: path.write_bytes(SECRET.encode() + b"\xff"), "it is no text"),
        (lambda path: path.write_text(SECRET * 1000), "it holds more than 8192 bytes"),
        (lambda path: path.symlink_to("/dev/zero"), "it is no regular file"),
        (lambda path: path.symlink_to(path), "there is no such file"),
    ],
)
def test_files_that_are_no_secrets(tmp_path: Path, make: Callable[[Path], object], problem: str) -> None:
    """AMB-95: as for variables; a device would otherwise block the build for ever."""
    path = tmp_path / "token"
    make(path)
    with pytest.raises(SecretError) as caught:
        SecretStore([FileReference(file=str(path))])
    assert caught.value.problems[0].startswith(f"{{file: {path}}}: {problem}")
    _check_traceback(caught.value)


def test_a_path_that_no_file_can_have() -> None:
    """AMB-95."""
    with pytest.raises(SecretError, match="it cannot be read: File name too long"):
        SecretStore([FileReference(file=f"/{'a' * 5000}")])


def test_every_reference_that_fails_is_named(tmp_path: Path) -> None:
    """AMB-95: one build, one list."""
    missing = FileReference(file=str(tmp_path / "nope"))
    with pytest.raises(SecretError) as caught:
        SecretStore([A, EnvReference(env="B"), missing, A], environment={"B": SECRET})
    assert caught.value.problems == ("{env: A}: the variable is not set", f"{missing}: there is no such file")


def test_references_of_a_configuration() -> None:
    """W-D1: every profile, in order."""
    config = WebRequestConfig.model_validate(
        {
            "auth": [
                {"host": "a.example", "headers": {"X-Key": {"env": "A"}, "X-Other": {"env": "B"}}},
                {"host": "b.example", "headers": {"X-Key": {"env": "A"}}},
            ]
        }
    )
    assert references_of(config) == (A, EnvReference(env="B"), A)
    assert references_of(WebRequestConfig()) == ()


def test_what_must_be_redacted() -> None:
    """W-89, W-F4: every value, and what follows an authentication scheme: a server may give it back alone."""
    environment = {"A": "Bearer abc.def", "B": "plain", "C": "Basic dTpw"}
    store = SecretStore([EnvReference(env=name) for name in environment], environment=environment)
    assert {value.reveal() for value in store.known_values()} == {
        "Bearer abc.def", "abc.def", "plain", "Basic dTpw", "dTpw",
    }  # fmt: skip


# Tokens that end, with a cloud of the test's own ----------------------------------------------------------


class _Cloud:
    """Hands out `token-0`, `token-1` and so on, each good for an hour, unless told to fail or to wait."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.lifetime = 3600.0
        self.asked = 0
        self.failing = False
        self.gate = threading.Event()
        self.gate.set()

    def clock(self) -> float:
        return self.now

    def token(self, reference: ManagedIdentity) -> Token:
        self.asked += 1
        number = self.asked - 1
        self.gate.wait()
        if self.failing:
            raise SecretError(["{managed_identity: ...}: Unavailable"])
        return Token(SecretValue(f"token-{number}"), self.now + self.lifetime)

    def secret(self, reference: KeyVaultSecret) -> SecretValue:
        raise AssertionError("no vault here")


def _store(cloud: _Cloud) -> SecretStore:
    return SecretStore([STORAGE], vaults=cloud, clock=cloud.clock)


async def test_a_token_is_fetched_at_build_and_kept() -> None:
    """Issue 4: one request for a token while it is good, and the scheme where the field asks for one."""
    cloud = _Cloud()
    store = _store(cloud)
    cloud.now += 3600 - RENEW_BEFORE - 1
    assert await _value(store, STORAGE, "authorization") == "Bearer token-0"
    assert await _value(store, STORAGE, "X-Token") == "token-0"
    assert cloud.asked == 1


@pytest.mark.parametrize("left", [RENEW_BEFORE, 1, 0, -100])
async def test_a_token_is_renewed_before_it_ends(left: float) -> None:
    """Issue 4: from five minutes before its end, and of course after it."""
    cloud = _Cloud()
    store = _store(cloud)
    cloud.now += 3600 - left
    assert await _value(store, STORAGE) == "token-1"
    assert {value.reveal() for value in store.known_values()} == {"token-0", "token-1"}
    assert await _value(store, STORAGE) == "token-1"
    assert cloud.asked == 2


async def test_a_failed_renewal_leaves_the_good_token() -> None:
    """The old token serves until its end; it is not asked for on every call meanwhile."""
    cloud = _Cloud()
    store = _store(cloud)
    cloud.failing = True
    cloud.now += 3600 - RENEW_BEFORE
    for _ in range(5):
        assert await _value(store, STORAGE) == "token-0"
    assert cloud.asked == 2
    cloud.now += RETRY_RENEWAL_AFTER
    cloud.failing = False
    assert await _value(store, STORAGE) == "token-2"


async def test_after_its_end_a_token_is_not_sent() -> None:
    """All calls of a moment share one failure; the next moment tries again."""
    cloud = _Cloud()
    store = _store(cloud)
    cloud.failing = True
    cloud.now += 3600
    for _ in range(5):
        with pytest.raises(SecretError, match="Unavailable"):
            await _value(store, STORAGE)
    assert cloud.asked == 2
    cloud.now += RETRY_AFTER_END
    cloud.failing = False
    assert await _value(store, STORAGE) == "token-2"


async def test_a_retry_is_never_put_off_beyond_the_end() -> None:
    """A failure ten seconds before the end is tried again at the end, not half a minute later."""
    cloud = _Cloud()
    store = _store(cloud)
    cloud.failing = True
    cloud.now += 3590
    assert await _value(store, STORAGE) == "token-0"
    cloud.now += 10
    cloud.failing = False
    assert await _value(store, STORAGE) == "token-2"


async def test_a_token_that_comes_back_old_is_not_asked_for_again_at_once() -> None:
    """The endpoint of a VM hands out the same token until shortly before its end."""
    cloud = _Cloud()
    store = _store(cloud)
    cloud.lifetime = 200
    cloud.now += 3500
    for _ in range(5):
        assert await _value(store, STORAGE) == "token-1"
    assert cloud.asked == 2


async def test_an_endpoint_that_hangs_holds_nobody_with_a_good_token(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """One call waits five seconds, then goes on with the token it has; others do not wait at all."""
    cloud = _Cloud()
    store = _store(cloud)
    cloud.gate.clear()
    cloud.now += 3600 - RENEW_BEFORE
    assert await _value(store, STORAGE) == "token-0"
    assert trio.current_time() == 5
    # Virtual time may pass before the thread of the first call has run at all; others wait for nothing once
    # it has asked.
    while cloud.asked < 2:
        await trio.to_thread.run_sync(lambda: None)
    assert await _value(store, STORAGE) == "token-0"
    assert trio.current_time() == 5
    cloud.gate.set()
    while cloud.asked < 2 or (await store.field_value("X-Key", STORAGE)).reveal() == "token-0":
        await trio.to_thread.run_sync(lambda: None)


async def test_waiting_for_a_token_can_be_cancelled() -> None:
    """D-16: a token that has ended and cannot be renewed yet holds a call no longer than its deadline."""
    cloud = _Cloud()
    store = _store(cloud)
    cloud.gate.clear()
    cloud.now += 3600
    with trio.move_on_after(0.01) as scope:
        await _value(store, STORAGE)
    assert scope.cancelled_caught
    cloud.gate.set()
    assert await _value(store, STORAGE) == "token-1"


async def test_many_calls_renew_once() -> None:
    """W-71: concurrent calls share one renewal, and its failure."""
    cloud = _Cloud()
    store = _store(cloud)
    cloud.now += 3600
    outcomes: list[str] = []

    async def call() -> None:
        try:
            outcomes.append(await _value(store, STORAGE))
        except SecretError as error:
            outcomes.append(error.problems[0][-11:])

    for failing, outcome in ((True, "Unavailable"), (False, "token-2")):
        cloud.gate.clear()
        cloud.failing = failing
        async with trio.open_nursery() as calls:
            for _ in range(50):
                calls.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
            cloud.gate.set()
        assert outcomes == [outcome] * 50
        outcomes.clear()
        cloud.now += RETRY_AFTER_END
    assert cloud.asked == 3


def test_a_store_serves_any_number_of_event_loops() -> None:
    """W-66, W-71: built in none, used in two at once and in one after the other."""
    cloud = _Cloud()
    store = _store(cloud)
    found: list[str] = []

    def run() -> None:
        found.append(trio.run(_value, store, STORAGE))

    for _ in range(2):
        cloud.now += 3600
        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == ["token-1", "token-1", "token-2", "token-2"]


def test_an_identity_that_is_missing_fails_the_build() -> None:
    """AMB-95."""
    cloud = _Cloud()
    cloud.failing = True
    with pytest.raises(SecretError, match="Unavailable"):
        _store(cloud)


def test_without_the_extra_the_build_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only references to Azure need it, and the message says what to install."""
    monkeypatch.delitem(sys.modules, "tidegate_tools.web_request.azure_vaults", raising=False)
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    SecretStore([A], environment={"A": SECRET})
    with pytest.raises(SecretError, match=r"tidegate\[azure\]") as caught:
        SecretStore([STORAGE])
    assert caught.value.problems[0].startswith(str(STORAGE))


# Azure's own clients, over TLS ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, str]:
    ca = trustme.CA()
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    ca.cert_pem.write_to_path(path)
    return ca, str(path)


@pytest.fixture
def azure(authority: tuple[trustme.CA, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAzure]:
    for name in ("IDENTITY_ENDPOINT", "MSI_ENDPOINT", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_ID"):
        monkeypatch.delenv(name, raising=False)
    with fake_azure(authority[0]) as fake:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", fake.url)
        yield fake


@pytest.fixture
def vaults(authority: tuple[trustme.CA, str]) -> Any:
    from tidegate_tools.web_request.azure_vaults import AzureVaults

    return AzureVaults(ca_file=authority[1], verify_challenge_resource=False)


def _vault(azure: FakeAzure, name: str) -> KeyVaultReference:
    return KeyVaultReference(key_vault=KeyVaultSecret(vault=azure.url, name=name))


async def test_key_vault(azure: FakeAzure, vaults: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """W-51: read at build, as the identity of the machine or the one of AZURE_CLIENT_ID."""
    azure.secrets["key"] = SECRET
    monkeypatch.setenv("AZURE_CLIENT_ID", "client-1")
    reference = _vault(azure, "key")
    store = SecretStore([reference, reference], vaults=vaults)
    azure.secrets["key"] = "changed"
    assert await _value(store, reference) == SECRET
    assert azure.vault_asked == ["key"]
    assert azure.identity_asked == [("https://vault.azure.net", "client-1")]


async def test_managed_identity(azure: FakeAzure, vaults: Any) -> None:
    """W-51: a token for exactly the resource that was named, for the identity that was named."""
    azure.tokens = ["token-one", "token-two", "token-three"]
    mine = ManagedIdentityReference(
        managed_identity=ManagedIdentity(resource="api://a/", client_id="client-1")
    )
    now = [0.0]
    store = SecretStore([STORAGE, mine], vaults=vaults, clock=lambda: now[0])
    assert await _value(store, STORAGE, "Authorization") == "Bearer token-one"
    assert await _value(store, mine, "Authorization") == "Bearer token-two"
    now[0] = 1e12
    assert await _value(store, STORAGE, "Authorization") == "Bearer token-three"
    assert azure.identity_asked == [
        ("https://storage.azure.com", None),
        ("api://a/", "client-1"),
        ("https://storage.azure.com", None),
    ]


async def test_azure_is_asked_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """W-51: nothing is passed but the reference; a VM's endpoint speaks plain http."""
    with fake_azure(None) as fake:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", fake.url)
        assert await _value(SecretStore([STORAGE]), STORAGE) == "token-one"


@pytest.mark.parametrize("broken", ["secret", "identity", "trust", "challenge", "value"])
def test_what_azure_does_not_give(
    azure: FakeAzure, vaults: Any, broken: str, authority: tuple[trustme.CA, str]
) -> None:
    """AMB-95: no such secret, no identity, an unknown CA, a foreign challenge, a value no header may have."""
    from tidegate_tools.web_request.azure_vaults import AzureVaults

    azure.secrets = {"key": f"{SECRET}\n" if broken == "value" else SECRET}
    azure.tokens = [SECRET]
    reference = _vault(azure, "nope" if broken == "secret" else "key")
    if broken == "identity":
        azure.identity_status = 400
    elif broken == "trust":
        other = Path(authority[1]).with_name("other.pem")
        trustme.CA().cert_pem.write_to_path(other)
        vaults = AzureVaults(ca_file=str(other), verify_challenge_resource=False, retries=0)
    elif broken == "challenge":
        vaults = AzureVaults(ca_file=authority[1])
    with pytest.raises(SecretError) as caught:
        SecretStore([reference], vaults=vaults)
    assert str(caught.value).startswith(f"Secrets cannot be resolved: {reference}: ")
    assert "\n" not in str(caught.value)
    _check_traceback(caught.value)


def test_proxies_of_the_environment_are_not_asked(
    azure: FakeAzure, vaults: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-17: a token would go through whatever HTTPS_PROXY names."""
    azure.secrets["key"] = SECRET
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    SecretStore([_vault(azure, "key"), STORAGE], vaults=vaults)
    assert azure.vault_asked == ["key"]


def test_azure_logs_show_no_secret(azure: FakeAzure, vaults: Any, caplog: pytest.LogCaptureFixture) -> None:
    """W-150: with every logger at its most talkative."""
    caplog.set_level(logging.DEBUG)
    azure.secrets["key"] = SECRET
    azure.tokens = ["token-very-secret"]
    SecretStore([_vault(azure, "key"), STORAGE], vaults=vaults)
    with pytest.raises(SecretError):
        SecretStore([_vault(azure, "nope")], vaults=vaults)
    assert len(caplog.records) > 5
    logged = caplog.text + "".join(str(record.__dict__) for record in caplog.records)
    assert SECRET not in logged
    assert "token-very-secret" not in logged


def _printed(error: BaseException) -> str:
    """The standard library's own way to print the variables of every frame."""
    return "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())


def _failed_build(reference: SecretReference, vaults: Any) -> SecretError:
    with pytest.raises(SecretError) as caught:
        SecretStore([reference], vaults=vaults)
    return caught.value


def test_a_failed_build_is_printed_without_secrets(azure: FakeAzure, vaults: Any) -> None:
    """W-150: what an error reporter would send, with a secret in the vault that no header may have."""
    azure.secrets["key"] = f"{SECRET}\n"
    printed = _printed(_failed_build(_vault(azure, "key"), vaults))
    assert "in __init__" in printed
    assert SECRET not in printed


async def test_a_failed_renewal_is_printed_without_secrets() -> None:
    """W-150: at the time of a call the old token is still there, and must not show."""
    cloud = _Cloud()
    store = _store(cloud)
    cloud.failing = True
    cloud.now += 3600
    with pytest.raises(SecretError) as caught:
        await store.field_value("Authorization", STORAGE)
    printed = _printed(caught.value)
    assert "in _renew" in printed
    assert "token-0" not in printed
