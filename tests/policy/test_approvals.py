"""Answering: one outcome, by a person, of the right organization, in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from prowess.errors import Conflict, NotFound, ProwessError, Refused
from prowess.policy.actor import PERMISSIONS, Actor, agent_of
from prowess.policy.approvals import Approval, Approvals
from prowess.policy.subject import Subject

UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def approvals(desk: Any) -> Approvals:
    return Approvals(desk.database)


@pytest.fixture
def waiting(desk: Any, agent: Actor, synced: Subject) -> str:
    """The id of a question that ann's agent has asked."""
    return desk.admit(agent, "enable", synced, session_id="s1").error.approval_id


@pytest.mark.parametrize(
    ("approved", "state", "outcome"), [(True, "approved", "approved"), (False, "denied", "refused")]
)
def test_an_answer_is_kept_with_one_audit_entry_and_one_event(
    desk: Any, approvals: Approvals, ann: Actor, waiting: str, approved: bool, state: str, outcome: str
) -> None:
    answered = approvals.resolve(ann, waiting, approved=approved, note="Seen.")

    assert (answered.state, answered.resolver, answered.note) == (state, "ann", "Seen.")
    assert approvals.get(ann, waiting) == answered
    assert approvals.list(ann) == []
    assert desk.outcomes() == [("enable", "asked"), ("approve", outcome)]
    assert desk.events()[1] == (
        "approval_resolved",
        {
            "approval_id": waiting,
            "approved": approved,
            "outcome": outcome,
            "skill": {"slug": "triage", "digest": answered.digest},
            "resolver": "ann",
            "note": "Seen.",
        },
    )


def test_only_what_is_true_is_a_yes(approvals: Approvals, ann: Actor, waiting: str) -> None:
    assert approvals.resolve(ann, waiting, approved="false").state == "denied"  # pyright: ignore[reportArgumentType]


def test_a_yes_lasts_for_the_days_that_the_organization_has_set(
    desk: Any, approvals: Approvals, ann: Actor, agent: Actor, synced: Subject, waiting: str
) -> None:
    enabling = approvals.resolve(ann, waiting, approved=True)
    once = approvals.resolve(ann, desk.admit(agent, "delete", synced).error.approval_id, approved=True)

    assert enabling.expires_at > once.expires_at > once.created_at


def test_there_is_one_outcome(desk: Any, approvals: Approvals, ann: Actor, waiting: str) -> None:
    approvals.resolve(ann, waiting, approved=False)

    with pytest.raises(Conflict, match="it is refused by ann"):
        approvals.resolve(ann, waiting, approved=True)
    assert approvals.get(ann, waiting).state == "denied"
    assert len(desk.audit()) == 2


def test_of_many_who_answer_at_once_exactly_one_does(
    desk: Any, approvals: Approvals, agent: Actor, synced: Subject, at_once: Callable[..., list[Any]]
) -> None:
    people = [Actor(name=f"person-{n}", organization="acme", user="ann") for n in range(20)]

    for turn in range(10):
        asking = replace(agent, name=f"agent-{turn}")
        asked = desk.admit(asking, "run", synced, session_id=f"s{turn}").error.approval_id
        results = at_once(
            *[lambda n=n, asked=asked: approvals.resolve(people[n], asked, approved=n % 2 == 0) for n in range(20)]
        )
        (winner,) = [result for result in results if isinstance(result, Approval)]
        assert sorted({type(result) for result in results if result is not winner}, key=str) == [Conflict]
        assert approvals.get(people[0], asked) == winner
        assert (winner.state == "approved") is (
            people.index(next(p for p in people if p.name == winner.resolver)) % 2 == 0
        )
        assert desk.admit(asking, "run", synced).allowed is (winner.state == "approved")
    answers = [row for row in desk.audit() if row.outcome in ("approved", "refused")]
    assert len(answers) == 10
    assert len({row.detail["approval_id"] for row in answers}) == 10
    assert len([name for name, _ in desk.events() if name == "approval_resolved"]) == 10


def test_no_agent_answers_whatever_it_is_called_or_given(
    desk: Any, approvals: Approvals, ann: Actor, agent: Actor, waiting: str
) -> None:
    powerful = Actor(name="ann", kind="agent", organization="acme", user="ann", permissions=PERMISSIONS)

    for actor in (agent, powerful, agent_of(ann, role="builder")):
        for which in (waiting, UNKNOWN):
            for act in (
                lambda a=actor, i=which: approvals.resolve(a, i, approved=True),
                lambda a=actor, i=which: approvals.revoke(a, i),
            ):
                with pytest.raises(Refused, match="Agents may not approve"):
                    act()
    assert approvals.get(ann, waiting).state == "pending"
    assert desk.outcomes()[1:] == [("approve", "denied")] * 12
    assert desk.audit()[1].detail["reason"] == f"approval {waiting}"


policy_values = st.sampled_from(["auto", "prompt-user", "admin-only", "none", None, True, []])
role_entries = st.fixed_dictionaries(
    {}, optional={"actions": st.sampled_from([["*"], ["approve", "configure"], []]), "tools": st.just(["*"])}
)


