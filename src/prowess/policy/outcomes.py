"""What is written down when an approval comes to its end: one audit entry and one event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prowess.storage.approvals import ApprovalRow
from prowess.storage.ledger import AuditEntry, EventEntry

NOBODY = ""
"""Who has acted where an approval ended by itself: its time was over, or the content changed."""

_OUTCOMES: Mapping[str, str] = {"denied": "refused"}


def ended(row: ApprovalRow, *, by: str, why: str = "") -> tuple[AuditEntry, EventEntry]:
    """The entries for an approval that was `approved`, `refused` or `revoked` by somebody, or has `expired`."""
    outcome = _OUTCOMES.get(row.state, row.state)
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
