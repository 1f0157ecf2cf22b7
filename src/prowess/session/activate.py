"""Enabling and disabling: a skill's text enters or leaves the prompt of a session.

Each change is one transaction: the gate's decision, the reserved room, the text, the audit row and the event are written
together or not at all. The session stores the bytes that were admitted. If the skill or the policy has changed by the time
the text is used, the skill passes the gate again or leaves the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.catalog.catalog import Catalog
from prowess.errors import ApprovalRequired, Conflict, NotFound, ProwessError, Refused, Unavailable
from prowess.policy.acceptance import resolve
from prowess.policy.actor import Action, Actor
from prowess.policy.configuration import read_policy
from prowess.policy.gate import admit, find_last_approved, judge, needs_acceptance
from prowess.policy.organization import OrgPolicy
from prowess.session.enabled import (
    SessionChange,
    make_audit_entry,
    make_enabled_row,
    read_content,
    release_skill,
    restore_enabler,
    skill_address,
    subject_from_row,
)
from prowess.session.session import EnabledSkill, Session, check_budget, estimate_tokens
from prowess.session.sessions import (
    find_open_session,
    find_session,
    lock_open_session,
    make_state_event,
    mark_used,
    read_session,
    with_session_role,
)
from prowess.session.text import SkillText, diff_since, read_fetched_text, read_skill_text
from prowess.skill.limits import Limits
from prowess.skill.package import Package
from prowess.storage import sessions
from prowess.storage.approvals import get_approval
from prowess.storage.blobs import put_blobs
from prowess.storage.database import Connections
from prowess.storage.owner import Owner
from prowess.storage.sessions import EnabledRow, SessionRow

if TYPE_CHECKING:
    import sqlalchemy as sa


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """Changes what is enabled in sessions. Blocking; safe to use from many threads and processes.

    `wake` notifies the subscribers of an organization after a write. `folders` are those that the operator trusts.
    """

    records: Connections
    catalog: Catalog
    wake: Callable[[str], None]
    folders: tuple[str, ...] = ()

    def enable(self, actor: Actor, session: str, slug: str, *, reason: str = "") -> Session:
        """Put a skill's text into the prompt. Enabling a skill twice changes nothing.

        Raise `NotFound`, `Refused`, `ApprovalRequired`, `ApprovalDenied` or `BudgetExceeded`. Then nothing is reserved, and
        nobody is asked about a skill that would not fit.
        """
        with self.records.snapshot():  # one transaction for all reads
            text = read_skill_text(self.catalog, slug, actor)
        return self._enable(actor, session, text, reason, "enable")

    def enable_fetched(
        self, actor: Actor, session: str, package: Package, *, origin: str, reason: str = "", limits: Limits
    ) -> Session:
        """Put a skill that was fetched for this conversation into its prompt. It is kept nowhere else.

        Raise `Conflict` if the catalog has its slug: a fetched skill never replaces one of the catalog.
        """
        text = read_fetched_text(package, origin=origin, limits=limits)
        self.refuse_shadow(text.outline.slug)
        return self._enable(actor, session, text, reason, "fetch_live", package)

    def enable_hosted(self, actor: Actor, session: str, text: SkillText, *, reason: str = "") -> Session:
        """Put a skill that a connector serves, in its namespace, into the prompt. Raise `Conflict` if the catalog has its slug."""
        self.refuse_shadow(text.outline.slug)
        return self._enable(actor, session, text, reason, "fetch_live")

    def _enable(
        self, actor: Actor, session: str, text: SkillText, reason: str, action: Action, fetched: Package | None = None
    ) -> Session:
        with self.records.write() as connection:
            # Without the lock, two callers could each see room for their skill and together exceed the budget.
            row = lock_open_session(connection, actor, session)
            outcome = self._enter(connection, actor, row, text, reason, action)
            held = outcome.session.get(text.outline.slug)
            # A failed attempt to enable it again must not leave a skill in the prompt that nobody accepts any more.
            if outcome.error is not None and held is not None and self._is_revoked(connection, row, held):
                outcome = outcome.then(release_skill(connection, actor, row, held, "revoked"))
            # The person who is asked has to see these bytes, and no store has them.
            if fetched is not None and isinstance(outcome.error, ApprovalRequired):
                put_blobs(connection, [fetched])
            outcome.append(connection)
        self.wake(actor.organization)
        if outcome.error is not None:
            raise outcome.error
        return outcome.session

    def refuse_shadow(self, slug: str) -> None:
        """Raise `Conflict` if the catalog may have this slug, which a skill from elsewhere never replaces."""
        # A store that does not answer may have the slug, so only a certain absence counts.
        if not self.catalog.is_gone(slug):
            raise Conflict(
                f"The catalog may already have a skill {slug!r}, and a fetched skill never replaces it.",
                hint=f"Run `prowess enable {slug}` to use the installed skill, or rename the fetched one.",
            )

    def disable(self, actor: Actor, session: str, slug: str) -> Session:
        """Take a skill's text out of the prompt, or raise `NotFound` if it is not enabled."""
        with self.records.write() as connection:
            row = lock_open_session(connection, actor, session)
            before = read_session(connection, row)
            held = before.get(slug)
            if held is None:
                raise _not_enabled_error(slug, before)
            outcome = release_skill(connection, actor, row, held, "done")
            outcome.append(connection)
        self.wake(actor.organization)
        return outcome.session

    def text(self, actor: Actor, session: str, slug: str) -> str:
        """Return the block of one enabled skill, as it was admitted. Raise `NotFound` if it is not enabled, or revoked."""
        with self.records.read() as connection:
            row = find_open_session(connection, actor, session)
            current = read_session(connection, row)
            held = current.get(slug)
            if held is None or self._is_revoked(connection, row, held):
                raise _not_enabled_error(slug, current)
            block = read_content(connection, row, slug)
        if not block.intact:
            raise _changed_block_error(slug)
        return block.content

    def blocks(self, actor: Actor, session: str) -> tuple[Session, tuple[str, ...]]:
        """Return the session and the blocks of its enabled skills in the order of enabling, as they were admitted.

        A skill passes the gate again, or leaves the prompt, if its bytes or the policy have changed, if it is gone, if the
        approval or acceptance that let it in was revoked, or if someone changed its row in the database. A skill whose
        store does not answer, or belongs to another workspace, stays as it was admitted while the policy is the same.
        """
        with self.records.read() as connection:
            row = find_open_session(connection, actor, session)
            held = sessions.list_contents(connection, row.id)
            current = read_session(connection, row)
            revoked = [skill for skill in current.enabled if _is_approval_revoked(connection, row, skill)]
            regarded = self._resolve_rows(connection, actor.owner, [block.row for block in held])
            policy = read_policy(connection, actor.organization)
        mark_used(self.records, row)
        # Most turns change nothing, so the check above takes a read transaction only; each change below takes its own.
        broken = {block.row.slug for block in held if not block.intact}
        others = [skill for skill in current.enabled if skill not in revoked and skill.slug not in broken]
        changed = [
            skill
            for skill in others
            if skill.rules != policy.rules_mark or regarded.get(skill.slug) != skill.trust or self._has_changed(skill)
        ]
        if not changed and not revoked and not broken:
            return current, tuple(block.content for block in held)
        for skill in current.enabled:
            if skill.slug in broken:
                self._admit_again(actor, row.id, skill)
        for skill in changed:
            self._renew(actor, row.id, skill)
        for skill in revoked:
            self._expel(actor, row.id, skill)
        self.wake(actor.organization)
        with self.records.read() as connection:
            held = sessions.list_contents(connection, row.id)
            after = read_session(connection, find_open_session(connection, actor, row.id))
        # One that was changed a moment ago waits for the next turn.
        return after, tuple(block.content for block in held if block.intact)

    def _enter(
        self,
        connection: sa.Connection,
        actor: Actor,
        row: SessionRow,
        text: SkillText,
        reason: str,
        action: Action = "enable",
    ) -> SessionChange:
        """Pass the gate and reserve budget in a locked session. The outcome is logged before an error is raised."""
        before = read_session(connection, row)
        slug, digest = text.outline.slug, text.outline.digest
        acting = with_session_role(row, actor)
        policy = read_policy(connection, actor.organization)
        [subject] = resolve(connection, acting.owner, [text.subject], self.folders)
        text = replace(text, subject=subject)
        ruling = judge(acting, action, subject, policy)
        held = before.get(slug)
        same = held is not None and held.digest == digest and not _is_approval_revoked(connection, row, held)
        same = same and held is not None and held.trust == subject.trust
        # Nothing changes, so there is neither an audit row nor an event.
        if held is not None and same and ruling.answer != "deny" and held.rules == policy.rules_mark:
            return SessionChange(session=before)
        # The budget is checked before a person is asked: an approval for a skill that does not fit would be wasted.
        full = check_budget(slug, len(text.block), estimate_tokens(text.block), before)
        if full is not None and ruling.answer != "deny":
            entry = make_audit_entry(acting, action, slug, digest, "over-budget", row.id)
            return SessionChange(session=before, error=full, audits=(entry,))
        diff = self._diff(connection, acting, action, text) if ruling.answer == "ask" else ""
        admission = admit(
            connection, acting, action, subject, policy=policy, session_id=row.id, reason=reason, diff=diff
        )
        if admission.error is not None:
            return SessionChange(
                session=before, error=admission.error, audits=admission.audits, events=admission.events
            )
        enter = sessions.reserve if held is None else sessions.exchange
        if enter(connection, row.id, make_enabled_row(text, acting, policy, admission.approval), text.block) != "done":
            raise Conflict(f"The session {before.conversation!r} changed in the meantime.", hint="Try again.")
        if text.entry is not None:
            put_blobs(connection, [text.entry])
        after = read_session(connection, find_session(connection, actor, row.id))
        # The same bytes under a new policy leave the prompt as it is.
        news = () if same else (make_state_event(after, slug),)
        return SessionChange(session=after, audits=admission.audits, events=(*admission.events, *news))

    def _diff(self, connection: sa.Connection, actor: Actor, action: Action, text: SkillText) -> str:
        """Return the diff for a person who is asked about a skill that was approved with other bytes."""
        before = find_last_approved(connection, actor, action, text.subject)
        return diff_since(self.catalog, text.outline, before.digest) if before else ""

    def _has_changed(self, skill: EnabledSkill) -> bool:
        """Return True if the skill has changed or is gone in the place that it was enabled from."""
        if skill.source_type != "catalog":
            return False
        if not self._in_reach(skill):
            return _is_folder_gone(skill)
        try:
            return self.catalog.digest(skill_address(skill)) != skill.digest
        except (NotFound, Unavailable):
            return self.catalog.is_gone(skill_address(skill))

    def _renew(self, actor: Actor, session_id: str, skill: EnabledSkill) -> None:
        """Admit a skill with its new bytes or under the new policy, or remove it.

        Do nothing if it was disabled or renewed in the meantime: another process may have been faster.
        """
        # Stores may be slow, so they are read before the session is locked.
        text = self._text_now(actor, skill)
        with self.records.write() as connection:
            row = lock_open_session(connection, actor, session_id)
            session = read_session(connection, row)
            held = session.get(skill.slug)
            policy = read_policy(connection, actor.organization)
            if held is None or (held.digest, held.rules, held.trust) != (skill.digest, skill.rules, skill.trust):
                return
            stored = read_content(connection, row, skill.slug).row
            regarded = self._resolve_rows(connection, actor.owner, [stored])[skill.slug]
            # Unknown is not changed: while the store does not answer, the admitted bytes stay under the same policy.
            if text is None and held.rules == policy.rules_mark and held.trust == regarded:
                return
            enabler = restore_enabler(actor, held)
            if isinstance(text, ProwessError):
                outcome = SessionChange(session=session, error=text)
            elif text is not None and text.outline.digest != held.digest:
                # New bytes are judged for the current actor, but never more generously than for the agent that enabled them.
                stricter = actor if enabler.is_person else enabler
                outcome = self._enter(connection, stricter, row, text, "its files changed")
            else:
                outcome = self._stay(connection, enabler, row, held, text, policy)
            if outcome.error is not None:
                cause = "policy-changed" if text is None or _has_same_digest(text, held) else "changed"
                cause = "revoked" if regarded == "found" and cause != "changed" else cause
                outcome = outcome.then(release_skill(connection, actor, row, held, cause, why=outcome.error.code))
            outcome.append(connection)

    def _admit_again(self, actor: Actor, session_id: str, skill: EnabledSkill) -> None:
        """Remove a skill whose row someone changed, and let it pass the gate again with the bytes of its store."""
        text = self._text_now(actor, skill)
        with self.records.write() as connection:
            row = lock_open_session(connection, actor, session_id)
            held = read_session(connection, row).get(skill.slug)
            if held is None or read_content(connection, row, skill.slug).intact:
                return
            outcome = release_skill(connection, actor, row, held, "row-changed")
            if isinstance(text, SkillText):
                outcome = outcome.then(self._enter(connection, actor, row, text, "its row was changed"))
            outcome.append(connection)

    def _stay(
        self,
        connection: sa.Connection,
        actor: Actor,
        row: SessionRow,
        held: EnabledSkill,
        text: SkillText | None,
        policy: OrgPolicy,
    ) -> SessionChange:
        """Decide whether an unchanged skill stays under a changed policy.

        A skill that a person approved needs no second approval. If its text cannot be read now, it is judged by its row.
        """
        enabled, block, intact = read_content(connection, row, held.slug)
        if not intact:
            return SessionChange(session=read_session(connection, row), error=_changed_block_error(held.slug))
        # A skill that was fetched live is subject to its own setting, which may have been turned off since.
        action: Action = "enable" if held.source_type == "catalog" else "fetch_live"
        regarded = text.subject if text else subject_from_row(enabled)
        [subject] = resolve(connection, actor.owner, [regarded], self.folders)
        ruling = judge(with_session_role(row, actor), action, subject, policy)
        approved = ruling.answer == "ask" and held.approval and not needs_acceptance(subject, ruling)
        if ruling.answer == "allow" or approved:
            # The new marks say that this policy and trust were checked, so that the next turn does not check them again.
            detail = {**enabled.detail, "rules": policy.rules_mark, "trust": subject.trust}
            marked = replace(enabled, detail=detail)
            sessions.exchange(connection, row.id, marked, block)
            return SessionChange(session=read_session(connection, row))
        if text is not None:
            return self._enter(connection, actor, row, text, "the policy changed")
        refused = Refused(ruling.reason, hint=ruling.hint)
        return SessionChange(session=read_session(connection, row), error=refused)

    def _expel(self, actor: Actor, session_id: str, skill: EnabledSkill) -> None:
        """Remove a skill whose approval was revoked, unless it left or was admitted again in the meantime."""
        with self.records.write() as connection:
            row = lock_open_session(connection, actor, session_id)
            held = read_session(connection, row).get(skill.slug)
            # With another approval it was admitted again after `skill` was read.
            if held is not None and held.approval == skill.approval:
                release_skill(connection, actor, row, held, "revoked").append(connection)

    def _is_revoked(self, connection: sa.Connection, row: SessionRow, skill: EnabledSkill) -> bool:
        """Return True if the approval or the acceptance that admitted a skill was revoked."""
        if _is_approval_revoked(connection, row, skill):
            return True
        enabled = read_content(connection, row, skill.slug).row
        owner = Owner(organization_id=row.organization_id, user_id=row.user_id)
        return self._resolve_rows(connection, owner, [enabled])[skill.slug] == "found"

    def _resolve_rows(self, connection: sa.Connection, owner: Owner, rows: Sequence[EnabledRow]) -> dict[str, str]:
        """Return how far each enabled skill is trusted now, by slug."""
        subjects = resolve(connection, owner, [subject_from_row(row) for row in rows], self.folders)
        return {subject.slug: subject.trust for subject in subjects}

    def _in_reach(self, skill: EnabledSkill) -> bool:
        """Return True if this catalog can see the skill: a session can be used from another workspace."""
        return not skill.place or self.catalog.reaches(skill.scope, skill.place)

    def _text_now(self, actor: Actor, skill: EnabledSkill) -> SkillText | ProwessError | None:
        """Return the current text, or the error if the skill is gone or unusable; None if that cannot be known right now."""
        if skill.source_type != "catalog":
            return None
        if not self._in_reach(skill):
            return NotFound(f"The skill {skill.slug!r} was removed.") if _is_folder_gone(skill) else None
        try:
            return read_skill_text(self.catalog, skill_address(skill), actor)
        except (Conflict, Unavailable):
            return None
        except NotFound as error:
            return error if self.catalog.is_gone(skill_address(skill)) else None
        except ProwessError as error:
            return error


def _is_folder_gone(skill: EnabledSkill) -> bool:
    """Return True if the folder that a skill was enabled from is gone. For a database this cannot be known."""
    return skill.place.startswith("/") and not Path(skill.place).exists()


def _is_approval_revoked(connection: sa.Connection, row: SessionRow, skill: EnabledSkill) -> bool:
    """Return True if the approval that admitted a skill was revoked."""
    if not skill.approval:
        return False
    approval = get_approval(connection, row.organization_id, skill.approval)
    return approval is None or approval.state == "revoked"


def _has_same_digest(text: SkillText | ProwessError, held: EnabledSkill) -> bool:
    return isinstance(text, SkillText) and text.outline.digest == held.digest


def _changed_block_error(slug: str) -> Unavailable:
    return Unavailable(
        f"The text of the skill {slug[:80]!r} in this session was modified outside Prowess.",
        hint="Run `prowess disable` and `prowess enable` for this skill.",
    )


def _not_enabled_error(slug: str, session: Session) -> NotFound:
    there = ", ".join(skill.slug for skill in session.enabled)
    return NotFound(
        f"The skill {slug[:80]!r} is not enabled in this session.", hint=f"Enabled skills: {there or 'none'}."
    )
