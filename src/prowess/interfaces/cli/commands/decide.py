"""`prowess decide`: print the rule for choosing a template or a handler, or apply it to a skill or a description."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from prowess.errors import Invalid, NotFound, Problem
from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.error_output import EXIT_CODES, print_problems
from prowess.interfaces.cli.options import command
from prowess.interfaces.cli.output import escape_path, one_line, print_json, print_json_line, print_wrapped

if TYPE_CHECKING:
    from prowess.catalog.importer import CheckResult
    from prowess.skill.decision import Decision

_DESCRIPTOR_SUFFIXES = (".yaml", ".yml", ".json", ".md")


@command(
    "decide",
    "prowess decide",
    'prowess decide "fetch the weather and write a summary"',
    "prowess decide .agents/skills/my-skill",
)
@click.argument("subject", required=False, metavar="[FILE|DESCRIPTION]", default="")
@common_options
def decide_command(subject: str, cli: Cli) -> None:
    """Decide whether a skill should be a prompt template or code.

    Without an argument, print the rule. With a descriptor FILE or a skill folder, show which of the two it uses, why, and
    the arguments against. With a DESCRIPTION, show what its words suggest.
    """
    if not subject:
        _print_rule(cli)
    elif _is_path(subject):
        _print_skills(cli.call(lambda prowess: prowess.skills.check(Path(subject))), cli)
    elif _looks_like_path(subject):
        raise NotFound(
            f"File {escape_path(subject)} not found.",
            hint="Give the path of a descriptor or skill folder, or a description in words.",
        )
    else:
        _print_hints(subject, cli)


def _is_path(subject: str) -> bool:
    try:
        return Path(subject).exists()
    except (OSError, ValueError):  # a long description is not a valid path: too long, or with a NUL character
        return False


def _looks_like_path(subject: str) -> bool:
    """Return True for a single word that contains a slash or ends like the file name of a descriptor."""
    return len(subject.split()) == 1 and (subject.lower().endswith(_DESCRIPTOR_SUFFIXES) or "/" in subject)


def _print_rule(cli: Cli) -> None:
    from prowess.skill.decision import QUESTIONS

    def show() -> None:
        click.echo("The first question that you answer with yes decides:\n")
        for number, question in enumerate(QUESTIONS, start=1):
            click.secho(f"{number}. {question.asks}", bold=True)
            print_wrapped(f"→ {question.way}. {question.why}", 3)

    cli.print(QUESTIONS, show)


def _print_skills(checked: list[CheckResult], cli: Cli) -> None:
    from prowess.skill.decision import judge_decision

    for item in checked:
        skill = item.report.reading.skill if item.report else None
        decision = judge_decision(skill) if skill is not None else None
        errors = [problem for problem in item.problems if problem.severity == "error"]
        if cli.as_json:
            slug = skill.slug if skill else None
            print_json_line({"path": str(item.path), "slug": slug, "decision": decision, "problems": errors})
        else:
            _print_decision(item.path, decision, errors)
    if not all(item.report and item.report.reading.skill for item in checked):
        raise click.exceptions.Exit(EXIT_CODES[Invalid])


def _print_decision(path: Path, decision: Decision | None, errors: list[Problem]) -> None:
    click.secho(escape_path(path), bold=True)
    if decision is not None:
        parts = f" ({one_line(', '.join(decision.parts))})" if decision.parts else ""
        print_wrapped(f"uses {decision.uses}{parts}. {decision.why}", 2)
        for reason in decision.against:
            print_wrapped(f"but: {one_line(reason)}", 2)
    print_problems(errors, indent=2)
    if decision is not None and not decision.against and not errors:
        click.echo("  No objections.")


def _print_hints(text: str, cli: Cli) -> None:
    from prowess.skill.decision import find_hints

    hints = find_hints(text)
    if cli.as_json:
        print_json([{"name": hint.question.name, "way": hint.question.way, "words": hint.words} for hint in hints])
        return
    if not hints:
        click.echo("The description does not say enough. Ask yourself:\n")
        _print_rule(cli)
        return
    first = hints[0].question
    print_wrapped(f"Suggested: {first.way}. {first.why}")
    click.echo("\nThis is a guess based on the words. The first question that you answer with yes decides:")
    for hint in hints:
        print_wrapped(f"{hint.question.asks} ({', '.join(hint.words)}) → {hint.question.way}", 2)
