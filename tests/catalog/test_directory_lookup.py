"""One skill of a folder, asked for by name: what it costs, what is seen, and what the version log is asked."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from prowess.catalog.database_versions import DatabaseVersions
from prowess.catalog.directory_store import DirectoryStore
from prowess.catalog.version_log import MemoryVersions
from prowess.errors import Refused, Unavailable
from prowess.skill.limits import Limits
from prowess.storage.files import safe_read


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "skills"
    folder.mkdir()
    return folder


@pytest.fixture
def store(root: Path) -> DirectoryStore:
    return DirectoryStore(root, scope="workspace", versions=MemoryVersions())


@pytest.fixture
def settled(monkeypatch):
    """Let every file look as if it had been written long before it was read."""
    monkeypatch.setattr(safe_read, "is_settled", lambda *_: True)
    monkeypatch.setattr("prowess.catalog.folder_tree.is_settled", lambda *_: True)


def put(folder: Path, name: str, body: str = "Do it.") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {name}\ndescription: What {name} is for.\n---\n\n{body}\n"
    (folder / "SKILL.md").write_text(text)


def test_a_skill_on_which_a_reader_fails_does_not_hide_the_others(root: Path) -> None:
    put(root / "good", "good")
    (root / "odd").mkdir()
    (root / "odd/SKILL.md").write_text("---\nname: odd\ndescription: [[d]]\n---\n")
    # In place of a bug that nobody has found yet: a limit that fails when it is compared.
    limits = Limits(yaml_depth=FailsAbove(1))
    store = DirectoryStore(root, scope="workspace", versions=MemoryVersions(), limits=limits)

    assert [card.slug for card in store.list_skills()] == ["good"]
    assert [problem.code for fault in store.faults() for problem in fault.problems] == ["unreadable"]


class FailsAbove(int):
    def __le__(self, depth: int) -> bool:
        return depth > int(self) and 1 / 0 > 0


# Looking at one skill


@pytest.mark.usefixtures("settled")
def test_who_asks_for_one_skill_does_not_pay_for_the_others(store, root, monkeypatch):
    for name in ("a", "b", "c", "box/d"):
        put(root / name, name[-1])
    (skill,) = [store.get_skill_by_name(card.slug) for card in store.list_skills() if card.slug == "d"]
    looked: list[str] = []
    real = os.lstat

    def watch(path, **kwargs):
        looked.append(str(path))
        return real(path, **kwargs)

    monkeypatch.setattr(os, "lstat", watch)  # the root itself may be a link, so it is looked at in another way
    assert store.get_skill_by_name("d") == store.get_skill(skill.id) == skill
    assert {path for path in looked if path.startswith(str(root))} == {
        str(root / "box"),
        str(root / "box/d"),
        str(root / "box/d/SKILL.md"),
    }


@pytest.mark.usefixtures("settled")
def test_what_comes_and_goes_in_a_folder_behind_a_link_is_seen(root):
    (root.parent / "link").symlink_to(root)
    store = DirectoryStore(root.parent / "link", scope="user", versions=MemoryVersions())
    put(root / "one", "one")
    assert [card.slug for card in store.list_skills()] == ["one"]
    put(root / "two", "two")
    assert [card.slug for card in store.list_skills()] == ["one", "two"]
    shutil.rmtree(root / "one")
    assert store.get_skill_by_name("one") is None
    assert [card.slug for card in store.list_skills()] == ["two"]


@pytest.mark.usefixtures("settled")
def test_an_edit_of_the_skill_is_seen_at_once(store, root):
    put(root / "tidy", "tidy", "one")
    first = store.get_skill_by_name("tidy")
    put(root / "tidy", "tidy", "two")
    second = store.get_skill_by_name("tidy")
    assert (first.body.strip(), second.body.strip()) == ("one", "two")
    put(root / "tidy", "renamed")
    assert store.get_skill_by_name("tidy") is None
    assert store.get_skill(first.id) is None
    assert store.get_skill_by_name("renamed").location == str(root / "tidy")


@pytest.mark.usefixtures("settled")
def test_a_file_that_is_only_touched_changes_the_date(store, root):
    put(root / "tidy", "tidy")
    first = store.get_skill_by_name("tidy")
    os.utime(root / "tidy/SKILL.md", (86400, 86400))
    second = store.get_skill_by_name("tidy")
    assert second.updated_at == "1970-01-02T00:00:00.000000Z"
    assert second.digest == first.digest


@pytest.mark.usefixtures("settled")
def test_a_skill_that_moved_or_vanished_is_looked_for_everywhere(store, root):
    put(root / "box/tidy", "tidy")
    put(root / "other/thing", "thing")
    skill = store.get_skill_by_name("tidy")
    (root / "box/tidy").rename(root / "other/tidy")
    assert store.get_skill(skill.id).location == str(root / "other/tidy")
    shutil.rmtree(root / "other/tidy")
    assert store.get_skill_by_name("tidy") is None


@pytest.mark.usefixtures("settled")
def test_a_folder_on_the_way_that_becomes_a_skill_takes_the_inner_one_with_it(store, root):
    put(root / "box/tidy", "tidy")
    assert store.get_skill_by_name("tidy") is not None
    put(root / "box", "box")
    assert store.get_skill_by_name("tidy") is None


@pytest.mark.usefixtures("settled")
def test_a_claim_beside_the_skill_is_seen_at_once_and_one_elsewhere_at_the_next_full_look(store, root):
    put(root / "m/tidy", "tidy", "served")
    put(root / "a/other", "other")
    assert store.get_skill_by_name("tidy").location == str(root / "m/tidy")
    put(root / "m/earlier", "tidy", "beside")
    assert store.get_skill_by_name("tidy").location == str(root / "m/earlier")
    put(root / "a/first", "tidy", "elsewhere")
    assert store.get_skill_by_name("tidy").location == str(root / "m/earlier")
    store.list_skills()
    assert len(store.faults()) == 2
    assert store.get_skill_by_name("tidy").location == str(root / "a/first")


# Ids


def test_a_folder_that_is_moved_keeps_its_ids_where_its_place_is_given(root, tmp_path):
    put(root / "tidy", "tidy")

    def id_at(folder: Path, place: str | None) -> str:
        store = DirectoryStore(folder, scope="workspace", versions=MemoryVersions(), place=place)
        return store.get_skill_by_name("tidy").id

    named, plain = id_at(root, ".agents/skills"), id_at(root, None)
    assert named != plain
    assert plain == id_at(root, str(root.resolve()))
    root.rename(tmp_path / "moved")
    assert id_at(tmp_path / "moved", ".agents/skills") == named
    assert id_at(tmp_path / "moved", None) != plain


# The version log


def test_the_ends_of_a_log_are_its_first_and_last_version_without_their_files(database, pack):
    logs = [MemoryVersions(), DatabaseVersions(database, scope="workspace", place="here")]
    DatabaseVersions(database, scope="workspace", place="there").append(
        "tidy", pack("tidy", "x"), form="agentskills", change="create"
    )
    for log in logs:
        assert log.ends("tidy") is None
        assert log.ends("Not a slug") is None
        for number in range(3):
            change = "update" if number else "create"
            log.append("tidy", pack("tidy", str(number)), form="agentskills", change=change, actor="me")
            every = log.versions("tidy")
            assert log.ends("tidy") == tuple(
                version.model_copy(update={"manifest": ()}) for version in (every[0], every[-1])
            )


class LongLog(MemoryVersions):
    """A log that is too long to be read as a whole."""

    def versions(self, slug):
        raise AssertionError(f"all versions of {slug} were read")


def test_reading_and_writing_a_skill_never_reads_the_whole_log(root, pack):
    store = DirectoryStore(root, scope="workspace", versions=LongLog())
    first = store.save(pack("tidy", "one"))
    put(root / "tidy", "tidy", "by hand")
    edited = store.get_skill_by_name("tidy")
    second = store.save(pack("tidy", "two"), expected=edited.digest)
    assert second.created_at == edited.created_at == first.created_at
    store.delete_skill(second.id)
    assert [store.version_package("tidy", number).digest for number in (1, 2, 3)] == [
        first.digest,
        edited.digest,
        second.digest,
    ]


class BrokenLog(MemoryVersions):
    """A log whose database does not answer."""

    def _fail(self, *_, **__):
        raise Unavailable("The database is damaged.", hint="Restore it.")

    append = versions = ends = package = _fail


def test_a_log_that_fails_leaves_the_skills_readable_and_nothing_is_written(root, pack):
    put(root / "tidy", "tidy")
    os.utime(root / "tidy/SKILL.md", (86400, 86400))
    store = DirectoryStore(root, scope="workspace", versions=BrokenLog())
    skill = store.get_skill_by_name("tidy")
    assert skill.created_at == skill.updated_at == "1970-01-02T00:00:00.000000Z"
    assert store.get_package(skill.id).digest == skill.digest
    for write in (
        lambda: store.save(pack("other")),
        lambda: store.save(pack("tidy", "new"), expected=skill.digest),
        lambda: store.delete_skill(skill.id),
        lambda: store.versions("tidy"),
    ):
        with pytest.raises(Unavailable, match="damaged"):
            write()
    assert store.get_skill_by_name("tidy") == skill
    assert [path.name for path in root.iterdir()] == ["tidy"]


def test_a_skill_that_is_a_git_repository_is_edited_with_its_history_and_not_deleted(store, root):
    put(root / "tidy", "tidy")
    (root / "tidy/.git").mkdir()
    (root / "tidy/.git/HEAD").write_text("ref")
    skill = store.get_skill_by_name("tidy")
    with pytest.raises(Refused, match="is a git repository"):
        store.delete_skill(skill.id)
    assert store.versions("tidy") == []
    store.update_skill(skill.model_copy(update={"description": "Other."}))
    assert "Other." in (root / "tidy/SKILL.md").read_text()
    assert (root / "tidy/.git/HEAD").read_text() == "ref"
