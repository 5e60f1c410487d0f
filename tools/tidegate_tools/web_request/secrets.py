"""Secrets: resolved from their references when a tool is built, and shown by nothing that prints.

Environment variables, files and vaults are read once, while the tool is built, without an event loop. Tokens
of a managed identity are fetched then too, so that a missing identity fails the build, and renewed in a trio
thread while calls go on.

No raw secret is a local variable of a frame that raises: error reporters print those.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, NoReturn, Protocol

import trio

from tidegate._policy.fields import MAX_VALUE
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

RENEW_BEFORE: Final = 300.0
"""Seconds before its end at which a token is renewed; the endpoint of Azure VMs hands out the old one until
about then."""

RENEW_PATIENCE: Final = 5.0
"""Seconds a call waits for a renewal while the token it has is still good."""

RETRY_RENEWAL_AFTER: Final = 30.0
RETRY_AFTER_END: Final = 2.0
"""Seconds between two attempts while the token is still good, and after its end. Picked without measuring."""

_RENEWAL_THREADS: Final = 4
"""Threads outlive cancellation, so they get a limiter of their own, as DNS does."""


class SecretError(Exception):
    """Secrets that cannot be resolved. The message names references and what is wrong, never a value.

    Attributes:
        problems: one sentence for each reference.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "Secrets cannot be resolved: " + "; ".join(self.problems)


class SecretValue:
    """A secret that only `reveal` shows. It has no repr, format, pickle, copy or comparison that would."""

    __slots__ = ("__reveal",)

    def __init__(self, value: str) -> None:
        # A function, since an attribute would be found by whatever walks over objects and prints them.
        self.__reveal: Callable[[], str] = lambda: value

    def reveal(self) -> str:
        """The secret itself: for the request it belongs to, and for redaction."""
        return self.__reveal()

    def __repr__(self) -> str:
        return "<secret>"

    def __copy__(self) -> "SecretValue":
        return self

    def __deepcopy__(self, memo: object) -> "SecretValue":
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret cannot be pickled")

    def __getstate__(self) -> NoReturn:
        raise TypeError("a secret has no state to save")


class Token:
    """An access token and the wall-clock time, in seconds since the epoch, until which it is good."""

    __slots__ = ("expires_at", "value")

    def __init__(self, value: SecretValue, expires_at: float) -> None:
        self.value = value
        self.expires_at = expires_at


class Vaults(Protocol):
    """Where secrets and tokens of a cloud come from. Methods block, and run in threads."""

    def secret(self, reference: KeyVaultSecret) -> SecretValue:
        """The newest version of a secret in a vault; raises SecretError."""

    def token(self, reference: ManagedIdentity) -> Token:
        """A new token; raises SecretError."""


