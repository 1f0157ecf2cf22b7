"""`prowess compose`: draft a skill with a model, refine it in words, and save what a person approves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import ProwessError
from prowess.interfaces.cli.approval_card import ask_until, format_files
from prowess.interfaces.cli.composition_output import print_composition, print_list, print_next, print_rounds
from prowess.interfaces.cli.engine import common_options, spinner, with_engine
from prowess.interfaces.cli.error_output import report_error
from prowess.interfaces.cli.options import DefaultGroup, delegate_to_subcommand, group, read_message
from prowess.interfaces.cli.output import clean, print_json
from prowess.interfaces.cli.person import TYPED, at_terminal, require_person, token_option
from prowess.view import files_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from prowess.authoring.compose.composition import Composition
    from prowess.interfaces.cli.person import Proof
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
_COLLISION = click.option(
    "--allow-collision", is_flag=True, help="Save it although another skill answers most of its queries."
)
_ID = click.argument("composition", metavar="ID")
_COMPOSITION_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){0,3}(-[0-9a-f]{12})?")


class _ComposeGroup(DefaultGroup):
    default = "start"

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand; a misspelt one, alone or before an ID, is an error instead of a request to a model."""
        from prowess.suggestions import did_you_mean

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
@click.pass_context
def compose_command(ctx: click.Context, workspace: str | None, as_json: bool) -> None:
    """Write a skill together with a model: draft, feedback, and your approval.

    `prowess compose "what the skill should do"` drafts one. Its files are checked, its code is tried in the sandbox, and its
    queries are matched against your other skills. Say what to change as often as you like. Nothing is used before you have
    approved it, and every round can be gone back to.
    """
    if not delegate_to_subcommand(ctx, workspace, as_json=as_json):
        _list("open", workspace, as_json=as_json)


