"""`tidegate config check`: what is wrong with a configuration, or what each agent may reach."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tidegate_tools.cli.configuration import ConfigurationRefused, agent_in, load
from tidegate_tools.cli.exits import ExitCode
from tidegate_tools.cli.failures import failure_of, report, write_json
from tidegate_tools.cli.terminal import complain, say, visible_line, write_text

if TYPE_CHECKING:
    from tidegate_tools.web_request.merge import ResolvedAgent
    from tidegate_tools.web_request.project import Project

_ANY = "(any agent)"
"""What stands for the agents of a folder that has none yet."""


@click.group("config")
@click.help_option("-h", "--help")
def command() -> None:
    """Look at the configuration of agents."""


@command.command("check")
@click.argument("path", default=".")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, on failure too.")
@click.help_option("-h", "--help")
def check(path: str, as_json: bool) -> int:
    """Validate the configuration in PATH, and say what each agent may reach.

    PATH is a folder with agents.config.yaml and *.agent.md files, or that file itself [.]. Behind each
    setting stands the line that decides it. Secrets are not resolved. The exit code is 2 if anything is
    wrong; every mistake is listed.
    """
    try:
        project = load(path)
    except ConfigurationRefused as refused:
        return _refuse(path, refused, as_json=as_json)
    agents = dict(project.agents) or {_ANY: agent_in(project, None)}
    if as_json:
        write_json(_facts(project, agents))
    else:
        write_text("".join(f"{visible_line(line)}\n" for line in _lines(project, agents)))
    return ExitCode.DONE


def _refuse(path: str, refused: ConfigurationRefused, *, as_json: bool) -> int:
    """A line a mistake for people, an object a mistake for programs."""
    if as_json:
        from dataclasses import asdict

        return report(failure_of(refused), as_json=True, mistakes=[*map(asdict, refused.mistakes)])
    for mistake in refused.mistakes:
        say(str(mistake))
    complain(f"{refused.count} in {path}")
    return refused.code


def _facts(project: "Project", agents: "dict[str, ResolvedAgent]") -> dict[str, Any]:
    from dataclasses import asdict

    from tidegate_tools.web_request.reach import reach_of

    return {
        "ok": True,
        "exit_code": int(ExitCode.DONE),
        "agents": {
            name: {
                "enabled": agent.web_request_enabled,
                "settings": {
                    setting.name: {"holds": setting.holds, "decided_by": setting.decided_by}
                    for setting in reach_of(agent)
                },
            }
            for name, agent in agents.items()
        },
        "warnings": [asdict(warning) for warning in project.warnings],
    }


def _lines(project: "Project", agents: "dict[str, ResolvedAgent]") -> Iterator[str]:
    from tidegate_tools.web_request.reach import reach_of

    for name, agent in agents.items():
        switch, *settings = reach_of(agent)
        yield f"{name}: web_request is {switch.holds} [{switch.decided_by}]"
        for setting in settings:
            yield f"  {setting.name:<20} {setting.holds} [{setting.decided_by}]"
    for warning in project.warnings:
        yield f"warning: {warning}"
    yield "In brackets: the line that decides."
