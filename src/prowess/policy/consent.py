"""The text that a person reads before answering an approval: everything on the card, most severe first, never truncated.

Padding once hid a host from the person who approved it. So nothing is left out: an interface that cannot show all of it
does not ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from prowess.skill.text.hidden import show_hidden

if TYPE_CHECKING:
    from prowess.storage.approvals import ApprovalRow

_VERBS = {"fetch_live": "use, for one conversation,"}

FORM_LIMIT = 8_000
"""The limit for a form shown by another program. Nobody reads more in a dialog, and clients truncate it."""


def list_consent(approval: ApprovalRow) -> list[tuple[str, str]]:
    """Return the facts of a request as (label, text), most severe first: what the skill reaches, findings, what it replaces.

    The texts come from strangers. Each one is a single line, so that none can fake another fact, and hidden characters are
    shown as escapes.
    """
    facts = [
        (
            "Request",
            f"{approval.requester} wants to {_VERBS.get(approval.action, approval.action)} the skill {approval.slug}.",
        ),
        *_list_card(approval),
    ]
    return [(label, flat) for label, text in facts if (flat := show_hidden(" ".join(str(text).split())))]


def consent_text(approval: ApprovalRow) -> str:
    """Return the facts as text, one per line. The same approval always gives the same text."""
    (_, first), *facts = list_consent(approval)
    return "\n".join([first, *(f"{label}: {text}" for label, text in facts)])


def _list_card(approval: ApprovalRow) -> Iterator[tuple[str, str]]:
    card = approval.detail
    yield from (("Requests", request) for request in _texts(card.get("requests")))
    yield from (("Finding", describe_finding(finding)) for finding in list_findings(card))
    yield from (
        ("Replaces", f"a trusted skill of the same name in the {scope} scope") for scope in _texts(card.get("hides"))
    )
    yield "Policy", str(card.get("why") or "")
    yield "Origin", str(card.get("origin") or card.get("source_type") or "")
    yield "Written by", str(card.get("written_by") or "")
    yield "Score", str(card.get("score") or "")
    yield from _list_changes(card.get("previous"))
    yield "Reason given", approval.reason
    yield "Title", str(card.get("title") or "")
    yield "Description", str(card.get("description") or "")
    yield "Text", str(card.get("text") or "")
    yield "Size", f"{card['chars']:,} characters" if card.get("chars") else ""
    yield "Files", str(len(card["files"])) if card.get("files") else ""
    yield "Content", f"sha256 {approval.digest}"


def list_findings(card: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the findings of the security scan, most severe first, without those that are only informative."""
    found = cast("Sequence[object]", card.get("findings") or ())
    findings = [cast("dict[str, Any]", finding) for finding in found if isinstance(finding, dict)]
    findings = [one for one in findings if one.get("severity") != "info"]
    ranks = {severity: rank for rank, severity in enumerate(_SEVERITIES)}
    return sorted(findings, key=lambda one: ranks.get(str(one.get("severity")), 0))


_SEVERITIES = ("danger", "warning")


def describe_finding(finding: Mapping[str, Any]) -> str:
    """Return a finding on one line: how grave it is, what it is, where, and the excerpt."""
    location = f"{finding.get('path', '')}:{finding['line']}" if finding.get("line") else str(finding.get("path", ""))
    what = str(finding.get("message") or finding.get("kind") or "")
    excerpt = str(finding.get("excerpt") or "")
    return f"{finding.get('severity', '')}: {what} ({location})" + (f": {excerpt}" if excerpt else "")


def _list_changes(previous: object) -> Iterator[tuple[str, str]]:
    """Yield what differs from the version that was approved before."""
    if not isinstance(previous, dict):
        return
    before = cast("dict[str, Any]", previous)
    by = f" by {before['by']}" if before.get("by") else ""
    yield "Changed", f"content changed since it was approved{by} (then sha256 {before.get('digest')})"
    for kind in ("changed", "added", "removed"):
        yield f"Files {kind}", "; ".join(_texts(before.get(kind)))


def _texts(values: object) -> list[str]:
    return [str(value) for value in cast("Sequence[object]", values or ())] if isinstance(values, list | tuple) else []
