"""The rules, as a table: who, what, from where, under which policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.policy.actor import ACTIONS, PERMISSIONS, Actor, agent_of
from prowess.policy.gate import judge
from prowess.policy.organization import SETTING_NAMES, OrgPolicy
from prowess.policy.roles import Role, find_role
from prowess.policy.rules import apply_rules
from prowess.policy.subject import Subject

ADMIN = Actor(name="ann", organization="acme", user="ann")
PERSON = Actor(
    name="bob",
    organization="acme",
    user="bob",
    permissions=frozenset({"skills.read", "skills.write", "skills.run", "approvals.resolve"}),
)
AGENT = agent_of(ADMIN)
ACTORS = {"admin": ADMIN, "person": PERSON, "agent": AGENT}

LOCAL = Subject(slug="triage", digest="d1", trust="local")
SYNCED = Subject(slug="triage", digest="d1", trust="synced")
OWN = Subject(slug="triage", digest="d1", written_by=AGENT.label, trust="agent")
ANOTHERS = Subject(slug="triage", digest="d1", written_by="agent:agent@bob", trust="agent")
LIVE = Subject(slug="triage", digest="d1", live=True, trust="live")


def answer(actor: Actor, action: str, subject: Subject | None, **settings: Any) -> str:
    return judge(actor, action, subject, OrgPolicy(**settings)).answer


@pytest.mark.parametrize("action", ["enable", "load", "load_script", "run"])
@pytest.mark.parametrize(
    ("policy", "admin", "person", "agent"),
    [
        ("auto", "allow", "allow", "allow"),
        ("prompt-user", "ask", "ask", "ask"),
        ("admin-only", "allow", "deny", "deny"),
        ("sometimes", "deny", "deny", "deny"),
    ],
)
def test_the_agentcy_table(action: str, policy: str, admin: str, person: str, agent: str) -> None:
    answers = {who: answer(actor, action, LOCAL, skill_enablement_policy=policy) for who, actor in ACTORS.items()}

    assert answers == {"admin": admin, "person": person, "agent": agent}


def test_admin_only_tells_an_agent_to_ask_for_help() -> None:
    ruling = judge(AGENT, "enable", LOCAL, OrgPolicy(skill_enablement_policy="admin-only"))

    assert "administrators" in ruling.reason
    assert "Ask an administrator to use the skill for you" in ruling.hint


@pytest.mark.parametrize(
    ("enablement", "synced", "expected"),
    [
        ("auto", "auto", "allow"),
        ("auto", "prompt-user", "ask"),
        ("auto", "admin-only", "deny"),
        ("prompt-user", "auto", "ask"),
        ("admin-only", "auto", "deny"),
        ("admin-only", "prompt-user", "deny"),
        ("prompt-user", "admin-only", "deny"),
        ("auto", "whatever", "deny"),
    ],
)
@pytest.mark.parametrize("subject", [SYNCED, ANOTHERS], ids=["synced", "written by another's agent"])
def test_what_came_from_elsewhere_is_under_the_stricter_policy(
    subject: Subject, enablement: str, synced: str, expected: str
) -> None:
    settings = {"skill_enablement_policy": enablement, "skill_synced_policy": synced}

    assert answer(AGENT, "enable", subject, **settings) == expected


def test_by_default_a_skill_from_elsewhere_asks_everybody() -> None:
    assert [answer(actor, "enable", SYNCED) for actor in ACTORS.values()] == ["ask", "ask", "ask"]
    assert [answer(actor, "install", SYNCED) for actor in ACTORS.values()] == ["ask", "ask", "ask"]


def test_what_an_agent_wrote_is_on_for_its_author_and_asks_elsewhere() -> None:
    namesake = agent_of(Actor(name="bob", organization="acme", user="bob"))
    sibling = agent_of(ADMIN, name="helper")

    assert answer(AGENT, "enable", OWN) == "allow"
    assert answer(AGENT, "enable", OWN, skill_enablement_policy="admin-only") == "deny"
    assert [answer(actor, "enable", OWN) for actor in (namesake, sibling, ADMIN)] == ["ask"] * 3


@pytest.mark.parametrize(
    ("enabled", "policy", "admin", "agent"),
    [
        (False, "auto", "deny", "deny"),
        ("yes", "auto", "deny", "deny"),
        (True, "auto", "allow", "allow"),
        (True, "prompt-user", "ask", "ask"),
        (True, "admin-only", "allow", "deny"),
        (True, "?", "deny", "deny"),
    ],
)
def test_live_skills_are_under_the_policy_for_dynamic_search(enabled: Any, policy: str, admin: str, agent: str) -> None:
    settings = {"skills_dynamic_search_enabled": enabled, "skills_dynamic_search_policy": policy}

    assert answer(ADMIN, "enable", LIVE, **settings) == admin
    assert answer(AGENT, "enable", LIVE, **settings) == agent
    assert answer(AGENT, "fetch_live", SYNCED, **settings) == agent


def test_an_agent_removes_nothing_before_a_person_was_asked() -> None:
    assert [answer(AGENT, "delete", subject) for subject in (LOCAL, SYNCED, OWN, ANOTHERS)] == ["ask"] * 4
    assert [answer(PERSON, "delete", subject) for subject in (LOCAL, SYNCED, OWN)] == ["allow"] * 3


def test_an_agent_changes_only_what_it_wrote_before_a_person_was_asked() -> None:
    assert [answer(AGENT, "update", subject) for subject in (OWN, LOCAL, ANOTHERS)] == ["allow", "ask", "ask"]
    assert answer(AGENT, "update", SYNCED, skill_synced_policy="auto") == "ask"
    assert answer(AGENT, "update", SYNCED, skill_synced_policy="admin-only") == "deny"
    assert answer(PERSON, "update", LOCAL) == "allow"


def test_an_agent_makes_skills_at_once() -> None:
    assert answer(AGENT, "install", OWN) == "allow"
    assert answer(AGENT, "install", OWN, skill_enablement_policy="admin-only") == "allow"


@pytest.mark.parametrize("action", ["configure", "approve"])
def test_no_agent_configures_or_approves(action: str) -> None:
    ruling = judge(AGENT, action, None, OrgPolicy())

    assert (ruling.answer, ruling.rule) == ("deny", "persons-only")
    assert "Ask the user" in ruling.hint


@pytest.mark.parametrize(
    ("action", "permission"),
    [
        ("enable", "skills.read"),
        ("load", "skills.read"),
        ("run", "skills.run"),
        ("install", "skills.write"),
        ("update", "skills.write"),
        ("delete", "skills.write"),
        ("approve", "approvals.resolve"),
        ("configure", "admin"),
    ],
)
def test_every_action_takes_its_permission(action: str, permission: Any) -> None:
    only = Actor(name="ann", permissions=frozenset({permission}))
    others = Actor(name="ann", permissions=PERMISSIONS - {permission})

    assert answer(only, action, LOCAL) == "allow"
    ruling = judge(others, action, LOCAL, OrgPolicy())
    assert (ruling.answer, ruling.rule) == ("deny", "permission")
    assert permission in ruling.hint


@pytest.mark.parametrize("subject", [None, Subject(slug="triage", digest=""), Subject(slug="", digest="d1")])
def test_nothing_is_allowed_where_it_is_not_known_which_bytes_are_meant(subject: Subject | None) -> None:
    for action in set(ACTIONS) - {"configure", "approve"}:
        assert judge(ADMIN, action, subject, OrgPolicy()).rule == "no-subject"


def test_an_unknown_role_may_do_nothing() -> None:
    lost = Actor(name="ann", role="boss")

    for action in ACTIONS:
        assert judge(lost, action, LOCAL, OrgPolicy()).rule == "unknown-role"
    assert apply_rules(lost, "load", LOCAL, OrgPolicy(), None).rule == "unknown-role"
    assert apply_rules(lost, "load", LOCAL, OrgPolicy(), find_role("builder", OrgPolicy())).rule == "unknown-role"
    assert apply_rules(ADMIN, "load", LOCAL, OrgPolicy(), find_role("builder", OrgPolicy())).rule == "unknown-role"


TAGGED = Subject(slug="news", digest="d1", tags=("communication",), trust="local")


@pytest.mark.parametrize(
    ("role", "action", "subject", "expected"),
    [
        ("coordinator", "run", LOCAL, "allow"),
        ("coordinator", "install", LOCAL, "role-action"),
        ("builder", "install", LOCAL, "allow"),
        ("builder", "run", LOCAL, "allow"),
        ("scout", "load", LOCAL, "allow"),
        ("scout", "run", LOCAL, "role-action"),
        ("scout", "load_script", LOCAL, "role-action"),
        ("communicator", "run", TAGGED, "allow"),
        ("communicator", "run", LOCAL, "role-tags"),
        ("communicator", "load", LOCAL, "role-tags"),
        ("communicator", "delete", TAGGED, "role-action"),
    ],
)
def test_the_devai_roles(role: str, action: str, subject: Subject, expected: str) -> None:
    ruling = judge(agent_of(ADMIN, role=role), action, subject, OrgPolicy())

    assert expected in (ruling.answer, ruling.rule)
    assert ruling.answer == ("allow" if expected == "allow" else "deny")


def test_a_role_never_gives_what_the_permissions_do_not() -> None:
    reader = Actor(name="ann", role="builder", permissions=frozenset({"skills.read"}))

    assert judge(reader, "delete", LOCAL, OrgPolicy()).rule == "permission"


def test_what_nobody_accepted_is_asked_about_whoever_uses_it() -> None:
    found = Subject(slug="a", digest="d")

    for actor in (ADMIN, AGENT):
        for action in ("enable", "load", "load_script", "run"):
            ruling = judge(actor, action, found, OrgPolicy())
            assert (ruling.answer, ruling.rule) == ("ask", "found")
    assert judge(ADMIN, "update", found, OrgPolicy()).answer == "allow"
    assert judge(AGENT, "update", found, OrgPolicy()).answer == "deny"
    assert judge(AGENT, "install", found, OrgPolicy()).answer == "allow"


def test_admin_only_wins_over_asking_about_what_was_found() -> None:
    found, policy = Subject(slug="a", digest="d"), OrgPolicy(skill_enablement_policy="admin-only")

    assert judge(AGENT, "enable", found, policy).answer == "deny"
    assert judge(ADMIN, "enable", found, policy).rule == "found"


def test_a_skill_that_hides_a_trusted_one_is_asked_about() -> None:
    hiding = replace(LOCAL, hides_trusted=("user",))

    for action in ("enable", "load", "load_script", "run"):
        assert judge(ADMIN, action, hiding, OrgPolicy()).rule == "hides-trusted"
    assert judge(ADMIN, "delete", hiding, OrgPolicy()).answer == "allow"


def test_a_run_that_could_send_data_out_is_asked_about_once_nobody_has_accepted_that() -> None:
    sending = replace(LOCAL, reach="outside", sends_out=True)

    assert judge(ADMIN, "run", sending, OrgPolicy()).rule == "can-send-out"
    assert judge(ADMIN, "load", sending, OrgPolicy()).answer == "allow"
    assert judge(ADMIN, "run", replace(sending, may_send_out=True), OrgPolicy()).answer == "allow"


texts = st.text(max_size=8)
anything = st.none() | st.booleans() | st.integers() | texts | st.lists(texts, max_size=2)
policies = st.dictionaries(
    st.sampled_from([name for name in SETTING_NAMES if name != "roles"]),
    st.sampled_from(["auto", "prompt-user", "admin-only"]) | anything,
)
actors = st.builds(
    Actor,
    name=st.sampled_from(["ann", "agent"]),
    kind=st.sampled_from(["person", "agent"]),
    user=st.sampled_from(["", "ann", "bob"]),
    role=st.sampled_from(["", "builder", "scout", "boss"]),
    permissions=st.frozensets(st.sampled_from(sorted(PERMISSIONS))),
)
subjects = st.none() | st.builds(
    Subject,
    slug=st.sampled_from(["", "triage"]),
    digest=st.sampled_from(["", "d1"]),
    tags=st.lists(texts, max_size=2).map(tuple),
    source=st.sampled_from(["user", "system", "community"]) | texts,
    source_type=st.sampled_from(["manual", "github"]) | texts,
    written_by=st.sampled_from(["", "ann", "agent:agent", "agent:agent@ann"]) | texts,
    trust=st.sampled_from(["local", "found", "synced", "agent", "live"]),
    hides_trusted=st.sampled_from([(), ("user",)]),
    sends_out=st.booleans(),
    live=st.booleans(),
)
roles = st.none() | st.builds(
    Role,
    name=st.sampled_from(["", "builder", "scout"]),
    actions=st.lists(st.sampled_from([*ACTIONS, "*"])).map(tuple),
    skill_tags=st.lists(texts, max_size=2).map(tuple),
)


@given(actors, st.sampled_from(ACTIONS) | texts, subjects, policies, roles)
def test_there_is_an_answer_for_everything(
    actor: Actor, action: str, subject: Subject | None, settings: dict[str, Any], role: Role | None
) -> None:
    for policy in (OrgPolicy(**settings), OrgPolicy.of(settings)):
        for ruling in (apply_rules(actor, action, subject, policy, role), judge(actor, action, subject, policy)):
            assert ruling.answer in ("allow", "ask", "deny")
            assert ruling.rule
            assert ruling.reason
            assert ruling.hint or ruling.answer == "allow"
            if not actor.is_person and action in ("approve", "configure"):
                assert ruling.answer == "deny"
            if ruling.answer == "ask":
                assert subject is not None
                assert subject.is_complete
