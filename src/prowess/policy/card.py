"""The card that a person sees before they answer: which bytes, from where, what they ask for, and what changed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

from prowess.policy.plain import plain
from prowess.policy.rules import Ruling
from prowess.policy.subject import Subject, manifest_changes
from prowess.skill.package import FileEntry
from prowess.storage.approvals import ApprovalRow

DIFF_LIMIT = 64 * 1024
"""A longer diff is cut on the card. What is already kept can be read in whole elsewhere; what is only proposed cannot."""


def card_of(subject: Subject, ruling: Ruling, *, previous: ApprovalRow | None, diff: str = "") -> dict[str, Any]:
    """All that is shown of a question. With `previous`, the approval of other bytes of the same skill, what changed."""
    card: dict[str, Any] = {
        "title": plain(subject.title) or subject.slug,
        "description": plain(subject.description),
        "tags": [plain(tag) for tag in subject.tags],
        "scope": subject.scope,
        "source_type": subject.source_type,
        "origin": plain(subject.origin),
        "trust": subject.trust,
        "written_by": subject.written_by,
        "chars": subject.chars,
        "files": [asdict(entry) for entry in subject.manifest],
        "requests": [plain(request) for request in subject.requests],
        "reach": subject.reach,
        "rule": ruling.rule,
        "why": ruling.reason,
    }
    if previous is not None:
        card["previous"] = {
            "digest": previous.digest,
            "approval_id": previous.id,
            **manifest_changes(_files_of(previous), subject.manifest),
        }
    if diff:
        card["diff"] = plain(diff, limit=DIFF_LIMIT)
        card["diff_cut"] = len(diff) > DIFF_LIMIT
    return card


def origin_of(approval: ApprovalRow) -> str:
    """Where the skill of an earlier question was from."""
    return str(approval.detail.get("origin", ""))


def covers(approval: ApprovalRow, subject: Subject) -> bool:
    """Whether what was shown reaches as far beyond the sandbox as what is wanted now."""
    shown, wanted = str(approval.detail.get("reach", "")), subject.reach
    return wanted == "" or shown in ("machine", wanted)


def _files_of(approval: ApprovalRow) -> list[FileEntry]:
    """The manifest on an earlier card; what cannot be read of it counts as not there."""
    files = approval.detail.get("files", [])
    rows = cast("list[object]", files) if isinstance(files, list) else []
    entries: list[FileEntry] = []
    for row in rows:
        try:
            entries.append(FileEntry(**cast("dict[str, Any]", row)))
        except TypeError:
            continue
    return entries
