"""Agents with tools of their own beside their skills, in their framework's environment."""

from __future__ import annotations

import json

import pytest
from tests.adapters.conftest import ROOT, RunExample
from tests.adapters.model_server import Reply, environment, serve_model

pytestmark = pytest.mark.long

ENABLE = ("enable_skill", {"skill": "commit-messages"})
LOAD = ("load_skill", {"skill": "commit-messages"})
PROGRAMS = ROOT / "tests/adapters/programs"
WORKSPACE = str(ROOT / "examples/workspace")


def test_answering_our_interruptions_approves_no_call_of_another_tool(run_there: RunExample) -> None:
    with serve_model(Reply(calls=(("send_mail", {}), ENABLE)), Reply(text="Not sent.")) as model:
        program = PROGRAMS / "openai_agents_own_tool.py"
        printed = run_there("openai-agents", program, WORKSPACE, typed=(), environment=environment(model.url))

    assert json.loads(printed) == {"both": ["enable_skill", "send_mail"], "left": ["send_mail"], "answer": "Not sent."}
    assert '<skill name="Commit messages">' in model.requests[1].system


def test_calls_that_wait_together_go_on_together_after_a_restart(run_there: RunExample) -> None:
    own = ("search_skills", {"query": "anything"})
    with serve_model(Reply(calls=(own, ENABLE, LOAD)), Reply(text="Both of them.")) as model:
        program = PROGRAMS / "langchain_own_tool.py"
        printed = run_there("langchain", program, WORKSPACE, typed=(), environment=environment(model.url))

    ended = json.loads(printed)
    assert ended["answer"] == "Both of them."
    assert ended["asked"] == ["enable_skill", "load_skill"]
    assert ended["made"] == ["anything"], "the agent's own tool was called once"
    assert "mine" in model.requests[1].text
    assert "If applied, this commit will" in model.requests[1].text, "the skill was loaded"
    assert '<skill name="Commit messages">' in model.requests[1].system
    assert [name for name in model.requests[0].tools if name == "search_skills"] == ["search_skills"]


def test_a_crew_matches_each_task_and_a_call_that_needs_an_approval_waits(run_there: RunExample) -> None:
    with serve_model(Reply(calls=(ENABLE,)), Reply(text="It waits.")) as model:
        options = {**environment(model.url), "MODEL": "openai/gpt-6-mini"}
        asked = "Do my notes about Mara contradict each other?"
        printed = run_there("crewai", PROGRAMS / "crewai_crew.py", asked, typed=(), environment=options)

    first, second = model.requests
    assert '<skill name="Consistency Checker">' in first.system
    assert "enable_skill" in first.tools
    assert "approval_id" in second.text
    assert '<skill name="Commit messages">' not in second.system
    assert "It waits." in printed.splitlines()