@compose_command.command(
    "start",
    examples=(
        'prowess compose start "check timeline consistency"',
        'prowess compose start --skill timeline-check "shorter" --json',
    ),
)
@click.argument("request", nargs=-1)
@click.option("--skill", default="", metavar="SLUG", help="Change this skill instead of making a new one.")
@_MODEL
@_SCOPE
@token_option
@common_options
def start(
    request: tuple[str, ...],
    skill: str,
    model: str,
    scope: Any,
    token_file: Path | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Draft a skill. At a terminal, you are asked for feedback until you approve it or leave."""
    words = read_message(request)
    made = _ask(workspace, lambda prowess: prowess.compose.start(words, skill=skill, model=model))
    _go_on(made, model, scope, token_file, workspace, as_json=as_json)


@compose_command.command(
    "refine",
    examples=('prowess compose refine 3f2a91bc "shorter, and add a dspy_module"', "prowess compose refine 3f2a91bc"),
)
@_ID
@click.argument("feedback", nargs=-1)
@_MODEL
@common_options
def refine(composition: str, feedback: tuple[str, ...], model: str, workspace: str | None, as_json: bool) -> None:
    """Write the next round after feedback. Without feedback, try again a first draft that failed."""
    words = read_message(feedback) if feedback else ""
    _print(_ask(workspace, lambda prowess: prowess.compose.refine(composition, words, model=model)), as_json=as_json)


@compose_command.command(
    "resume", examples=("prowess compose resume 3f2a91bc", "prowess compose resume 3f2a91bc --json")
)
@_ID
@_MODEL
@_SCOPE
@token_option
@common_options
def resume(
    composition: str, model: str, scope: Any, token_file: Path | None, workspace: str | None, as_json: bool
) -> None:
    """Go on with a composition where it was, also after an interruption."""
    shown = with_engine(workspace, lambda prowess: prowess.compose.show(composition))
    _go_on(shown, model, scope, token_file, workspace, as_json=as_json)


@compose_command.command(
    "show", examples=("prowess compose show 3f2a91bc --files", "prowess compose show 3f2a91bc --round 1 --diff")
)
@_ID
@click.option("--round", "number", type=click.IntRange(1), metavar="N", help="Another round than the current one.")
@click.option("--files", "files", is_flag=True, help="Print the files too.")
@click.option("--diff", "diff", is_flag=True, help="Print what the round changed too.")
@common_options
def show(composition: str, number: int | None, files: bool, diff: bool, workspace: str | None, as_json: bool) -> None:
    """Show a composition: its summary and problems, and its files or changes if asked for."""
    from prowess.skill.text.hidden import show_hidden

    async def read(prowess: Prowess) -> tuple[Composition, Any, str]:
        found = await prowess.compose.show(composition, round=number)
        package = await prowess.compose.files(composition, round=number) if files else None
        return found, package, await prowess.compose.diff(composition, round=number) if diff else ""

    found, package, changes = with_engine(workspace, read)
    if as_json:
        more = {**({"contents": files_json(package)} if package else {}), **({"diff": changes} if diff else {})}
        print_json({**found.as_json(), **more})
        return
    print_composition(found)
    if package is not None:
        click.echo(f"\n{format_files(package)}")
    if changes:
        click.echo(f"\n{clean(show_hidden(changes))}")


@compose_command.command(
    "rounds", examples=("prowess compose rounds 3f2a91bc", "prowess compose rounds 3f2a91bc --json")
)
@_ID
@common_options
def rounds(composition: str, workspace: str | None, as_json: bool) -> None:
    """List the rounds of a composition, oldest first."""

    async def read(prowess: Prowess) -> tuple[Composition, Any]:
        return await prowess.compose.show(composition), await prowess.compose.rounds(composition)

    found, listed = with_engine(workspace, read)
    if as_json:
        print_json(listed)
        return
    print_rounds(listed, found.number)


@compose_command.command("back", examples=("prowess compose back 3f2a91bc 1", "prowess compose back 3f2a91bc 1 --json"))
@_ID
@click.argument("number", type=click.IntRange(1))
@common_options
def back(composition: str, number: int, workspace: str | None, as_json: bool) -> None:
    """Make an earlier round the current one. Later rounds are kept."""
    _print(with_engine(workspace, lambda prowess: prowess.compose.back(composition, number)), as_json=as_json)


@compose_command.command(
    "approve", examples=("prowess compose approve 3f2a91bc", "prowess compose approve 3f2a91bc --scope account")
)
@_ID
@click.option("--digest", default="", metavar="SHA256", help="Save only if the files are exactly these.")
@_SCOPE
@_COLLISION
@token_option
@common_options
def approve(
    composition: str,
    digest: str,
    scope: Any,
    allow_collision: bool,
    token_file: Path | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Save the current round as a skill that you accept. Only a person can.

    At a terminal you see the draft first and are asked. Without one, pass the approver token.
    """
    proof = require_person("approve a draft", token_file)
    if as_json and not digest and proof == TYPED:
        raise click.UsageError("With --json, say with --digest which files you approve.")
    shown = with_engine(workspace, lambda prowess: prowess.compose.show(composition))
    if proof == TYPED and not digest:
        print_composition(shown)
        if not _confirm(shown, workspace):
            click.echo("Not saved.")
            raise click.exceptions.Exit(1)
    exact = digest or (shown.round.digest if shown.round else "")
    saved = _approve(shown, exact, scope, workspace, proof, allow_collision=allow_collision)
    _print_saved(shown, saved, as_json=as_json)


@compose_command.command(
    "discard", examples=("prowess compose discard 3f2a91bc", "prowess compose discard 3f2a91bc --json")
)
@_ID
@common_options
def discard(composition: str, workspace: str | None, as_json: bool) -> None:
    """End a composition without saving anything."""
    ended = with_engine(workspace, lambda prowess: prowess.compose.discard(composition))
    if as_json:
        print_json(ended)
        return
    click.echo(f"Discarded {ended.id[:8]}.")


@compose_command.command("list", examples=("prowess compose list", "prowess compose list --state saved --json"))
@click.option("--state", type=click.Choice(["open", "saved", "discarded"]), help="Only in this state.")
@common_options
def list_compositions(state: Any, workspace: str | None, as_json: bool) -> None:
    """List compositions, the last changed first."""
    _list(state, workspace, as_json=as_json)


def _list(state: Any, workspace: str | None, *, as_json: bool) -> None:
    found = with_engine(workspace, lambda prowess: prowess.compose.list(state=state))
    if as_json:
        print_json(found)
        return
    print_list(found)


def _ask(workspace: str | None, work: Callable[[Prowess], Awaitable[Composition]]) -> Composition:
    with spinner("Writing a draft …"):
        return with_engine(workspace, work)


def _print(composition: Composition, *, as_json: bool) -> None:
    if as_json:
        print_json(composition)
        return
    print_composition(composition)
    print_next(composition)


def _go_on(
    composition: Composition,
    model: str,
    scope: Any,
    token_file: Path | None,
    workspace: str | None,
    *,
    as_json: bool,
) -> None:
    """Print a composition. At a terminal, ask for feedback until the person approves it or leaves."""
    _print(composition, as_json=as_json)
    if as_json or not at_terminal() or composition.state != "open":
        return
    name = composition.id[:8]
    while True:
        typed = str(
            click.prompt(
                "\nFeedback, or [approve], [view], [diff], [back N], [quit]", default="quit", show_default=False
            )
        )
        word, _, rest = typed.strip().partition(" ")
        if typed.strip() in ("quit", "q", "exit"):
            click.echo(f"Kept. Go on with `prowess compose resume {name}`.")
            return
        if typed.strip() in ("view", "v", "diff", "d"):
            _page(composition, typed.strip()[0], workspace)
        elif word in ("back", "b") and rest.isdigit():
            composition = _step(composition, lambda p, n=int(rest): p.compose.back(name, n), workspace)
        elif typed.strip() in ("approve", "a", "yes"):
            if _try_approve(composition, scope, token_file, workspace):
                return
        else:
            composition = _step(composition, lambda p, t=typed: p.compose.refine(name, t, model=model), workspace)


def _step(before: Composition, work: Callable[[Prowess], Awaitable[Composition]], workspace: str | None) -> Composition:
    """Return the composition after one step, and print it. After an error the last round is still there."""
    try:
        after = _ask(workspace, work)
    except ProwessError as error:
        report_error(error)
        return before
    print_composition(after)
    return after


def _try_approve(composition: Composition, scope: Any, token_file: Path | None, workspace: str | None) -> bool:
    try:
        proof = require_person("approve a draft", token_file)
        digest = composition.round.digest if composition.round else ""
        saved = _approve(composition, digest, scope, workspace, proof, allow_collision=False)
    except ProwessError as error:
        report_error(error)
        return False
    _print_saved(composition, saved, as_json=False)
    return True


def _approve(
    composition: Composition, digest: str, scope: Any, workspace: str | None, proof: Proof, *, allow_collision: bool
) -> Skill:
    return with_engine(
        workspace,
        lambda prowess: prowess.compose.approve(
            composition.id, digest=digest, scope=scope, allow_collision=allow_collision
        ),
        channel=proof.channel,
    )


def _read_texts(composition: Composition, workspace: str | None) -> dict[str, tuple[str, str]]:
    """Return the texts that a person can view, by the key to type: the files and the changes."""
    from prowess.skill.text.hidden import show_hidden

    async def read(prowess: Prowess) -> tuple[Any, str]:
        return await prowess.compose.files(composition.id), await prowess.compose.diff(composition.id)

    package, changes = with_engine(workspace, read)
    return {"v": ("iew", format_files(package)), "d": ("iff", clean(show_hidden(changes)))}


def _page(composition: Composition, key: str, workspace: str | None) -> None:
    if composition.round is None:
        click.echo("There is no draft yet.")
        return
    click.echo_via_pager(_read_texts(composition, workspace)[key][1] + "\n")


def _confirm(composition: Composition, workspace: str | None) -> bool:
    if composition.round is None:
        return True  # the engine says that there is nothing to save
    click.echo("")
    views = _read_texts(composition, workspace)
    return ask_until("Save this skill, with exactly these files?", {"y": "es", "n": "o"}, views)[0] == "y"


def _print_saved(composition: Composition, saved: Skill, *, as_json: bool) -> None:
    if as_json:
        print_json({"composition": composition.id, "slug": saved.slug, "scope": saved.scope, "digest": saved.digest})
        return
    click.echo(f"Saved {saved.slug} ({saved.scope}). Try it: prowess show {saved.slug}")
