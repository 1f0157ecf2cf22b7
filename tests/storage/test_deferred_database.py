"""A database that is opened when it is needed, and that notices when its file goes away under it."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from prowess.catalog.database_store import DatabaseStore
from prowess.errors import ProwessError, Unavailable
from prowess.storage.database import open_database
from prowess.storage.database_url import database_exists, display_url
from prowess.storage.deferred_database import DeferredDatabase


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "home" / "agents.db"


@pytest.fixture
def deferred(file: Path):
    database = DeferredDatabase(f"sqlite:///{file}")
    yield database
    database.close()


def test_nothing_is_made_before_something_is_read_or_written(deferred, file, pack):
    store = DatabaseStore(deferred, scope="account")
    assert not file.exists()
    store.save(pack("tidy"))
    assert file.exists()


def test_a_file_that_was_removed_is_made_anew_and_the_write_is_not_lost(deferred, file, pack):
    store = DatabaseStore(deferred, scope="account")
    store.save(pack("one"))
    shutil.rmtree(file.parent)
    store.save(pack("two"))
    other = open_database(file)
    assert [card.slug for card in DatabaseStore(other, scope="account").list_skills()] == ["two"]
    other.close()


def test_a_file_that_was_replaced_is_read_as_it_is_now(deferred, file, pack, tmp_path):
    store = DatabaseStore(deferred, scope="account")
    store.save(pack("one"))
    elsewhere = open_database(tmp_path / "other.db")
    DatabaseStore(elsewhere, scope="account").save(pack("two"))
    elsewhere.close()
    shutil.rmtree(file.parent)
    file.parent.mkdir()
    (tmp_path / "other.db").rename(file)
    assert [card.slug for card in store.list_skills()] == ["two"]


def test_a_file_that_goes_away_during_a_write_makes_the_write_fail(deferred, file):
    with deferred.read():
        pass

    def lose_the_file() -> None:
        with deferred.write():
            shutil.rmtree(file.parent)

    with pytest.raises(ProwessError) as told:
        lose_the_file()
    assert isinstance(told.value, Unavailable)


def test_a_database_that_cannot_be_opened_says_so_at_each_use(tmp_path):
    (tmp_path / "bad.db").write_bytes(b"no database at all, whatever its name says" * 50)
    store = DatabaseStore(DeferredDatabase(f"sqlite:///{tmp_path / 'bad.db'}"), scope="account")
    for _ in range(2):
        with pytest.raises(Unavailable, match="not a database"):
            store.list_skills()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite:////home/me/agents.db", "/home/me/agents.db"),
        ("postgresql://me:secret@db.example:5433/skills", "postgresql://db.example:5433/skills"),
        ("postgresql://me:secret@db.example:port/skills", "the database of PROWESS_DATABASE_URL"),
        ("nonsense", "the database of PROWESS_DATABASE_URL"),
    ],
)
def test_a_database_is_named_without_its_password(url, words):
    assert display_url(url) == words


def test_a_server_is_taken_to_be_there(tmp_path):
    assert database_exists("postgresql://127.0.0.1:1/x")
    assert not database_exists(f"sqlite:///{tmp_path}/none.db")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_reads_though_a_thread_of_its_parent_was_opening_the_database(deferred, pack):
    store = DatabaseStore(deferred, scope="account")
    store.save(pack("tidy"))
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with deferred._lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(len(store.list_skills()))
    _, status = os.waitpid(child, 0)
    release.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 1
