"""Enabling and disabling: a skill's text enters or leaves the prompt of a session.

Each change is one transaction: what the gate decided, the room that was reserved, the text that enters, the audit row
and the event stand or fall together. What was enabled stays in the session as the very bytes that were admitted; where
the skill has other bytes by the time it is used, it passes the gate again or leaves the prompt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from prowess.catalog.catalog import Catalog
from prowess.errors import Conflict, NotFound, ProwessError, Unavailable
from prowess.policy.actions import Action
from prowess.policy.actor import Actor
from prowess.policy.gate import admit, judge, last_approved
from prowess.policy.policies import read_policy
from prowess.session.budget import over_budget
from prowess.session.changes import diff_since
from prowess.session.session import EnabledSkill, Session
from prowess.session.sessions import acting_in, found, locked, opened, session_of
from prowess.session.text import SkillText, fetched_text, read_text
from prowess.session.tokens import estimate
from prowess.skill.limits import Limits
from prowess.skill.package import Package
from prowess.storage import ledger, sessions
from prowess.storage.approvals import ApprovalRow, get_approval
from prowess.storage.database import Connections
from prowess.storage.ledger import AuditEntry, EventEntry
from prowess.storage.sessions import EnabledRow, SessionRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """Changes what is enabled in sessions; blocking, safe from many threads and processes. `wake` tells those who follow."""

    records: Connections
    catalog: Catalog
    wake: Callable[[], None]

    def enable(self, actor: Actor, session: str, slug: str, *, reason: str = "") -> Session:
        """Put a skill's text into the prompt.

        `NotFound`, `Refused`, `ApprovalRequired`, `ApprovalDenied` or `BudgetExceeded` where it does not enter; then
        nothing is reserved, and nobody is asked about what has no room. Enabling what is enabled already changes nothing.
        """
        return self._enable(actor, session, read_text(self.catalog, slug), reason, "enable")

    def enable_fetched(
        self, actor: Actor, session: str, package: Package, *, origin: str, reason: str = "", limits: Limits
    ) -> Session:
        """Put a skill that was fetched for this conversation into its prompt; it is kept nowhere else.

        It never stands in for a skill of the catalog: a slug that is there is a `Conflict`.
        """
        text = fetched_text(package, origin=origin, limits=limits)
        self._refuse_shadow(text.outline.slug)
        return self._enable(actor, session, text, reason, "fetch_live")

    def _enable(self, actor: Actor, session: str, text: SkillText, reason: str, action: Action) -> Session:
        with self.records.write() as connection:
            outcome = self._enter(connection, actor, locked(connection, actor, session), text, reason, action)
            _append(connection, outcome)
        self.wake()
        if outcome.error is not None:
            raise outcome.error
        return outcome.session

    def _refuse_shadow(self, slug: str) -> None:
        if not self.catalog.is_gone(slug):
            raise Conflict(
                f"There may be a skill {slug!r} already; one that is fetched never takes its place.",
                hint=f"Enable {slug!r} itself, or give the fetched one another name.",
            )

    def disable(self, actor: Actor, session: str, slug: str) -> Session:
        """Take a skill's text out of the prompt; `NotFound` where it is not enabled."""
        with self.records.write() as connection:
            row = locked(connection, actor, session)
            before = session_of(connection, row)
            held = before.get(slug)
            if held is None:
                raise _not_enabled(slug, before)
            outcome = _left(connection, actor, row, held, "done")
            _append(connection, outcome)
        self.wake()
        return outcome.session

    def blocks(self, actor: Actor, session: str) -> tuple[Session, tuple[str, ...]]:
        """The blocks of the enabled skills, in the order of enabling; each holds the bytes that were admitted.

        A skill whose bytes are others by now passes the gate again with these, or leaves the prompt; so does one that
        is gone, and one whose approval was taken back. One whose place does not answer stays as it was admitted.
        """
        with self.records.read() as connection:
            row = opened(connection, actor, session)
            held = sessions.contents(connection, row.id)
            current = session_of(connection, row)
            revoked = [skill for skill in current.enabled if _is_revoked(connection, row, skill)]
        changed = [skill for skill in current.enabled if skill not in revoked and self._has_changed(skill)]
        if not changed and not revoked:
            return current, tuple(block for _, block in held)
        for skill in changed:
            self._renew(actor, row.id, skill)
        for skill in revoked:
            self._expel(actor, row.id, skill)
        self.wake()
        with self.records.read() as connection:
            held = sessions.contents(connection, row.id)
            return session_of(connection, opened(connection, actor, row.id)), tuple(block for _, block in held)

    def _enter(
        self,
        connection: sa.Connection,
        actor: Actor,
        row: SessionRow,
        text: SkillText,
        reason: str,
        action: Action = "enable",
    ) -> _Outcome:
        """Pass the gate and reserve, in a locked session; whatever comes of it is written down before it is raised."""
        before = session_of(connection, row)
        slug, digest = text.outline.slug, text.outline.digest
        acting = acting_in(row, actor)
        policy = read_policy(connection, actor.organization)
        ruling = judge(acting, action, text.subject, policy)
        held = before.get(slug)
        if held is not None and held.digest == digest and ruling.answer != "deny":
            return _Outcome(session=before)
        full = over_budget(slug, len(text.block), estimate(text.block), before)
        if full is not None and ruling.answer != "deny":
            entry = _entry(acting, action, slug, digest, "over-budget", row.id)
            return _Outcome(session=before, error=full, audits=(entry,))
        diff = self._diff(connection, acting, action, text) if ruling.answer == "ask" else ""
        admission = admit(
            connection, acting, action, text.subject, policy=policy, session_id=row.id, reason=reason, diff=diff
        )
        if admission.error is not None:
            return _Outcome(session=before, error=admission.error, audits=admission.audits, events=admission.events)
        if sessions.reserve(connection, row.id, _row(text, admission.approval), text.block) != "done":
            raise Conflict(f"The session {before.conversation!r} was changed meanwhile.", hint="Try again.")
        after = session_of(connection, found(connection, actor, row.id))
        return _Outcome(session=after, audits=admission.audits, events=(*admission.events, _state(after, slug)))

    def _diff(self, connection: sa.Connection, actor: Actor, action: Action, text: SkillText) -> str:
        """What a person who is asked sees of a skill that was approved before with other bytes."""
        before = last_approved(connection, actor, action, text.subject)
        return diff_since(self.catalog, text.outline, before.digest) if before else ""

    def _has_changed(self, skill: EnabledSkill) -> bool:
        """Whether the place that a skill was enabled from has other bytes by now, or none."""
        if skill.source_type != "catalog":
            return False
        try:
            _, outline = self.catalog.find_outline(_address(skill))
        except NotFound:
            return self.catalog.is_gone(_address(skill))
        return outline.digest != skill.digest

    def _renew(self, actor: Actor, session_id: str, skill: EnabledSkill) -> None:
        """Let a changed skill in with its new bytes, or out; one that was disabled or renewed meanwhile is let be."""
        text = self._text_now(skill)
        if text is None:
            return
        with self.records.write() as connection:
            row = locked(connection, actor, session_id)
            session = session_of(connection, row)
            held = session.get(skill.slug)
            if held is None or held.digest != skill.digest:
                return
            if isinstance(text, ProwessError):
                outcome = _Outcome(session=session, error=text)
            else:
                outcome = self._enter(connection, actor, row, text, "its files changed")
            if outcome.error is not None:
                left = _left(connection, actor, row, held, "changed", why=outcome.error.code)
                outcome = replace(left, audits=outcome.audits + left.audits, events=outcome.events + left.events)
            _append(connection, outcome)

    def _expel(self, actor: Actor, session_id: str, skill: EnabledSkill) -> None:
        """Take out a skill whose approval was taken back, unless it went or was let in anew meanwhile."""
        with self.records.write() as connection:
            row = locked(connection, actor, session_id)
            held = session_of(connection, row).get(skill.slug)
            if held is not None and held.approval == skill.approval:
                _append(connection, _left(connection, actor, row, held, "revoked"))

    def _text_now(self, skill: EnabledSkill) -> SkillText | ProwessError | None:
        """The text as it is by now, or why there is none; None where that cannot be told at this moment."""
        try:
            return read_text(self.catalog, _address(skill))
        except (Conflict, Unavailable):
            return None
        except NotFound as error:
            return error if self.catalog.is_gone(_address(skill)) else None
        except ProwessError as error:
            return error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What came of a change, and what is to be written down about it."""

    session: Session
    error: ProwessError | None = None
    audits: tuple[AuditEntry, ...] = ()
    events: tuple[EventEntry, ...] = ()


def _left(
    connection: sa.Connection, actor: Actor, row: SessionRow, skill: EnabledSkill, outcome: str, **detail: Any
) -> _Outcome:
    """Take an enabled skill out of a locked session."""
    sessions.release(connection, row.id, skill.slug)
    after = session_of(connection, found(connection, actor, row.id))
    entry = _entry(actor, "disable", skill.slug, skill.digest, outcome, row.id, **detail)
    return _Outcome(session=after, audits=(entry,), events=(_state(after, skill.slug),))


def _append(connection: sa.Connection, outcome: _Outcome) -> None:
    """Write down what came of a change; the last step of its transaction, since all others of the organization wait."""
    if outcome.audits or outcome.events:
        ledger.append(connection, outcome.session.organization, audits=outcome.audits, events=outcome.events)


def _state(session: Session, slug: str) -> EventEntry:
    return EventEntry(
        name="skills_state_changed",
        data=session.state,
        session_id=session.id,
        user_id=session.user,
        subject=slug,
    )


def _address(skill: EnabledSkill) -> str:
    """The very skill that was enabled, also where a nearer scope hides it."""
    return f"{skill.scope}:{skill.slug}"


def _is_revoked(connection: sa.Connection, row: SessionRow, skill: EnabledSkill) -> bool:
    """Whether the approval that let a skill in was taken back."""
    if not skill.approval:
        return False
    approval = get_approval(connection, row.organization_id, skill.approval)
    return approval is None or approval.state == "revoked"


def _row(text: SkillText, approval: ApprovalRow | None) -> EnabledRow:
    outline = text.outline
    return EnabledRow(
        slug=outline.slug,
        title=outline.title,
        digest=outline.digest,
        scope=outline.scope,
        source_type="registry" if text.subject.live else "catalog",
        origin=text.subject.origin,
        detail={"tokens": estimate(text.block), **({"approval_id": approval.id} if approval else {})},
    )


def _entry(
    actor: Actor, action: str, slug: str, digest: str, outcome: str, session_id: str, **detail: Any
) -> AuditEntry:
    return AuditEntry(
        actor=actor.label,
        action=action,
        slug=slug,
        digest=digest,
        outcome=outcome,
        detail={"session_id": session_id, **detail},
    )


def _not_enabled(slug: str, session: Session) -> NotFound:
    there = ", ".join(skill.slug for skill in session.enabled)
    return NotFound(f"The skill {slug[:80]!r} is not enabled in this session.", hint=f"Enabled: {there or 'none'}.")
