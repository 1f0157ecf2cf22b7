"""`prowess compose`: draft a skill with a model, refine it in words, and save what a person approves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import ProwessError
from prowess.interfaces.cli.approval_card import ask_until, format_files
from prowess.interfaces.cli.composition_output import print_composition, print_list, print_next, print_rounds
from prowess.interfaces.cli.engine import Cli, common_options, spinner
from prowess.interfaces.cli.error_output import report_error
from prowess.interfaces.cli.options import DefaultGroup, delegate_to_subcommand, group, read_message
from prowess.interfaces.cli.output import clean, print_json
from prowess.interfaces.cli.person import TYPED, Proof, at_terminal, require_person, token_option
from prowess.skill.text.hidden import show_hidden
from prowess.suggestions import did_you_mean
from prowess.view import files_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from prowess.authoring.compose.composition import Composition
    from prowess.open import Prowess
    from prowess.skill.model import Skill

_MODEL = click.option(
    "--model", "-m", default="", metavar="M", help="Model that writes the draft (default: PROWESS_MODEL)."
)
_SCOPE = click.option(
    "--scope",
    type=click.Choice(["workspace", "user", "org", "account"]),
    help="Save for this workspace (default), for yourself, for your organization, or for all of your workspaces.",
)
_ID = click.argument("composition", metavar="ID")
_COMPOSITION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){0,3}(-[0-9a-f]{12})?")


class _ComposeGroup(DefaultGroup):
    default = "start"

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand; a misspelt one, alone or before an ID, is an error instead of a request to a model."""
        word = args[0]
        if word not in self.commands and len(args) == 1 and " " not in word and not word.startswith("-"):
            meant = did_you_mean(word, list(self.commands), count=1)
            if meant:
                raise click.UsageError(f"No such command {word!r}. {meant}")
        if word not in self.commands and len(args) > 1 and _COMPOSITION_ID.fullmatch(args[1]):
            hint = did_you_mean(word, list(self.commands), count=1) or "`prowess compose --help` lists all."
            hint = f"Use `prowess compose show {args[1]} --diff`." if word == "diff" else hint
            raise click.UsageError(f"No such command {word!r}. {hint}")
        return super().resolve_command(ctx, args)


@group(
    "compose",
    'prowess compose "check timeline consistency"',
    'prowess compose --skill timeline-check "add a dspy_module"',
    "prowess compose approve 3f2a91bc",
    cls=_ComposeGroup,
    invoke_without_command=True,
    context_settings={"ignore_unknown_options": True},
)
@common_options
def compose_command(cli: Cli) -> None:
    """Write a skill together with a model: draft, feedback, and your approval.

    `prowess compose "what the skill should do"` drafts one. Its files are checked, its code is tried in the sandbox, and its
    queries are matched against your other skills. Say what to change as often as you like. Nothing is used before you have
    approved it, and you can go back to every round.
    """
    if not delegate_to_subcommand(cli):
        _print_list("open", cli)


@compose_command.subcommand(
    "start",
    'prowess compose start "check timeline consistency"',
    'prowess compose start --skill timeline-check "shorter" --json',
)
@click.argument("request", nargs=-1)
@click.option("--skill", default="", metavar="SLUG", help="Change this skill instead of creating a new one.")
@_MODEL
@_SCOPE
@token_option
@common_options
def start(request: tuple[str, ...], skill: str, model: str, scope: Any, token_file: Path | None, cli: Cli) -> None:
    """Draft a skill. At a terminal, you are asked for feedback until you approve it or leave."""
    words = read_message(request)

    async def work(prowess: Prowess) -> Composition:
        from asyncio import CancelledError  # not for a list, which has no event loop

        try:
            return await prowess.compose.start(words, skill=skill, model=model)
        except CancelledError:
            begun = await prowess.compose.list(state="open", limit=1)
            if begun and begun[0].request == words and not begun[0].number:
                click.echo(f"Continue with: prowess compose refine {begun[0].id[:8]}", err=True)
            raise

    draft = _write_round(cli, work)
    _ask_for_feedback(draft, model, scope, token_file, cli)


@compose_command.subcommand(
    "refine", 'prowess compose refine 3f2a91bc "shorter, and add a dspy_module"', "prowess compose refine 3f2a91bc"
)
@_ID
@click.argument("feedback", nargs=-1)
@_MODEL
@common_options
def refine(composition: str, feedback: tuple[str, ...], model: str, cli: Cli) -> None:
    """Write the next round, based on your feedback. Without feedback, retry a first draft that failed."""
    words = read_message(feedback) if feedback else ""
    _print(_write_round(cli, lambda prowess: prowess.compose.refine(composition, words, model=model)), cli)