class SecretStore:
    """The secrets of one tool, resolved. Build it where no event loop runs, or in a thread.

    Args:
        references: what to resolve; the same reference twice is resolved once.
        environment: variables for `{env: NAME}`; None means this process's.
        vaults: where vaults and identities are asked; None means Azure, which needs the extra `azure`.
        clock: the wall clock that token lifetimes count by.

    Raises:
        SecretError: some cannot be resolved; every one of them is named.
    """

    def __init__(
        self,
        references: Iterable[SecretReference],
        *,
        environment: Mapping[str, str] | None = None,
        vaults: Vaults | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fixed: dict[SecretReference, SecretValue] = {}
        self._tokens: dict[SecretReference, _RenewedToken] = {}
        self._environment = environment
        self._vaults = vaults
        self._clock = clock
        problems: list[str] = []
        for reference in dict.fromkeys(references):
            try:
                self._resolve(reference)
            except SecretError as error:
                problems += error.problems
        if problems:
            raise SecretError(problems)

    def __repr__(self) -> str:
        return f"<SecretStore of {', '.join(map(str, (*self._fixed, *self._tokens))) or 'nothing'}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("secrets cannot be pickled")

    async def field_value(self, name: str, reference: SecretReference) -> SecretValue:
        """The value of a request field whose secret is `reference`; a token near its end is renewed first.

        A token of a managed identity is a bearer token, so in Authorization it comes with its scheme
        (RFC 6750 2.1); other kinds hold the whole value of the field.

        Raises:
            SecretError: a token has ended and no new one can be had.
        """
        await trio.lowlevel.checkpoint()
        token = self._tokens.get(reference)
        if token is None:
            return self._fixed[reference]
        value = await token.current()
        return _bearer(value) if name.lower() == "authorization" else value

    def known_values(self) -> tuple[SecretValue, ...]:
        """Everything that must be redacted.

        That is all values; what follows the scheme of such as `Bearer abc`, since a server may give it back
        alone; and for a token also the one before it.
        """
        values = [
            *self._fixed.values(),
            *(value for token in self._tokens.values() for value in token.known()),
        ]
        return (*values, *filter(None, map(_without_scheme, values)))

    def _resolve(self, reference: SecretReference) -> None:
        if isinstance(reference, ManagedIdentityReference):
            self._tokens[reference] = _RenewedToken(lambda: self._token(reference), self._clock)
        else:
            self._fixed[reference] = _usable(self._read(reference), reference)

    def _read(self, reference: EnvReference | FileReference | KeyVaultReference) -> SecretValue:
        if isinstance(reference, EnvReference):
            return _from_environment(reference, self._environment)
        if isinstance(reference, FileReference):
            return _from_file(reference)
        return self._cloud(reference).secret(reference.key_vault)

    def _token(self, reference: ManagedIdentityReference) -> Token:
        token = self._cloud(reference).token(reference.managed_identity)
        _usable(token.value, reference)
        return token

    def _cloud(self, reference: KeyVaultReference | ManagedIdentityReference) -> Vaults:
        if self._vaults is None:
            self._vaults = _azure(reference)
        return self._vaults


def _azure(reference: SecretReference) -> Vaults:
    try:
        from tidegate_tools.web_request.azure_vaults import AzureVaults
    except ImportError:
        problem = "it needs Microsoft's clients: pip install 'tidegate[azure]'"
    else:
        return AzureVaults()
    return _unresolved(reference, problem)


def references_of(config: WebRequestConfig) -> tuple[SecretReference, ...]:
    """Every secret that a configuration refers to."""
    return tuple(reference for profile in config.auth or () for reference in profile.headers.values())


def _from_environment(reference: EnvReference, environment: Mapping[str, str] | None) -> SecretValue:
    held = (os.environ if environment is None else environment).get(reference.env)
    return SecretValue(held) if held is not None else _unresolved(reference, "the variable is not set")


def _from_file(reference: FileReference) -> SecretValue:
    problem = "there is no such file"
    try:
        path = Path(reference.file)
        if path.exists():
            problem = "it is no regular file"
        if path.is_file():  # a pipe or a device would hold up the build for ever
            problem = f"it holds more than {MAX_VALUE} bytes"
            if path.stat().st_size <= MAX_VALUE + 2:
                # Editors and `echo` end a file with a line break that nobody means.
                return SecretValue(path.read_text("utf-8").removesuffix("\n").removesuffix("\r"))
    except OSError as error:
        problem = f"it cannot be read: {error.strerror or type(error).__name__}"
    except UnicodeDecodeError:
        problem = "it is no text"
    return _unresolved(reference, problem)


def _unresolved(reference: SecretReference, problem: str) -> NoReturn:
    raise SecretError([f"{reference}: {problem}"])


def _usable(value: SecretValue, reference: SecretReference) -> SecretValue:
    """A secret has to be a value that a request field may have (RFC 9110 5.5, D-26)."""
    problem = _problem_of(value)
    if problem:
        _unresolved(reference, problem)
    return value


def _problem_of(value: SecretValue) -> str | None:
    text = value.reveal()
    if not text:
        return "it is empty"
    if len(text) > MAX_VALUE:
        return f"it is longer than {MAX_VALUE} characters"
    if not text.isascii() or not text.isprintable() or text != text.strip():
        return "it is no value for a header: only printable ASCII, without white space at the ends"
    return None


def _bearer(value: SecretValue) -> SecretValue:
    return SecretValue(f"Bearer {value.reveal()}")


def _without_scheme(value: SecretValue) -> SecretValue | None:
    """The credentials after an authentication scheme (RFC 9110 11.4), if a value starts with one."""
    scheme, _, credentials = value.reveal().partition(" ")
    return SecretValue(credentials.strip()) if credentials and scheme.replace("-", "").isalnum() else None


# Tokens that end --------------------------------------------------------------------------------------------

_limiter: Final = trio.lowlevel.RunVar[trio.CapacityLimiter]("tidegate_secret_renewals")


def _renewal_limiter() -> trio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = trio.CapacityLimiter(_RENEWAL_THREADS)
        _limiter.set(limiter)
        return limiter


class _RenewedToken:
    """A token that is renewed before it ends, by one thread at a time, for any number of event loops."""

    def __init__(self, fetch: Callable[[], Token], clock: Callable[[], float]) -> None:
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._token = fetch()
        self._previous: SecretValue | None = None
        self._next_attempt = 0.0
        self._problems: tuple[str, ...] = ()

    def known(self) -> tuple[SecretValue, ...]:
        values = (self._token.value, self._previous)
        return tuple(value for value in values if value is not None)

    async def current(self) -> SecretValue:
        """A token that is still good."""
        now = self._clock()
        if now >= self._token.expires_at:
            await self._renewed_in_thread()
        elif self._is_due(now):
            with trio.move_on_after(RENEW_PATIENCE):
                await self._renewed_in_thread()
        return self._token.value

    def _is_due(self, now: float) -> bool:
        return now >= self._token.expires_at - RENEW_BEFORE and now >= self._next_attempt

    async def _renewed_in_thread(self) -> None:
        await trio.to_thread.run_sync(self._renew, abandon_on_cancel=True, limiter=_renewal_limiter())

    def _renew(self) -> None:
        """Runs in a thread. Those that waited for another one find its result, or share its failure."""
        with self._lock:
            now = self._clock()
            if self._is_due(now):
                self._attempt()
            elif now >= self._token.expires_at:
                raise SecretError(self._problems)

    def _attempt(self) -> None:
        self._next_attempt = math.inf  # who has a good token goes on with it meanwhile
        try:
            fetched = self._fetch()
        except SecretError as error:
            self._problems = error.problems
            if self._clock() >= self._token.expires_at:
                raise
        else:
            self._previous = self._token.value
            self._token = fetched
        finally:
            self._next_attempt = self._not_before(self._clock())

    def _not_before(self, now: float) -> float:
        """When to try again at the earliest.

        A failure, or a new token that is as old as the last one, is no reason to ask on every call. Once the
        token has ended, every other second for all callers together.
        """
        return min(now + RETRY_RENEWAL_AFTER, max(now + RETRY_AFTER_END, self._token.expires_at))
