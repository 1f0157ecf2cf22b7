"""Who is asked before a skill runs that reaches beyond the sandbox, and what nobody uses at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from prowess.policy.actor import ACTIONS, Actor, agent_of
from prowess.policy.gate import judge
from prowess.policy.organization import OrgPolicy
from prowess.policy.rules import Ruling
from prowess.policy.subject import Subject

ADMIN = Actor(name="ann", organization="acme", user="ann")
PERSON = replace(ADMIN, name="bob", permissions=frozenset({"skills.read", "skills.write", "skills.run"}))
AGENT = agent_of(ADMIN)
ACTORS = {"admin": ADMIN, "person": PERSON, "agent": AGENT}

LOCAL = Subject(slug="triage", digest="d1", trust="local")
SYNCED = replace(LOCAL, trust="synced")
OWN = replace(LOCAL, written_by=AGENT.label, trust="agent")
ANOTHERS = replace(LOCAL, written_by="agent:agent@bob", trust="agent")
OPEN = OrgPolicy(skill_synced_policy="auto")


def ruled(actor: Actor, subject: Subject, policy: OrgPolicy = OPEN, action: str = "run") -> Ruling:
    return judge(actor, action, subject, policy)


@pytest.mark.parametrize("who", ACTORS)
@pytest.mark.parametrize("subject", [LOCAL, SYNCED, OWN, ANOTHERS], ids=["local", "synced", "own", "another's"])
def test_whoever_runs_a_process_on_the_machine_is_asked(who: str, subject: Subject) -> None:
    ruling = ruled(ACTORS[who], replace(subject, reach="machine"))
    assert (ruling.answer, ruling.rule) == ("ask", "reaches-machine")


@pytest.mark.parametrize("who", ACTORS)
@pytest.mark.parametrize(("subject", "answer"), [(LOCAL, "allow"), (SYNCED, "allow"), (OWN, "ask"), (ANOTHERS, "ask")])
def test_what_an_agent_wrote_is_asked_about_where_it_reaches_outside(who: str, subject: Subject, answer: str) -> None:
    assert ruled(ACTORS[who], replace(subject, reach="outside")).answer == answer
    assert ruled(ACTORS[who], subject).answer == "allow"


def test_a_reach_that_nobody_knows_is_the_farthest() -> None:
    strange: Any = "orbit"
    assert ruled(ADMIN, replace(LOCAL, reach=strange)).answer == "ask"


@pytest.mark.parametrize("action", ["enable", "load", "load_script", "update"])
def test_reach_counts_for_running_alone(action: str) -> None:
    assert ruled(ADMIN, replace(LOCAL, reach="machine"), action=action).answer == "allow"


def test_what_is_denied_stays_denied_however_far_it_reaches() -> None:
    policy = OrgPolicy(skill_enablement_policy="admin-only")
    assert ruled(PERSON, replace(LOCAL, reach="machine"), policy).answer == "deny"
    assert ruled(ADMIN, replace(LOCAL, reach="machine"), policy).answer == "ask"


@pytest.mark.parametrize("who", ACTORS)
@pytest.mark.parametrize("action", ["enable", "load", "load_script", "run", "fetch_live"])
def test_nobody_uses_a_disabled_skill(who: str, action: str) -> None:
    policy = OrgPolicy(disabled_skills=("other", "triage"), skills_dynamic_search_enabled=True)
    ruling = ruled(ACTORS[who], LOCAL, policy, action)
    assert (ruling.answer, ruling.rule) == ("deny", "disabled")
    assert "administrator" in ruling.hint
    assert ruled(ACTORS[who], replace(LOCAL, slug="triage2"), policy, "load").answer == "allow"


def test_a_disabled_skill_can_be_mended_and_removed() -> None:
    policy = OrgPolicy(disabled_skills=("triage",))
    assert [ruled(ADMIN, LOCAL, policy, action).answer for action in ("install", "update", "delete")] == ["allow"] * 3


@pytest.mark.parametrize("value", ["triage", None, {"triage": True}, [1], ["No Slug"]])
def test_a_list_of_disabled_skills_that_cannot_be_read_disables_all(value: Any) -> None:
    policy = OrgPolicy.of({"disabled_skills": value})
    assert policy.faults == ("disabled_skills",)
    assert ruled(ADMIN, LOCAL, policy).rule == "setting-unreadable"
    assert ruled(ADMIN, LOCAL, policy, "configure").answer == "allow"


def test_disabling_a_skill_has_sessions_judge_theirs_anew() -> None:
    assert OrgPolicy().rules_mark != OrgPolicy(disabled_skills=("triage",)).rules_mark


# --- approvals


def test_a_yes_to_running_covers_what_reaches_no_farther(
    desk: Any, ann: Actor, agent: Actor, synced: Subject, approve: Callable[..., None]
) -> None:
    outside, machine = replace(synced, reach="outside"), replace(synced, reach="machine")
    approve(ann, desk.admit(agent, "run", outside))
    assert desk.admit(agent, "run", synced).allowed
    assert desk.admit(agent, "run", outside).allowed
    asked = desk.admit(agent, "run", machine)
    assert asked.ruling.answer == "ask"
    assert asked.approval.detail["reach"] == "machine"
    approve(ann, asked)
    assert [desk.admit(agent, "run", one).allowed for one in (synced, outside, machine)] == [True, True, True]
    changed = replace(machine, digest="f" * 64)
    assert not desk.admit(agent, "run", changed).allowed


def test_a_person_who_runs_a_process_says_yes_to_these_bytes_once(
    desk: Any, ann: Actor, package: Any, subject_of: Any, approve: Callable[..., None]
) -> None:
    own = subject_of(package, source="user", source_type="manual", reach="machine", requests=("to run programs: git",))
    asked = desk.admit(ann, "run", own)
    assert asked.approval.detail["requests"] == ["to run programs: git"]
    approve(ann, asked)
    assert desk.admit(ann, "run", own).allowed
    assert desk.admit(ann, "run", own).allowed
    assert not desk.admit(agent_of(ann), "run", own).allowed


@pytest.fixture
def approve(desk: Any) -> Callable[..., None]:
    from prowess.policy.approvals import Approvals

    def yes(actor: Actor, admission: Any) -> None:
        Approvals(desk.database).resolve(actor, admission.approval.id, approved=True)

    return yes


def test_every_action_is_a_use_or_a_change_or_for_persons_or_for_connectors() -> None:
    from prowess.policy.actor import CONNECTOR_ACTIONS, PERSON_ACTIONS, USE_ACTIONS, WRITE_ACTIONS

    assert set(ACTIONS) == USE_ACTIONS | WRITE_ACTIONS | PERSON_ACTIONS | CONNECTOR_ACTIONS
