"""Whose rows a query over sessions and approvals may see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlalchemy as sa


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One user of one organization; '' stands for neither, and is stored as ''.

    Two empty values are the single user of an embedded Prowess.
    """

    organization_id: str = ""
    user_id: str = ""

    @property
    def key(self) -> dict[str, str]:
        """The parameters that `owner_condition` binds."""
        return {"owner_organization": self.organization_id, "owner_user": self.user_id}

    @property
    def columns(self) -> dict[str, str]:
        """The values of a new row."""
        return {"organization_id": self.organization_id, "user_id": self.user_id}


def owner_condition(table: sa.Table) -> sa.ColumnElement[bool]:
    """The condition that a row is the owner's; bind it with `Owner.key`."""
    import sqlalchemy as sa  # an actor has an owner where there is no database, too

    return sa.and_(
        table.c.organization_id == sa.bindparam("owner_organization"),
        table.c.user_id == sa.bindparam("owner_user"),
    )
