"""A question of one process can be answered at another: the sealed state has the question and the caller."""

from __future__ import annotations

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, InputRequiredResult

from prowess.interfaces.auth.caller import Caller
from prowess.policy.actor import agent_of, local_person

pytestmark = pytest.mark.anyio

ARGUMENTS = {"skill_slug": "invoice-reader"}
YES = {"approval": ElicitResult(action="accept", content={"approve": True})}


@pytest.fixture
async def guarded(engine):
    await engine.as_actor(local_person("ann")).policy.set("skill_enablement_policy", "prompt-user")
    return engine


async def nobody(context, params):
    raise AssertionError("the session is driven by hand")


async def asked(connect) -> InputRequiredResult:
    async with connect("auto", elicitation_callback=nobody) as client:
        return await client.session.call_tool("enable_skill", ARGUMENTS, allow_input_required=True)


async def answered(connect, state, *, arguments=ARGUMENTS, answers=YES, **options):
    async with connect("auto", elicitation_callback=nobody, **options) as client:
        try:
            return await client.session.call_tool(
                "enable_skill", arguments, input_responses=answers, request_state=state, allow_input_required=True
            )
        except MCPError as refused:
            return refused.error


async def test_another_process_with_the_same_key_takes_the_answer(in_memory, guarded):
    question = await asked(in_memory)
    assert isinstance(question, InputRequiredResult)
    done = await answered(in_memory, question.request_state)
    assert not done.is_error


async def test_the_question_is_the_same_when_it_is_put_again(in_memory, guarded):
    first, second = await asked(in_memory), await asked(in_memory)
    assert first.input_requests == second.input_requests
    assert first.request_state != second.request_state


async def test_an_answer_without_the_state_of_its_question_counts_for_nothing(in_memory, guarded):
    again = await answered(in_memory, None)
    assert isinstance(again, InputRequiredResult)
    assert not await guarded.as_actor(local_person("ann")).approvals.list(("approved",))


@pytest.mark.parametrize(
    "other",
    [
        {"key": b"x" * 32},
        {"arguments": {"skill_slug": "release-notes"}},
        {
            "caller": Caller(
                actor=agent_of(local_person("eve"), name="other"), person=local_person("eve"), approvals_by=("mcp",)
            )
        },
    ],
)
async def test_a_state_of_another_key_call_or_caller_is_rejected(in_memory, guarded, other):
    question = await asked(in_memory)
    refused = await answered(in_memory, question.request_state, **other)
    assert refused.message == "Invalid or expired requestState"
    assert not await guarded.as_actor(local_person("ann")).approvals.list(("approved",))


async def test_a_skill_that_changed_under_the_question_is_asked_about_anew(in_memory, guarded, write_skill):
    question = await asked(in_memory)
    write_skill("invoice-reader", "---\nname: invoice-reader\ndescription: Another.\n---\n\nSomething else.\n")
    await guarded.skills.reload()
    again = await answered(in_memory, question.request_state)
    assert isinstance(again, InputRequiredResult)
    assert not await guarded.as_actor(local_person("ann")).approvals.list(("approved",))
