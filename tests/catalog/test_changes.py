"""What changed in a whole catalog, and what an index reads of it."""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path

import pytest

from prowess.catalog.catalog import Catalog
from prowess.catalog.directory_store import DirectoryStore
from prowess.catalog.memory_store import MemoryStore
from prowess.catalog.store import ReadCache
from prowess.catalog.version_log import MemoryVersions
from prowess.errors import Unavailable
from prowess.skill.forms import read_package
from prowess.skill.model import Scope, Skill
from prowess.skill.package import Package


def pack(name: str, body: str = "Do it.") -> Package:
    text = f"---\nname: {name}\ndescription: What {name} is for.\n---\n\n{body}\n"
    return Package.of_texts(name, {"SKILL.md": text})


def store(scope: Scope, *packages: Package, location: str = "") -> MemoryStore:
    made = MemoryStore(scope)
    made.location = location or scope
    made.save_all(packages)
    return made


class Away(MemoryStore):
    """A store whose database is gone."""

    def changes(self, since=""):
        raise Unavailable(f"The database does not answer about {since!r}.", hint="Start it.")

    def documents(self, slugs=None):
        yield from super().documents(slugs)
        raise OSError("gone")


def bodies(catalog: Catalog, slugs: list[str] | None = None) -> dict[str, str]:
    found = list(catalog.documents(slugs))
    assert len({item.slug for item in found}) == len(found)
    return {item.slug: item.body.strip() for item in found}


def test_changes_of_all_stores_come_together():
    near, far = store("workspace", pack("tidy")), store("account", pack("other"))
    catalog = Catalog([far, near])
    first = catalog.changes({})
    assert first.slugs is None
    assert list(first.positions) == ["workspace:workspace", "account:account"]
    assert catalog.changes(first.positions).slugs == frozenset()
    near.save(pack("new"))
    far.save(pack("tidy", "hidden"))
    second = catalog.changes(first.positions)
    assert second.slugs == {"new", "tidy"}
    assert catalog.changes(second.positions).slugs == frozenset()


def test_other_stores_than_before_are_not_known():
    stores = [store("workspace", pack("tidy"))]
    catalog = Catalog(lambda: stores)
    one = catalog.changes({}).positions
    stores.append(store("account"))
    both = catalog.changes(one)
    assert both.slugs is None
    assert catalog.changes(both.positions).slugs == frozenset()
    stores.pop(0)
    assert catalog.changes(both.positions).slugs is None


def test_stores_of_one_scope_and_place_are_told_apart():
    stores = [store("org", pack("one")), store("org", pack("two"))]
    catalog = Catalog(stores)
    positions = catalog.changes({}).positions
    assert list(positions) == ["org:org", "org:org#2"]
    stores[1].save(pack("three"))
    assert catalog.changes(positions).slugs == {"three"}


def test_a_store_that_is_away_has_no_position_and_is_named_when_it_is_read():
    away = Away("session")
    catalog = Catalog([away, store("user", pack("tidy"))])
    positions = catalog.changes({}).positions
    assert positions[f"session:{away.location}"] == ""
    assert positions["user:user"]
    assert catalog.changes(positions).slugs is None
    told: list[str] = []
    assert [item.slug for item in catalog.documents(away=told.append)] == ["tidy"]
    assert told == [f"session:{away.location}"]


def test_an_index_reads_the_skills_that_are_served():
    stores = [
        store("workspace", pack("tidy", "first"), location="a"),
        store("workspace", pack("tidy", "second"), pack("other"), location="b"),
        store("account", pack("tidy", "far"), pack("far", "far")),
    ]
    catalog = Catalog(stores)
    assert bodies(catalog) == {"tidy": "first", "other": "Do it.", "far": "far"}
    assert bodies(catalog, ["tidy", "far", "absent"]) == {"tidy": "first", "far": "far"}
    assert {item.slug: item.scope for item in catalog.documents()} == {
        "tidy": "workspace",
        "other": "workspace",
        "far": "account",
    }
    assert {item.slug: item.digest for item in catalog.documents()} == {
        card.slug: card.digest for card in catalog.cards()
    }


def test_a_folder_is_read_as_it_is_whether_or_not_there_was_room_to_keep_it(tmp_path: Path, monkeypatch):
    for number in range(3):
        (tmp_path / f"skill-{number}").mkdir()
        (tmp_path / f"skill-{number}/SKILL.md").write_bytes(pack(f"skill-{number}").get("SKILL.md").content)
    for room in (0, 1, ReadCache.MAX_CHARACTERS):
        monkeypatch.setattr(ReadCache, "MAX_CHARACTERS", room)
        made = DirectoryStore(tmp_path, scope="user", versions=MemoryVersions())
        catalog = Catalog([made])
        catalog.changes({})
        (tmp_path / "skill-1/SKILL.md").write_bytes(pack("skill-1", f"Now {room}.").get("SKILL.md").content)
        assert bodies(catalog) == {"skill-0": "Do it.", "skill-1": f"Now {room}.", "skill-2": "Do it."}
        assert bodies(catalog)["skill-1"] == f"Now {room}."
        assert {item.scope for item in catalog.documents()} == {"user"}


