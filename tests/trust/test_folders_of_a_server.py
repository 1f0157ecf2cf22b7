"""The folders of a server belong to its operator: members of its organizations use shared skills, and reach nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from prowess.errors import Invalid, NotFound, Refused
from prowess.policy.actor import Actor
from prowess.skill.draft import SkillDraft

pytestmark = pytest.mark.anyio

CHANNELS = ("http", "web", "mcp:cursor", "agent:http")
MEMBER = Actor(name="mal", organization="evil", user="mal", channel="http")
READER = """
async def execute(args, ctx):
    read = await ctx.read_file("notes/plan.txt")
    await ctx.write_file("notes/mark.txt", "here")
    return read
"""
SEARCHER = "import prowess\nprowess.submit(prowess.search('payroll'))\n"


def document(text: str) -> str:
    return f"---\nname: shared\ndescription: What shared is for.\n---\n\n{text}\n"


@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_member_sees_the_skills_of_the_workspace_and_changes_none(place, channel):
    folder = place.skill("shared", "Do it.")
    before = (folder / "SKILL.md").read_bytes()
    async with place.open() as prowess:
        member = prowess.as_actor(replace(MEMBER, channel=channel)).skills
        skill = await member.get("shared")
        with pytest.raises(Refused, match="in a folder of the server"):
            await member.update(skill.model_copy(update={"description": "Something else."}))
        with pytest.raises(Refused, match="in a folder of the server"):
            await member.delete("shared")
        assert (folder / "SKILL.md").read_bytes() == before
        await prowess.skills.delete("shared")
    assert not folder.exists()


@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_member_stores_no_skill_in_the_workspace(place, channel):
    async with place.open() as prowess:
        member = prowess.as_actor(replace(MEMBER, channel=channel)).skills
        draft = SkillDraft(content=document("Mine."))
        with pytest.raises(Invalid, match="cannot be imported into the workspace scope") as refused:
            await member.create_document(draft, scope="workspace")
        assert refused.value.hint == "Use one of these scopes: user, org, account."
        stored = await member.create_document(draft, scope="org")
        assert (await member.fork(stored.slug, scope="user")).scope == "user"
        with pytest.raises(Invalid):
            await member.fork(stored.slug, scope="workspace")
    assert list(place.workspace.rglob("*.db")) == []


async def test_a_member_does_not_see_the_skills_in_the_operators_home(place):
    private = Path(place.environment["HOME"]) / ".claude" / "skills" / "shared"
    private.mkdir(parents=True)
    (private / "SKILL.md").write_text(document("Private."))
    async with place.open() as prowess:
        assert [card.slug for card in await prowess.skills.cards()] == ["shared"]
        member = prowess.as_actor(MEMBER)
        assert await member.skills.cards() == []
        assert await member.match("what is shared for?") == []
        for address in ("shared", "user:shared"):
            with pytest.raises(NotFound):
                await member.skills.get(address)


async def test_a_members_skill_reads_and_writes_no_folder_of_the_workspace(sandboxed):
    told = {"id": "reader", "name": "Reader", "description": "Reads.", "roots": ["rw:notes"]}
    sandboxed.write("reader", {"skill.json": json.dumps(told), "execute.py": READER})
    notes = sandboxed.workspace / "notes"
    notes.mkdir()
    (notes / "plan.txt").write_text("the plan")
    async with sandboxed.open() as prowess:
        member = prowess.as_actor(MEMBER)
        await member.trust.accept(await member.trust.preview(), proof="reviewed")
        with pytest.raises(Refused):
            await member.run("reader")
        assert not (notes / "mark.txt").exists()
        assert (await prowess.run("reader")).data == "the plan"


async def test_a_members_script_reads_no_pages_of_the_workspace(sandboxed):
    sidecar = "artifacts:\n  - {name: look, kind: code_template, path: code/look.py}\n"
    sandboxed.skill("searcher", files={"agents/prowess.yaml": sidecar, "code/look.py": SEARCHER})
    (sandboxed.workspace / "secret.md").write_text("# Secret\n\npayroll\n")
    async with sandboxed.open() as prowess:
        member = prowess.as_actor(MEMBER)
        await member.trust.accept(await member.trust.preview(), proof="reviewed")
        assert (await member.run("searcher")).data == []
        assert [page["slug"] for page in (await prowess.run("searcher")).data] == ["secret"]
