"""`tidegate check`: what each check makes of a URL, and which setting decides."""

from collections.abc import Iterator
from typing import Any, Final

import click

from tidegate import Check, Limits, Verdict, open_engine
from tidegate_tools.cli.exits import ExitCode
from tidegate_tools.cli.failures import (
    REFUSALS,
    code_of_reason,
    how_to_allow,
    in_words_of_the_file,
    way_out,
    write_json,
)
from tidegate_tools.cli.operator_options import Operator, OperatorOptions, operator_options
from tidegate_tools.cli.request_options import url_argument
from tidegate_tools.cli.running import run
from tidegate_tools.cli.terminal import visible_line, write_text

_SETTINGS: Final = {"resolver": "resolve, nameservers", "authorize": None}
"""Where a policy file calls a setting of the engine by another name, or has none for it."""


@click.command("check")
@url_argument
@click.option("-X", "--method", metavar="METHOD", default="GET", show_default=True, help="For request rules.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.001, 3600),
    default=10.0,
    metavar="SECONDS",
    help="How long DNS may take [10].",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, on failure too.")
@operator_options
@click.help_option("-h", "--help")
def command(url: str, method: str, timeout: float, as_json: bool, **operator: Any) -> int:
    """Say what each check makes of URL, which setting decides, and what would allow it.

    DNS is asked if all checks before it pass; nothing is connected to, nothing is sent. The exit code is 0,
    or that of a fetch that is refused for the same reason.
    """
    prepared = OperatorOptions(**operator).prepare()
    verdict = run(_check, prepared, url, method, timeout)
    code = code_of_reason(verdict.reason) if verdict.reason is not None else ExitCode.DONE
    if as_json:
        write_json(_facts(verdict, code))
    else:
        write_text("".join(f"{visible_line(line)}\n" for line in _lines(verdict, url)))
    return code


async def _check(operator: Operator, url: str, method: str, timeout: float) -> Verdict:
    async with open_engine(operator.policy, resolver=operator.resolver, tls=operator.tls) as engine:
        return await engine.check(url, method=method, limits=Limits(timeout=timeout))


def _setting(check: Check) -> str | None:
    """The key of the policy file that decides, None if none does."""
    return _SETTINGS.get(check.setting, check.setting) if check.setting is not None else None


def _allow(check: Check, verdict: Verdict) -> str | None:
    """What would let a refused URL pass; None if nothing can, or if it is not a matter of leave."""
    if check.reason not in REFUSALS:
        return None
    return how_to_allow(check.reason, verdict.url.without_query if verdict.url is not None else None)


def _facts(verdict: Verdict, code: ExitCode) -> dict[str, Any]:
    return {
        "ok": True,
        "exit_code": int(code),
        "allowed": verdict.allowed,
        "reason": verdict.reason,
        "url": str(verdict.url) if verdict.url is not None else None,
        "addresses": [str(address) for address in verdict.addresses],
        "checks": [
            {
                "name": check.name,
                "passed": check.passed,
                "reason": check.reason,
                "detail": in_words_of_the_file(check.detail),
                "setting": _setting(check),
                "how_to_allow": _allow(check, verdict),
                "reported": in_words_of_the_file(check.reported) if check.reported else check.reported,
            }
            for check in verdict.checks
        ],
    }


_WORDS: Final = {True: "passes", False: "REFUSES", None: "-"}


def _word(check: Check) -> str:
    return "reports" if check.reported is not None else _WORDS[check.passed]


def _lines(verdict: Verdict, url: str) -> Iterator[str]:
    yield f"{url}: {'allowed' if verdict.allowed else f'refused ({verdict.reason})'}"
    for check in verdict.checks:
        detail = in_words_of_the_file(check.detail.rstrip("."))
        yield f"  {check.name:<11} {_word(check):<8} {detail} [{_setting(check) or '-'}]"
        if check.reason in REFUSALS and (ending := way_out(check.reason, _allow(check, verdict))):
            yield f"  {'':<20} {ending}"
    if verdict.addresses:
        yield f"addresses: {', '.join(map(str, verdict.addresses))}"
    yield "In brackets: the key of the policy file that decides, if one does."
