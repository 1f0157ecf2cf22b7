"""What the gate would decide about many skills, told without asking anybody and in few queries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from prowess.policy.acceptance import resolve
from prowess.policy.actor import Actor
from prowess.policy.approvals import Approvals
from prowess.policy.gate import preview_all
from prowess.policy.organization import OrgPolicy
from prowess.policy.subject import Subject

Answers = Callable[..., list[str]]


@pytest.fixture
def foreseen(desk: Any) -> Answers:
    """The answer about each subject, and how many queries it took."""

    def look(actor: Actor, subjects: list[Subject]) -> list[str]:
        queries: list[str] = []
        with desk.database.read() as connection:
            sa.event.listen(connection, "before_cursor_execute", lambda *told: queries.append(told[2]))
            resolved = resolve(connection, actor.owner, subjects, ())
            rulings = preview_all(connection, actor, "run", resolved, OrgPolicy())
        assert len(queries) <= 1 + len(subjects) // 500
        return [ruling.answer for ruling in rulings]

    return look


def answered(desk: Any, ann: Actor, agent: Actor, subject: Subject, *, approved: bool) -> str:
    asked = desk.admit(agent, "run", subject)
    Approvals(desk.database).resolve(ann, asked.approval.id, approved=approved)
    return asked.approval.id


def test_each_skill_has_the_answer_that_admitting_it_would_give(
    desk: Any, ann: Actor, agent: Actor, synced: Subject, foreseen: Answers
) -> None:
    yes, no, open_ = (replace(synced, slug=slug) for slug in ("yes", "no", "open"))
    local = replace(synced, slug="local", frozen=True)
    answered(desk, ann, agent, yes, approved=True)
    answered(desk, ann, agent, no, approved=False)
    subjects = [yes, no, open_, local, replace(yes, digest="other"), replace(yes, reach="machine")]
    assert foreseen(agent, subjects) == ["allow", "deny", "ask", "allow", "ask", "ask"]
    assert foreseen(ann, subjects[:2]) == ["ask", "ask"]
    assert [desk.admit(agent, "run", subject).allowed for subject in subjects] == [
        True,
        False,
        False,
        True,
        False,
        False,
    ]


def test_a_yes_and_a_no_end_with_their_time(
    desk: Any, ann: Actor, agent: Actor, synced: Subject, foreseen: Answers
) -> None:
    no = replace(synced, slug="no")
    for subject, approved in ((synced, True), (no, False)):
        desk.let_time_pass(answered(desk, ann, agent, subject, approved=approved))
    assert foreseen(agent, [synced, no]) == ["ask", "ask"]


def test_hundreds_of_skills_take_no_more_queries_than_one(
    desk: Any, ann: Actor, agent: Actor, synced: Subject, foreseen: Answers
) -> None:
    subjects = [replace(synced, slug=f"s{number}") for number in range(600)]
    answered(desk, ann, agent, subjects[-1], approved=True)
    assert foreseen(agent, subjects) == ["ask"] * 599 + ["allow"]
