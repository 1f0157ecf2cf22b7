"""`prowess run`: run a skill, watch it, and see what it cost."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.consent import with_consent
from prowess.interfaces.cli.opening import common_options, with_engine

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.errors import ProwessError
    from prowess.run.outcome import RunResult
    from prowess.skill.model import Skill


def _finite(_ctx: click.Context, _option: click.Parameter, value: float | None) -> float | None:
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
    callback=_finite,
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
def command(
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
    from prowess.errors import RunFailed
    from prowess.interfaces.cli.printing import print_json
    from prowess.interfaces.cli.runs import Screen, show_plan
    from prowess.interfaces.cli.saving import Saving

    saving = Saving(folder=None if dry_run else save, force=force)
    screen = Screen(named=len(artifacts) != 1, quiet=as_json or dry_run)
    done: list[tuple[Skill, RunResult]] = []

    async def work(prowess: Prowess) -> None:
        from contextlib import suppress

        from prowess.errors import Unavailable
        from prowess.interfaces.cli.inputs import read_inputs

        skill = await prowess.skill(slug)
        saving.check(skill)
        given = {} if resume and not inputs else read_inputs(inputs, skill.parameters)
        if not dry_run and not {"code_template", "function"}.isdisjoint(skill.kinds):
            with suppress(Unavailable):  # the run itself says so, or a fallback serves
                await prowess.build_sandbox(screen.note)
        result = await prowess.attempt(
            session,
            slug,
            artifacts,
            inputs=given,
            model=model,
            evaluation_model=evaluation_model,
            timeout=timeout,
            resume=resume,
            dry_run=dry_run,
            watch=None if as_json else screen.watch,
            each=screen.part,
        )
        done.append((skill, result))

    def shown() -> ProwessError | None:
        try:
            with screen:
                with_engine(workspace, work)
        except RunFailed as error:
            if not done:
                raise
            return error  # a script of which steps are left: the run itself has ended
        return None

    unfinished = with_consent(
        shown,
        workspace=workspace,
        question="Let exactly these bytes run?",
        as_json=as_json,
        refusal="You said no, so it was not run.",
    )
    skill, result = done[-1]
    if as_json:
        print_json(result.as_json())
    elif dry_run:
        show_plan(result)
    saving.save(result, skill)
    if error := result.error or unfinished or screen.lost:
        raise error
