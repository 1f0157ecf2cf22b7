"""`prowess run`: run a skill, watch it, and see what it cost."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from prowess.errors import Invalid, NotFound
from prowess.interfaces.cli.approval_card import ask_for_approval
from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.job_runs import JobOptions, run_job
from prowess.interfaces.cli.options import Number, command
from prowess.interfaces.cli.output import print_json
from prowess.interfaces.cli.run_attempt import OutputFolder, RunAttempt


@command(
    "run",
    "prowess run my-skill --input text=hello",
    "prowess run my-skill -i notes=@notes.md --dry-run",
    "prowess run my-skill --model local:smollm2 --save out",
    "prowess run my-skill --batch items.jsonl --name nightly --out results.jsonl",
)
@click.argument("slug")
@click.argument("artifacts", nargs=-1, metavar="[ARTIFACT]...")
@click.option("--artifact", "-a", "named", multiple=True, metavar="NAME", help="Same as ARTIFACT.")
@click.option(
    "--input",
    "-i",
    "inputs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Input (repeatable): NAME=TEXT, NAME:=JSON, NAME=@FILE, or @FILE.json.",
)
@click.option("--model", "-m", default="", metavar="M", help="Model, such as anthropic:NAME (default: PROWESS_MODEL).")
@click.option("--evaluation-model", default="", metavar="M", help="Model that judges in reviews and assertions.")
@click.option("--dry-run", is_flag=True, help="Print exactly what would be sent to a model, without sending it.")
@click.option(
    "--timeout",
    type=Number(min=0, min_open=True),
    metavar="SECONDS",
    help="Time limit for each artifact.",
)
@click.option("--resume", default="", metavar="TRACE", help="Resume this interrupted run from its last checkpoint.")
@click.option("--session", "-s", default="", metavar="NAME", help="Conversation that the run belongs to.")
@click.option(
    "--save",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the files that the skill produces to this folder.",
)
@click.option("--force", is_flag=True, help="With --save: replace existing files.")
@click.option("--durable", is_flag=True, help="Run as a job that continues after a crash.")
@click.option(
    "--batch", default="", metavar="FILE", help="Run once for each line of a file of JSON objects (`-`: stdin)."
)
@click.option("--name", default="", metavar="NAME", help="Name of the job. The same name continues that job.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    metavar="N",
    help="With --batch: items to run in parallel (default: 4).",
)
@click.option(
    "--max-spend",
    type=Number(min=0, min_open=True),
    metavar="USD",
    help="With --batch: stop before spending more than this.",
)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --batch: write the results to this file (default: stdout).",
)
@common_options
def run_command(
    slug: str,
    artifacts: tuple[str, ...],
    named: tuple[str, ...],
    inputs: tuple[str, ...],
    model: str,
    evaluation_model: str,
    dry_run: bool,
    timeout: float | None,
    resume: str,
    session: str,
    save: Path | None,
    force: bool,
    durable: bool,
    batch: str,
    name: str,
    concurrency: int | None,
    max_spend: float | None,
    out: Path | None,
    cli: Cli,
) -> None:
    """Run a skill, or only the artifacts that you name, and print the output.

    Output goes to stdout as the model writes it; cost, assertions and the trace id go to stderr. Every run is recorded:
    `prowess traces` lists them. With --durable or --batch it is a job, which `prowess jobs` lists.
    """
    from prowess.interfaces.cli.run_output import RunScreen, print_plan
    from prowess.run.request import RunRequest

    artifacts += named
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
    job = JobOptions(durable=durable, batch=batch, name=name, concurrency=concurrency, max_spend=max_spend, out=out)
    job.check()
    if job.is_job:
        if dry_run or resume or save:
            raise click.UsageError("--dry-run, --resume and --save cannot be combined with --durable or --batch.")
        run_job(request, inputs, job, cli)
        return
    saving = OutputFolder(folder=None if dry_run else save, force=force)
    screen = RunScreen(named=len(artifacts) != 1, quiet=cli.as_json or dry_run)
    attempt = RunAttempt(request, inputs, cli, screen=screen, saving=saving)
    try:
        unfinished = ask_for_approval(
            cli, attempt.once, question="Run exactly these bytes?", refusal="Not run: you denied the request."
        )
    except (NotFound, Invalid) as error:
        error.hint = _hint_at_inputs(error, artifacts, inputs)
        raise
    if attempt.ran is None:
        return
    skill, result = attempt.ran
    if cli.as_json:
        print_json(result)
    elif dry_run:
        print_plan(result)
    saving.save(result, skill)
    if error := result.error or unfinished or screen.lost:
        raise error


def _hint_at_inputs(error: NotFound | Invalid, artifacts: tuple[str, ...], inputs: tuple[str, ...]) -> str:
    """Return the hint of an error, with how to pass an input if none was passed in the right way."""
    if isinstance(error, Invalid):
        is_missing = not inputs and any(problem.code == "input-invalid" for problem in error.problems)
        return f"{error.hint} Pass each with `--input NAME=VALUE`." if is_missing else error.hint
    # `run SLUG text=hello` is what people try first; without --input it names an artifact.
    word = next((name for name in artifacts if "=" in name and repr(name) in error.message), "")
    return f"To pass the word as an input, add `--input {shlex.quote(word)}`. {error.hint}" if word else error.hint
