"""Restrict queries to the rows of one owner: sessions and approvals by user, skills, artifacts and versions by tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prowess.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.skill.model import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One user of one organization. Both are '' for the single user of an embedded Prowess."""

    organization_id: str = ""
    user_id: str = ""

    @property
    def key(self) -> dict[str, str]:
        """The parameters of `owner_condition`."""
        return {"owner_organization": self.organization_id, "owner_user": self.user_id}

    @property
    def columns(self) -> dict[str, str]:
        """The columns of a new row."""
        return {"organization_id": self.organization_id, "user_id": self.user_id}


def owner_condition(table: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition that a row belongs to the owner; bind it with `Owner.key`."""
    import sqlalchemy as sa  # lazy: every actor has an owner, also where no database is used

    return sa.and_(
        table.c.organization_id == sa.bindparam("owner_organization"), table.c.user_id == sa.bindparam("owner_user")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One organization, one user in it (or neither), and the scope of their skills.

    `place` is the skill folder that a version log belongs to; '' for skills stored in the database itself.
    """

    organization_id: str | None = None
    user_id: str | None = None
    scope: Scope
    place: str = ""

    @property
    def key(self) -> dict[str, str]:
        """The parameters of `tenant_condition`; a missing value is ''."""
        return {
            "tenant_organization": self.organization_id or "",
            "tenant_user": self.user_id or "",
            "tenant_scope": self.scope,
        }

    @property
    def columns(self) -> dict[str, str | None]:
        """The columns of a new row."""
        return {"organization_id": self.organization_id or None, "user_id": self.user_id or None, "scope": self.scope}


def tenant_condition(table: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition that a row belongs to the tenant; bind it with `Tenant.key`."""
    import sqlalchemy as sa  # lazy: a tenant is also named where statements need no SQLAlchemy

    from prowess.storage.tables import or_empty

    return sa.and_(
        or_empty(table.c.organization_id) == sa.bindparam("tenant_organization"),
        or_empty(table.c.user_id) == sa.bindparam("tenant_user"),
        table.c.scope == sa.bindparam("tenant_scope"),
    )
