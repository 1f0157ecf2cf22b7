"""Agents write skills: at once where these are their own, after a person has agreed where not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.cpu import cpu_limit

from prowess.policy.actor import Actor
from prowess.skill.needs import read_needs
from prowess.tools.edit import _recognise_language
from prowess.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio

NEW: dict[str, Any] = {
    "id": "resize-image",
    "name": "Resize",
    "description": "Resizes images to a width.",
    "instructions": "# Resize\n\nAsk for the width.",
    "parameters": {"width": {"type": "integer", "required": True}},
    "code": "def execute(args, ctx):\n    return args\n",
    "tags": ["image"],
}


async def test_a_skill_that_an_agent_made_is_found_and_used_at_once(
    each_place: Any, box: Callable[..., Toolbox], ann: Actor
):
    async with each_place.open(ann) as engine:
        toolbox = box(engine)
        made = await toolbox.call("skill_create", NEW)
        skill = await engine.skills.get("resize-image")
        told = {"skill": "resize-image", "title": "Resize", "digest": skill.digest, "status": "active"}
        assert made.data == {**told, "tool": "skill_resize_image"}
        assert skill.parameters["required"] == ["width"]
        assert {artifact.kind for artifact in skill.artifacts} == {"instructions", "function"}
        assert [version.actor for version in await engine.skills.history("resize-image")] == ["agent:agent"]
        found = (await toolbox.call("search_skills", {"query": "resize an image"})).data["skills"]
        assert found[0]["skill"] == "resize-image"
        assert (await toolbox.call("enable_skill", {"skill_slug": "resize-image"})).ok
        assert "Ask for the width." in await engine.prompt("chat")
        told = [(row.action, row.outcome, row.digest) for row in await engine.audit.rows() if row.action == "install"]
        assert told == [("install", "allowed", skill.digest), ("install", "done", skill.digest)]


async def test_others_are_asked_before_they_use_what_an_agent_made(place: Any, box: Callable[..., Toolbox], ann: Actor):
    async with place.open(ann) as engine:
        await box(engine, name="maker").call("skill_create", NEW)
        other = await box(engine, name="other").call("enable_skill", {"skill_slug": "resize-image"})
        assert other.data["error"]["code"] == "approval-required"
        assert (await engine.approvals.get(other.data["approval_id"])).detail["written_by"] == "agent:maker"


@pytest.mark.parametrize("where", ["workspace", "user", "account"])
async def test_an_id_that_is_taken_in_any_scope_is_refused(
    place: Any, box: Callable[..., Toolbox], ann: Actor, where: str
):
    async with place.open(ann) as engine:
        if where == "workspace":
            place.skill("resize-image")
        else:
            folder = place.workspace.parent / "given" / "resize-image"
            if where == "user":
                folder = place.workspace.parent.parent / place.environment["HOME"] / ".agents/skills/resize-image"
            folder.mkdir(parents=True)
            (folder / "SKILL.md").write_text("---\nname: resize-image\ndescription: Taken.\n---\n\nTaken.\n")
            if where == "account":
                await engine.skills.import_path(folder, scope="account")
        answer = await box(engine).call("skill_create", NEW)
        assert answer.data["error"]["code"] == "duplicate-skill"
        assert "skill_update" in answer.data["hint"]
        (card,) = await engine.skills.cards()
        assert (card.scope, card.hides) == (where, ())


async def test_a_second_agent_with_the_same_id_is_refused(each_place: Any, box: Callable[..., Toolbox], ann: Actor):
    async with each_place.open(ann) as engine:
        assert (await box(engine).call("skill_create", NEW)).ok
        answer = await box(engine, name="other").call("skill_create", {**NEW, "name": "Mine"})
        assert answer.data["error"]["code"] == "duplicate-skill"
        assert (await engine.skills.get("resize-image")).title == "Resize"


async def test_what_is_no_skill_is_not_made(place: Any, box: Callable[..., Toolbox], ann: Actor):
    async with place.open(ann) as engine:
        toolbox = box(engine)
        for wrong in (
            {"id": "Not A Slug"},
            {"instructions": None, "code": None},
            {"description": ""},
            {"description": "x" * 10_000},
        ):
            answer = await toolbox.call("skill_create", {**NEW, **wrong})
            assert not answer.ok, wrong
            assert answer.data["hint"]
        assert await engine.skills.cards() == []


async def test_an_agent_changes_its_own_skill_at_once_and_only_what_it_gives(
    place: Any, box: Callable[..., Toolbox], ann: Actor
):
    async with place.open(ann) as engine:
        toolbox = box(engine)
        await toolbox.call("skill_create", NEW)
        before = await engine.skills.get("resize-image")
        told = await toolbox.call("skill_update", {"id": "resize-image", "instructions": "# Resize\n\nKeep the ratio."})
        after = await engine.skills.get("resize-image")
        assert told.data["digest"] == after.digest != before.digest
        assert (after.title, after.description, after.tags, after.parameters) == (
            before.title,
            before.description,
            before.tags,
            before.parameters,
        )
        assert "Keep the ratio." in after.body
        await toolbox.call(
            "skill_update",
            {"id": "resize-image", "name": "Resizer", "tags": [], "code": "def execute(args, ctx): ...\n"},
        )
        last = await engine.skills.get("resize-image")
        assert (last.title, last.tags, last.body) == ("Resizer", (), after.body)
        nothing = await toolbox.call("skill_update", {"id": "resize-image"})
        assert nothing.data["error"]["code"] == "invalid"


async def test_an_agent_changes_what_it_did_not_write_after_a_person_saw_the_change(
    each_place: Any, box: Callable[..., Toolbox], ann: Actor
):
    each_place.skill("triage", "Look at the locks.")
    async with each_place.open(ann) as engine:
        toolbox = box(engine)
        change = {"id": "triage", "instructions": "# triage\n\nLook away."}
        waits = await toolbox.call("skill_update", change)
        assert waits.data["error"]["code"] == "approval-required"
        row = await engine.approvals.get(waits.data["approval_id"])
        assert (row.action, row.digest != (await engine.skills.get("triage")).digest) == ("update", True)
        assert "-Look at the locks." in row.detail["diff"]
        assert "+Look away." in row.detail["diff"]
        await engine.approvals.resolve(row.id, approved=True)
        other = await toolbox.call("skill_update", {**change, "instructions": "# triage\n\nRun away."})
        assert other.data["error"]["code"] == "approval-required"
        assert "Look at the locks." in (await engine.skills.get("triage")).body
        done = await toolbox.call("skill_update", change)
        assert done.data["digest"] == row.digest == (await engine.skills.get("triage")).digest
        assert "Look away." in (await engine.skills.get("triage")).body


async def test_a_role_that_is_for_some_tags_does_not_change_others_by_giving_them_its_tag(
    place: Any, box: Callable[..., Toolbox], ann: Actor
):
    place.skill("triage")
    async with place.open(ann) as engine:
        role = {"tools": ["*"], "actions": ["update"], "skill_tags": ["letters"]}
        await engine.policy.set("roles", {"writer": role})
        answer = await box(engine, role="writer").call("skill_update", {"id": "triage", "tags": ["letters"]})
        assert answer.data["error"]["code"] == "refused"
        assert "letters" in answer.data["error"]["message"]


async def test_a_skill_is_deleted_once_a_person_agrees_and_can_come_back(
    each_place: Any, box: Callable[..., Toolbox], ann: Actor
):
    async with each_place.open(ann) as engine:
        toolbox = box(engine)
        await toolbox.call("skill_create", NEW)
        await toolbox.call("enable_skill", {"skill_slug": "resize-image"})
        waits = await toolbox.call("skill_delete", {"id": "resize-image"})
        assert [card.slug for card in await engine.skills.cards()] == ["resize-image"]
        await engine.approvals.resolve(waits.data["approval_id"], approved=True)
        assert (await toolbox.call("skill_delete", {"id": "resize-image"})).data == {
            "skill": "resize-image",
            "status": "deleted",
        }
        assert await engine.skills.cards() == []
        assert await engine.prompt("chat") == ""
        await engine.skills.rollback("resize-image", 1)
        assert [card.slug for card in await engine.skills.cards()] == ["resize-image"]
        again = await toolbox.call("skill_delete", {"id": "resize-image"})
        assert again.data["error"]["code"] == "approval-required"
        assert again.data["approval_id"] != waits.data["approval_id"]


async def test_nobody_is_asked_about_a_change_of_what_comes_with_prowess(
    place: Any, box: Callable[..., Toolbox], ann: Actor
):
    place.environment["PROWESS_SYSTEM_SKILLS"] = "on"
    async with place.open(ann) as engine:
        for tool, arguments in (("skill_delete", {}), ("skill_update", {"description": "Something else entirely."})):
            answer = await box(engine).call(tool, {"id": "backend", **arguments})
            assert answer.data["error"]["code"] == "refused"
        assert await engine.approvals.list() == []


async def test_a_change_that_is_too_large_to_be_reviewed_is_refused(
    place: Any, box: Callable[..., Toolbox], ann: Actor
):
    place.skill("triage")
    async with place.open(ann) as engine:
        text = "\n".join(f"Step {number} is harmless." for number in range(4_000))
        answer = await box(engine).call("skill_update", {"id": "triage", "instructions": text})
        assert answer.data["error"]["code"] == "refused"
        assert "Ask the user to make this change" in answer.data["hint"]
        small = await box(engine).call("skill_update", {"id": "triage", "instructions": text[:20_000] + "\nEVIL"})
        assert small.data["error"]["code"] == "approval-required"
        (waiting,) = await engine.approvals.list()
        assert "EVIL" in waiting.detail["diff"]


@pytest.mark.parametrize(
    "wrong", [{"id": "bаckend"}, {"name": "\x1b[31mred"}, {"name": "a\nb"}, {"instructions": "a\x00b"}]
)
async def test_what_would_mislead_the_eye_is_not_made(
    place: Any, box: Callable[..., Toolbox], ann: Actor, wrong: dict[str, str]
):
    async with place.open(ann) as engine:
        answer = await box(engine).call("skill_create", {**NEW, **wrong})
        assert answer.data["error"]["code"] == "invalid"
        assert await engine.skills.cards() == []


async def test_code_says_its_language_and_what_it_needs_and_both_can_change(
    each_place: Any, box: Callable[..., Toolbox], ann: Actor
):
    needs = {"hosts": ["api.example.com"], "env": ["API_KEY"], "roots": ["rw:notes"]}
    code = "export async function execute(args, ctx) { return { success: true }; }\n"
    async with each_place.open(ann) as engine:
        toolbox = box(engine)
        made = await toolbox.call("skill_create", {**NEW, "code": code, "language": "typescript", **needs})
        assert made.data["tool"] == "skill_resize_image"
        assert "person" in made.data["hint"]
        skill = await engine.skills.get("resize-image")
        (function,) = [one for one in skill.artifacts if one.kind == "function"]
        assert (function.language, function.path, function.content) == ("typescript", "execute.ts", code)
        assert read_needs(skill).as_json() == needs
        no_code = await toolbox.call("skill_update", {"id": "resize-image", "language": "python"})
        assert no_code.data["error"]["code"] == "invalid"
        python = {"id": "resize-image", "language": "python", "code": NEW["code"], "hosts": [], "env": []}
        changed = await toolbox.call("skill_update", {**python, "runtime": "native", "requirements": ["pillow"]})
        assert changed.ok
        skill = await engine.skills.get("resize-image")
        (function,) = [one for one in skill.artifacts if one.kind == "function"]
        assert (function.language, function.path, function.content) == ("python", "execute.py", NEW["code"])
        assert "execute.ts" not in [entry.path for entry in skill.manifest]
        assert read_needs(skill).as_json() == {"runtime": "native", "roots": ["rw:notes"], "requirements": ["pillow"]}
        assert {tool.reach for tool in await toolbox.offered() if tool.digest} == {"machine"}


@pytest.mark.parametrize(
    "wrong",
    [{"hosts": ["https://api.example.com/x"]}, {"env": ["no name"]}, {"language": "cobol"}, {"runtime": "root"}],
)
async def test_needs_that_are_none_are_refused_and_nothing_is_kept(
    place: Any, box: Callable[..., Toolbox], ann: Actor, wrong: dict[str, Any]
):
    async with place.open(ann) as engine:
        answer = await box(engine).call("skill_create", {**NEW, **wrong})
        assert answer.data["error"]["code"] == "invalid"
        assert answer.data["hint"]
        assert await engine.skills.cards() == []


@pytest.mark.parametrize("line", ["def a(" + ")" * 90_000, "def a(" + "):" * 45_000 + "x", "\n" * 90_000])
def test_the_language_of_code_is_found_in_no_time_whatever_it_repeats(line: str):
    with cpu_limit(10):
        assert _recognise_language(line) == "python"
