"""Credentials by host: which secret fields a request gets, and what must not come back."""

import base64
import binascii
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NoReturn

from tidegate import URL, ConnectError
from tidegate._policy.host import HostList
from tidegate_tools.web_request.config import WebRequestAuthProfile, WebRequestConfig
from tidegate_tools.web_request.redaction import MIN_LENGTH, Redactor
from tidegate_tools.web_request.references import SecretReference
from tidegate_tools.web_request.secrets import SecretError, SecretStore, SecretValue, Vaults, references_of

logger: Final = logging.getLogger("tidegate.tools.web_request")


class CredentialUnavailable(ConnectError):
    """The credential for a host has ended and could not be renewed; nothing was sent."""


class HostCredentials:
    """The profiles of one configuration with their secrets, resolved: a `tidegate.CredentialSource`.

    The engine asks once a hop, after all its checks and over https only (D1, AMB-94), and lets the answer win
    over what the model sent. Building this blocks: vaults are asked.

    Args:
        config: its `auth` counts.
        environment: variables for `{env: NAME}`; None means this process's.
        vaults: where vaults and identities are asked; None means Azure.

    Raises:
        SecretError: a secret cannot be resolved, or is too short to be kept out of responses. Every one is
            named by its reference.
    """

    def __init__(
        self,
        config: WebRequestConfig,
        *,
        environment: Mapping[str, str] | None = None,
        vaults: Vaults | None = None,
    ) -> None:
        profiles = config.auth or ()
        self._hosts = HostList(profile.host for profile in profiles)
        # Of two profiles for one host the first one applies (AMB-93).
        self._profiles: dict[str, WebRequestAuthProfile] = {
            profile.host: profile for profile in reversed(profiles)
        }
        self._stores: dict[SecretReference, SecretStore] = {}
        problems: list[str] = []
        for reference in dict.fromkeys(references_of(config)):
            try:
                # A store for each, so that what is wrong with a value can be said of its reference.
                self._stores[reference] = _checked_store(reference, environment, vaults)
            except SecretError as error:
                problems += error.problems
        if problems:
            raise SecretError(problems)
        remembered = lru_cache(maxsize=1)(_redactor_of)
        # Behind a function, as the values are: what walks over objects and prints them must not find it.
        self._redactor_of: Callable[[tuple[str, ...]], Redactor] = lambda values: remembered(values)

    def __repr__(self) -> str:
        return f"<HostCredentials for {', '.join(self._profiles) or 'no host'}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("credentials cannot be pickled")

    @property
    def field_names(self) -> frozenset[str]:
        """The names of all fields that any profile sets, in lower case: no response shows them (W-F4)."""
        return frozenset(name.lower() for profile in self._profiles.values() for name in profile.headers)

    async def fields_for(self, url: URL) -> Mapping[str, str]:
        """See `tidegate.CredentialSource.fields_for`: the fields of the most specific profile, if one fits.

        Raises:
            CredentialUnavailable: a token has ended and no new one can be had.
        """
        pattern = self._hosts.most_specific(url.host)
        if pattern is None:
            return {}
        values: dict[str, SecretValue] = {}
        try:
            for name, reference in self._profiles[pattern].headers.items():
                values[name] = await self._stores[reference].field_value(name, reference)
        except SecretError as error:
            logger.warning("web_request sent nothing: %s", error)
            raise CredentialUnavailable("the credential for this host could not be renewed") from None
        return {name: value.reveal() for name, value in values.items()}

    def redactor(self) -> Redactor:
        """A redactor of everything that is secret now. Not to be kept: a token may be renewed meanwhile."""
        stores = self._stores.values()
        return self._redactor_of(tuple(value.reveal() for store in stores for value in store.known_values()))


def _checked_store(
    reference: SecretReference, environment: Mapping[str, str] | None, vaults: Vaults | None
) -> SecretStore:
    store = SecretStore([reference], environment=environment, vaults=vaults)
    if min(len(value.reveal()) for value in store.known_values()) < MIN_LENGTH:
        raise SecretError(
            [
                f"{reference}: it has fewer than {MIN_LENGTH} characters, its scheme apart; so short a value "
                "cannot be told from ordinary text, and so not be kept out of responses"
            ]
        )
    return store


def _redactor_of(values: tuple[str, ...]) -> Redactor:
    return Redactor(form for value in values for form in _secret_forms(value))


def _secret_forms(value: str) -> Iterator[str]:
    """The value, and what a server reads out of it: user and password of the Basic scheme (RFC 7617)."""
    yield value
    try:
        decoded = base64.b64decode(value.removeprefix("Basic "), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return
    if ":" in decoded:
        yield decoded
        yield decoded.partition(":")[2]
