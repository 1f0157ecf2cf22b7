"""Many callers over a few sessions at once: the budget holds, and what is used is what is there."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from prowess.storage import sessions
from prowess.storage.database import Database
from prowess.storage.owner import Owner
from prowess.storage.sessions import SessionViewer
from prowess.storage.sql.sessions import session_skills
from prowess.storage.sql.sessions import sessions as session_table

LIMIT = 16_000
VIEWER = SessionViewer(owner=Owner(organization_id="acme", user_id="ann"), actor="a", kind="agent")
GIVEN: dict[str, Any] = {"role": "", "model": "", "context_window": None}
BLOCK = "x" * 1_600


def opened(database: Database, conversation: str) -> str:
    with database.write() as connection:
        row = sessions.open_session(connection, VIEWER, conversation_id=conversation, budget_max=LIMIT, **GIVEN)
    return row.id


def skill(slug: str, digest: str = "d1") -> sessions.EnabledRow:
    return sessions.EnabledRow(
        slug=slug, title=slug, digest=digest, scope="account", source_type="catalog", origin="here"
    )


def check_budgets(database: Database) -> None:
    """No session is over its budget, and each says exactly what its blocks take."""
    blocks = sa.func.coalesce(sa.func.sum(sa.func.length(session_skills.c.content)), 0)
    lengths = sa.func.coalesce(sa.func.sum(session_skills.c.content_length), 0)
    table = session_table
    query = (
        sa.select(table.c.budget_max, table.c.budget_used, blocks, lengths)
        .select_from(table.outerjoin(session_skills))
        .group_by(table.c.id)
    )
    with database.read() as connection:
        for limit, used, characters, recorded in connection.execute(query):
            assert used == characters == recorded <= limit


def attempt(database: Database, ids: list[str], seed: int, times: int) -> Counter[str]:
    """Enable again and again, and now and then exchange or disable."""
    chance = random.Random(seed)
    said: Counter[str] = Counter()
    for _ in range(times):
        session, row = chance.choice(ids), skill(f"skill-{chance.randrange(24)}", f"d{chance.randrange(2)}")
        block = BLOCK[: chance.randint(900, 1_600)]
        with database.write() as connection:
            kind = chance.random()
            if kind < 0.75:
                said[sessions.reserve(connection, session, row, block)] += 1
            elif kind < 0.9:
                said["exchanged " + sessions.exchange(connection, session, row, block)] += 1
            else:
                said[f"released {sessions.release(connection, session, row.slug) is not None}"] += 1
    return said


def run_attempts(database: Database, *, callers: int, conversations: int, each: int) -> Counter[str]:
    ids = [opened(database, f"chat-{number}") for number in range(conversations)]
    with ThreadPoolExecutor(callers) as pool:
        counts = pool.map(lambda seed: attempt(database, ids, seed, each), range(callers))
    total: Counter[str] = sum(counts, Counter())
    check_budgets(database)
    return total


def test_no_session_ever_exceeds_its_budget_whoever_enables_at_once(database: Database) -> None:
    said = run_attempts(database, callers=16, conversations=3, each=20)

    assert said["done"] > 0
    assert said["over"] > 0
    assert said["there"] > 0


@pytest.mark.long
def test_the_budget_holds_over_sixteen_thousand_attempts(database: Database) -> None:
    said = run_attempts(database, callers=32, conversations=50, each=500)

    assert said.total() == 16_000


def test_callers_who_enable_one_skill_at_once_enable_it_once(database: Database) -> None:
    session = opened(database, "chat")

    said = at_once(8, database, lambda connection, _: sessions.reserve(connection, session, skill("one"), BLOCK))

    assert Counter(said) == {"done": 1, "there": 7}
    check_budgets(database)


def test_callers_who_disable_one_skill_at_once_get_its_characters_back_once(database: Database) -> None:
    session = opened(database, "chat")
    with database.write() as connection:
        sessions.reserve(connection, session, skill("one"), BLOCK)

    said = at_once(8, database, lambda connection, _: sessions.release(connection, session, "one"))

    assert Counter(said) == {1_600: 1, None: 7}
    check_budgets(database)


def test_the_last_room_goes_to_one_caller(database: Database) -> None:
    session = opened(database, "chat")
    with database.write() as connection:
        sessions.reserve(connection, session, skill("first"), "x" * (LIMIT - 1_600))

    said = at_once(8, database, lambda connection, n: sessions.reserve(connection, session, skill(f"s-{n}"), BLOCK))

    assert Counter(said) == {"done": 1, "over": 7}
    check_budgets(database)


def test_callers_who_open_one_conversation_at_once_get_one_session(database: Database) -> None:
    def open_it(connection: sa.Connection, _number: int) -> str:
        return sessions.open_session(connection, VIEWER, conversation_id="chat", budget_max=LIMIT, **GIVEN).id

    first = at_once(8, database, open_it)
    with database.write() as connection:
        sessions.close_session(connection, VIEWER, first[0])
    again = at_once(8, database, open_it)

    assert len({*first, *again}) == 1


def test_whoever_closes_a_session_leaves_nothing_reserved_behind(database: Database) -> None:
    session = opened(database, "chat")

    def close_or_enable(connection: sa.Connection, number: int) -> object:
        if number == 3:
            return sessions.close_session(connection, VIEWER, session)
        return sessions.reserve(connection, session, skill(f"s-{number}"), BLOCK)

    at_once(8, database, close_or_enable)

    with database.read() as connection:
        row = sessions.get_session(connection, VIEWER, session)
        assert row is not None
        assert row.budget_used == 0
        assert sessions.list_enabled(connection, session) == []


def at_once(callers: int, database: Database, call: Callable[[sa.Connection, int], Any]) -> list[Any]:
    """What each call gave, each in a transaction of its own."""

    def run(number: int) -> Any:
        with database.write() as connection:
            return call(connection, number)

    with ThreadPoolExecutor(callers) as pool:
        return list(pool.map(run, range(callers)))
