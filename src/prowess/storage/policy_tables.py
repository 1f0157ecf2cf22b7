"""Define the tables of approvals, trust, audit, events and organization settings, the same on SQLite and PostgreSQL.

`audit` and `events` are logs: rows are numbered from 1 without gaps within an organization and never change. Old rows may
be pruned from the start of a log; `pruned_counts` then keeps what they counted.
"""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.tables import ORDERED_JSON, metadata, texts

approvals = sa.Table(
    "approvals",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("organization_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),  # the user who asked, or whose agent did
    sa.Column("session_id", sa.Text, nullable=False),  # '' outside a session; an approval outlives its session
    *texts("action", "slug", "digest", "requester", "reason", "state", "created_at", "expires_at"),
    sa.Column("resolved_at", sa.Text),
    sa.Column("resolver", sa.Text),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("used_at", sa.Text),
    sa.Column("detail", ORDERED_JSON, nullable=False),  # the card that a person sees
)

# Who accepted which bytes of which skill. Rows are never removed: a revoked one says when and by whom.
skill_acceptances = sa.Table(
    "skill_acceptances",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("organization_id", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text, nullable=False),  # '' accepts for everyone in the organization
    *texts("slug", "digest", "origin"),
    sa.Column("hides", sa.Text, nullable=False),  # the scopes in which it may hide a trusted skill, separated by spaces
    sa.Column("sends_out", sa.Boolean, nullable=False),  # True if its reach was shown, so that it may send data out
    *texts("how", "actor", "channel", "proof", "created_at"),
    sa.Column("revoked_at", sa.Text),
    sa.Column("revoked_by", sa.Text),
    sa.Column("detail", ORDERED_JSON, nullable=False),  # what the person was shown
)

# Standing rules: everything in these folders counts as accepted, whatever its bytes.
trusted_folders = sa.Table(
    "trusted_folders",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    *texts("organization_id", "user_id", "folder", "actor", "channel", "proof", "created_at"),
    sa.Column("revoked_at", sa.Text),
    sa.Column("revoked_by", sa.Text),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    *texts("at", "actor", "action", "slug", "digest", "outcome"),
    sa.Column("detail", ORDERED_JSON, nullable=False),
    *texts("previous", "hash"),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    *texts("id", "at", "user_id", "session_id", "name"),
    # Columns by which events are counted. `data` is not suited: it holds whatever name a client asked for.
    sa.Column("subject", sa.Text, nullable=False),  # the slug of the skill that it is about, or ''
    sa.Column("source", sa.Text, nullable=False),  # the scope that the skill was loaded from, or ''
    sa.Column("seconds", sa.Float),  # the duration; NULL for a failed load
    sa.Column("data", ORDERED_JSON, nullable=False),
)

# What the pruned rows of the logs counted, so that metrics and usage do not fall. See `storage.retention`.
pruned_counts = sa.Table(
    "pruned_counts",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("log", sa.Text, primary_key=True),  # "events", "files" or "audit"
    sa.Column("name", sa.Text, primary_key=True),  # the name of the event; the action of an audit row
    sa.Column("subject", sa.Text, primary_key=True),  # the slug; the outcome of an audit row
    sa.Column("source", sa.Text, primary_key=True),  # the scope; the file that was loaded
    sa.Column(
        "bucket", sa.Integer, primary_key=True, autoincrement=False
    ),  # see `counts.bucket_of`; -1 without a duration
    sa.Column("total", sa.BigInteger, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("last_at", sa.Text, nullable=False),
)

org_settings = sa.Table(
    "org_settings",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", ORDERED_JSON, nullable=False),
    *texts("updated_at", "updated_by"),
)

sa.Index("ix_approvals_organization_state", approvals.c.organization_id, approvals.c.state, approvals.c.created_at)
sa.Index(
    "ix_approvals_subject",
    approvals.c.organization_id,
    approvals.c.user_id,
    approvals.c.requester,
    approvals.c.slug,
    approvals.c.digest,
)
# Covers the queries of `counts` about uses, so that they read no events.
sa.Index("ix_events_subject", events.c.organization_id, events.c.name, events.c.subject, events.c.at, events.c.seconds)
# Read before every use of a skill.
sa.Index(
    "ix_skill_acceptances_subject",
    skill_acceptances.c.organization_id,
    skill_acceptances.c.slug,
    skill_acceptances.c.digest,
)
sa.Index("ix_trusted_folders_owner", trusted_folders.c.organization_id, trusted_folders.c.user_id)
