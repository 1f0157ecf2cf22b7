"""One turn: a message is decided about, answered with tools and skills, and kept."""

from __future__ import annotations

import pytest

from prowess.agent.updates import Decided, SkillsChanged, TextWritten, ToolEnded, ToolStarted
from prowess.errors import Invalid, NotFound
from prowess.llm.scripted import ScriptedModel

from .turns import calling, end_of, play

pytestmark = pytest.mark.anyio

TRIAGE = {
    "SKILL.md": """---
name: postgres-triage
description: Diagnose slow queries, lock waits and replication lag in PostgreSQL. Use it when Postgres is slow.
---

# Postgres triage

Look at pg_stat_activity first.
"""
}


async def test_a_message_is_answered_as_the_model_writes_and_both_are_kept(each_place):
    async with each_place.open() as prowess:
        conversation = await prowess.agent.start()
        with ScriptedModel(["Good morning! How can I help you today?"]) as model:
            updates = await play(prowess.agent.send(conversation.id, "Hello there", model=model))

        kept = await prowess.agent.get(conversation.id)

    texts = [update.text for update in updates if isinstance(update, TextWritten)]
    assert len(texts) > 1
    assert "".join(texts) == updates[-1].text == "Good morning! How can I help you today?"
    assert (updates[-1].state, updates[-1].steps, updates[-1].model) == ("done", 1, "scripted:test")
    assert [(one.role, one.text) for one in kept.messages] == [("user", "Hello there"), ("assistant", updates[-1].text)]
    assert (kept.title, kept.state, kept.turns) == ("Hello there", "idle", 1)
    assert kept.input_tokens == updates[-1].input_tokens > 0


async def test_a_skill_that_clearly_fits_is_in_the_first_request_and_the_decision_is_recorded(place):
    place.write("postgres-triage", TRIAGE)
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        with ScriptedModel(["A lock."]) as model:
            updates = await play(
                prowess.agent.send(conversation.id, "Postgres is slow: diagnose lock waits", model=model)
            )

    decided, changed = updates[0], updates[1]
    assert isinstance(decided, Decided)
    assert (decided.decision["action"], decided.decision["skill"]) == ("activate", "postgres-triage")
    assert isinstance(changed, SkillsChanged)
    assert "Look at pg_stat_activity first." in model.requests[0].messages[0].text
    assert updates[-1].skills == ("postgres-triage",)


async def test_without_a_model_no_skill_is_enabled(place):
    place.write("postgres-triage", TRIAGE)
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        updates = await play(prowess.agent.send(conversation.id, "Postgres is slow: diagnose lock waits"))
        session = await prowess.sessions.get(conversation.id)

    (ended,) = updates
    assert (ended.state, ended.error["code"], ended.skills) == ("failed", "no-model", ())
    assert session.enabled == ()


async def test_a_skill_that_the_model_enables_is_part_of_the_very_next_request(place):
    place.write("postgres-triage", TRIAGE)
    steps = [
        calling(("search_skills", {"query": "database"})),
        calling(("enable_skill", {"skill": "postgres-triage", "reason": "the user has a database"})),
        "Done.",
    ]
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        with ScriptedModel(steps) as model:
            updates = await play(prowess.agent.send(conversation.id, "Good morning", model=model))

    prompts = [request.messages[0].text for request in model.requests]
    assert ["pg_stat_activity" in prompt for prompt in prompts] == [False, False, True]
    assert [type(one) for one in updates if isinstance(one, (ToolStarted, ToolEnded, SkillsChanged))] == [
        *(ToolStarted, ToolEnded),
        *(ToolStarted, ToolEnded, SkillsChanged),
    ]


async def test_the_next_turn_has_the_earlier_ones_before_it(place):
    async with place.open() as prowess:
        conversation = await prowess.agent.start(conversation="support")
        with ScriptedModel(["Paris.", "About two million."]) as model:
            await play(prowess.agent.send("support", "What is the capital of France?", model=model))
            await play(prowess.agent.send(conversation.id, "How many people live there?", model=model))

    said = [(message.role, message.text) for message in model.requests[1].messages[1:]]
    assert said == [
        ("user", "What is the capital of France?"),
        ("assistant", "Paris."),
        ("user", "How many people live there?"),
    ]


async def test_an_unknown_tool_and_wrong_arguments_are_answered_so_that_the_model_can_correct_itself(place):
    place.write("postgres-triage", TRIAGE)
    steps = [calling(("open_pod_bay_doors", {}), ("search_skills", {"qery": 1})), "Sorry."]
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        with ScriptedModel(steps) as model:
            updates = await play(prowess.agent.send(conversation.id, "Hello", model=model))

    ended = [update for update in updates if isinstance(update, ToolEnded)]
    assert [update.ok for update in ended] == [False, False]
    assert "Unknown tool" in ended[0].data["error"]["message"]
    assert "qery" in ended[1].data["error"]["message"]
    assert updates[-1].state == "done"


async def test_a_call_with_arguments_nested_too_deeply_ends_the_turn_and_the_next_one_is_answered(place):
    nested: dict[str, object] = {}
    for _ in range(900):
        nested = {"a": nested}
    async with place.open() as prowess:
        await prowess.agent.start(conversation="chat")
        model = ScriptedModel([calling(("search_skills", nested)), "Here I am."])
        ended = await end_of(prowess.agent.send("chat", "Find a skill.", model=model))
        again = await end_of(prowess.agent.send("chat", "Are you there?", model=model))
    assert (ended.state, ended.error and ended.error["code"]) == ("failed", "invalid")
    assert (again.state, again.text) == ("done", "Here I am.")


async def test_an_empty_message_and_an_unknown_conversation_are_refused_before_anything_is_stored(place):
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        with pytest.raises(Invalid, match="empty"):
            await play(prowess.agent.send(conversation.id, " \n"))
        with pytest.raises(NotFound):
            await play(prowess.agent.send("nobody", "Hello"))

        assert (await prowess.agent.get(conversation.id)).messages == ()


async def test_without_a_model_the_turn_fails_with_what_to_do_and_can_go_on_later(place):
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        failed = await end_of(prowess.agent.send(conversation.id, "Hello"))
        with ScriptedModel(["Hello!"]) as model:
            done = await end_of(prowess.agent.resume(conversation.id, model=model))

    assert (failed.state, failed.error["code"]) == ("failed", "no-model")
    assert "PROWESS_MODEL" in failed.error["hint"]
    assert (done.state, done.text) == ("done", "Hello!")


@pytest.mark.parametrize(("small", "role", "offered"), [(False, "", True), (True, "", False), (True, "builder", True)])
async def test_a_small_model_may_write_skills_only_in_a_role(place, small, role, offered):
    model = ScriptedModel(["Hello."])
    model.small = small
    async with place.open() as prowess:
        conversation = await prowess.agent.start(role=role)
        await end_of(prowess.agent.send(conversation.id, "Hello", model=model))

    assert ("skill_create" in {tool.name for tool in model.requests[0].tools}) is offered


async def test_a_small_model_with_an_enabled_skill_is_not_offered_tools_to_find_others(place):
    place.write("postgres-triage", TRIAGE)
    model = ScriptedModel(["At noon.", "A lock."])
    model.small = True
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        await end_of(prowess.agent.send(conversation.id, "Tell me a joke", model=model))
        await end_of(prowess.agent.send(conversation.id, "Postgres is slow: diagnose lock waits", model=model))

    before, after = ({tool.name for tool in request.tools} for request in model.requests)
    assert {"search_skills", "enable_skill"} <= before
    assert not after & {"search_skills", "enable_skill"}
