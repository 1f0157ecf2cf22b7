"""Approvals over MCP: asked in the client if it can ask, otherwise refused with the command that approves."""

from __future__ import annotations

import json

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from prowess.interfaces.auth.caller import Caller
from prowess.policy.actor import agent_of, local_person

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", ["auto", "legacy"])]

CALLS = [
    ("enable_skill", {"skill_slug": "invoice-reader", "reason": "There is a bill."}),
    ("load_skill", {"name": "invoice-reader"}),
    ("read_skill_resource", {"skill_name": "invoice-reader", "resource_name": "scripts/total.py"}),
]


@pytest.fixture
async def guarded(engine):
    """Set a policy that requires an approval for every skill."""
    await engine.as_actor(local_person("ann")).policy.set("skill_enablement_policy", "prompt-user")
    return engine


class Person:
    """A person who gives the same answer to every question, and keeps the questions."""

    def __init__(self, action: str = "accept", *, approve: bool = True) -> None:
        self.answer = ElicitResult(action=action, content={"approve": approve} if action == "accept" else None)
        self.questions: list[str] = []

    async def __call__(self, _context, params):
        self.questions.append(params.message)
        return self.answer


@pytest.mark.parametrize(("name", "arguments"), CALLS)
async def test_the_person_is_asked_once_and_the_call_goes_on(in_memory, guarded, mode, name, arguments):
    person = Person()
    async with in_memory(mode, elicitation_callback=person) as client:
        answer = await client.call_tool(name, arguments)
        again = await client.call_tool(name, arguments)
    assert not answer.is_error
    assert not again.is_error
    (question,) = person.questions
    assert "invoice-reader" in question
    assert "agent:agent" in question
    (approval,) = await guarded.as_actor(local_person("ann")).approvals.list(("approved",))
    assert approval.resolver == "ann"


async def test_reading_a_file_as_a_resource_passes_the_same_gate(in_memory, guarded, mode):
    person = Person()
    async with in_memory(mode, elicitation_callback=person) as client:
        listed = [resource.uri for resource in (await client.list_resources()).resources]
        result = await client.read_resource("skill://invoice-reader/SKILL.md")
    assert "skill://invoice-reader/SKILL.md" in listed
    assert "Read them" in result.contents[0].text
    assert len(person.questions) == 1


@pytest.mark.parametrize("person", [Person("decline"), Person("accept", approve=False)])
async def test_no_is_final(in_memory, guarded, mode, person):
    async with in_memory(mode, elicitation_callback=person) as client:
        answer = await client.call_tool("enable_skill", {"skill_slug": "invoice-reader"})
        with pytest.raises(MCPError):
            await client.read_resource("skill://release-notes/SKILL.md")
    assert answer.is_error
    assert answer.structured_content["error"]["code"] == "approval-denied"
    assert not await guarded.as_actor(local_person("ann")).approvals.list(("approved",))
    assert len(await guarded.as_actor(local_person("ann")).approvals.list(("denied",))) == 2


async def test_a_question_that_is_put_away_stays_open(in_memory, guarded, mode):
    async with in_memory(mode, elicitation_callback=Person("cancel")) as client:
        answer = await client.call_tool("enable_skill", {"skill_slug": "invoice-reader"})
    (pending,) = await guarded.as_actor(local_person("ann")).approvals.list()
    assert answer.is_error
    assert answer.structured_content["hint"].count(f"prowess approvals approve {pending.id[:8]}") == 1


@pytest.mark.parametrize(("name", "arguments"), CALLS)
async def test_a_client_that_cannot_ask_gets_the_command_for_the_person(in_memory, guarded, mode, name, arguments):
    async with in_memory(mode) as client:
        answer = await client.call_tool(name, arguments)
        with pytest.raises(MCPError) as refused:
            await client.read_resource("skill://invoice-reader/SKILL.md")
    (first, *_) = await guarded.as_actor(local_person("ann")).approvals.list()
    assert answer.is_error
    assert answer.structured_content["hint"].count("prowess approvals approve ") == 1
    assert first.slug == "invoice-reader"
    assert refused.value.error.data["hint"].count("prowess approvals approve ") == 1
    assert "Read them" not in json.dumps(answer.structured_content)


async def test_an_agent_without_a_person_cannot_answer_itself(in_memory, guarded, mode):
    person = Person()
    alone = Caller(actor=agent_of(local_person("ann")))
    async with in_memory(mode, caller=alone, elicitation_callback=person) as client:
        answer = await client.call_tool("enable_skill", {"skill_slug": "invoice-reader"})
    assert answer.is_error
    assert person.questions == []
    assert not await guarded.as_actor(local_person("ann")).approvals.list(("approved",))


async def test_the_question_about_changed_content_says_which_files_differ(in_memory, guarded, mode, workspace):
    person = Person()
    folder = workspace / ".agents/skills/invoice-reader"
    async with in_memory(mode, elicitation_callback=person) as client:
        await client.call_tool("enable_skill", {"skill_slug": "invoice-reader"})
        (folder / "scripts/total.py").write_text("print('another')\n")
        (folder / "scripts/new.py").write_text("print('new')\n")
        (folder / "assets/stamp.png").unlink()
        await client.call_tool("enable_skill", {"skill_slug": "invoice-reader"})
        await client.call_tool("load_skill", {"name": "invoice-reader"})
    first, second, *_ = person.questions
    assert "approved it before" not in first
    assert "approved it before with other content" in second
    assert "Files changed: scripts/total.py" in second
    assert "Files added: scripts/new.py" in second
    assert "Files removed: assets/stamp.png" in second
