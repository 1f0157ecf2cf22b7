"""Read an organization's stored policy; change its settings and environment grants as an administrator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from prowess.errors import Invalid, NotFound
from prowess.policy.actor import Actor
from prowess.policy.gate import admit
from prowess.policy.grants import OWN_PREFIX
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


ENV_SETTING = "skill_env"

EnvState = Literal["allowed", "unset", "changed", "asked", "unused"]
"""`unset`: it is allowed and has no value where Prowess runs; `changed`: it was allowed for other bytes; `asked`: nobody has allowed it; `unused`: it is allowed and not asked for."""

_EnvGrantMap = dict[str, dict[str, list[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvGrant:
    """One name of the environment, for one skill."""

    slug: str
    name: str
    state: EnvState


def list_env_grants(
    slug: str, digest: str, asked: Sequence[str], allowed: Mapping[str, Sequence[str]], *, there: Collection[str]
) -> tuple[EnvGrant, ...]:
    """What is to be said about each name that the skill asks for, or that it was allowed; `there` are those with a value."""
    states: dict[str, EnvState] = {}
    for name in (*asked, *allowed):
        if name not in asked:
            states[name] = "unused"
        elif name not in allowed:
            states[name] = "asked"
        elif digest not in allowed[name]:
            states[name] = "changed"
        else:
            states[name] = "allowed" if name in there else "unset"
    return tuple(EnvGrant(slug=slug, name=name, state=state) for name, state in states.items())


class EnvGrants:
    """The grants of every organization in one database. Blocking.

    Only a person with `skills.admin` changes one: `Refused` for everybody else. The change, or the attempt of somebody who
    may not, is kept together with its audit entry.
    """

    def __init__(self, database: Connections) -> None:
        self._database = database

    def allow(self, actor: Actor, *, slug: str, digest: str, asked: Sequence[str], name: str) -> None:
        """Let exactly these bytes read a name that the skill asks for, and no others of it any more.

        `Invalid` for a name that it does not ask for.
        """

        def put(grants: _EnvGrantMap) -> None:
            _check_declared(slug, asked, name)
            grants.setdefault(slug, {})[name] = [digest]

        self._change(actor, slug, digest, name, "allowed", put)

    def forbid(self, actor: Actor, *, slug: str, name: str) -> None:
        """Let no bytes of the skill read a name any more; `NotFound` where none may."""

        def take(grants: _EnvGrantMap) -> None:
            if name not in grants.get(slug, {}):
                raise NotFound(
                    f"{slug[:80]!r} was not allowed to read {name[:80]!r}.",
                    hint="`prowess env list` shows what is allowed.",
                )
            del grants[slug][name]
            if not grants[slug]:
                del grants[slug]

        self._change(actor, slug, "", name, "forbidden", take)

    def _change(
        self, actor: Actor, slug: str, digest: str, name: str, outcome: str, change: Callable[[_EnvGrantMap], None]
    ) -> None:
        organization = actor.organization
        with self._database.write() as connection:
            org_settings.hold(connection, organization, ENV_SETTING)
            policy = read_policy(connection, organization)
            asked = f"environment {name[:80]} for {slug[:80]}"
            admission = admit(connection, actor, "configure", None, policy=policy, reason=asked)
            audits = admission.audits
            if admission.error is None:
                grants: _EnvGrantMap = {
                    of: {each: list(digests) for each, digests in names.items()}
                    for of, names in policy.skill_env.items()
                }
                change(grants)
                _store_grants(connection, actor, grants)
                detail: dict[str, Any] = {"setting": ENV_SETTING, "name": name}
                audits = (
                    AuditEntry(
                        actor=actor.label, action="configure", slug=slug, digest=digest, outcome=outcome, detail=detail
                    ),
                )
            append(connection, organization, audits=audits)
        if admission.error is not None:
            raise admission.error


def _check_declared(slug: str, asked: Sequence[str], name: str) -> None:
    if name.upper().startswith(OWN_PREFIX):
        raise Invalid(f"{name[:80]!r} is a setting of Prowess itself.", hint="Give the skill another name to read.")
    if name not in asked:
        there = f"It asks for: {', '.join(asked)}." if asked else "It asks for none."
        raise Invalid(
            f"The skill {slug!r} does not ask for {name[:80]!r}.", hint=f"{there} A skill declares it under `env`."
        )


def _store_grants(connection: sa.Connection, actor: Actor, grants: _EnvGrantMap) -> None:
    if grants:
        check_setting(ENV_SETTING, grants)
        org_settings.set_setting(connection, actor.organization, ENV_SETTING, grants, actor.label)
    else:
        org_settings.unset_setting(connection, actor.organization, ENV_SETTING)
