"""`prowess connector`: configure MCP servers, look at their tools and skills, and use them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from prowess.errors import Invalid, NotFound
from prowess.interfaces.cli.approval_card import ask_for_approval
from prowess.interfaces.cli.commands.sessions import format_budget, session_option
from prowess.interfaces.cli.engine import Cli, common_options, spinner
from prowess.interfaces.cli.options import group
from prowess.interfaces.cli.output import clean, one_line, print_facts, print_json, print_table
from prowess.interfaces.cli.person import require_person, token_option
from prowess.skill.json_values import json_value
from prowess.skill.text.hidden import show_hidden
from prowess.view import session_json

if TYPE_CHECKING:
    from prowess.connectors.admission import Connector, ConnectorScope
    from prowess.connectors.tool_list import ConnectorTool
    from prowess.open import Prowess
    from prowess.session.session import Session

_REFUSAL = "You did not accept the connector."
_scope_option = click.option(
    "--scope",
    type=click.Choice(("org", "workspace")),
    default="org",
    show_default=True,
    help="Store it for the organization or your account, or in .prowess/connectors.json.",
)


@group(
    "connector",
    "prowess connector add time -- uvx mcp-server-time",
    "prowess connector tools time",
    'prowess connector call time get_current_time --args \'{"timezone": "UTC"}\'',
)
def connector_command() -> None:
    """Configure MCP servers as connectors, list their tools, and call them.

    Agents can call the tools that you have allowed. For every other call, Prowess asks you.
    """


@connector_command.subcommand(
    "add",
    "prowess connector add git --env GITHUB_TOKEN -- uvx mcp-server-git",
    "prowess connector add docs --url https://docs.example.com/mcp",
    "prowess connector add x --url https://x.example/mcp --header 'X-Key: ${X_KEY}'",
)
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", default="", help="URL of a server that supports streamable HTTP.")
@click.option(
    "--env", "variables", multiple=True, metavar="NAME[=${OTHER}]", help="Environment variable to pass to the server."
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="Header to send; its value names an environment variable.",
)
@click.option("--private", is_flag=True, help="Allow a URL that leads to a private address.")
@click.option("--seconds", type=click.IntRange(1, 600), help="Time limit of a call (default: 60).")
@click.option("--description", default="", help="Description, shown to agents.")
@_scope_option
@token_option
@common_options
def add_connector(
    name: str,
    command: Sequence[str],
    url: str,
    variables: Sequence[str],
    headers: Sequence[str],
    private: bool,
    seconds: int | None,
    description: str,
    scope: ConnectorScope,
    token_file: Path | None,
    cli: Cli,
) -> None:
    """Add a server, or replace the one with this name. Secrets are referred to by name and never stored.

    Put the command of the server after `--`. Nothing is started yet.
    """
    if bool(command) == bool(url):
        raise click.UsageError("Give the command of the server after `--`, or its address with --url.")
    fields: dict[str, Any] = {
        "command": command[0] if command else "",
        "args": list(command[1:]),
        "url": url,
        "env": dict(_read_variable(variable) for variable in variables),
        "headers": dict(_read_header(header) for header in headers),
        "private": private,
        "seconds": seconds,
        "description": description,
    }
    config = {key: value for key, value in fields.items() if value}
    require_person("add connectors", token_file)

    async def add(prowess: Prowess) -> tuple[Connector, bool]:
        known = await prowess.connectors.list()
        is_new = all((row.name, row.scope) != (name, scope) for row in known)
        return await prowess.connectors.add(name, config, scope=scope), is_new

    added, is_new = cli.call(add)
    verb = "Added" if is_new else "Replaced"
    _print_connector(added, cli, f"{verb} {name}. List its tools: prowess connector tools {name}")


@connector_command.subcommand("list", "prowess connector list", "prowess connector list --json")
@common_options
def list_connectors(cli: Cli) -> None:
    """List the connectors. Nothing is started."""
    cli.print_table(
        cli.call(lambda prowess: prowess.connectors.list()),
        ("name", "scope", "state", "command or URL"),
        lambda row: (row.name, row.scope, _state(row), one_line(row.config.where if row.config else "")),
        flexible=3,
        empty="There are no connectors. Add one: prowess connector add NAME -- COMMAND",
    )


@connector_command.subcommand("show", "prowess connector show git", "prowess connector show git --json")
@click.argument("name")
@common_options
def show_connector(name: str, cli: Cli) -> None:
    """Show how a connector is configured, and what is allowed. Nothing is started."""
    found = cli.call(lambda prowess: prowess.connectors.get(name))
    _print_connector(found, cli)


@connector_command.subcommand("tools", "prowess connector tools git", "prowess connector tools git what changed --json")
@click.argument("name")
@click.argument("query", nargs=-1)
@common_options
def list_tools(name: str, query: Sequence[str], cli: Cli) -> None:
    """Start a connector and list its tools, or those that match a query, best first.

    Names and descriptions come from the server, and nobody has checked them.
    """
    words = " ".join(query)

    def work() -> tuple[list[ConnectorTool], list[str]]:
        with spinner("Asking the connector …"):
            if words:
                found = cli.call(lambda prowess: prowess.connectors.search(words, connector=name))
                return [tool for tool, _ in found], []
            return cli.call(lambda prowess: prowess.connectors.tools(name))

    tools, notes = ask_for_approval(cli, work, question="Accept this connector?", refusal=_REFUSAL)
    if cli.as_json:
        print_json({"tools": [tool.as_json() for tool in tools], "notes": notes})
        return
    rows = [
        (tool.name, "yes" if tool.allowed else "", "reads" if tool.reads else "", one_line(tool.description))
        for tool in tools
    ]
    if rows:
        print_table(("tool", "allowed", "says it", "description"), rows, flexible=3, optional=("allowed", "says it"))
    else:
        click.echo("No matching tool." if words else "The connector has no tools.")
    for note in notes:
        click.echo(note, err=True)


@connector_command.subcommand(
    "call",
    'prowess connector call time get_current_time --args \'{"timezone": "UTC"}\'',
    'prowess connector call git git_status --args \'{"repo_path": "."}\' --json',
)
@click.argument("name")
@click.argument("tool")
@click.option("--args", "arguments", default="{}", metavar="JSON", help="Its arguments, as a JSON object.")
@common_options
def call_tool(name: str, tool: str, arguments: str, cli: Cli) -> None:
    """Call a tool of a connector, and print its result. Exits with 1 if the server reports an error."""
    inputs = _read_arguments(arguments)

    def work() -> Any:
        with spinner("Calling the tool …"):
            return cli.call(lambda prowess: prowess.connectors.call(name, tool, inputs))

    result = ask_for_approval(cli, work, question="Accept this connector?", refusal=_REFUSAL)
    if cli.as_json:
        print_json(result)
    else:
        click.echo(clean(result.text))
        if result.structured is not None:
            click.echo(clean(json.dumps(result.structured, indent=2, ensure_ascii=False)))
        for note in result.notes:
            click.echo(note, err=True)
    if result.is_error:
        click.get_current_context().exit(1)


@connector_command.subcommand(
    "allow", "prowess connector allow git git_status git_log", "prowess connector allow git --reads"
)
@click.argument("name")
@click.argument("tools", nargs=-1)
@click.option("--reads", is_flag=True, help="Allow all tools that the server declares read-only.")
@click.option("--undo", is_flag=True, help="Stop allowing these tools, or all tools.")
@token_option
@common_options
def allow_tools(name: str, tools: Sequence[str], reads: bool, undo: bool, token_file: Path | None, cli: Cli) -> None:
    """Accept a connector, and let agents call tools without asking you, as long as their definitions stay the same."""
    require_person("allow tools of connectors", token_file)
    if undo:
        changed = cli.call(lambda prowess: prowess.connectors.disallow(name, tools))
    else:
        changed = cli.call(lambda prowess: prowess.connectors.allow(name, tools, reads=reads))
    _print_connector(changed, cli)


@connector_command.subcommand("remove", "prowess connector remove git", "prowess connector remove git --json")
@click.argument("name")
@common_options
def remove_connector(name: str, cli: Cli) -> None:
    """Remove a connector and everything that was allowed for it."""
    removed = cli.call(lambda prowess: prowess.connectors.remove(name))
    _print_connector(removed, cli, f"Removed {name}.")


@connector_command.subcommand(
    "import", "prowess connector import .mcp.json", "prowess connector import ~/.cursor/mcp.json --scope workspace"
)
@click.argument("file", type=click.Path(path_type=Path))
@_scope_option
@token_option
@common_options
def import_connectors(file: Path, scope: ConnectorScope, token_file: Path | None, cli: Cli) -> None:
    """Add the servers in a configuration file of Claude Code, Cursor or VS Code. Values of secrets are not copied."""
    require_person("add connectors", token_file)
    try:
        text = file.read_text("utf-8", errors="replace")
    except OSError as error:
        raise NotFound(
            f"Cannot read {str(file)!r}: {error.strerror or error}.", hint="Pass the path of a file such as .mcp.json."
        ) from error
    found = cli.call(lambda prowess: prowess.connectors.import_text(text, scope=scope))
    if cli.as_json:
        print_json([{"name": row.name, "config": row.config.as_json(), "notes": row.notes} for row in found])
        return
    for row in found:
        click.echo(f"Added {row.name}: {one_line(row.config.where)}")
        for note in row.notes:
            click.echo(f"  {one_line(note)}", err=True)


@connector_command.subcommand("skills", "prowess connector skills docs", "prowess connector skills docs --json")
@click.argument("name")
@common_options
def list_hosted(name: str, cli: Cli) -> None:
    """List the skills that a connector serves, and the decision about each.

    Nobody here has accepted these skills. Listing does not read their files.
    """
    with spinner("Asking the connector …"):
        found = cli.call(lambda prowess: prowess.connectors.hosted.list(name))
    if cli.as_json:
        print_json(found)
        return
    if not found.skills:
        click.echo(
            f"{one_line(name)} lists no skills. It may still serve some: `prowess connector read {name} ADDRESS`."
        )
    else:
        rows = [
            (row.state, row.skill.uri, str(len(row.skill.files) or ""), one_line(row.skill.description))
            for row in found.skills
        ]
        print_table(("state", "address", "files", "description"), rows, flexible=3)
    for reason in found.refused:
        click.echo(f"Left out: {one_line(reason)}", err=True)
    if found.partial:
        click.echo("The connector lists more skills than Prowess reads.", err=True)


@connector_command.subcommand(
    "read",
    "prowess connector read docs skill://refunds/SKILL.md",
    "prowess connector read docs skill://refunds/references/limits.md",
)
@click.argument("name")
@click.argument("address")
@common_options
def read_hosted(name: str, address: str, cli: Cli) -> None:
    """Print one file of a connector's skill, if it matches the digest that the connector lists.

    Hidden characters are shown as escapes. Nothing enters a prompt.
    """
    with spinner("Asking the connector …"):
        content = cli.call(lambda prowess: prowess.connectors.hosted.read(name, address))
    try:
        text = show_hidden(content.decode())
    except UnicodeDecodeError:
        raise Invalid(f"The file has {len(content):,} bytes that are not text.") from None
    cli.print({"connector": name, "uri": address, "size": len(content), "text": text}, clean(text))


@connector_command.subcommand(
    "use",
    "prowess connector use docs refunds",
    "prowess connector use docs skill://acme/refunds/SKILL.md --session review",
)
@click.argument("name")
@click.argument("skill")
@click.option("--reason", default="", help="Reason, shown to the approver.")
@session_option
@common_options
def use_hosted(name: str, skill: str, reason: str, session: str, cli: Cli) -> None:
    """Add a connector's skill to the prompt of one conversation, within its budget.

    SKILL is its address, or its name if only one skill has it. An administrator has to turn on
    `skills_dynamic_search_enabled` first. If an approval is required, the command asks for it at the terminal.
    """

    async def work(prowess: Prowess) -> Session:
        opened = await prowess.sessions.open(session)
        return await prowess.connectors.hosted.fetch(name, skill, session=opened, reason=reason)

    changed = ask_for_approval(
        cli,
        lambda: cli.call(work),
        question="Read exactly these files, and add the instructions to the prompt?",
        refusal="Not used: you denied the request.",
    )
    cli.print(session_json(changed), f"Enabled {clean(skill)} of {clean(name)}. {format_budget(changed)}")


def _read_variable(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value or f"${{{name}}}"


def _read_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise click.BadParameter("Write a header as 'NAME: VALUE', for example 'Authorization: Bearer ${TOKEN}'.")
    return name.strip(), value.strip()


def _read_arguments(text: str) -> dict[str, Any]:
    found = json_value(text)
    if not isinstance(found, dict):
        raise click.BadParameter('--args must be a JSON object, for example \'{"text": "hello"}\'.')
    return cast("dict[str, Any]", found)


def _state(connector: Connector) -> str:
    if connector.problem:
        return "not valid"
    if not connector.accepted:
        return "not accepted"
    count = len(connector.tools)
    return f"{count} tool{'s' * (count > 1)} allowed" if count else "asks"


def _print_connector(connector: Connector, cli: Cli, message: str = "") -> None:
    cli.print(connector, message or (lambda: _print_facts(connector)))


def _print_facts(connector: Connector) -> None:
    config = connector.config
    facts = (
        ("Connector", f"{connector.name} ({connector.scope})"),
        ("Problem", connector.problem),
        ("Runs" if config and config.command else "URL", config.where if config else ""),
        ("Variables", ", ".join(config.variables) if config else ""),
        ("Private", "may reach private addresses" if config and config.private else ""),
        ("State", _state(connector)),
        ("Allowed", ", ".join(name for name, _ in connector.tools)),
        ("Digest", f"sha256:{connector.digest}" if connector.digest else ""),
    )
    print_facts(facts, 11)
    if not connector.accepted and not connector.problem:
        click.echo(f"Accept it: prowess connector allow {connector.name}", err=True)
