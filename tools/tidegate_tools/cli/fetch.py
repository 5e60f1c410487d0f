"""`tidegate fetch`: the options. What they do is in `fetching`."""

import re
from dataclasses import fields
from typing import Any, Final, TypeVar

import click

from tidegate_tools.cli.fetching import DOWNLOAD_TIMEOUT, UNBOUNDED, FetchOptions, run_fetch
from tidegate_tools.cli.operator_options import OperatorOptions, operator_options
from tidegate_tools.cli.page_text import FORMATS
from tidegate_tools.cli.request_options import RequestOptions, url_argument

_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def _size(text: str) -> int:
    """Bytes, with K, M or G for KiB, MiB or GiB."""
    match = re.fullmatch(r"([0-9]{1,13})([KMG]?)", text, re.IGNORECASE)
    size = int(match[1]) * _UNITS[match[2].upper()] if match else -1
    if not 0 <= size <= UNBOUNDED:
        raise click.BadParameter(f"{text!r} is no size such as 65536, 64K, 10M or 1G, up to 1024G")
    return size


_EPILOG: Final = """\b
Without --max-bytes: 4 MiB for a terminal, --json and --format; else no end.
Exit codes: tidegate --help.
"""

_Values = TypeVar("_Values")


def _take(kind: type[_Values], values: dict[str, Any]) -> _Values:
    """Make a dataclass of the options that belong to it."""
    return kind(**{field.name: values.pop(field.name) for field in fields(kind)})  # type: ignore[arg-type]


@click.command("fetch", epilog=_EPILOG)
@url_argument
@click.option("-X", "--method", metavar="METHOD", help="[default: GET; POST with content]")
@click.option(
    "-H", "--header", "headers", metavar="'NAME: VALUE'", multiple=True, help="Add a request field."
)
@click.option("-d", "--data", metavar="TEXT", multiple=True, help="Send TEXT, @FILE, or @- for stdin.")
@click.option("--json-body", metavar="JSON", help="Send JSON text, @FILE, or @-.")
@click.option("-o", "--output", metavar="FILE", help="Save into FILE.")
@click.option("-O", "--remote-name", is_flag=True, help="Save under the name that the server gives.")
@click.option("--continue", "resume", is_flag=True, help="Go on with FILE.part, if it is still the same.")
@click.option("-L", "--location", is_flag=True, help="Follow redirects, each checked afresh (10).")
@click.option("--max-redirects", type=click.IntRange(0, 20), metavar="N", help="Follow N of them.")
@click.option("--max-bytes", type=_size, metavar="SIZE", help="Cut the content there (64K, 10M ...).")
@click.option("--fail-on-truncate", is_flag=True, help="Exit with 15 if the content is cut.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.001, DOWNLOAD_TIMEOUT),
    metavar="SECONDS",
    help="For everything [30; 3600 into a file].",
)
@click.option(
    "--format",
    "page_format",
    type=click.Choice(FORMATS),
    default="raw",
    metavar="FORMAT",
    help="Of a page, its text or markdown [raw].",
)
@click.option("-i", "--include", is_flag=True, help="Print the response head, too.")
@click.option("-v", "--verbose", is_flag=True, help="Tell each step of each hop.")
@click.option("--timings", is_flag=True, help="Show what took how long.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, on failure too.")
@click.option(
    "--no-check-status",
    "check_status",
    is_flag=True,
    default=True,
    flag_value=False,
    help="Exit with 0 for 3xx, 4xx, 5xx.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress, notes or warnings.")
@operator_options
@click.help_option("-h", "--help")
def command(**values: Any) -> int:
    """Fetch URL, and print its content or save it."""
    request, operator = _take(RequestOptions, values), _take(OperatorOptions, values)
    return run_fetch(FetchOptions(request=request, operator=operator, **values))
