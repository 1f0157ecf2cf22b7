"""Sessions as rows: one per conversation, a budget that holds, and nothing of anybody else's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
import sqlalchemy as sa

from prowess.errors import Invalid
from prowess.storage import sessions
from prowess.storage.database import Database, open_database
from prowess.storage.owner import Owner
from prowess.storage.sessions import EnabledRow, SessionRow, SessionViewer


def agent(organization: str = "", user: str = "", *, name: str = "agent:scribe") -> SessionViewer:
    return SessionViewer(owner=Owner(organization_id=organization, user_id=user), actor=name, kind="agent")


ANN = agent("acme", "ann")
OTHERS = [
    agent("acme", "bob"),
    agent("globex", "ann"),
    agent("acme"),
    agent(user="ann"),
    agent(),
    agent("acme", "ann", name="agent:other"),
    SessionViewer(owner=Owner(organization_id="acme", user_id="bob"), actor="bob", kind="person"),
]
UNKNOWN = "00000000-0000-4000-8000-000000000000"
GIVEN: dict[str, Any] = {
    "role": "builder",
    "model": "large",
    "context_window": 200_000,
    "budget_max": 100,
}


def skill(slug: str, digest: str = "d1", **changes: Any) -> EnabledRow:
    values: dict[str, Any] = {"title": slug.title(), "scope": "account", "source_type": "catalog", "origin": "here"}
    return EnabledRow(slug=slug, digest=digest, **{**values, **changes})


def opened(database: Database, owner: SessionViewer = ANN, conversation: str = "chat", **changes: Any) -> SessionRow:
    with database.write() as connection:
        return sessions.open_session(connection, owner, conversation_id=conversation, **{**GIVEN, **changes})


def looked_at(database: Database, which: str, owner: SessionViewer = ANN) -> SessionRow | None:
    with database.read() as connection:
        return sessions.get_session(connection, owner, which)


def used(database: Database, id: str) -> int:
    """What the session says is used, which is what its blocks take."""
    with database.read() as connection:
        row = sessions.get_session(connection, ANN, id)
        assert row is not None
        blocks = sessions.list_contents(connection, id)
    assert (
        row.budget_used
        == sum(len(block.content) for block in blocks)
        == sum(block.row.content_length for block in blocks)
    )
    return row.budget_used


def do(database: Database, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
    with database.write() as connection:
        return call(connection, *args, **named)


def test_a_session_is_made_once_and_found_by_its_id_and_by_its_conversation(database: Database) -> None:
    first = opened(database)

    assert opened(database, role="scout", budget_max=5) == first
    assert looked_at(database, first.id) == looked_at(database, "chat") == first
    assert {name: value for name, value in asdict(first).items() if name in GIVEN} == GIVEN
    assert (first.budget_used, first.closed_at, first.conversation_id) == (0, None, "chat")


def test_a_session_survives_its_database_being_opened_again(database_url: str) -> None:
    database = open_database(database_url)
    session = opened(database)
    do(database, sessions.reserve, session.id, skill("one", detail={"z": 1, "a": [None, 1.5]}), "x" * 30)
    database.close()

    database = open_database(database_url)

    with database.read() as connection:
        ((row, text, _),) = sessions.list_contents(connection, session.id)
    assert (row.slug, row.digest, row.detail, text) == ("one", "d1", {"z": 1, "a": [None, 1.5]}, "x" * 30)
    assert list(row.detail) == ["z", "a"]
    assert used(database, session.id) == 30
    database.close()


def test_a_session_without_a_conversation_is_named_by_its_id(database: Database) -> None:
    first, second = opened(database, conversation=""), opened(database, conversation="")

    assert first.id != second.id
    assert first.conversation_id == first.id


def test_the_id_of_a_session_comes_before_a_conversation_of_that_name(database: Database) -> None:
    first = opened(database)
    opened(database, conversation=first.id)

    assert looked_at(database, first.id) == first


def test_open_sessions_are_listed_with_the_last_changed_first(database: Database) -> None:
    rows = [opened(database, conversation=name) for name in ("one", "two", "three")]
    do(database, sessions.reserve, rows[0].id, skill("a"), "x")
    do(database, sessions.close_session, ANN, rows[1].id)

    with database.read() as connection:
        assert [row.conversation_id for row in sessions.list_sessions(connection, ANN, limit=9)] == ["one", "three"]
        assert [row.conversation_id for row in sessions.list_sessions(connection, ANN, limit=1)] == ["one"]


def test_a_skill_that_fits_to_the_last_character_is_enabled_and_one_more_character_is_not(database: Database) -> None:
    session = opened(database)

    assert do(database, sessions.reserve, session.id, skill("one"), "ä" * 60) == "done"
    assert do(database, sessions.reserve, session.id, skill("two"), "x" * 41) == "over"
    assert used(database, session.id) == 60
    assert do(database, sessions.reserve, session.id, skill("two"), "🎈" * 40) == "done"
    assert used(database, session.id) == 100
    assert do(database, sessions.reserve, session.id, skill("three"), "") == "done"


def test_enabling_what_is_enabled_changes_nothing(database: Database) -> None:
    session = opened(database)
    do(database, sessions.reserve, session.id, skill("one"), "x" * 100)

    assert do(database, sessions.reserve, session.id, skill("one"), "x" * 100) == "there"
    assert used(database, session.id) == 100


def test_enabling_another_digest_of_an_enabled_skill_takes_its_place(database: Database) -> None:
    session = opened(database)
    for slug in ("one", "two"):
        do(database, sessions.reserve, session.id, skill(slug), "x" * 40)

    assert do(database, sessions.reserve, session.id, skill("one", "d2"), "y" * 61) == "over"
    assert do(database, sessions.reserve, session.id, skill("one", "d2"), "y" * 60) == "done"

    with database.read() as connection:
        kept = sessions.list_contents(connection, session.id)
    assert [(row.slug, row.digest, row.position, text) for row, text, _ in kept] == [
        ("one", "d2", 1, "y" * 60),
        ("two", "d1", 2, "x" * 40),
    ]
    assert used(database, session.id) == 100


def test_a_shorter_text_fits_even_where_the_budget_was_lowered_below_what_is_used(database: Database) -> None:
    session = opened(database)
    do(database, sessions.reserve, session.id, skill("one"), "x" * 90)
    do(database, sessions.change_session, ANN, session.id, budget_max=10)

    assert do(database, sessions.exchange, session.id, skill("one", "d2"), "y" * 91) == "over"
    assert do(database, sessions.exchange, session.id, skill("one", "d2"), "y" * 80) == "done"
    assert do(database, sessions.reserve, session.id, skill("two"), "y") == "over"
    assert used(database, session.id) == 80


def test_exchanging_what_is_not_enabled_changes_nothing(database: Database) -> None:
    session = opened(database)

    assert do(database, sessions.exchange, session.id, skill("one"), "x") == "gone"
    assert used(database, session.id) == 0


def test_what_is_disabled_gives_its_characters_back_and_the_rest_keeps_its_order(database: Database) -> None:
    session = opened(database)
    for slug in ("one", "two", "three"):
        do(database, sessions.reserve, session.id, skill(slug), slug)

    assert do(database, sessions.release, session.id, "two") == 3
    assert do(database, sessions.release, session.id, "two") is None
    do(database, sessions.reserve, session.id, skill("two"), "two")

    with database.read() as connection:
        assert [row.slug for row in sessions.list_enabled(connection, session.id)] == ["one", "three", "two"]
    assert used(database, session.id) == 11


def test_only_what_is_given_of_a_session_is_changed(database: Database) -> None:
    session = opened(database)

    changed = do(database, sessions.change_session, ANN, session.id, budget_max=7, model="small")

    assert changed == looked_at(database, session.id)
    assert (changed.budget_max, changed.model, changed.role, changed.context_window) == (7, "small", "builder", 200_000)
    assert changed.updated_at > session.updated_at


def test_a_closed_session_takes_nothing_until_it_is_opened_again(database: Database) -> None:
    session = opened(database)
    do(database, sessions.reserve, session.id, skill("one"), "x" * 30)

    assert do(database, sessions.close_session, ANN, session.id) is True
    assert do(database, sessions.close_session, ANN, session.id) is False

    closed = looked_at(database, session.id)
    assert closed is not None
    assert closed.closed_at is not None
    assert used(database, session.id) == 0
    assert do(database, sessions.reserve, session.id, skill("one"), "x") == "gone"
    assert do(database, sessions.exchange, session.id, skill("one"), "x") == "gone"
    assert do(database, sessions.release, session.id, "one") is None
    assert do(database, sessions.change_session, ANN, session.id, budget_max=1) is None
    again = opened(database, role="scout", budget_max=40)
    assert (again.id, again.closed_at, again.role, again.budget_max) == (session.id, None, "scout", 40)
    assert do(database, sessions.reserve, session.id, skill("one"), "x" * 40) == "done"


def test_a_transaction_that_fails_reserves_nothing(database: Database) -> None:
    session = opened(database)

    def enable_both(connection: sa.Connection) -> None:
        sessions.reserve(connection, session.id, skill("one"), "x" * 30)
        sessions.reserve(connection, session.id, skill("two", detail={"n": float("nan")}), "x" * 30)

    with pytest.raises(Invalid):
        do(database, enable_both)

    assert used(database, session.id) == 0


def test_an_unknown_session_is_gone(database: Database) -> None:
    assert do(database, sessions.reserve, UNKNOWN, skill("one"), "x") == "gone"
    assert do(database, sessions.exchange, UNKNOWN, skill("one"), "x") == "gone"
    assert do(database, sessions.release, UNKNOWN, "one") is None
    with database.read() as connection:
        assert sessions.list_enabled(connection, UNKNOWN) == sessions.list_contents(connection, UNKNOWN) == []


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_a_session_of_somebody_else_answers_exactly_as_an_unknown_one(database: Database, other: SessionViewer) -> None:
    mine = opened(database)

    for which in (mine.id, mine.conversation_id, UNKNOWN):
        assert looked_at(database, which, other) is None
        assert do(database, sessions.close_session, other, which) is False
        assert do(database, sessions.change_session, other, which, budget_max=1) is None
    with database.read() as connection:
        assert sessions.list_sessions(connection, other, limit=9) == []
    theirs = opened(database, other)
    assert theirs.id != mine.id
    assert looked_at(database, mine.id) == mine


def test_a_person_finds_the_sessions_of_the_agents_that_work_for_them(database: Database) -> None:
    ann = SessionViewer(owner=ANN.owner, actor="ann", kind="person", shared="all")
    theirs = opened(database)

    assert looked_at(database, theirs.id, ann) == looked_at(database, "chat", ann) == theirs
    assert opened(database, ann) == theirs
    own = opened(database, replace(ann, shared=""))
    assert own.id != theirs.id
    assert looked_at(database, "chat", ann) == own
    assert looked_at(database, "chat") == theirs
    with database.read() as connection:
        assert {row.id for row in sessions.list_sessions(connection, ann, limit=9)} == {own.id, theirs.id}
        assert [row.id for row in sessions.list_sessions(connection, ANN, limit=9)] == [theirs.id]
