"""`prowess why`: explain step by step why skills were, or were not, offered for a message."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from prowess.errors import Invalid, NotFound
from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.options import command, limit_option, read_message
from prowess.interfaces.cli.output import clean, escape_path, print_json, print_wrapped
from prowess.match.recommendation import format_score
from prowess.skill.json_values import json_value
from prowess.view import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prowess.events import Event
    from prowess.open import Prowess
    from prowess.session.explanation import Explanation, Step


@command(
    "why",
    'prowess why "write release notes for these commits"',
    'prowess why "fix the build" --explain',
    'prowess why release-notes "what changed since Monday?"',
    "prowess why --last --session 3f2a91bc",
    "prowess why --replay account.json",
)
@click.argument("words", nargs=-1, metavar="[SLUG] [MESSAGE]")
@click.option(
    "--session", "-s", default="", metavar="NAME", help="Take the skills and budget of this conversation into account."
)
@limit_option("candidates", default=10, most=100)
@click.option(
    "--skill", default="", metavar="SLUG", help="Explain only this skill; the same as SLUG before the message."
)
@click.option("--last", is_flag=True, help="Show the last decision about a message, here or in --session.")
@click.option("--replay", metavar="FILE", help="Compare with the output of an earlier `why --json`.")
@click.option("--explain", is_flag=True, help="Show every step for skills that are not offered, too.")
@common_options
def why_command(
    words: tuple[str, ...],
    session: str,
    limit: int,
    skill: str,
    last: bool,
    replay: str | None,
    explain: bool,
    cli: Cli,
) -> None:
    """Explain for each skill why it was or was not offered for a message, and whether it could be enabled.

    With the slug of a skill before the message, or --skill, explains only that skill. Shows the score with its signals, the
    place in the index, the decision of the policy and the budget of each candidate. Changes nothing. With --last, shows what an agent decided about the last message, and which skills it considered.
    """
    if last:
        if words or replay or skill:
            raise click.UsageError("--last cannot be combined with a message, --skill or --replay.")
        _show_last(session, cli)
        return
    before = _read_account(replay) if replay else None
    if before is not None and words:
        raise click.UsageError("A message and --replay cannot be combined.")
    message = read_message(words) if before is None else before["message"]
    if before is not None:
        session, limit, skill = before["session"], max(len(before["steps"]), 1), str(before.get("skill") or skill)

    async def explain_words(prowess: Prowess) -> Explanation:
        if len(words) > 1 and not skill:
            # A first argument that is no skill is a part of the message.
            with suppress(NotFound):
                return await prowess.why(" ".join(words[1:]), session=session, skill=words[0])
            # The message is in quotes, so the word before it may be a slug with a typing error.
            if " " in words[1] and " " not in words[0]:
                click.echo(
                    f"No skill is named {clean(words[0])!r}, so the word counts as part of the message.", err=True
                )
        return await prowess.why(message, session=session, limit=limit, skill=skill)

    account = cli.call(explain_words, quick=True)
    if before is not None:
        _print_differences(before, account, cli)
    elif cli.as_json:
        print_json(account)
    else:
        print_account(account, explain=explain or bool(account.skill))


def _show_last(session: str, cli: Cli) -> None:
    """Print the last decision that was recorded, in a conversation or in any."""
    from prowess.interfaces.cli.commands.events import read_latest
    from prowess.interfaces.cli.conversation_output import print_decision

    async def read(prowess: Prowess) -> Sequence[Event]:
        chosen = (await prowess.sessions.get(session)).id if session else ""
        return await read_latest(
            lambda after, limit: prowess.events.list(after=after, limit=limit, names=["decision_made"], session=chosen),
            1,
            last=await prowess.events.last(),
        )

    found = cli.call(read, quick=True)
    if cli.as_json:
        print_json(found[0].data if found else None)
    elif found:
        data = found[0].data
        print_decision({"decision": data, "recommendations": data.get("recommended") or []})
    else:
        click.echo("No decision was recorded yet. `prowess chat` records one for each message.")


def _read_account(path: str) -> dict[str, Any]:
    value = json_value(Path(path).read_bytes())
    if not _is_account(value):
        raise Invalid(
            f"{escape_path(path)} is not the output of `prowess why --json`.",
            hint="Create one with `prowess why MESSAGE --json > FILE`.",
        )
    return value


def _is_account(value: Any) -> bool:
    """Return True if the value has the fields that are needed to repeat and compare an explanation."""
    if not isinstance(value, dict):
        return False
    account = cast("dict[str, Any]", value)
    steps = account.get("steps")
    return (
        isinstance(account.get("message"), str)
        and isinstance(account.get("session"), str)
        and isinstance(steps, list)
        and all(isinstance(step, dict) and "slug" in step for step in cast("list[object]", steps))
    )


def _print_differences(before: dict[str, Any], account: Explanation, cli: Cli) -> None:
    from prowess.session.explanation import diff_explanations

    # The round trip through JSON gives both sides the same types: lists for tuples, strings for keys.
    found = diff_explanations(before, json.loads(json.dumps(to_json(account))))
    if cli.as_json:
        print_json({"same": not found, "differences": found})
    elif found:
        click.echo("Changed:")
        for words in found:
            click.echo(f"  {clean(words)}")
    else:
        click.echo("No differences.")
    if found:
        raise click.exceptions.Exit(1)


def print_account(account: Explanation, *, explain: bool) -> None:
    """Print an explanation; with `explain`, every step for skills that are not offered, too."""
    skills = "1 skill" if account.skills == 1 else f"{account.skills:,} skills"
    print_wrapped(
        f"{skills} available. Prompt budget: {account.budget_used:,} of {account.budget_max:,} characters used. "
        f"Index: {account.index_budget:,} characters, {account.index_omitted} skills left out."
    )
    for step in account.steps:
        click.echo("")
        click.secho(f"{clean(step.slug)}: {step.choice}", bold=True)
        for line in _format_step(step, explain=explain):
            print_wrapped(clean(line), 2)
    if not account.steps:
        click.echo("No matching skill.")
    elif not explain and any(step.choice == "not offered" for step in account.steps):
        click.echo("\nUse --explain to see every step for skills that are not offered.")


def _format_step(step: Step, *, explain: bool) -> list[str]:
    found = "; ".join(f"{field}: {', '.join(terms) or 'yes'}" for field, terms in step.fields.items())
    figures = ", ".join(f"{name} {value:g}" for name, value in step.signals.items())
    room = f"{step.need:,} characters, {'fits' if step.fits else 'does not fit'}"
    lines = [
        f"match   {format_score(step.score)}, {step.decision}: {step.why or 'no evidence'}",
        *([f"fields  {found}"] if found else []),
    ]
    if step.choice == "not offered" and not explain:
        return lines
    return [
        *lines,
        *([f"signals {figures}"] if figures else []),
        f"index   {step.index}",
        f"policy  {step.answer}: {step.reason} [{step.rule}]",
        f"budget  {room}",
    ]
