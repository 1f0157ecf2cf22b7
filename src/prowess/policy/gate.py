"""The gate: the one check that every consequential action passes, in the transaction of the action itself.

The rules decide. If a person has to be asked, the gate looks for an approval of exactly these bytes, and requests one if
there is none. Nothing here writes to the logs: an `Admission` carries the log entries, so that the caller can append them
together with its own, commit, and only then raise the error. A refused attempt is logged too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prowess.errors import ApprovalDenied, ApprovalRequired, NotFound, ProwessError, Refused
from prowess.lazy_dataclass import dataclass
from prowess.policy.actor import Actor, approval_group, is_single_use
from prowess.policy.card import NO_ACTOR, covers_use, explain_unreviewable, make_card, make_end_entries, read_origin
from prowess.policy.organization import OrgPolicy
from prowess.policy.roles import Role, find_role
from prowess.policy.rules import Ruling, apply_rules
from prowess.policy.subject import Subject
from prowess.policy.text import clean_text
from prowess.policy.trust import NEEDS_ACCEPTANCE
from prowess.storage import approvals
from prowess.storage.approvals import ApprovalRow, list_in_force, list_resolved
from prowess.storage.clock import now
from prowess.storage.ledger import AuditEntry, EventEntry
from prowess.storage.trust import Acceptance, list_acceptances

if TYPE_CHECKING:
    import sqlalchemy as sa

PENDING_LIMIT = 100
"""How many requests of one requester may be pending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The decision of the gate. The caller raises `error`, if there is one, after it has committed."""

    ruling: Ruling
    subject: Subject | None = None
    """The skill that the decision is about, with its trust at that moment."""
    error: ProwessError | None = None
    approval: ApprovalRow | None = None
    audits: tuple[AuditEntry, ...] = ()
    events: tuple[EventEntry, ...] = ()

    @property
    def allowed(self) -> bool:
        """True if the action may proceed."""
        return self.error is None

    def after(self, logs: Sequence[tuple[AuditEntry, EventEntry]]) -> Admission:
        """Return the admission with log entries that come before its own."""
        audits, events = tuple(audit for audit, _ in logs), tuple(event for _, event in logs)
        return replace(self, audits=audits + self.audits, events=events + self.events)


def judge(actor: Actor, action: str, subject: Subject | None, policy: OrgPolicy) -> Ruling:
    """Apply the rules with the actor's role looked up. An unknown role is denied."""
    role: Role | None = None
    if actor.role:
        try:
            role = find_role(actor.role, policy)
        except NotFound as error:
            return Ruling(answer="deny", rule="unknown-role", reason=error.message, hint=error.hint)
    return apply_rules(actor, action, subject, policy, role)


def admit(
    connection: sa.Connection,
    actor: Actor,
    action: str,
    subject: Subject | None,
    *,
    policy: OrgPolicy,
    session_id: str = "",
    reason: str = "",
    diff: str = "",
) -> Admission:
    """Decide about one action. The last audit entry is about this decision; the others come before it.

    The caller has resolved the trust of the subject (`policy.trust.resolve`) in the same transaction; otherwise it counts
    as found.

    `reason` is why the actor wants it. `diff` is shown to the person who is asked if the bytes have changed since
    `find_last_approved`. A single-use approval is consumed here.
    """
    subject = subject and subject.for_actor(actor)
    attempt = _Attempt(actor=actor, action=action, subject=subject, session_id=session_id, reason=clean_text(reason))
    ruling = judge(actor, action, subject, policy)
    if ruling.answer == "allow":
        return attempt.admission(ruling, "allowed")
    if ruling.answer == "ask" and subject is not None:
        return _admit_with_approval(connection, attempt, subject, ruling, policy, diff)
    # A skill that is switched off is gone for everyone who wants to use it.
    kind = NotFound if ruling.rule == "disabled" else Refused
    return attempt.admission(ruling, "denied", error=kind(ruling.reason, hint=ruling.hint))


