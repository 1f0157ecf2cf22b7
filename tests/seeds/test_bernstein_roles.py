"""The roles of the Bernstein page: every row of its table is shipped, and resolved in the order that it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prowess.engine.places import PACKS
from prowess.session.role_prompt import RolePrompts
from prowess.skill.validate import validate
from prowess.storage.files.skill_packages import read_folder


@pytest.fixture
def table(printed) -> dict[str, tuple[set[str], set[str]]]:
    """The references and scripts of each role, by the page's migration table."""
    rows = printed("bernstein", "| role | references | notes |\n", "Legacy templates/roles")
    found: dict[str, tuple[set[str], set[str]]] = {}
    for role, files in re.findall(r"^\s*(?:\| )?`?([a-z-]*[a-z])`? \| ([^|]*) \|", rows, re.MULTILINE):
        references, _, scripts = files.partition(" + ")
        names = {f"{name}.md" for name in references.split(", ") if name != "—"}
        found[role] = (names, {script for script in scripts.split(", ") if script})
    return found


def test_the_table_is_read_whole(table, printed) -> None:
    count = int(printed("bernstein", "Migration status¶\nAll ", " roles migrated"))
    assert len(table) == count == 17
    assert table["backend"] == ({"python-conventions.md", "test-patterns.md", "error-handling.md"}, {"lint.sh"})


def test_exactly_the_roles_of_the_table_are_shipped_and_those_of_devai(table) -> None:
    assert {folder.name for folder in PACKS.iterdir()} == {*table, "coordinator", "builder"}


def test_each_role_has_exactly_the_references_and_scripts_of_its_row(table) -> None:
    for role, (references, scripts) in table.items():
        paths = set(read_folder(PACKS / role).paths)
        wanted = {f"references/{name}" for name in references} | {f"scripts/{name}" for name in scripts}
        assert paths == {"SKILL.md"} | wanted, role
        fields = validate(read_folder(PACKS / role), "bernstein").reading.document.fields
        assert set(fields.get("references", ())) == references
        assert set(fields.get("scripts", ())) == scripts


def test_a_body_is_what_the_notes_say(printed) -> None:
    rows = printed("bernstein", "| role | references | notes |\n", "Legacy templates/roles")
    assert "body is the output schema" in rows
    assert "```json" in (PACKS / "visionary/SKILL.md").read_text()
    assert "body is the scoring rubric" in rows
    assert "## Rubric" in (PACKS / "analyst/SKILL.md").read_text()


def test_every_role_of_the_table_resolves_to_the_index_and_its_body(table) -> None:
    for role in table:
        prompt = RolePrompts(templates=None, packs=PACKS, index=lambda _: "- the index").resolve(role)
        assert prompt.source == "pack"
        assert prompt.text.startswith('- the index\n\n<skill name="')


def test_the_three_steps_of_the_page_are_taken_in_its_order(printed, tmp_path: Path) -> None:
    flow = printed("bernstein", "It tries three things in order:\n", "The resolver is cached")
    steps = ["Skill pack", "Legacy role template", "Fallback stub"]
    assert re.findall("|".join(steps), flow) == steps
    stub = re.search(r'"(You are a <role> specialist\.)"', flow)[1]
    assert "templates/skills/<role>/SKILL.md" in flow
    assert "templates/roles/<role>/system_prompt.md" in flow

    def text() -> str:
        return RolePrompts(templates=tmp_path, packs=PACKS, index=lambda _: "").resolve("pilot").text

    assert text() == stub.replace("<role>", "pilot")
    legacy = tmp_path / "roles/pilot/system_prompt.md"
    legacy.parent.mkdir(parents=True)
    legacy.write_text("Legacy.")
    assert text() == "Legacy."
    pack = tmp_path / "skills/pilot/SKILL.md"
    pack.parent.mkdir(parents=True)
    pack.write_text("---\nname: pilot\ndescription: Flies the machine safely.\n---\n# Pilot\n")
    assert "# Pilot" in text()
