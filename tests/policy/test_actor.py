"""Actors: what an agent can never have, and that nobody passes for somebody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid, Refused
from prowess.policy.actor import AGENT_PERMISSIONS, PERMISSIONS, Actor, agent_of, local_person
from prowess.storage.owner import Owner


def test_the_person_at_this_machine_may_do_everything() -> None:
    person = local_person("me")

    assert person.permissions == PERMISSIONS
    assert person.admin
    assert person.owner == Owner()


@given(st.frozensets(st.sampled_from(sorted(PERMISSIONS))), st.sampled_from(["agent", "robot", "", "Person"]))
def test_whatever_is_not_a_person_never_approves_nor_administers(permissions: frozenset, kind: str) -> None:
    actor = Actor(name="x", kind=kind, permissions=permissions)  # pyright: ignore[reportArgumentType]

    assert actor.permissions == permissions & AGENT_PERMISSIONS
    assert not actor.admin


def test_an_agent_has_no_more_permissions_than_its_person() -> None:
    reader = Actor(
        name="ann", organization="acme", user="u1", permissions=frozenset({"skills.read", "approvals.resolve"})
    )

    agent = agent_of(reader, name="helper", role="scout")

    assert agent.permissions == {"skills.read"}
    assert (agent.organization, agent.user, agent.role) == ("acme", "u1", "scout")


def test_a_permission_that_does_not_exist_is_not_had() -> None:
    actor = Actor(name="ann", permissions=frozenset({"skills.everything"}))  # pyright: ignore[reportArgumentType]

    assert actor.permissions == frozenset()
    with pytest.raises(Refused, match=r"lacks the permission skills\.read"):
        actor.require("skills.read")


def test_labels_tell_persons_agents_and_users_apart() -> None:
    actors = [
        Actor(name="builder", organization="acme", user="ann"),
        Actor(name="builder", kind="agent", organization="acme"),
        Actor(name="builder", kind="agent", organization="acme", user="ann"),
        Actor(name="builder", kind="agent", organization="acme", user="bob"),
        Actor(name="builder", kind="agent", organization="acme", user="bob@x"),
    ]

    assert len({actor.label for actor in actors}) == len(actors)
    assert actors[1].label == "agent:builder"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("", "person"),
        ("  ", "agent"),
        ("a\x00b", "person"),
        ("a\nb", "agent"),
        ("x" * 201, "person"),
        ("\ud800", "agent"),
        ("helper\u202e", "agent"),
        ("helper\u200b", "person"),
    ],
)
def test_a_name_that_cannot_be_written_down_is_invalid(name: str, kind: str) -> None:
    with pytest.raises(Invalid) as caught:
        Actor(name=name, kind=kind)  # pyright: ignore[reportArgumentType]

    assert caught.value.hint


def test_nobody_takes_a_name_that_reads_as_anothers_label() -> None:
    with pytest.raises(Invalid, match="reserved for agents"):
        Actor(name="agent:builder")
    with pytest.raises(Invalid, match="'@'"):
        Actor(name="builder@bob", kind="agent")


@pytest.mark.parametrize("field", ["organization", "user", "role"])
def test_ids_have_no_control_characters(field: str) -> None:
    with pytest.raises(Invalid):
        Actor(name="ann", **{field: "a\x00"})


@pytest.mark.parametrize(
    ("channel", "organization", "remote"),
    [
        ("http", "", True),
        ("web", "", True),
        ("agent:web", "acme", True),
        ("mcp:cursor", "acme", True),
        ("mcp-remote:cursor", "acme", True),
        ("mcp:cursor", "", False),
        ("library", "acme", False),
        ("terminal", "", False),
    ],
)
def test_browsers_and_members_over_mcp_are_not_at_this_machine(channel: str, organization: str, remote: bool) -> None:
    assert Actor(name="ann", organization=organization, user=organization, channel=channel).is_remote is remote