def preview_all(
    connection: sa.Connection, actor: Actor, action: str, subjects: Sequence[Subject], policy: OrgPolicy
) -> list[Ruling]:
    """Return what `admit` would decide about each skill now, in their order, given the approvals there are.

    Nothing is asked, consumed or written. All skills together cost a few queries.
    """
    rulings = [judge(actor, action, subject, policy) for subject in subjects]
    # Only requests need the database; most skills are allowed or denied by a rule alone.
    pairs = zip(subjects, rulings, strict=True)
    slugs = list(dict.fromkeys(subject.slug for subject, ruling in pairs if ruling.answer == "ask"))
    group = approval_group(action)
    resolved = (
        list_in_force(connection, actor.owner, action_group=group, slugs=slugs, requester=actor.label) if slugs else {}
    )
    return [
        _preview(actor, subject, ruling, resolved.get(subject.slug, ())) if ruling.answer == "ask" else ruling
        for subject, ruling in zip(subjects, rulings, strict=True)
    ]


def _preview(actor: Actor, subject: Subject, ruling: Ruling, resolved: Sequence[ApprovalRow]) -> Ruling:
    """Return the ruling on a request, given the approvals that are in force."""
    same = [row for row in resolved if row.digest == subject.digest]
    usable = () if needs_acceptance(subject, ruling) else same
    yes = next((row for row in usable if _is_in_force(row) and covers_use(row, subject)), None)
    if yes is not None:
        return _approved_ruling(yes)
    # Newest first: a denial that was followed by another answer is no longer in force.
    no = None if actor.is_person else next(iter(same), None)
    return _refused_ruling(no) if no is not None and no.state == "denied" else ruling


