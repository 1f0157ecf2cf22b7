"""Places: which folders and databases there are, and whether anything in them changed, told without heavy imports."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from prowess.catalog.catalog import Catalog
from prowess.engine.places import Places
from prowess.engine.stores import Stores
from prowess.settings import Settings, read_settings
from prowess.skill.package import Package
from prowess.storage.files import freshness

HOUR = 3_600_000_000_000


def pack(name: str, body: str = "Do it.") -> Package:
    text = f"---\nname: {name}\ndescription: What {name} is for.\n---\n\n{body}\n"
    return Package.of_texts(name, {"SKILL.md": text})


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour later by the clock, so that what was written just now is settled."""
    now = time.time_ns
    monkeypatch.setattr(freshness.time, "time_ns", lambda: now() + HOUR)


@pytest.fixture
def settings(tmp_path: Path, home: Path) -> Settings:
    workspace = tmp_path / "work"
    for folder in (workspace / ".claude/skills", workspace / ".agents/skills", home / ".claude/skills"):
        folder.mkdir(parents=True)
    return read_settings(workspace=workspace)


@pytest.fixture
def stores(settings: Settings):
    made = Stores(settings)
    yield made
    made.close()


def test_the_places_are_those_that_the_stores_are_made_of(stores: Stores, settings: Settings) -> None:
    stores.writable("workspace").save(pack("one"))
    stores.writable("account").save(pack("two"))
    found = Places(settings).present()

    assert [(place.scope, place.kind) for place in found] == [
        ("workspace", "folder"),
        ("workspace", "folder"),
        ("user", "folder"),
        ("workspace", "database"),
        ("user", "database"),
        ("org", "database"),
        ("account", "database"),
    ]
    assert [(place.scope, place.location) for place in found] == [
        (store.scope, store.location) for store in stores.present()[1:]
    ]
    assert {place.key for place in found} | {"session:memory"} == set(Catalog(stores.present).changes({}).positions)


def write(folder: Path, name: str, body: str = "Do it.") -> Path:
    """A skill in a skill folder."""
    file = folder / name / "SKILL.md"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(pack(name, body).files[0].content)
    return file


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("root", ["work/.claude/skills", "work/.agents/skills", "home/.claude/skills"])
def test_a_record_holds_until_a_skill_is_added_edited_or_removed(
    settings: Settings, tmp_path: Path, home: Path, root: str
) -> None:
    folder = (home if root.startswith("home") else tmp_path / "work") / root.partition("/")[2]
    places = Places(settings)

    def held_until(change: Callable[[], object]) -> bool:
        record = places.record()
        held = record != b"" and places.holds(record)
        change()
        return held and not places.holds(record)

    file = folder / "tidy/SKILL.md"
    assert held_until(lambda: write(folder, "tidy"))
    assert held_until(lambda: write(folder, "tidy", "Do it twice."))
    assert held_until(lambda: (file.parent / "guide.md").write_text("How to."))
    assert held_until((file.parent / "guide.md").unlink)
    assert held_until(lambda: shutil.rmtree(file.parent))


@pytest.mark.usefixtures("later")
def test_a_record_holds_until_a_database_is_made_or_written_to(stores: Stores, settings: Settings) -> None:
    places = Places(settings)
    for scope in ("account", "workspace"):
        for name in ("one", "two"):
            record = places.record()
            assert places.holds(record)
            stores.writable(scope).save(pack(name))
            stores.close()
            assert not places.holds(record)


@pytest.mark.usefixtures("later")
def test_a_record_holds_after_writes_to_the_account_that_are_not_about_skills(
    stores: Stores, settings: Settings
) -> None:
    stores.writable("account").save(pack("one"))
    record = Places(settings, by_rows=True).record()
    known = Places(settings, by_rows=True)
    assert known.holds(record)
    with stores.records().write() as connection:
        connection.execute(sa.text("INSERT INTO org_settings VALUES ('', 'some', '1', '', '')"))
    stores.close()

    assert known.holds(record)
    assert Places(settings, by_rows=True).holds(record)
    stores.writable("account").save_all([pack("one", "Do it twice.")], replace=True)
    assert not known.holds(record)
    assert not Places(settings, by_rows=True).holds(record)


@pytest.mark.usefixtures("later")
def test_a_short_command_accepts_the_record_of_a_process_that_had_the_database_open(
    stores: Stores, settings: Settings
) -> None:
    stores.writable("account").save(pack("one"))
    stores.close()
    record = Places(settings).record()

    assert Places(settings, by_rows=True).holds(record)
    stores.writable("account").save(pack("two"))
    stores.close()
    assert not Places(settings, by_rows=True).holds(record)


