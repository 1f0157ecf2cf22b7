"""A writer that is killed leaves no reservation without its skill, no event without its change, and no lock."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prowess.storage import ledger, sessions
from prowess.storage.audit_chain import verify_audit
from prowess.storage.database import Database, open_database
from prowess.storage.owner import Owner
from prowess.storage.sessions import SessionViewer

WRITER = Path(__file__).with_name("session_writer.py")
VIEWER = SessionViewer(owner=Owner(organization_id="acme", user_id="ann"), actor="a", kind="agent")
BUDGET = 1_000_000_000


def opened(database: Database) -> str:
    with database.write() as connection:
        row = sessions.open_session(
            connection,
            VIEWER,
            conversation_id="chat",
            role="",
            model="",
            context_window=None,
            budget_max=BUDGET,
        )
    return row.id


def start(url: str, session_id: str, worker: int, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WRITER), url, session_id, str(worker), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def killed(writer: subprocess.Popen[str], lines: int) -> list[str]:
    """What a writer acknowledged, killed at some moment after so many lines."""
    assert writer.stdin is not None
    assert writer.stdout is not None
    said = [writer.stdout.readline() for _ in range(lines)]
    writer.kill()
    said += writer.stdout.readlines()
    writer.stdout.close()
    writer.stdin.close()
    assert writer.wait() == -signal.SIGKILL
    return [line.strip() for line in said if line.endswith("\n")]


def check(database: Database, session_id: str, acknowledged: set[str]) -> None:
    with database.read() as connection:
        row = sessions.get_session(connection, VIEWER, session_id)
        blocks = sessions.list_contents(connection, session_id)
        events = ledger.read_events(connection, "acme", after=0, limit=100_000)
        audit = ledger.read_audit(connection, "acme", after=0, limit=100_000)
        verdict = verify_audit(connection, "acme")
    assert row is not None
    assert row.budget_used == sum(len(block.content) for block in blocks)
    slugs = [block.row.slug for block in blocks]
    assert acknowledged <= set(slugs)
    assert [event.data["slug"] for event in events] == [item.slug for item in audit] == slugs
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert verdict.ok
    assert verdict.rows == len(slugs)


@pytest.mark.long
def test_killed_writers_leave_every_reservation_whole_or_none_of_it(database_url: str) -> None:
    chance = random.Random(11)
    database = open_database(database_url)
    session_id = opened(database)
    acknowledged: set[str] = set()

    for _ in range(2):
        writers = [start(database_url, session_id, worker, "run") for worker in range(2)]
        for writer in writers:
            acknowledged |= set(killed(writer, chance.randint(1, 9)))
        check(database, session_id, acknowledged)

    assert len(acknowledged) >= 4
    database.close()


def test_a_writer_killed_between_reserving_and_committing_leaves_nothing_and_no_lock(database_url: str) -> None:
    database = open_database(database_url)
    session_id = opened(database)

    assert killed(start(database_url, session_id, 0, "stall"), 1) == ["inside"]

    check(database, session_id, set())
    row = sessions.EnabledRow(
        slug="next", title="Next", digest="d1", scope="account", source_type="catalog", origin="here"
    )
    with database.write() as connection:
        assert sessions.reserve(connection, session_id, row, "x") == "done"
        numbers = ledger.append(connection, "acme", events=[ledger.EventEntry(name="skill_loaded", data={})])
    assert numbers == [1]
    database.close()