def test_no_agent_under_any_role_and_policy_ever_resolves_an_approval(
    desk: Any, approvals: Approvals, ann: Actor, waiting: str
) -> None:
    @hypothesis_settings(max_examples=40)
    @given(
        st.sampled_from(["agent", "ann", "admin"]),
        st.sampled_from(["", "builder", "coordinator", "scout", "communicator", "free", "boss"]),
        st.frozensets(st.sampled_from(sorted(PERMISSIONS))),
        policy_values,
        policy_values,
        role_entries,
        st.booleans(),
    )
    def refused(name: str, role: str, permissions: Any, one: Any, two: Any, entry: Any, approved: bool) -> None:
        desk.set("skill_enablement_policy", one)
        desk.set("skill_synced_policy", two)
        desk.set("roles", {"free": entry, "builder": entry})
        actor = Actor(name=name, kind="agent", organization="acme", user="ann", role=role, permissions=permissions)
        with pytest.raises(Refused):
            approvals.resolve(actor, waiting, approved=approved)
        with pytest.raises(Refused):
            approvals.revoke(actor, waiting)

    refused()
    assert approvals.get(ann, waiting).state == "pending"
    assert {outcome for action, outcome in desk.outcomes() if action == "approve"} == {"denied"}


def test_a_person_needs_the_permission_to_approve(desk: Any, approvals: Approvals, waiting: str) -> None:
    reader = Actor(name="ann", organization="acme", user="ann", permissions=frozenset({"skills.read", "skills.write"}))

    assert [row.id for row in approvals.list(reader)] == [waiting]
    with pytest.raises(Refused, match=r"approvals\.resolve"):
        approvals.resolve(reader, waiting, approved=True)
    assert desk.outcomes() == [("enable", "asked"), ("approve", "denied")]


def test_a_foreign_id_answers_exactly_as_an_unknown_one(
    desk: Any, approvals: Approvals, ann: Actor, waiting: str
) -> None:
    approver = frozenset({"skills.read", "approvals.resolve"})
    strangers = [
        Actor(name="ann", organization="globex", user="ann"),
        Actor(name="ann", user="ann"),
        Actor(name="bob", organization="acme", user="bob", permissions=approver),
        agent_of(Actor(name="bob", organization="acme", user="bob")),
        agent_of(ann, name="helper"),
    ]

    for actor in strangers:
        assert approvals.list(actor, ("pending", "approved", "denied", "expired", "revoked")) == []
        for call in (
            lambda which, a=actor: approvals.get(a, which),
            lambda which, a=actor: approvals.resolve(a, which, approved=True),
            lambda which, a=actor: approvals.revoke(a, which),
        ):
            assert told(call, waiting) == told(call, UNKNOWN)
    assert approvals.get(ann, waiting).state == "pending"
    assert [outcome for _, outcome in desk.outcomes() if outcome != "denied"] == ["asked"]
    assert desk.outcomes("globex") == []


def told(call: Callable[[str], object], id: str) -> tuple[type, str, str]:
    """What a caller learns from a refused call, without the id that they sent."""
    with pytest.raises(ProwessError) as caught:
        call(id)
    assert isinstance(caught.value, NotFound | Refused)
    return type(caught.value), caught.value.message.replace(id, "ID"), caught.value.hint.replace(id, "ID")


def test_an_administrator_answers_for_the_whole_organization_and_an_agent_sees_its_own(
    approvals: Approvals, agent: Actor, waiting: str
) -> None:
    boss = Actor(name="carol", organization="acme", user="carol")

    assert [row.id for row in approvals.list(agent)] == [waiting]
    assert approvals.get(agent, waiting).state == "pending"
    assert [row.id for row in approvals.list(boss)] == [waiting]
    assert approvals.resolve(boss, waiting, approved=True).resolver == "carol"


def test_what_is_over_cannot_be_answered_and_is_written_down_once(
    desk: Any, approvals: Approvals, ann: Actor, waiting: str
) -> None:
    desk.let_time_pass(waiting)

    for _ in range(2):
        with pytest.raises(Conflict, match="it is expired"):
            approvals.resolve(ann, waiting, approved=True)
    assert approvals.expire("acme") == []
    assert approvals.get(ann, waiting).state == "expired"
    assert desk.outcomes() == [("enable", "asked"), ("approve", "expired")]
    assert desk.events()[1][1]["outcome"] == "expired"


def test_looking_at_the_questions_writes_down_which_nobody_answered_in_time(
    desk: Any, ann: Actor, agent: Actor, waiting: str
) -> None:
    woken: list[str] = []
    approvals = Approvals(desk.database, wake=woken.append)
    desk.let_time_pass(waiting)

    assert approvals.list(agent) == []
    assert desk.outcomes() == [("enable", "asked")]
    for _ in range(2):
        assert approvals.list(ann) == []
    assert desk.outcomes() == [("enable", "asked"), ("approve", "expired")]
    assert woken == ["acme"]


def test_many_who_expire_at_once_write_each_down_once(
    desk: Any, approvals: Approvals, agent: Actor, synced: Subject, at_once: Callable[..., list[Any]]
) -> None:
    asked = {desk.admit(agent, "enable", replace(synced, slug=f"s{n}")).error.approval_id for n in range(5)}
    for which in asked:
        desk.let_time_pass(which)

    results = at_once(*[lambda: approvals.expire("acme") for _ in range(8)])

    assert sorted(row.id for rows in results for row in rows) == sorted(asked)
    assert desk.outcomes().count(("approve", "expired")) == 5


def test_a_yes_can_be_taken_back(
    desk: Any, approvals: Approvals, ann: Actor, agent: Actor, synced: Subject, waiting: str
) -> None:
    approvals.resolve(ann, waiting, approved=True)

    assert approvals.revoke(ann, waiting, note="Changed my mind.").state == "revoked"

    assert desk.admit(agent, "enable", synced).error.approval_id != waiting
    with pytest.raises(Conflict, match="it is revoked by ann"):
        approvals.revoke(ann, waiting)
    assert [outcome for _, outcome in desk.outcomes()] == ["asked", "approved", "revoked", "asked"]
