"""The coordinator gives tasks to agents of other roles; the builder builds, tests and reports."""

from __future__ import annotations

import json

import pytest

from prowess.agent.live_turns import join_texts
from prowess.agent.updates import HelperUpdated, ToolEnded
from prowess.llm.scripted import Answer, ScriptedModel

from .turns import calling, end_of, play

pytestmark = pytest.mark.anyio

CODE = 'def execute(args, ctx):\n    return {"success": True, "result": {"slug": args["text"].lower().replace(" ", "-")}}\n'
SPECIFICATION = "Purpose: make slugs. Parameters: text (string). Result: slug. Test: Big Cat gives big-cat."
CREATE = (
    "skill_create",
    {
        "id": "make-slug",
        "name": "Make a slug",
        "description": "Turns a title into a slug. Use it for names in URLs.",
        "parameters": {"text": {"type": "string", "required": True}},
        "code": CODE,
    },
)


def delegating(role: str = "builder", task: str = SPECIFICATION):
    return calling(("delegate", {"role": role, "task": task}))


def of(role: str):
    """Return a condition that a request of an agent in this role satisfies."""
    heading = {"coordinator": "# Coordinator", "builder": "# Builder"}[role]
    return lambda request: heading in request.messages[0].text


def results(updates, name: str = "delegate") -> list[dict]:
    return [update.data for update in updates if isinstance(update, ToolEnded) and update.name == name]


def joined(updates) -> list[HelperUpdated]:
    """Return what helpers did while they worked, with their texts in one piece."""
    place = next(place for place, one in enumerate(updates) if isinstance(one, ToolEnded) and one.name == "delegate")
    return [one for one in join_texts(updates[:place]) if isinstance(one, HelperUpdated)]


async def test_the_builder_creates_reloads_calls_and_reports_and_the_coordinator_uses_the_skill(sandboxed):
    async with sandboxed.open() as prowess:
        conversation = await prowess.agent.start(role="coordinator")
        script = [
            Answer(when=of("coordinator"), reply=delegating()),
            Answer(when=of("builder"), reply=calling(CREATE)),
            Answer(when=of("builder"), reply=calling(("skill_reload", {}))),
            Answer(when=of("builder"), reply=calling(("skill_make_slug", {"text": "Big Cat"}))),
            Answer(when=of("builder"), reply="Built make-slug. Big Cat gave big-cat."),
            Answer(when=of("coordinator"), reply=calling(("skill_make_slug", {"text": "Old Dog"}))),
            Answer(when=of("coordinator"), reply="The skill make-slug is ready."),
        ]
        with ScriptedModel(script) as model:
            updates = await play(prowess.agent.send(conversation.id, "Build me a skill for slugs", model=model))
        kept = await prowess.agent.get(conversation.id)
        (report,) = results(updates)
        built = await prowess.agent.get(report["conversation"])
        skill = await prowess.skills.get("make-slug")

    assert updates[-1].text == "The skill make-slug is ready."
    live = [(one.role, one.update["kind"], one.update.get("name")) for one in joined(updates)]
    calls = ("skill_create", "skill_reload", "skill_make_slug")
    made = [("builder", kind, name) for name in calls for kind in ("tool_started", "tool_ended")]
    assert live == [*made, ("builder", "text", None)]
    assert joined(updates)[-1].update["text"] == report["report"]
    assert report["status"] == "done"
    assert report["report"] == "Built make-slug. Big Cat gave big-cat."
    assert report["calls"] == ["skill_create", "skill_reload", "skill_make_slug"]
    assert "old-dog" in json.dumps(results(updates, "skill_make_slug"))
    assert skill.author.startswith("agent:")
    assert (built.role, built.messages[0].text) == ("builder", SPECIFICATION)
    # What the builder spent counts as spent by the conversation that delegated.
    assert kept.input_tokens == updates[-1].input_tokens + built.input_tokens
    assert built.input_tokens > 0


async def test_only_a_role_that_names_the_tool_delegates_and_never_to_another_that_does(place):
    async with place.open() as prowess:
        offered = {}
        for role in ("", "coordinator", "builder", "scout", "communicator"):
            conversation = await prowess.agent.start(role=role)
            with ScriptedModel(["Hello."]) as model:
                await play(prowess.agent.send(conversation.id, "Hello", model=model))
            offered[role] = [tool for tool in model.requests[0].tools if tool.name == "delegate"]

    assert {role for role, tools in offered.items() if tools} == {"coordinator"}
    assert offered["coordinator"][0].parameters["properties"]["role"]["enum"] == ["builder", "communicator", "scout"]


async def test_a_scout_keeps_its_limits(place):
    async with place.open() as prowess:
        conversation = await prowess.agent.start(role="coordinator")
        script = [delegating("scout", "Look around."), calling(CREATE), "I may only look.", "It could not."]
        with ScriptedModel(script) as model:
            updates = await play(prowess.agent.send(conversation.id, "Have a look", model=model))
        found = await prowess.skills.cards()

    assert results(updates)[0]["report"] == "I may only look."
    assert results(updates)[0]["calls"] == []
    assert "skill_create" not in [tool.name for tool in model.requests[1].tools]
    assert [card.slug for card in found if card.scope != "system"] == []


@pytest.mark.parametrize(
    "arguments", [{"role": "coordinator", "task": "x"}, {"role": "boss", "task": "x"}, {"role": "builder"}, {}]
)
async def test_a_task_for_an_unknown_role_is_an_answer_that_says_what_to_use(place, arguments):
    async with place.open() as prowess:
        conversation = await prowess.agent.start(role="coordinator")
        with ScriptedModel([calling(("delegate", arguments)), "Sorry."]) as model:
            updates = await play(prowess.agent.send(conversation.id, "Hello", model=model))
    (told,) = results(updates)
    assert told["error"]
    assert "builder" in told["hint"] or "role and task" in told["hint"]


async def test_the_same_task_in_a_later_turn_is_done_again(place):
    async with place.open() as prowess:
        conversation = await prowess.agent.start(role="coordinator")
        reports = []
        for word in ("first", "second"):
            with ScriptedModel([delegating("scout", "Look."), word, "Done."]) as model:
                reports += results(await play(prowess.agent.send(conversation.id, "Look", model=model)))
    assert [one["report"] for one in reports] == ["first", "second"]


async def test_an_approval_that_the_builder_needs_suspends_both_and_both_go_on(place):
    place.skill("old-notes")
    async with place.open() as prowess:
        conversation = await prowess.agent.start(role="coordinator")
        with ScriptedModel([delegating(task="Delete it."), calling(("skill_delete", {"skill": "old-notes"}))]) as model:
            ended = await end_of(prowess.agent.send(conversation.id, "Delete old-notes", model=model))
        assert ended.state == "waiting"
        await prowess.approvals.resolve(ended.approvals[0], approved=True)
    async with place.open() as prowess:
        with ScriptedModel(["Deleted.", "It is gone."]) as model:
            updates = await play(prowess.agent.resume(conversation.id, model=model))
        left = [card.slug for card in await prowess.skills.cards() if card.scope != "system"]

    assert results(updates)[0]["report"] == "Deleted."
    assert updates[-1].text == "It is gone."
    assert left == []
