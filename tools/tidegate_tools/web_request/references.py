"""Secret references: where a secret lies. They may stand in a configuration; secrets themselves may not.

Each kind is a mapping with one key, so a text can never be taken for a reference and environment
substitution never puts a value in its place (D5). More kinds can be added without changing the shape (W-146).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationInfo

from tidegate_tools.web_request.mistakes import UnquotingError

STRICT: Final = ConfigDict(
    extra="forbid",
    strict=True,
    frozen=True,
    # What a caller passes by mistake may be the secret itself.
    hide_input_in_errors=True,
    use_attribute_docstrings=True,
)
"""Every model of the configuration: unknown keys refused, no text taken for a number or a boolean."""


@dataclass(frozen=True, slots=True)
class FileContext:
    """Validation context: the folder of the configuration file, from which relative paths count."""

    folder: Path


def _from_folder(path: str, info: ValidationInfo) -> str:
    if not path.strip() or not path.isprintable():
        raise UnquotingError("is no path")
    return str(info.context.folder / path) if isinstance(info.context, FileContext) else path


FilePath: TypeAlias = Annotated[str, AfterValidator(_from_folder)]
"""A path; relative ones are taken from the folder of the configuration file that names them."""


class EnvReference(BaseModel):
    """`{env: NAME}`: the value of an environment variable."""

    model_config = STRICT

    env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    """The name of an environment variable, without `$` or `%`: letters, digits and underscores."""

    def __str__(self) -> str:
        return f"{{env: {self.env}}}"


class FileReference(BaseModel):
    """`{file: PATH}`: the text of a file, without one final line break."""

    model_config = STRICT

    file: FilePath
    """A path; relative ones are taken from the folder of the configuration file. No `$NAME` in it."""

    def __str__(self) -> str:
        return f"{{file: {self.file}}}"


class KeyVaultSecret(BaseModel):
    """One secret in an Azure Key Vault."""

    model_config = STRICT

    vault: Annotated[str, Field(pattern=r"^([0-9A-Za-z-]{3,24}|https://[0-9A-Za-z.-]+(:[0-9]+)?/?)$")]
    """The name of a vault, or its https URL without a path (other clouds, managed HSM)."""

    name: Annotated[str, Field(pattern=r"^[0-9A-Za-z-]{1,127}$")]
    """The name of the secret: letters, digits and hyphens; its newest version is used."""

    @property
    def vault_url(self) -> str:
        """The URL of the vault; a bare name is one in the public cloud."""
        return self.vault if self.vault.startswith("https://") else f"https://{self.vault}.vault.azure.net"


class KeyVaultReference(BaseModel):
    """`{key_vault: {vault: NAME, name: SECRET}}`: a secret in an Azure Key Vault (extra `azure`)."""

    model_config = STRICT

    key_vault: KeyVaultSecret
    """The vault and the name of the secret in it."""

    def __str__(self) -> str:
        return f"{{key_vault: {{vault: {self.key_vault.vault}, name: {self.key_vault.name}}}}}"


class ManagedIdentity(BaseModel):
    """For whom a token of a managed identity is meant, and which identity asks for it."""

    model_config = STRICT

    resource: Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,512}$")]
    """The resource the token is for, as its owner names it, such as `https://storage.azure.com`."""

    client_id: Annotated[str, Field(pattern=r"^[0-9A-Za-z-]{1,64}$")] | None = None
    """The client id of a user-assigned identity; left out, the identity of the machine or app itself."""


class ManagedIdentityReference(BaseModel):
    """`{managed_identity: {resource: URI, client_id: ID}}`: a token, renewed in time (extra `azure`)."""

    model_config = STRICT

    managed_identity: ManagedIdentity
    """The resource, and the client id of a user-assigned identity."""

    def __str__(self) -> str:
        client = f", client_id: {self.managed_identity.client_id}" if self.managed_identity.client_id else ""
        return f"{{managed_identity: {{resource: {self.managed_identity.resource}{client}}}}}"


_KINDS: Final[dict[str, type[BaseModel]]] = {
    "env": EnvReference,
    "file": FileReference,
    "key_vault": KeyVaultReference,
    "managed_identity": ManagedIdentityReference,
}


def _kind(value: Any) -> str | None:
    """The tag of the one kind a value can be; None if it is none of them, or more than one."""
    if isinstance(value, dict):
        named = [kind for kind in _KINDS if kind in value]
    else:
        named = [kind for kind, model in _KINDS.items() if isinstance(value, model)]
    return f"<{named[0]}>" if len(named) == 1 else None


SecretReference: TypeAlias = Annotated[
    Annotated[EnvReference, Tag("<env>")]
    | Annotated[FileReference, Tag("<file>")]
    | Annotated[KeyVaultReference, Tag("<key_vault>")]
    | Annotated[ManagedIdentityReference, Tag("<managed_identity>")],
    Discriminator(
        _kind,
        custom_error_type="secret_reference",
        custom_error_message="must be a secret reference with exactly one known kind",
    ),
]
"""One of the four kinds. Its text is the reference as written, never the secret."""
