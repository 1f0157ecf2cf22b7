"""The account of one skill: who let which of its bytes in, when, through which channel, and what they were shown.

The logs say it in order of time. Here it is by content: each digest of the skill that anyone decided about, or that was in
a prompt or a run, with the decisions that let it in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import sqlalchemy as sa

from prowess.storage import skill_records
from prowess.storage.approvals import ApprovalRow
from prowess.storage.clock import now
from prowess.storage.ledger import AuditRow
from prowess.storage.skill_records import PromptUse, RunUse
from prowess.storage.trust import Acceptance


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A person's answer about one digest.

    `how` is `approved` or `denied` for a request; a skill that was accepted without one was `written`, `imported` or
    `trusted`. `shown` is the text that the person saw; `shown_ok` is False if the text
    that is kept is not the one whose hash is in the audit, and None if no text was recorded. `state` says if the answer
    still counts.
    """

    digest: str
    how: str
    by: str
    at: str
    channel: str = ""
    proof: str = ""
    state: str = ""
    action: str = ""
    requester: str = ""
    asked_through: str = ""
    approval_id: str = ""
    note: str = ""
    shown: str = ""
    shown_ok: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillBytes:
    """One digest of a skill: the answers about it, newest first, and where it is in a prompt or was run."""

    digest: str
    current: bool
    answers: tuple[Answer, ...] = ()
    prompts: tuple[PromptUse, ...] = ()
    runs: tuple[RunUse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillAccount:
    """Everything that is recorded about one skill.

    `standing` says why it needs no answer, such as a rule about its folder. `decisions` are its newest rows in the audit,
    oldest first.
    """

    slug: str
    location: str = ""
    digest: str = ""
    trust: str = ""
    standing: str = ""
    contents: tuple[SkillBytes, ...] = ()
    decisions: tuple[AuditRow, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if nothing is recorded about the skill."""
        return not (self.contents or self.decisions)


def read_account(connection: sa.Connection, organization: str, slug: str, *, current: str = "") -> SkillAccount:
    """Return what is recorded about a skill in an organization. `current` is the digest that it has now."""
    decisions = skill_records.list_decisions(connection, organization, slug)
    answers = _read_answers(skill_records.list_approvals(connection, organization, slug), decisions)
    answers += _read_acceptances(skill_records.list_acceptances(connection, organization, slug), decisions)
    answers.sort(key=lambda answer: answer.at, reverse=True)
    prompts = skill_records.list_prompts(connection, organization, slug)
    runs = skill_records.list_runs(connection, organization, slug)
    newest_first = [*answers, *prompts, *runs]
    digests = dict.fromkeys([current] if current else [])
    digests |= dict.fromkeys(one.digest for one in sorted(newest_first, key=lambda one: one.at, reverse=True))
    contents = [
        SkillBytes(
            digest=digest,
            current=digest == current,
            answers=tuple(one for one in answers if one.digest == digest),
            prompts=tuple(one for one in prompts if one.digest == digest),
            runs=tuple(one for one in runs if one.digest == digest),
        )
        for digest in digests
    ]
    known = tuple(one for one in contents if one.answers or one.prompts or one.runs or one.current)
    return SkillAccount(slug=slug, digest=current, contents=known, decisions=tuple(decisions))


def _read_answers(rows: Iterable[ApprovalRow], decisions: Sequence[AuditRow]) -> list[Answer]:
    logged = {
        str(row.detail.get("approval_id")): row
        for row in decisions
        if row.action == "approve" and row.outcome in ("approved", "refused")
    }
    return [_read_answer(row, logged.get(row.id)) for row in rows]


def _read_answer(row: ApprovalRow, logged: AuditRow | None) -> Answer:
    answer = cast("Mapping[str, Any]", row.detail.get("answer") or {})
    shown = str(answer.get("shown", ""))
    shown_sha256 = str(logged.detail.get("shown_sha256", "")) if logged else ""
    is_same = hashlib.sha256(shown.encode()).hexdigest() == shown_sha256
    return Answer(
        digest=row.digest,
        how="denied" if row.state == "denied" else "approved",
        # Revoking an approval replaces who resolved it and when, so the log is asked first.
        by=logged.actor if logged else row.resolver or "",
        at=logged.at if logged else row.resolved_at or "",
        channel=str(answer.get("channel", "")),
        proof=str(answer.get("proof", "")),
        state=_state_now(row),
        action=row.action,
        requester=row.requester,
        asked_through=str(row.detail.get("channel", "")),
        approval_id=row.id,
        note=row.note,
        shown=shown,
        shown_ok=is_same if shown or shown_sha256 else None,
    )


def _read_acceptances(rows: Iterable[Acceptance], decisions: Sequence[AuditRow]) -> list[Answer]:
    """Return the acceptances that are not the consequence of an approval, which is an answer already."""
    logged = {
        (row.digest, row.detail["shown_sha256"])
        for row in decisions
        if row.action == "trust" and row.detail.get("shown_sha256")
    }
    answers: list[Answer] = []
    for row in rows:
        if row.how == "approved":
            continue
        answer = cast("Mapping[str, Any]", row.detail.get("answer") or {})
        shown = str(answer.get("shown", ""))
        sha256 = hashlib.sha256(shown.encode()).hexdigest()
        answers.append(
            Answer(
                digest=row.digest,
                how=row.how,
                by=row.actor,
                at=row.created_at,
                channel=row.channel,
                proof=row.proof,
                state=f"revoked by {row.revoked_by}" if row.revoked_at else "in force",
                shown=shown,
                shown_ok=(row.digest, sha256) in logged if shown else None,
            )
        )
    return answers


def _state_now(row: ApprovalRow) -> str:
    if row.state == "approved" and (row.used_at is not None or row.expires_at <= now()):
        return "used" if row.used_at is not None else "expired"
    return "in force" if row.state == "approved" else row.state
