"""Enabled skills as rows, and the audit entries and events that each change writes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prowess.errors import NotFound, ProwessError
from prowess.lazy_dataclass import dataclass
from prowess.policy.actor import AGENT_PREFIX, Actor, Permission, agent_of
from prowess.policy.organization import OrgPolicy
from prowess.policy.subject import Subject
from prowess.session.session import EnabledSkill, Session, estimate_tokens
from prowess.session.sessions import (
    find_open_session,
    find_session,
    lock_open_session,
    make_state_event,
    read_session,
)
from prowess.session.text import SkillText
from prowess.storage import ledger, sessions
from prowess.storage.approvals import ApprovalRow
from prowess.storage.blobs import dump_manifest, get_package, load_manifest
from prowess.storage.ledger import AuditEntry, EventEntry
from prowess.storage.sessions import EnabledBlock, EnabledRow, SessionRow

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.session.activate import Activation
    from prowess.skill.package import Package


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChange:
    """A session after a change. The caller raises `error`, if there is one, after it has committed."""

    session: Session
    error: ProwessError | None = None
    audits: tuple[AuditEntry, ...] = ()
    events: tuple[EventEntry, ...] = ()

    def then(self, other: SessionChange) -> SessionChange:
        """Return both changes in order, with the error of the first."""
        return replace(other, error=self.error, audits=self.audits + other.audits, events=self.events + other.events)

    def append(self, connection: sa.Connection) -> None:
        """Write the log entries. This is the last step of its transaction, because it blocks the organization's other writers."""
        if self.audits or self.events:
            ledger.append(connection, self.session.organization, audits=self.audits, events=self.events)


def release_skill(
    connection: sa.Connection, actor: Actor, row: SessionRow, skill: EnabledSkill, outcome: str, **detail: Any
) -> SessionChange:
    """Take an enabled skill out of a locked session."""
    sessions.release(connection, row.id, skill.slug)
    after = read_session(connection, find_session(connection, actor, row.id))
    entry = make_audit_entry(actor, "disable", skill.slug, skill.digest, outcome, row.id, **detail)
    return SessionChange(session=after, audits=(entry,), events=(make_state_event(after, skill.slug),))


def make_audit_entry(
    actor: Actor, action: str, slug: str, digest: str, outcome: str, session_id: str, **detail: Any
) -> AuditEntry:
    """Return the audit entry about one skill in a session."""
    return AuditEntry(
        actor=actor.label,
        channel=actor.channel,
        action=action,
        slug=slug,
        digest=digest,
        outcome=outcome,
        detail={"session_id": session_id, **detail},
    )


def make_enabled_row(text: SkillText, actor: Actor, policy: OrgPolicy, approval: ApprovalRow | None) -> EnabledRow:
    """Return the row of a skill that is admitted: its bytes, by whom, and under which policy."""
    outline, subject = text.outline, text.subject
    detail: dict[str, Any] = {
        "tokens": estimate_tokens(text.block),
        "place": outline.location,
        "by": actor.label,
        "by_admin": actor.admin,
        "rules": policy.rules_mark,
        "tags": list(subject.tags),
        "source": subject.source,
        "source_type": subject.source_type,
        "written_by": subject.written_by,
        "folder": subject.folder,
        "frozen": subject.frozen,
        "trust": subject.trust,
    }
    if text.entry is not None:
        detail["entry"] = dump_manifest(text.entry.manifest)
    return EnabledRow(
        slug=outline.slug,
        title=outline.title,
        digest=outline.digest,
        scope=outline.scope,
        source_type="registry" if subject.live else "catalog",
        origin=subject.origin,
        detail={**detail, **({"approval_id": approval.id} if approval else {})},
    )


def subject_from_row(row: EnabledRow) -> Subject:
    """Return the subject of a stored row, to be resolved again. What its row does not say counts as found."""
    return Subject(
        slug=row.slug,
        digest=row.digest,
        title=row.title,
        tags=tuple(row.detail.get("tags", ())),
        scope=row.scope,
        source=row.detail.get("source", ""),
        source_type=row.detail.get("source_type", ""),
        origin=row.origin,
        written_by=row.detail.get("written_by", ""),
        folder=row.detail.get("folder", ""),
        frozen=row.detail.get("frozen") is True,
        live=row.source_type == "registry",
    )


def read_content(connection: sa.Connection, row: SessionRow, slug: str) -> EnabledBlock:
    """Return an enabled skill with its block."""
    return next(block for block in sessions.list_contents(connection, row.id) if block.row.slug == slug)


def restore_enabler(actor: Actor, skill: EnabledSkill) -> Actor:
    """Return who enabled a skill, with only the permissions that this took, to judge the skill again."""
    if skill.by in ("", actor.label):
        return actor
    if skill.by.startswith(AGENT_PREFIX):
        # The label is `agent:NAME@USER`; the user is that of the session's owner.
        return agent_of(actor, name=skill.by.removeprefix(AGENT_PREFIX).partition("@")[0], role=actor.role)
    # No more than enabling took: this actor only serves to judge the skill again.
    permissions = frozenset[Permission]({"skills.read", "admin"} if skill.by_admin else {"skills.read"})
    return replace(actor, name=skill.by, kind="person", permissions=permissions)


def skill_address(skill: EnabledSkill) -> str:
    """Return the address of exactly the enabled skill, even if a nearer scope hides it."""
    return f"{skill.scope}:{skill.slug}"


def read_entry(activation: Activation, actor: Actor, session: str, slug: str) -> Package:
    """Return the entry under which a connector's skill is enabled, after it has passed the gate again. Blocking.

    Raise `NotFound` if the skill is not enabled, or its approval was revoked.
    """
    # The check of every turn: it takes out whatever the policy, a revocation or a changed row no longer allows.
    activation.blocks(actor, session)
    with activation.records.read() as connection:
        row = find_open_session(connection, actor, session)
        held = read_session(connection, row).get(slug)
        stored = read_content(connection, row, slug) if held else None
        if stored is not None and stored.row.source_type == "registry" and "entry" not in stored.row.detail:
            raise NotFound(
                f"Only the instructions of {slug[:80]!r} were fetched, not its other files.",
                hint="Continue without them. They come with an installation, which a person has to do.",
            )
        if stored is None or not stored.intact or "entry" not in stored.row.detail:
            raise NotFound(
                f"The skill {slug[:80]!r} of a connector is not enabled in this session.",
                hint="Fetch it first: its files can be read while its instructions are in the prompt.",
            )
        manifest = load_manifest(stored.row.detail["entry"])
        return get_package(connection, slug, manifest, digest=stored.row.digest, slug=slug)


def expel_changed(activation: Activation, actor: Actor, session: str, slug: str, digest: str) -> None:
    """Take a connector's skill out of a session because its server sent other bytes than were approved. Blocking."""
    with activation.records.write() as connection:
        row = lock_open_session(connection, actor, session)
        held = read_session(connection, row).get(slug)
        # With another digest it was admitted again in the meantime.
        if held is not None and held.digest == digest:
            release_skill(connection, actor, row, held, "changed").append(connection)
    activation.wake(actor.organization)
