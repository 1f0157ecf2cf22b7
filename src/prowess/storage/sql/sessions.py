"""The tables and statements of `storage.sessions`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.owner import owner_condition
from prowess.storage.rows import CompiledSelect, CompiledWrite, raw_columns
from prowess.storage.sessions import EnabledRow, SessionRow
from prowess.storage.tables import ORDERED_JSON, dialect_insert, make_table, metadata

sessions = make_table("sessions", SessionRow)
session_skills = sa.Table(
    "session_skills",
    metadata,
    sa.Column("session_id", sa.Text, sa.ForeignKey("sessions.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("slug", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("source_type", sa.Text, nullable=False),
    sa.Column("origin", sa.Text, nullable=False),
    sa.Column("content_length", sa.Integer, nullable=False),
    sa.Column("enabled_at", sa.Text, nullable=False),
    sa.Column("detail", ORDERED_JSON, nullable=False),
    sa.Column("content", sa.Text, nullable=False),  # the block as it stands in the prompt
    sa.Column("seal", sa.Text, nullable=False, server_default=sa.text("''")),  # see `storage.seals`
)

_CONVERSATION = (sessions.c.organization_id, sessions.c.user_id, sessions.c.actor, sessions.c.conversation_id)
sa.Index("uq_sessions_actor_conversation", *_CONVERSATION, unique=True)
sa.Index("ix_sessions_owner_updated", sessions.c.organization_id, sessions.c.user_id, sessions.c.updated_at)

THIS_SESSION = sessions.c.id == sa.bindparam("which")
OPEN = sessions.c.closed_at.is_(None)
CHARACTERS = sa.bindparam("by", type_=sa.Integer)

INSERT = CompiledWrite(
    dialect_insert(sessions, lambda insert: insert.on_conflict_do_nothing()),
    values=[column.name for column in sessions.c if column.name != "closed_at"],
)
OWN = sessions.c.actor == sa.bindparam("viewer")
SHARED = sa.bindparam("shared", type_=sa.Text)
VISIBLE = sa.and_(owner_condition(sessions), sa.or_(OWN, SHARED == "all", sessions.c.actor_kind == SHARED))
# A conversation may be named like the id of another session; the id comes first. The actor's own conversation comes before
# one of the same name that someone else has, and of those the one in use comes first.
FIND = CompiledSelect(
    sa.select(sessions)
    .where(VISIBLE, sa.or_(THIS_SESSION, sessions.c.conversation_id == sa.bindparam("which")))
    .order_by(sa.case((THIS_SESSION, 0), (OWN, 1), (OPEN, 2), else_=3), sessions.c.updated_at.desc())
    .limit(1)
)
REOPEN = sa.update(sessions).where(THIS_SESSION, ~OPEN)
AFTER = sa.tuple_(sa.bindparam("changed"), sa.bindparam("last"))
LIST = CompiledSelect(
    sa.select(sessions)
    .where(VISIBLE, OPEN, sa.tuple_(sessions.c.updated_at, sessions.c.id) < AFTER)
    .order_by(sessions.c.updated_at.desc(), sessions.c.id.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)
COUNT = CompiledSelect(sa.select(sa.func.count()).select_from(sessions).where(VISIBLE, OPEN))
CHANGE = sa.update(sessions).where(VISIBLE, THIS_SESSION, OPEN)
CLOSE = CHANGE.values(closed_at=sa.bindparam("moment"), updated_at=sa.bindparam("moment"), budget_used=0)
MARK_USED = CompiledWrite(
    sa.update(sessions).where(THIS_SESSION, OPEN).values(updated_at=sa.bindparam("moment")), values=("which", "moment")
)
# FOR NO KEY UPDATE on PostgreSQL: it excludes other writers, but not the foreign-key checks of other transactions.
LOCK = CompiledSelect(sa.select(sessions.c.id).where(THIS_SESSION, OPEN).with_for_update(key_share=True))
# Freeing characters always succeeds, even if the budget was lowered below its current use.
TAKE = CompiledWrite(
    sa.update(sessions)
    .where(THIS_SESSION, OPEN, sa.or_(sessions.c.budget_used + CHARACTERS <= sessions.c.budget_max, CHARACTERS <= 0))
    .values(budget_used=sessions.c.budget_used + CHARACTERS, updated_at=sa.bindparam("moment")),
    values=("which", "by", "moment"),
)

IN_SESSION = session_skills.c.session_id == sa.bindparam("which")
THIS_SKILL = sa.and_(IN_SESSION, session_skills.c.slug == sa.bindparam("of"))
ENABLED_SKILLS = (
    sa.select(*raw_columns(session_skills.c[name] for name in EnabledRow.__annotations__))
    .where(IN_SESSION)
    .order_by(session_skills.c.position)
)
# Every request of an agent reads these, so they are compiled once.
ENABLED = CompiledSelect(ENABLED_SKILLS)
CONTENTS = CompiledSelect(ENABLED_SKILLS.add_columns(session_skills.c.content, session_skills.c.seal))
STORED = CompiledSelect(sa.select(session_skills.c.digest, session_skills.c.content_length).where(THIS_SKILL))
LAST = sa.select(sa.func.coalesce(sa.func.max(session_skills.c.position), 0) + 1).where(IN_SESSION)
ADD = CompiledWrite(
    sa.insert(session_skills).values(position=LAST.scalar_subquery()),
    values=[column.name for column in session_skills.c if column.name != "position"] + ["which"],
)
_KEPT = ("session_id", "slug", "position", "enabled_at")
REPLACE = CompiledWrite(
    sa.update(session_skills).where(THIS_SKILL),
    values=[column.name for column in session_skills.c if column.name not in _KEPT] + ["which", "of"],
)
REMOVE = CompiledWrite(sa.delete(session_skills).where(THIS_SKILL), values=("which", "of"))
REMOVE_ALL = sa.delete(session_skills).where(IN_SESSION)
