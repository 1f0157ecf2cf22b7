"""A tool call that needs an approval waits for it, and goes on by itself once a person answers."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from mcp.shared.exceptions import MCPError

from prowess.policy.actor import local_person

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.long)]),
]

LONG = 120
ENABLE = ("enable_skill", {"skill": "release-notes", "reason": "There is a release."})


@pytest.fixture
async def asking(engine):
    """Return the engine as a person has it, with a policy under which enabling needs an approval."""
    await engine.policy.set("skill_enablement_policy", "prompt-user")
    return engine.as_actor(local_person("ann"))


class Progress:
    """Keeps the messages of progress notifications, and says when the first one arrives."""

    def __init__(self):
        self.messages = []
        self.arrived = asyncio.Event()

    async def __call__(self, _progress, _total, message):
        self.messages.append(message)
        self.arrived.set()


@pytest.mark.few(3)
@pytest.mark.parametrize("approved", [True, False])
async def test_the_call_goes_on_once_a_person_answers(asking, connect, mode, approved):
    progress = Progress()
    async with connect(mode, approval_seconds=LONG) as client:
        call = asyncio.create_task(client.call_tool(*ENABLE, progress_callback=progress))
        await asyncio.wait_for(progress.arrived.wait(), LONG)
        [row] = await asking.approvals.list()
        # Other calls are answered meanwhile.
        assert not (await client.call_tool("list_enabled_skills", {})).structured_content["enabled_skills"]
        await asking.approvals.resolve(row.id, approved=approved)
        answer = await asyncio.wait_for(call, LONG)
    assert progress.messages[0] == f"enable_skill: waiting for a person to approve {row.id[:8]}"
    if approved:
        assert answer.structured_content["status"] == "enabled"
        assert "Write." in answer.structured_content["content"]
    else:
        assert answer.structured_content["error"]["code"] == "approval-denied"


@pytest.mark.few(1)
async def test_the_answer_may_come_from_another_process(asking, in_memory, environment, workspace, mode):
    script = (
        "import asyncio, sys\n"
        "from prowess.open import Prowess\n"
        "async def main():\n"
        "    async with Prowess.open(sys.argv[1]) as prowess:\n"
        "        [row] = await prowess.approvals.list()\n"
        "        await prowess.approvals.resolve(row.id, approved=True)\n"
        "asyncio.run(main())\n"
    )
    progress = Progress()
    async with in_memory(mode, approval_seconds=LONG) as client:
        call = asyncio.create_task(client.call_tool(*ENABLE, progress_callback=progress))
        await asyncio.wait_for(progress.arrived.wait(), LONG)
        command = [sys.executable, "-c", script, str(workspace)]
        await asyncio.to_thread(subprocess.run, command, env=environment, check=True, timeout=LONG)
        answer = await asyncio.wait_for(call, LONG)
    assert answer.structured_content["status"] == "enabled"


async def test_without_an_answer_the_call_ends_with_the_id_to_come_back_with(asking, in_memory, mode):
    async with in_memory(mode, approval_seconds=0.05) as client:
        answer = (await client.call_tool(*ENABLE)).structured_content
        assert answer["error"]["code"] == "approval-required"
        assert answer["hint"].startswith(f"Nobody has answered the approval {answer['approval_id'][:8]} yet.")
        assert answer["hint"].endswith("Then call enable_skill again with the same arguments.")
        await asking.approvals.resolve(answer["approval_id"], approved=True)
        assert (await client.call_tool(*ENABLE)).structured_content["status"] == "enabled"


@pytest.mark.parametrize("first", ["tool", "resource"])
async def test_reading_the_skill_as_a_resource_joins_the_question(asking, in_memory, mode, first):
    async with in_memory(mode) as client:

        async def enable():
            return (await client.call_tool(*ENABLE)).structured_content["approval_id"]

        async def read():
            with pytest.raises(MCPError) as refused:
                await client.read_resource("skill://release-notes/SKILL.md")
            return refused.value.error.data["approval_id"]

        asked = [await one() for one in ((enable, read) if first == "tool" else (read, enable))]
        [row] = await asking.approvals.list()
        assert asked == [row.id, row.id]
        await asking.approvals.resolve(row.id, approved=True)
        enabled = (await client.call_tool(*ENABLE)).structured_content
        assert row.detail["chars"] == enabled["content_length"] == len(enabled["content"])


async def test_calls_of_one_client_run_side_by_side(asking, connect, mode):
    async with connect(mode, approval_seconds=LONG) as client:
        calls = {}
        for skill in ("invoice-reader", "release-notes"):
            progress = Progress()
            call = client.call_tool("enable_skill", {"skill": skill}, progress_callback=progress)
            calls[skill] = asyncio.create_task(call)
            await asyncio.wait_for(progress.arrived.wait(), LONG)
        found = await asyncio.gather(*(client.call_tool("search_skills", {"query": skill}) for skill in calls))
        assert [answer.structured_content["skills"][0]["skill"] for answer in found] == list(calls)
        rows = {row.slug: row for row in await asking.approvals.list()}
        # The call that came last is answered first, while the other still waits.
        for skill in reversed(list(calls)):
            await asking.approvals.resolve(rows[skill].id, approved=True)
            answer = await asyncio.wait_for(calls.pop(skill), LONG)
            assert answer.structured_content["skill"] == skill
            assert not any(call.done() for call in calls.values())
