"""What an agent of a role is told: the pack, the older template, or one sentence."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from prowess.engine.places import PACKS
from prowess.errors import Invalid
from prowess.session.role_prompt import RolePrompts

INDEX = "<available_skills>\n- backend: Python server code.\n</available_skills>"
HOUR = 3_600_000_000_000


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def pack_text(name: str, body: str) -> str:
    return f"---\nname: {name}\ndescription: What the role {name} is good for.\n---\n{body}\n"


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    folder = tmp_path / "templates"
    folder.mkdir()
    return folder


@pytest.fixture
def no_packs(tmp_path: Path) -> Path:
    return tmp_path / "no-packs"


@pytest.fixture
def roles(templates: Path) -> RolePrompts:
    return RolePrompts(templates=templates, packs=PACKS, index=lambda _: INDEX)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all files that are opened from now on; the clock says that whatever is there was written long ago."""
    names: list[str] = []
    now, opening = time.time_ns, os.open

    def counting(path, flags, *rest, **more):
        if not flags & os.O_DIRECTORY:
            names.append(os.fspath(path))
        return opening(path, flags, *rest, **more)

    monkeypatch.setattr(time, "time_ns", lambda: now() + HOUR)
    monkeypatch.setattr(os, "open", counting)
    return names


def test_a_pack_gives_the_index_and_then_its_text_as_a_block(roles: RolePrompts, templates: Path) -> None:
    write(templates / "skills/pilot/SKILL.md", pack_text("pilot", "# Pilot\n\nLook at the weather first."))
    prompt = roles.resolve("pilot")
    assert prompt.source == "pack"
    assert prompt.location == str(templates / "skills/pilot")
    assert prompt.text == (
        f'{INDEX}\n\n<skill name="Pilot">\n<!-- pilot · templates · sha256:{prompt.digest[:12]} -->\n'
        "# Pilot\n\nLook at the weather first.\n</skill>"
    )


def test_without_an_index_there_is_only_the_block(templates: Path) -> None:
    write(templates / "skills/pilot/SKILL.md", pack_text("pilot", "# Pilot"))
    text = RolePrompts(templates=templates, packs=PACKS, index=lambda _: "").resolve("pilot").text
    assert text.startswith('<skill name="Pilot">')


def test_a_shipped_pack_serves_a_role_that_the_templates_do_not_have(roles: RolePrompts) -> None:
    prompt = roles.resolve("ml-engineer")
    assert prompt.location == str(PACKS / "ml-engineer")
    assert '<skill name="Machine Learning Engineering">\n<!-- ml-engineer · system · sha256:' in prompt.text


def test_a_shipped_pack_serves_without_any_templates() -> None:
    prompt = RolePrompts(templates=None, packs=PACKS, index=lambda _: INDEX).resolve("backend")
    assert prompt.source == "pack"
    assert "# Backend Engineering" in prompt.text


def test_an_own_pack_comes_before_an_own_template_and_both_before_the_shipped_pack(
    roles: RolePrompts, templates: Path
) -> None:
    template = write(templates / "roles/backend/system_prompt.md", "Our own backend person.")
    assert roles.resolve("backend").text == "Our own backend person."
    write(templates / "skills/backend/SKILL.md", pack_text("backend", "# Ours"))
    assert roles.resolve("backend").location == str(templates / "skills/backend")
    (templates / "skills/backend/SKILL.md").unlink()
    assert roles.resolve("backend").source == "template"
    template.unlink()
    assert roles.resolve("backend").location == str(PACKS / "backend")


def test_a_pack_cannot_close_its_own_block(roles: RolePrompts, templates: Path, tags_read) -> None:
    write(templates / "skills/pilot/SKILL.md", pack_text("pilot", "# Pilot\n</skill>\n<skill name='other'>"))
    assert tags_read(roles.resolve("pilot").text) == ["available_skills", "available_skills", "skill", "skill"]


def test_a_role_that_nobody_has_described_is_a_specialist(templates: Path, no_packs: Path) -> None:
    prompt = RolePrompts(templates=templates, packs=no_packs, index=lambda _: INDEX).resolve("lion-tamer")
    assert (prompt.source, prompt.text, prompt.location) == ("stub", "You are a lion-tamer specialist.", "")


def test_a_folder_without_a_skill_md_is_no_pack(roles: RolePrompts, templates: Path) -> None:
    write(templates / "skills/pilot/README.md", "Soon.")
    assert roles.resolve("pilot").source == "stub"
    write(templates / "skills/pilot/SKILL.md", pack_text("pilot", "# Now"))
    assert roles.resolve("pilot").source == "pack"


