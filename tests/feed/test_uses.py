"""How much skills are used: counted from the records, on each kind of database."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from prowess.feed.event_recorder import SkillLoad
from prowess.feed.usage import NEVER_USED, count_recent_uses, list_usage
from prowess.storage import ledger
from prowess.storage.database import open_database
from prowess.storage.ledger import EventEntry
from prowess.storage.sql import counts
from prowess.storage.sqlite_driver import real_connection

DAYS_AGO = {days: (datetime.now(UTC) - timedelta(days=days)).isoformat() for days in (1, 20, 40)}


@pytest.fixture
def note(database, monkeypatch):
    """Write entries as if they had been written some days ago."""

    def write(*entries: EventEntry, days: int = 1, organization: str = "acme") -> None:
        monkeypatch.setattr(ledger, "now", lambda: DAYS_AGO[days])
        with database.write() as connection:
            ledger.append(connection, organization, events=entries)

    return write


def load(name: str, **more: str) -> EventEntry:
    return SkillLoad(name=name, source="workspace:/skills", **more).entry()


def test_loads_of_the_last_days_are_counted_by_skill(database, note):
    note(load("review"), days=40)
    note(load("review"), load("deploy"), days=20)
    note(load("review"), load("review", reference="guide.md"), days=1)

    assert count_recent_uses(database, "acme", days=30) == {"review": 3, "deploy": 1}
    assert count_recent_uses(database, "acme", days=2) == {"review": 2}
    assert count_recent_uses(database, "acme", days=0.5) == {}


def test_a_load_that_gave_nothing_is_no_use(database, note):
    note(load("review", error="It has no reference 'x'."), SkillLoad(name="nobody", error="There is no skill.").entry())
    assert (count_recent_uses(database, "acme", days=30), list_usage(database, "acme")) == ({}, {})


def test_a_skill_that_is_loaded_by_its_scope_is_the_same_skill(database, note):
    note(load("review"), load("workspace:review"))
    assert count_recent_uses(database, "acme", days=30) == {"review": 2}


def test_one_organization_does_not_see_the_uses_of_another(database, note):
    note(load("review"), organization="globex")
    assert (count_recent_uses(database, "acme", days=30), list_usage(database, "acme")) == ({}, {})


def test_loads_runs_and_the_last_time_in_a_prompt_are_told_apart(database, note):
    changed = EventEntry(name="skills_state_changed", data={}, subject="review")
    asked = EventEntry(name="approval_required", data={}, subject="sign")
    started, ran = (EventEntry(name=name, data={}, subject="check") for name in ("run_started", "run_finished"))
    note(load("review"), changed, load("deploy"), days=40)
    note(load("deploy"), changed, asked, started, ran, days=20)

    used = list_usage(database, "acme")
    assert used.keys() == {"review", "deploy", "check"}
    assert (used["check"].runs, used["check"].loads, used["check"].last) == (1, 0, DAYS_AGO[20])
    assert count_recent_uses(database, "acme", days=30)["check"] == 1
    assert (used["review"].loads, used["review"].last_loaded) == (1, DAYS_AGO[40])
    assert used["review"].last == used["review"].last_enabled == DAYS_AGO[20]
    assert (used["deploy"].loads, used["deploy"].last, used["deploy"].last_enabled) == (2, DAYS_AGO[20], "")
    assert (NEVER_USED.loads, NEVER_USED.last) == (0, "")


def test_uses_are_counted_from_the_index_without_reading_events(tmp_path):
    with closing(open_database(tmp_path / "agents.db")) as database, database.read() as connection:
        for query in (counts.RECENT.statement, counts.LAST_USES):
            text = query.params(of="acme", since="").compile(
                dialect=real_connection(connection).dialect, compile_kwargs={"literal_binds": True}
            )
            plan = connection.execute(sa.text(f"EXPLAIN QUERY PLAN {text}")).all()
            assert "USING COVERING INDEX ix_events_subject" in plan[0].detail
