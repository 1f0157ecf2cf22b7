"""Read an organization's stored policy; change its settings and environment grants as an administrator."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

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

    def switch(self, actor: Actor, slugs: Collection[str], *, on: bool) -> OrgPolicy:
        """Switch skills on or off for the organization, by the setting `disabled_skills`. Raise as `change` does."""

        def switched(before: Any) -> list[str]:
            known = cast("list[object]", before) if isinstance(before, list) else []
            listed = {slug for slug in known if isinstance(slug, str)}
            return sorted(listed - set(slugs) if on else {*listed, *slugs})

        return self._change(actor, "disabled_skills", switched)

    def change(self, actor: Actor, name: str, value: Any) -> OrgPolicy:
        """Change one setting, or reset it to its default with None.

        Raise `Refused` unless the actor is a person with `skills.admin`, and `Invalid` for an unknown setting or value. The
        change, or the refused attempt, is written together with its audit entry.
        """
        return self._change(actor, name, lambda _: value)

    def _change(self, actor: Actor, name: str, decide: Callable[[Any], Any]) -> OrgPolicy:
        organization = actor.organization
        with self._database.write() as connection:
            # The new value may depend on the old one: without the lock, one of two concurrent changes would be lost.
            org_settings.hold(connection, organization, name)
            before = org_settings.get_settings(connection, organization)
            value = decide(before.get(name))
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
