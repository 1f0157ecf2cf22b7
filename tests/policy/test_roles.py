"""Roles: the four of the Devai page, and those that an organization makes itself."""

from __future__ import annotations

from typing import Any

import pytest

from prowess.errors import Invalid, NotFound
from prowess.policy.organization import OrgPolicy, check_role_entry, check_setting
from prowess.policy.roles import find_role, role_names, shipped_roles

MANAGEMENT = ("skill_create", "skill_update", "skill_delete", "skill_reload", "skill_list")


@pytest.mark.parametrize(
    ("role", "offered"),
    [
        ("builder", MANAGEMENT),
        ("coordinator", ("skill_reload", "skill_list")),
        ("scout", ("skill_list",)),
        ("communicator", ("skill_list",)),
    ],
)
def test_management_tools_go_to_the_roles_of_the_devai_page(role: str, offered: tuple[str, ...]) -> None:
    found = find_role(role, OrgPolicy())

    assert tuple(tool for tool in MANAGEMENT if found.offers(tool)) == offered


@pytest.mark.parametrize(
    ("role", "runs", "writes"),
    [("builder", True, True), ("coordinator", True, False), ("scout", False, False), ("communicator", True, False)],
)
def test_who_runs_and_who_writes(role: str, runs: bool, writes: bool) -> None:
    found = find_role(role, OrgPolicy())

    assert found.may("run") is runs
    assert [found.may(action) for action in ("install", "update", "delete")] == [writes] * 3
    assert not found.may("approve")
    assert not found.may("configure")


def test_the_communicator_is_for_skills_tagged_communication_and_no_others() -> None:
    found = find_role("communicator", OrgPolicy())

    assert found.covers(["sre", "Communication"])
    assert not found.covers(["communications"])
    assert not found.covers([])


def test_everybody_reads() -> None:
    for role in shipped_roles().values():
        assert role.offers("search_skills")
        assert role.offers("load_skill")
        assert role.may("load")


def test_shipped_roles_are_written_as_an_organization_would_have_to() -> None:
    for role in shipped_roles().values():
        entry = {"tools": list(role.tools), "actions": list(role.actions), "skill_tags": list(role.skill_tags)}
        assert check_role_entry(role.name, {**entry, "description": role.description}) == []
        assert role.description


def test_an_organization_adds_and_replaces_roles() -> None:
    policy = OrgPolicy.of({"roles": {"auditor": {"tools": ["skill_l*"]}, "builder": {"actions": ["load"]}}})

    assert find_role("auditor", policy).offers("skill_list")
    assert not find_role("auditor", policy).may("load")
    assert not find_role("builder", policy).may("delete")
    assert role_names(policy) == ("auditor", "builder", "communicator", "coordinator", "scout")


def test_an_unknown_role_is_not_found_and_the_names_there_are_are_told() -> None:
    with pytest.raises(NotFound, match="Unknown role 'boss'") as caught:
        find_role("boss", OrgPolicy())

    assert caught.value.hint == "Use one of: builder, communicator, coordinator, scout."


@pytest.mark.parametrize(
    "entry",
    [None, "all", {"tools": "all"}, {"action": []}, {"actions": ["fly"]}, {"tools": [1]}, {"description": 1}],
)
def test_a_role_that_cannot_be_read_is_unknown_and_does_not_give_way_to_the_shipped_one(entry: Any) -> None:
    policy = OrgPolicy.of({"roles": {"builder": entry}})

    with pytest.raises(NotFound):
        find_role("builder", policy)
    assert find_role("scout", policy).name == "scout"
    with pytest.raises(Invalid) as caught:
        check_setting("roles", {"builder": entry})
    assert caught.value.problems[0].field == "roles.builder"


def test_where_the_roles_cannot_be_read_at_all_there_are_none() -> None:
    policy = OrgPolicy.of({"roles": ["builder"]})

    with pytest.raises(NotFound, match="builder"):
        find_role("builder", policy)