@pytest.mark.usefixtures("later")
def test_a_record_after_a_write_to_a_database_lists_only_folders_that_changed(
    stores: Stores, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, folder, listed = Places(settings), settings.workspace / ".claude/skills", list[str]()
    write(folder, "tidy")
    before, scan = places.record(), os.scandir

    def note(path: str) -> Any:
        listed.append(path)
        return scan(path)

    stores.writable("account").save(pack("one"))
    stores.close()
    monkeypatch.setattr(os, "scandir", note)
    assert places.record() not in (before, b"")
    assert not [path for path in listed if path.startswith(str(folder))]
    write(folder, "tidy", "Do it twice.")
    assert places.holds(places.record())
    assert [path for path in listed if path.startswith(str(folder))]


@pytest.mark.usefixtures("later")
def test_a_record_holds_until_a_place_comes_or_goes(settings: Settings) -> None:
    places = Places(settings)
    record = places.record()
    (settings.workspace / "sub/.claude/skills").mkdir(parents=True)
    assert not places.holds(record)

    record = places.record()
    assert places.holds(record)
    (settings.workspace / ".agents/skills").rmdir()
    assert not places.holds(record)


@pytest.mark.usefixtures("later")
def test_what_is_no_record_of_these_places_does_not_hold(settings: Settings, tmp_path: Path) -> None:
    places = Places(settings)
    record = places.record()
    (tmp_path / "other").mkdir()
    elsewhere = Places(read_settings(workspace=tmp_path / "other"))
    for other in (b"", b"x", record[:-8], record + b"12345678", record[8:], elsewhere.record()):
        assert not places.holds(other)
    assert places.holds(record)


@pytest.mark.usefixtures("later")
def test_reading_everything_changes_nothing(stores: Stores, settings: Settings) -> None:
    stores.writable("account").save(pack("one"))
    stores.close()
    write(settings.workspace / ".claude/skills", "two")
    record = stores.record()
    catalog = Catalog(stores.present)
    assert sorted(item.slug for item in catalog.documents()) == ["one", "two"]
    assert stores.holds(record)
    stores.close()
    assert stores.holds(record)
    assert stores.record() == record == Places(settings).record() != b""


def test_what_changed_just_now_cannot_be_told(settings: Settings) -> None:
    write(settings.workspace / ".claude/skills", "tidy")
    places = Places(settings)
    assert places.record() == b""
    assert not places.holds(b"")


@pytest.mark.usefixtures("later")
def test_nothing_can_be_told_while_the_session_has_skills(stores: Stores) -> None:
    record = stores.record()
    assert stores.holds(record)
    session = stores.present()[0]
    skill = session.save(pack("one"))
    assert stores.record() == b""
    assert not stores.holds(record)
    assert not stores.holds(b"")
    session.delete_skill(skill.id)
    assert stores.record() == record
    assert stores.holds(record)


@pytest.mark.usefixtures("later")
def test_other_limits_make_other_readings(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Places(settings).record()
    monkeypatch.setenv("PROWESS_MAX_FILES", "3")
    other = Places(read_settings(workspace=settings.workspace))
    assert not other.holds(record)
    assert other.holds(other.record())
    assert not Places(settings).holds(other.record())


@pytest.mark.usefixtures("later")
def test_a_server_cannot_be_told_cheaply_and_its_password_is_not_shown(settings: Settings, monkeypatch) -> None:
    monkeypatch.setenv("PROWESS_DATABASE_URL", "postgresql://me:secret@db.example/skills")
    places = Places(read_settings(workspace=settings.workspace))
    assert "account:postgresql://db.example/skills" in {place.key for place in places.present()}
    assert places.record() == b""
    assert not places.holds(b"")
    assert "secret" not in repr(places.present())


def test_a_database_behind_a_link_of_the_workspace_is_no_place(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/agents.db").touch()
    (settings.workspace / ".prowess").symlink_to(tmp_path / "elsewhere")
    assert {place.kind for place in Places(settings).present()} == {"folder"}


def test_the_places_are_told_without_heavy_imports(settings: Settings) -> None:
    plain = settings.workspace / "skills/tidy"
    plain.mkdir(parents=True)
    (plain / "SKILL.md").touch()
    code = (
        "import sys\n"
        "from prowess.engine.places import Places\n"
        "from prowess.settings import read_settings\n"
        "places = Places(read_settings(workspace=sys.argv[1]))\n"
        "assert len(places.present()) == 4, places.present()\n"
        "places.holds(places.record())\n"
        "heavy = {'pydantic', 'pydantic_core', 'sqlalchemy', 'asyncio', 'yaml', 'rich', 'sqlite3', 'zipfile'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    command = [sys.executable, "-c", code, str(settings.workspace)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("url", "kept"),
    [("", []), ("sqlite:////srv/data/our.db", ["/srv/data/our.db"]), ("postgresql://db.example.com/prowess", [])],
)
def test_what_prowess_keeps_is_known_wherever_it_is_configured_to_lie(
    settings: Settings, url: str, kept: list[str]
) -> None:
    places = Places(replace(settings, database_url=url))
    own = [settings.home / "agents.db"] if not url else [Path(path) for path in kept]
    assert places.kept == [settings.home, *own]
    assert places.kept_in_workspace == settings.workspace / ".prowess"


@pytest.mark.usefixtures("later")
def test_the_places_are_found_once_to_see_what_has_changed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(settings)
    record = places.record()
    assert record
    folder = settings.workspace / ".agents/skills/new"
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(pack("new").get("SKILL.md").content)
    find, found = Places.find, list[int]()

    def count(one: Places) -> Any:
        found.append(1)
        return find(one)

    monkeypatch.setattr(Places, "find", count)
    assert not places.holds(record)
    assert places.changes(record) is not None
    assert len(found) == 1
    # A record that was not looked at just now may be of other places.
    shutil.rmtree(settings.workspace / ".agents")
    assert places.changes(record) is None
