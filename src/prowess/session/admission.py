"""Pass the gate for actions that write nothing else: each decision and its audit row have their own transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prowess.errors import Refused
from prowess.lazy_dataclass import dataclass
from prowess.policy.acceptance import resolve
from prowess.policy.actor import ACTION_PERMISSIONS, Action, Actor
from prowess.policy.configuration import read_policy
from prowess.policy.gate import Admission, admit, judge, preview_all
from prowess.policy.organization import OrgPolicy
from prowess.policy.roles import find_role
from prowess.policy.rules import Ruling
from prowess.policy.subject import Subject
from prowess.policy.trust import TrustRecords, conclude, is_settled
from prowess.session.sessions import viewer_of, with_session_role
from prowess.storage import ledger
from prowess.storage.database import Connections
from prowess.storage.ledger import AuditEntry, EventEntry, catalog_events, read_catalog_state
from prowess.storage.sessions import get_session
from prowess.storage.trust import Acceptance, insert_acceptances

if TYPE_CHECKING:
    import sqlalchemy as sa

_CATALOG_ACTIONS: frozenset[Action] = frozenset({"install", "update", "delete"})
"""Actions after which there are other skills, or other versions of them."""
_UNAUDITED_ACTIONS: frozenset[Action] = frozenset({"load", "load_script", "run"})
"""Actions so frequent that they leave no audit row if nobody has to be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionContext:
    """Who acts in a session, the session's id ('' for none), and its model."""

    actor: Actor
    session: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Decides about actions outside a session change. If `present` says that there are no records, the defaults apply."""

    records: Connections
    present: Callable[[], bool]
    wake: Callable[[str], None]
    folders: tuple[str, ...] = ()
    """The folders that the operator trusts, by real path."""

    def check(
        self,
        actor: Actor,
        action: Action,
        subject: Subject,
        *,
        session: str = "",
        reason: str = "",
        diff: Callable[[], str] | None = None,
        policy: OrgPolicy | None = None,
        describe: Callable[[], Subject] | None = None,
    ) -> Admission:
        """Return the admission if the action is allowed, or raise the reason. `diff` returns what a person who is asked sees.

        `policy` is the organization's policy, if the caller has just read it. `describe` returns the subject with
        everything that a person is shown, if that takes more reads than deciding.

        Loading and running local skills are the most frequent actions. If a rule allows them without asking, nothing is
        written but the load or the trace itself.
        """
        is_denied = False
        if action in _UNAUDITED_ACTIONS:
            recent = policy or self.read_policy(actor)
            [resolved] = self.resolve(actor, [subject])
            ruling = judge(actor, action, resolved, recent)
            if ruling.answer == "allow":
                return Admission(ruling=ruling, subject=resolved)
            is_denied = ruling.answer == "deny"
        # Nobody is asked about what is denied, so nothing of it is read.
        subject = describe() if describe and not is_denied else subject
        admission, shown_diff = None, "" if diff is None else None
        while admission is None:
            with self.records.write() as connection:
                policy = read_policy(connection, actor.organization)
                [subject] = resolve(connection, actor.owner, [subject], self.folders)
                # Decided again inside the transaction: the policy may have changed in the meantime, and an approval is
                # consumed here.
                if shown_diff is not None or judge(actor, action, subject, policy).answer != "ask":
                    admission = admit(
                        connection,
                        actor,
                        action,
                        subject,
                        policy=policy,
                        session_id=session,
                        reason=reason,
                        diff=shown_diff or "",
                    )
                    ledger.append(connection, actor.organization, audits=admission.audits, events=admission.events)
            # Few writes ask anyone, and comparing files may take long: other writers do not wait for it.
            if admission is None and diff is not None:
                shown_diff = diff()
        self.wake(actor.organization)
        if admission.error is not None:
            raise admission.error
        return admission

    def read_mark(self, actor: Actor) -> str:
        """Return a text that stays the same as long as nothing changes that decisions are made from; '' without records.

        Whoever changes a skill, a setting or what is accepted adds a row to the audit before that is acknowledged.
        """
        if not self.present():
            return ""
        with self.records.read() as connection:
            return f"audit:{read_catalog_state(connection, actor.owner).mark}"

    def snapshot(self) -> AbstractContextManager[None]:
        """Let the reads that this thread makes inside the block share one transaction. They see nothing written in it."""
        return self.records.snapshot() if self.present() else nullcontext()

    def resolve(self, actor: Actor, subjects: Sequence[Subject]) -> list[Subject]:
        """Return the subjects with how far each is trusted now. The records are read only if they could make a difference."""
        known = TrustRecords(folders=self.folders)
        settled = [conclude(subject, known) for subject in subjects]
        if all(is_settled(subject) for subject in settled) or not self.present():
            return settled
        with self.records.read() as connection:
            return resolve(connection, actor.owner, subjects, self.folders)

    def preview(self, actor: Actor, subject: Subject, policy: OrgPolicy, action: Action = "enable") -> Ruling:
        """Return what would be decided about an action now. Ask and write nothing."""
        return self.preview_all(actor, self.resolve(actor, (subject,)), policy, action)[0]

    def preview_all(
        self, actor: Actor, subjects: Sequence[Subject], policy: OrgPolicy, action: Action
    ) -> tuple[Ruling, ...]:
        """Return what would be decided about each of these resolved subjects, in order.

        Records are read only if a person would be asked.
        """
        rulings = [judge(actor, action, subject, policy) for subject in subjects]
        if any(ruling.answer == "ask" for ruling in rulings) and self.present():
            with self.records.read() as connection:
                return tuple(preview_all(connection, actor, action, subjects, policy))
        return tuple(rulings)

    def within(self, actor: Actor, session: str) -> tuple[Actor, str]:
        """Return the actor with the role of a session (given by id or conversation), and the session's id.

        A session that does not exist or belongs to someone else counts as none. The role of a closed session still applies.
        """
        inside = self.inside(actor, session)
        return inside.actor, inside.session

    def inside(self, actor: Actor, session: str) -> SessionContext:
        """Return the actor, the id and the model of a session."""
        # PostgreSQL rejects NUL in a text; such a name is simply unknown.
        if not session or not session.isprintable() or not self.present():
            return SessionContext(actor=actor)
        with self.records.read() as connection:
            row = get_session(connection, viewer_of(actor), session)
        if row is None:
            return SessionContext(actor=actor)
        # The role of a closed session still restricts: closing it must not give an agent more rights.
        acting = with_session_role(row, actor)
        return (
            SessionContext(actor=acting)
            if row.closed_at
            else SessionContext(actor=acting, session=row.id, model=row.model)
        )

    def note(
        self,
        actor: Actor,
        action: Action,
        subject: Subject,
        outcome: str,
        accepted: Sequence[Acceptance] = (),
        *,
        within: sa.Connection | None = None,
    ) -> None:
        """Log the outcome of an action that was allowed, and store what it means to accept, together.

        If the action changed a skill, publish that. `within` is the transaction of the action, if it is one of the records;
        the caller wakes subscribers after it.
        """
        detail = {"accepted": accepted[0].how} if accepted else {}
        entry = _entry(actor, action, outcome, slug=subject.slug, digest=subject.digest, detail=detail)
        user = actor.user if subject.scope == "user" else ""
        count = int(action in _CATALOG_ACTIONS and outcome == "done")
        events = catalog_events(action, count, slug=subject.slug, user=user)
        if within is None:
            self._append(actor, [entry], accepted, events)
        else:
            _append(within, actor, [entry], accepted, events)

    def begin(self, actor: Actor, action: Action, **detail: Any) -> None:
        """Let a person start an action on many skills, and log that it starts or was refused.

        Raise `Refused` for an agent, if the permission or the role does not allow it, and under `admin-only` for anyone
        but administrators. A person who does it manually needs no approval.
        """
        actor.require(ACTION_PERMISSIONS[action])
        policy = self.read_policy(actor)
        refused = _refuse_bulk(actor, action, policy) or _refuse_without_admin(actor, action, policy)
        outcome = "denied" if refused else "begun"
        names = detail.get("names") or [detail.get("slug", "")]
        self._append(actor, [_entry(actor, action, outcome, slug=_only(names), detail=detail)])
        if refused:
            raise refused

    def end(
        self,
        actor: Actor,
        action: Action,
        outcome: str = "done",
        *,
        accepted: Sequence[Acceptance] = (),
        changed: int = 0,
        **detail: Any,
    ) -> None:
        """Log how the action ended, and store what it means to accept, with a row for each skill, together.

        Publish how many skills were `changed`, by default those that are accepted now.
        """
        each = [
            _entry(actor, "trust", acceptance.how, slug=acceptance.slug, digest=acceptance.digest)
            for acceptance in accepted
        ]
        user = accepted[0].user_id if accepted else ""
        changes = catalog_events(action, changed or len(accepted), user=user)
        slug = _only([one.slug for one in accepted] or detail.get("names", ()))
        self._append(actor, [*each, _entry(actor, action, outcome, slug=slug, detail=detail)], accepted, changes)

    def _append(
        self,
        actor: Actor,
        entries: Sequence[AuditEntry],
        accepted: Sequence[Acceptance] = (),
        events: Sequence[EventEntry] = (),
    ) -> None:
        with self.records.write() as connection:
            _append(connection, actor, entries, accepted, events)
        if events:
            self.wake(actor.organization)

    def read_policy(self, actor: Actor) -> OrgPolicy:
        """Return the policy of the actor's organization. Never cached: a change on another server counts at once."""
        if not self.present():
            return OrgPolicy()
        with self.records.read() as connection:
            return read_policy(connection, actor.organization)


