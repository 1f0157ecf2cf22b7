"""Writers of one process take turns: everybody gets one, a fork begins anew, and nobody waits forever."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from prowess.errors import Unavailable
from prowess.storage import sqlite
from prowess.storage.database import Database, open_database
from prowess.storage.sqlite import WriterLock

THREADS = 32
TURNS = 20


def test_one_is_in_at_a_time_and_every_thread_gets_all_its_turns() -> None:
    shared = WriterLock()
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        for _ in range(TURNS):
            with shared:
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(most), set(most)) == (THREADS * TURNS, {1})


def test_a_thread_may_hold_it_twice_and_lets_go_when_something_fails() -> None:
    shared = WriterLock()
    with pytest.raises(ZeroDivisionError), shared, shared:
        raise ZeroDivisionError
    got: list[bool] = []

    def other() -> None:
        with shared:
            got.append(True)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert got == [True]


def test_who_waited_while_another_waited_in_vain_is_told_so_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LONG_WAIT_SECONDS", 0.0)
    monkeypatch.setattr("prowess.storage.sqlite.BUSY_SECONDS", 0.05)
    database = open_database(tmp_path / "agents.db")
    other = sqlite3.connect(tmp_path / "agents.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for words in ("agents.db is locked by another program", "The database is locked by another program"):
        with pytest.raises(Unavailable, match=words), database.write():
            pass
    other.close()
    monkeypatch.setattr(sqlite, "LONG_WAIT_SECONDS", 60.0)
    with database.write() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
    database.close()


def test_who_waits_too_long_is_told_so_and_those_before_are_not_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "WRITER_WAIT_SECONDS", 0.01)
    shared = WriterLock()
    told: list[Unavailable] = []

    def other() -> None:
        try:
            with shared:
                pass
        except Unavailable as error:
            told.append(error)

    with shared:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    [error] = told
    assert "Other threads of this process" in error.message
    assert error.hint
    with shared:
        pass


def count(database: Database) -> int:
    with database.read() as connection:
        return connection.execute(sa.text("SELECT count(*) FROM org_settings")).scalar_one()


def put(database: Database, name: str) -> None:
    with database.write() as connection:
        statement = sa.text("INSERT INTO org_settings VALUES ('', :name, '1', '', '')")
        connection.execute(statement, {"name": name})


def test_many_threads_write_one_file_and_none_is_refused(tmp_path: Path) -> None:
    database = open_database(tmp_path / "agents.db")
    refused: list[Exception] = []

    def work(number: int) -> None:
        for turn in range(TURNS):
            try:
                put(database, f"{number} {turn}")
            except Unavailable as error:
                refused.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (refused, count(database)) == ([], THREADS * TURNS)
    database.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_writes_though_a_thread_of_its_parent_held_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LONG_WAIT_SECONDS", 0.01)
    database = open_database(tmp_path / "agents.db")
    put(database, "before")
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with database._writer_lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        put(database, "child")
        os._exit(0)
    _, status = os.waitpid(child, 0)
    release.set()
    thread.join()

    assert (os.waitstatus_to_exitcode(status), count(database)) == (0, 2)
    database.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_waits_for_a_transaction_so_that_the_child_does_not_find_the_file_locked(tmp_path: Path) -> None:
    database = open_database(tmp_path / "agents.db")
    begun = threading.Event()

    def write() -> None:
        with database.write() as connection:
            connection.execute(sa.text("UPDATE skills SET slug = slug"))
            begun.set()
            count = (
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) SELECT max(i) FROM n"
            )
            connection.execute(sa.text(count)).scalar_one()

    thread = threading.Thread(target=write)
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        try:
            put(database, "child")
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    thread.join()

    assert (os.waitstatus_to_exitcode(status), count(database)) == (0, 1)
    database.close()
