"""The gate: asked once, approved for these bytes and this requester, and everything decided is written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from prowess.errors import ApprovalDenied, ApprovalRequired, Refused, Unavailable
from prowess.policy.actor import Actor, agent_of
from prowess.policy.approvals import Approvals
from prowess.policy.configuration import Policies
from prowess.policy.gate import PENDING_LIMIT
from prowess.policy.organization import OrgPolicy
from prowess.policy.subject import Subject, UsedEntry
from prowess.storage.sql.ledger import audit

QUESTION = {"type", "approval_id", "skill", "reason", "requester", "session_id", "expires_at"}


def test_what_is_allowed_goes_on_and_leaves_one_audit_entry(desk: Any, agent: Actor) -> None:
    admission = desk.admit(
        agent, "enable", Subject(slug="triage", digest="d1", frozen=True), session_id="s1", reason="slow"
    )

    assert admission.allowed
    (row,) = desk.audit()
    assert (row.actor, row.action, row.slug, row.digest, row.outcome) == (
        "agent:agent@ann", "enable", "triage", "d1", "allowed",
    )  # fmt: skip
    assert row.detail["rule"] == "skill_enablement_policy"
    assert (row.detail["session_id"], row.detail["reason"]) == ("s1", "slow")
    assert desk.events() == []


@pytest.mark.parametrize(
    ("origin", "shown"),
    [
        ("workspace: /srv/app/.agents/skills/triage", "workspace: .agents/skills/triage"),
        ("org: postgresql://db.internal/prowess", "org: database"),
        ("https://github.com/acme/skills/triage", "https://github.com/acme/skills/triage"),
    ],
)
def test_a_member_of_a_servers_organization_sees_no_path_of_the_server(
    desk: Any, agent: Actor, synced: Subject, origin: str, shown: str
) -> None:
    used = UsedEntry(kind="prompt", label="outline", digest="d", origin="workspace", location="/srv/app/prompts/o.json")
    subject = replace(synced, origin=origin, uses=(used,))

    for actor, expected in ((replace(agent, channel="http"), shown), (agent, origin)):
        (row,) = [desk.admit(actor, "enable", replace(subject, slug=f"triage-{actor.channel}")).approval]
        assert row.detail["origin"] == expected
        assert desk.events()[-1][1]["skill"]["origin"] == expected
        assert ("/srv" in str(row.detail["requests"])) == (actor is agent)


def test_what_is_denied_says_why_and_leaves_one_audit_entry(desk: Any, agent: Actor) -> None:
    desk.set("skill_enablement_policy", "admin-only")

    admission = desk.admit(agent, "enable", Subject(slug="triage", digest="d1", frozen=True))

    assert isinstance(admission.error, Refused)
    assert "Ask an administrator to use the skill for you" in admission.error.hint
    assert desk.outcomes() == [("enable", "denied")]


@pytest.mark.parametrize(
    ("name", "value"),
    [("skill_enablement_policy", "yes"), ("skill_synced_policy", None), ("skill_enablement_policy", {"a": 1})],
)
def test_a_policy_in_the_database_that_nobody_knows_denies_even_an_administrator(
    desk: Any, ann: Actor, synced: Subject, name: str, value: Any
) -> None:
    desk.set(name, value)

    admission = desk.admit(ann, "enable", synced)

    assert admission.ruling.rule == "setting-unreadable"
    assert name in admission.error.message
    assert desk.outcomes() == [("enable", "denied")]


def test_a_missing_subject_and_an_unknown_role_are_denied_with_a_reason(desk: Any, ann: Actor) -> None:
    assert desk.admit(ann, "enable", None).ruling.rule == "no-subject"
    lost = agent_of(ann, role="boss")
    assert (
        desk.admit(lost, "enable", Subject(slug="triage", digest="d1", frozen=True)).error.message
        == "Unknown role 'boss'."
    )
    assert desk.outcomes() == [("enable", "denied"), ("enable", "denied")]


def test_a_person_is_asked_with_a_card_that_shows_everything(desk: Any, agent: Actor, synced: Subject) -> None:
    asking = Subject(**{**_fields(synced), "requests": ("to run hooks",), "tags": ("sre",)})

    admission = desk.admit(agent, "enable", asking, session_id="s1", reason="the database is slow")

    assert isinstance(admission.error, ApprovalRequired)
    card = admission.approval.detail
    assert admission.error.approval_id == admission.approval.id
    assert card["title"] == "Triage"
    assert card["origin"] == "github:acme/runbooks"
    assert card["requests"] == ["to run hooks"]
    assert {file["path"]: file["sha256"] for file in card["files"]} == {f.path: f.sha256 for f in synced.manifest}
    assert "previous" not in card
    ((name, data),) = desk.events()
    assert name == "approval_required"
    assert set(data) == QUESTION
    assert data["type"] == "skill_enablement"
    assert data["skill"] == {
        "slug": "triage",
        "name": "Triage",
        "description": "Triage of slow databases.",
        "digest": synced.digest,
        "source_type": "github",
        "content_length": 60,
        "origin": "github:acme/runbooks",
        "requests": ["to run hooks"],
    }
    assert desk.outcomes() == [("enable", "asked")]


def test_asking_again_while_the_question_waits_is_the_same_question(desk: Any, agent: Actor, synced: Subject) -> None:
    first = desk.admit(agent, "enable", synced, session_id="s1")
    second = desk.admit(agent, "load", synced, session_id="s1")

    assert second.error.approval_id == first.error.approval_id
    assert len(desk.events()) == 1
    assert desk.outcomes() == [("enable", "asked"), ("load", "asked")]


def test_a_yes_covers_enabling_and_loading_of_these_bytes_again_and_again(
    desk: Any, ann: Actor, agent: Actor, synced: Subject
) -> None:
    asked = desk.admit(agent, "enable", synced)
    Approvals(desk.database).resolve(ann, asked.error.approval_id, approved=True)

    again = [desk.admit(agent, action, synced) for action in ("enable", "load", "load_script", "enable")]

    assert [admission.allowed for admission in again] == [True] * 4
    assert {admission.approval.id for admission in again} == {asked.error.approval_id}
    assert again[0].ruling.rule == "approved"
    assert len(desk.audit()) == 2 + 4


def test_a_yes_to_running_these_bytes_lasts_and_is_no_yes_to_enabling_them(
    desk: Any, ann: Actor, agent: Actor, synced: Subject
) -> None:
    asked = desk.admit(agent, "run", synced)
    assert desk.events()[0][1]["type"] == "skill_run"
    Approvals(desk.database).resolve(ann, asked.error.approval_id, approved=True)

    assert [desk.admit(agent, "run", synced).allowed for _ in range(3)] == [True] * 3
    assert isinstance(desk.admit(agent, "enable", synced).error, ApprovalRequired)


@pytest.mark.parametrize("action", ["delete", "install"])
def test_a_yes_to_anything_else_is_used_up_by_the_first_use(
    desk: Any, ann: Actor, agent: Actor, synced: Subject, action: str
) -> None:
    asked = desk.admit(agent, action, synced)
    assert desk.events()[0][1]["type"] == f"skill_{action}"
    Approvals(desk.database).resolve(ann, asked.error.approval_id, approved=True)

    assert desk.admit(agent, action, synced).allowed
    assert isinstance(desk.admit(agent, action, synced).error, ApprovalRequired)


def test_of_many_who_use_a_yes_for_one_time_one_does(
    desk: Any, ann: Actor, agent: Actor, synced: Subject, at_once: Callable[..., list[Any]]
) -> None:
    asked = desk.admit(agent, "delete", synced)
    Approvals(desk.database).resolve(ann, asked.error.approval_id, approved=True)

    results = at_once(*[lambda: desk.admit(agent, "delete", synced) for _ in range(12)])

    assert sorted(admission.allowed for admission in results) == [False] * 11 + [True]
    assert len({admission.error.approval_id for admission in results if admission.error}) == 1


def test_a_yes_is_for_its_action_its_slug_and_its_requester(
    desk: Any, ann: Actor, agent: Actor, synced: Subject
) -> None:
    asked = desk.admit(agent, "enable", synced)
    Approvals(desk.database).resolve(ann, asked.error.approval_id, approved=True)
    elsewhere = Subject(**{**_fields(synced), "slug": "other"})
    namesake = agent_of(Actor(name="bob", organization="acme", user="bob"))
    foreign = agent_of(Actor(name="ann", organization="globex", user="ann"))

    for actor, action, subject in [
        (agent, "run", synced),
        (agent, "enable", elsewhere),
        (agent_of(ann, name="helper"), "enable", synced),
        (namesake, "enable", synced),
        (foreign, "enable", synced),
        (ann, "enable", synced),
    ]:
        assert isinstance(desk.admit(actor, action, subject).error, ApprovalRequired), (actor.label, action)


def test_a_no_stands_for_an_agent_in_all_its_sessions_until_its_time_is_over(
    desk: Any, ann: Actor, agent: Actor, synced: Subject
) -> None:
    asked = desk.admit(agent, "enable", synced, session_id="s1")
    Approvals(desk.database).resolve(ann, asked.error.approval_id, approved=False, note="Not this one.")

    refused = desk.admit(agent, "enable", synced, session_id="s1")

    assert isinstance(refused.error, ApprovalDenied)
    assert "ann denied" in refused.error.message
    assert "Not this one." in refused.error.message
    assert isinstance(desk.admit(agent, "enable", synced, session_id="s2").error, ApprovalDenied)
    desk.let_time_pass(asked.error.approval_id)
    assert isinstance(desk.admit(agent, "enable", synced, session_id="s1").error, ApprovalRequired)
    outcomes = [
        ("enable", "asked"),
        ("approve", "refused"),
        ("enable", "denied"),
        ("enable", "denied"),
        ("enable", "asked"),
    ]
    assert desk.outcomes() == outcomes


def test_one_requester_has_no_more_questions_waiting_than_a_person_could_answer(
    desk: Any, ann: Actor, agent: Actor, synced: Subject
) -> None:
    another = replace(synced, slug="another")
    for number in range(PENDING_LIMIT):
        assert isinstance(desk.admit(agent, "enable", replace(synced, slug=f"s{number}")).error, ApprovalRequired)

    refused = desk.admit(agent, "enable", another).error

    assert isinstance(refused, Refused)
    assert not isinstance(refused, ApprovalRequired)
    assert refused.hint
    assert isinstance(desk.admit(agent, "enable", replace(synced, slug="s7")).error, ApprovalRequired)
    assert isinstance(desk.admit(ann, "enable", another).error, ApprovalRequired)
    waiting = Approvals(desk.database).list(ann)
    assert len(waiting) == PENDING_LIMIT + 1
    desk.let_time_pass(next(row.id for row in waiting if row.requester == agent.label))
    assert isinstance(desk.admit(agent, "enable", another).error, ApprovalRequired)


def test_a_person_may_ask_again_after_a_no(desk: Any, ann: Actor, synced: Subject) -> None:
    asked = desk.admit(ann, "enable", synced)
    Approvals(desk.database).resolve(ann, asked.error.approval_id, approved=False)

    assert isinstance(desk.admit(ann, "enable", synced).error, ApprovalRequired)


def test_a_yes_has_a_time_limit(desk: Any, ann: Actor, agent: Actor, synced: Subject) -> None:
    asked = desk.admit(agent, "enable", synced)
    Approvals(desk.database).resolve(ann, asked.error.approval_id, approved=True)
    desk.let_time_pass(asked.error.approval_id)

    again = desk.admit(agent, "enable", synced)

    assert isinstance(again.error, ApprovalRequired)
    assert again.error.approval_id != asked.error.approval_id


def test_a_question_that_nobody_answered_is_written_down_as_expired_when_it_is_asked_again(
    desk: Any, agent: Actor, synced: Subject
) -> None:
    first = desk.admit(agent, "enable", synced)
    desk.let_time_pass(first.error.approval_id)

    second = desk.admit(agent, "enable", synced)

    assert second.error.approval_id != first.error.approval_id
    assert desk.outcomes() == [("enable", "asked"), ("approve", "expired"), ("enable", "asked")]
    assert [name for name, _ in desk.events()] == ["approval_required", "approval_resolved", "approval_required"]


def test_a_yes_that_was_given_is_of_no_use_under_a_policy_that_denies(
    desk: Any, ann: Actor, agent: Actor, synced: Subject
) -> None:
    asked = desk.admit(agent, "enable", synced)
    Approvals(desk.database).resolve(ann, asked.error.approval_id, approved=True)
    desk.set("skill_synced_policy", "admin-only")

    assert isinstance(desk.admit(agent, "enable", synced).error, Refused)


def test_a_reason_of_any_kind_is_kept_with_an_end(desk: Any, agent: Actor, synced: Subject) -> None:
    admission = desk.admit(agent, "enable", synced, reason="\x00\x1b[31m\ud800" + "x" * 5000)

    assert admission.approval.reason.startswith("��[31m�x")
    assert len(admission.approval.reason) == 2000


def test_nothing_is_decided_where_the_audit_cannot_be_written(
    desk: Any, ann: Actor, agent: Actor, synced: Subject
) -> None:
    approvals, policies = Approvals(desk.database), Policies(desk.database)
    waiting = desk.admit(agent, "enable", synced).error.approval_id
    with desk.database.write() as connection:
        audit.drop(connection)

    for decide in (
        lambda: desk.admit(agent, "delete", synced),
        lambda: approvals.resolve(ann, waiting, approved=True),
        lambda: approvals.revoke(ann, waiting),
        lambda: policies.change(ann, "skill_synced_policy", "auto"),
    ):
        with pytest.raises(Unavailable):
            decide()

    assert [(row.id, row.state) for row in approvals.list(ann, ("pending", "approved", "revoked"))] == [
        (waiting, "pending")
    ]
    assert policies.read(ann) == OrgPolicy()
    assert len(desk.events()) == 1


def _fields(subject: Subject) -> dict[str, Any]:
    return {name: getattr(subject, name) for name in subject.__dataclass_fields__}
