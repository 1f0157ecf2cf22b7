"""Which bytes of a skill may read which names of the environment: an administrator's word, kept with the policy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from prowess.errors import Invalid, NotFound
from prowess.policy.actor import Actor
from prowess.policy.gate import admit
from prowess.policy.granting import OWN_PREFIX
from prowess.policy.organization import check_setting
from prowess.policy.policies import read_policy
from prowess.storage import org_settings
from prowess.storage.database import Connections
from prowess.storage.ledger import AuditEntry, append

SETTING = "skill_env"

EnvState = Literal["allowed", "unset", "changed", "asked", "unused"]
"""`unset`: it is allowed and has no value where Prowess runs; `changed`: it was allowed for other bytes; `asked`: nobody has allowed it; `unused`: it is allowed and not asked for."""

_Grants = dict[str, dict[str, list[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvGrant:
    """One name of the environment, for one skill."""

    slug: str
    name: str
    state: EnvState


def env_states(
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

        def put(grants: _Grants) -> None:
            _check_asked(slug, asked, name)
            grants.setdefault(slug, {})[name] = [digest]

        self._change(actor, slug, digest, name, "allowed", put)

    def forbid(self, actor: Actor, *, slug: str, name: str) -> None:
        """Let no bytes of the skill read a name any more; `NotFound` where none may."""

        def take(grants: _Grants) -> None:
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
        self, actor: Actor, slug: str, digest: str, name: str, outcome: str, change: Callable[[_Grants], None]
    ) -> None:
        organization = actor.organization
        with self._database.write() as connection:
            org_settings.hold(connection, organization, SETTING)
            policy = read_policy(connection, organization)
            asked = f"environment {name[:80]} for {slug[:80]}"
            admission = admit(connection, actor, "configure", None, policy=policy, reason=asked)
            audits = admission.audits
            if admission.error is None:
                grants: _Grants = {
                    of: {each: list(digests) for each, digests in names.items()}
                    for of, names in policy.skill_env.items()
                }
                change(grants)
                _keep(connection, actor, grants)
                detail: dict[str, Any] = {"setting": SETTING, "name": name}
                audits = (
                    AuditEntry(
                        actor=actor.label, action="configure", slug=slug, digest=digest, outcome=outcome, detail=detail
                    ),
                )
            append(connection, organization, audits=audits)
        if admission.error is not None:
            raise admission.error


def _check_asked(slug: str, asked: Sequence[str], name: str) -> None:
    if name.upper().startswith(OWN_PREFIX):
        raise Invalid(f"{name[:80]!r} is a setting of Prowess itself.", hint="Give the skill another name to read.")
    if name not in asked:
        there = f"It asks for: {', '.join(asked)}." if asked else "It asks for none."
        raise Invalid(
            f"The skill {slug!r} does not ask for {name[:80]!r}.", hint=f"{there} A skill declares it under `env`."
        )


def _keep(connection: sa.Connection, actor: Actor, grants: _Grants) -> None:
    if grants:
        check_setting(SETTING, grants)
        org_settings.set_setting(connection, actor.organization, SETTING, grants, actor.label)
    else:
        org_settings.unset_setting(connection, actor.organization, SETTING)
