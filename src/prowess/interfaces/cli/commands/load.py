"""`prowess load`: one text of a skill, as an agent gets it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.opening import common_options, with_engine

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.errors import ProwessError


@click.command("load")
@click.argument("name", metavar="SLUG")
@click.option("--reference", metavar="F", help="Load this reference instead of the instructions.")
@click.option("--script", metavar="F", help="Load the text of this script instead.")
@common_options
def command(name: str, reference: str | None, script: str | None, workspace: str | None, as_json: bool) -> None:
    """Load a skill's instructions, a reference or a script, as the tool load_skill answers.

    It passes the gate and is recorded, unlike `prowess show`.
    """
    from prowess.interfaces.cli.failures import exit_code
    from prowess.interfaces.cli.printing import clean, print_json

    if reference is not None and script is not None:
        raise click.UsageError("Give --reference or --script, not both.")

    async def work(prowess: Prowess) -> tuple[dict[str, Any], ProwessError | None]:
        answer = await prowess.load(name, reference=reference, script=script)
        return answer, await _error(prowess, answer, reference, script)

    answer, error = with_engine(workspace, work)
    if as_json:
        print_json(answer)
    if error is not None:
        if as_json:
            raise click.exceptions.Exit(exit_code(error))
        raise error
    if not as_json:
        text = next(answer[key] for key in ("body", "reference_content", "script_content") if answer[key] is not None)
        shown = clean(text) if sys.stdout.isatty() else text
        click.echo(shown, nl=not shown.endswith("\n"))
        _mention(answer["available_references"], answer["available_scripts"])


async def _error(
    prowess: Prowess, answer: dict[str, Any], reference: str | None, script: str | None
) -> ProwessError | None:
    """The error that the answer tells of in words."""
    from prowess.errors import NotFound, ProwessError, Refused

    if answer["error"] is None:
        return None
    missing = reference if reference is not None else script
    there = answer["available_references" if reference is not None else "available_scripts"]
    try:
        await prowess.skill(answer["name"])
        kind: type[ProwessError] = NotFound if missing is not None and missing not in there else Refused
    except ProwessError as error:
        kind = type(error)
    return kind(answer["error"], hint=answer.get("hint") or "")


def _mention(references: list[str], scripts: list[str]) -> None:
    from prowess.interfaces.cli.printing import one_line

    for kind, names in (("reference", references), ("script", scripts)):
        if names and sys.stdout.isatty():
            click.echo(f"--{kind} loads: {one_line(', '.join(names))}", err=True)
