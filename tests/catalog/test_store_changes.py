"""What changed since a position: every Store tells it, and misses nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from prowess.catalog import store as store_module
from prowess.catalog.database_store import DatabaseStore
from prowess.catalog.database_versions import DatabaseVersions
from prowess.catalog.database_writes import SaveRequest, record
from prowess.catalog.directory_store import DirectoryStore
from prowess.catalog.memory_store import MemoryStore
from prowess.catalog.store import SearchDocument, Store
from prowess.catalog.version_log import MemoryVersions
from prowess.skill.kinds import Example
from prowess.skill.package import Package
from prowess.skill.validate import accept
from prowess.storage.database import Database, open_database

Pack = Callable[..., Package]


class Follower:
    """Knows a store by its changes alone, after the first look."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.position = store.changes().position
        self.known = {card.slug: card.digest for card in store.list_skills()}

    def follow(self) -> frozenset[str]:
        changes = self.store.changes(self.position)
        assert changes.slugs is not None
        for slug in changes.slugs:
            skill = self.store.get_skill_by_name(slug)
            if skill is None:
                self.known.pop(slug, None)
            else:
                self.known[slug] = skill.digest
        self.position = changes.position
        return changes.slugs


def listed(store: Store) -> dict[str, str]:
    return {card.slug: card.digest for card in store.list_skills()}


def test_every_kind_of_change_is_told_once(store: Store, pack: Pack) -> None:
    follower = Follower(store)
    first = store.save(pack("one"))
    assert follower.follow() == {"one"}
    assert follower.follow() == frozenset()

    store.save(pack("one", "Better."), expected=first.digest)
    assert follower.follow() == {"one"}
    store.add_artifact(Example(name="Case", content="x", skill_id=first.id))
    assert follower.follow() == {"one"}
    store.save_all([pack("two"), pack("three")])
    assert follower.follow() == {"two", "three"}
    store.delete_skill(first.id)
    assert follower.follow() == {"one"}
    store.rollback("one", 1)
    assert follower.follow() == {"one"}
    assert follower.follow() == frozenset()
    assert follower.known == listed(store)


def test_what_changes_nothing_is_not_told(store: Store, pack: Pack) -> None:
    store.save(pack("one"))
    follower = Follower(store)

    store.save(pack("one"))
    store.save_all([pack("one")])

    assert follower.follow() == frozenset()


def test_an_earlier_position_tells_all_that_came_since(store: Store, pack: Pack) -> None:
    empty = store.changes().position
    store.save(pack("one"))
    middle = store.changes().position
    store.save_all([pack("two"), pack("three")])

    assert store.changes(empty).slugs == {"one", "two", "three"}
    assert store.changes(middle).slugs == {"two", "three"}
    assert store.changes(store.changes().position).slugs == frozenset()


@pytest.mark.parametrize(
    "position", ["", "x", "-1", "0:", "9" * 400, "1:2:3,a/1.2/x", "0:5://", "a\x00b", "\ud800", "5:1:/1.1/"]
)
def test_a_position_that_is_not_one_of_the_store_is_not_known(store: Store, pack: Pack, position: str) -> None:
    store.save(pack("one"))

    changes = store.changes(position)

    assert changes.slugs is None
    assert store.changes(changes.position).slugs == frozenset()


def test_who_follows_many_writers_ends_with_what_is_listed(store: Store, pack: Pack) -> None:
    follower = Follower(store)
    done = threading.Event()

    def write(number: int) -> None:
        mine = [pack(f"skill-{number}-{place}") for place in range(4)]
        store.save_all(mine)
        for package in mine[:2]:
            kept = store.get_skill_by_name(package.name)
            assert kept is not None
            store.save(pack(package.name, "Changed."), expected=kept.digest)
            store.delete_skill(kept.id) if package is mine[0] else None
        shared = store.save_all([pack("shared", f"By {number}.")], replace=True)
        assert len(shared) == 1

    def follow() -> None:
        while not done.is_set():
            follower.follow()

    reader = threading.Thread(target=follow)
    writers = [threading.Thread(target=write, args=[number]) for number in range(4)]
    reader.start()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    done.set()
    reader.join()
    follower.follow()

    assert follower.known == listed(store)
    assert len(follower.known) == 4 * 3 + 1


# What an index reads


def test_an_index_reads_what_the_skills_are(store: Store, pack: Pack) -> None:
    packages = [pack(f"skill-{number}", f"Body {number}.", references_guide="x") for number in range(3)]
    store.save_all(packages)

    every = {found.slug: found for found in store.documents()}
    some = {found.slug: found for found in store.documents(["skill-1", "absent", "Not a slug", "a\x00b"])}

    assert every == {card.slug: SearchDocument.of(store.get_skill_by_name(card.slug)) for card in store.list_skills()}
    assert some == {"skill-1": every["skill-1"]}
    assert "Body 1." in some["skill-1"].body
    assert list(store.documents([])) == []


def test_an_index_reads_more_than_one_portion(database: Database, pack: Pack) -> None:
    store = DatabaseStore(database, scope="account")
    store.save_all(pack(f"skill-{number:04}") for number in range(1001))

    assert [found.slug for found in store.documents()] == [f"skill-{number:04}" for number in range(1001)]
    assert len(list(store.documents([f"skill-{number:04}" for number in range(1001)]))) == 1001


# Databases


