"""What a store in a database promises beyond the Store contract: its rows, its ids, damage, and the version log."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from prowess.catalog.database_store import DatabaseStore
from prowess.catalog.database_versions import DatabaseVersions
from prowess.catalog.database_writes import SaveOutcome, record
from prowess.catalog.store_rules import suggest_names
from prowess.errors import Conflict, Invalid, NotFound, ProwessError, Unavailable
from prowess.skill.kinds import Approach
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.storage.artifacts import replace_artifacts
from prowess.storage.database import Database, open_database
from prowess.storage.owner import Tenant
from prowess.storage.skills import get_cards
from prowess.storage.tables import skill_artifacts, skill_blobs, skills

ID = "550e8400-e29b-41d4-a716-446655440000"


def inklings(name: str = "Consistency Checker", **changes: object) -> Package:
    data = {
        "id": ID,
        "name": name,
        "description": "Finds contradictions.",
        "version": "1.0.0",
        "tags": ["analysis"],
        "source": "system",
        "artifacts": [{"kind": "description", "name": "Overview", "ordinal": 0, "content": "What it is for."}],
        **changes,
    }
    return Package.of_texts("package.json", {"package.json": json.dumps(data)})


def count(database: Database, table: sa.Table) -> int:
    with database.read() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()


def test_two_skills_of_one_slug_cannot_exist_even_without_organization_and_user(
    database: Database, pack: Callable[..., Package]
) -> None:
    DatabaseStore(database, scope="account").save(pack("release-notes"))
    copied = [column for column in skills.c if column.name != "id"]
    rows = sa.select(sa.literal("other"), *copied)
    second = sa.insert(skills).from_select(["id", *(column.name for column in copied)], rows)

    with pytest.raises(Conflict), database.write() as connection:
        connection.execute(second)


def test_two_default_variants_cannot_exist_in_the_table(database: Database, pack: Callable[..., Package]) -> None:
    DatabaseStore(database, scope="account").save(pack("release-notes"))
    copied = [column for column in skill_artifacts.c if column.name != "id"]
    rows = sa.select(sa.literal("other"), *copied)
    second = sa.insert(skill_artifacts).from_select(["id", *(column.name for column in copied)], rows)

    with pytest.raises(Conflict), database.write() as connection:
        connection.execute(second)


def test_deleting_a_skill_deletes_its_artifacts_and_keeps_the_bytes_of_its_versions(
    database: Database, pack: Callable[..., Package]
) -> None:
    store = DatabaseStore(database, scope="account")
    saved = store.save(pack("release-notes", references_guide="x"))
    assert count(database, skill_artifacts) == len(saved.artifacts)

    store.delete_skill(saved.id)

    assert count(database, skill_artifacts) == 0
    assert store.version_package("release-notes", 1).get("references/guide.md") is not None


def test_versions_and_skills_share_the_bytes_of_equal_files(database: Database, pack: Callable[..., Package]) -> None:
    store = DatabaseStore(database, scope="account")
    first = store.save(pack("one", references_guide="the same"))
    store.save(pack("one", "Else.", references_guide="the same"), expected=first.digest)
    store.save(pack("two", references_guide="the same"))

    assert count(database, skill_blobs) == 4


def test_the_columns_of_the_sources_are_filled(database: Database, pack: Callable[..., Package]) -> None:
    store = DatabaseStore(database, scope="org", organization_id="acme")
    package = pack("release-notes", "Only this.")
    saved = store.save(package)

    with database.read() as connection:
        row = connection.execute(sa.select(skills)).one()

    skill_md = package.get("SKILL.md")
    assert skill_md is not None
    assert (row.organization_id, row.user_id, row.scope) == ("acme", None, "org")
    assert (row.slug, row.name, row.description) == (saved.slug, saved.title, saved.description)
    assert row.content == skill_md.content.decode()
    assert row.content_length == saved.content_length
    assert row.enabled
    assert row.created_at.endswith("Z")


def test_file_artifacts_keep_no_second_copy_of_their_bytes(database: Database, pack: Callable[..., Package]) -> None:
    DatabaseStore(database, scope="account").save(pack("release-notes", references_guide="A guide."))

    with database.read() as connection:
        row = connection.execute(sa.select(skill_artifacts).where(skill_artifacts.c.kind == "reference")).one()

    assert (row.path, row.content) == ("references/guide.md", "")


def test_the_order_of_keys_survives(database: Database) -> None:
    store = DatabaseStore(database, scope="account")
    metadata = {"zeta": 1, "alpha": 2.50, "mid": {"b": 1, "a": 1e20}}
    approach = Approach(name="Method", content="x", metadata=metadata)
    saved = store.create_skill(Skill(slug="x", title="X", description="x", artifacts=(approach,)))

    kept = store.get_artifacts(saved.id, ["approach"])[0]

    assert json.dumps(kept.metadata) == json.dumps(metadata)


def test_half_a_surrogate_pair_in_a_document_survives(database: Database) -> None:
    store = DatabaseStore(database, scope="account")
    approach = Approach(name="Method", content="x", metadata={"odd": "\ud800"})
    saved = store.create_skill(Skill(slug="x", title="X", description="x"))
    kept = saved.model_copy(update={"artifacts": (approach.model_copy(update={"id": ID, "skill_id": saved.id}),)})
    tenant = Tenant(scope="account")
    with database.write() as connection:
        replace_artifacts(connection, tenant, [kept], [saved.id])

    with database.read() as connection:
        assert connection.execute(sa.select(skill_artifacts.c.metadata)).scalars().all() == [{"odd": "\ud800"}]


def test_a_batch_that_a_race_spoils_is_saved_one_by_one(
    database: Database, pack: Callable[..., Package], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DatabaseStore(database, scope="account")
    lost = iter([Conflict("lost"), Conflict("lost")])

    def racing(*args: Any) -> list[SaveOutcome]:
        for error in lost:
            raise error
        return record(*args)

    monkeypatch.setattr("prowess.catalog.database_store.record", racing)

    saved = store.save_all([pack("one"), pack("two")])

    assert [item.error for item in saved] == [None, None]
    assert [card.slug for card in store.list_skills()] == ["one", "two"]


def test_a_replaced_skill_keeps_its_date_of_birth(database: Database, pack: Callable[..., Package]) -> None:
    store = DatabaseStore(database, scope="account")
    first = store.save(pack("release-notes"))

    second = store.save(pack("release-notes", "Else."), expected=first.digest)

    assert second.created_at == first.created_at < second.updated_at


# Ids


def test_a_declared_id_is_kept_if_it_is_free(database: Database) -> None:
    store = DatabaseStore(database, scope="account")

    first = store.save(inklings())
    second = store.save(inklings("Another"))

    assert first.id == ID
    assert second.id not in ("", ID)
    assert store.get_skill(second.id) == second
    again = store.save(inklings(description="Changed."), expected=first.digest)
    assert again.id == ID


def test_two_packages_of_one_import_that_declare_one_id_both_stay(database: Database) -> None:
    store = DatabaseStore(database, scope="account")

    saved = store.save_all([inklings("One"), inklings("Two"), inklings("Three")])

    assert [item.error for item in saved] == [None] * 3
    ids = {item.skill.id for item in saved if item.skill}
    assert len(ids) == 3
    assert ID in ids


def test_text_that_one_database_cannot_hold_is_refused_and_spoils_nothing_else(
    database: Database, pack: Callable[..., Package]
) -> None:
    store = DatabaseStore(database, scope="account")
    odd = inklings("Odd", tags=["a\x00b"], author="\ud800", description="Odd \x00 thing.")

    saved = store.save_all([pack("one"), odd, pack("two")])

    assert [item.skill is not None for item in saved][::2] == [True, True]
    assert isinstance(saved[1].error, ProwessError) or store.get_skill_by_name("odd") == saved[1].skill


# Damage


@pytest.mark.parametrize("damage", ["tags = '5'", "tags = '[1]'", "kinds = '{}'", "name = ''"])
def test_a_damaged_row_is_replaced_from_the_files(
    database: Database, pack: Callable[..., Package], damage: str
) -> None:
    store = DatabaseStore(database, scope="account")
    store.save_all([pack("bad"), pack("good")])
    expected = store.list_skills()
    with database.write() as connection:
        connection.execute(sa.text(f"UPDATE skills SET {damage} WHERE slug = 'bad'"))

    assert store.list_skills() == expected
    assert store.faults() == []
    with database.read() as connection:
        assert get_cards(connection, Tenant(scope="account")) == (expected, [])


def test_a_row_whose_json_is_nested_too_deeply_is_replaced_from_the_files(
    tmp_path: Path, pack: Callable[..., Package]
) -> None:
    database = open_database(f"sqlite:///{tmp_path}/agents.db")
    store = DatabaseStore(database, scope="account")
    store.save_all([pack("bad"), pack("good")])
    expected = store.list_skills()
    with database.write() as connection:
        connection.execute(sa.text("UPDATE skills SET tags = :deep WHERE slug = 'bad'"), {"deep": "[" * 100_000})

    assert store.list_skills() == expected
    database.close()


def test_a_damaged_manifest_hides_nothing_but_its_skill_and_is_healed_by_an_import(
    database: Database, pack: Callable[..., Package]
) -> None:
    store = DatabaseStore(database, scope="account")
    saved = store.save_all([pack("bad"), pack("good")])
    with database.write() as connection:
        connection.execute(sa.text("UPDATE skills SET manifest = '5', tags = '5' WHERE slug = 'bad'"))

    assert [card.slug for card in store.list_skills()] == ["good"]
    (fault,) = store.faults()
    assert (fault.slug, fault.problems[0].code) == ("bad", "changed-bytes")
    assert saved[0].skill is not None
    for read, key in ((store.get_skill_by_name, "bad"), (store.get_skill, saved[0].skill.id)):
        with pytest.raises(Invalid, match="changed outside Prowess"):
            read(key)

    store.save_all([pack("bad")], replace=True)
    assert [card.slug for card in store.list_skills()] == ["bad", "good"]
    assert store.faults() == []
    healed = store.get_skill_by_name("bad")
    assert healed is not None
    assert healed.id == saved[0].skill.id


def test_a_hint_names_the_nearest_slugs_of_a_large_catalog_too() -> None:
    names = [f"skill-{number}" for number in range(5000)] + ["release-notes"]

    assert "'release-notes'" in suggest_names("release-note", names)
    assert suggest_names("zzz", names) == "Run `prowess list` to see all skills."
    assert suggest_names("zzz", []) == "No skills are stored here yet. Add some with `prowess import PATH`."


def test_lost_bytes_are_told_by_the_name_of_the_file(database: Database, pack: Callable[..., Package]) -> None:
    store = DatabaseStore(database, scope="account")
    saved = store.save(pack("release-notes"))
    with database.write() as connection:
        connection.execute(sa.delete(skill_blobs))

    for read in (lambda: store.get_package(saved.id), lambda: store.read_file(saved.id, "SKILL.md")):
        with pytest.raises(Unavailable, match=r"SKILL\.md"):
            read()


# The version log by itself


def test_appended_versions_count_up_whoever_appends(database: Database, pack: Callable[..., Package]) -> None:
    logs = [DatabaseVersions(database, scope="workspace") for _ in range(4)]
    package = pack("release-notes")

    def append(log: DatabaseVersions) -> None:
        for _ in range(3):
            log.append("release-notes", package, form="agentskills", change="update", actor="me")

    threads = [threading.Thread(target=append, args=[log]) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    versions = logs[0].versions("release-notes")
    assert [version.number for version in versions] == list(range(1, 13))
    assert logs[0].package("release-notes", 12) == package
    assert versions[0].form == "agentskills"


def test_logs_of_two_scopes_are_apart(database: Database, pack: Callable[..., Package]) -> None:
    DatabaseVersions(database, scope="workspace").append("x", pack("x"), form="native", change="create")
    other = DatabaseVersions(database, scope="user", user_id="ann")

    assert other.versions("x") == []
    with pytest.raises(NotFound):
        other.package("x", 1)
    with pytest.raises(Invalid):
        other.append("Not A Slug", pack("x"), form="native", change="create")
