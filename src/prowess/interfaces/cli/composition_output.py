"""Print compositions: a summary that a person can decide by, the list of them, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.approval_card import format_time
from prowess.interfaces.cli.error_output import print_findings, print_problems
from prowess.interfaces.cli.output import clean, format_cost, one_line, print_table, print_wrapped

if TYPE_CHECKING:
    from prowess.authoring.compose.composition import Composition, Round
    from prowess.skill.kinds import JsonObject

_LABEL = 12


def list_facts(shown: Round) -> list[tuple[str, str]]:
    """Return what a person needs to know about a round, most important first."""
    draft = shown.draft
    inputs = [f"{one.name} ({one.type}{'' if one.required else ', optional'})" for one in draft.inputs]
    facts = [
        ("Skill", f"{draft.slug}: {draft.title}"),
        ("About", draft.description),
        ("Parts", ", ".join(shown.kinds) + (f" ({draft.dspy_template})" if draft.dspy_template else "")),
        ("Inputs", ", ".join(inputs)),
        ("Triggers", "; ".join(draft.trigger_phrases)),
        ("Found for", _describe_triggers(shown.checks.triggers)),
        ("Dry run", _describe_dry_run(shown)),
        ("Evals", f"{len(draft.evals)}" if draft.evals else ""),
        ("This round", draft.note),
        ("Files", ", ".join(f"{path} ({size:,})" for path, size in shown.files)),
        ("Digest", shown.digest),
        ("Model", f"{shown.model}{f', {format_cost(shown.cost_usd)}' if shown.cost_usd is not None else ''}"),
    ]
    return [(label, one_line(text)) for label, text in facts if text]


def _describe_triggers(triggers: JsonObject | None) -> str:
    if triggers is None:
        return ""
    missed, wrong = len(triggers["missed"]), len(triggers["false_triggers"])
    told = f"precision {triggers['precision']:.2f}, recall {triggers['recall']:.2f} of {triggers['queries']} queries"
    return told + (f"; {missed} missed" if missed else "") + (f"; {wrong} by mistake" if wrong else "")


def _describe_dry_run(shown: Round) -> str:
    ran = shown.checks.dry_run
    if ran is None:
        return ""
    calls = f", called {', '.join(ran['calls'])}" if ran["calls"] else ""
    return f"passed{calls}" if ran["ok"] else f"failed{calls}"


def print_composition(composition: Composition) -> None:
    """Print a composition with its current round and every problem."""
    where = f"changes {composition.skill}" if composition.skill else "new skill"
    number = composition.round.number if composition.round else 0
    head = f"Composition {composition.id[:8]}, round {number}, {where}, {composition.state}"
    click.echo(click.style(one_line(head), bold=True))
    for label, text in list_facts(composition.round) if composition.round else [("Draft", "none yet")]:
        print_wrapped(f"{click.style(label.ljust(_LABEL), bold=True)}{text}", 2)
    if composition.round is not None:
        print_problems(composition.round.checks.problems)
        print_findings(composition.round.checks.findings)


def print_next(composition: Composition) -> None:
    """Print the commands that go on with a composition."""
    name = composition.id[:8]
    if composition.state == "saved":
        click.echo(f"\nSaved as {clean(composition.saved_as)}.")
        return
    if composition.state != "open":
        return
    click.echo("\nNext:")
    click.echo(f'  prowess compose refine {name} "what to change"')
    click.echo(f"  prowess compose show {name} --files")
    if composition.round is not None and composition.round.checks.ok:
        click.echo(f"  prowess compose approve {name}")


def print_list(found: Sequence[Composition]) -> None:
    """Print compositions as a table."""
    if not found:
        click.echo('No compositions. `prowess compose "what the skill should do"` begins one.')
        return
    rows = [
        (
            one.id[:8],
            one.state,
            str(one.number),
            one_line(one.saved_as or one.skill or "(new)", 40),
            one_line(one.request, 60),
            format_time(one.updated_at)[:16],
        )
        for one in found
    ]
    print_table(("id", "state", "round", "skill", "request", "changed"), rows, flexible=4)


def print_rounds(rounds: Sequence[Round], current: int) -> None:
    """Print the rounds of a composition, oldest first."""
    for one in rounds:
        mark = click.style("→" if one.number == current else " ", bold=True)
        verdict = "ok" if one.checks.ok else f"{len(one.checks.errors)} errors"
        after = f" after {one.previous}" if one.previous not in (0, one.number - 1) else ""
        click.echo(f"{mark} {one.number}{after}  {one.draft.slug}  {verdict}  {one.digest[:12]}")
        if one.feedback:
            print_wrapped(f'"{one_line(one.feedback, 200)}"', 4)
        print_wrapped(one_line(one.draft.note), 4)
