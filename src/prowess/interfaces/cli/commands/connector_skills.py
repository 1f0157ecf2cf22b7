"""`prowess connector skills`, `read` and `use`: skills that a connector serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prowess.errors import Invalid
from prowess.interfaces.cli.approval_card import ask_for_approval
from prowess.interfaces.cli.commands.sessions import format_budget, session_option
from prowess.interfaces.cli.engine import Cli, common_options, spinner
from prowess.interfaces.cli.options import command
from prowess.interfaces.cli.output import clean, one_line, print_json, print_table
from prowess.view import session_json

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.session.session import Session


@command("skills", "prowess connector skills docs", "prowess connector skills docs --json")
@click.argument("name")
@common_options
def list_hosted(name: str, cli: Cli) -> None:
    """List the skills that a connector serves, and what would be decided about each.

    Nobody here has accepted them. Listing reads none of their files.
    """
    with spinner("Asking the connector …"):
        found = cli.call(lambda prowess: prowess.connectors.hosted.list(name))
    if cli.as_json:
        print_json(found)
        return
    if not found.skills:
        click.echo(
            f"{one_line(name)} lists no skill. It may still serve some: `prowess connector read {name} ADDRESS`."
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
        click.echo("The connector lists more skills than are read here.", err=True)


@command(
    "read",
    "prowess connector read docs skill://refunds/SKILL.md",
    "prowess connector read docs skill://refunds/references/limits.md",
)
@click.argument("name")
@click.argument("address")
@common_options
def read_hosted(name: str, address: str, cli: Cli) -> None:
    """Print one file of a connector's skill, if it is exactly what the connector lists.

    Hidden characters are written out. Nothing enters a prompt.
    """
    from prowess.skill.text.hidden import show_hidden

    with spinner("Asking the connector …"):
        content = cli.call(lambda prowess: prowess.connectors.hosted.read(name, address))
    try:
        text = show_hidden(content.decode())
    except UnicodeDecodeError:
        raise Invalid(f"The file has {len(content):,} bytes that are not text.") from None
    cli.print({"connector": name, "uri": address, "size": len(content), "text": text}, clean(text))


@command(
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


SKILL_COMMANDS = (list_hosted, read_hosted, use_hosted)
