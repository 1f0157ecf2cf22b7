"""`prowess run`: run a skill, watch it, and see what it cost."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

import click

from prowess.interfaces.cli.approval_card import ask_for_approval
from prowess.interfaces.cli.engine import common_options


def _require_finite(_ctx: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not isfinite(value):
        raise click.BadParameter("It takes a number of seconds.")
    return value


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
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    callback=_require_finite,
    metavar="SECONDS",
    help="How long each artifact may take.",
)
@click.option("--resume", default="", metavar="TRACE", help="Go on with this interrupted run from its last checkpoint.")
@click.option("--session", "-s", default="", metavar="NAME", help="The conversation that the run belongs to.")
@click.option(
    "--save",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write what the skill says it produces into this folder.",
)
@click.option("--force", is_flag=True, help="With --save: replace files that are there already.")
@common_options
def run_command(
    slug: str,
    artifacts: tuple[str, ...],
    inputs: tuple[str, ...],
    model: str,
    evaluation_model: str,
    dry_run: bool,
    timeout: float | None,
    resume: str,
    session: str,
    save: Path | None,
    force: bool,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Run a skill, or the named artifacts of it, and print what comes out.

    The answer of a model is printed as it comes; what it cost and what the assertions say follow on stderr. Every artifact
    that runs leaves a trace: `prowess traces` lists them.
    """
    from prowess.interfaces.cli.output import print_json
    from prowess.interfaces.cli.run_attempt import OutputFolder, RunAttempt
    from prowess.interfaces.cli.run_output import RunScreen, print_plan
    from prowess.run.request import RunRequest

    request = RunRequest(
        slug=slug,
        artifacts=artifacts,
        model=model,
        evaluation_model=evaluation_model,
        dry_run=dry_run,
        timeout=timeout,
        resume=resume,
        session=session,
    )
    saving = OutputFolder(folder=None if dry_run else save, force=force)
    screen = RunScreen(named=len(artifacts) != 1, quiet=as_json or dry_run)
    attempt = RunAttempt(request, inputs, screen=screen, saving=saving, workspace=workspace)
    unfinished = ask_for_approval(
        attempt.once,
        workspace=workspace,
        question="Let exactly these bytes run?",
        as_json=as_json,
        refusal="You said no, so it was not run.",
    )
    if attempt.ran is None:
        return
    skill, result = attempt.ran
    if as_json:
        print_json(result)
    elif dry_run:
        print_plan(result)
    saving.save(result, skill)
    if error := result.error or unfinished or screen.lost:
        raise error
