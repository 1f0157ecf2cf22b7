"""An administrator lets a skill read a name of the environment, and takes that back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from prowess.errors import Invalid, NotFound, Refused
from prowess.policy.actor import Actor
from prowess.policy.configuration import read_policy
from prowess.policy.grants import EnvGrants, list_env_grants

DIGESTS = ["a" * 64, "b" * 64]


class Admin:
    """One skill that asks for two names, as an administrator meets it."""

    def __init__(self, desk: Any, actor: Actor) -> None:
        self.desk, self.actor = desk, actor
        self.grants = EnvGrants(desk.database)

    def allow(self, name: str = "KEY", digest: str = DIGESTS[0], actor: Actor | None = None) -> None:
        self.grants.allow(actor or self.actor, slug="triage", digest=digest, declared=("KEY", "TOKEN"), name=name)

    def forbid(self, name: str = "KEY", actor: Actor | None = None) -> None:
        self.grants.forbid(actor or self.actor, slug="triage", name=name)

    @property
    def kept(self) -> Any:
        with self.desk.database.read() as connection:
            return read_policy(connection, "acme").skill_env


@pytest.fixture
def admin(desk: Any, ann: Actor) -> Admin:
    return Admin(desk, ann)


def test_a_grant_is_for_one_name_and_one_digest_and_is_in_the_audit(admin: Admin) -> None:
    admin.allow()
    assert admin.kept == {"triage": {"KEY": [DIGESTS[0]]}}
    row = admin.desk.audit()[-1]
    assert (row.actor, row.action, row.slug, row.digest, row.outcome) == (
        *("ann", "configure", "triage", DIGESTS[0], "allowed"),
    )
    assert row.detail == {"setting": "skill_env", "name": "KEY", "channel": "library"}


def test_what_is_taken_back_is_gone_for_every_version(admin: Admin) -> None:
    admin.allow()
    admin.allow(digest=DIGESTS[1])
    admin.allow(name="TOKEN")
    admin.forbid()
    assert admin.kept == {"triage": {"TOKEN": [DIGESTS[0]]}}
    admin.forbid("TOKEN")
    assert admin.kept == {}
    assert [row.outcome for row in admin.desk.audit()] == ["allowed", "allowed", "allowed", "forbidden", "forbidden"]


def test_a_name_is_allowed_for_one_version_the_last_that_was_looked_at(admin: Admin) -> None:
    admin.allow("TOKEN")
    for digest in DIGESTS:
        admin.allow(digest=digest)
    assert admin.kept["triage"] == {"TOKEN": [DIGESTS[0]], "KEY": [DIGESTS[1]]}


@pytest.mark.parametrize("name", ["OTHER", "key", "", "PROWESS_MODEL_KEY"])
def test_only_what_the_skill_asks_for_is_allowed(admin: Admin, name: str) -> None:
    with pytest.raises(Invalid):
        admin.allow(name)
    assert admin.kept == {}
    assert admin.desk.audit() == []


def test_what_was_not_allowed_is_not_taken_back(admin: Admin) -> None:
    with pytest.raises(NotFound):
        admin.forbid()


def test_nobody_but_an_administrator_does_either(admin: Admin, agent: Actor) -> None:
    member = replace(
        admin.actor, name="bob", permissions=frozenset({"skills.read", "skills.write", "approvals.resolve"})
    )
    admin.allow("TOKEN")
    for actor in (agent, member):
        with pytest.raises(Refused):
            admin.allow(actor=actor)
        with pytest.raises(Refused):
            admin.forbid("TOKEN", actor=actor)
    assert admin.kept == {"triage": {"TOKEN": [DIGESTS[0]]}}
    assert admin.desk.outcomes()[1:] == [("configure", "denied")] * 4


def test_many_at_once_are_all_kept(admin: Admin, at_once: Any) -> None:
    names = tuple(f"N{number}" for number in range(6))

    def allow(name: str) -> None:
        admin.grants.allow(admin.actor, slug="triage", digest=DIGESTS[0], declared=names, name=name)

    assert at_once(*(lambda name=name: allow(name) for name in names)) == [None] * len(names)
    assert sorted(admin.kept["triage"]) == sorted(names)


def test_grants_of_another_organization_are_not_touched(admin: Admin) -> None:
    admin.allow()
    other = replace(admin.actor, organization="other")
    with pytest.raises(NotFound):
        admin.forbid(actor=other)
    assert "triage" in admin.kept


def test_what_is_said_about_each_name() -> None:
    allowed = {"A": [DIGESTS[0]], "B": [DIGESTS[1]], "D": [DIGESTS[0]]}
    found = list_env_grants("triage", DIGESTS[0], ("A", "B", "C"), allowed, there={"A", "B", "C"})
    assert {one.name: one.state for one in found} == {"A": "allowed", "B": "changed", "C": "asked", "D": "unused"}
    without = list_env_grants("triage", DIGESTS[0], ("A", "B"), allowed, there=())
    assert {one.name: one.state for one in without} == {"A": "unset", "B": "changed", "D": "unused"}
