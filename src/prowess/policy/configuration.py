"""Read an organization's stored policy; change its settings and environment grants as an administrator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal

from prowess.errors import Refused
from prowess.lazy_dataclass import dataclass
from prowess.policy.actor import Actor
from prowess.policy.gate import Admission, admit
from prowess.policy.organization import (
    MACHINE_SETTINGS,
    SETTING_NAMES,
    OrgPolicy,
    check_setting,
    check_setting_name,
    describe_values,
)
from prowess.skill.json_values import json_list
from prowess.storage import org_settings
from prowess.storage.database import Connections
from prowess.storage.ledger import AuditEntry, EventEntry, append, catalog_events, settings_event

if TYPE_CHECKING:
    import sqlalchemy as sa


def read_policy(connection: sa.Connection, organization: str) -> OrgPolicy:
    """Return the organization's policy as of this transaction."""
    return OrgPolicy.of(org_settings.get_settings(connection, organization))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingState:
    """One setting: the value in force, the default, and where the value comes from.

    `takes` describes the values that it accepts, and `choices` lists them if they are few. `changed_at` and `changed_by` are
    '' for a default. With `faulty`, the stored value is unreadable, and `value` is the strictest one. `machine` settings
    are about the machine of the server, which tenants cannot change over HTTP.
    """

    name: str
    value: Any
    default: Any
    source: Literal["default", "organization"]
    takes: str
    choices: tuple[str, ...]
    changed_at: str
    changed_by: str
    faulty: bool
    machine: bool


def describe_settings(stored: Mapping[str, tuple[Any, str, str]]) -> list[SettingState]:
    """Return the state of every setting, in the order of the policy. `stored` has the value, time and actor of each change."""
    policy = OrgPolicy.of({name: value for name, (value, _, _) in stored.items()})
    defaults = OrgPolicy()
    states: list[SettingState] = []
    for field in fields(OrgPolicy):
        name = field.name
        if name not in SETTING_NAMES:
            continue
        _, changed_at, changed_by = stored.get(name, (None, "", ""))
        takes, choices = describe_values(name)
        states.append(
            SettingState(
                name=name,
                value=getattr(policy, name),
                default=getattr(defaults, name),
                source="organization" if name in stored else "default",
                takes=takes,
                choices=choices,
                changed_at=changed_at,
                changed_by=changed_by,
                faulty=name in policy.faults,
                machine=name in MACHINE_SETTINGS,
            )
        )
    return states


class Policies:
    """The policies of all organizations in one database. Blocking; nothing is cached. `wake` notifies subscribers."""

    def __init__(self, database: Connections, *, wake: Callable[[str], None] = lambda _: None) -> None:
        self._database = database
        self._wake = wake

    def read(self, actor: Actor) -> OrgPolicy:
        """Return the policy of the actor's organization."""
        actor.require("skills.read")
        with self._database.read() as connection:
            return read_policy(connection, actor.organization)

    def describe(self, actor: Actor) -> list[SettingState]:
        """Return every setting of the actor's organization with its default and its last change."""
        actor.require("skills.read")
        with self._database.read() as connection:
            return describe_settings(org_settings.list_settings(connection, actor.organization))

    def switch(self, actor: Actor, slugs: Collection[str], *, on: bool) -> OrgPolicy:
        """Switch skills on or off for the organization, by the setting `disabled_skills`. Raise as `change` does."""

        def switched(before: Any) -> list[str]:
            listed = _slugs(before)
            return sorted(listed - set(slugs) if on else {*listed, *slugs})

        return self._change(actor, {org_settings.DISABLED_SKILLS: switched})

    def change(self, actor: Actor, name: str, value: Any) -> OrgPolicy:
        """Change one setting, or reset it to its default with None.

        Raise `Refused` unless the actor is a person with `admin`, and `Invalid` for an unknown setting or value. The
        change, or the refused attempt, is written together with its audit entry.
        """
        return self._change(actor, {name: lambda _: value})

    def change_all(self, actor: Actor, values: Mapping[str, Any]) -> OrgPolicy:
        """Change several settings together, or none of them. Raise as `change` does."""
        return self._change(actor, {name: lambda _, value=value: value for name, value in values.items()})

    def _change(self, actor: Actor, decide: Mapping[str, Callable[[Any], Any]]) -> OrgPolicy:
        organization = actor.organization
        with self._database.write() as connection:
            # The new value may depend on the old one: without the lock, one of two concurrent changes would be lost. Always
            # in the same order, so that two changes of several settings cannot deadlock.
            for name in sorted(decide):
                org_settings.hold(connection, organization, name)
            before = org_settings.get_settings(connection, organization)
            action = f"setting {', '.join(decide)[:80]}"
            # Configuring depends on permission and role alone, so that an administrator can repair an unreadable setting.
            admission = admit_settings(connection, actor, decide, policy=OrgPolicy.of(before), reason=action)
            audits = admission.audits
            if admission.error is None:
                audits = tuple(
                    _store_setting(connection, actor, name, before.get(name), choose(before.get(name)))
                    for name, choose in decide.items()
                )
            stored = org_settings.get_settings(connection, organization)
            events = _change_events(before, stored)
            append(connection, organization, audits=audits, events=events)
            policy = OrgPolicy.of(stored)
        if admission.error is not None:
            raise admission.error
        if events:
            self._wake(organization)
        return policy


def _change_events(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[EventEntry]:
    """Return the events for the settings that are different now, and for the skills that were switched on or off."""
    changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    if not changed:
        return []
    off, now_off = (_slugs(settings.get(org_settings.DISABLED_SKILLS)) for settings in (before, after))
    switched = off ^ now_off
    slug = next(iter(switched)) if len(switched) == 1 else ""
    return [settings_event(changed), *catalog_events("switch", len(switched), slug=slug)]


def _slugs(stored: Any) -> set[str]:
    """Return the slugs of a stored list, which may be unreadable."""
    return {slug for slug in json_list(stored) if isinstance(slug, str)}


def admit_settings(
    connection: sa.Connection, actor: Actor, names: Collection[str], *, policy: OrgPolicy, reason: str
) -> Admission:
    """Decide whether an actor may change settings, with the audit row of a refusal.

    An administrator of an organization decides for the organization. Which programs, folders, addresses and variables of
    the machine skills may reach is up to its operator, or every tenant could reach what belongs to the others.
    """
    admission = admit(connection, actor, "configure", None, policy=policy, reason=reason)
    machine = sorted(MACHINE_SETTINGS.intersection(names))
    if admission.error is not None or not machine or not actor.is_tenant:
        return admission
    error = Refused(
        f"{machine[0]} affects the server's machine, so it cannot be changed over HTTP.",
        hint=f"Ask the operator of the server to run `prowess policy set {machine[0]} …` there.",
    )
    [entry] = admission.audits
    denied = replace(entry, outcome="denied", detail={**entry.detail, "rule": "machine", "why": error.message})
    return replace(admission, error=error, audits=(denied,))


def _store_setting(connection: sa.Connection, actor: Actor, name: str, before: Any, value: Any) -> AuditEntry:
    if value is None:
        check_setting_name(name)
        org_settings.unset_setting(connection, actor.organization, name)
    else:
        check_setting(name, value)
        org_settings.set_setting(connection, actor.organization, name, value, actor.label)
    if name == org_settings.DISABLED_SKILLS:
        from prowess.storage import skills  # a command that only reads the policy does without

        skills.mark_disabled(connection, actor.organization, value or ())
    detail = {"setting": name, "before": before, "after": value}
    return AuditEntry(actor=actor.label, channel=actor.channel, action="configure", outcome="changed", detail=detail)
