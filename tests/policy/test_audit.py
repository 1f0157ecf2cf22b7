"""The audit log: for administrators, of their own organization, and provably whole."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy as sa

from prowess.engine.approvals import AuditLog
from prowess.errors import Refused
from prowess.policy.actor import PERMISSIONS, Actor
from prowess.policy.approvals import Approvals
from prowess.policy.configuration import Policies
from prowess.policy.subject import Subject
from prowess.storage.sql.ledger import audit

Log = Callable[[Actor], AuditLog]


@pytest.fixture
def log(desk: Any, ann: Actor, agent: Actor, synced: Subject) -> Log:
    """Return the log as an actor reads it. It has one entry of each kind of decision."""
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
    resources = SimpleNamespace(records=lambda: desk.database)
    return lambda actor: AuditLog(cast("Any", SimpleNamespace(resources=resources, actor=actor)))


def test_every_decision_has_left_exactly_one_entry(log: Log, ann: Actor) -> None:
    assert [(row.action, row.outcome) for row in asyncio.run(log(ann).rows())] == [
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
    assert asyncio.run(log(ann).verify()).ok


def test_every_entry_of_an_actor_names_the_way_they_came_in(log: Log, ann: Actor) -> None:
    by_actor = [(bool(row.actor), row.detail.get("channel")) for row in asyncio.run(log(ann).rows())]

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


def test_rows_come_in_portions_and_the_last_one_has_the_head(log: Log, ann: Actor) -> None:
    first, rest = asyncio.run(log(ann).rows(limit=4)), asyncio.run(log(ann).rows(after=4))

    assert [row.number for row in [*first, *rest]] == list(range(1, 11))
    assert rest[-1].hash == asyncio.run(log(ann).verify()).head


def test_an_altered_row_is_found(desk: Any, log: Log, ann: Actor) -> None:
    with desk.database.write() as connection:
        connection.execute(sa.update(audit).where(audit.c.number == 3).values(outcome="refused"))

    verdict = asyncio.run(log(ann).verify())

    assert (verdict.ok, verdict.first_bad) == (False, 3)


def test_rows_cut_off_the_end_are_missed_by_whoever_kept_the_head(desk: Any, log: Log, ann: Actor) -> None:
    head = asyncio.run(log(ann).verify()).head
    with desk.database.write() as connection:
        connection.execute(sa.delete(audit).where(audit.c.number > 8))

    assert asyncio.run(log(ann).verify()).ok
    assert not asyncio.run(log(ann).verify(head=head)).ok


@pytest.mark.parametrize(
    "actor",
    [
        Actor(name="agent", kind="agent", organization="acme", user="ann", permissions=PERMISSIONS),
        Actor(name="bob", organization="acme", user="bob", permissions=PERMISSIONS - {"admin"}),
    ],
    ids=["an agent", "a person without admin"],
)
def test_nobody_else_reads_it(log: Log, actor: Actor) -> None:
    own = log(actor)
    for read in (own.rows, own.find, own.count, own.last, own.verify):
        with pytest.raises(Refused):
            asyncio.run(read())


def test_another_organization_sees_nothing_of_it(log: Log) -> None:
    other = Actor(name="ann", organization="globex", user="ann")

    assert asyncio.run(log(other).rows()) == []
    assert asyncio.run(log(other).verify()).rows == 0
