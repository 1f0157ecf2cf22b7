"""A large folder of skills is not looked at again while the kernel gives no notice of a change."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from prowess.catalog import folder_tree
from prowess.catalog.folder_tree import FULL_SCAN_SECONDS, SETTLED_PROCESS_SECONDS, FolderTree
from prowess.skill.limits import DEFAULT_LIMITS
from prowess.storage.files import folder_notices, safe_read
from prowess.storage.files.freshness import Stamp

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is a part of Linux")


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def always_settled(_stamp: Stamp, _read_at: int) -> bool:
    return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    # Files that were just written count as settled, and every scan as slow: a test cannot wait, nor write thousands.
    monkeypatch.setattr(folder_tree, "SLOW_SCAN_SECONDS", 0.0)
    monkeypatch.setattr(folder_tree, "is_settled", always_settled)
    monkeypatch.setattr(safe_read, "is_settled", always_settled)
    monkeypatch.setattr(folder_notices, "_LOCAL_TYPES", _EveryType())
    return Clock()


class _EveryType(frozenset[str]):
    """All file systems: notices of changes by this machine work on those that tests run on."""

    def __contains__(self, _: object) -> bool:
        return True


def write_skill(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: Reads {text}.\n---\n\nDo it.\n", "utf-8")


def make_tree(root: Path, clock: Clock) -> FolderTree:
    return FolderTree(root, "workspace", DEFAULT_LIMITS, clock=clock)


def watched_tree(root: Path, clock: Clock) -> FolderTree:
    """Return a tree of a process that has been scanning for a while."""
    tree = make_tree(root, clock)
    tree.refresh()
    clock.now += SETTLED_PROCESS_SECONDS
    # The first scan starts the notices, the second one is sure that none is missing.
    tree.refresh()
    tree.refresh()
    return tree


def digests(tree: FolderTree) -> dict[str, str]:
    tree.refresh()
    return {location: skill.digest for location, skill in tree.index.disk_skills.items()}


def fail(path: object) -> os.stat_result:
    raise AssertionError(f"{path} was looked at")


def test_a_scan_looks_at_no_file_while_nothing_has_changed(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "one", "letters")
    tree = watched_tree(tmp_path, clock)
    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", fail)
        tree.refresh()
    write_skill(tmp_path / "one", "more letters")
    assert digests(tree) == digests(make_tree(tmp_path, clock))


def test_every_file_is_looked_at_from_time_to_time_all_the_same(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "one", "letters")
    tree = watched_tree(tmp_path, clock)
    clock.now += FULL_SCAN_SECONDS
    monkeypatch.setattr(os, "lstat", fail)
    with pytest.raises(AssertionError, match="was looked at"):
        tree.refresh()


def test_a_short_process_asks_for_no_notices(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    write_skill(tmp_path / "one", "letters")
    tree = make_tree(tmp_path, clock)
    tree.refresh()
    tree.refresh()
    monkeypatch.setattr(os, "lstat", fail)
    with pytest.raises(AssertionError, match="was looked at"):
        tree.refresh()


def test_a_file_system_that_others_can_change_is_looked_at_each_time(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "one", "letters")
    monkeypatch.setattr(folder_notices, "_LOCAL_TYPES", frozenset[str]())
    tree = watched_tree(tmp_path, clock)
    monkeypatch.setattr(os, "lstat", fail)
    with pytest.raises(AssertionError, match="was looked at"):
        tree.refresh()


def replace_root(root: Path) -> None:
    root.rename(root.with_name("before"))
    shutil.copytree(root.with_name("before"), root)
    write_skill(root / "one", "a new root")


def replace_folder(root: Path) -> None:
    shutil.rmtree(root / "one")
    write_skill(root / "one", "a folder in its place")
    (root / "one" / "notes.md").write_text("A note.", "utf-8")


def move_category(root: Path) -> None:
    (root / "group").rename(root / "other")
    write_skill(root / "group" / "two", "a folder where one was")


CHANGES: list[Callable[[Path], object]] = [
    replace_root,
    replace_folder,
    move_category,
    lambda root: (root / "one" / "SKILL.md").write_text("---\nname: one\ndescription: New.\n---\nDo.\n"),
    lambda root: (root / "group" / "two" / "scripts" / "run.py").write_text("print(1, 2)\n"),
    lambda root: (root / "group" / "two" / "scripts" / "run.py").chmod(0o755),
    lambda root: (root / "group" / "two" / "scripts").rename(root / "group" / "two" / "code"),
    lambda root: shutil.rmtree(root / "group"),
    lambda root: (root / "one" / "SKILL.md").unlink(),
    lambda root: write_skill(root / "group" / "three", "something new"),
    lambda root: (root / "SINGLE.skill.md").write_text("---\nname: single\ndescription: One file.\n---\nDo.\n"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_any_kind_is_seen_by_the_next_scan_and_so_is_one_after_it(
    tmp_path: Path, clock: Clock, change: Callable[[Path], object]
) -> None:
    root = tmp_path / "skills"
    write_skill(root / "one", "letters")
    write_skill(root / "group" / "two", "numbers")
    (root / "group" / "two" / "scripts").mkdir()
    (root / "group" / "two" / "scripts" / "run.py").write_text("print(1)\n", "utf-8")
    tree = watched_tree(root, clock)
    change(root)
    assert digests(tree) == digests(make_tree(root, clock))
    for place in sorted(root.rglob("SKILL.md")):
        write_skill(place.parent, f"the second change of {place.parent.name}")
        assert digests(tree) == digests(make_tree(root, clock))


@pytest.mark.parametrize("seed", range(3))
def test_a_tree_with_notices_always_has_what_a_new_one_finds(tmp_path: Path, clock: Clock, seed: int) -> None:
    chance = random.Random(seed)
    root = tmp_path / "skills"
    for number in range(4):
        write_skill(root / f"skill-{number}", "letters")
    tree = watched_tree(root, clock)
    for step in range(30):
        folder = root / chance.choice(["", "group", "group/inner"]) / f"skill-{chance.randrange(4)}"
        match chance.choice(["write", "write", "remove", "move", "add"]):
            case "write":
                write_skill(folder, "letters" * (step + 1))
            case "remove":
                shutil.rmtree(folder, ignore_errors=True)
            case "move" if folder.exists():
                folder.rename(folder.with_name(f"moved-{step}"))
            case _:
                (folder / "assets").mkdir(parents=True, exist_ok=True)
                (folder / "assets" / f"{step}.txt").write_text("x" * step, "utf-8")
        clock.now += chance.choice([0.0, 0.0, 1.0])
        for _ in range(chance.randrange(3)):
            tree.refresh()
        assert digests(tree) == digests(make_tree(root, clock))


def test_notices_of_a_process_that_was_forked_off_are_left_to_its_parent(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "one", "letters")
    tree = watched_tree(tmp_path, clock)
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: -1)
        patched.setattr(os, "lstat", fail)
        with pytest.raises(AssertionError, match="was looked at"):
            tree.refresh()
