"""The tables and statements of `storage.trust`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.rows import CompiledSelect, CompiledWrite, raw_json
from prowess.storage.tables import ORDERED_JSON, metadata, texts
from prowess.storage.trust import ACCEPTANCE_COLUMNS, FOLDER_COLUMNS

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

# Read before every use of a skill.
sa.Index(
    "ix_skill_acceptances_subject",
    skill_acceptances.c.organization_id,
    skill_acceptances.c.slug,
    skill_acceptances.c.digest,
)
sa.Index("ix_trusted_folders_owner", trusted_folders.c.organization_id, trusted_folders.c.user_id)


def _counts_for_owner(table: sa.Table) -> sa.ColumnElement[bool]:
    return sa.and_(
        table.c.organization_id == sa.bindparam("owner_organization"),
        sa.or_(table.c.user_id == sa.literal_column("''"), table.c.user_id == sa.bindparam("owner_user")),
    )


_ours = skill_acceptances.c
_IN_FORCE = _ours.revoked_at.is_(None)
_LIST = (
    sa.select(*(raw_json(_ours[name]) if name == "detail" else _ours[name] for name in ACCEPTANCE_COLUMNS))
    .where(_counts_for_owner(skill_acceptances))
    .order_by(_ours.created_at.desc(), _ours.slug)
)
LIST = CompiledSelect(_LIST)
LIST_OF_SLUG = CompiledSelect(_LIST.where(_ours.slug == sa.bindparam("of")))
INSERT = CompiledWrite(sa.insert(skill_acceptances), values=skill_acceptances.c.keys())
REVOKE = sa.update(skill_acceptances).where(_IN_FORCE)
_FACTS = sa.select(_ours.slug, _ours.digest, _ours.hides, _ours.sends_out).where(
    _counts_for_owner(skill_acceptances), _IN_FORCE
)
# Read before every use of a skill, so these are compiled once.
OF_OWNER = CompiledSelect(_FACTS)
OF_SLUG = CompiledSelect(_FACTS.where(_ours.slug == sa.bindparam("of")))
OF_SLUGS = CompiledSelect(_FACTS.where(_ours.slug == sa.any_(sa.bindparam("of", type_=sa.ARRAY(sa.Text)))))

_RULE_IN_FORCE = trusted_folders.c.revoked_at.is_(None)
LIST_FOLDERS = CompiledSelect(
    sa.select(*(trusted_folders.c[name] for name in FOLDER_COLUMNS))
    .where(_counts_for_owner(trusted_folders), _RULE_IN_FORCE)
    .order_by(trusted_folders.c.folder, trusted_folders.c.created_at)
)
INSERT_FOLDER = CompiledWrite(sa.insert(trusted_folders), values=FOLDER_COLUMNS)
REVOKE_FOLDERS = sa.update(trusted_folders).where(_RULE_IN_FORCE)
FOLDERS_OF_OWNER = CompiledSelect(
    sa.select(trusted_folders.c.folder).where(_counts_for_owner(trusted_folders), _RULE_IN_FORCE)
)
