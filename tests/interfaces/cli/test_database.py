"""`prowess prune`, `backup`, `restore` and `database`, as an operator uses them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from prowess.storage.database import HEAD_REVISION, connect_database
from prowess.storage.downgrade import migrate_down


@pytest.fixture
def used(prowess, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database with a session, events and an audit; its path."""
    folder = tmp_path / "workspace" / ".agents" / "skills" / "one"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: one\ndescription: What one is for.\n---\n\nDo it well.\n")
    monkeypatch.chdir(tmp_path / "workspace")
    assert prowess("enable", "one").code == 0
    assert prowess("policy", "set", "event_days", "30").code == 0
    return home / ".prowess" / "agents.db"


def test_pruning_says_what_it_would_delete_and_what_it_deleted(prowess, used: Path):
    assert prowess("prune").out == "Nothing is old enough to be deleted.\n"
    assert prowess("load", "one").code == 0
    make_old(used)

    preview = prowess("prune", "--dry-run")
    assert "Nothing was deleted" in preview.out
    assert prowess("prune", "--dry-run", "--json").json["organizations"][0]["events"] == 2
    done = prowess("prune", "--json").json

    assert (done["dry_run"], done["organizations"][0]["events"]) == (False, 2)
    assert prowess("audit", "--json").json[-1]["action"] == "prune"
    assert prowess("audit", "verify").code == 0


def make_old(path: Path) -> None:
    import sqlite3

    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE events SET at = '2001-01-01T00:00:00.000000Z'")
    connection.close()


def test_a_broken_audit_is_not_pruned_and_the_command_fails(prowess, used: Path):
    import sqlite3

    assert prowess("policy", "set", "audit_days", "90").code == 0
    with sqlite3.connect(used) as connection:
        connection.execute("UPDATE audit SET at = '2001-01-01T00:00:00.000000Z' WHERE number = 1")
    connection.close()

    ran = prowess("prune")

    assert ran.code == 1
    assert "was not pruned: Row 1 was changed" in ran.err
    assert "prowess audit verify" in ran.err


def test_where_there_is_no_database_nothing_is_pruned_and_none_is_made(prowess, home: Path):
    assert prowess("prune").out == "Nothing is old enough to be deleted.\n"
    assert prowess("database").code == 4
    assert not (home / ".prowess" / "agents.db").exists()


def test_another_key_is_accepted_only_by_a_person(prowess, used: Path):
    ran = prowess("prune", "--accept-key")

    assert ran.code != 0
    assert "Only a person" in ran.err


def test_restore_without_such_a_file_names_the_one_that_was_meant(prowess, used, tmp_path):
    prowess("backup", tmp_path / "monday.db")
    assert "Did you mean 'monday.db'?" in prowess("restore", tmp_path / "monday.bd").err
    assert "`prowess rollback SLUG VERSION`" in prowess("restore", "release-notes").err


def test_a_backup_and_a_restore_give_back_what_was_there(prowess, used: Path, tmp_path: Path):
    copy = tmp_path / "copy.db"
    made = prowess("backup", copy, "--json").json
    assert made["rows"]["sessions"] == 1
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert prowess("backup", copy).code == 6
    prowess("disable", "one")

    refused = prowess("restore", copy)
    done = prowess("restore", copy, "--replace")

    assert (refused.code, "--replace" in refused.err) == (6, True)
    assert done.code == 0
    assert "The audit log is intact. Head: " in done.out
    assert "is kept as" in done.out
    assert "one" in prowess("sessions", "--json").out
    assert prowess("audit", "verify").code == 0


def test_for_postgresql_the_commands_to_use_are_printed(prowess, postgres_url: str, monkeypatch, tmp_path: Path):
    monkeypatch.setenv("PROWESS_DATABASE_URL", postgres_url)

    backup, restore = prowess("backup", tmp_path / "x.dump"), prowess("restore", tmp_path / "x.dump")

    assert backup.code == restore.code == 3
    assert "pg_dump --format=custom --file" in backup.err
    assert "pg_restore --clean --if-exists" in restore.err
    status = prowess("database", "status", "--json").json
    assert (status["state"], status["server"].partition(" ")[0]) == ("current", "PostgreSQL")
    assert ":***@" not in status["database"] or "postgres:" not in status["database"]


def test_the_status_names_the_revision_and_an_upgrade_changes_it(prowess, used: Path):
    older = connect_database(used)
    migrate_down(older, "0010", lose_data=True)
    older.close()

    assert "older than this version" in prowess("database", "status").out
    assert prowess("database", "--json").json["revision"] == "0010"
    assert prowess("database", "upgrade").out == f"Migrated the database from revision 0010 to {HEAD_REVISION}.\n"
    assert prowess("database", "upgrade").out == f"The database is up to date (revision {HEAD_REVISION}).\n"


def test_a_downgrade_needs_a_yes_makes_a_backup_and_names_what_it_would_delete(prowess, used: Path):
    asked = prowess("database", "downgrade", "--to", "0010")
    lossy = prowess("database", "downgrade", "--to", "0002", "--yes")
    wrong = prowess("database", "downgrade", "--to", "9999", "--yes")

    assert (asked.code, "--yes" in asked.err) == (2, True)
    assert (lossy.code, "sessions (1 row)" in lossy.err, "--delete-data" in lossy.err) == (6, True, True)
    assert wrong.code == 3
    assert list(used.parent.glob("*.before-*")) == []
    done = prowess("database", "downgrade", "--to", "0010", "--yes", "--json").json
    assert (done["before"], done["after"], done["deleted"]) == (HEAD_REVISION, "0010", {})
    assert Path(done["backup"]).exists()
    assert prowess("database", "status", "--json").json["state"] == "older"
    assert prowess("sessions").code == 0
    assert prowess("database", "status", "--json").json["state"] == "current"


def test_the_database_of_a_workspace_is_migrated_down_apart_from_that_of_the_account(prowess, used: Path):
    nothing = prowess("database", "downgrade", "--to", "0010", "--yes", "--scope", "workspace")
    Path("two.md").write_text("---\nname: two\ndescription: What two is for.\n---\n\nDo it well.\n")
    assert prowess("import", "two.md", "--scope", "workspace").code == 0
    done = prowess("database", "downgrade", "--to", "0010", "--yes", "--scope", "workspace", "--json").json

    assert nothing.code == 4
    assert Path(done["backup"]).parent == Path.cwd() / ".prowess"
    assert prowess("database", "status", "--scope", "workspace", "--json").json["revision"] == "0010"
    assert prowess("database", "status", "--json").json["revision"] == HEAD_REVISION


def test_the_audit_is_exported_with_its_hashes_before_it_is_pruned(prowess, used: Path):
    rows = prowess("audit", "export").lines

    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["previous"] for row in rows][1:] == [row["hash"] for row in rows][:-1]
    assert prowess("audit", "verify", "--head", rows[-1]["hash"]).code == 0
    assert [row["number"] for row in prowess("audit", "export", "--after", "1").lines] == [
        row["number"] for row in rows[1:]
    ]


@pytest.mark.parametrize("command", ["prune", "backup copy.db", "database status", "database upgrade", "audit verify"])
def test_the_page_about_json_lists_the_keys(prowess, used: Path, command: str):
    page = (Path(__file__).resolve().parents[3] / "docs/json.md").read_text()
    name = command.removesuffix(" copy.db")

    printed = prowess(*command.split(), "--json").json

    row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
    assert f"`{{{', '.join(printed)}}}`" in row
    if name == "prune":
        assert f"`{{{', '.join(printed['organizations'][0])}}}`" in row
