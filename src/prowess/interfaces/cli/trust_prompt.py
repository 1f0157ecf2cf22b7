"""Show skills that nobody has accepted, and ask the person at the terminal to trust them: one question for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.approval_card import (
    ask_until,
    format_approval_card,
    format_files,
    print_approval_card,
    read_views,
    record_answer,
)
from prowess.interfaces.cli.engine import Cli
from prowess.interfaces.cli.output import clean, one_line, print_wrapped
from prowess.interfaces.cli.person import TYPED, Proof
from prowess.skill.text.hidden import show_hidden

if TYPE_CHECKING:
    from prowess.engine.trust import PreviewedSkill, TrustOutcome, TrustPreview
    from prowess.open import Prowess
    from prowess.storage.approvals import ApprovalRow


def format_previewed(skill: PreviewedSkill) -> str:
    """Return what a person needs to know before trusting a skill: most serious first, nothing cut."""
    from prowess.policy.consent import describe_finding, list_findings

    facts = [f"requests {request}" for request in skill.requests]
    facts += [describe_finding(finding) for finding in list_findings({"findings": list(skill.findings)})]
    facts += [f"hides a trusted skill with the same name in the {scope} scope" for scope in skill.hides]
    if skill.accepted:
        facts.append(f"changed since it was accepted (sha256 {skill.accepted[:16]})")
    if skill.written_by:
        facts.append(f"written by {skill.written_by}")
    facts.append(skill.description)
    lines = [
        f"{skill.slug}  {skill.location}  {skill.files} file{'s' * (skill.files != 1)}, sha256 {skill.digest[:16]}"
    ]
    return "\n".join([one_line(show_hidden(lines[0])), *(f"  {one_line(show_hidden(fact))}" for fact in facts if fact)])


def print_preview(skills: Sequence[PreviewedSkill]) -> dict[str, str]:
    """Print skills, and return the text that was printed about each one, by slug."""
    shown = {skill.slug: format_previewed(skill) for skill in skills}
    for text in shown.values():
        head, _, rest = text.partition("\n")
        click.secho(head, bold=True)
        click.echo(rest)
    return shown


def read_trust_views(skills: Sequence[PreviewedSkill], cli: Cli) -> dict[str, tuple[str, str]]:
    """Return the texts a person can view before answering, by the key to type: the files and the changes."""

    async def read(prowess: Prowess) -> tuple[list[str], list[str]]:
        files: list[str] = []
        changes: list[str] = []
        for skill in skills:
            package = await prowess.trust.package(skill)
            diff = await prowess.trust.diff(skill) if skill.accepted else ""
            files += [f"━━ {skill.slug}\n\n{format_files(package)}"] if package else []
            changes += [f"━━ {skill.slug}\n\n{clean(show_hidden(diff))}"] if diff else []
        return files, changes

    files, changes = cli.call(read)
    views = {"v": ("iew", "\n\n".join(files))} if files else {}
    return views | ({"d": ("iff", "\n\n".join(changes))} if changes else {})


def ask_to_trust(preview: TrustPreview, cli: Cli) -> tuple[TrustPreview, dict[str, str]]:
    """Show the skills of a preview and ask once about all of them. Return those to trust, and what was shown, by slug."""
    shown = print_preview(preview.skills)
    click.echo("")
    count = len(preview.skills)
    harmless = tuple(skill for skill in preview.skills if not _is_dangerous(skill))
    answers = {"y": "es", "n": "o"}
    if 0 < len(harmless) < count:
        names = ", ".join(one_line(skill.slug) for skill in preview.skills if _is_dangerous(skill))
        print_wrapped(f"{count - len(harmless)} of them with dangerous findings: {names}")
        answers = {"y": f"es, all {count}", "o": f"nly the other {len(harmless)}", "n": "o"}
    question = f"Trust {f'these {count} skills' if count > 1 else 'this skill'}, exactly as {'they are' if count > 1 else 'it is'} now?"
    answer, viewed = ask_until(question, answers, read_trust_views(preview.skills, cli))
    chosen = {"y": preview.skills, "o": harmless, "n": ()}[answer]
    return replace(preview, skills=chosen), {slug: f"{text}{viewed}" for slug, text in shown.items()}


def _is_dangerous(skill: PreviewedSkill) -> bool:
    return any(finding.get("severity") == "danger" for finding in skill.findings)


def ask_about_found(row: ApprovalRow, cli: Cli) -> bool:
    """Ask about a skill that nobody has accepted, together with all other such skills: one question for a workspace.

    Record the answer, and return True if the skill that was asked about may be used.
    """
    preview = cli.call(lambda prowess: prowess.trust.preview())
    others = tuple(skill for skill in preview.skills if skill.slug != row.slug)
    print_approval_card(row)
    answers = {"y": "es", "n": "o"}
    question = "Trust this skill, exactly as it is now?"
    shown: dict[str, str] = {}
    if others:
        count = len(others)
        click.echo(f"\nAlso not accepted yet: {count} skill{'s' * (count != 1)}\n")
        shown = print_preview(others)
        answers = {"y": f"es, all {count + 1}", "o": "nly this one", "n": "o"}
        question = f"Trust the {count + 1} skills, exactly as they are now?"
    click.echo("")
    answer, viewed = ask_until(question, answers, read_views(row, cli))
    record_answer(row.id, cli, approved=answer != "n", proof=TYPED, shown=f"{format_approval_card(row)}{viewed}")
    if answer == "y" and others:
        print_outcome(accept_preview(replace(preview, skills=others), cli, proof=TYPED, shown=shown), already=1)
    return answer != "n"


def accept_preview(preview: TrustPreview, cli: Cli, *, proof: Proof, shown: Mapping[str, str]) -> TrustOutcome:
    """Record that a person trusts the skills of a preview, with the proof and what they were shown."""
    return cli.call(
        lambda prowess: prowess.trust.accept(preview, proof=proof.words, shown=shown),
        channel=proof.channel,
    )


def print_outcome(outcome: TrustOutcome, *, already: int = 0) -> None:
    """Print how many skills were accepted, including `already`, and which were not because they changed in the meantime."""
    count = len(outcome.accepted) + already
    click.echo(f"Trusted {count} skill{'s' * (count != 1)}.")
    for slug in outcome.changed:
        click.echo(f"{clean(slug)} changed in the meantime and is not trusted. Run the command again.", err=True)
