"""Restrict queries over sessions and approvals to the rows of one owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prowess.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import sqlalchemy as sa


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
