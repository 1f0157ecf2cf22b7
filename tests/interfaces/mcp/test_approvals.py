"""Approvals over MCP: asked in a client that the operator allows, otherwise refused until a person answers elsewhere.

An agent that answers its own question is not a person.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

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
    assert pending.id[:8] in answer.structured_content["hint"]


@pytest.mark.parametrize(("name", "arguments"), CALLS)
async def test_a_client_that_cannot_ask_is_told_which_approval_to_tell_the_person_of(
    in_memory, guarded, mode, name, arguments
):
    async with in_memory(mode) as client:
        answer = await client.call_tool(name, arguments)
        with pytest.raises(MCPError) as refused:
            await client.read_resource("skill://invoice-reader/SKILL.md")
    (first, *_) = await guarded.as_actor(local_person("ann")).approvals.list()
    assert answer.is_error
    assert first.slug == "invoice-reader"
    for hint in (answer.structured_content["hint"], refused.value.error.data["hint"]):
        assert hint.startswith("Tell the user that request ")
        assert "prowess approvals approve" not in hint
    assert "Read them" not in json.dumps(answer.structured_content)


ANN = local_person("ann")


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "caller",
    [
        Caller(actor=agent_of(ANN)),
        Caller(actor=agent_of(ANN), person=ANN),
        Caller(actor=agent_of(ANN), person=ANN, approvals_by=("claude-code",)),
        Caller(actor=agent_of(ANN), person=agent_of(ANN), approvals_by=("mcp",)),
        Caller(actor=agent_of(ANN), person=replace(ANN, permissions=frozenset({"skills.read"})), approvals_by=("mcp",)),
    ],
    ids=["no person", "not allowed", "another client is allowed", "the person is an agent", "no right to approve"],
)
async def test_an_agent_that_answers_its_own_question_is_not_a_person(in_memory, guarded, mode, caller):
    itself = Person()
    async with in_memory(mode, caller=caller, elicitation_callback=itself) as client:
        answer = await client.call_tool("enable_skill", {"skill_slug": "invoice-reader"})
        with pytest.raises(MCPError):
            await client.read_resource("skill://invoice-reader/SKILL.md")
    assert answer.is_error
    assert itself.questions == []
    assert not await guarded.as_actor(ANN).approvals.list(("approved", "denied"))


async def test_the_audit_names_the_client_the_proof_and_the_text_that_it_was_given_to_show(in_memory, guarded, mode):
    person = Person()
    async with in_memory(mode, elicitation_callback=person) as client:
        await client.call_tool("enable_skill", {"skill_slug": "invoice-reader"})
    engine = guarded.as_actor(ANN)
    (approval,) = await engine.approvals.list(("approved",))
    assert approval.detail["channel"] == "mcp:mcp"
    assert approval.detail["answer"]["proof"] == "form in mcp, allowed by the operator"
    assert approval.detail["answer"]["shown"] == person.questions[0]
    (row,) = [row for row in await engine.audit.rows() if row.action == "approve"]
    assert row.detail["channel"] == "mcp:mcp"
    assert row.detail["proof"] == "form in mcp, allowed by the operator"
    assert row.detail["shown_sha256"] == hashlib.sha256(person.questions[0].encode()).hexdigest()


FAR = """---
name: far
description: Reaches far.
metadata:
  title: Far
---

Do it.
"""
NEEDS = "hosts: [{hosts}]\nenv: [BANK_PASSWORD]\nroots: ['rw:ledger', notes]\n"
HOSTS = [f"padding-{number}.a-quite-long-name-of-a-host.example" for number in range(1, 13)] + ["thirteenth.example"]


async def test_the_thirteenth_host_the_secret_and_the_writable_folder_are_shown(in_memory, guarded, mode, write_skill):
    write_skill("far", FAR, **{"agents/prowess.yaml": NEEDS.format(hosts=", ".join(HOSTS))})
    person = Person()
    async with in_memory(mode, elicitation_callback=person) as client:
        await client.call_tool("enable_skill", {"skill_slug": "far"})
    (question,) = person.questions
    places = [question.index(what) for what in ("BANK_PASSWORD", "ledger", *HOSTS, "notes", "Reaches far.")]
    assert places == sorted(places)


async def test_what_is_too_long_for_a_form_is_not_asked_in_one(in_memory, guarded, mode, write_skill):
    hosts = [f"{'a' * 60}.{'b' * 60}.{'c' * 60}.h{number}.example" for number in range(50)]
    write_skill("far", FAR, **{"agents/prowess.yaml": NEEDS.format(hosts=", ".join(hosts))})
    person = Person()
    async with in_memory(mode, elicitation_callback=person) as client:
        answer = await client.call_tool("enable_skill", {"skill_slug": "far"})
        with pytest.raises(MCPError) as refused:
            await client.read_resource("skill://far/SKILL.md")
    waiting = {row.id[:8] for row in await guarded.as_actor(ANN).approvals.list()}
    assert person.questions == []
    for hint in (answer.structured_content["hint"], refused.value.error.data["hint"]):
        assert "too long for a form" in hint
        assert any(f"{one} is waiting for approval at a terminal" in hint for one in waiting)


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
    assert "content changed" not in first
    assert "content changed since it was approved by ann" in second
    assert "Files changed: scripts/total.py" in second
    assert "Files added: scripts/new.py" in second
    assert "Files removed: assets/stamp.png" in second
