"""Small models must manage: answers say which tool to call next, and forgive invented tags and titles as names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from prowess.policy.actor import Actor
from prowess.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio

MakeBox = Callable[..., Toolbox]


@pytest.fixture
def filled(place: Any) -> Any:
    """A workspace with two skills with tags."""
    text = "---\nname: {name}\ndescription: {about}\nmetadata:\n  tags: {tags}\n---\n\n# {title}\n\nDo it.\n"
    about = "Reads invoices and adds up their totals."
    place.write(
        "invoice-reader",
        {"SKILL.md": text.format(name="invoice-reader", about=about, tags="finance", title="Invoice reader")},
    )
    about = "Writes release notes from merged changes."
    place.write(
        "release-notes",
        {"SKILL.md": text.format(name="release-notes", about=about, tags="writing", title="Release notes")},
    )
    return place


async def test_a_search_says_what_to_call_next_and_that_call_works(filled: Any, box: MakeBox, ann: Actor):
    async with filled.open(ann) as engine:
        toolbox = box(engine)
        found = (await toolbox.call("search_skills", {"query": "add up the invoices"})).data
        told = re.fullmatch(r"Next, call (\w+) with (.+)\.", found["hint"])
        assert told
        answer = await toolbox.call(told[1], json.loads(told[2]))
        assert (told[1], answer.data["skill"], answer.data["status"]) == ("enable_skill", "invoice-reader", "enabled")
        alone = (await box(engine, conversation="").call("search_skills", {"query": "add up the invoices"})).data
        assert alone["hint"] == 'Next, call load_skill with {"skill": "invoice-reader"}.'
        listed = (await toolbox.call("search_skills", {"tags": ["finance"]})).data
        assert [found["skill"] for found in listed["skills"]] == ["invoice-reader"]
        assert listed["hint"].startswith("Choose one that fits the task, or call search_skills with a `query`")


async def test_invented_tags_do_not_hide_the_skill_and_the_answer_names_the_tags_there_are(
    filled: Any, box: MakeBox, ann: Actor
):
    async with filled.open(ann) as engine:
        toolbox = box(engine)
        answer = (await toolbox.call("search_skills", {"query": "add up the invoices", "tags": ["accounting"]})).data
        assert answer["skills"][0]["skill"] == "invoice-reader"
        assert answer["hint"].startswith("No matching skill has the tags accounting. Existing tags: ")
        assert {"finance", "writing"} <= set(re.findall(r"\w+", answer["hint"]))
        listed = (await toolbox.call("list_skills", {"tags": ["accounting"]})).data
        assert (listed["skills"], listed["total"]) == ([], 0)
        assert listed["hint"].endswith("Call list_skills without tags.")
        fitting = (await toolbox.call("search_skills", {"query": "invoices", "tags": ["finance"]})).data
        assert [found["skill"] for found in fitting["skills"]] == ["invoice-reader"]
        assert "tags" not in fitting["hint"]


@pytest.mark.parametrize(
    "name", ["Invoice reader", "invoice_reader", "INVOICE-READER", "'invoice-reader'", "invoice reader"]
)
@pytest.mark.parametrize("tool", ["enable_skill", "load_skill", "read_skill_resource"])
async def test_a_skill_is_understood_by_its_title_and_in_other_spellings(
    filled: Any, box: MakeBox, ann: Actor, tool: str, name: str
):
    arguments = {"skill": name} | ({"path": "SKILL.md"} if tool == "read_skill_resource" else {})
    async with filled.open(ann) as engine:
        answer = await box(engine).call(tool, arguments)
        assert answer.ok
        assert not answer.data.get("error")


async def test_writing_needs_the_exact_name(filled: Any, box: MakeBox, ann: Actor):
    async with filled.open(ann) as engine:
        for tool, change in (("skill_update", {"description": "Other."}), ("skill_delete", {})):
            answer = await box(engine).call(tool, {"skill": "Invoice reader", **change})
            assert answer.data["error"]["code"] == "not-found"


async def test_a_title_that_two_skills_have_names_neither(place: Any, box: MakeBox, ann: Actor):
    for name in ("first", "second"):
        place.write(
            name, {"SKILL.md": f"---\nname: {name}\ndescription: D.\nmetadata:\n  title: Same\n---\n\n# Same\n\nDo.\n"}
        )
    async with place.open(ann) as engine:
        answer = await box(engine).call("enable_skill", {"skill": "same"})
        assert answer.data["error"]["code"] == "not-found"


@pytest.mark.parametrize("tool", ["enable_skill", "load_skill", "run_skill"])
async def test_an_unknown_skill_is_answered_with_how_to_find_one(filled: Any, box: MakeBox, ann: Actor, tool: str):
    async with filled.open(ann) as engine:
        answer = await box(engine).call(tool, {"skill": "weather"})
        assert not answer.ok or answer.data["error"]
        assert answer.data["hint"] == "Call search_skills to find the name of the skill."


async def test_a_full_prompt_is_answered_with_the_tools_to_call(place: Any, box: MakeBox, ann: Actor):
    for name in ("first", "second"):
        place.skill(name, body="x" * 9_000)
    async with place.open(ann) as engine:
        toolbox = box(engine)
        await toolbox.call("enable_skill", {"skill": "first"})
        full = await toolbox.call("enable_skill", {"skill": "second"})
        assert full.data["hint"] == "Call disable_skill for first, then call enable_skill again."
        await engine.policy.set("skills_max_prompt_chars", 100)
        never = await box(engine, conversation="other").call("enable_skill", {"skill": "second"})
        assert never.data["hint"].startswith("Call load_skill instead")
