"""The card that a person sees before answering an approval, and the log entries written when the approval ends."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

from prowess.policy.rules import Ruling
from prowess.policy.subject import Subject, manifest_changes
from prowess.policy.text import clean_text
from prowess.skill.edit import UNSHOWN
from prowess.skill.json_values import json_list
from prowess.skill.package import FileEntry
from prowess.storage.approvals import ApprovalRow
from prowess.storage.ledger import AuditEntry, EventEntry
from prowess.storage.trust import Acceptance

DIFF_LIMIT = 64 * 1024
"""A longer diff is cut on the card. A kept skill can be read in full elsewhere, but a proposed change cannot."""


def explain_unreviewable(slug: str, diff: str) -> str:
    """Return why a person could not see all of a proposed change on its card; '' if they can."""
    if len(diff) > DIFF_LIMIT:
        return f"The change to {slug!r} is too large to review: its diff has {len(diff):,} characters."
    if any(line.startswith(UNSHOWN) for line in diff.split("\n")):
        return f"The change to {slug!r} cannot be reviewed: it has a file that is binary or too large to show."
    return ""


def make_card(
    subject: Subject,
    ruling: Ruling,
    *,
    previous: ApprovalRow | Acceptance | None,
    diff: str = "",
    channel: str = "",
    score: str = "",
) -> dict[str, Any]:
    """Return everything a person sees of a request, which came in through `channel`.

    `score` is what an evaluation of exactly these bytes gave. With `previous`, an approval or acceptance of other bytes, include what changed.
    """
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
        # What it uses besides its own files stands with what it asks for, so that every interface shows it.
        "requests": [
            clean_text(request, limit=len(request))
            for request in (*subject.requests, *(entry.description for entry in subject.uses))
        ],
        "uses": [entry.key for entry in subject.uses],
        "reach": subject.reach,
        "sends_out": subject.sends_out,
        "hides": list(subject.hides_trusted),
        "findings": [_clean_finding(finding) for finding in subject.findings if finding.get("severity") != "info"],
        "rule": ruling.rule,
        "why": ruling.reason,
        "channel": channel,
    }
    if score:
        card["score"] = score
    if subject.text:
        card["text"] = clean_text(subject.text, limit=len(subject.text))
    if previous is not None:
        by = previous.actor if isinstance(previous, Acceptance) else previous.resolver
        card["previous"] = {"digest": previous.digest, "by": by or ""}
        if isinstance(previous, ApprovalRow):
            card["previous"]["approval_id"] = previous.id
        # Acceptances by writing or importing name no files: those are in the versions of the skill.
        if before := read_files(previous.detail):
            card["previous"] |= manifest_changes(before, subject.manifest)
    if diff:
        card["diff"] = clean_text(diff, limit=DIFF_LIMIT)
        # A person must know that they do not see everything.
        card["diff_cut"] = len(diff) > DIFF_LIMIT
    return card


def _clean_finding(finding: Mapping[str, Any]) -> dict[str, Any]:
    """Return a finding whose texts, which quote the skill, are safe to show."""
    return {key: clean_text(value) if isinstance(value, str) else value for key, value in finding.items()}


def add_answer(card: Mapping[str, Any], *, channel: str, proof: str, shown: str) -> dict[str, Any]:
    """Return the card with how it was answered: the channel, the proof that a person did, and the text they were shown."""
    answer = {"channel": channel, "proof": clean_text(proof)}
    if shown:
        # Not cut: the audit row has the hash of exactly this text.
        text = clean_text(shown, limit=len(shown))
        answer |= {"shown": text, "shown_sha256": hashlib.sha256(text.encode()).hexdigest()}
    return {**card, "answer": answer}


def _read_answer(approval: ApprovalRow) -> dict[str, Any]:
    """Return what the audit says about an answer: the proof, and the hash of the text that was shown."""
    answer: dict[str, Any] = approval.detail.get("answer") or {}
    return {name: answer[name] for name in ("proof", "shown_sha256") if answer.get(name)}


def read_origin(approval: ApprovalRow) -> str:
    """Return where the skill of an earlier request came from."""
    return str(approval.detail.get("origin", ""))


def covers_use(approval: ApprovalRow, subject: Subject) -> bool:
    """Return True if the person who approved saw at least the reach, the prompts, and what is hidden, that a use means now."""
    card = approval.detail
    known_reach, reach = str(card.get("reach", "")), subject.reach
    if reach and known_reach not in ("machine", reach):
        return False
    # Sending out is a matter of runs; an approval to read the skill need not show it.
    if reach and subject.sends_out and card.get("sends_out") is not True:
        return False
    if not {entry.key for entry in subject.uses} <= set(cast("list[str]", card.get("uses") or ())):
        return False
    return set(subject.hides_trusted) <= set(cast("list[str]", card.get("hides") or ()))


def read_files(card: Mapping[str, Any]) -> list[FileEntry]:
    """Return the manifest on an earlier card. Unreadable entries are skipped."""
    entries: list[FileEntry] = []
    for row in json_list(card.get("files")):
        try:
            entries.append(FileEntry(**cast("dict[str, Any]", row)))
        # A card of another version of Prowess may have other fields.
        except TypeError:
            continue
    return entries


NO_ACTOR = ""
"""The actor of an approval that ended by itself: it expired, or the content changed."""

_OUTCOME_NAMES: Mapping[str, str] = {"denied": "refused"}


def make_end_entries(row: ApprovalRow, *, by: str, channel: str = "", why: str = "") -> tuple[AuditEntry, EventEntry]:
    """Return the audit entry and the event for an approval that was answered or revoked, or has expired.

    `channel` is that of the actor who ended it.
    """
    outcome = _OUTCOME_NAMES.get(row.state, row.state)
    detail: dict[str, Any] = {"approval_id": row.id, "for": row.action, "requester": row.requester}
    detail |= {key: value for key, value in (("note", row.note), ("why", why)) if value}
    # A revocation needs no proof; the proof of the answer that it takes back is in the row of that answer.
    detail |= _read_answer(row) if row.state in ("approved", "denied") else {}
    audit = AuditEntry(
        actor=by,
        channel=channel,
        action="approve",
        slug=row.slug,
        digest=row.digest,
        outcome=outcome,
        detail=detail,
    )
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
