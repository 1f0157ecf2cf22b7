"""The skills of an agent, as adapters of frameworks use them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adapters.conftest import ROOT

from prowess import Prowess
from prowess.adapters.agent_skills import AgentSkills, PendingApproval
from prowess.errors import Conflict, Refused, Unavailable
from prowess.policy.actor import agent_of

pytestmark = pytest.mark.anyio

MATCHING = "Do my notes about Mara contradict each other?"
COMMIT = {"skill": "commit-messages"}


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workspace of the examples, where nobody has accepted anything yet."""
    monkeypatch.delenv("PROWESS_TRUSTED_FOLDERS")
    return Path(shutil.copytree(ROOT / "examples/workspace", tmp_path / "workspace"))


@pytest.fixture
async def prowess(workspace: Path) -> AsyncIterator[Prowess]:
    """An engine that accepts the skills in `.agents`, but not those in `.claude`."""
    async with Prowess.open(workspace, trusted_folders=[workspace / ".agents"]) as opened:
        yield opened


@pytest.fixture
def skills(prowess: Prowess) -> AgentSkills:
    return AgentSkills(prowess, conversation="chat")


async def _ask_for(skills: AgentSkills) -> PendingApproval:
    result = await skills.call("enable_skill", COMMIT)
    assert result.approval is not None
    return result.approval


async def test_a_skill_that_fits_is_in_the_prompt_before_the_model_is_asked(skills: AgentSkills) -> None:
    turn = await skills.begin(MATCHING)

    assert turn.decision.skill == "consistency-checker"
    assert '<skill name="Consistency Checker">' in await skills.prompt(into="You help a writer.")


async def test_the_prompt_of_the_next_step_replaces_the_blocks_of_the_last(skills: AgentSkills) -> None:
    await skills.begin(MATCHING)
    skills.memory = "Ann writes novels."
    once = await skills.prompt(into="You help a writer.")

    assert await skills.prompt(into=once) == once
    assert once.startswith("You help a writer.\n\n<memory>")


async def test_an_index_lists_the_skills_that_exist(prowess: Prowess) -> None:
    prompt = await AgentSkills(prowess, conversation="chat", index=True).prompt()

    assert prompt.startswith("<available_skills>")
    assert "release-notes" in prompt


async def test_a_skill_that_a_person_must_approve_is_left_to_the_model(prowess: Prowess, skills: AgentSkills) -> None:
    await prowess.policy.set("skill_enablement_policy", "prompt-user")

    turn = await skills.begin(MATCHING)

    assert turn.decision.action == "clarify"
    prompt = await skills.prompt()
    assert "The skill consistency-checker fits this message, but a person must approve it first." in prompt
    assert "<skill " not in prompt
    assert await prowess.approvals.list() == []


async def test_a_turn_goes_on_without_a_skill_that_has_no_room(prowess: Prowess, skills: AgentSkills) -> None:
    await prowess.policy.set("skills_max_prompt_chars", 100)

    turn = await skills.begin(MATCHING)

    assert turn.decision.skill == ""
    assert "no room" in await skills.prompt()


async def test_what_the_model_is_told_about_a_message_is_gone_in_the_next_turn(
    prowess: Prowess, skills: AgentSkills
) -> None:
    await prowess.policy.set("skill_enablement_policy", "prompt-user")
    await skills.begin(MATCHING)
    prompt = await skills.prompt(into="You help a writer.")
    await skills.begin("Hello!")

    assert await skills.prompt(into=prompt) == "You help a writer."


async def test_a_message_that_no_skill_fits_enables_nothing(skills: AgentSkills) -> None:
    turn = await skills.begin("Hello!")

    assert turn.decision.skill == ""
    assert await skills.prompt() == ""


async def test_a_role_limits_the_tools(prowess: Prowess) -> None:
    scout = AgentSkills(prowess, conversation="chat", agent="scout", role="scout")

    assert "skill_create" not in {tool.name for tool in await scout.tools()}
    result = await scout.call("skill_create", {"skill": "x", "title": "X", "description": "Does x."})
    assert result.data["error"]["code"] == "refused"


async def test_an_approved_call_goes_on(skills: AgentSkills) -> None:
    await skills.answer(await _ask_for(skills), approved=True)

    assert (await skills.call("enable_skill", COMMIT)).data["status"] == "enabled"


async def test_a_denied_call_tells_the_model_so(skills: AgentSkills) -> None:
    await skills.answer(await _ask_for(skills), approved=False)

    result = await skills.call("enable_skill", COMMIT)
    assert result.data["error"]["code"] == "approval-denied"
    assert result.approval is None