def _append(
    connection: sa.Connection,
    actor: Actor,
    entries: Sequence[AuditEntry],
    accepted: Sequence[Acceptance],
    events: Sequence[EventEntry],
) -> None:
    insert_acceptances(connection, accepted)
    ledger.append(connection, actor.organization, audits=entries, events=events)


def _entry(actor: Actor, action: str, outcome: str, **fields: Any) -> AuditEntry:
    return AuditEntry(actor=actor.label, channel=actor.channel, action=action, outcome=outcome, **fields)


def _only(names: Sequence[str]) -> str:
    """Return the name of the skill that an action on several is about, if it is one."""
    return names[0] if len(names) == 1 else ""


def _refuse_bulk(actor: Actor, action: Action, policy: OrgPolicy) -> Refused | None:
    if actor.is_person and (not actor.role or find_role(actor.role, policy).may(action)):
        return None
    return Refused(f"{actor.label} may not {action} several skills at once.", hint="Ask an administrator to do this.")


def _refuse_without_admin(actor: Actor, action: Action, policy: OrgPolicy) -> Refused | None:
    """Return the refusal for skills that are not known yet; they count as from elsewhere."""
    unknown = Subject(slug="unknown", digest="unknown", trust="synced")
    # `_refuse_bulk` has checked the role, and the tags that it is limited to cannot match an unknown skill.
    ruling = judge(replace(actor, role=""), action, unknown, policy)
    return Refused(ruling.reason, hint=ruling.hint) if ruling.answer == "deny" else None