@compose_command.subcommand("resume", "prowess compose resume 3f2a91bc", "prowess compose resume 3f2a91bc --json")
@_ID
@_MODEL
@_SCOPE
@token_option
@common_options
def resume(composition: str, model: str, scope: Any, token_file: Path | None, cli: Cli) -> None:
    """Continue a composition where it stopped, also after an interruption."""
    found = cli.call(lambda prowess: prowess.compose.show(composition))
    _ask_for_feedback(found, model, scope, token_file, cli)


@compose_command.subcommand(
    "show", "prowess compose show 3f2a91bc --files", "prowess compose show 3f2a91bc --round 1 --diff"
)
@_ID
@click.option(
    "--round", "number", type=click.IntRange(1), metavar="N", help="Show this round (default: the current one)."
)
@click.option("--files", "files", is_flag=True, help="Print the files too.")
@click.option("--diff", "diff", is_flag=True, help="Print what the round changed too.")
@common_options
def show(composition: str, number: int | None, files: bool, diff: bool, cli: Cli) -> None:
    """Show a composition: its summary and problems, and its files or changes if asked for."""

    async def read(prowess: Prowess) -> tuple[Composition, Any, str]:
        found = await prowess.compose.show(composition, round=number)
        package = await prowess.compose.files(composition, round=number) if files else None
        return found, package, await prowess.compose.diff(composition, round=number) if diff else ""

    found, package, changes = cli.call(read)
    if cli.as_json:
        more = {**({"contents": files_json(package)} if package else {}), **({"diff": changes} if diff else {})}
        print_json({**found.as_json(), **more})
        return
    print_composition(found)
    if package is not None:
        click.echo(f"\n{format_files(package)}")
    if changes:
        click.echo(f"\n{clean(show_hidden(changes))}")


@compose_command.subcommand("rounds", "prowess compose rounds 3f2a91bc", "prowess compose rounds 3f2a91bc --json")
@_ID
@common_options
def rounds(composition: str, cli: Cli) -> None:
    """List the rounds of a composition, oldest first."""

    async def read(prowess: Prowess) -> tuple[Composition, Any]:
        return await prowess.compose.show(composition), await prowess.compose.rounds(composition)

    found, listed = cli.call(read)
    cli.print(listed, lambda: print_rounds(listed, found.number))


@compose_command.subcommand("back", "prowess compose back 3f2a91bc 1", "prowess compose back 3f2a91bc 1 --json")
@_ID
@click.argument("number", type=click.IntRange(1))
@common_options
def back(composition: str, number: int, cli: Cli) -> None:
    """Make an earlier round the current one. Later rounds are kept."""
    _print(cli.call(lambda prowess: prowess.compose.back(composition, number)), cli)


@compose_command.subcommand(
    "approve", "prowess compose approve 3f2a91bc", "prowess compose approve 3f2a91bc --scope account"
)
@_ID
@click.option("--digest", default="", metavar="SHA256", help="Save only if the files are exactly these.")
@_SCOPE
@click.option("--allow-collision", is_flag=True, help="Save it even if another skill matches most of its queries.")
@token_option
@common_options
def approve(
    composition: str, digest: str, scope: Any, allow_collision: bool, token_file: Path | None, cli: Cli
) -> None:
    """Save the current round as a skill, and accept it. Only a person can do this.

    At a terminal, the command shows the draft and asks. Without a terminal, pass the approver token.
    """
    proof = require_person("approve a draft", token_file)
    if cli.as_json and not digest and proof == TYPED:
        raise click.UsageError("With --json, also pass --digest to say which files you approve.")
    found = cli.call(lambda prowess: prowess.compose.show(composition))
    if proof == TYPED and not digest:
        print_composition(found)
        if not _confirm(found, cli):
            click.echo("Not saved.")
            raise click.exceptions.Exit(1)
    _approve(found, digest, scope, cli, proof, allow_collision=allow_collision)


@compose_command.subcommand("discard", "prowess compose discard 3f2a91bc", "prowess compose discard 3f2a91bc --json")
@_ID
@common_options
def discard(composition: str, cli: Cli) -> None:
    """End a composition without saving anything."""
    ended = cli.call(lambda prowess: prowess.compose.discard(composition))
    cli.print(ended, f"Discarded {ended.id[:8]}.")


