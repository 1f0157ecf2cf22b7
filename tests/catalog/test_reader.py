"""Rows that another version of the readers derived: read again from the files, and replaced unless a newer one wrote them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest
import sqlalchemy as sa

from prowess.catalog.database_reads import StoredSkills
from prowess.catalog.database_store import DatabaseStore
from prowess.errors import Invalid, Unavailable
from prowess.skill.limits import Limits
from prowess.skill.package import Package
from prowess.skill.reader_version import READER_VERSION, reader_version
from prowess.storage.blobs import dump_manifest, put_blobs
from prowess.storage.database import Database, open_database
from prowess.storage.tables import skill_artifacts, skill_blobs, skills

Pack = Callable[..., Package]
OLDER, NEWER = "0", str(READER_VERSION + 1)


def derived_by(database: Database, reader: str, slug: str = "release-notes") -> None:
    """Leave the row of a skill as a reader would have that saw another title, and neither tags nor references."""
    with database.write() as connection:
        which = skills.c.slug == slug
        connection.execute(sa.update(skills).where(which).values(reader=reader, name="Old", kinds=["instructions"]))
        owner = sa.select(skills.c.id).where(which).scalar_subquery()
        connection.execute(
            sa.delete(skill_artifacts).where(skill_artifacts.c.skill_id == owner, skill_artifacts.c.kind == "reference")
        )


def rows(database: Database, slug: str = "release-notes") -> tuple[str, str, int]:
    """The reader, the title and the number of artifacts in the rows of a skill."""
    with database.read() as connection:
        skill = connection.execute(sa.select(skills).where(skills.c.slug == slug)).one()
        counted = sa.select(sa.func.count()).where(skill_artifacts.c.skill_id == skill.id)
        return skill.reader, skill.name, connection.execute(counted).scalar_one()


@pytest.fixture
def store(database: Database, pack: Pack) -> DatabaseStore:
    """A store with one skill that has a reference, and one that has none."""
    made = DatabaseStore(database, scope="account")
    made.save_all([pack("release-notes", references_guide="Guide."), pack("other")])
    return made


READS: dict[str, Callable[[DatabaseStore], object]] = {
    "list": lambda store: [(card.title, card.kinds) for card in store.list_skills()],
    "skill by name": lambda store: store.get_skill_by_name("release-notes"),
    "outline": lambda store: store.get_outline("release-notes"),
    "documents": lambda store: sorted(store.documents(), key=lambda document: document.slug),
    "some documents": lambda store: list(store.documents(["release-notes"])),
    "kinds": lambda store: store.serves(["reference"]),
}
BY_ID: dict[str, Callable[[DatabaseStore, str], object]] = {
    "skill": lambda store, which: store.get_skill(which),
    "artifacts": lambda store, which: store.get_artifacts(which),
    "artifacts of a kind": lambda store, which: store.get_artifacts(which, ["reference"]),
}


@pytest.mark.parametrize("reader", [OLDER, NEWER])
@pytest.mark.parametrize("read", READS)
def test_every_read_gives_what_the_files_say(store: DatabaseStore, database: Database, read: str, reader: str) -> None:
    expected = READS[read](store)
    derived_by(database, reader)

    assert READS[read](store) == expected


@pytest.mark.parametrize("reader", [OLDER, NEWER])
@pytest.mark.parametrize("read", BY_ID)
def test_every_read_by_id_gives_what_the_files_say(
    store: DatabaseStore, database: Database, read: str, reader: str
) -> None:
    skill = store.get_skill_by_name("release-notes")
    assert skill is not None
    expected = BY_ID[read](store, skill.id)
    derived_by(database, reader)

    assert BY_ID[read](store, skill.id) == expected


@pytest.mark.parametrize("reader", [OLDER, NEWER])
def test_an_artifact_that_only_this_reader_sees_is_found_by_its_id(
    store: DatabaseStore, database: Database, reader: str
) -> None:
    skill = store.get_skill_by_name("release-notes")
    assert skill is not None
    derived_by(database, reader)

    assert store.get_artifact(skill.artifacts[1].id) == skill.artifacts[1]


def test_rows_of_an_older_reader_are_replaced_and_nothing_else_changes(
    store: DatabaseStore, database: Database
) -> None:
    before, position = store.get_skill_by_name("release-notes"), store.changes().position
    expected = rows(database)
    derived_by(database, OLDER)

    store.list_skills()
    assert store.get_skill_by_name("release-notes") == before
    assert rows(database) == expected
    assert expected[0] == reader_version()
    assert len(store.versions("release-notes")) == 1
    assert store.changes(position).slugs == frozenset()


def test_rows_of_a_newer_reader_are_left_as_they_are(store: DatabaseStore, database: Database) -> None:
    derived_by(database, NEWER)
    newer = rows(database)

    store.list_skills()
    store.get_skill_by_name("release-notes")
    list(store.documents())

    assert rows(database) == newer


@pytest.mark.parametrize("replace", [False, True])
def test_importing_the_same_files_again_replaces_rows_of_an_older_reader(
    store: DatabaseStore, database: Database, pack: Pack, replace: bool
) -> None:
    expected = rows(database)
    derived_by(database, OLDER)

    (saved,) = store.save_all([pack("release-notes", references_guide="Guide.")], replace=replace)

    assert (saved.error, saved.changed) == (None, False)
    assert saved.skill is not None
    assert [artifact.kind for artifact in saved.skill.artifacts] == ["instructions", "reference"]
    assert rows(database) == expected
    assert len(store.versions("release-notes")) == 1


def test_importing_the_same_files_again_leaves_rows_of_a_newer_reader(
    store: DatabaseStore, database: Database, pack: Pack
) -> None:
    derived_by(database, NEWER)
    newer = rows(database)

    (saved,) = store.save_all([pack("release-notes", references_guide="Guide.")], replace=True)

    assert saved.skill is not None
    assert saved.skill.title != "Old"
    assert rows(database) == newer


def test_saving_other_files_over_rows_of_a_newer_reader_derives_them_here(
    store: DatabaseStore, database: Database, pack: Pack
) -> None:
    derived_by(database, NEWER)
    kept = store.get_skill_by_name("release-notes")
    assert kept is not None

    store.save(pack("release-notes", "Else."), expected=kept.digest)

    assert rows(database)[0] == reader_version()


def test_files_that_are_refused_now_are_a_fault_and_the_others_are_served(
    store: DatabaseStore, database: Database
) -> None:
    hidden = Package.of_texts(
        "release-notes", {"SKILL.md": b"---\nname: release-notes\ndescription: d\n---\n\nHi\xe2\x80\xae.\n"}
    )
    with database.write() as connection:
        put_blobs(connection, [hidden])
        values = {"manifest": dump_manifest(hidden.manifest), "digest": hidden.digest}
        connection.execute(sa.update(skills).where(skills.c.slug == "release-notes").values(**values))

    assert [card.slug for card in store.list_skills()] == ["other"]
    assert [(fault.slug, fault.problems[0].code) for fault in store.faults()] == [("release-notes", "hidden-text")]
    assert [document.slug for document in store.documents()] == ["other"]
    with pytest.raises(Invalid, match="hidden"):
        store.get_skill_by_name("release-notes")


def test_bytes_that_are_gone_are_a_fault(store: DatabaseStore, database: Database) -> None:
    with database.write() as connection:
        connection.execute(sa.delete(skill_blobs))
    derived_by(database, OLDER)

    assert [card.slug for card in store.list_skills()] == ["other"]
    assert [fault.problems[0].code for fault in store.faults()] == ["unreadable"]


def test_a_limit_that_was_lowered_hides_no_skill(store: DatabaseStore, database: Database) -> None:
    derived_by(database, OLDER)
    strict = DatabaseStore(database, scope="account", limits=Limits(files=1))

    assert [card.slug for card in strict.list_skills()] == ["other", "release-notes"]
    assert strict.faults() == []


def test_a_slug_stays_even_if_the_files_give_another_one(
    store: DatabaseStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.write() as connection:
        connection.execute(sa.update(skills).where(skills.c.slug == "release-notes").values(slug="notes", reader=OLDER))

    assert [card.slug for card in store.list_skills()] == ["notes", "other"]
    assert rows(database, "notes")[0] == reader_version()


def test_a_database_that_cannot_be_written_to_serves_what_was_read(
    store: DatabaseStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = store.get_skill_by_name("release-notes")
    derived_by(database, OLDER)

    def refuse(*_: object) -> None:
        raise Unavailable("The database is read-only.")

    monkeypatch.setattr("prowess.catalog.database_store.replace_derived", refuse)

    assert store.get_skill_by_name("release-notes") == expected
    assert rows(database)[0] == OLDER


def test_a_skill_that_is_saved_meanwhile_is_not_overwritten(
    store: DatabaseStore, database: Database, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    derived_by(database, OLDER)
    kept = store.get_skill_by_name("other")
    assert kept is not None
    read_again = StoredSkills.read_again

    def racing(reader: StoredSkills, connection: sa.Connection, slugs: Sequence[str]) -> object:
        found = read_again(reader, connection, slugs)
        monkeypatch.undo()
        store.save_all([pack("release-notes", "Other words.")], replace=True)
        return found

    monkeypatch.setattr(StoredSkills, "read_again", racing)
    store.list_skills()

    current = store.get_skill_by_name("release-notes")
    assert current is not None
    assert "Other words." in current.body


def test_many_processes_replace_rows_at_once(store: DatabaseStore, database_url: str, database: Database) -> None:
    expected = store.list_skills()
    for slug in ("release-notes", "other"):
        derived_by(database, OLDER, slug)
    others = [open_database(database_url) for _ in range(4)]
    start = threading.Barrier(len(others))
    found: list[object] = []

    def read(opened: Database) -> None:
        start.wait()
        found.append(DatabaseStore(opened, scope="account").list_skills())

    threads = [threading.Thread(target=read, args=[opened]) for opened in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for opened in others:
        opened.close()

    assert found == [expected] * len(others)
    assert rows(database) == (reader_version(), "release-notes", 2)
    assert [len(store.versions(slug)) for slug in ("release-notes", "other")] == [1, 1]
