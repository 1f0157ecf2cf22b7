"""`prowess spawn`: start an agent of another maker with a task, the prompt of a role, and the skills over MCP."""

from __future__ import annotations

import os
import sys
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import NotFound
from prowess.interfaces.cli.engine import Cli, common_options, user_environment
from prowess.interfaces.cli.options import command
from prowess.interfaces.cli.output import clean, print_json
from prowess.settings import Settings, read_settings

if TYPE_CHECKING:
    from prowess.agent.spawn import ForeignAgent, Launch, McpServer
    from prowess.open import Prowess
    from prowess.session.role_prompt import RolePrompt

AGENTS = (
    "claude-code",
    "codex",
    "gemini-cli",
    "qwen-code",
    "opencode",
    "copilot-cli",
    "goose",
    "cursor-cli",
)
_OTHER_NAMES = {
    "claude": "claude-code",
    "openai-codex": "codex",
    "codex-cli": "codex",
    "gemini": "gemini-cli",
    "qwen": "qwen-code",
    "copilot": "copilot-cli",
    "github-copilot": "copilot-cli",
    "cursor": "cursor-cli",
    "cursor-agent": "cursor-cli",
}
"""Names of programs and products that people type, with the agent that is meant."""
_MAX_LOADS = 1_000


class _AgentName(click.Choice[str]):
    """The name of an agent, as it is listed or under another name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the listed name."""
        name = str(value).casefold()
        return super().convert(_OTHER_NAMES.get(name, name), param, ctx)


@command(
    "spawn",
    'prowess spawn claude-code --role qa "Test the login page"',
    'prowess spawn codex --role reviewer "Review the last commit" --dry-run',
    'prowess spawn gemini-cli --role docs "Update README" -- -m gemini-2.5-flash',
)
@click.argument("agent", type=_AgentName(AGENTS))
@click.argument("task")
@click.argument("more", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENTS...]")
@click.option("--role", required=True, metavar="NAME", help="Role whose prompt the agent gets.")
@click.option(
    "--templates",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder with your own role packs and templates.",
)
@click.option("--conversation", default="", metavar="ID", help="Conversation of the agent (default: a new one).")
@click.option("--dry-run", is_flag=True, help="Print the command instead of running it.")
@common_options
def spawn_command(
    agent: str,
    task: str,
    more: tuple[str, ...],
    role: str,
    templates: Path | None,
    conversation: str,
    dry_run: bool,
    cli: Cli,
) -> None:
    """Start another agent, such as Claude Code, with a task, the prompt of a role, and your skills as tools over MCP.

    The agent runs with its own settings and your environment, and its exit code is returned. Its configuration files are not
    changed. ARGUMENTS are passed to it. Skills that it loads are counted; `prowess skills` shows them.
    """
    from prowess.agent.spawn import check_installed, find_agent, plan_launch, run_launch

    row = find_agent(agent)
    settings = read_settings(workspace=cli.workspace)
    named = conversation or f"spawn:{uuid.uuid4()}"
    program = "" if dry_run else check_installed(row, os.environ)
    prompt, limits = cli.call(lambda prowess: _read_role(prowess, role, task, templates))

    def plan(folder: Path) -> Launch:
        return plan_launch(
            row,
            task=prompt.task or task,
            prompt=prompt.text,
            server=_server(row, settings, named, role if limits else ""),
            folder=folder,
            environment=os.environ,
            more=more,
        )

    if dry_run:
        launch = plan(settings.home / "spawn")
        cli.print(_describe(launch, role, named), launch.as_shell())
        return
    _print_notes(row, prompt.note)
    # Opened first: loads are recorded with their session, and loading alone opens none.
    session = cli.call(lambda prowess: _open(prowess, agent, named, role if limits else ""))
    # Not among the temporary files of all users: Gemini CLI reads no settings below a folder that others can write to.
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="spawn-", dir=settings.home) as folder:
        launch = plan(Path(folder))
        code, output = run_launch(launch, program, user_environment(), settings.workspace, capture=cli.as_json)
    loads = cli.call(lambda prowess: _finish(prowess, session, close=not conversation))
    if cli.as_json:
        print_json({**_describe(launch, role, named), "exit_code": code, "output": output, "loads": loads})
    elif loads:
        click.echo(f"{agent} loaded: {', '.join(loads)}", err=True)
    raise click.exceptions.Exit(code)


async def _read_role(prowess: Prowess, role: str, task: str, templates: Path | None) -> tuple[RolePrompt, bool]:
    """Return the prompt of the role, and True if the policy limits agents of that role."""
    prompt = await prowess.roles.prompt(role, templates=templates, values={"task": task})
    try:
        await prowess.roles.get(role)
    except NotFound:
        return prompt, False
    return prompt, True


def _server(agent: ForeignAgent, settings: Settings, conversation: str, role: str) -> McpServer:
    from prowess.agent.spawn import McpServer
    from prowess.interfaces.mcp.client_config import find_program

    options = ["--conversation", conversation, "--agent", agent.name, "--workspace", str(settings.workspace)]
    return McpServer(
        program=tuple(find_program(sys.argv[0], sys.executable)),
        options=(*options, *(("--role", role) if role else ())),
        # Some agents start servers with few of the user's variables.
        variables={"PROWESS_HOME": str(settings.home)} if os.environ.get("PROWESS_HOME") else {},
    )


def _describe(launch: Launch, role: str, conversation: str) -> dict[str, Any]:
    return {
        "agent": launch.agent,
        "role": role,
        "conversation": conversation,
        "command": list(launch.command),
        "variables": dict(launch.variables),
        "files": dict(launch.files),
    }


def _print_notes(agent: ForeignAgent, note: str) -> None:
    if note:
        click.echo(clean(note), err=True)
    if agent.configured_by:
        click.echo(
            f"{agent.name} does not accept an MCP server at startup. Configure it once: {agent.configured_by}", err=True
        )


async def _open(prowess: Prowess, agent: str, conversation: str, role: str) -> str:
    """Open the session of the agent, and return its id."""
    from prowess.policy.actor import agent_of

    own = prowess.as_actor(agent_of(prowess.actor, name=agent, role=role))
    return (await own.sessions.open(conversation, role=role)).id


async def _finish(prowess: Prowess, session: str, *, close: bool) -> list[str]:
    """Return the names of the skills that were loaded in the session, and close it if it was opened for the agent."""
    events = await prowess.events.list(names=("skill_loaded",), session=session, limit=_MAX_LOADS)
    if close:
        await prowess.sessions.close(session)
    return [str(event.data.get("name")) for event in events if not event.data.get("error")]
