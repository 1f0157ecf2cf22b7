"""Bernstein: `load_skill` answers and is told field by field as its page says."""

from __future__ import annotations

import re
from typing import Any

import pytest

from prowess.tools.toolbox import Toolbox, builtin_tools

pytestmark = pytest.mark.anyio

REFERENCES = ("python-conventions.md", "test-patterns.md", "error-handling.md")


@pytest.fixture
def packs(printed: Any, each_place: Any) -> Any:
    """A workspace with the printed backend pack and its files."""
    files: dict[str, str | bytes] = {f"references/{name}": f"# {name}\r\n" for name in REFERENCES}
    text = printed("bernstein", "SKILL.md format¶\n", "Descriptions stay terse")
    each_place.write("backend", {"SKILL.md": text, "scripts/lint.sh": "#!/bin/sh\nexec ruff check\n", **files})
    return each_place


@pytest.fixture
def fields(printed: Any) -> list[str]:
    """The fields of the answer that the page lists."""
    page = printed("bernstein", "Returns JSON with:\n", "Every invocation emits")
    leads = re.findall(r"(?:^|\.)([a-z_]+(?:/[a-z_]+)?)—", page)
    found = [name.strip() for lead in leads for name in lead.split("/")]
    assert len(found) == 7
    return found


async def test_the_tool_takes_the_printed_arguments(printed: Any):
    signature = printed("bernstein", "async def load_skill(\n", ") -> dict")
    names = re.findall(r"^(\w+):", signature, re.MULTILINE)
    tool = builtin_tools()["load_skill"]
    # Every tool calls it `skill`; the name on the page is accepted too.
    assert ["skill" if name in tool.aliases else name for name in names] == list(tool.parameters["properties"])
    assert tool.parameters["required"] == ["skill"]


async def test_a_reference_and_a_script_come_in_one_answer(packs: Any):
    async with packs.open() as engine:
        box = Toolbox(engine)
        one = (await box.call("load_skill", {"name": "backend", "reference": REFERENCES[0]})).data
        other = (await box.call("load_skill", {"name": "backend", "script": "lint.sh"})).data
        both = (await box.call("load_skill", {"name": "backend", "reference": REFERENCES[0], "script": "lint.sh"})).data
        assert both["error"] is None
        assert (both["reference_content"], both["script_content"]) == (
            one["reference_content"],
            other["script_content"],
        )
        half = (await box.call("load_skill", {"name": "backend", "reference": REFERENCES[0], "script": "gone.sh"})).data
        assert half["reference_content"] == one["reference_content"]
        assert "gone.sh" in half["error"]


async def test_an_error_about_a_known_skill_lists_its_files_too(printed: Any, packs: Any):
    assert "always populated" in printed("bernstein", "available_scripts—", "reference_content")
    async with packs.open() as engine:
        await engine.policy.set("skill_enablement_policy", "admin-only")
        box = Toolbox(engine)
        refused = (await box.call("load_skill", {"name": "backend"})).data
        assert refused["error"]
        assert (refused["body"], refused["available_scripts"]) == (None, ["lint.sh"])
        assert REFERENCES[0] in refused["available_references"]


async def test_each_kind_of_load_fills_its_field_and_the_lists_are_always_there(packs: Any, fields: list[str]):
    async with packs.open() as engine:
        box = Toolbox(engine, actor=engine.actor)
        body = (await box.call("load_skill", {"name": "backend"})).data
        assert list(body) == fields
        assert body["name"] == "backend"
        assert body["body"].startswith("# Backend Engineering Skill\n")
        assert (body["reference_content"], body["script_content"], body["error"]) == (None, None, None)
        lists = {"available_references": sorted(REFERENCES), "available_scripts": ["lint.sh"]}
        assert {key: sorted(body[key]) for key in lists} == lists

        for name in REFERENCES:
            told = (await box.call("load_skill", {"name": "backend", "reference": name})).data
            assert (told["reference_content"], told["body"], told["error"]) == (f"# {name}\r\n", None, None)
            assert {key: sorted(told[key]) for key in lists} == lists

        script = (await box.call("load_skill", {"name": "backend", "script": "lint.sh"})).data
        assert (script["script_content"], script["body"]) == ("#!/bin/sh\nexec ruff check\n", None)

        missing = (await box.call("load_skill", {"name": "backend", "reference": "gone.md"})).data
        assert set(missing) == {*fields, "hint"}
        assert "gone.md" in missing["error"]
        assert "test-patterns.md" in missing["hint"]
        assert {key: sorted(missing[key]) for key in lists} == lists

        unknown = (await box.call("load_skill", {"name": "backed"})).data
        assert "backed" in unknown["error"]
        assert "'backend'" in unknown["hint"]
        assert (unknown["available_references"], unknown["available_scripts"]) == ([], [])


async def test_every_invocation_is_told_with_the_printed_fields(printed: Any, packs: Any):
    said = printed("bernstein", "WAL event (best-effort) with ", " fields.")
    fields = re.findall(r"[a-z_]+", said.replace(" and ", " "))
    async with packs.open() as engine:
        await engine.load("backend")
        await engine.load("backend", reference="test-patterns.md")
        await engine.load("nothing")
    async with packs.open() as engine:
        events = await engine.events.list(names=["skill_loaded"])
        assert [sorted(event.data) for event in events] == [sorted(fields)] * 3
        assert [(event.data["name"], event.data["reference"]) for event in events] == [
            ("backend", None),
            ("backend", "test-patterns.md"),
            ("nothing", None),
        ]
        assert [event.data["error"] is None for event in events] == [True, True, False]


async def test_a_name_claimed_twice_is_told_and_never_silently_exchanged(packs: Any):
    other = packs.workspace / ".claude" / "skills" / "backend"
    other.mkdir(parents=True)
    (other / "SKILL.md").write_text("---\nname: backend\ndescription: Another one of that name.\n---\n\nOther.\n")
    async with packs.open() as engine:
        listed = (await Toolbox(engine, actor=engine.actor).call("skill_list", {})).data["skills"]
        assert [(skill["skill"], skill["status"]) for skill in listed] == [("backend", "active"), ("backend", "error")]
        assert (await engine.load("backend"))["body"].startswith("# Backend Engineering Skill")
