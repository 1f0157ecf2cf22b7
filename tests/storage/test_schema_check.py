"""The tables of a SQLite file are compared with those of the migrations before anything is read."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from prowess.catalog.database_store import DatabaseStore
from prowess.errors import Refused, Unavailable
from prowess.skill.package import Package
from prowess.storage.database import HEAD_REVISION, NEW_DATABASE, open_database, run_alembic
from prowess.storage.schema_check import FINGERPRINTS, fingerprint, read_schema

HOSTILE = {
    "view in place of a table": """
        ALTER TABLE skills RENAME TO kept;
        CREATE VIEW skills AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n""",
    "trigger": "CREATE TRIGGER t AFTER INSERT ON skill_blobs BEGIN UPDATE skill_blobs SET content = x'00'; END",
    "further table": "CREATE TABLE more (a)",
    "further index": "CREATE INDEX more ON skills (name)",
    "virtual table": "CREATE VIRTUAL TABLE more USING fts5(a)",
    "generated column": "ALTER TABLE skills ADD COLUMN more TEXT GENERATED ALWAYS AS (upper(name))",
    "check": "CREATE TABLE x AS SELECT 1; DROP TABLE x; DROP TABLE spend;"
    " CREATE TABLE spend (organization_id TEXT CHECK (length(organization_id) > 3))",
    "missing table": "DROP TABLE spend",
}


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one skill, to be copied."""
    path = tmp_path_factory.mktemp("made") / "agents.db"
    database = open_database(path)
    DatabaseStore(database, scope="account").save(
        Package.of_texts("one", {"SKILL.md": "---\nname: one\ndescription: d\n---\n\nText.\n"})
    )
    database.close()
    return path


@pytest.fixture
def changed(made: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A copy in which SQL was executed."""

    def make(sql: str) -> Path:
        path = tmp_path / "agents.db"
        shutil.copy(made, path)
        with sqlite3.connect(path) as connection:
            connection.executescript(sql)
        connection.close()
        return path

    return make


def test_every_revision_has_a_fingerprint() -> None:
    found: dict[str, str] = {}
    with sa.create_engine("sqlite://").begin() as connection:
        for revision in _revisions():
            run_alembic(connection, revision)
            found[revision] = fingerprint(read_schema(connection))

    assert found == FINGERPRINTS, "\n".join(f'    "{name}": "{text}",' for name, text in found.items())


def test_a_new_database_has_the_tables_of_the_migrations(tmp_path: Path) -> None:
    with sa.create_engine("sqlite://").begin() as connection:
        run_alembic(connection)
        migrated = sorted(map(tuple, read_schema(connection)), key=str)
    database = open_database(tmp_path / "agents.db")
    with database.read() as connection:
        made = sorted(map(tuple, read_schema(connection)), key=str)
    database.close()

    assert made == migrated
    assert NEW_DATABASE.read_text().startswith(f"-- Revision {HEAD_REVISION}."), "Run `python scripts/schema.py`."


def _revisions() -> list[str]:
    from alembic.script import ScriptDirectory

    from prowess.storage.database import MIGRATIONS_FOLDER

    return sorted(script.revision for script in ScriptDirectory(str(MIGRATIONS_FOLDER)).walk_revisions())


@pytest.mark.few(3)
@pytest.mark.parametrize("sql", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_file_with_other_objects_is_refused(changed: Callable[[str], Path], sql: str) -> None:
    with pytest.raises(Refused, match="another program changed it"):
        open_database(changed(sql))


def test_an_object_that_is_hidden_in_the_schema_table_is_refused(changed: Callable[[str], Path]) -> None:
    sql = """
        CREATE TRIGGER t AFTER INSERT ON skills BEGIN DELETE FROM skills; END;
        PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET name = 'skills' WHERE type = 'trigger'"""

    with pytest.raises((Refused, Unavailable)):
        open_database(changed(sql))


def test_statistics_of_the_planner_are_accepted(changed: Callable[[str], Path]) -> None:
    open_database(changed("ANALYZE")).close()


def test_a_file_of_another_program_is_refused_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "agents.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE notes (text)")
    connection.close()

    before = path.read_bytes()

    with pytest.raises(Refused, match="another program"):
        open_database(path)

    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
