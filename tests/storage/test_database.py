"""The database itself: opening it, and what goes wrong with it."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from prowess.catalog.database_store import DatabaseStore
from prowess.errors import Conflict, Invalid, ProwessError, Unavailable
from prowess.skill.package import Package
from prowess.storage import sqlite
from prowess.storage.accepted import read_sqlite_file
from prowess.storage.backup import back_up
from prowess.storage.database import Database, open_database
from prowess.storage.driver_errors import translate_error
from prowess.storage.owner import Owner
from prowess.storage.scores import read_file_scores
from prowess.storage.seals import PROCESS_SEALS
from prowess.storage.sqlite_watch import SqliteWatch
from prowess.storage.tables import skill_blobs, skills


def count(database: Database, table: sa.Table) -> int:
    with database.read() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


def test_a_new_file_and_its_folder_are_for_the_owner_only(tmp_path: Path, pack: Callable[..., Package]) -> None:
    database = open_database(tmp_path / "home" / "agents.db")
    DatabaseStore(database, scope="account").save(pack("release-notes"))

    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "home").iterdir()} == {0o600}
    database.close()


READERS: dict[str, Callable[[str], object]] = {
    "open": lambda path: open_database(Path(path)),
    "acceptances": lambda path: read_sqlite_file(path, Owner(), ["a"]),
    "scores": lambda path: read_file_scores(path, ""),
    "watch": lambda path: SqliteWatch(path).mark(),
    "backup": lambda path: back_up(Path(path), Path(f"{path}.copy"), PROCESS_SEALS),
}


@pytest.mark.parametrize("suffix", ["", "-journal", "-wal", "-shm"])
@pytest.mark.parametrize("reader", READERS)
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(tmp_path: Path, reader: str, suffix: str) -> None:
    path = tmp_path / "agents.db"
    open_database(path).close()
    Path(f"{path}{suffix}").unlink(missing_ok=True)
    os.mkfifo(f"{path}{suffix}")
    with pytest.raises(Unavailable, match=f"agents.db{suffix}' is a pipe"):
        READERS[reader](str(path))


@pytest.mark.parametrize("name", ["a b.db", "a%20b.db", "a?b#c.db", "ünï.db", "a&b=c;d.db"])
def test_a_file_may_be_called_anything(tmp_path: Path, name: str) -> None:
    for url in (tmp_path / name, f"sqlite:///{tmp_path}/{name}"):
        database = open_database(url)

        assert database.location == str(tmp_path / name)
        assert (tmp_path / name).exists()
        database.close()


def test_every_sqlite_connection_logs_ahead_loses_nothing_and_checks_keys(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/agents.db")

    for context in (database.read, database.write):
        with context() as connection:
            pragmas = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            values = [connection.exec_driver_sql(f"PRAGMA {pragma}").scalar() for pragma in pragmas]
            assert values == ["wal", 2, 1, 10_000]
    database.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "mysql://u:secret@h/d",
        "sqlite://",
        "sqlite:///:memory:",
        "a://b:c",
    ],
)
def test_a_url_that_names_no_database_of_ours_is_invalid_and_says_what_would(url: str) -> None:
    with pytest.raises(Invalid) as caught:
        open_database(url)

    assert "postgresql://" in caught.value.hint
    assert "secret" not in caught.value.message


def test_a_server_that_cannot_be_reached_is_unavailable_and_the_password_stays_secret() -> None:
    with pytest.raises(Unavailable) as caught:
        open_database("postgres://me:s3cret@127.0.0.1:1/agents?password=s3cret")

    assert "127.0.0.1" in caught.value.message
    assert caught.value.hint
    assert "s3cret" not in caught.value.message + caught.value.hint


def test_a_database_that_does_not_exist_on_the_server_is_unavailable(empty_postgres_url: str) -> None:
    head, mark, query = empty_postgres_url.partition("?")

    with pytest.raises(Unavailable, match="does not exist"):
        open_database(f"{head}_not_there{mark}{query}")


def test_a_missing_driver_is_unavailable_with_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(Unavailable) as caught:
        open_database("postgresql://localhost/agents")

    assert caught.value.hint == "pip install 'prowess[postgres]'"


def test_a_file_that_is_not_a_database_is_unavailable_and_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("Not a database at all, but quite long enough to look at. " * 20)
    before = file.read_bytes()

    with pytest.raises(Unavailable, match="not a database"):
        open_database(file)

    assert file.read_bytes() == before


def test_a_folder_or_a_path_below_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    for path in (tmp_path, tmp_path / "file" / "agents.db"):
        with pytest.raises(Unavailable):
            open_database(path)


def test_a_locked_file_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.01)
    database = open_database(tmp_path / "agents.db")

    with database.write(), pytest.raises(Unavailable, match="locked"), database.write():
        pass
    database.close()


def test_a_full_disk_is_unavailable_and_changes_nothing(tmp_path: Path, pack: Callable[..., Package]) -> None:
    database = open_database(tmp_path / "agents.db")
    store = DatabaseStore(database, scope="account")
    saved = store.save(pack("release-notes"))
    with database.read() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    with pytest.raises(Unavailable, match="full"):
        store.save(pack("large", references_guide=os.urandom(200_000)))

    assert store.list_skills() == [saved.card]
    assert store.versions("large") == []
    database.close()


@pytest.mark.parametrize(
    ("name", "words"),
    [("SQLITE_READONLY_DIRECTORY", "read-only"), ("SQLITE_IOERR_FSYNC", "read or written"), ("SQLITE_CORRUPT", "dama")],
)
def test_what_sqlite_reports_is_told_with_a_remedy(name: str, words: str) -> None:
    cause = sqlite3.OperationalError("x")
    cause.sqlite_errorname = name

    error = translate_error(exc.OperationalError("SELECT", {}, cause), "agents.db")

    assert isinstance(error, Unavailable)
    assert words in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("state", "family", "words"),
    [
        ("40P01", Conflict, "conflict with another transaction"),
        ("53100", Unavailable, "full"),
        ("25006", Unavailable, "read-only"),
        ("22P05", Invalid, "cannot store"),
        ("28P01", Unavailable, "password"),
        ("42703", Unavailable, "42703"),
    ],
)
def test_what_postgresql_reports_is_told_with_a_remedy(state: str, family: type[ProwessError], words: str) -> None:
    cause = type("Error", (Exception,), {"sqlstate": state})("x")

    error = translate_error(exc.DBAPIError("SELECT", {}, cause), "postgresql://localhost/agents")

    assert type(error) is family
    assert words in error.message
    assert error.hint


def test_too_many_users_and_unheard_of_failures_are_unavailable() -> None:
    for error in (exc.TimeoutError("QueuePool limit"), exc.SQLAlchemyError("?")):
        assert isinstance(translate_error(error, "agents.db"), Unavailable)


def test_a_number_that_json_cannot_hold_is_invalid(database: Database) -> None:
    row = {"id": "x", "scope": "account", "slug": "x", "manifest": float("nan")}

    with pytest.raises(Invalid, match="cannot store"), database.write() as connection:
        connection.execute(sa.insert(skills), row)


def test_a_write_that_raises_keeps_nothing(database: Database) -> None:
    def fail() -> None:
        with database.write() as connection:
            connection.execute(sa.insert(skill_blobs), {"sha256": "0", "size": 1, "content": b"x"})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert count(database, skill_blobs) == 0


def test_a_broken_query_raises_our_own_error(database: Database) -> None:
    for context in (database.read, database.write):
        with pytest.raises(ProwessError), context() as connection:
            connection.execute(sa.text("SELECT * FROM nothing_by_that_name"))


def test_a_read_sees_one_state_throughout(database: Database, pack: Callable[..., Package]) -> None:
    store = DatabaseStore(database, scope="account")

    with database.read() as connection:
        number = sa.select(sa.func.count()).select_from(skills)
        before = connection.execute(number).scalar_one()
        thread = threading.Thread(target=store.save, args=[pack("release-notes")])
        thread.start()
        thread.join()
        assert connection.execute(number).scalar_one() == before

    assert len(store.list_skills()) == 1


def test_a_forked_child_works_with_connections_of_its_own(database: Database, pack: Callable[..., Package]) -> None:
    store = DatabaseStore(database, scope="account")
    store.save(pack("parent"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside the test runner's threads
        child = os.fork()
    if child == 0:
        try:
            store.save(pack("child"))
            os._exit(0)
        finally:
            os._exit(1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.save(pack("parent-again"))
    assert [card.slug for card in store.list_skills()] == ["child", "parent", "parent-again"]


def test_a_server_that_drops_its_connections_is_found_again(postgres_url: str, pack: Callable[..., Package]) -> None:
    database = open_database(postgres_url)
    store = DatabaseStore(database, scope="account")
    saved = store.save(pack("release-notes"))
    other = open_database(postgres_url)
    with other.write() as connection:
        drop = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        connection.execute(sa.text(drop + "AND pid <> pg_backend_pid()"))
    other.close()

    assert store.get_skill_by_name("release-notes") == saved
    database.close()


def test_reads_inside_a_snapshot_share_one_state_and_those_after_it_see_the_news(database: Database) -> None:
    def add(name: str) -> None:
        with database.write() as connection:
            connection.execute(sa.insert(skill_blobs), {"sha256": name, "size": 1, "content": b"x"})

    add("before")
    with database.snapshot():
        assert count(database, skill_blobs) == 1
        with database.read() as one, database.read() as other:
            assert one is other
        add("inside")
        with database.snapshot():
            assert count(database, skill_blobs) == 1
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(count(database, skill_blobs)))
        thread.start()
        thread.join()
    assert seen == [2]
    assert count(database, skill_blobs) == 2


def test_connections_that_come_back_to_a_closed_database_are_closed(database: Database) -> None:
    with database.read() as in_use:
        driver_connections = [in_use.connection.dbapi_connection]
        database.close()
    with database.read() as late:
        driver_connections.append(late.connection.dbapi_connection)

    for connection in driver_connections:
        with pytest.raises(Exception, match=r"(?i)closed"):
            connection.cursor().execute("SELECT 1")


def test_a_snapshot_ends_with_its_block_though_that_raises(database: Database) -> None:
    with pytest.raises(ProwessError), database.snapshot(), database.read() as connection:
        connection.execute(sa.text("SELECT * FROM nothing_by_that_name"))
    assert count(database, skill_blobs) == 0