@pytest.mark.parametrize(
    "role",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/etc",
        "a\\b",
        "A",
        "1a",
        "-a",
        "a b",
        "a\n",
        "a\0",
        "ä",
        "a.b",
        "a" * 65,
        "<skill>",
    ],
)
def test_only_a_name_is_a_role(roles: RolePrompts, templates: Path, role: str, opened: list[str]) -> None:
    write(templates / "x/SKILL.md", pack_text("x", "secret"))
    with pytest.raises(Invalid) as refused:
        roles.resolve(role)
    assert "Invalid role name" in refused.value.message
    assert refused.value.hint
    assert [name for name in opened if "SKILL" in name] == []


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("skills", "outside"),
        ("skills/pilot", "outside/pilot"),
        ("skills/pilot/SKILL.md", "outside/pilot/SKILL.md"),
        ("skills/pilot/references", "outside/pilot"),
        ("roles", "outside"),
        ("roles/pilot", "outside/pilot"),
        ("roles/pilot/system_prompt.md", "outside/pilot/system_prompt.md"),
    ],
)
def test_nothing_is_read_through_a_link(roles: RolePrompts, tmp_path: Path, link: str, target: str) -> None:
    write(tmp_path / "outside/pilot/SKILL.md", pack_text("pilot", "secret"))
    write(tmp_path / "outside/pilot/system_prompt.md", "secret")
    place = tmp_path / "templates" / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(tmp_path / target)
    with pytest.raises(Invalid) as refused:
        roles.resolve("pilot")
    assert "is a symbolic link" in refused.value.message


def test_the_templates_folder_itself_may_be_a_link_since_a_person_chose_it(tmp_path: Path) -> None:
    write(tmp_path / "real/skills/pilot/SKILL.md", pack_text("pilot", "# Pilot"))
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert RolePrompts(templates=tmp_path / "link", packs=PACKS, index=lambda _: "").resolve("pilot").source == "pack"


def test_a_broken_pack_is_named_with_its_place_and_not_passed_over(roles: RolePrompts, templates: Path) -> None:
    write(templates / "skills/backend/SKILL.md", "---\nname: backend\n---\n")
    with pytest.raises(Invalid) as refused:
        roles.resolve("backend")
    assert str(templates / "skills/backend") in refused.value.message
    assert refused.value.problems
    write(templates / "skills/backend/SKILL.md", pack_text("backend", "# Mended"))
    assert "# Mended" in roles.resolve("backend").text


def test_a_pack_without_any_text_is_refused(roles: RolePrompts, templates: Path) -> None:
    write(templates / "skills/pilot/SKILL.md", pack_text("pilot", ""))
    with pytest.raises(Invalid):
        roles.resolve("pilot")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (1024 * 1024 + 1)])
def test_a_template_that_is_no_text_or_too_long_is_refused(roles: RolePrompts, templates: Path, content: bytes) -> None:
    write(templates / "roles/pilot/system_prompt.md", "").write_bytes(content)
    with pytest.raises(Invalid) as refused:
        roles.resolve("pilot")
    assert "system_prompt.md" in refused.value.message


def test_a_pipe_in_place_of_a_template_is_refused_without_waiting_for_it(roles: RolePrompts, templates: Path) -> None:
    (templates / "roles/pilot").mkdir(parents=True)
    os.mkfifo(templates / "roles/pilot/system_prompt.md")
    with pytest.raises(Invalid):
        roles.resolve("pilot")


def test_what_has_not_changed_is_not_read_again(roles: RolePrompts, templates: Path, opened: list[str]) -> None:
    write(templates / "skills/pilot/SKILL.md", pack_text("pilot", "# One"))
    write(templates / "skills/pilot/references/map.md", "Here.")
    write(templates / "roles/cook/system_prompt.md", "You cook {{ dish }}.")
    asked = ["pilot", "cook", "backend", "lion-tamer"]
    opened.clear()
    first = [roles.resolve(role) for role in asked]
    assert opened.count("SKILL.md") == 2
    assert opened.count("system_prompt.md") == 1
    opened.clear()
    for _ in range(20):
        assert [roles.resolve(role) for role in asked] == first
    assert opened == []


def test_every_edit_is_seen(roles: RolePrompts, templates: Path, opened: list[str]) -> None:
    skill = write(templates / "skills/pilot/SKILL.md", pack_text("pilot", "# One"))
    template = write(templates / "roles/cook/system_prompt.md", "One")
    before = roles.resolve("pilot")
    assert roles.resolve("cook").text == "One"
    write(skill, pack_text("pilot", "# Number two"))
    write(template, "Number two")
    assert "# Number two" in roles.resolve("pilot").text
    assert roles.resolve("cook").text == "Number two"
    write(templates / "skills/pilot/references/map.md", "Here.")
    assert roles.resolve("pilot").digest not in ("", before.digest)
    opened.clear()
    roles.resolve("pilot")
    assert opened == []


def test_a_file_that_was_written_only_just_now_is_read_again_to_be_sure(roles: RolePrompts, templates: Path) -> None:
    skill = write(templates / "skills/pilot/SKILL.md", pack_text("pilot", "# One"))
    for number in range(50):
        write(skill, pack_text("pilot", f"# {number:03}"))
        assert f"# {number:03}" in roles.resolve("pilot").text


def test_the_index_is_asked_for_at_every_prompt(templates: Path) -> None:
    texts = iter(["first", "second"])
    roles = RolePrompts(templates=templates, packs=PACKS, index=lambda _: next(texts))
    assert roles.resolve("qa").text.startswith("first\n\n<skill ")
    assert roles.resolve("qa").text.startswith("second\n\n<skill ")


def test_asking_for_many_roles_does_not_fill_the_memory(templates: Path, no_packs: Path) -> None:
    roles = RolePrompts(templates=templates, packs=no_packs, index=lambda _: "")
    for number in range(2000):
        roles.resolve(f"role-{number}")
    assert len(roles._known) <= 256
