"""Loads are written down in the background, all of them, and never at the expense of the load."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading

import pytest

from prowess.feed.event_recorder import BATCH_EVENTS, EventRecorder, SkillLoad
from prowess.storage import ledger
from prowess.storage.database import open_database
from prowess.storage.deferred_database import DeferredDatabase


def kept(database, organization="acme"):
    with database.read() as connection:
        return ledger.read_events(connection, organization, after=0, limit=100_000)


@pytest.fixture
def recorder(database):
    made = EventRecorder(database, "acme")
    yield made
    made.close()


def test_a_load_becomes_an_event_with_all_that_is_known_of_it(recorder, database):
    recorder.record(
        SkillLoad(
            name="review",
            reference="guide.md",
            source="account",
            duration_s=0.25,
            error="gone",
            session_id="s",
            user_id="ada",
        )
    )
    assert recorder.flush()

    (event,) = kept(database)
    assert (event.name, event.session, event.user) == ("skill_loaded", "s", "ada")
    assert event.data == {
        "name": "review",
        "reference": "guide.md",
        "script": None,
        "source": "account",
        "duration_s": 0.25,
        "error": "gone",
    }


def test_loads_of_many_threads_are_all_kept_in_few_transactions(database):
    transactions = []
    recorder = EventRecorder(database, "acme", written=lambda _: transactions.append(1))

    def work(thread):
        for number in range(100):
            recorder.record(SkillLoad(name=f"{thread}-{number}"))

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()

    names = [event.data["name"] for event in kept(database)]
    assert sorted(names) == sorted(f"{thread}-{number}" for thread in range(8) for number in range(100))
    for thread in range(8):
        assert [name for name in names if name.startswith(f"{thread}-")] == [f"{thread}-{n}" for n in range(100)]
    assert len(transactions) < 100
    assert recorder.dropped == 0


def test_those_who_follow_are_told_after_the_commit(database):
    seen = []
    recorder = EventRecorder(database, "acme", written=lambda _: seen.append(len(kept(database))))
    recorder.record(SkillLoad(name="review"))
    recorder.close()
    assert seen == [1]


def test_a_full_queue_drops_and_counts_and_warns_once(database, caplog):
    recorder = EventRecorder(database, "acme", queue_size=3)
    with caplog.at_level(logging.WARNING), database.write():  # on SQLite nobody else can write meanwhile
        for number in range(3 + BATCH_EVENTS + 50):
            recorder.record(SkillLoad(name=str(number)))
        assert recorder.dropped > 0
    recorder.close()

    assert len(kept(database)) + recorder.dropped == 3 + BATCH_EVENTS + 50
    assert [record.levelname for record in caplog.records if record.name.startswith("prowess")] == ["WARNING"]


def test_a_database_that_cannot_be_written_costs_one_warning(tmp_path, caplog):
    (tmp_path / "bad.db").write_bytes(b"this is no database, whatever its name may say" * 50)
    recorder = EventRecorder(DeferredDatabase(f"sqlite:///{tmp_path}/bad.db"), "acme")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            recorder.record(SkillLoad(name="review"))
            assert recorder.flush()
        recorder.close()
    assert recorder.dropped == 3
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_one_load_that_cannot_be_kept_does_not_take_the_others_with_it(recorder, database, caplog):
    for load in (SkillLoad(name="one"), SkillLoad(name="two", duration_s=float("nan")), SkillLoad(name="three")):
        recorder.record(load)
    recorder.flush()
    assert [event.data["name"] for event in kept(database)] == ["one", "three"]
    assert recorder.dropped == 1


def test_after_closing_nothing_is_taken_and_nothing_breaks(recorder, database):
    recorder.record(SkillLoad(name="before"))
    recorder.close()
    recorder.record(SkillLoad(name="after"))
    recorder.close()
    assert recorder.flush()
    assert [event.data["name"] for event in kept(database)] == ["before"]
    assert recorder.dropped == 1


def test_the_loads_of_a_process_that_ends_without_a_word_are_kept(database_url):
    code = (
        "import sys\n"
        "from prowess.feed.event_recorder import EventRecorder, SkillLoad\n"
        "from prowess.storage.deferred_database import DeferredDatabase\n"
        "recorder = EventRecorder(DeferredDatabase(sys.argv[1]), 'acme')\n"
        "for number in range(1200):\n"
        "    recorder.record(SkillLoad(name=str(number)))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code, database_url], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    database = open_database(database_url)
    assert [event.data["name"] for event in kept(database)] == [str(number) for number in range(1200)]
    database.close()


def test_a_forked_child_writes_its_own_loads_and_not_again_those_of_its_parent(database_url):
    code = (
        "import os, sys\n"
        "from prowess.feed.event_recorder import EventRecorder, SkillLoad\n"
        "from prowess.storage.deferred_database import DeferredDatabase\n"
        "recorder = EventRecorder(DeferredDatabase(sys.argv[1]), 'acme')\n"
        "recorder.record(SkillLoad(name='parent'))\n"
        "child = os.fork()\n"
        "recorder.record(SkillLoad(name='both'))\n"
        "sys.exit(os.waitpid(child, 0)[1] if child else 0)\n"
    )
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code, database_url], check=False)
    assert ran.returncode == 0
    database = open_database(database_url)
    assert sorted(event.data["name"] for event in kept(database)) == ["both", "both", "parent"]
    database.close()
