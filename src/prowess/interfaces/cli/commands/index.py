"""`prowess index`: the list of available skills that goes into a system prompt."""

from __future__ import annotations

import sys

import click

from prowess.interfaces.cli.opening import common_options, with_engine


@click.command("index")
@click.argument("words", nargs=-1, metavar="[MESSAGE]")
@click.option(
    "--budget",
    type=click.IntRange(min=0),
    metavar="N",
    help="The most characters (default: a fiftieth of the window, or 8,000).",
)
@click.option("--session", "-s", default="", metavar="NAME", help="Take the budget from this conversation's window.")
@common_options
def command(words: tuple[str, ...], budget: int | None, session: str, workspace: str | None, as_json: bool) -> None:
    """Print the list of available skills for a system prompt, within its budget.

    With a MESSAGE ('-' for standard input), the skills that fit it best keep their descriptions first.
    """
    from prowess.interfaces.cli.messages import given_message
    from prowess.interfaces.cli.printing import clean, print_json

    message = given_message(words) if words else ""
    plan = with_engine(workspace, lambda prowess: prowess.index(message, session=session, budget=budget))
    if as_json:
        entries = [{"slug": entry.slug, "form": entry.form} for entry in plan.entries]
        print_json({"text": plan.text, "chars": plan.chars, "omitted": plan.omitted, "entries": entries})
    elif plan.text:
        click.echo(clean(plan.text) if sys.stdout.isatty() else plan.text)
    elif plan.omitted:
        click.echo(f"{plan.omitted} skills, and no room for even one line: give a larger --budget.", err=True)
    else:
        from prowess.interfaces.cli.commands.list import EMPTY

        click.echo(EMPTY, err=True)