def test_other_tenants_and_folders_are_not_told(database: Database, pack: Pack) -> None:
    mine = DatabaseStore(database, scope="org", organization_id="acme")
    position = mine.changes().position
    DatabaseStore(database, scope="org", organization_id="other").save(pack("one"))
    DatabaseStore(database, scope="account").save(pack("two"))
    DatabaseVersions(database, scope="org", organization_id="acme", place=".claude/skills").append(
        "three", pack("three"), form="agentskills", change="create"
    )

    assert mine.changes(position).slugs == frozenset()
    assert list(mine.documents()) == []


def test_a_position_of_a_database_that_was_restored_is_not_known(tmp_path: Path, pack: Pack) -> None:
    file, backup = tmp_path / "agents.db", tmp_path / "backup.db"
    database = open_database(file)
    DatabaseStore(database, scope="account").save(pack("one"))
    database.close()
    backup.write_bytes(file.read_bytes())
    database = open_database(file)
    store = DatabaseStore(database, scope="account")
    store.save(pack("two"))
    position = store.changes().position
    database.close()
    file.write_bytes(backup.read_bytes())

    database = open_database(file)
    store = DatabaseStore(database, scope="account")
    assert store.changes(position).slugs is None
    store.save_all([pack("three"), pack("four")])
    assert store.changes(position).slugs is None
    database.close()


def test_a_transaction_that_commits_late_is_told_late(postgres_url: str, pack: Pack) -> None:
    database, other = open_database(postgres_url), open_database(postgres_url)
    store, slow = DatabaseStore(database, scope="account"), DatabaseStore(other, scope="account")
    follower = Follower(store)
    began, go = threading.Event(), threading.Event()

    def write_slowly() -> None:
        with other.write() as connection:
            record(connection, slow._tenant, [SaveRequest(reading=accept(pack("late")))], slow.location)
            began.set()
            assert go.wait(60)

    writer = threading.Thread(target=write_slowly)
    writer.start()
    assert began.wait(60)
    store.save(pack("early"))

    assert follower.follow() == {"early"}
    assert follower.follow() == frozenset()
    go.set()
    writer.join()
    assert follower.follow() == {"late"}
    assert follower.follow() == frozenset()
    assert follower.known == listed(store)
    database.close()
    other.close()


def test_a_position_of_another_server_is_not_known(postgres_url: str, empty_postgres_url: str, pack: Pack) -> None:
    database, other = open_database(postgres_url), open_database(empty_postgres_url)
    position = DatabaseStore(database, scope="account").changes().position
    store = DatabaseStore(other, scope="account")
    assert store.changes(position).slugs is None
    head, slash, rest = store.changes().position.partition("/")
    least, end, running = head.split(":")
    assert store.changes(f"{least}:{int(end) + 1000}:{running}{slash}{rest}").slugs is None
    database.close()
    other.close()


@pytest.mark.parametrize(
    "damage",
    [
        "tags = '5'",
        "tags = '[1]'",
        "tags = '\"ab\"'",
        "details = '5'",
        "details = '[]'",
        "trigger_phrases = '{\"a\": 1}'",
    ],
)
def test_a_damaged_row_is_indexed_from_the_files(database: Database, pack: Pack, damage: str) -> None:
    store = DatabaseStore(database, scope="account")
    store.save_all([pack("bad"), pack("good")])
    expected = {found.slug: found for found in store.documents()}
    with database.write() as connection:
        connection.execute(sa.text(f"UPDATE skills SET {damage} WHERE slug = 'bad'"))

    assert {found.slug: found for found in store.documents()} == expected
    assert {found.slug: found for found in store.documents(["bad", "good"])} == expected


# Memory and folders


def test_a_store_of_another_process_is_not_known_unless_it_was_empty(pack: Pack) -> None:
    first, second = MemoryStore(), MemoryStore()
    empty = first.changes().position
    for store in (first, second):
        store.save(pack("one"))

    assert second.changes(first.changes().position).slugs is None
    assert second.changes(empty).slugs == {"one"}


def test_what_lies_too_far_back_is_not_known(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_CHANGES", 3)
    store = MemoryStore()
    store.save(pack("first"))
    old = store.changes().position
    store.save(pack("second"))
    newer = store.changes().position
    for number in range(3):
        store.save(pack(f"skill-{number}"))

    assert store.changes(old).slugs is None
    assert store.changes(newer).slugs == {"skill-0", "skill-1", "skill-2"}


def test_edits_by_hand_in_a_folder_are_told(tmp_path: Path, pack: Pack) -> None:
    def put(folder: str, package: Package) -> None:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "SKILL.md").write_bytes(package.get("SKILL.md").content)

    put("one", pack("one"))
    store = DirectoryStore(tmp_path, scope="user", versions=MemoryVersions())
    follower = Follower(store)

    put("two", pack("two"))
    assert follower.follow() == {"two"}
    put("one", pack("one", "Edited."))
    assert follower.follow() == {"one"}
    put("z/one", pack("one", "A second claim is not served."))
    assert follower.follow() == frozenset()
    (tmp_path / "one/SKILL.md").unlink()
    assert follower.follow() == {"one"}
    assert (
        follower.known
        == listed(store)
        == {"one": pack("one", "A second claim is not served.").digest, "two": pack("two").digest}
    )
    (tmp_path / "two/SKILL.md").touch()
    assert follower.follow() == frozenset()
    (tmp_path / "two/SKILL.md").write_text("---\nname: two\n---\n")
    assert follower.follow() == {"two"}
    assert follower.known == listed(store)