def skill(name: str, body: str) -> Skill:
    found = read_package(pack(name, body)).skill
    assert found is not None
    return found


def test_what_was_just_read_is_given_once_and_only_as_it_still_is():
    tidy, fresh = skill("tidy", "Do it."), ReadCache()
    files = pack("tidy")
    fresh.take("a", tidy, files)
    fresh.take("b", tidy, files)
    assert fresh.find("a", tidy.digest) == (tidy, files)
    assert fresh.find("a", "another") is None
    assert fresh.give("a", tidy.digest) == tidy
    assert fresh.give("a", tidy.digest) is None
    assert fresh.find("a", tidy.digest) is None
    assert fresh.give("b", "another") is None
    assert fresh.give("b", tidy.digest) is None


def test_what_was_given_or_replaced_makes_room_for_others(monkeypatch):
    one, other, fresh = skill("one", "x" * 150), skill("other", "y" * 150), ReadCache()
    monkeypatch.setattr(ReadCache, "MAX_CHARACTERS", 2 * 250)
    for _ in range(3):
        fresh.take("a", one, pack("one", "x" * 150))
        fresh.take("a", one, pack("one", "x" * 150))
        fresh.take("b", other, pack("other", "y" * 150))
        assert fresh.give("b", other.digest) is None
        assert fresh.give("a", one.digest) == one
    fresh.take("a", one, pack("one", "x" * 150))
    fresh.take("a", skill("large", "z" * 300), pack("large", "z" * 300))
    assert fresh.give("a", one.digest) is None
    fresh.take("b", other, pack("other", "y" * 150))
    assert fresh.give("b", other.digest) == other


def test_the_room_is_that_of_everything_a_skill_holds(monkeypatch):
    monkeypatch.setattr(ReadCache, "MAX_CHARACTERS", 1_000)
    one, files = skill("wordy", "x" * 150), pack("wordy", "x" * 150)
    many = one.model_copy(update={"artifacts": one.artifacts * 10})
    assert len(one.body) == len(many.body)
    more = Package.of_texts("wordy", {"SKILL.md": "x" * 150, "assets/large.bin": b"\x00" * 1_000})
    fresh = ReadCache()
    for found, read, given in ((one, files, one), (many, files, None), (one, more, None)):
        fresh.take("a", found, read)
        assert fresh.give("a", found.digest) == given


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """A folder with one skill, read so late that every change after it shows."""
    for module in ("prowess.storage.files.safe_read", "prowess.catalog.folder_tree"):
        monkeypatch.setattr(f"{module}.is_settled", lambda *_: True)
    (tmp_path / "tidy").mkdir()
    (tmp_path / "tidy/SKILL.md").write_bytes(pack("tidy").get("SKILL.md").content)
    return tmp_path


def test_a_search_a_listing_and_a_lookup_read_no_file_that_a_look_has_just_read(folder: Path, monkeypatch):
    made = DirectoryStore(folder, scope="user", versions=MemoryVersions())
    position = made.changes().position
    assert made.changes(position).slugs == frozenset()
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", lambda *_, **__: pytest.fail("a file was opened"))
        assert made.get_package_by_name("tidy") == pack("tidy")
        looked_up = made.get_skill_by_name("tidy")
        assert [found.slug for found in made.documents()] == ["tidy"]
    assert looked_up == DirectoryStore(folder, scope="user", versions=MemoryVersions()).get_skill_by_name("tidy")
    assert made.get_package_by_name("tidy") == pack("tidy")


def test_what_a_look_has_read_is_used_only_as_long_as_the_files_are_the_same(folder: Path):
    made = DirectoryStore(folder, scope="user", versions=MemoryVersions())
    made.changes()
    (folder / "tidy/SKILL.md").write_bytes(pack("tidy", "Do more.").get("SKILL.md").content)
    assert made.get_package_by_name("tidy") == pack("tidy", "Do more.")


def test_a_look_keeps_nothing_that_nobody_has_asked_for_in_time(folder: Path, monkeypatch):
    monkeypatch.setattr(ReadCache, "SECONDS", 0.0)
    taken: list[ReadCache] = []
    take = ReadCache.take
    monkeypatch.setattr(ReadCache, "take", lambda self, *told: (taken.append(self), take(self, *told)))
    made = DirectoryStore(folder, scope="user", versions=MemoryVersions())
    position = made.changes().position
    gone = [weakref.ref(fresh) for fresh in taken]
    taken.clear()
    assert len(gone) == 1
    assert made.changes(position).slugs == frozenset()
    gc.collect()
    assert gone[0]() is None
    assert [found.slug for found in made.documents()] == ["tidy"]


class Twice(MemoryStore):
    """A store that gives what it has twice over."""

    def documents(self, slugs=None):
        yield from super().documents(slugs)
        yield from super().documents(slugs)


def test_a_store_that_gives_a_skill_twice_is_heard_once():
    twice = Twice("workspace")
    twice.save_all([pack("tidy"), pack("other")])
    assert bodies(Catalog([twice, store("account", pack("tidy", "far"))])) == {"tidy": "Do it.", "other": "Do it."}