def find_last_approved(connection: sa.Connection, actor: Actor, action: str, subject: Subject) -> ApprovalRow | None:
    """Return the newest approval of this actor for other bytes of the same skill, to show a diff against."""
    return next(iter(_find_approvals(connection, actor, action, subject.for_actor(actor))), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """One attempted action, and how it is logged."""

    actor: Actor
    action: str
    subject: Subject | None
    session_id: str
    reason: str

    def admission(
        self,
        ruling: Ruling,
        outcome: str,
        *,
        error: ProwessError | None = None,
        approval: ApprovalRow | None = None,
    ) -> Admission:
        detail: dict[str, Any] = {"rule": ruling.rule, "why": ruling.reason, "kind": self.actor.kind}
        optional = {
            "role": self.actor.role,
            "session_id": self.session_id,
            "reason": self.reason,
            "trust": self.subject.trust if self.subject else "",
            "hides": list(self.subject.hides_trusted) if self.subject else (),
            "uses": [entry.description for entry in self.subject.uses] if self.subject else (),
            "approval_id": approval.id if approval else "",
        }
        entry = AuditEntry(
            actor=self.actor.label,
            channel=self.actor.channel,
            action=clean_text(self.action, limit=40),
            slug=self.subject.slug if self.subject else "",
            digest=self.subject.digest if self.subject else "",
            outcome=outcome,
            detail=detail | {key: value for key, value in optional.items() if value},
        )
        return Admission(ruling=ruling, subject=self.subject, error=error, approval=approval, audits=(entry,))


def _admit_with_approval(
    connection: sa.Connection, attempt: _Attempt, subject: Subject, ruling: Ruling, policy: OrgPolicy, diff: str
) -> Admission:
    yes = None if needs_acceptance(subject, ruling) else _use_approval(connection, attempt, subject)
    if yes is not None:
        return attempt.admission(_approved_ruling(yes), "allowed", approval=yes)
    no = _find_refusal(connection, attempt, subject)
    if no is not None:
        denied = _refused_ruling(no)
        return attempt.admission(denied, "denied", error=ApprovalDenied(denied.reason, hint=denied.hint), approval=no)
    return _request_approval(connection, attempt, subject, ruling, policy, diff)


def needs_acceptance(subject: Subject, ruling: Ruling) -> bool:
    """Return True if no approval of a requester is enough: the skill itself has to be accepted.

    Approving such a request accepts the skill, so once it is accepted this rule no longer asks. An approval alone would
    outlive the acceptance when that is revoked.
    """
    return subject.trust in ("found", "local") and ruling.rule in NEEDS_ACCEPTANCE


def _approved_ruling(yes: ApprovalRow) -> Ruling:
    return Ruling(
        answer="allow", rule="approved", reason=f"Allowed: {yes.resolver} approved this version of the skill."
    )


def _refused_ruling(no: ApprovalRow) -> Ruling:
    message = f"{no.resolver} denied this request for {no.slug!r}" + (f": {no.note}" if no.note else ".")
    return Ruling(
        answer="deny", rule="refused", reason=message, hint="Continue without the skill, or ask the user to reconsider."
    )


def _find_approval(connection: sa.Connection, attempt: _Attempt, subject: Subject) -> ApprovalRow | None:
    """Return the approval of exactly these bytes for this requester with sufficient reach, or None."""
    found = approvals.find_granted(
        connection,
        attempt.actor.owner,
        action_group=approval_group(attempt.action),
        slug=subject.slug,
        digest=subject.digest,
        requester=attempt.actor.label,
    )
    # The newest approval may have been given for a run that reaches less far; an older one may still cover this one.
    if found is None or covers_use(found, subject):
        return found
    farther = (
        row for row in _read_history(connection, attempt.actor, attempt.action, subject) if covers_use(row, subject)
    )
    return next((row for row in farther if row.digest == subject.digest and _is_in_force(row)), None)


def _is_in_force(row: ApprovalRow) -> bool:
    return row.state == "approved" and row.used_at is None and row.expires_at > now()


def _use_approval(connection: sa.Connection, attempt: _Attempt, subject: Subject) -> ApprovalRow | None:
    """Return that approval; consume it if it is for a single use."""
    found = _find_approval(connection, attempt, subject)
    # Two callers may find the same approval at the same time; `use` succeeds for one of them.
    if found is not None and is_single_use(attempt.action) and not approvals.use(connection, found.id):
        return None
    return found


def _find_refusal(connection: sa.Connection, attempt: _Attempt, subject: Subject) -> ApprovalRow | None:
    """Return the denial of these bytes for an agent while it is in force, so that the user is not asked again and again.

    It holds for all conversations of the agent, because an agent could simply start another one. A person may ask again.
    """
    if attempt.actor.is_person:
        return None
    for row in _read_history(connection, attempt.actor, attempt.action, subject):
        if row.digest == subject.digest:
            # The newest answer about these bytes decides; a later approval replaces a denial.
            return row if row.state == "denied" and row.expires_at > now() else None
    return None


def _request_approval(
    connection: sa.Connection, attempt: _Attempt, subject: Subject, ruling: Ruling, policy: OrgPolicy, diff: str
) -> Admission:
    # Overdue requests are closed first; otherwise they would count against the limit of pending ones.
    overdue = approvals.expire(connection, attempt.actor.organization)
    logs = [make_end_entries(row, by=NO_ACTOR) for row in overdue]
    question: dict[str, Any] = {
        "action": approval_group(attempt.action),
        "slug": subject.slug,
        "digest": subject.digest,
        "requester": attempt.actor.label,
    }
    # Asking the same again joins the pending request, so it is allowed even at the limit.
    if not approvals.is_pending(connection, attempt.actor.owner, **question) and _is_at_pending_limit(
        connection, attempt
    ):
        message = f"{attempt.actor.name} already has {PENDING_LIMIT} pending approval requests, which is the limit."
        hint = "Answer some of them first: `prowess approvals` lists them."
        full = Ruling(answer="deny", rule="too-many-questions", reason=message, hint=hint)
        return attempt.admission(full, "denied", error=Refused(message, hint=hint)).after(logs)
    # A person must not approve a change that they cannot see.
    is_proposed = attempt.action == "update" or subject.drafted
    if is_proposed and (message := explain_unreviewable(subject.slug, diff)):
        hint = "Ask the user to make this change."
        large = Ruling(answer="deny", rule="too-large-to-review", reason=message, hint=hint)
        return attempt.admission(large, "denied", error=Refused(message, hint=hint)).after(logs)
    # Same origin only: another skill of the same slug neither uses nor ends an approval.
    before = _find_approvals(connection, attempt.actor, attempt.action, subject)
    revoked = _revoke_outdated(connection, attempt, before)
    previous = before[0] if before else _find_accepted(connection, attempt, subject)
    row, is_new = approvals.ask(
        connection,
        attempt.actor.owner,
        **question,
        session_id=attempt.session_id,
        reason=attempt.reason,
        detail=make_card(
            subject,
            ruling,
            previous=previous,
            diff=diff,
            channel=attempt.actor.channel,
            score=_find_score(connection, attempt.actor, subject),
        ),
        lifetime_seconds=policy.approval_minutes * 60,
    )
    reason = ruling.reason
    if previous:
        found = "Approval required: this skill has changed since the last approval."
        reason = found if ruling.rule == "found" else f"{reason} Its content has changed since the last approval."
    error = ApprovalRequired(reason, approval_id=row.id, hint=_answer_hint(attempt.actor, row))
    admission = attempt.admission(ruling, "asked", error=error, approval=row)
    logs += [make_end_entries(row, by=NO_ACTOR, why="content-changed") for row in revoked]
    return replace(admission, events=(_make_request_event(row, subject),) if is_new else ()).after(logs)


def _find_score(connection: sa.Connection, actor: Actor, subject: Subject) -> str:
    """Return the score of exactly these bytes, in words; '' if they were not evaluated."""
    from prowess.storage.evals import read_scores  # nobody is asked about most skills

    found = read_scores(connection, actor.organization, [subject.digest])
    return next((score.text for score in found if score.skill_slug == subject.slug), "")


def _answer_hint(actor: Actor, row: ApprovalRow) -> str:
    # Neither hint has the command that approves: an agent that reads it should ask the person, not answer for them.
    if actor.is_person:
        first = "Run the command again in a terminal to answer, or review" if actor.channel == "cli" else "Review"
        return f"{first} the request with `prowess approvals show {row.id[:8]}`."
    return f"Tell the user that request {row.id[:8]} is waiting for approval. Continue with something else until then."


def _is_at_pending_limit(connection: sa.Connection, attempt: _Attempt) -> bool:
    """Return True if the requester has as many pending requests as a person could answer."""
    return approvals.count_pending(connection, attempt.actor.owner, attempt.actor.label) >= PENDING_LIMIT


def _find_accepted(connection: sa.Connection, attempt: _Attempt, subject: Subject) -> Acceptance | None:
    """Return the newest acceptance of other bytes of the same skill from the same origin, to show what changed."""
    acceptances = list_acceptances(connection, attempt.actor.owner, slug=subject.slug)
    same = (acceptance for acceptance in acceptances if acceptance.origin == clean_text(subject.origin))
    return next((one for one in same if one.digest != subject.digest), None)


def _revoke_outdated(connection: sa.Connection, attempt: _Attempt, before: list[ApprovalRow]) -> list[ApprovalRow]:
    """Revoke approvals of older bytes, so that nobody returns to them without being asked again."""
    if is_single_use(attempt.action):
        return []
    # Sorted, so that two transactions revoke the same rows in the same order and cannot deadlock.
    outdated = sorted(row.id for row in before if row.state == "approved" and row.expires_at > now())
    revoked = [
        approvals.revoke(connection, attempt.actor.organization, row_id, NO_ACTOR, note="The content has changed.")
        for row_id in outdated
    ]
    return [row for row in revoked if row is not None]


def _find_approvals(connection: sa.Connection, actor: Actor, action: str, subject: Subject) -> list[ApprovalRow]:
    """Return approvals of other bytes from the same origin, newest first, including those revoked for that reason."""
    return [
        row
        for row in _read_history(connection, actor, action, subject)
        if row.digest != subject.digest
        and read_origin(row) == clean_text(subject.origin)
        and (row.state == "approved" or (row.state == "revoked" and row.resolver == NO_ACTOR))
    ]


def _read_history(connection: sa.Connection, actor: Actor, action: str, subject: Subject) -> list[ApprovalRow]:
    return list_resolved(
        connection, actor.owner, action_group=approval_group(action), slug=subject.slug, requester=actor.label
    )


# To the interface that shows the request, fetching a skill is enabling it.
_REQUEST_TYPES = {
    "enable": "skill_enablement",
    "fetch_live": "skill_enablement",
    "connect": "connector_access",
    "call_tool": "connector_call",
}


def _make_request_event(row: ApprovalRow, subject: Subject) -> EventEntry:
    kind = _REQUEST_TYPES.get(row.action, f"skill_{row.action}")
    data = {
        "type": kind,
        "approval_id": row.id,
        "skill": subject.announced,
        "reason": row.reason,
        "requester": row.requester,
        "session_id": row.session_id,
        "expires_at": row.expires_at,
    }
    return EventEntry(
        name="approval_required", data=data, session_id=row.session_id, user_id=row.user_id, subject=row.slug
    )
