"""The card that a person sees before answering an approval, and the log entries written when the approval ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

from prowess.policy.rules import Ruling
from prowess.policy.subject import Subject, manifest_changes
from prowess.policy.text import clean_text
from prowess.skill.package import FileEntry
from prowess.storage.approvals import ApprovalRow
from prowess.storage.ledger import AuditEntry, EventEntry

DIFF_LIMIT = 64 * 1024
"""A longer diff is cut on the card. A kept skill can be read in full elsewhere, but a proposed change cannot."""


def make_card(subject: Subject, ruling: Ruling, *, previous: ApprovalRow | None, diff: str = "") -> dict[str, Any]:
    """Return everything a person sees of a request. With `previous`, an approval of other bytes, include what changed."""
    card: dict[str, Any] = {
        "title": clean_text(subject.title) or subject.slug,
        "description": clean_text(subject.description),
        "tags": [clean_text(tag) for tag in subject.tags],
        "scope": subject.scope,
        "source_type": subject.source_type,
        "origin": clean_text(subject.origin),
        "trust": subject.trust,
        "written_by": subject.written_by,
        "chars": subject.chars,
        "files": [asdict(entry) for entry in subject.manifest],
        "requests": [clean_text(request) for request in subject.requests],
        "reach": subject.reach,
        "rule": ruling.rule,
        "why": ruling.reason,
    }
    if previous is not None:
        card["previous"] = {
            "digest": previous.digest,
            "approval_id": previous.id,
            **manifest_changes(_read_files(previous), subject.manifest),
        }
    if diff:
        card["diff"] = clean_text(diff, limit=DIFF_LIMIT)
        # A person must know that they do not see everything.
        card["diff_cut"] = len(diff) > DIFF_LIMIT
    return card


def read_origin(approval: ApprovalRow) -> str:
    """Return where the skill of an earlier request came from."""
    return str(approval.detail.get("origin", ""))


def covers_reach(approval: ApprovalRow, subject: Subject) -> bool:
    """Return True if the approval covers at least the reach that is needed now."""
    shown, wanted = str(approval.detail.get("reach", "")), subject.reach
    return wanted == "" or shown in ("machine", wanted)


def _read_files(approval: ApprovalRow) -> list[FileEntry]:
    """Return the manifest on an earlier card. Unreadable entries are skipped."""
    files = approval.detail.get("files", [])
    rows = cast("list[object]", files) if isinstance(files, list) else []
    entries: list[FileEntry] = []
    for row in rows:
        try:
            entries.append(FileEntry(**cast("dict[str, Any]", row)))
        # A card of another version of Prowess may have other fields.
        except TypeError:
            continue
    return entries


NO_ACTOR = ""
"""The actor of an approval that ended by itself: it expired, or the content changed."""

_OUTCOME_NAMES: Mapping[str, str] = {"denied": "refused"}


def make_end_entries(row: ApprovalRow, *, by: str, why: str = "") -> tuple[AuditEntry, EventEntry]:
    """Return the audit entry and the event for an approval that was answered or revoked, or has expired."""
    outcome = _OUTCOME_NAMES.get(row.state, row.state)
    detail: dict[str, Any] = {"approval_id": row.id, "for": row.action, "requester": row.requester}
    detail |= {key: value for key, value in (("note", row.note), ("why", why)) if value}
    audit = AuditEntry(actor=by, action="approve", slug=row.slug, digest=row.digest, outcome=outcome, detail=detail)
    data: dict[str, Any] = {
        "approval_id": row.id,
        "approved": row.state == "approved",
        "outcome": outcome,
        "skill": {"slug": row.slug, "digest": row.digest},
        "resolver": by,
        "note": row.note,
    }
    event = EventEntry(
        name="approval_resolved", data=data, session_id=row.session_id, user_id=row.user_id, subject=row.slug
    )
    return audit, event
