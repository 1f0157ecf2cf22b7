"""Folders, files and archives on this machine are sources like any other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from prowess.errors import DuplicateSkill, NotFound
from prowess.net.scripted import ScriptedHttpClient
from prowess.skill.archive import write_archive
from prowess.skill.package import Package
from prowess.sources.fetch import fetch
from prowess.sources.fetch_context import FetchContext
from prowess.sources.fetched import Fetched, SourceState
from prowess.sources.reference import parse_source

from .repositories import skill


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def run(place: Path, name: str = "", last: SourceState | None = None, *, every_markdown: bool = False) -> Fetched:
    context = FetchContext(client=ScriptedHttpClient([]), cache=place.parent / "cache", every_markdown=every_markdown)
    return asyncio.run(fetch(parse_source(str(place)).at(skill=name), context, last))


def test_the_skills_of_a_folder_are_read(tmp_path: Path) -> None:
    write(
        tmp_path / "repo", {"skills/a/SKILL.md": skill("a"), "skills/a/x/y.txt": "y", "skills/b/SKILL.md": skill("b")}
    )
    fetched = run(tmp_path / "repo")
    assert [(each.path, each.package.paths) for each in fetched.skills] == [
        ("skills/a", ("SKILL.md", "x/y.txt")),
        ("skills/b", ("SKILL.md",)),
    ]


def test_an_unchanged_folder_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "repo", {"a/SKILL.md": skill("a")})
    first = run(tmp_path / "repo")
    assert run(tmp_path / "repo", last=first.state).unchanged
    write(tmp_path / "repo", {"a/SKILL.md": skill("a", "new")})
    assert not run(tmp_path / "repo", last=first.state).unchanged


def test_links_make_only_their_own_skill_unreadable(tmp_path: Path) -> None:
    write(tmp_path / "repo", {"a/SKILL.md": skill("a"), "b/SKILL.md": skill("b")})
    (tmp_path / "repo/b/secret").symlink_to("/etc/passwd")
    fetched = run(tmp_path / "repo")
    assert [each.path for each in fetched.skills] == ["a"]
    assert [each.path for each in fetched.unreadable] == ["b"]


def test_an_archive_is_a_source(tmp_path: Path) -> None:
    package = Package.of_texts("pdf", {"SKILL.md": skill("pdf")})
    (tmp_path / "pdf.zip").write_bytes(write_archive(package, "zip"))
    fetched = run(tmp_path / "pdf.zip")
    assert [each.package.digest for each in fetched.skills] == [package.digest]


def test_a_single_file_is_a_source(tmp_path: Path) -> None:
    write(tmp_path, {"notes.md": skill("notes")})
    assert [each.package.paths for each in run(tmp_path / "notes.md").skills] == [("notes.md",)]


def test_every_markdown_file_can_be_a_skill(tmp_path: Path) -> None:
    write(tmp_path / "repo", {"a.md": skill("a"), "b/SKILL.md": skill("b"), "README.md": "# x"})
    assert [each.path for each in run(tmp_path / "repo", every_markdown=True).skills] == ["b", "a.md"]


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_a_place_without_skills_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match=name):
        run(tmp_path / name)


def test_copies_count_once_and_different_skills_of_one_name_are_shown(tmp_path: Path) -> None:
    files = {"skills/a/SKILL.md": skill("a"), ".claude/skills/a/SKILL.md": skill("a")}
    write(tmp_path / "repo", {**files, ".agents/skills/other/SKILL.md": skill("a", "different")})
    fetched = run(tmp_path / "repo")
    assert [each.path for each in fetched.skills] == ["skills/a"]
    (clash,) = fetched.unreadable
    assert isinstance(clash.error, DuplicateSkill)
    assert "'skills/a'" in clash.error.message
    assert "'.agents/skills/other'" in clash.error.message


def test_an_internal_skill_is_only_read_by_its_name(tmp_path: Path) -> None:
    internal = "---\nname: hidden\ndescription: For us.\nmetadata:\n  internal: true\n---\nText.\n"
    write(tmp_path / "repo", {"a/SKILL.md": skill("a"), "b/SKILL.md": internal})
    assert [each.path for each in run(tmp_path / "repo").skills] == ["a"]
    assert [each.path for each in run(tmp_path / "repo", "hidden").skills] == ["b"]
