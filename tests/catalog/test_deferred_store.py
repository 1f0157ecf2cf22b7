"""A database's store that is opened when it is needed: its listing is remembered, and only while nothing was written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from prowess.catalog.database_store import DatabaseStore
from prowess.catalog.deferred_store import ListingCache, deferred_store
from prowess.catalog.store import Store
from prowess.skill import reader_version
from prowess.skill.package import Package
from prowess.storage.database import Database, open_database
from prowess.storage.files import freshness

HOUR = 3_600_000_000_000

Opener = Callable[..., Store]


def pack(name: str) -> Package:
    text = f"---\nname: {name}\ndescription: What {name} is for.\nmetadata:\n  tags: a, b\n---\n\nDo it.\n"
    return Package.of_texts(name, {"SKILL.md": text})


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour later by the clock, so that what was written just now is settled."""
    now = time.time_ns
    monkeypatch.setattr(freshness.time, "time_ns", lambda: now() + HOUR)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(tmp_path / "agents.db")
    yield opened
    opened.close()


@pytest.fixture
def opens() -> list[str]:
    """The organizations whose store was opened."""
    return []


@pytest.fixture
def process(database: Database, tmp_path: Path, opens: list[str]) -> Opener:
    """Return a function that makes the store as a new process would."""

    def make(organization: str = "", *, is_ours: bool = False) -> Store:
        def open_store() -> Store:
            opens.append(organization)
            return DatabaseStore(database, scope="account", organization_id=organization)

        path = str(tmp_path / "agents.db")
        cache = ListingCache(tmp_path / "cache", path=path, scope="account", organization=organization, is_ours=is_ours)
        return deferred_store(open_store, scope="account", location=path, cache=lambda: cache)

    return make


def test_a_second_process_lists_the_same_skills_without_the_database(process: Opener, opens: list[str]) -> None:
    process().save_all([pack("tidy"), pack("plan")])
    first = process().list_skills()
    opens.clear()

    again = process()

    assert again.list_skills() == first
    assert [card.slug for card in first] == ["plan", "tidy"]
    assert again.faults() == []
    assert opens == []


def test_a_skill_that_was_written_since_is_listed(process: Opener, opens: list[str]) -> None:
    process().save(pack("tidy"))
    process().list_skills()
    process().save(pack("plan"))
    opens.clear()

    assert [card.slug for card in process().list_skills()] == ["plan", "tidy"]
    assert opens == [""]


def test_a_store_sees_its_own_writes_after_a_remembered_listing(process: Opener) -> None:
    process().list_skills()
    store = process()
    assert store.list_skills() == []

    store.save(pack("tidy"))

    assert [card.slug for card in store.list_skills()] == ["tidy"]


def test_a_skill_that_is_not_listed_is_looked_for_without_the_database(process: Opener, opens: list[str]) -> None:
    process().save(pack("tidy"))
    process().list_skills()
    opens.clear()

    assert process().get_outline("plan") is None
    assert opens == []
    found = process().get_outline("tidy")
    assert found is not None
    assert found.slug == "tidy"
    assert opens == [""]


def test_a_skill_that_was_written_since_the_listing_is_found(process: Opener) -> None:
    process().save(pack("tidy"))
    process().list_skills()
    process().save(pack("plan"))

    assert process().get_outline("plan") is not None
    assert process().get_outline("never") is None


def test_each_organization_has_a_listing_of_its_own(process: Opener) -> None:
    process("north").save(pack("tidy"))
    for organization in ("north", "south"):
        process(organization).list_skills()

    assert [card.slug for card in process("north").list_skills()] == ["tidy"]
    assert process("south").list_skills() == []


