"""Tenants in one database: none sees, changes or learns anything of another."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from prowess.catalog.database_store import DatabaseStore
from prowess.errors import NotFound, ProwessError
from prowess.skill.package import Package
from prowess.storage.database import Database


def tenants(database: Database) -> list[DatabaseStore]:
    return [
        DatabaseStore(database, scope="org", organization_id="acme"),
        DatabaseStore(database, scope="org", organization_id="globex"),
        DatabaseStore(database, scope="user", organization_id="acme", user_id="ann"),
        DatabaseStore(database, scope="user", organization_id="acme", user_id="bob"),
        DatabaseStore(database, scope="account"),
        DatabaseStore(database, scope="workspace"),
    ]


def test_every_tenant_has_a_slug_to_itself(database: Database, pack: Callable[..., Package]) -> None:
    stores = tenants(database)

    saved = [store.save(pack("release-notes", f"Tenant {n}.")) for n, store in enumerate(stores)]

    assert len({skill.id for skill in saved}) == len(stores)
    for store, skill in zip(stores, saved, strict=True):
        assert store.get_skill_by_name("release-notes") == skill
        assert store.list_skills() == [skill.card]
        assert len(store.versions("release-notes")) == 1


def test_nobody_learns_from_a_declared_id_what_others_keep(database: Database) -> None:
    text = (
        '{"id": "6f1c2a52-9a43-4c0e-8f6b-1f6f1d0f9a11", "name": "Tidy", "description": "Tidies up.", "artifacts": []}'
    )
    package = Package.of_texts("tidy", {"tidy.json": text})
    first, second, *_ = tenants(database)
    before = second.save(package).id
    second.delete_skill(before)
    first.save(package)
    assert second.save(package).id == before


def test_a_foreign_id_answers_exactly_as_an_unknown_one(database: Database, pack: Callable[..., Package]) -> None:
    owner, *others = tenants(database)
    mine = owner.save(pack("release-notes"))
    part = mine.artifacts[0]
    unknown = "00000000-0000-4000-8000-000000000000"

    for other in others:
        assert other.list_skills() == []
        assert other.versions("release-notes") == []
        for read in (other.get_skill, other.get_package, other.get_artifact, other.get_artifacts):
            assert read(mine.id) == read(unknown)
            assert read(part.id) == read(unknown)
        writes: list[Callable[[str], object]] = [
            other.delete_skill,
            other.delete_artifact,
            lambda key, other=other: other.read_file(key, "SKILL.md"),
            lambda key, other=other: other.add_artifact(part.model_copy(update={"skill_id": key, "name": "new"})),
            lambda key, other=other: other.update_skill(mine.model_copy(update={"id": key})),
            lambda key, other=other: other.update_artifact(part.model_copy(update={"id": key})),
        ]
        for write in writes:
            assert told(write, mine.id) == told(write, unknown)
        assert told(other.delete_artifact, part.id) == told(other.delete_artifact, unknown)
        assert told(lambda _, other=other: other.rollback("release-notes", 1), mine.id)[0] is NotFound
    assert owner.get_skill(mine.id) == mine


def told(call: Callable[[str], object], id: str) -> tuple[type, str, str]:
    """What a caller learns from a refused call, without the id that they sent."""
    with pytest.raises(ProwessError) as caught:
        call(id)
    return type(caught.value), caught.value.message.replace(id, "ID"), caught.value.hint.replace(id, "ID")


def test_an_empty_organization_is_no_organization(database: Database, pack: Callable[..., Package]) -> None:
    saved = DatabaseStore(database, scope="account", organization_id="", user_id="").save(pack("release-notes"))

    assert DatabaseStore(database, scope="account").get_skill_by_name("release-notes") == saved
