"""Azure Key Vault and managed identities, through Microsoft's own clients (extra `azure`).

These talk to the cloud's own endpoints over `requests`, outside the engine and its rules: the metadata
address that no agent may reach is where a managed identity gets its tokens. Proxies and `.netrc` of the
environment are not read here either (D-17). Everything blocks; callers bring a thread.
"""

import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

from azure.core.pipeline.transport import RequestsTransport
from azure.identity import ManagedIdentityCredential
from azure.keyvault.secrets import SecretClient

from tidegate_tools.web_request.references import (
    KeyVaultReference,
    KeyVaultSecret,
    ManagedIdentity,
    ManagedIdentityReference,
    SecretReference,
)
from tidegate_tools.web_request.secrets import SecretError, SecretValue, Token

# The clients' own defaults wait for minutes; a build that fails should say so while somebody is looking.
_TIMEOUTS: Final = {"connection_timeout": 5, "read_timeout": 10}
_MAX_BACKOFF: Final = 5
"""Seconds between two attempts at most."""

_Answer = TypeVar("_Answer")


class AzureVaults:
    """Asks Key Vaults, and whatever issues tokens for managed identities on this machine.

    Args:
        ca_file: trusted certificates (PEM) instead of the ones `requests` brings; for private clouds.
        verify_challenge_resource: refuse a vault whose challenge names another domain than its own; switch
            it off only for a vault behind a name of its own.
        retries: further attempts after one that failed.
    """

    def __init__(
        self, *, ca_file: str | None = None, verify_challenge_resource: bool = True, retries: int = 3
    ) -> None:
        self._trust: str | bool = ca_file or True
        self._retries = retries
        self._verify_challenge_resource = verify_challenge_resource

    def secret(self, reference: KeyVaultSecret) -> SecretValue:
        """The newest version of a secret, read as the machine's identity, or the one of AZURE_CLIENT_ID.

        Raises:
            SecretError: it cannot be read; the message has the vault, the secret and the kind of failure.
        """

        def read() -> SecretValue:
            client_id = os.environ.get("AZURE_CLIENT_ID") or None
            with (
                self._credential(client_id) as credential,
                SecretClient(
                    reference.vault_url,
                    credential,
                    verify_challenge_resource=self._verify_challenge_resource,
                    **self._client_options(),
                ) as client,
            ):
                return SecretValue(client.get_secret(reference.name).value or "")

        return _attempt(read, KeyVaultReference(key_vault=reference))

    def token(self, reference: ManagedIdentity) -> Token:
        """A new token of a managed identity, not one from a cache of this process.

        Raises:
            SecretError: there is none; the message has the resource and the kind of failure.
        """

        def fetch() -> Token:
            with self._credential(reference.client_id) as credential:
                token = credential.get_token(f"{reference.resource}/.default")
                return Token(SecretValue(token.token), token.expires_on)

        return _attempt(fetch, ManagedIdentityReference(managed_identity=reference))

    def _credential(self, client_id: str | None) -> ManagedIdentityCredential:
        return ManagedIdentityCredential(client_id=client_id, **self._client_options())

    def _client_options(self) -> dict[str, Any]:
        transport = RequestsTransport(use_env_settings=False, **_TIMEOUTS, connection_verify=self._trust)
        return {"transport": transport, "retry_total": self._retries, "retry_backoff_max": _MAX_BACKOFF}


def _attempt(ask: Callable[[], _Answer], reference: SecretReference) -> _Answer:
    """What `ask` returns; where the client fails, an error of ours that carries nothing of its own."""
    try:
        return ask()
    except (
        Exception
    ) as error:  # of the clients, of msal and of requests: their texts are not ours to vouch for
        failure = type(error).__name__
    # Out here: as the context of ours, the client's error would bring requests and answers in its frames.
    raise SecretError([f"{reference}: {failure}"])
