"""`prowess run`: run a skill, watch it, and see what it cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.consent import with_consent
from prowess.interfaces.cli.opening import common_options, with_engine

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.run.outcome import RunResult


@click.command("run")
@click.argument("slug")
@click.argument("artifacts", nargs=-1, metavar="[ARTIFACT]...")
@click.option(
    "--input",
    "-i",
    "inputs",
    multiple=True,
    metavar="NAME=VALUE",
    help="An input: NAME=TEXT, NAME:=JSON, NAME=@FILE, or @FILE.json.",
)
@click.option(
    "--model", "-m", default="", metavar="M", help="The model, such as anthropic:NAME (default: PROWESS_MODEL)."
)
@click.option("--evaluation-model", default="", metavar="M", help="The model that judges, in reviews and assertions.")
@click.option("--dry-run", is_flag=True, help="Send nothing; print exactly what would be sent.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="How long each artifact may take."
)
@click.option("--session", "-s", default="", metavar="NAME", help="The conversation that the run belongs to.")
@click.option(
    "--save",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write what the skill says it produces into this folder.",
)
@common_options
def command(
    slug: str,
    artifacts: tuple[str, ...],
    inputs: tuple[str, ...],
    model: str,
    evaluation_model: str,
    dry_run: bool,
    timeout: float | None,
    session: str,
    save: Path | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Run a skill, or the named artifacts of it, and print what comes out.

    The answer of a model is printed as it comes; what it cost and what the assertions say follow on stderr. Every artifact
    that runs leaves a trace: `prowess traces` lists them.
    """
    from prowess.interfaces.cli.printing import print_json
    from prowess.interfaces.cli.runs import Screen, show_plan

    screen = Screen(named=len(artifacts) != 1, quiet=as_json or dry_run)

    async def work(prowess: Prowess) -> RunResult:
        from prowess.interfaces.cli.inputs import read_inputs

        skill = await prowess.skill(slug)
        return await prowess.attempt(
            session,
            slug,
            artifacts,
            inputs=read_inputs(inputs, skill.parameters),
            model=model,
            evaluation_model=evaluation_model,
            timeout=timeout,
            dry_run=dry_run,
            watch=None if as_json else screen.watch,
            each=screen.part,
        )

    def shown() -> RunResult:
        with screen:
            return with_engine(workspace, work)

    result = with_consent(
        shown,
        workspace=workspace,
        question="Let exactly these bytes run?",
        as_json=as_json,
        refusal="You said no, so it was not run.",
    )
    if as_json:
        print_json(result.as_json())
    elif dry_run:
        show_plan(result)
    if save is not None:
        _save(result, save)
    if result.error is not None:
        raise result.error


def _save(result: RunResult, folder: Path) -> None:
    """Write the produced files, each under its plain name; what is there already is replaced."""
    from prowess.interfaces.cli.printing import shown_path

    folder.mkdir(parents=True, exist_ok=True)
    for one in result.produced:
        target = folder / one.name
        if target.is_symlink():
            target.unlink()
        target.write_text(one.content, encoding="utf-8")
        click.echo(f"Wrote {shown_path(target)} ({one.media_type}).", err=True)
    if not result.produced:
        click.echo("The skill says of nothing that it produces it, so nothing was saved.", err=True)
