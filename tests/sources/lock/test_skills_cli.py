"""Prowess and the real skills CLI read what the other one installed, and compute the same hashes."""

from __future__ import annotations

import asyncio
import json
import os
import random
import string
from pathlib import Path

import pytest

from prowess.open import Prowess
from prowess.skill.filenames import is_ignored
from prowess.sources.lock.folder_hash import collation_key, hash_folder
from prowess.sources.lock.skills_lock import PROJECT, SkillsLock

SKILL = "---\nname: {name}\ndescription: Reads {name} files, all of them.\n---\n\n# {name}\n\nRead.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a project, and beside it a folder with two skills."""
    for name in ("pdf", "doc"):
        folder = tmp_path / "source/skills" / name
        (folder / "scripts").mkdir(parents=True)
        (folder / "SKILL.md").write_text(SKILL.format(name=name))
        (folder / "scripts/Run-it.sh").write_text("echo\n")
        (folder / "scripts/run_a.sh").write_text("echo a\n")
    (tmp_path / "project/.claude").mkdir(parents=True)
    return tmp_path / "project"


@pytest.fixture
def skills(skills_cli, project, home):
    """Run the real CLI in the project."""

    def run(*args: str) -> str:
        ran = skills_cli("run_skills.mjs", {"args": args, "cwd": str(project), "env": {"HOME": str(home)}})
        assert ran["code"] == 0, ran["err"] + ran["out"]
        return ran["out"]

    return run


def with_engine(project: Path, work):
    async def run():
        async with Prowess.open(workspace=project) as prowess:
            return await work(prowess)

    return asyncio.run(run())


async def add_all(prowess: Prowess, agents: tuple[str, ...] = ("universal", "claude-code")):
    plan = await prowess.installs.plan("../source", agents=agents)
    return await prowess.installs.install(plan, proof="a test")


@pytest.mark.long
def test_hashes_and_orders_are_those_of_the_cli(skills_cli, tmp_path):
    chooser = random.Random(7)
    folders = []
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        for _ in range(chooser.randint(1, 15)):
            alphabet = string.ascii_letters + string.digits + "-_.()+@, "
            words = ["x" + "".join(chooser.choices(alphabet, k=chooser.randint(0, 6))) + "x" for _ in range(2)]
            path = folder / Path(*words[: chooser.randint(1, 2)])
            if not path.exists() and not path.parent.is_file():
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(chooser.randbytes(8))
        (folder / "metadata.json").write_text("{}")
        (folder / "node_modules").mkdir()
        (folder / "node_modules/x").write_text("x")
        folders.append(folder)
    ascii_names = ["".join(chooser.choices(string.printable[:95], k=chooser.randint(1, 6))) for _ in range(1_500)]
    parts = [
        "ä",
        "Ä",
        "é",
        "e",
        "ñ",
        "n",
        "ß",
        "ss",
        "ø",
        "o",
        "œ",
        "æ",
        "ł",
        "İ",
        "ı",
        "я",
        "Б",
        "б",
        "α",
        "Ω",
        "日本",
        "文",
        "あ",
        "ア",
        "한",
        "ไ",
        "א",
        "ب",
        "①",
        "½",
        "😀",
        "–",
        "“",
        "…",
        "€",
        "№",
    ]
    others = ["".join(chooser.choices([*parts, "a", "Z", "-", "."], k=chooser.randint(1, 3))) for _ in range(800)]
    found = skills_cli("folder_hashes.mjs", {"folders": [str(one) for one in folders], "lists": [ascii_names, others]})
    assert [hash_folder(folder) for folder in folders] == found["hashes"]
    assert sorted(ascii_names, key=collation_key) == found["sorted"][0]
    # Outside ASCII the order is close, not exact; a pair in a thousand may be swapped.
    pairs = list(zip(found["sorted"][1], found["sorted"][1][1:], strict=False))
    assert sum(collation_key(one) > collation_key(other) for one, other in pairs) <= len(pairs) // 100


def test_what_the_cli_installed_is_known_verified_updated_and_removed(skills, project):
    skills("add", "../source", "--skill", "*", "-y", "--agent", "claude-code", "cursor")
    text = (project / "skills-lock.json").read_text()
    assert SkillsLock.read(project / "skills-lock.json", PROJECT).text() == text

    async def look(prowess: Prowess):
        return await prowess.installs.list(), await prowess.installs.verify(), await prowess.installs.outdated()

    known, verified, status = with_engine(project, look)
    assert {skill.name for skill in known} == {"pdf", "doc"}
    assert all("claude-code" in skill.agents and skill.mode == "symlink" for skill in known)
    assert all(one.ok for one in verified)
    assert {one.status for one in status} == {"current"}
    (project.parent / "source/skills/pdf/SKILL.md").write_text(SKILL.format(name="pdf") + "More.\n")

    async def update(prowess: Prowess):
        plan = await prowess.installs.plan_update()
        await prowess.installs.install(plan, proof="a test")
        return plan

    plan = with_engine(project, update)
    assert "+More." in next(skill for skill in plan.skills if skill.new.name == "pdf").diff
    assert "More." in (project / ".claude/skills/pdf/SKILL.md").read_text()
    assert all(not one.differences for one in with_engine(project, lambda prowess: prowess.installs.verify()))
    with_engine(project, lambda prowess: prowess.installs.remove(["pdf", "doc"]))
    assert not any(path.name in ("pdf", "doc") for path in project.rglob("*"))
    assert json.loads((project / "skills-lock.json").read_text()) == {"version": 1, "skills": {}}


def test_a_file_changed_after_the_cli_installed_it_is_found(skills, project):
    skills("add", "../source", "--skill", "pdf", "-y", "--agent", "cursor")
    (project / ".agents/skills/pdf/SKILL.md").write_text("other")
    [one] = with_engine(project, lambda prowess: prowess.installs.verify(["pdf"]))
    assert (one.ok, one.differences[0].kind) == (False, "changed")


def test_both_write_the_same_files_links_and_lock(skills, project, tmp_path):
    def snapshot() -> dict[str, str]:
        found = {}
        for path in sorted(project.rglob("*")):
            name = str(path.relative_to(project))
            if not is_ignored(path.name) and not name.startswith((".prowess", "prowess.lock")) and not path.is_dir():
                found[name] = path.read_text()
            elif path.is_symlink():
                found[name] = os.readlink(path)
        return found

    with_engine(project, add_all)
    ours = snapshot()
    with_engine(project, lambda prowess: prowess.installs.remove(["pdf", "doc"]))
    assert snapshot() == {}
    skills("add", "../source", "--skill", "*", "-y", "--agent", "claude-code", "cursor")
    assert snapshot() == ours


def test_the_cli_lists_and_removes_what_prowess_installed(skills, project):
    with_engine(project, add_all)
    listed = skills("list", "--json")
    assert {one["name"] for one in json.loads(listed)} == {"pdf", "doc"}
    skills("remove", "pdf", "-y")
    assert not (project / ".agents/skills/pdf").exists()
    # The CLI leaves its own lock as it is; here the skill counts as missing, and can be removed or restored.
    found = with_engine(project, lambda prowess: prowess.installs.verify(["pdf"]))
    assert {each.kind for each in found[0].differences} == {"missing"}
    with_engine(project, lambda prowess: prowess.installs.remove(["pdf"]))
    assert [skill.name for skill in with_engine(project, lambda prowess: prowess.installs.list())] == ["doc"]
