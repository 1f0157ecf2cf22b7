"""An enabled skill as a session keeps it: the row that it becomes, and what the row says about it later."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa

from prowess.policy.actor import AGENT_MARK, Actor, Permission, agent_of
from prowess.policy.organization import OrgPolicy
from prowess.policy.subject import Subject
from prowess.session.session import EnabledSkill
from prowess.session.text import SkillText
from prowess.session.tokens import estimate
from prowess.storage import sessions
from prowess.storage.approvals import ApprovalRow
from prowess.storage.sessions import EnabledRow, SessionRow


def row_of(text: SkillText, actor: Actor, policy: OrgPolicy, approval: ApprovalRow | None) -> EnabledRow:
    """The row of a skill that is let in: its text, by whom, and under which policy."""
    outline, subject = text.outline, text.subject
    detail = {
        "tokens": estimate(text.block),
        "place": outline.location,
        "by": actor.label,
        "by_admin": actor.admin,
        "rules": policy.rules_mark,
        "tags": list(subject.tags),
        "source": subject.source,
        "source_type": subject.source_type,
        "written_by": subject.written_by,
    }
    return EnabledRow(
        slug=outline.slug,
        title=outline.title,
        digest=outline.digest,
        scope=outline.scope,
        source_type="registry" if subject.live else "catalog",
        origin=subject.origin,
        detail={**detail, **({"approval_id": approval.id} if approval else {})},
    )


def subject_of_row(row: EnabledRow) -> Subject:
    """What is known of an enabled skill without its text; what is not known to be local counts as from elsewhere."""
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
        live=row.source_type == "registry",
    )


def content_of(connection: sa.Connection, row: SessionRow, slug: str) -> tuple[EnabledRow, str]:
    """The row and the block of a skill that is enabled."""
    return next(item for item in sessions.contents(connection, row.id) if item[0].slug == slug)


def enabler_of(actor: Actor, skill: EnabledSkill) -> Actor:
    """Who enabled a skill, with no more permissions than that takes: as them it is judged again."""
    if skill.by in ("", actor.label):
        return actor
    if skill.by.startswith(AGENT_MARK):
        return agent_of(actor, name=skill.by.removeprefix(AGENT_MARK).partition("@")[0], role=actor.role)
    permissions = frozenset[Permission]({"skills.read", "skills.admin"} if skill.by_admin else {"skills.read"})
    return replace(actor, name=skill.by, kind="person", permissions=permissions)


def address_of(skill: EnabledSkill) -> str:
    """The very skill that was enabled, also where a nearer scope hides it."""
    return f"{skill.scope}:{skill.slug}"
