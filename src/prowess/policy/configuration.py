"""Read an organization's stored policy; change its settings and environment grants as an administrator."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from prowess.policy.actor import Actor
from prowess.policy.gate import admit
from prowess.policy.organization import OrgPolicy, check_setting, check_setting_name
from prowess.storage import org_settings
from prowess.storage.database import Connections
from prowess.storage.ledger import AuditEntry, append


def read_policy(connection: sa.Connection, organization: str) -> OrgPolicy:
    """What the organization has decided, as of this transaction."""
    return OrgPolicy.of(org_settings.get_settings(connection, organization))


class Policies:
    """The policies of every organization in one database. Blocking; nothing is remembered between two calls."""

    def __init__(self, database: Connections) -> None:
        self._database = database

    def read(self, actor: Actor) -> OrgPolicy:
        """The policy of the actor's organization."""
        actor.require("skills.read")
        with self._database.read() as connection:
            return read_policy(connection, actor.organization)

    def change(self, actor: Actor, name: str, value: Any) -> OrgPolicy:
        """Set one setting, for a person with `skills.admin`; None goes back to its default.

        `Refused` for everybody else, `Invalid` for a setting or value that there is not; nothing is changed by either.
        The change, or the attempt of somebody who may not, is kept together with its audit entry.
        """
        organization = actor.organization
        with self._database.write() as connection:
            before = org_settings.get_settings(connection, organization)
            asked = f"setting {name[:80]}"
            admission = admit(connection, actor, "configure", None, policy=OrgPolicy.of(before), reason=asked)
            audits = admission.audits
            if admission.error is None:
                _store_setting(connection, actor, name, value)
                detail = {"setting": name, "before": before.get(name), "after": value}
                audits = (AuditEntry(actor=actor.label, action="configure", outcome="changed", detail=detail),)
            append(connection, organization, audits=audits)
            policy = read_policy(connection, organization)
        if admission.error is not None:
            raise admission.error
        return policy


def _store_setting(connection: sa.Connection, actor: Actor, name: str, value: Any) -> None:
    if value is None:
        check_setting_name(name)
        org_settings.unset_setting(connection, actor.organization, name)
    else:
        check_setting(name, value)
        org_settings.set_setting(connection, actor.organization, name, value, actor.label)
