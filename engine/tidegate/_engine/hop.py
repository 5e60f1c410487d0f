"""The steps of one hop that ask somebody outside: the kernel, the resolver, the credential source."""

from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias

from tidegate._engine.credentials import CredentialSource
from tidegate._policy.fields import Fields, check_fields, without_fields
from tidegate._policy.reasons import Reason
from tidegate._policy.url import URL
from tidegate._wire.resolve import Address, Resolver, lookup_key
from tidegate.errors import ConnectError, FetchError, HostDenied, ResolutionError

Authorize: TypeAlias = Callable[[str], Awaitable[bool]]
"""Asks whether a host may be reached, on every hop before DNS: a kernel's grants. Only True is a yes."""

# Whoever is asked is other people's code. If it breaks, the fetch ends with one of our errors: a check that
# fails is a check that was not passed.


async def authorize_host(authorize: Authorize, url: URL) -> None:
    """Ask for leave to reach the host.

    Raises:
        HostDenied: the answer is not True, or there was none (`not_granted`).
    """
    try:
        allowed = await authorize(url.host)
    except FetchError:
        raise
    except Exception as error:
        raise HostDenied(
            f"{url.host} is not granted: the grant check failed ({type(error).__name__})",
            reason=Reason.NOT_GRANTED,
        ) from error
    if allowed is not True:
        raise HostDenied(f"{url.host} is not granted", reason=Reason.NOT_GRANTED)


async def resolve_host(resolver: Resolver, url: URL, key: object = None) -> Sequence[Address]:
    """The addresses of the host; a literal is its own.

    Args:
        resolver: the engine's.
        url: of the hop.
        key: whose fetch it is, which a resolver may go by to be fair.

    Raises:
        ResolutionError: there are none, or the resolver broke.
    """
    if url.address is not None:
        return (url.address,)
    whose = lookup_key.set(key)
    try:
        addresses = tuple(await resolver.resolve(url.host))
    except FetchError:
        raise
    except Exception as error:
        raise ResolutionError(
            f"{url.host} could not be resolved: the resolver failed ({type(error).__name__})"
        ) from error
    finally:
        lookup_key.reset(whose)
    if not all(isinstance(address, IPv4Address | IPv6Address) for address in addresses):
        raise ResolutionError(f"{url.host} could not be resolved: the resolver gave what is no address")
    return addresses


async def with_credentials(fields: Fields, source: CredentialSource | None, url: URL) -> Fields:
    """A hop's fields with the operator's credentials for its host, over https only.

    Raises:
        ConnectError: the source broke. Its error may hold the secret, so only the type of it is told.
    """
    if source is None or url.scheme != "https":
        return fields
    try:
        secret = check_fields(await source.fields_for(url))
    except FetchError:
        raise
    except Exception as error:
        raise ConnectError(
            f"the credential for {url.host} could not be obtained ({type(error).__name__})"
        ) from None
    return (*without_fields(fields, [name.lower() for name, _ in secret]), *secret)
