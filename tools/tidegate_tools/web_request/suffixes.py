"""Public suffixes: a star over one of them would name strangers' hosts (decision D-15)."""

import functools
from typing import Literal, TypeAlias

from publicsuffixlist import PublicSuffixList

SuffixKind: TypeAlias = Literal["icann", "private"]


def public_suffix_kind(domain: str) -> SuffixKind | None:
    """Which part of the public suffix list holds this domain; None if it is no public suffix.

    Args:
        domain: a canonical host name. Unknown top-level domains, such as `internal`, are no public suffix
            here: the host lists have a rule of their own for them.

    Returns:
        "icann": a registry sells names right below it (`co.uk`). "private": a company hands out names below
        it to its customers (`github.io`).
    """
    if _list(only_icann=True).is_public(domain):
        return "icann"
    return "private" if _list(only_icann=False).is_public(domain) else None


@functools.cache
def _list(*, only_icann: bool) -> PublicSuffixList:
    return PublicSuffixList(accept_unknown=False, only_icann=only_icann)
