"""Show what installing or updating skills would do, and ask the person at the terminal about it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.approval_card import ask_until, format_files
from prowess.interfaces.cli.output import clean, escape_path, one_line, print_wrapped
from prowess.interfaces.cli.trust_prompt import format_previewed

if TYPE_CHECKING:
    from prowess.engine.install_plan import InstallPlan, PlannedSkill
    from prowess.engine.installs import InstallResult

_SHOWN_DIFF_LINES = 80
_CHANGES = {"new": "new", "update": "changed", "unchanged": "installed already"}


def format_planned(skill: PlannedSkill) -> str:
    """Return what a person needs to know before installing a skill: most serious first, nothing cut but the diff."""
    pin = skill.new.pin
    facts = format_previewed(skill.preview).split("\n")[1:]
    for obstacle in skill.obstacles:
        path = _near_path(str(obstacle.path))
        what = "was edited here; the changes would be lost" if obstacle.state == "edited" else "is not from Prowess"
        facts.insert(0, f"  in the way: {path} {what}")
    if skill.hidden_by:
        facts.append(f"  not used: a skill with the same name in the {skill.hidden_by} scope is nearer")
    facts += [f"  {one_line(problem.message)}" for problem in skill.problems]
    facts.append(f"  signed by {one_line(skill.signer)}" if skill.signer else "  not signed")
    where = f", {one_line(pin.path)}" if pin.path else ""
    states = [state[:12] for state in dict.fromkeys((skill.from_state, pin.state)) if state]
    facts.append(f"  from {one_line(pin.source)}{where} at {' → '.join(map(one_line, states))}")
    facts.append(f"  to {', '.join(_near_path(path) for path in skill.places)} ({skill.new.mode})")
    if skill.left_out:
        facts.append(f"  without {', '.join(escape_path(path) for path in skill.left_out)}")
    count = f"{skill.preview.files} file{'s' * (skill.preview.files != 1)}"
    head = f"{one_line(skill.new.name)}  {_CHANGES[skill.change]}, {count}, sha256 {skill.preview.digest[:16]}"
    return "\n".join([head, *facts])


def _near_path(path: str) -> str:
    """Return a path as seen from here, if it is below."""
    here = Path.cwd()
    return escape_path(Path(path).relative_to(here) if Path(path).is_relative_to(here) else path)


def format_diff_text(skill: PlannedSkill) -> str:
    """Return the whole difference to the installed files, with hidden characters written out."""
    from prowess.skill.text.hidden import show_hidden

    return clean(show_hidden(skill.diff))


def print_plan(plan: InstallPlan) -> dict[str, str]:
    """Print warnings, skills that are left out, and the changes; return the text about each skill, by slug."""
    print_warnings(plan)
    shown: dict[str, str] = {}
    for skill in plan.skills:
        text = format_planned(skill)
        head, _, rest = text.partition("\n")
        click.secho(head, bold=True)
        click.echo(rest)
        diff = format_diff_text(skill).split("\n") if skill.diff else []
        click.echo("\n".join(f"    {line}" for line in diff[:_SHOWN_DIFF_LINES]) + "\n" * bool(diff), nl=False)
        if len(diff) > _SHOWN_DIFF_LINES:
            click.echo(f"    … {len(diff) - _SHOWN_DIFF_LINES:,} more lines")
        shown[skill.preview.slug] = text
    return shown


def print_warnings(plan: InstallPlan) -> None:
    """Print what is unusual about the sources, and which skills cannot be installed."""
    for warning in plan.warnings:
        print_wrapped(f"Warning: {clean(warning.message)} {clean(warning.hint)}".rstrip(), err=True)
    for name in plan.gone:
        click.echo(f"{one_line(name)}: its source no longer has it. Run `prowess remove {one_line(name)}`.", err=True)
    for skill in plan.skipped:
        print_wrapped(
            f"{one_line(skill.name)}: {clean(skill.error.message)} {clean(skill.error.hint)}".rstrip(), err=True
        )


def choose_skills(plan: InstallPlan) -> InstallPlan:
    """Ask which skills of a source to install; return the plan for those."""
    for number, skill in enumerate(plan.skills, start=1):
        click.echo(f"{number:>3}  {one_line(skill.new.name)}  {one_line(skill.preview.description, 80)}")
    names = [skill.new.name for skill in plan.skills]
    while True:
        typed = str(click.prompt(f"Which skills? [1-{len(names)}, names, or all]", default="", show_default=False))
        words = [word.strip() for word in typed.replace(",", " ").split()]
        if not words:
            raise click.Abort
        if words == ["all"]:
            return plan
        numbers = {str(number): name for number, name in enumerate(names, start=1)}
        chosen = [numbers.get(word, word) for word in words]
        unknown = [word for word in chosen if word not in names]
        if not unknown:
            return plan.only(chosen)
        click.echo(f"Not in the list: {', '.join(map(one_line, unknown))}.", err=True)


def ask_about_plan(plan: InstallPlan, shown: dict[str, str], verb: str) -> tuple[bool, dict[str, str]]:
    """Ask whether to go on with a plan that was shown. Return the answer, and what was seen, by slug."""
    skills = plan.skills
    files = [f"━━ {skill.new.name}\n\n{format_files(skill.new.placed)}" for skill in skills]
    diffs = [f"━━ {skill.new.name}\n\n{format_diff_text(skill)}" for skill in skills if skill.diff]
    views = {"v": ("iew", "\n\n".join(files))} | ({"d": ("iff", "\n\n".join(diffs))} if diffs else {})
    what = f"these {len(skills)} skills" if len(skills) > 1 else "this skill"
    question = f"{verb} {what} and trust {'them' if len(skills) > 1 else 'it'}, exactly as shown?"
    answer, viewed = ask_until(question, {"y": "es", "n": "o"}, views)
    return answer == "y", {slug: f"{text}{viewed}" for slug, text in shown.items()}


def print_result(plan: InstallPlan, result: InstallResult, verb: str) -> None:
    """Print what was installed, and what is not trusted yet."""
    for name in result.installed:
        click.echo(f"{click.style('✓', fg='green')} {verb} {one_line(name)}.")
    _print_unaccepted([skill for skill in plan.skills if skill.preview.slug not in result.accepted])


def _print_unaccepted(skills: Sequence[PlannedSkill]) -> None:
    waiting = [skill.preview.slug for skill in skills if skill.preview.trust != "local"]
    if waiting:
        names = f" {waiting[0]}" if len(waiting) == 1 else ""
        print_wrapped(
            f"Nobody has accepted {'it' if len(waiting) == 1 else f'{len(waiting)} of them'} yet, so agents cannot use "
            f"{'it' if len(waiting) == 1 else 'them'}. At a terminal, run `prowess trust{names}`."
        )