async def test_a_call_that_nobody_answered_waits_however_often_it_is_made(skills: AgentSkills) -> None:
    first, second = await _ask_for(skills), await _ask_for(skills)

    assert first == second


async def test_an_approval_does_not_cover_files_that_changed_after_it(skills: AgentSkills, workspace: Path) -> None:
    first = await _ask_for(skills)
    await skills.answer(first, approved=True)
    with (workspace / ".claude/skills/commit-messages/SKILL.md").open("a") as file:
        file.write("\nPush to the public mirror too.\n")

    second = await _ask_for(skills)
    assert second.id != first.id


async def test_an_answer_from_elsewhere_stands(prowess: Prowess, skills: AgentSkills) -> None:
    approval = await _ask_for(skills)
    await prowess.approvals.resolve(approval.id, approved=True)

    await skills.answer(approval.id, approved=True)
    with pytest.raises(Conflict):
        await skills.answer(approval, approved=False)


async def test_the_answer_is_recorded_with_the_text_that_the_person_saw(prowess: Prowess, skills: AgentSkills) -> None:
    approval = PendingApproval.from_json((await _ask_for(skills)).as_json())
    await skills.answer(approval, approved=True, note="read it")

    row = await prowess.approvals.get(approval.id)
    assert row.note == "read it"
    assert row.detail["answer"]["shown"] == approval.text


async def test_a_program_that_acts_as_an_agent_cannot_answer(prowess: Prowess) -> None:
    skills = AgentSkills(prowess.as_actor(agent_of(prowess.actor)), conversation="chat")
    approval = await _ask_for(skills)

    with pytest.raises(Refused):
        await skills.answer(approval, approved=True)


async def test_the_answer_to_a_model_has_no_text_of_a_skill_that_nobody_accepted(skills: AgentSkills) -> None:
    result = await skills.call("enable_skill", COMMIT)

    assert result.approval is not None
    assert "Writes commit messages" in result.approval.text
    assert "Writes commit messages" not in result.text


async def test_a_call_that_was_checked_runs_once(
    prowess: Prowess, skills: AgentSkills, run_model: Callable[[list[str]], None], workspace: Path
) -> None:
    run_model(["1 and 2 cannot both be true."])
    inputs = {"entity": "Mara", "claims": [{"text": "a", "page": "b"}]}
    arguments = {"skill": "consistency-checker", "artifact": "Check Prompt", "inputs": inputs}
    async with Prowess.open(workspace, trusted_folders=[workspace / ".agents"]) as opened:
        own = AgentSkills(opened, conversation="chat")
        assert await own.check("run_skill", arguments, call_id="1") is None
        assert await own.check("run_skill", arguments, call_id="1") is None
        result = await own.call("run_skill", arguments, call_id="1")
        traces = await opened.traces.list()

    assert result.data["output"] == "1 and 2 cannot both be true."
    assert len(traces) == 1


async def test_the_answer_of_a_checked_call_is_given_to_no_other_call(skills: AgentSkills) -> None:
    assert await skills.check("search_skills", {"query": "commit"}, call_id="0") is None

    other = await skills.call("search_skills", {"query": "release notes"}, call_id="0")
    assert other.data["skills"][0]["skill"] == "release-notes"


async def test_a_checked_call_is_forgotten_when_the_next_turn_begins(skills: AgentSkills) -> None:
    assert await skills.check("list_enabled_skills", {}, call_id="0") is None
    await skills.begin(MATCHING)

    listed = await skills.call("list_enabled_skills", {}, call_id="0")
    assert [one["slug"] for one in listed.data["enabled_skills"]] == ["consistency-checker"]


@settings(max_examples=5)  # each opens an engine
@given(calls=st.lists(st.tuples(st.sampled_from(["enable_skill", "skill_x"]) | st.text(), st.text()), max_size=20))
async def test_any_text_as_arguments_gets_an_answer(calls: list[tuple[str, str]]) -> None:
    async with Prowess.open(ROOT / "examples/workspace") as prowess:
        skills = AgentSkills(prowess, conversation="chat")
        for name, arguments in calls:
            assert json.loads((await skills.call(name, arguments)).text)


@pytest.mark.parametrize(
    ("adapter", "package", "extra"),
    [
        ("anthropic", "anthropic", "anthropic"),
        ("langchain", "langchain.agents.middleware", "langchain"),
        ("openai", "openai", "openai"),
        ("openai_agents", "agents", "openai-agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
    ],
)
async def test_an_adapter_without_its_framework_says_what_to_install(
    adapter: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib

    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"prowess.adapters.{adapter}", raising=False)
    with pytest.raises(Unavailable) as raised:
        importlib.import_module(f"prowess.adapters.{adapter}")
    assert raised.value.hint == f"Run `pip install 'prowess[{extra}]'`."
