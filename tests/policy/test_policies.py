"""Settings are changed by a person with the permission, checked, and written down."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from prowess.errors import Invalid, Refused
from prowess.policy.actor import PERMISSIONS, Actor
from prowess.policy.configuration import Policies
from prowess.policy.grants import EnvGrants
from prowess.policy.organization import OrgPolicy


@pytest.fixture
def policies(desk: Any) -> Policies:
    return Policies(desk.database)


def test_an_administrator_changes_a_setting_and_it_is_written_down(desk: Any, policies: Policies, ann: Actor) -> None:
    changed = policies.change(ann, "skill_enablement_policy", "prompt-user")
    policies.change(ann, "skill_enablement_policy", "admin-only")

    assert changed.skill_enablement_policy == "prompt-user"
    assert policies.read(ann).skill_enablement_policy == "admin-only"
    assert desk.outcomes() == [("configure", "changed")] * 2
    row = desk.audit()[1]
    assert row.actor == "ann"
    assert row.detail == {
        "setting": "skill_enablement_policy",
        "before": "prompt-user",
        "after": "admin-only",
        "channel": "library",
    }


def test_none_goes_back_to_the_default(desk: Any, policies: Policies, ann: Actor) -> None:
    policies.change(ann, "approval_minutes", 5)

    assert policies.change(ann, "approval_minutes", None) == OrgPolicy()
    assert desk.audit()[1].detail == {"setting": "approval_minutes", "before": 5, "after": None, "channel": "library"}
    with pytest.raises(Invalid):
        policies.change(ann, "minutes", None)


def test_an_organization_has_its_own_settings(policies: Policies, ann: Actor) -> None:
    policies.change(ann, "skill_enablement_policy", "admin-only")

    assert policies.read(Actor(name="ann", organization="globex", user="ann")) == OrgPolicy()


@pytest.mark.parametrize(
    "actor",
    [
        Actor(name="agent", kind="agent", organization="acme", user="ann", permissions=PERMISSIONS),
        Actor(name="bob", organization="acme", user="bob", permissions=PERMISSIONS - {"admin"}),
        Actor(name="ann", organization="acme", user="ann", role="builder"),
        Actor(name="ann", organization="acme", user="ann", role="boss"),
    ],
    ids=["an agent", "a person without admin", "a role that does not configure", "an unknown role"],
)
def test_nobody_else_changes_a_setting_and_the_attempt_is_written_down(
    desk: Any, policies: Policies, ann: Actor, actor: Actor
) -> None:
    for value in ("auto", "nonsense"):
        with pytest.raises(Refused):
            policies.change(actor, "skill_synced_policy", value)
    with pytest.raises(Refused):
        policies.change(actor, "skill_synced_policy", None)

    assert policies.read(ann) == OrgPolicy()
    assert desk.outcomes() == [("configure", "denied")] * 3
    assert desk.audit()[0].detail["reason"] == "setting skill_synced_policy"


def test_a_tenant_who_would_change_what_skills_reach_on_the_server_is_refused_and_written_down(
    desk: Any, policies: Policies, ann: Actor
) -> None:
    tenant = replace(ann, channel="http")
    with pytest.raises(Refused, match="allowed_binaries affects the server"):
        policies.change_all(tenant, {"approval_minutes": 5, "allowed_binaries": ["git"]})
    with pytest.raises(Refused, match="skill_env affects the server"):
        EnvGrants(desk.database).allow(tenant, slug="triage", digest="d", declared=("KEY",), name="KEY")

    assert policies.read(ann) == OrgPolicy()
    assert desk.outcomes() == [("configure", "denied")] * 2
    assert desk.audit()[0].detail["rule"] == "machine"


@pytest.mark.parametrize(
    ("name", "value"),
    [("skill_enablement_policy", "AUTO"), ("nothing", 1), ("skills_max_prompt_chars", -1), ("roles", {"x": {"y": 1}})],
)
def test_a_value_that_cannot_be_is_invalid_and_changes_nothing(
    desk: Any, policies: Policies, ann: Actor, name: str, value: Any
) -> None:
    with pytest.raises(Invalid):
        policies.change(ann, name, value)

    assert policies.read(ann) == OrgPolicy()
    assert desk.audit() == []


def test_a_setting_that_cannot_be_read_is_mended_by_an_administrator(desk: Any, policies: Policies, ann: Actor) -> None:
    desk.set("skill_enablement_policy", 7)
    desk.set("roles", "all")
    assert policies.read(ann).faults == ("skill_enablement_policy", "roles")

    policies.change(ann, "skill_enablement_policy", "auto")

    assert policies.change(ann, "roles", None) == OrgPolicy()
    assert desk.audit()[0].detail["before"] == 7