def test_a_listing_of_another_reader_is_not_used(
    process: Opener, opens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    process().list_skills()
    opens.clear()
    monkeypatch.setattr(reader_version, "READER_VERSION", reader_version.READER_VERSION + 1)

    process().list_skills()

    assert opens == [""]


@pytest.mark.parametrize("content", [b"", b"[", b"[1, 2]", b"null", b'[[], "x", [[1]]]'])
def test_a_damaged_listing_is_not_used(process: Opener, opens: list[str], tmp_path: Path, content: bytes) -> None:
    process().save(pack("tidy"))
    process().list_skills()
    [file] = (tmp_path / "cache").iterdir()
    file.write_bytes(content)
    opens.clear()

    assert [card.slug for card in process().list_skills()] == ["tidy"]
    assert opens == [""]


def test_a_listing_with_faults_is_read_again_by_every_process(
    process: Opener, database: Database, opens: list[str]
) -> None:
    process().save_all([pack("tidy"), pack("plan")])
    with database.write() as connection:
        connection.execute(sa.text("UPDATE skills SET tags = '{', manifest = '{' WHERE slug = 'plan'"))

    for _ in range(2):
        opens.clear()
        store = process()
        assert [card.slug for card in store.list_skills()] == ["tidy"]
        assert [fault.slug for fault in store.faults()] == ["plan"]
        assert opens == [""]


def test_a_listing_holds_no_text_of_a_skill(process: Opener, tmp_path: Path) -> None:
    process().save(pack("tidy"))
    process().list_skills()

    [file] = (tmp_path / "cache").iterdir()
    assert "What tidy is for." in file.read_text()
    assert "Do it." not in file.read_text()


def test_a_listing_that_cannot_be_saved_is_no_error(process: Opener, tmp_path: Path) -> None:
    process().save(pack("tidy"))
    (tmp_path / "cache").write_text("A file where the folder should be.")

    assert [card.slug for card in process().list_skills()] == ["tidy"]


def use_skill(database: Database) -> None:
    """Write something that is not about the skills themselves."""
    with database.write() as connection:
        connection.execute(sa.text("INSERT INTO org_settings VALUES ('', 'some', '1', '', '')"))


def test_writes_that_are_not_about_skills_leave_a_listing_of_our_database_valid(
    process: Opener, database: Database, opens: list[str]
) -> None:
    process().save_all([pack("tidy"), pack("plan")])
    first = process(is_ours=True).list_skills()
    use_skill(database)
    opens.clear()

    assert process(is_ours=True).list_skills() == first
    assert process(is_ours=True).get_outline("never") is None
    assert opens == []


def test_nothing_is_read_from_a_database_of_somebody_else_to_find_out_whether_it_has_changed(
    process: Opener, database: Database, opens: list[str]
) -> None:
    process().save(pack("tidy"))
    process().list_skills()
    use_skill(database)
    opens.clear()

    process().list_skills()

    assert opens == [""]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE skills SET seal = 'other' WHERE slug = 'tidy'",
        "UPDATE skills SET digest = 'other' WHERE slug = 'tidy'",
        "UPDATE skills SET slug = 'other' WHERE slug = 'tidy'",
        "UPDATE skills SET scope = 'org' WHERE slug = 'tidy'",
        "UPDATE skills SET organization_id = 'north' WHERE slug = 'tidy'",
        "DELETE FROM skills WHERE slug = 'tidy'",
    ],
)
def test_every_change_of_a_skill_in_our_database_is_noticed(
    process: Opener, database: Database, opens: list[str], change: str
) -> None:
    process().save_all([pack("tidy"), pack("plan")])
    process(is_ours=True).list_skills()
    with database.write() as connection:
        connection.execute(sa.text(change))
    opens.clear()

    process(is_ours=True).list_skills()

    assert opens == [""]


def test_a_listing_of_our_database_that_was_written_just_now_is_remembered(
    process: Opener, opens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness.time, "time_ns", lambda: 0)  # nothing is settled
    process().save(pack("tidy"))
    process(is_ours=True).list_skills()
    opens.clear()

    assert [card.slug for card in process(is_ours=True).list_skills()] == ["tidy"]
    assert opens == []
    process().save(pack("plan"))
    assert [card.slug for card in process(is_ours=True).list_skills()] == ["plan", "tidy"]
