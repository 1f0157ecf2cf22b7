"""What is remembered of a skill folder from one process to the next: only what holds, and nothing depends on it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from prowess.catalog.directory_store import DirectoryStore
from prowess.catalog.version_log import MemoryVersions
from prowess.skill import reader_version
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.storage.files import safe_read

Opener = Callable[..., DirectoryStore]


def skill_md(name: str, body: str = "Do it.") -> str:
    return f"---\nname: {name}\ndescription: What {name} is for.\nmetadata:\n  tags: a, b\n---\n\n# {name}\n\n{body}\n"


def settled(*_: object) -> bool:
    return True


def unsettled(*_: object) -> bool:
    return False


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with two skills, one of them in a category, and a single file that is one."""
    folder = tmp_path / "skills"
    (folder / "tidy" / "references").mkdir(parents=True)
    (folder / "tidy" / "SKILL.md").write_text(skill_md("tidy"))
    (folder / "tidy" / "references" / "guide.md").write_text("Guide.\n")
    (folder / "work" / "plan").mkdir(parents=True)
    (folder / "work" / "plan" / "SKILL.md").write_text(skill_md("plan"))
    (folder / "brief.md").write_text("---\nslug: brief\nname: Brief\ndescription: Briefs.\n---\nDo.\n")
    (folder / "notes.md").write_text("Just notes.\n")
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "home" / "cache"


@pytest.fixture
def opened(root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Opener:
    """Open the folder as another process would, with files that look as if they had been written long ago."""
    monkeypatch.setattr(safe_read, "is_settled", settled)
    # A new process has no kinds of plugins, which other tests add here.
    monkeypatch.setattr(reader_version, "_extensions", set())

    def make(limits: Limits = DEFAULT_LIMITS) -> DirectoryStore:
        return DirectoryStore(root, scope="workspace", versions=MemoryVersions(), limits=limits, cache=cache)

    return make


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The skills whose files are read, by the name of the folder or file, from now on."""
    names: list[str] = []
    real = safe_read.Reading.snapshot

    def watch(self: safe_read.Reading, name: str) -> safe_read.Snapshot:
        names.append(name)
        return real(self, name)

    monkeypatch.setattr(safe_read.Reading, "snapshot", watch)
    return names


def cache_file(cache: Path) -> Path:
    (found,) = cache.glob("*.json")
    return found


def test_the_next_process_lists_the_same_skills_without_reading_any(opened: Opener, read: list[str]) -> None:
    before = opened().list_skills()
    assert sorted(read) == ["brief", "notes", "plan", "tidy"]
    read.clear()

    assert opened().list_skills() == before
    assert read == []


def test_skills_and_artifacts_have_the_same_ids(opened: Opener) -> None:
    before = opened().get_skill_by_name("tidy")
    assert before is not None

    after = opened()

    assert after.get_skill_by_name("tidy") == before
    assert opened().get_skill(before.id) == before
    assert opened().get_artifact(before.artifacts[1].id) == before.artifacts[1]


def test_only_what_changed_is_read_again(opened: Opener, root: Path, read: list[str]) -> None:
    opened().list_skills()
    (root / "tidy" / "SKILL.md").write_text(skill_md("tidy", "Other words."))
    (root / "fresh").mkdir()
    (root / "fresh" / "SKILL.md").write_text(skill_md("fresh"))
    shutil.rmtree(root / "work")
    read.clear()

    assert [card.slug for card in opened().list_skills()] == ["brief", "fresh", "tidy"]
    assert sorted(read) == ["fresh", "tidy"]
    read.clear()
    assert [card.slug for card in opened().list_skills()] == ["brief", "fresh", "tidy"]
    assert read == []


def test_a_file_that_was_just_written_is_read_again(
    opened: Opener, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safe_read, "is_settled", unsettled)
    opened().list_skills()
    read.clear()

    opened().list_skills()

    assert sorted(read) == ["brief", "notes", "plan", "tidy"]


def test_a_broken_skill_is_reported_by_every_process(opened: Opener, root: Path) -> None:
    (root / "tidy" / "SKILL.md").write_text("---\nname: tidy\ndescription: d\n---\nHi\u202e\n")

    for _ in range(2):
        store = opened()
        assert [card.slug for card in store.list_skills()] == ["brief", "plan"]
        assert [fault.problems[0].code for fault in store.faults()] == ["hidden-text"]


def test_another_reader_or_other_limits_read_everything_again(
    opened: Opener, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened().list_skills()
    read.clear()

    opened(Limits(files=7)).list_skills()
    assert len(read) == 4
    read.clear()
    monkeypatch.setattr(reader_version, "_extensions", {"acme.sql-query"})
    opened().list_skills()
    assert len(read) == 4


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff",
        b"{}",
        b"[]",
        b"[[], []]",
        b"7",
        b"[" * 100_000,
    ],
)
def test_a_damaged_cache_is_replaced(opened: Opener, cache: Path, read: list[str], content: bytes) -> None:
    before = opened().list_skills()
    cache_file(cache).write_bytes(content)
    read.clear()

    assert opened().list_skills() == before
    assert len(read) == 4
    read.clear()
    assert opened().list_skills() == before
    assert read == []


@pytest.mark.parametrize("row", [[], [1], None, "x", [*range(8)], [*["x"] * 7, [1]]])
def test_a_row_that_makes_no_sense_is_ignored_with_the_rest(opened: Opener, cache: Path, row: object) -> None:
    before = opened().list_skills()
    key, rows = json.loads(cache_file(cache).read_bytes())
    cache_file(cache).write_text(json.dumps([key, [row, *rows]]))

    assert opened().list_skills() == before


def test_a_cache_that_cannot_be_written_is_no_error(opened: Opener, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file where the folder should be")

    assert len(opened().list_skills()) == 3


def test_the_cache_holds_no_text_of_a_skill(opened: Opener, cache: Path) -> None:
    opened().list_skills()

    assert "Do it." not in cache_file(cache).read_text()


LIST = """
import sys
from pathlib import Path
from prowess.catalog.directory_store import DirectoryStore
from prowess.catalog.version_log import MemoryVersions
store = DirectoryStore(Path(sys.argv[1]), scope="workspace", versions=MemoryVersions(), cache=Path(sys.argv[2]))
print([card.slug for card in store.list_skills()])
print([name for name in ("yaml", "sqlalchemy", "prowess.skill.forms.conversion") if name in sys.modules])
"""


def test_listing_from_the_cache_imports_no_reader(opened: Opener, root: Path, cache: Path) -> None:
    opened().list_skills()

    command = [sys.executable, "-c", LIST, str(root), str(cache)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)

    assert ran.stdout.splitlines() == ["['brief', 'plan', 'tidy']", "[]"]
