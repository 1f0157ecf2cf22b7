"""The tables and statements of `storage.trust`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.rows import CompiledSelect, CompiledWrite, raw_columns
from prowess.storage.tables import make_table
from prowess.storage.trust import Acceptance, TrustedFolder

skill_acceptances = make_table("skill_acceptances", Acceptance)
trusted_folders = make_table("trusted_folders", TrustedFolder)

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
    sa.select(*raw_columns(_ours))
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
    sa.select(trusted_folders)
    .where(_counts_for_owner(trusted_folders), _RULE_IN_FORCE)
    .order_by(trusted_folders.c.folder, trusted_folders.c.created_at)
)
INSERT_FOLDER = CompiledWrite(sa.insert(trusted_folders), values=trusted_folders.c.keys())
REVOKE_FOLDERS = sa.update(trusted_folders).where(_RULE_IN_FORCE)
FOLDERS_OF_OWNER = CompiledSelect(
    sa.select(trusted_folders.c.folder).where(_counts_for_owner(trusted_folders), _RULE_IN_FORCE)
)
