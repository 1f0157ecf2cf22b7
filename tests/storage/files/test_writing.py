"""Folders and files, written all or nothing, and put right again after a writer that was killed."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from prowess.catalog.directory_store import DirectoryStore
from prowess.catalog.version_log import MemoryVersions
from prowess.errors import Conflict, Refused, Unavailable
from prowess.skill.package import File, Package
from prowess.storage.files import atomic_write
from prowess.storage.files import atomic_write as rename
from prowess.storage.files.atomic_write import recover_folder, remove_path, stage_package, write_file, write_folder
from prowess.storage.files.folder_lock import lock_folder
from prowess.storage.files.skill_packages import read_folder
from prowess.storage.files.skill_paths import TEMP_PREFIX

SKILL = "---\nname: tidy\ndescription: Tidies.\n---\nTidy up.\n"


def put(root: Path, files: dict[str, str | bytes]) -> Path:
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(TEMP_PREFIX)]


@pytest.fixture(params=["exchange", "two steps"])
def either_way(request, monkeypatch):
    """Both ways to replace: at once, and as on a kernel that cannot."""
    if request.param == "two steps":
        monkeypatch.setattr(rename, "exchange", lambda *_: False)


def package(**files: str) -> Package:
    named = {"SKILL.md": SKILL, **{name.replace("_", "/", 1): text for name, text in files.items()}}
    return Package.of_texts("tidy", named)


def test_a_written_folder_reads_back_as_the_same_package(tmp_path):
    whole = package().with_files(
        [File(path="scripts/run.sh", content=b"x", mode="0755"), File(path="a/b/c/d.bin", content=b"\x00")]
    )
    write_folder(whole, tmp_path / "tidy", replace=False)
    assert read_folder(tmp_path / "tidy") == whole
    assert leftovers(tmp_path) == []


def test_a_folder_that_is_there_is_not_overwritten_unless_asked(tmp_path):
    write_folder(package(), tmp_path / "tidy", replace=False)
    with pytest.raises(Conflict, match="already exists"):
        write_folder(package(a="2"), tmp_path / "tidy", replace=False)
    assert read_folder(tmp_path / "tidy") == package()
    assert leftovers(tmp_path) == []


@pytest.mark.usefixtures("either_way")
def test_replacing_leaves_nothing_of_the_old(tmp_path):
    write_folder(package(old="1"), tmp_path / "tidy", replace=True)
    write_folder(package(new="2"), tmp_path / "tidy", replace=True)
    assert read_folder(tmp_path / "tidy") == package(new="2")
    assert leftovers(tmp_path) == []


@pytest.mark.usefixtures("either_way")
def test_replacing_keeps_what_tools_keep_in_the_folder(tmp_path):
    write_folder(package(old="1"), tmp_path / "tidy", replace=False)
    put(tmp_path / "tidy", {".git/HEAD": "ref", "node_modules/a.js": "a"})
    write_folder(package(new="2"), tmp_path / "tidy", replace=True)
    assert read_folder(tmp_path / "tidy") == package(new="2")
    assert (tmp_path / "tidy/.git/HEAD").read_text() == "ref"
    assert (tmp_path / "tidy/node_modules/a.js").read_text() == "a"
    assert leftovers(tmp_path) == []


@pytest.mark.usefixtures("either_way")
def test_writing_through_a_link_is_refused_and_what_it_leads_to_stays(tmp_path):
    put(tmp_path / "elsewhere", {"keep.md": "k"})
    (tmp_path / "tidy").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "file").symlink_to(tmp_path / "elsewhere/keep.md")
    with pytest.raises(Refused, match="symbolic link"):
        write_folder(package(), tmp_path / "tidy", replace=True)
    with pytest.raises(Refused, match="symbolic link"):
        write_file(tmp_path / "file", b"x")
    with pytest.raises(Refused, match="symbolic link"):
        remove_path(tmp_path / "tidy", tmp_path)
    assert (tmp_path / "elsewhere/keep.md").read_text() == "k"
    assert leftovers(tmp_path) == []


def test_removing_does_not_follow_links(tmp_path):
    put(tmp_path / "elsewhere", {"keep.md": "k"})
    folder = put(tmp_path / "tidy", {"SKILL.md": SKILL})
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    remove_path(folder, tmp_path)
    assert not folder.exists()
    assert (tmp_path / "elsewhere/keep.md").read_text() == "k"


def test_a_folder_without_write_permission_is_removed_all_the_same(tmp_path):
    folder = put(tmp_path / "tidy", {"SKILL.md": SKILL, "a/b.md": "x"})
    (folder / "a").chmod(0o500)
    remove_path(folder, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_in_one_step_and_keeps_its_name(tmp_path):
    write_file(tmp_path / "a.json", b"1")
    write_file(tmp_path / "a.json", b"2")
    assert (tmp_path / "a.json").read_bytes() == b"2"
    assert leftovers(tmp_path) == []


def test_a_file_that_is_there_is_not_overwritten_when_that_is_not_wanted(tmp_path):
    write_file(tmp_path / "a.json", b"1", replace=False)
    with pytest.raises(Conflict, match="already exists"):
        write_file(tmp_path / "a.json", b"2", replace=False)
    assert (tmp_path / "a.json").read_bytes() == b"1"
    assert leftovers(tmp_path) == []


def test_a_store_that_is_opened_meanwhile_leaves_a_file_that_is_being_written_alone(tmp_path, monkeypatch):
    real = atomic_write._write

    def open_a_store_first(*args):
        DirectoryStore(tmp_path, scope="user", versions=MemoryVersions())
        return real(*args)

    monkeypatch.setattr(atomic_write, "_write", open_a_store_first)
    write_file(tmp_path / "a.md", b"1")
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]


def test_what_is_staged_and_not_placed_leaves_nothing(tmp_path):
    with stage_package(package(), tmp_path):
        assert len(leftovers(tmp_path)) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_replacement_that_fails_half_way_puts_the_old_back(tmp_path, monkeypatch):
    monkeypatch.setattr(rename, "exchange", lambda *_: False)
    write_folder(package(), tmp_path / "tidy", replace=False)
    put(tmp_path / "tidy", {".git/HEAD": "ref"})
    real = Path.rename

    def fail(self, target):
        if self.name == "new":
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(Unavailable, match="No space"):
        write_folder(package(a="2"), tmp_path / "tidy", replace=True)
    monkeypatch.undo()
    assert read_folder(tmp_path / "tidy") == package()
    assert (tmp_path / "tidy/.git/HEAD").read_text() == "ref"
    assert leftovers(tmp_path) == []


# Recovery


def killed_half_way(root: Path, journal: dict[str, str], old: dict[str, str | bytes]) -> Path:
    folder = root / f"{TEMP_PREFIX}dead"
    put(folder, {"journal.json": json.dumps(journal), "new/SKILL.md": "half"})
    put(folder / "old", old)
    return folder


def test_recovery_brings_back_what_was_about_to_be_replaced(tmp_path):
    killed_half_way(tmp_path, {"old": "tidy", "target": "tidy"}, {"SKILL.md": SKILL})
    assert recover_folder(tmp_path) == 1
    assert read_folder(tmp_path / "tidy").paths == ("SKILL.md",)
    assert (tmp_path / "tidy/SKILL.md").read_text() == SKILL
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("in_place", [True, False])
def test_recovery_brings_back_a_repository_that_was_on_its_way(tmp_path, in_place):
    dead = killed_half_way(tmp_path, {"old": "tidy", "target": "tidy"}, {"SKILL.md": SKILL})
    put(dead, {"new/.git/HEAD": "ref"})
    if in_place:
        (dead / "old").rename(tmp_path / "tidy")
    recover_folder(tmp_path)
    assert (tmp_path / "tidy/SKILL.md").read_text() == SKILL
    assert (tmp_path / "tidy/.git/HEAD").read_text() == "ref"
    assert leftovers(tmp_path) == []


def test_a_forged_journal_takes_nothing_from_behind_a_link_and_puts_nothing_there(tmp_path):
    root = put(tmp_path / "root", {"tidy/SKILL.md": SKILL})
    put(tmp_path / "elsewhere", {".git/HEAD": "ref"})
    (root / "link").symlink_to(tmp_path / "elsewhere")
    for number, old in enumerate(("tidy", "link")):
        folder = put(root / f"{TEMP_PREFIX}{number}", {"journal.json": json.dumps({"old": old, "target": old})})
        if old == "tidy":
            (folder / "new").symlink_to(tmp_path / "elsewhere")
        else:
            put(folder, {"new/node_modules/a": "x"})
    recover_folder(root)
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == [".git"]
    assert sorted(path.name for path in (root / "tidy").iterdir()) == ["SKILL.md"]
    assert leftovers(root) == []


def test_recovery_leaves_what_is_new_in_its_place(tmp_path):
    put(tmp_path / "tidy", {"SKILL.md": "new"})
    killed_half_way(tmp_path, {"old": "tidy.md", "target": "tidy"}, {"SKILL.md": SKILL})
    recover_folder(tmp_path)
    assert (tmp_path / "tidy/SKILL.md").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["tidy"]


@pytest.mark.parametrize("place", ["../escaped", "/tmp/escaped", "", "link/escaped"])
def test_a_forged_journal_brings_nothing_back_outside(tmp_path, place):
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)
    killed_half_way(root, {"old": place, "target": place}, {"SKILL.md": SKILL})
    recover_folder(root)
    assert not (tmp_path / "escaped").exists()
    assert leftovers(root) == []


def test_a_leftover_that_is_a_link_is_removed_and_not_followed(tmp_path):
    put(tmp_path / "elsewhere", {"keep.md": "k", "old": "x", "journal.json": '{"old": "y", "target": "y"}'})
    root = tmp_path / "root"
    root.mkdir()
    (root / f"{TEMP_PREFIX}link").symlink_to(tmp_path / "elsewhere")
    recover_folder(root)
    assert list(root.iterdir()) == []
    assert (tmp_path / "elsewhere/keep.md").exists()
    assert (tmp_path / "elsewhere/old").exists()


@pytest.mark.parametrize("write", ["folder", "file"])
def test_the_next_write_brings_back_what_a_killed_one_had_moved_away(tmp_path, write):
    killed_half_way(tmp_path, {"old": "tidy", "target": "tidy"}, {"SKILL.md": SKILL})
    if write == "folder":
        write_folder(package(), tmp_path / "other", replace=False)
    else:
        write_file(tmp_path / "other", b"x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "tidy"]
    assert (tmp_path / "tidy/SKILL.md").read_text() == SKILL


def test_what_comes_back_is_not_overwritten_unless_asked(tmp_path):
    killed_half_way(tmp_path, {"old": "tidy", "target": "tidy"}, {"SKILL.md": "mine"})
    with pytest.raises(Conflict):
        write_folder(package(), tmp_path / "tidy", replace=False)
    assert (tmp_path / "tidy/SKILL.md").read_text() == "mine"


def test_recovery_makes_the_category_again_that_the_old_came_from(tmp_path):
    killed_half_way(tmp_path, {"old": "category/tidy", "target": "category/tidy"}, {"SKILL.md": SKILL})
    recover_folder(tmp_path)
    assert (tmp_path / "category/tidy/SKILL.md").read_text() == SKILL
    assert leftovers(tmp_path) == []


def test_what_cannot_be_brought_back_is_kept_until_it_can(tmp_path):
    put(tmp_path, {"category": "a file that is in the way"})
    killed_half_way(tmp_path, {"old": "category/tidy", "target": "category/tidy"}, {"SKILL.md": SKILL})
    recover_folder(tmp_path)
    assert (tmp_path / f"{TEMP_PREFIX}dead/old/SKILL.md").read_text() == SKILL
    (tmp_path / "category").unlink()
    recover_folder(tmp_path)
    assert (tmp_path / "category/tidy/SKILL.md").read_text() == SKILL
    assert leftovers(tmp_path) == []


# One writer at a time

WRITER = """
import sys
from pathlib import Path
from prowess.skill.package import Package
from prowess.storage.files.atomic_write import write_folder
print("ready", flush=True)
write_folder(Package.of_texts("tidy", {"SKILL.md": "x"}), Path(sys.argv[1]), replace=True)
print("done", flush=True)
"""


def test_a_writer_waits_for_the_lock_on_the_folder(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path / "tidy")]
    lock = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "ready\n"
        assert list(tmp_path.iterdir()) == []
        os.close(lock)
        assert writer.stdout.readline() == "done\n"
    assert read_folder(tmp_path / "tidy").paths == ("SKILL.md",)


def test_a_holder_that_does_not_let_go_is_told_by_the_name_of_the_folder(tmp_path):
    with lock_folder(tmp_path):
        with pytest.raises(Unavailable, match="locked by another program") as caught, lock_folder(tmp_path, patience=0):
            raise AssertionError("two hold the lock")
        assert str(tmp_path) in caught.value.hint
    with lock_folder(tmp_path, patience=0):
        pass


def test_the_modes_of_written_files_follow_the_package_and_the_umask(tmp_path):
    whole = Package.of("t", [File(path="a", content=b""), File(path="b", content=b"", mode="0755")])
    before = os.umask(0o077)
    try:
        write_folder(whole, tmp_path / "t", replace=False)
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / "t" / name).stat().st_mode) for name in ("a", "b")] == [0o600, 0o700]
    assert read_folder(tmp_path / "t") == whole
