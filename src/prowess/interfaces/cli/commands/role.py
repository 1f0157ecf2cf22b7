"""`prowess role`: what an agent of a role is told."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from prowess.interfaces.cli.opening import common_options, with_engine


@click.command("role")
@click.argument("name")
@click.option(
    "--templates",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Your own packs (DIR/skills/ROLE) and older templates (DIR/roles/ROLE).",
)
@click.option("--value", "values", multiple=True, metavar="NAME=TEXT", help="Fill in a placeholder of a template.")
@common_options
def command(name: str, templates: Path | None, values: tuple[str, ...], workspace: str | None, as_json: bool) -> None:
    """Print the prompt of a role: its skill pack below the index of skills, its older template, or one sentence."""
    from prowess.interfaces.cli.printing import clean, print_json

    given = _read(values)
    prompt = with_engine(workspace, lambda prowess: prowess.role_prompt(name, templates=templates, values=given))
    if as_json:
        print_json(asdict(prompt))
    else:
        click.echo(clean(prompt.text) if sys.stdout.isatty() else prompt.text)


def _read(values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    wrong = next((value for value, pair in zip(values, pairs, strict=True) if not (pair[0] and pair[1])), None)
    if wrong is not None:
        raise click.UsageError(f"--value takes NAME=TEXT, not {wrong[:80]!r}.")
    return {name: text for name, _, text in pairs}
