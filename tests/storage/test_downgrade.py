"""Migrating down and up again, step by step, on both databases, with data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from prowess.catalog.database_store import DatabaseStore
from prowess.errors import Conflict, Invalid
from prowess.skill.package import Package
from prowess.storage import ledger, org_settings, sessions
from prowess.storage.database import HEAD_REVISION, Database, connect_database, open_database
from prowess.storage.downgrade import migrate_down, read_status
from prowess.storage.owner import Owner
from prowess.storage.schema_check import FINGERPRINTS, fingerprint, read_schema

OLDER = [f"{number:04}" for number in range(int(HEAD_REVISION) - 1, 0, -1)]


@pytest.fixture
def filled(database: Database, pack: Callable[..., Package]) -> Database:
    """A database with skills, sessions, an audit and events."""
    store = DatabaseStore(database, scope="account")
    store.save_all([pack("one"), pack("two")])
    with database.write() as connection:
        for actor in ("ann", "bot", "cat"):
            viewer = sessions.SessionViewer(owner=Owner(), actor=actor, kind="person")
            sessions.open_session(
                connection,
                viewer,
                conversation_id="chat",
                role="",
                model="",
                context_window=None,
                budget_max=9,
            )
        org_settings.set_setting(connection, "", "event_days", 30, "ann")
        ledger.append(
            connection,
            "",
            audits=[ledger.AuditEntry(actor="ann", action="enable", outcome="allowed")] * 3,
            events=[ledger.EventEntry(name="skill_loaded", data={})] * 3,
        )
    return database


@pytest.fixture
def unopened(database_url: str) -> Iterator[Database]:
    """The database, not migrated by opening it."""
    found = connect_database(database_url)
    yield found
    found.close()


def count(database: Database, table: str) -> int:
    with database.read() as connection:
        return connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar_one()


@pytest.mark.few(2)
@pytest.mark.parametrize("older", OLDER)
def test_every_revision_can_be_reached_downwards_and_upwards(
    filled: Database, unopened: Database, database_url: str, older: str
) -> None:
    migrate_down(unopened, older, lose_data=True)
    assert read_status(unopened).revision == older
    with unopened.read() as connection:
        if connection.dialect.name == "sqlite":
            # The older program accepts only the tables that its own migrations make.
            assert fingerprint(read_schema(connection)) == FINGERPRINTS[older]
    open_database(database_url).close()
    status = read_status(unopened)
    assert (status.revision, status.state) == (HEAD_REVISION, "current")
    assert count(unopened, "skills") == 2
    assert count(unopened, "skill_versions") == 2
    skill = DatabaseStore(filled, scope="account").get_skill_by_name("one")
    assert skill is not None


def test_two_conversations_of_one_name_survive_a_version_that_allows_only_one(
    filled: Database, unopened: Database, database_url: str
) -> None:
    migrate_down(unopened, "0006", lose_data=True)

    with unopened.read() as connection:
        names = sorted(connection.scalars(sa.text("SELECT conversation_id FROM sessions")))
    assert names[0] == "chat"
    assert len(set(names)) == 3
    assert all(name.startswith("chat") for name in names)
    open_database(database_url).close()
    assert count(filled, "sessions") == 3


def test_data_is_not_deleted_unless_that_is_asked_for(filled: Database, unopened: Database) -> None:
    with pytest.raises(Conflict) as caught:
        migrate_down(unopened, "0002")

    assert "sessions (3 rows)" in caught.value.message
    assert "audit (3 rows)" in caught.value.message
    assert "skills" not in caught.value.message
    assert "--delete-data" in caught.value.hint
    assert read_status(unopened).revision == HEAD_REVISION
    assert count(filled, "audit") == 3

    lost = migrate_down(unopened, "0002", lose_data=True)

    assert lost == {"audit": 3, "events": 3, "sessions": 3, "org_settings": 1}


def test_nothing_is_lost_with_what_is_computed_again(database: Database, unopened: Database, pack) -> None:
    DatabaseStore(database, scope="account").save(pack("one"))

    assert migrate_down(unopened, "0001") == {}


@pytest.mark.parametrize("to", ["", "0000", "base", HEAD_REVISION, "9999", "-1", "001"])
def test_only_older_revisions_are_reached(database: Database, unopened: Database, to: str) -> None:
    with pytest.raises(Invalid, match="Cannot migrate down"):
        migrate_down(unopened, to)


def test_the_status_of_a_newer_an_empty_and_a_foreign_database(
    database: Database, unopened: Database, tmp_path: Path
) -> None:
    assert read_status(unopened).state == "current"
    for revision, state in (("9999", "newer"), ("abc123", "foreign")):
        with database.write() as connection:
            connection.execute(sa.text(f"UPDATE alembic_version SET version_num = '{revision}'"))
        assert read_status(unopened).state == state
        with pytest.raises(Invalid, match="cannot migrate"):
            migrate_down(unopened, "0002")
    empty = connect_database(tmp_path / "empty.db")
    assert read_status(empty).state == "empty"
    empty.close()
