"""What code of skills may not leave in folders of people: skills, and what tools find under hidden names."""

from __future__ import annotations

from pathlib import Path

import pytest

from prowess.catalog.discovery import PLAIN_NAMES, project_folders
from prowess.errors import Refused
from prowess.sandbox import safe_files
from prowess.sandbox.commands.write_guard import WriteGuard
from prowess.sandbox.roots import Root, SkillFolders, is_hidden


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def root(data: Path) -> Root:
    return Root(name="data", path=data, writable=True)


def write(root: Root, path: str, own: Path) -> None:
    SkillFolders([root], own=own).to_write(path).write(b"x")


@pytest.mark.parametrize(
    "path",
    [
        *(f"data/{folder}/report/execute.py" for folder in project_folders()),
        "data/.git/hooks/pre-commit",
        "data/.envrc",
        "data/a/.b/c",
        "data/SKILL.md",
        "data/deep/er/skill.JSON",
        "data/Skills/a.yaml",
        "data/AGENTS.md",
        "data/deep/Claude.local.md",
    ],
)
def test_what_would_be_read_as_a_skill_or_followed_or_is_hidden_is_not_written(root, data, tmp_path, path):
    with pytest.raises(Refused, match="may not be written"):
        write(root, path, tmp_path)
    assert list(data.iterdir()) == []


def test_every_folder_that_discovery_looks_into_is_hidden_or_called_skills():
    for folder in project_folders():
        names = folder.split("/")
        assert is_hidden(names) or (folder in PLAIN_NAMES and names[-1] == "skills")


@pytest.mark.parametrize(("name", "path"), [("skills", "skills"), ("data/skills/x", "elsewhere"), ("linked", "skills")])
def test_nothing_is_written_to_a_folder_of_skills_whatever_it_is_called(tmp_path, name, path):
    folder = tmp_path.resolve() / path
    folder.mkdir()
    with pytest.raises(Refused, match="become part of a skill"):
        write(Root(name=name, path=folder, writable=True), f"{name}/lone.yaml", tmp_path)


def test_other_names_are_written_and_the_runs_own_folder_takes_any(root, data, tmp_path):
    own = tmp_path.resolve() / "own"
    own.mkdir()
    write(root, "data/my-skills.md", own)
    write(root, "own/.hidden/skills/SKILL.md", own)
    assert [path.name for path in data.iterdir()] == ["my-skills.md"]


def test_what_is_hidden_in_a_root_is_not_read_unless_the_root_is_hidden_itself(data, tmp_path):
    (data / ".git").mkdir()
    (data / ".git" / "config").write_text("secret")
    with pytest.raises(Refused, match="hidden"):
        SkillFolders([Root(name="data", path=data)], own=tmp_path).to_read("data/.git/config")
    named = SkillFolders([Root(name="data/.git", path=data / ".git")], own=tmp_path)
    assert named.to_read("data/.git/config").read() == b"secret"


def test_what_a_program_plants_is_removed_and_named(root, data):
    (data / ".gitkeep").touch()
    weeding = WriteGuard([root])
    (data / ".agents" / "skills" / "report").mkdir(parents=True)
    (data / ".agents" / "skills" / "report" / "SKILL.md").write_text("x")
    (data / "skills").symlink_to("/")
    (data / "sub").mkdir()
    (data / "sub" / "skill.json").write_text("{}")
    (data / "sub" / "GEMINI.md").write_text("x")
    (data / "good.txt").write_text("kept")
    assert weeding.clear() == ["data/.agents", "data/skills", "data/sub/GEMINI.md", "data/sub/skill.json"]
    assert sorted(str(path.relative_to(data)) for path in data.rglob("*")) == [".gitkeep", "good.txt", "sub"]


def test_a_folder_whose_permissions_are_taken_away_hides_nothing(root, data):
    weeding = WriteGuard([root])
    (data / "sub" / "skills").mkdir(parents=True)
    (data / "sub").chmod(0o311)
    assert weeding.clear() == ["data/sub/skills"]


def test_a_hidden_file_that_was_changed_is_put_aside(root, data):
    (data / ".envrc").write_text("mine")
    weeding = WriteGuard([root])
    (data / ".envrc").unlink()
    (data / ".envrc").write_text("theirs")
    assert weeding.clear() == ["data/.envrc"]
    assert [(path.name, path.read_text()) for path in data.iterdir()] == [("envrc.refused", "theirs")]


@pytest.mark.parametrize("inside", [".git", "skills", "sub/.venv"])
def test_no_program_writes_where_a_hidden_folder_or_skills_are(root, data, inside):
    (data / inside).mkdir(parents=True)
    with pytest.raises(Refused, match="may not write to 'data'"):
        WriteGuard([root])


def test_a_root_that_is_only_read_is_left_alone(data):
    weeding = WriteGuard([Root(name="data", path=data)])
    (data / ".hidden").touch()
    assert weeding.clear() == []


def test_what_is_planted_deep_and_without_permissions_is_removed_too(root, data):
    weeding = WriteGuard([root])
    deep = data / ".a" / "/".join(["d"] * 300)
    deep.mkdir(parents=True)
    (data / ".a" / "d" / "d").chmod(0)
    assert weeding.clear() == ["data/.a"]
    assert list(data.iterdir()) == []


def test_nothing_is_removed_over_a_link_that_takes_the_place_of_a_folder_meanwhile(root, data, tmp_path, monkeypatch):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".ssh").mkdir()
    weeding = WriteGuard([root])
    (data / "sub" / ".ssh").mkdir(parents=True)
    top = safe_files.open_root

    def exchanged(path: str):
        (data / "sub").rename(data / "moved")
        (data / "sub").symlink_to(outside)
        return top(path)

    monkeypatch.setattr(safe_files, "open_root", exchanged)
    assert weeding.clear() == ["data/sub/.ssh"]
    assert (outside / ".ssh").is_dir()
