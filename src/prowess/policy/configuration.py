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
    """Return the organization's policy as of this transaction."""
    return OrgPolicy.of(org_settings.get_settings(connection, organization))


class Policies:
    """The policies of all organizations in one database. Blocking; nothing is cached."""

    def __init__(self, database: Connections) -> None:
        self._database = database

    def read(self, actor: Actor) -> OrgPolicy:
        """Return the policy of the actor's organization."""
        actor.require("skills.read")
        with self._database.read() as connection:
            return read_policy(connection, actor.organization)

    def change(self, actor: Actor, name: str, value: Any) -> OrgPolicy:
        """Change one setting, or reset it to its default with None.

        Raise `Refused` unless the actor is a person with `skills.admin`, and `Invalid` for an unknown setting or value. The
        change, or the refused attempt, is written together with its audit entry.
        """
        organization = actor.organization
        with self._database.write() as connection:
            before = org_settings.get_settings(connection, organization)
            asked = f"setting {name[:80]}"
            # Configuring depends on permission and role alone, so that an administrator can repair an unreadable setting.
            admission = admit(connection, actor, "configure", None, policy=OrgPolicy.of(before), reason=asked)
            audits = admission.audits
            if admission.error is None:
                _store_setting(connection, actor, name, value)
                detail = {"setting": name, "before": before.get(name), "after": value}
                audits = (
                    AuditEntry(
                        actor=actor.label, channel=actor.channel, action="configure", outcome="changed", detail=detail
                    ),
                )
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
