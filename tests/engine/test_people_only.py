"""Skills that only people start (`disable-model-invocation`): people use them as always, agents are not offered them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prowess.errors import ApprovalRequired
from prowess.policy.actor import agent_of
from prowess.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio

ASKED = "release the new version of the website to production"
DEPLOY = "---\nname: deploy\ndescription: Releases a new version of the website to production.\n{}---\n\n# Deploy\n\nPush it.\n"
MARK = "disable-model-invocation: true\n"
CODE = "def execute(args, context):\n    return 'released'\n"
FILES = {
    "a field": {"SKILL.md": DEPLOY.format(MARK)},
    "a field in quotes": {"SKILL.md": DEPLOY.format("disable-model-invocation: 'True'\n")},
    "a field that is neither true nor false": {"SKILL.md": DEPLOY.format("disable-model-invocation: sometimes\n")},
    "the file of Codex": {
        "SKILL.md": DEPLOY.format(""),
        "agents/openai.yaml": "policy:\n  allow_implicit_invocation: false\n",
    },
    "a native skill": {"SKILL.md": DEPLOY.format(MARK), "agents/prowess.yaml": "title: Deploy\n"},
}


def agent(prowess: Any) -> Any:
    return prowess.as_actor(agent_of(prowess.context.actor, name="helper"))


def slugs(found: Any) -> list[str]:
    return [one.slug for one in found]


@pytest.mark.parametrize("how", FILES)
async def test_no_message_brings_the_skill_to_an_agent(place: Any, how: str):
    place.write("deploy", FILES[how])
    async with place.open() as prowess:
        assert (await prowess.skills.get("deploy")).people_only
        for engine in (prowess, agent(prowess)):
            assert await engine.match(ASKED) == []
            assert await engine.match("deploy") == []
            assert "deploy" not in (await engine.index(ASKED)).text


@pytest.mark.parametrize(
    "files",
    [
        {"SKILL.md": DEPLOY.format("")},
        {"SKILL.md": DEPLOY.format("disable-model-invocation: false\n")},
        {"SKILL.md": DEPLOY.format("disable-model-invocation:\n")},
        {"SKILL.md": DEPLOY.format(""), "agents/openai.yaml": "policy:\n  allow_implicit_invocation: true\n"},
        {"SKILL.md": DEPLOY.format(""), "agents/openai.yaml": "policy: [\n"},
    ],
)
async def test_other_skills_are_offered(place: Any, files: dict[str, str]):
    place.write("deploy", files)
    async with place.open() as prowess:
        assert not (await prowess.skills.get("deploy")).people_only
        assert slugs(await agent(prowess).match(ASKED)) == ["deploy"]


async def test_people_find_and_use_it(place: Any):
    place.write("deploy", FILES["a field"])
    async with place.open() as prowess:
        [card] = [card for card in await prowess.skills.cards() if card.slug == "deploy"]
        assert card.people_only
        [found] = await prowess.skills.search("release website")
        assert (found.slug, found.people_only) == ("deploy", True)
        assert (await prowess.load("deploy"))["body"] == "# Deploy\n\nPush it."
        session = await prowess.sessions.open("talk")
        enabled = await prowess.enable("deploy", session=session)
        assert [skill.slug for skill in enabled.enabled] == ["deploy"]
        assert "Push it." in await prowess.prompt(session="talk")


async def test_an_agent_sees_it_in_no_list(each_place: Any, tmp_path: Path):
    (folder := tmp_path / "deploy").mkdir()
    (folder / "SKILL.md").write_text(DEPLOY.format(MARK))
    (folder / "execute.py").write_text(CODE)
    async with each_place.open() as prowess:
        await prowess.skills.import_path(folder, scope="user")
    async with each_place.open() as prowess:  # now from the rows
        assert "deploy" in slugs(await prowess.skills.cards())
        [row] = await prowess.skills.list("deploy")
        assert row.people_only
        helper = agent(prowess)
        assert "deploy" not in slugs(await helper.skills.cards())
        assert "deploy" not in slugs(await helper.skills.list())
        assert await helper.skills.search("release website") == []
        assert "deploy" not in slugs(await helper.skills.search(""))
        assert "skill_deploy" not in [tool.name for tool in await Toolbox(helper).offered()]


async def test_an_agent_that_knows_its_name_needs_approval(place: Any):
    place.write("deploy", {**FILES["a field"], "execute.py": CODE})
    async with place.open() as prowess:
        helper = agent(prowess)
        loaded = await helper.load("deploy")
        assert loaded["body"] is None
        assert "only people start this skill" in loaded["error"]
        with pytest.raises(ApprovalRequired, match="only people start this skill") as asked:
            await helper.enable("deploy", session=await prowess.sessions.open("talk"))
        with pytest.raises(ApprovalRequired, match="only people start this skill"):
            await helper.run("deploy")
        await prowess.approvals.resolve(asked.value.approval_id, approved=True)
        assert (await helper.load("deploy"))["body"] is not None


async def test_an_agent_reads_the_files_of_one_that_a_person_has_started_in_its_conversation(place: Any):
    place.write("deploy", {**FILES["a field"], "references/hosts.md": "Two hosts.", "execute.py": CODE})
    async with place.open() as prowess:
        helper = agent(prowess)
        await prowess.sessions.open("talk")
        assert (
            "only people start this skill"
            in (await helper.load("deploy", reference="hosts.md", session="talk"))["error"]
        )
        await prowess.enable("deploy", session="talk")
        for session, text in (("talk", "Two hosts."), ("other", None), ("", None)):
            loaded = await helper.load("deploy", reference="hosts.md", session=session)
            assert loaded["reference_content"] == text
        assert await helper.skills.resource("deploy", "references/hosts.md", session="talk") == b"Two hosts."
        with pytest.raises(ApprovalRequired, match="only people start this skill"):
            await helper.run("deploy", session="talk")
        await prowess.disable("deploy", session="talk")
        assert (await helper.load("deploy", reference="hosts.md", session="talk"))["reference_content"] is None


async def test_why_says_that_only_people_start_it(place: Any):
    place.write("deploy", FILES["a field"])
    async with place.open() as prowess:
        why = await prowess.why(ASKED, skill="deploy")
        assert [step.why for step in why.steps] == ["only people can start it, by name"]
