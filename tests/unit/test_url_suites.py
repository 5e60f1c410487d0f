"""The tables of web-platform-tests: nothing they refuse is accepted, nothing accepted means another host.

What they accept and we refuse is counted by reason, so that a change in either direction is seen.
"""

import re
from collections import Counter
from typing import Any

import idna.idnadata
import pytest

from tests.support.data import suite_json
from tidegate._policy.host import canonical_host
from tidegate._policy.url import URL, join_location, parse_url
from tidegate.errors import FetchError, HostDenied, InvalidURL


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of a table; the texts between them are comments."""
    return [row for row in suite_json(f"wpt-url/{name}.json") if isinstance(row, dict)]


def sentence(error: FetchError) -> str:
    """The message without what differs from row to row."""
    text = error.message.removeprefix("The Location of the redirect is no URL. ").partition(";")[0]
    return re.sub(r"U\+[0-9A-F]{4,6}( \(.\))?( at position [0-9]+)?", "U+...", text)


# urltestdata ------------------------------------------------------------------------------------------


def parsed(row: dict[str, Any]) -> URL | None:
    """The row's input as our two ways in take it: a URL alone, or a Location with the URL it came from."""
    base = row["base"] or ""
    if not base.startswith("http"):
        return parse_url(row["input"])
    return join_location(parse_url(base), row["input"].encode("utf-8", "surrogatepass"))


def is_same(url: URL, row: dict[str, Any]) -> bool:
    """Host (final dot apart), port, path and query as the table has them."""
    query = f"?{url.query}" if url.query else ""
    host = row["hostname"].removeprefix("[").removesuffix("]").removesuffix(".")
    port = str(url.port) if url.authority.endswith(f":{url.port}") else ""
    ours = (f"{url.scheme}:", url.host, port, url.path, query)
    return ours == (row["protocol"], host, row["port"], row["pathname"], row["search"])


def compared(row: dict[str, Any]) -> str:
    refuses = row.get("failure", False)
    is_http = not refuses and row["protocol"] in ("http:", "https:")
    try:
        url = parsed(row)
    except FetchError as error:
        if refuses:
            return "both refuse"
        return sentence(error) if is_http else "not http, refused"
    if url is None:
        return "an empty Location"
    if refuses:
        return f"REFUSED BY THE TABLE: {row['input']!r} {row['base']!r} {url!r}"
    return "same" if is_same(url, row) else f"DIFFERENT: {row['href']!r} {url!r}"


URLTESTDATA = {
    "not http, refused": 377,
    "both refuse": 267,
    "same": 131,
    "The URL has user information before its host": 27,
    "The URL needs exactly two slashes after its scheme.": 24,
    "The URL holds U+..., a control character or half a character": 17,
    "The host ends in a number but is not an address": 15,
    "The URL holds a backslash before the query": 8,
    "The URL has no host after its two slashes.": 7,
    "The host has a label that UTS 46 does not allow (characters, joiners or direction).": 6,
    "The host holds U+..., which no host name may hold": 3,  # with a percent sign in it
    "The port of the URL is not a number from 1 to 65535.": 2,
    "an empty Location": 2,
    "The host has an empty label: a dot at the start, or two dots together.": 2,
    "The host is empty.": 1,
    "The host holds U+..., which no host name may hold.": 1,
    "The host has an xn-- label that is not valid punycode.": 1,
}


def test_urltestdata() -> None:
    """891 rows: host, port, path and query as in the table, or refused for a reason of D-9, D-10 or D-10b."""
    assert Counter(map(compared, rows_of("urltestdata"))) == URLTESTDATA


def test_percent_encoding() -> None:
    """The query in UTF-8; a control is refused and a backslash is encoded (D-10)."""
    for row in rows_of("percent-encoding"):
        text = f"https://doesnotmatter.invalid/?{row['input']}"
        if row["input"] < "\x20":
            with pytest.raises(InvalidURL):
                parse_url(text)
        else:
            assert parse_url(text).query == row["output"]["utf-8"].replace("\\", "%5C")


def test_lengths_of_labels_and_names() -> None:
    """RFC 1035 2.3.4: WHATWG leaves the check to a flag, here it always holds."""
    for row in rows_of("verifydnslength_tests"):
        try:
            parse_url(row["input"])
        except InvalidURL:
            assert row["failure"], row
        else:
            assert not row["failure"], row


# toascii, IdnaTestV2 ----------------------------------------------------------------------------------


def compared_host(row: dict[str, Any]) -> str:
    try:
        host = canonical_host(row["input"])
    except (InvalidURL, HostDenied) as error:
        return "both refuse" if row["output"] is None else refusal(row, error)
    if row["output"] is None:
        return f"REFUSED BY THE TABLE: {row!r} {host!r}"
    return "same" if host == row["output"].removesuffix(".") else f"DIFFERENT: {row!r} {host!r}"


def refusal(row: dict[str, Any], error: FetchError) -> str:
    """Why we refuse what the table accepts."""
    codes = re.split(r"; ?", row.get("comment") or "")
    if row["input"].isascii() and any(re.fullmatch(r"[A-Z][0-9](_[0-9])?", code) for code in codes):
        # WHATWG forgives a pure ASCII host whatever its punycode stands for; D-10a does not.
        return "an A-label that breaks UTS 46"
    if "not assigned" in error.message:
        # How many there are depends on this Python: newer ones know more characters.
        return "same"
    return sentence(error)


TOASCII = {
    "same": 52,
    "both refuse": 19,
    "The host has a label that UTS 46 does not allow (characters, joiners or direction).": 5,
    "The host has a label longer than 63 octets.": 4,
    "The host is longer than 253 octets.": 3,
    "The host has an empty label: a dot at the start, or two dots together.": 2,
    "The host has an xn-- label that is not valid punycode.": 1,
    "The host holds U+..., which no host name may hold.": 1,
}
IDNA_TEST = {
    "both refuse": 1117,
    "an A-label that breaks UTS 46": 761,
    "same": 678,
    "The host has an empty label: a dot at the start, or two dots together.": 62,
    "The host has a label longer than 63 octets.": 36,
    "The host is longer than 253 octets.": 8,
    "The host holds U+..., which no host name may hold.": 6,
    "The host is empty.": 3,
}


@pytest.mark.parametrize("name", ["toascii", "IdnaTestV2", "IdnaTestV2-removed"])
def test_no_host_is_taken_for_another_one(name: str) -> None:
    """Whatever the versions of Unicode in this Python and in idna."""
    found = {compared_host(row) for row in rows_of(name)}
    assert not [text for text in found if text.startswith(("REFUSED", "DIFFERENT"))]


@pytest.mark.parametrize(("name", "counts"), [("toascii", TOASCII), ("IdnaTestV2", IDNA_TEST)])
def test_what_we_refuse_of_hosts_beyond_the_tables(name: str, counts: dict[str, int]) -> None:
    """D-10a: A-labels that are not what they should be, lengths, empty labels, odd characters."""
    if int(idna.idnadata.__version__.partition(".")[0]) < 16:
        pytest.skip(f"idna {idna.__version__} has older tables than the suite")
    assert Counter(map(compared_host, rows_of(name))) == counts
