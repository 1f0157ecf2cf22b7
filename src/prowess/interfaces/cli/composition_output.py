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


def _list_facts(current: Round) -> list[tuple[str, str]]:
    """Return what a person needs to know about a round, most important first."""
    draft = current.draft
    inputs = [f"{field.name} ({field.type}{'' if field.required else ', optional'})" for field in draft.inputs]
    facts = [
        ("Skill", f"{draft.slug}: {draft.title}"),
        ("About", draft.description),
        ("Parts", ", ".join(current.kinds) + (f" ({draft.dspy_template})" if draft.dspy_template else "")),
        ("Inputs", ", ".join(inputs)),
        ("Triggers", "; ".join(draft.trigger_phrases)),
        ("Found for", _describe_triggers(current.checks.triggers)),
        ("Dry run", _describe_dry_run(current)),
        ("Evals", f"{len(draft.evals)}" if draft.evals else ""),
        ("This round", draft.note),
        ("Files", ", ".join(f"{path} ({size:,})" for path, size in current.files)),
        ("Digest", current.digest),
        ("Model", f"{current.model}{f', {format_cost(current.cost_usd)}' if current.cost_usd is not None else ''}"),
    ]
    return [(label, one_line(text)) for label, text in facts if text]


def _describe_triggers(triggers: JsonObject | None) -> str:
    if triggers is None:
        return ""
    missed, wrong = len(triggers["missed"]), len(triggers["false_triggers"])
    figures = f"precision {triggers['precision']:.2f}, recall {triggers['recall']:.2f} of {triggers['queries']} queries"
    return figures + (f"; {missed} missed" if missed else "") + (f"; {wrong} by mistake" if wrong else "")


def _describe_dry_run(current: Round) -> str:
    run = current.checks.dry_run
    if run is None:
        return ""
    calls = f", called {', '.join(run['calls'])}" if run["calls"] else ""
    return f"passed{calls}" if run["ok"] else f"failed{calls}"


def print_composition(composition: Composition) -> None:
    """Print a composition with its current round and every problem."""
    where = f"changes {composition.skill}" if composition.skill else "new skill"
    number = composition.round.number if composition.round else 0
    head = f"Composition {composition.id[:8]}, round {number}, {where}, {composition.state}"
    click.echo(click.style(one_line(head), bold=True))
    for label, text in _list_facts(composition.round) if composition.round else [("Draft", "none yet")]:
        print_wrapped(f"{click.style(label.ljust(_LABEL), bold=True)}{text}", 2)
    if composition.round is not None:
        print_problems(composition.round.checks.problems)
        print_findings(composition.round.checks.findings)


def print_next(composition: Composition) -> None:
    """Print the commands that continue with a composition."""
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
        click.echo('No compositions. `prowess compose "what the skill should do"` starts one.')
        return
    rows = [
        (
            row.id[:8],
            row.state,
            str(row.number),
            one_line(row.saved_as or row.skill or "(new)", 40),
            one_line(row.request, 60),
            format_time(row.updated_at)[:16],
        )
        for row in found
    ]
    print_table(("id", "state", "round", "skill", "request", "changed"), rows, flexible=4)


def print_rounds(rounds: Sequence[Round], current: int) -> None:
    """Print the rounds of a composition, oldest first."""
    for row in rounds:
        mark = click.style("→" if row.number == current else " ", bold=True)
        verdict = "ok" if row.checks.ok else f"{len(row.checks.errors)} errors"
        after = f" after {row.previous}" if row.previous not in (0, row.number - 1) else ""
        click.echo(f"{mark} {row.number}{after}  {row.draft.slug}  {verdict}  {row.digest[:12]}")
        if row.feedback:
            print_wrapped(f'"{one_line(row.feedback, 200)}"', 4)
        print_wrapped(one_line(row.draft.note), 4)
