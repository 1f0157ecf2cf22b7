"""Approvals as rows: one question, one outcome, for one digest and one requester, for a time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from prowess.storage import approvals
from prowess.storage.approvals import ApprovalRow
from prowess.storage.database import Database
from prowess.storage.owner import Owner
from prowess.storage.sql.approvals import approvals as table

ANN = Owner(organization_id="acme", user_id="ann")
UNKNOWN = "00000000-0000-4000-8000-000000000000"
QUESTION: dict[str, Any] = {
    "action": "enable",
    "slug": "release-notes",
    "digest": "d1",
    "requester": "agent:scribe",
    "session_id": "s1",
    "reason": "The user asked for notes.",
    "detail": {"title": "Release notes", "files": [{"path": "SKILL.md", "sha256": "00"}], "chars": 12},
    "lifetime_seconds": 3600,
}
GRANT: dict[str, Any] = {
    "action_group": "enable",
    "slug": "release-notes",
    "digest": "d1",
    "requester": "agent:scribe",
}


def do(database: Database, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
    with database.write() as connection:
        return call(connection, *args, **named)


def asked(database: Database, owner: Owner = ANN, **changes: Any) -> ApprovalRow:
    return do(database, approvals.ask, owner, **{**QUESTION, **changes})[0]


def resolved(database: Database, row: ApprovalRow, *, approved: bool = True, **more: Any) -> ApprovalRow | None:
    return do(
        database,
        approvals.resolve,
        row.organization_id,
        row.id,
        **{"approved": approved, "resolver": "ann", "note": "Fine.", **more},
    )


def let_pass(database: Database, row: ApprovalRow) -> None:
    """Let the time of an approval be over."""
    past = sa.update(table).where(table.c.id == row.id).values(expires_at="2020-01-01T00:00:00.000000Z")
    do(database, lambda connection: connection.execute(past))


def states(database: Database, *wanted: Any, organization: str = "acme", user: str | None = None) -> list[str]:
    rows = do(database, approvals.list_approvals, organization, states=wanted, limit=9, user_id=user)
    return [row.id for row in rows]


def test_a_question_is_kept_as_it_was_asked(database: Database) -> None:
    row, new = do(database, approvals.ask, ANN, **QUESTION)

    assert new
    assert do(database, approvals.get_approval, "acme", row.id) == row
    assert (row.state, row.user_id, row.detail, row.resolver) == ("pending", "ann", QUESTION["detail"], None)
    assert row.expires_at > row.created_at
    assert states(database, "pending") == states(database, "pending", user="ann") == [row.id]
    assert states(database, "pending", user="bob") == states(database, "approved", "denied") == []


@pytest.mark.parametrize(
    "change",
    [
        {"action": "delete"},
        {"slug": "other"},
        {"digest": "d2"},
        {"requester": "agent:other"},
    ],
    ids=str,
)
def test_an_equal_question_that_waits_is_given_back_and_another_one_is_asked(
    database: Database, change: dict[str, str]
) -> None:
    first = asked(database)

    for same in ({"reason": "Again."}, {"session_id": "s2"}):
        assert do(database, approvals.ask, ANN, **{**QUESTION, **same}) == (first, False)
    assert asked(database, **change).id != first.id


def test_a_question_that_was_answered_or_not_in_time_is_asked_again(database: Database) -> None:
    first = asked(database)
    resolved(database, first, approved=False)
    second = asked(database)
    let_pass(database, second)
    third = asked(database)

    assert len({first.id, second.id, third.id}) == 3
    assert do(database, approvals.get_approval, "acme", second.id).state == "expired"


def test_an_approval_has_one_outcome(database: Database) -> None:
    row = asked(database)

    yes = resolved(database, row)

    assert yes == do(database, approvals.get_approval, "acme", row.id)
    assert yes is not None
    assert (yes.state, yes.resolver, yes.note) == ("approved", "ann", "Fine.")
    assert yes.resolved_at is not None
    assert resolved(database, row, approved=False) is None
    assert do(database, approvals.get_approval, "acme", row.id) == yes


def test_what_is_over_cannot_be_resolved_and_is_told_once(database: Database) -> None:
    row, kept = asked(database), asked(database, slug="other")
    let_pass(database, row)

    assert resolved(database, row) is None
    assert states(database, "pending") == [kept.id]
    assert states(database, "expired") == [row.id]
    (told,) = do(database, approvals.expire, "acme")
    assert told == do(database, approvals.get_approval, "acme", row.id)
    assert (told.id, told.state) == (row.id, "expired")
    assert do(database, approvals.expire, "acme") == []


def test_a_yes_is_for_exactly_this_action_slug_digest_and_requester(database: Database) -> None:
    row = asked(database)
    assert do(database, approvals.find_granted, ANN, **GRANT) is None
    yes = resolved(database, row)

    assert do(database, approvals.find_granted, ANN, **GRANT) == yes
    for name in GRANT:
        assert do(database, approvals.find_granted, ANN, **{**GRANT, name: "another"}) is None


def test_a_no_grants_nothing(database: Database) -> None:
    resolved(database, asked(database), approved=False)

    assert do(database, approvals.find_granted, ANN, **GRANT) is None


def test_a_yes_is_good_until_its_time_is_over(database: Database) -> None:
    row = asked(database)
    resolved(database, row)
    let_pass(database, row)

    assert do(database, approvals.find_granted, ANN, **GRANT) is None
    assert do(database, approvals.use, row.id) is False
    assert do(database, approvals.expire, "acme") == []


def test_a_yes_with_a_lifetime_counts_from_the_answer(database: Database) -> None:
    row = asked(database, lifetime_seconds=60)

    yes = resolved(database, row, lifetime_seconds=7200)

    assert yes is not None
    assert yes.expires_at > row.expires_at


def test_a_yes_for_one_time_is_used_once(database: Database) -> None:
    row = asked(database)
    assert do(database, approvals.use, row.id) is False
    resolved(database, row)

    assert do(database, approvals.use, row.id) is True
    assert do(database, approvals.use, row.id) is False
    assert do(database, approvals.find_granted, ANN, **GRANT) is None
    assert do(database, approvals.get_approval, "acme", row.id).used_at is not None


def test_a_yes_can_be_taken_back_and_a_no_cannot(database: Database) -> None:
    yes, no = asked(database), asked(database, slug="other")
    resolved(database, yes)
    resolved(database, no, approved=False)

    revoked = do(database, approvals.revoke, "acme", yes.id, "ann", note="It changed.")

    assert (revoked.state, revoked.note) == ("revoked", "It changed.")
    assert do(database, approvals.find_granted, ANN, **GRANT) is None
    assert do(database, approvals.revoke, "acme", yes.id, "ann") is None
    assert do(database, approvals.revoke, "acme", no.id, "ann") is None


def test_an_approval_of_another_organization_answers_exactly_as_an_unknown_one(database: Database) -> None:
    row = asked(database)
    let_pass(database, asked(database, slug="other"))

    for other in ("globex", ""):
        for which in (row.id, UNKNOWN):
            assert do(database, approvals.get_approval, other, which) is None
            assert do(database, approvals.revoke, other, which, "eve") is None
            answer = do(database, approvals.resolve, other, which, approved=True, resolver="eve", note="")
            assert answer is None
        assert states(database, "pending", "expired", organization=other) == []
        assert do(database, approvals.expire, other) == []
    assert do(database, approvals.get_approval, "acme", row.id) == row


def test_a_yes_for_one_user_is_none_for_another(database: Database) -> None:
    resolved(database, asked(database))

    for other in (Owner(organization_id="acme", user_id="bob"), Owner(organization_id="acme"), Owner(user_id="ann")):
        assert do(database, approvals.find_granted, other, **GRANT) is None


def test_of_many_who_resolve_at_once_exactly_one_decides(database: Database) -> None:
    questions = [{**QUESTION, "slug": f"skill-{number}"} for number in range(200)]
    with database.write() as connection:
        rows = [approvals.ask(connection, ANN, **question)[0] for question in questions]

    def decide_all(caller: int) -> list[tuple[str, str]]:
        """Each caller goes through all in an order of its own, says yes or no, and keeps what it decided."""
        mine = rows if caller < 2 else rows[caller * 40 :] + rows[: caller * 40]
        told = [resolved(database, row, approved=bool(caller % 2), resolver=f"person-{caller}") for row in mine]
        return [(row.id, f"{row.state} by {row.resolver}") for row in told if row is not None]

    with ThreadPoolExecutor(4) as pool:
        decided = [item for items in pool.map(decide_all, range(4)) for item in items]

    kept = {row.id: f"{row.state} by {row.resolver}" for row in listed(database, 300)}
    assert len(decided) == 200
    assert dict(decided) == kept


def test_of_many_who_ask_expire_or_use_at_once_one_has_the_effect(database: Database) -> None:
    yes, late = asked(database, slug="used"), asked(database, slug="late")
    resolved(database, yes)
    let_pass(database, late)

    def run(number: int) -> tuple[bool, int, bool]:
        new = do(database, approvals.ask, ANN, **QUESTION)[1]
        told = do(database, approvals.expire, "acme")
        return new, len(told), do(database, approvals.use, yes.id)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(run, range(8)))

    assert [Counter(column)[True] for column in zip(*results, strict=True)] == [1, 1, 1]


def test_an_equal_question_waits_for_one_that_is_being_asked_and_is_given_it(database: Database) -> None:
    def ask(connection: sa.Connection) -> tuple[ApprovalRow, bool]:
        return approvals.ask(connection, ANN, **QUESTION)

    (first, new), (second, also_new) = overlapping(database, ask, ask)

    assert (new, also_new) == (True, False)
    assert second == first


def test_a_question_that_one_is_expiring_is_not_told_to_another(database: Database) -> None:
    row = asked(database)
    let_pass(database, row)

    def expire(connection: sa.Connection) -> list[str]:
        return [row.id for row in approvals.expire(connection, "acme")]

    assert overlapping(database, expire, expire) == ([row.id], [])


def overlapping(database: Database, first: Callable[..., Any], second: Callable[..., Any]) -> tuple[Any, Any]:
    """What two transactions gave, of which the second began, and came as far as it could, while the first was open."""
    began = threading.Event()

    def follow() -> Any:
        began.set()
        return do(database, second)

    with ThreadPoolExecutor(1) as pool:
        with database.write() as connection:
            mine = first(connection)
            other = pool.submit(follow)
            began.wait()
            while connection.dialect.name == "postgresql" and not other.done() and not waits(database):
                pass
        return mine, other.result()


def waits(database: Database) -> bool:
    """Whether anybody in this PostgreSQL database waits for a lock."""
    query = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with database.read() as connection:
        return connection.execute(sa.text(query)).first() is not None


def listed(database: Database, limit: int) -> list[ApprovalRow]:
    with database.read() as connection:
        return approvals.list_approvals(connection, "acme", states=("approved", "denied"), limit=limit)
