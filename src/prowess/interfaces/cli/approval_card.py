"""Show an approval request, and ask the person at the terminal to approve or deny it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prowess.errors import ApprovalDenied, ApprovalRequired
from prowess.interfaces.cli.engine import Cli
from prowess.interfaces.cli.output import clean, escape_path, one_line
from prowess.interfaces.cli.server import chosen_server

if TYPE_CHECKING:
    from prowess.interfaces.cli.person import Proof
    from prowess.open import Prowess
    from prowess.skill.package import Package
    from prowess.storage.approvals import ApprovalRow


def format_approval_card(row: ApprovalRow) -> str:
    """Return an approval request as text: everything needed to answer it, most serious first, nothing cut."""
    from prowess.policy.consent import list_consent
    from prowess.skill.text.hidden import show_hidden

    card: dict[str, Any] = row.detail
    facts = [(label, text) for label, text in list_consent(row) if label not in ("Files", "Text")]
    facts += [
        ("Approval", f"{row.id}, {row.state}"),
        ("Channel", str(card.get("channel", ""))),
        ("Expires", format_time(row.expires_at)),
        ("Answered", _describe_answer(row)),
    ]
    width = max(len(label) for label, _ in facts) + 2
    lines = [f"{label.ljust(width)}{one_line(text)}" for label, text in facts if text]
    files: list[dict[str, Any]] = card.get("files", [])
    if files:
        lines.append(f"Files ({len(files)})")
    lines += [f"  {escape_path(file['path'])}  {file['size']:,} bytes  {file['sha256'][:12]}" for file in files]
    if card.get("text"):
        # Behind a mark, so that no line of it can pass for a fact of the card.
        text = clean(show_hidden(str(card["text"])))
        lines += ["Text", *(f"  │ {line}" for line in text.splitlines())]
    return "\n".join(lines)


def print_approval_card(row: ApprovalRow) -> None:
    """Print an approval request."""
    for line in format_approval_card(row).splitlines():
        label, gap, text = line.partition("  ")
        click.echo(f"{click.style(label, bold=True)}{gap}{text}" if label else line)


def _describe_answer(row: ApprovalRow) -> str:
    if not row.resolved_at:
        return ""
    answer: dict[str, Any] = row.detail.get("answer") or {}
    proof = f" ({answer['proof']})" if answer.get("proof") else ""
    return f"{row.state} by {row.resolver or 'no one'}{proof}" + (f": {row.note}" if row.note else "")


def format_files(package: Package) -> str:
    """Return the files of a skill as text for a person, with every hidden character written out."""
    from prowess.scan.languages import text_of_file
    from prowess.skill.text.hidden import show_hidden

    parts: list[str] = []
    for file in package.files:
        text = text_of_file(file)
        shown = f"(not text, sha256 {file.entry.sha256})" if text is None else show_hidden(text)
        parts.append(f"── {file.path}, {len(file.content):,} bytes\n{shown}")
    return clean("\n\n".join(parts))


def format_time(at: str) -> str:
    """Return an ISO timestamp in a readable form, to the second. The time stays in UTC."""
    return at[:19].replace("T", " ")


T = TypeVar("T")


def ask_for_approval(cli: Cli, work: Callable[[], T], *, question: str, refusal: str) -> T:
    """Call `work` and return its result. If it needs an approval, ask the person at the terminal and call it again.

    Raise `ApprovalRequired` unchanged with `--json` or without a terminal, and `ApprovalDenied` with the text
    `refusal` if the person denies it.
    """
    try:
        return work()
    except ApprovalRequired as required:
        from prowess.interfaces.cli.person import at_terminal

        if cli.as_json or not at_terminal():
            raise
        if not ask_person(required.approval_id, cli, question):
            raise ApprovalDenied(refusal, hint="Run the command again to be asked again.") from None
        return work()


def ask_person(approval_id: str, cli: Cli, question: str) -> bool:
    """Show a request to the person at the terminal, record the answer, and return True if it was approved."""
    from prowess.interfaces.cli.person import TYPED

    row = cli.call(lambda prowess: prowess.approvals.get(approval_id))
    # On a server, an answer is about this request; accepting what is found in its folders is up to its operator.
    if row.detail.get("rule") == "found" and chosen_server() is None:
        from prowess.interfaces.cli.trust_prompt import ask_about_found

        return ask_about_found(row, cli)
    yes, shown = show_and_ask(row, cli, question)
    record_answer(row.id, cli, approved=yes, proof=TYPED, shown=shown)
    return yes


def record_answer(
    approval_id: str, cli: Cli, *, approved: bool, proof: Proof, shown: str = "", note: str = ""
) -> ApprovalRow:
    """Record the answer of a person, with the proof that a person gave it and the text they saw."""
    return cli.call(
        lambda prowess: prowess.approvals.resolve(
            approval_id, approved=approved, note=note, proof=proof.words, shown=shown
        ),
        channel=proof.channel,
    )


def show_and_ask(row: ApprovalRow, cli: Cli, question: str) -> tuple[bool, str]:
    """Show a request and ask until the person answers yes or no. Return the answer and the text they saw."""
    print_approval_card(row)
    click.echo("")
    answer, viewed = ask_until(question, {"y": "es", "n": "o"}, read_views(row, cli))
    return answer == "y", f"{format_approval_card(row)}{viewed}"


def ask_until(question: str, answers: Mapping[str, str], views: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """Ask until the person types an answer, or the start of one. An empty line means no.

    `answers` maps each key to the rest of its name. A key in `views` shows a text and asks again. Return the key of the
    answer, and lines that record what the person viewed.
    """
    names = {**answers, **{key: name for key, (name, _) in views.items()}}
    choices = ", ".join(f"[{key}]{name}" for key, name in names.items())
    viewed = ""
    while True:
        typed = click.prompt(f"{question} {choices}", default="no", show_default=False)
        word = str(typed).strip().lower()
        key = next((key for key, name in names.items() if word and f"{key}{name}".startswith(word)), "")
        if key in answers:
            return key, viewed
        if key in views:
            name, text = views[key]
            click.echo_via_pager(text if text.endswith("\n") else f"{text}\n")
            note = f"\nThe person viewed: {key}{name}."
            viewed += "" if note in viewed else note


def read_views(row: ApprovalRow, cli: Cli) -> dict[str, tuple[str, str]]:
    """Return the texts a person can view before answering, by the key to type: the files and the changes."""

    async def read(prowess: Prowess) -> tuple[Package | None, str]:
        return await prowess.approvals.package(row.id), await prowess.approvals.diff(row.id)

    package, diff = cli.call(read)
    views: dict[str, tuple[str, str]] = {}
    if package is not None:
        views["v"] = ("iew", format_files(package))
    if diff:
        from prowess.skill.text.hidden import show_hidden

        views["d"] = ("iff", clean(show_hidden(diff)))
    return views