@compose_command.subcommand("list", "prowess compose list", "prowess compose list --state saved --json")
@click.option("--state", type=click.Choice(["open", "saved", "discarded"]), help="Only compositions in this state.")
@common_options
def list_compositions(state: Any, cli: Cli) -> None:
    """List compositions, the last changed first."""
    _print_list(state, cli)


def _print_list(state: Any, cli: Cli) -> None:
    found = cli.call(lambda prowess: prowess.compose.list(state=state))
    cli.print(found, lambda: print_list(found))


def _write_round(cli: Cli, work: Callable[[Prowess], Awaitable[Composition]]) -> Composition:
    with spinner("Writing a draft …"):
        return cli.call(work)


def _print(composition: Composition, cli: Cli) -> None:
    def show() -> None:
        print_composition(composition)
        print_next(composition)

    cli.print(composition, show)


def _ask_for_feedback(composition: Composition, model: str, scope: Any, token_file: Path | None, cli: Cli) -> None:
    """Print a composition. At a terminal, ask for feedback until the person approves it or leaves."""
    _print(composition, cli)
    if cli.as_json or not at_terminal() or composition.state != "open":
        return
    name = composition.id[:8]
    kept = f"The draft is kept. Continue with `prowess compose resume {name}`."
    try:
        while True:
            typed = str(
                click.prompt(
                    "\nFeedback, or [approve], [view], [diff], [back N], [quit]", default="quit", show_default=False
                )
            )
            answer = typed.strip()
            word, _, rest = answer.partition(" ")
            if answer in ("quit", "q", "exit"):
                click.echo(kept)
                return
            if answer in ("view", "v", "diff", "d"):
                _page(composition, answer[0], cli)
            elif word in ("back", "b") and rest.isdecimal() and len(rest) < 10:
                composition = _step(composition, lambda p, n=int(rest): p.compose.back(name, n), cli)
            elif answer in ("approve", "a", "yes", "y"):
                if _try_approve(composition, scope, token_file, cli):
                    return
            else:
                composition = _step(composition, lambda p, t=typed: p.compose.refine(name, t, model=model), cli)
    except (KeyboardInterrupt, click.Abort):
        click.echo(f"\n{kept}", err=True)
        raise


def _step(before: Composition, work: Callable[[Prowess], Awaitable[Composition]], cli: Cli) -> Composition:
    """Return the composition after one step, and print it. After an error the last round is still there."""
    try:
        after = _write_round(cli, work)
    except ProwessError as error:
        report_error(error)
        return before
    print_composition(after)
    return after


def _try_approve(composition: Composition, scope: Any, token_file: Path | None, cli: Cli) -> bool:
    try:
        proof = require_person("approve a draft", token_file)
        _approve(composition, "", scope, cli, proof, allow_collision=False)
    except ProwessError as error:
        report_error(error)
        return False
    return True


def _approve(
    composition: Composition, digest: str, scope: Any, cli: Cli, proof: Proof, *, allow_collision: bool
) -> None:
    """Save the files with this digest, or else those that were shown, and print what was saved."""
    exact = digest or (composition.round.digest if composition.round else "")

    async def work(prowess: Prowess) -> Skill:
        return await prowess.compose.approve(composition.id, digest=exact, scope=scope, allow_collision=allow_collision)

    saved = cli.call(work, channel=proof.channel)
    cli.print(
        {"composition": composition.id, "slug": saved.slug, "scope": saved.scope, "digest": saved.digest},
        f"Saved {saved.slug} ({saved.scope}). Try it: prowess show {saved.slug}",
    )


def _read_texts(composition: Composition, cli: Cli) -> dict[str, tuple[str, str]]:
    """Return the texts that a person can view, by the key to type: the files and the changes."""

    async def read(prowess: Prowess) -> tuple[Any, str]:
        return await prowess.compose.files(composition.id), await prowess.compose.diff(composition.id)

    package, changes = cli.call(read)
    return {"v": ("iew", format_files(package)), "d": ("iff", clean(show_hidden(changes)))}


def _page(composition: Composition, key: str, cli: Cli) -> None:
    if composition.round is None:
        click.echo("There is no draft yet.")
        return
    click.echo_via_pager(_read_texts(composition, cli)[key][1] + "\n")


def _confirm(composition: Composition, cli: Cli) -> bool:
    if composition.round is None:
        return True  # the engine says that there is nothing to save
    click.echo("")
    views = _read_texts(composition, cli)
    return ask_until("Save this skill, with exactly these files?", {"y": "es", "n": "o"}, views)[0] == "y"
