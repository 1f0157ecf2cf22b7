"""The audit log: for administrators, of their own organization, and provably whole."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from prowess.errors import Refused
from prowess.policy.actor import PERMISSIONS, Actor
from prowess.policy.approvals import Approvals
from prowess.policy.audit import Audit
from prowess.policy.configuration import Policies
from prowess.policy.subject import Subject
from prowess.storage.policy_tables import audit


@pytest.fixture
def log(desk: Any, ann: Actor, agent: Actor, synced: Subject) -> Audit:
    """A log with one entry of each kind of decision."""
    Policies(desk.database).change(ann, "approval_minutes", 10)
    asked = desk.admit(agent, "enable", synced).error.approval_id
    Approvals(desk.database).resolve(ann, asked, approved=True)
    desk.admit(agent, "enable", synced)
    Approvals(desk.database).revoke(ann, asked)
    desk.let_time_pass(desk.admit(agent, "delete", synced).error.approval_id)
    Approvals(desk.database).expire("acme")
    refused = desk.admit(agent, "run", synced).error.approval_id
    Approvals(desk.database).resolve(ann, refused, approved=False)
    desk.admit(agent, "run", synced)
    return Audit(desk.database)


def test_every_decision_has_left_exactly_one_entry(log: Audit, ann: Actor) -> None:
    assert [(row.action, row.outcome) for row in log.rows(ann)] == [
        ("configure", "changed"),
        ("enable", "asked"),
        ("approve", "approved"),
        ("enable", "allowed"),
        ("approve", "revoked"),
        ("delete", "asked"),
        ("approve", "expired"),
        ("run", "asked"),
        ("approve", "refused"),
        ("run", "denied"),
    ]
    assert log.verify(ann).ok


def test_every_entry_of_an_actor_names_the_way_they_came_in(log: Audit, ann: Actor) -> None:
    by_actor = [(bool(row.actor), row.detail.get("channel")) for row in log.rows(ann)]

    assert set(by_actor) == {(True, "library"), (False, None)}


def test_an_answer_names_its_channel_its_proof_and_the_text_that_was_shown(
    desk: Any, ann: Actor, agent: Actor, synced: Subject
) -> None:
    asked = desk.admit(replace(agent, channel="mcp:editor"), "enable", synced).error.approval_id
    at_terminal = replace(ann, channel="terminal")
    card = "Everything that it reaches." * 200
    approvals = Approvals(desk.database)

    row = approvals.resolve(at_terminal, asked, approved=True, proof="typed at a terminal", shown=card)
    approvals.revoke(replace(ann, channel="cli"), asked)

    fingerprint = hashlib.sha256(card.encode()).hexdigest()
    assert row.detail["channel"] == "mcp:editor"
    assert row.detail["answer"] == {
        "channel": "terminal",
        "proof": "typed at a terminal",
        "shown": card,
        "shown_sha256": fingerprint,
    }
    answer, revocation = desk.audit()[-2:]
    assert (answer.detail["channel"], answer.detail["proof"]) == ("terminal", "typed at a terminal")
    assert answer.detail["shown_sha256"] == fingerprint
    assert (revocation.detail["channel"], "proof" in revocation.detail) == ("cli", False)


def test_rows_come_in_portions_and_the_export_is_all_of_them(log: Audit, ann: Actor) -> None:
    first, rest = log.rows(ann, limit=4), log.rows(ann, after=4)

    lines = [json.loads(line) for line in log.export(ann)]

    assert [line["number"] for line in lines] == [row.number for row in [*first, *rest]] == list(range(1, 11))
    assert lines[-1]["hash"] == log.verify(ann).head


def test_an_altered_row_is_found(desk: Any, log: Audit, ann: Actor) -> None:
    with desk.database.write() as connection:
        connection.execute(sa.update(audit).where(audit.c.number == 3).values(outcome="refused"))

    verdict = log.verify(ann)

    assert (verdict.ok, verdict.first_bad) == (False, 3)


def test_rows_cut_off_the_end_are_missed_by_whoever_kept_the_head(desk: Any, log: Audit, ann: Actor) -> None:
    head = log.verify(ann).head
    with desk.database.write() as connection:
        connection.execute(sa.delete(audit).where(audit.c.number > 8))

    assert log.verify(ann).ok
    assert not log.verify(ann, head=head).ok


@pytest.mark.parametrize(
    "actor",
    [
        Actor(name="agent", kind="agent", organization="acme", user="ann", permissions=PERMISSIONS),
        Actor(name="bob", organization="acme", user="bob", permissions=PERMISSIONS - {"admin"}),
    ],
    ids=["an agent", "a person without admin"],
)
def test_nobody_else_reads_it(log: Audit, actor: Actor) -> None:
    for read in (log.rows, log.verify, log.export):
        with pytest.raises(Refused):
            read(actor)


def test_another_organization_sees_nothing_of_it(log: Audit) -> None:
    other = Actor(name="ann", organization="globex", user="ann")

    assert log.rows(other) == []
    assert list(log.export(other)) == []
    assert log.verify(other).rows == 0
