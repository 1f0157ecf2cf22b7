"""What the next match reads after something has changed in a folder of skills."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from prowess.engine.matcher import open_matcher, snapshot_folder
from prowess.settings import Settings, read_settings
from prowess.storage.files import freshness

COUNT = 12
HOUR = 3_600_000_000_000

_opened: list[str] | None = None


def _note_opened(event: str, arguments: tuple[object, ...]) -> None:
    if _opened is not None and event == "open" and str(arguments[0]).endswith(".md"):
        _opened.append(str(arguments[0]))


@cache
def _listen() -> None:
    """Hear of every file that is opened, from now on: a hook cannot be taken away, and slows what comes after it."""
    sys.addaudithook(_note_opened)


def write(root: Path, name: str, description: str = "", slug: str = "") -> Path:
    file = root / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    slug = slug or Path(name).name
    file.write_text(f"---\nname: {slug}\ndescription: {description or f'What {slug} is for.'}\n---\n\nDo it.\n")
    return file


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour later by the clock, so that what was written just now is settled."""
    now = time.time_ns
    monkeypatch.setattr(freshness.time, "time_ns", lambda: now() + HOUR)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with skills, one of them in a category, one hidden by another of its name, and one a single file."""
    root = tmp_path / "work" / ".agents" / "skills"
    for number in range(COUNT):
        write(root, f"skill-{number}")
    write(root, "tools/hammer")
    write(root, "zebra", slug="skill-3")
    (root / "alone.md").write_text("---\nname: alone\ndescription: A skill of a single file.\n---\n\nDo it.\n")
    return root


@pytest.fixture
def settings(root: Path) -> Settings:
    settings = read_settings(workspace=root.parents[1])
    matched(settings)
    return settings


def matched(settings: Settings) -> dict[str, tuple[str, str]]:
    """The skills that a new process finds, with their digests."""
    with open_matcher(settings=settings) as matcher:
        return matcher.index().known()


def rebuilt(settings: Settings) -> dict[str, tuple[str, str]]:
    shutil.rmtree(snapshot_folder(settings))
    return matched(settings)


def reads(settings: Settings) -> int:
    """How often a new process reads a skill's file to find its skills."""
    global _opened  # noqa: PLW0603
    _listen()
    _opened = []
    try:
        matched(settings)
        return len(_opened)
    finally:
        _opened = None


CHANGES: dict[str, Callable[[Path], object]] = {
    "edited": lambda root: write(root, "skill-1", "Something else."),
    "edited in a category": lambda root: write(root, "tools/hammer", "Something else."),
    "added": lambda root: write(root, "skill-new"),
    "given another file": lambda root: (root / "skill-2" / "guide.md").write_text("How to."),
    "given a folder": lambda root: write(root / "skill-2", "references", "Not a skill."),
    "a single file that is edited": lambda root: (root / "alone.md").write_text(
        "---\nname: alone\ndescription: Something else.\n---\n\nDo it.\n"
    ),
}
OTHER_CHANGES: dict[str, Callable[[Path], object]] = {
    "removed": lambda root: shutil.rmtree(root / "skill-1"),
    "removed, so that another of its name is served": lambda root: shutil.rmtree(root / "skill-3"),
    "edited, and hidden by another": lambda root: write(root, "zebra", "Something else.", slug="skill-3"),
    "renamed": lambda root: write(root, "skill-1", slug="skill-one"),
    "given the name of another": lambda root: write(root, "skill-1", slug="skill-2"),
    "added with the name of another": lambda root: write(root, "a-new-folder", slug="skill-2"),
    "added twice": lambda root: [write(root, name, slug="twin") for name in ("one", "two")],
    "broken": lambda root: write(root, "skill-1", '"').write_text("---\nname: [\n---\n"),
    "added and broken": lambda root: write(root, "skill-new").write_text("no skill"),
    "moved": lambda root: (root / "skill-1").rename(root / "skill-moved"),
    "added in a category": lambda root: write(root, "tools/saw"),
    "added in a new category": lambda root: write(root, "more/saw"),
    "a category that becomes a skill": lambda root: write(root, "tools", "Tools."),
    "a link": lambda root: (root / "link").symlink_to(root / "skill-1"),
    "a new single file": lambda root: (root / "new.md").write_text(
        "---\nname: new\ndescription: New.\n---\n\nDo it.\n"
    ),
    "a file that is no skill": lambda root: (root / "README.txt").write_text("Skills."),
    "nothing left": lambda root: [shutil.rmtree(inner) for inner in root.iterdir() if inner.is_dir()],
}


@pytest.mark.few(12)
@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("change", [*CHANGES.values(), *OTHER_CHANGES.values()], ids=[*CHANGES, *OTHER_CHANGES])
def test_after_any_change_the_skills_are_those_of_an_index_built_anew(
    settings: Settings, root: Path, change: Callable[[Path], object]
) -> None:
    change(root)
    assert matched(settings) == rebuilt(settings)


@pytest.mark.usefixtures("clock")
def test_after_many_changes_one_by_one_the_skills_are_those_of_an_index_built_anew(
    settings: Settings, root: Path
) -> None:
    for number, change in enumerate([*CHANGES.values()] * 3):
        change(root)
        write(root, f"new-{number}")
        matched(settings)
    assert matched(settings) == rebuilt(settings)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_or_new_skill_is_the_only_one_that_is_read(
    settings: Settings, root: Path, change: Callable[[Path], object]
) -> None:
    assert reads(settings) == 0
    shutil.rmtree(settings.home / "cache" / "folders", ignore_errors=True)
    change(root)
    assert reads(settings) <= 2
    assert reads(settings) == 0


@pytest.mark.usefixtures("clock")
def test_after_a_skill_was_removed_or_moved_no_other_is_read(settings: Settings, root: Path) -> None:
    shutil.rmtree(root / "zebra")
    matched(settings)
    shutil.rmtree(root / "skill-1")
    assert reads(settings) == 0
    (root / "skill-2").rename(root / "skill-moved")
    assert reads(settings) <= 2
    assert matched(settings) == rebuilt(settings)


def test_a_skill_that_may_still_be_changing_is_read_again(settings: Settings, root: Path) -> None:
    file = write(root, "skill-1", "First this.")
    before = os.stat(file)
    matched(settings)
    file.write_text(file.read_text().replace("First this.", "Then that."))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert matched(settings) == rebuilt(settings)


@pytest.mark.usefixtures("clock")
def test_many_changes_are_read_as_well(settings: Settings, root: Path) -> None:
    for number in range(300):
        write(root, f"more-{number}")
    assert len(matched(settings)) == COUNT + 2 + 300
