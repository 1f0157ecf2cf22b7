"""A decision to do research: what is looked up before the model is asked, with the rights of the agent."""

from __future__ import annotations

import sys

import pytest

from prowess.agent.updates import Decided, HelperUpdated, ToolEnded
from prowess.llm.scripted import Answer, ScriptedModel
from prowess.session.turn import TurnDecision

from .turns import play

pytestmark = pytest.mark.anyio

MESSAGE = "How high is the tide at the old harbour tomorrow?"
TIDES = "Add nine inches to the value of the table."
SERVER = """
import json, sys
tool = {"name": "tide_table", "description": "Show the tide at a harbour.", "inputSchema": {"type": "object"}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "sea", "version": "1"}
        answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    else:
        answer["result"] = {"tools": [tool]}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def tides(place):
    """A place with a skill about tides, whose agent does research before it answers."""
    about = "Tells how high the tide is at a harbour, from the table of tides."
    place.write("tides", {"SKILL.md": f"---\nname: tides\ndescription: {about}\n---\n\n{TIDES}\n"})
    return place


async def do_research(_):
    return TurnDecision(action="research", reason="The message is about facts.")


def looked_up(updates) -> dict[str, dict]:
    return {update.name: update.data for update in updates if isinstance(update, ToolEnded)}


async def test_skills_their_text_and_tools_of_connectors_are_looked_up_before_the_model_is_asked(tides, tmp_path):
    server = tmp_path / "sea.py"
    server.write_text(SERVER)
    async with tides.open() as prowess:
        await prowess.connectors.add("sea", {"command": sys.executable, "args": ["-IS", str(server)]})
        await prowess.connectors.allow("sea", reads=True)
        prowess.agent.parts.decider = do_research
        conversation = await prowess.agent.start()
        with ScriptedModel(["It is high."]) as model:
            updates = await play(prowess.agent.send(conversation.id, MESSAGE, model=model))
        kept = await prowess.agent.get(conversation.id)
        (event,) = await prowess.events.list(names=["decision_made"])

    found = looked_up(updates)
    assert found.keys() == {"search_skills", "search_connector_tools", "load_skill"}
    assert found["search_skills"]["skills"][0]["skill"] == "tides"
    assert found["search_connector_tools"]["tools"][0]["tool"] == "tide_table"
    # One request, after all of it: the instructions, the message, and then what was found, as results of calls.
    (request,) = model.requests
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "tool", "tool", "tool"]
    assert sum(TIDES in message.text for message in request.messages[3:]) == 1
    assert TIDES not in request.messages[0].text
    ended = updates[-1]
    assert (ended.state, ended.steps, ended.text, ended.skills) == ("done", 1, "It is high.", ())

    # It is kept and recorded with the reasons.
    research = [
        {"tool": "search_skills", "reason": "Skills that fit the message."},
        {"tool": "search_connector_tools", "reason": "Tools of connectors for the message."},
        {"tool": "load_skill", "reason": "What tides says, which may fit."},
    ]
    assert isinstance(updates[0], Decided)
    decision = updates[0].decision
    assert (decision["action"], decision["reason"]) == ("research", "The message is about facts.")
    assert decision["research"] == event.data["research"] == kept.messages[0].detail["decision"]["research"] == research
    assert event.data["reason"] == "The message is about facts."
    assert [message.role for message in kept.messages] == ["user", "assistant", "tool", "tool", "tool", "assistant"]


async def test_why_shows_what_was_looked_up_and_the_reasons(tides, new_process):
    async with tides.open() as prowess:
        prowess.agent.parts.decider = do_research
        conversation = await prowess.agent.start()
        with ScriptedModel(["It is high."]) as model:
            await play(prowess.agent.send(conversation.id, MESSAGE, model=model))
    shown = new_process("why", "--last", environment=tides.environment, folder=tides.workspace).stdout
    assert "Decided: research (The message is about facts)" in shown
    assert "Looked up with search_skills: Skills that fit the message." in shown
    assert "Looked up with load_skill: What tides says, which may fit." in shown


async def test_other_decisions_look_nothing_up(tides):
    async with tides.open() as prowess:
        conversation = await prowess.agent.start()
        with ScriptedModel(["Hello."]) as model:
            updates = await play(prowess.agent.send(conversation.id, "Hello", model=model))
    assert looked_up(updates) == {}
    assert "research" not in updates[0].decision


async def test_research_asks_nobody_and_reads_no_skill_that_needs_an_approval(tides):
    async with tides.open() as prowess:
        await prowess.policy.set("skill_enablement_policy", "prompt-user")
        prowess.agent.parts.decider = do_research
        conversation = await prowess.agent.start()
        with ScriptedModel(["I do not know."]) as model:
            updates = await play(prowess.agent.send(conversation.id, MESSAGE, model=model))
        waiting = await prowess.approvals.list()
    assert list(looked_up(updates)) == ["search_skills"]
    assert updates[-1].state == "done"
    assert waiting == []
    assert TIDES not in "".join(message.text for message in model.requests[0].messages)


async def test_the_coordinator_sends_a_scout_whose_report_the_model_gets(tides):
    def of(role: str):
        return lambda request: role in request.messages[0].text

    async with tides.open() as prowess:
        prowess.agent.parts.decider = do_research
        conversation = await prowess.agent.start(role="coordinator")
        script = [
            Answer(when=of("You are a scout"), reply="The table says four feet."),
            Answer(when=of("# Coordinator"), reply="Four feet."),
        ]
        with ScriptedModel(script) as model:
            updates = await play(prowess.agent.send(conversation.id, MESSAGE, model=model))
    assert looked_up(updates)["delegate"]["report"] == "The table says four feet."
    assert {update.role for update in updates if isinstance(update, HelperUpdated)} == {"scout"}
    assert "The table says four feet." in model.requests[-1].messages[-1].text
    assert MESSAGE in model.requests[0].messages[1].text
    assert (updates[-1].text, updates[-1].steps) == ("Four feet.", 1)


async def test_research_that_was_interrupted_goes_on_without_a_second_decision(tides):
    async with tides.open() as prowess:
        prowess.agent.parts.decider = do_research
        conversation = await prowess.agent.start()
        updates = prowess.agent.send(conversation.id, MESSAGE, model=ScriptedModel(["Never."]))
        async for update in updates:
            if isinstance(update, ToolEnded):
                break
        await updates.aclose()
    async with tides.open() as prowess:
        with ScriptedModel(["It is high."]) as model:
            updates = await play(prowess.agent.resume(conversation.id, model=model))
        made = await prowess.events.list(names=["decision_made"])
    assert updates[-1].text == "It is high."
    assert not any(isinstance(update, Decided) for update in updates)
    assert len(made) == 1
    assert TIDES in "".join(message.text for message in model.requests[0].messages)
