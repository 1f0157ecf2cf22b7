"""Skills in agents' folders: placed once, linked or copied, recorded in both lock files, and removed without a trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from prowess.catalog.discovery import AGENTS
from prowess.errors import Conflict, Invalid, NotFound, Refused, Unavailable
from prowess.skill.package import Package
from prowess.sources import install, installation
from prowess.sources.agents import detect_agents, parse_agents, user_skills_folder
from prowess.sources.install import Base, is_left_out
from prowess.sources.installation import Installation
from prowess.sources.installed import NewSkill
from prowess.sources.lock.folder_hash import hash_package
from prowess.sources.lock.prowess_lock import InstallMode, Pin, ProwessLock
from prowess.sources.lock.skills_lock import PROJECT, SkillsLock, locked_source
from prowess.sources.verification import verify


def make(
    name: str = "pdf",
    text: str = "Read.",
    agents: tuple[str, ...] = ("universal",),
    mode: InstallMode = "symlink",
    **files: str,
) -> NewSkill:
    contents = {"SKILL.md": f"---\nname: {name}\ndescription: Reads {name}.\n---\n{text}\n", **files}
    package = Package.of_texts(name, contents)
    pin = Pin(source="a/b", type="github", url="https://github.com/a/b.git", path=f"skills/{name}", commit="c" * 40)
    computed = hash_package(package)
    source = locked_source(pin, computed)
    return NewSkill(
        name=name, package=package, pin=pin, locked=source, computed_hash=computed, agents=agents, mode=mode
    )


@pytest.fixture
def project(tmp_path: Path) -> Installation:
    folder = tmp_path / "project"
    folder.mkdir()
    return Installation(Base(root=folder, environment={}))


@pytest.fixture
def user(tmp_path: Path) -> Installation:
    folder = tmp_path / "home"
    folder.mkdir()
    return Installation(Base(root=folder, environment={}, is_user=True))


def put(new: NewSkill, folder: Path) -> None:
    """Write the files of a skill as another tool does."""
    folder.mkdir(parents=True)
    for file in new.placed.files:
        (folder / file.path).write_bytes(file.content)


def everything(base: Base) -> dict[str, str]:
    """Return every file, folder and link below a base."""
    found = {}
    for path in sorted(base.root.rglob("*")):
        kind = f"-> {os.readlink(path)}" if path.is_symlink() else "folder" if path.is_dir() else path.read_text()
        found[str(path.relative_to(base.root))] = kind
    return found


def test_a_skill_lies_once_and_other_agents_get_relative_links(project):
    project.install([make(agents=("universal", "claude-code", "windsurf"))])
    root = project.base.root
    assert (root / ".agents/skills/pdf/SKILL.md").is_file()
    assert os.readlink(root / ".claude/skills/pdf") == "../../.agents/skills/pdf"
    assert os.readlink(root / ".windsurf/skills/pdf") == "../../.agents/skills/pdf"
    assert json.loads((root / "skills-lock.json").read_text())["skills"]["pdf"]["skillPath"] == "skills/pdf/SKILL.md"
    entry = ProwessLock.read(root / "prowess.lock").skills["pdf"]
    assert (entry.mode, entry.agents, entry.pin.commit) == (
        "symlink",
        ("claude-code", "universal", "windsurf"),
        "c" * 40,
    )
    assert verify(project)[0].ok


def test_with_copy_every_agent_has_its_own_files(project):
    project.install([make(agents=("claude-code", "universal"), mode="copy")])
    root = project.base.root
    assert not (root / ".claude/skills/pdf").is_symlink()
    assert (root / ".claude/skills/pdf/SKILL.md").read_bytes() == (root / ".agents/skills/pdf/SKILL.md").read_bytes()


def test_copying_for_one_agent_makes_no_shared_folder(project):
    project.install([make(agents=("claude-code",), mode="copy")])
    assert not (project.base.root / ".agents").exists()


@pytest.mark.parametrize("mode", ["symlink", "copy"])
@pytest.mark.parametrize("kind", ["project", "user"])
def test_removing_leaves_nothing_behind(kind, mode, request):
    installed = request.getfixturevalue(kind)
    before = everything(installed.base)
    installed.install([make(agents=("universal", "claude-code", "crush"), mode=mode), make("doc", agents=("roo",))])
    installed.remove(["pdf"])
    installed.remove(["doc"])
    assert everything(installed.base) == before


def test_removing_leaves_what_others_put_there(project):
    root = project.base.root
    (root / ".claude").mkdir()
    (root / "skills-lock.json").write_text('{\n  "version": 1,\n  "skills": {},\n  "mine": true\n}\n')
    project.install([make(agents=("universal", "claude-code"))])
    (root / ".agents/skills/own").mkdir()
    before = {path for path in everything(project.base) if "pdf" not in path and path != "prowess.lock"}
    project.remove(["pdf"])
    left = everything(project.base)
    assert set(left) == before - {".claude/skills"}
    assert json.loads(left["skills-lock.json"]) == {"version": 1, "skills": {}, "mine": True}


def test_installing_twice_changes_nothing(project):
    project.install([make(agents=("universal", "claude-code"))])
    before = everything(project.base)
    project.install([make(agents=("universal", "claude-code"))])
    assert everything(project.base) == before


def test_an_update_replaces_all_files_and_keeps_the_time_of_the_installation(project):
    project.install([make(**{"old.md": "x"})])
    first = project.known()["pdf"].entry
    project.install([make(text="New.", **{"new.md": "y"})])
    entry = project.known()["pdf"].entry
    assert sorted(os.listdir(project.base.shared / "pdf")) == ["SKILL.md", "new.md"]
    assert entry.installed_at == first.installed_at
    assert entry.digest != first.digest


def test_changing_from_links_to_copies_and_back_leaves_no_rest(project):
    agents = ("universal", "claude-code")
    project.install([make(agents=agents)])
    linked = everything(project.base)
    project.install([make(agents=agents, mode="copy")])
    assert not (project.base.root / ".claude/skills/pdf").is_symlink()
    assert verify(project)[0].ok
    project.install([make(agents=agents)])
    again = everything(project.base)
    assert {key: value for key, value in again.items() if key != "prowess.lock"} == {
        key: value for key, value in linked.items() if key != "prowess.lock"
    }


def test_without_links_the_files_are_copied_and_that_is_remembered(project, monkeypatch):
    monkeypatch.setattr(install, "_link", lambda *_: False)
    project.install([make(agents=("universal", "claude-code"))])
    entry = project.known()["pdf"].entry
    assert (entry.mode, entry.copied) == ("symlink", ("claude-code",))
    assert verify(project)[0].ok
    project.remove(["pdf"])
    assert everything(project.base) == {}


@pytest.mark.parametrize("there", ["folder", "file", "link", "dangling"])
@pytest.mark.parametrize("where", [".agents/skills/pdf", ".claude/skills/pdf"])
def test_nothing_that_somebody_else_put_there_is_overwritten(project, tmp_path, there, where):
    path = project.base.root / where
    path.parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    if there == "folder":
        path.mkdir()
        (path / "SKILL.md").write_text("mine")
    elif there == "file":
        path.write_text("mine")
    else:
        path.symlink_to(tmp_path / ("elsewhere" if there == "link" else "nowhere"))
    before = everything(project.base)
    with pytest.raises(Conflict, match="did not install"):
        project.install([make("other"), make(agents=("universal", "claude-code"))], discard_changes=True)
    assert everything(project.base) == before


@pytest.mark.parametrize("where", [".agents/skills", ".claude/skills"])
@pytest.mark.parametrize("installed_for_others", [False, True])
def test_the_same_files_of_somebody_else_are_not_taken_over(project, where, installed_for_others):
    if installed_for_others:
        other = ("roo",) if where == ".agents/skills" else ("universal",)
        project.install([make(agents=other, mode="copy")])
    put(make(), project.base.root / where / "pdf")
    before = everything(project.base)
    with pytest.raises(Conflict, match="The same files are already at"):
        project.install([make(agents=("universal", "claude-code"))], discard_changes=True)
    assert everything(project.base) == before


def test_removing_a_skill_of_the_skills_cli_keeps_another_folder_of_that_name_unless_asked(project):
    new = make(agents=("universal",))
    put(new, project.base.shared / "pdf")
    lock = SkillsLock.read(project.base.skills_lock, PROJECT).with_skill("pdf", new.locked, at="")
    project.base.skills_lock.write_text(lock.text())
    own = project.base.root / ".claude/skills/pdf"
    put(make(text="Mine."), own)
    with pytest.raises(Conflict, match=r"\.claude/skills/pdf"):
        project.remove(["pdf"])
    assert "Mine." in (own / "SKILL.md").read_text()
    project.remove(["pdf"], discard_changes=True)
    assert not own.exists()


def test_a_repository_in_the_folder_of_an_installed_skill_is_removed_only_on_request(project):
    project.install([make()])
    (project.base.shared / "pdf/.git").mkdir()
    with pytest.raises(Conflict, match="edited"):
        project.remove(["pdf"])
    project.install([make(text="New.")], discard_changes=True)
    assert (project.base.shared / "pdf/.git").is_dir()
    project.remove(["pdf"], discard_changes=True)
    assert everything(project.base) == {}


def test_edited_files_are_replaced_only_on_request(project):
    project.install([make()])
    document = project.base.shared / "pdf/SKILL.md"
    document.write_text("edited")
    for change in (lambda: project.install([make(text="New.")]), lambda: project.remove(["pdf"])):
        with pytest.raises(Conflict, match="edited"):
            change()
    assert document.read_text() == "edited"
    project.install([make(text="New.")], discard_changes=True)
    assert "New." in document.read_text()


@pytest.mark.parametrize("link", [".agents", ".agents/skills", ".claude"])
def test_no_link_in_a_project_leads_a_write_out_of_it(project, tmp_path, link):
    outside = tmp_path / "outside"
    (outside / "skills").mkdir(parents=True)
    path = project.base.root / link
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(outside)
    with pytest.raises(Refused, match="leads out of the project"):
        project.install([make(agents=("universal", "claude-code"))])
    assert sorted(outside.rglob("*")) == [outside / "skills"]


def test_an_agents_folder_that_is_a_link_to_the_shared_one_needs_no_link(project):
    root = project.base.root
    (root / ".agents/skills").mkdir(parents=True)
    (root / ".claude").mkdir()
    (root / ".claude/skills").symlink_to("../.agents/skills")
    project.install([make(agents=("universal", "claude-code"))])
    assert not (root / ".claude/skills/pdf").is_symlink()
    assert verify(project)[0].ok
    project.remove(["pdf"])
    assert os.listdir(root / ".agents/skills") == []


def test_the_files_that_the_skills_cli_leaves_out_are_left_out():
    left = ["metadata.json", "a/metadata.json", "__pycache__/x.pyc", "a/__pypackages__/b", ".git/config"]
    assert [path for path in [*left, "SKILL.md", "metadata.yaml", "git/x"] if is_left_out(path)] == left


def test_names_from_anywhere_stay_one_folder(project):
    new = replace(make(), name="../../Evil Skill")
    project.install([new])
    assert os.listdir(project.base.shared) == ["evil-skill"]
    assert [path.name for path in project.base.root.parent.iterdir()] == ["project"]
    project.remove(["../../Evil Skill"])
    assert everything(project.base) == {}


def test_a_lock_that_came_with_a_repository_removes_nothing_outside(project, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    project.install([make()])
    lock = json.loads(project.base.prowess_lock.read_text())
    lock["skills"]["pdf"]["agents"] = ["../../precious", "universal"]
    lock["created"] += ["../precious", "/tmp"]
    project.base.prowess_lock.write_text(json.dumps(lock))
    project.remove(["pdf"])
    assert precious.is_dir()


def test_two_installers_at_once_lose_nothing(project):
    names = [f"skill-{number}" for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda name: Installation(project.base).install([make(name, agents=("universal", "claude-code"))]),
                names,
            )
        )
    assert sorted(project.known()) == names
    assert sorted(SkillsLock.read(project.base.skills_lock, PROJECT).skills) == names
    assert all(skill.ok and not skill.differences for skill in verify(project))


class Killed(BaseException):
    """Stands for a kill."""


@pytest.mark.parametrize("step", range(8))
@pytest.mark.parametrize("update", [False, True], ids=["install", "update"])
def test_a_process_that_dies_leaves_the_old_or_the_new_skill(project, monkeypatch, step, update):
    if update:
        project.install([make(agents=("universal", "claude-code"))])
    old = everything(project.base)
    calls = 0

    def dying(function):
        def call(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls > step:
                raise Killed
            return function(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for name in ("write_document", "place_files"):
            patch.setattr(installation, name, dying(getattr(installation, name)))
        patch.setattr(install, "_link", dying(install._link))
        patch.setattr(install, "write_folder", dying(install.write_folder))
        with suppress(Killed):
            project.install([make(text="New.", agents=("universal", "claude-code", "roo"))])
    project.recover()
    now = everything(project.base)
    if now == old:
        return
    assert "New." in now[".agents/skills/pdf/SKILL.md"]
    assert verify(project)[0] == replace(verify(project)[0], differences=())
    assert {".roo/skills/pdf", ".claude/skills/pdf", "skills-lock.json"} <= set(now)


def test_a_removal_that_died_is_finished(project, monkeypatch):
    project.install([make(agents=("universal", "claude-code"))])

    def die(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(install, "_remove_folder", die)
        with pytest.raises(Killed):
            project.remove(["pdf"])
    assert not verify(project)[0].ok
    project.recover()
    assert everything(project.base) == {}


def test_verify_names_changed_missing_and_extra_files_and_other_folders(project):
    project.install([make(**{"a.md": "a", "b.md": "b"}, agents=("universal", "claude-code"))])
    folder = project.base.shared / "pdf"
    (folder / "a.md").write_text("x")
    (folder / "b.md").unlink()
    (folder / "c.md").write_text("c")
    (folder / "SKILL.md").chmod(0o755)
    (project.base.root / ".claude/skills/pdf").unlink()
    (project.base.shared / "own").mkdir()
    pdf, own = verify(project)
    assert [(one.kind, one.path.rpartition("/")[2]) for one in pdf.differences] == [
        ("changed", "SKILL.md"),
        ("changed", "a.md"),
        ("missing", "b.md"),
        ("extra", "c.md"),
        ("missing", "pdf"),
    ]
    assert (own.ok, own.differences[0].kind) == (True, "unlocked")


def test_verify_looks_for_skills_of_the_skills_cli_only_in_folders_of_agents_that_exist(project, monkeypatch):
    names = [f"skill-{number}" for number in range(5)]
    project.install([make(name, agents=("universal", "claude-code")) for name in names])
    project.base.prowess_lock.unlink()
    looked_for: list[str] = []
    exists = os.path.lexists
    monkeypatch.setattr(os.path, "lexists", lambda path: looked_for.append(str(path)) or exists(path))
    found = verify(project)
    assert [(one.name, one.ok) for one in found] == [(name, True) for name in names]
    assert {path.partition("/skill-")[0].removeprefix(f"{project.base.root}/") for path in looked_for} == {
        ".agents/skills",
        ".claude/skills",
    }


def test_verify_reports_an_entry_that_cannot_be_read(project):
    project.install([make()])
    lock = json.loads(project.base.prowess_lock.read_text())
    lock["skills"]["pdf"]["digest"] = "0" * 64
    project.base.prowess_lock.write_text(json.dumps(lock))
    found = {one.name: one.ok for one in verify(project)}
    assert found == {"pdf": True, "prowess.lock": False}


def test_a_full_disk_leaves_the_old_skill_and_nothing_pending(project, monkeypatch):
    project.install([make()])
    before = everything(project.base)

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(install, "write_folder", fail)
        with pytest.raises(Unavailable, match="No space left"):
            project.install([make(text="New.", agents=("universal", "claude-code"))])
    assert everything(project.base) == before


def test_an_unknown_name_names_a_near_one(project):
    project.install([make()])
    with pytest.raises(NotFound) as error:
        project.remove(["pdff"])
    assert "pdf" in error.value.hint


def test_the_table_has_every_agent_and_near_misses_are_named():
    assert len(AGENTS) == 73
    assert parse_agents(["claude-code,cursor", "Codex"]) == ("claude-code", "cursor", "codex")
    assert len(parse_agents(["*"])) == 73
    with pytest.raises(NotFound) as error:
        parse_agents(["claude"])
    assert "claude-code" in error.value.hint


def test_variables_decide_where_a_user_has_skills(tmp_path):
    env = {"CLAUDE_CONFIG_DIR": str(tmp_path / "c"), "XDG_CONFIG_HOME": str(tmp_path / "x"), "HERMES_HOME": "relative"}
    home = tmp_path / "home"
    assert user_skills_folder("claude-code", home, env) == tmp_path / "c/skills"
    assert user_skills_folder("goose", home, env) == tmp_path / "x/goose/skills"
    assert user_skills_folder("goose", home, {}) == home / ".config/goose/skills"
    assert user_skills_folder("hermes-agent", home, env) == home / ".hermes/skills"
    assert user_skills_folder("opencode", home, env) == home / ".agents/skills"
    assert user_skills_folder("openclaw", home, {}) == home / ".openclaw/skills"
    (home / ".moltbot").mkdir(parents=True)
    assert user_skills_folder("openclaw", home, {}) == home / ".moltbot/skills"
    with pytest.raises(Invalid):
        user_skills_folder("eve", home, env)


def test_agents_with_a_folder_here_are_chosen_by_themselves(tmp_path):
    for folder in (".claude", ".trae", "skills"):
        (tmp_path / folder).mkdir()
    found = detect_agents(tmp_path, home=tmp_path, environment={}, user=False)
    assert found == ("universal", "claude-code", "trae")


def test_the_lock_of_a_user_is_where_the_skills_cli_has_it(user, tmp_path):
    user.install([make(agents=("universal", "claude-code"))])
    assert (user.base.root / ".agents/.skill-lock.json").is_file()
    state = Installation(replace(user.base, environment={"XDG_STATE_HOME": str(tmp_path / "state")}))
    state.install([make("doc")])
    assert list(json.loads((tmp_path / "state/skills/.skill-lock.json").read_text())["skills"]) == ["doc"]


@pytest.mark.long
def test_a_kill_at_any_step_leaves_the_old_or_the_new_state():
    program = str(Path(__file__).with_name("install_kill_points.py"))
    # In memory where that is possible: thousands of files are synced.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        command = [sys.executable, program, folder]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(lines) > 150
    for line in lines:
        assert line["after"] in (line["before"], line["done"]), (line["name"], line["step"])
