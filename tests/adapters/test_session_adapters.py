"""What the adapters share whose framework asks a person, and calls the tool again with the answer."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.adapters.conftest import ROOT

from prowess import Prowess
from prowess.adapters.agent_skills import AgentSkills
from prowess.errors import Unavailable

LOAD = ("load_skill", {"skill": "commit-messages"})


@pytest.fixture
async def prowess(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Prowess]:
    """An engine with a skill that nobody has accepted yet."""
    monkeypatch.delenv("PROWESS_TRUSTED_FOLDERS")
    workspace = Path(shutil.copytree(ROOT / "examples/workspace", tmp_path / "workspace"))
    async with Prowess.open(workspace) as opened:
        yield opened


async def _ask(skills: AgentSkills) -> str:
    result = await skills.call(*LOAD)
    assert result.approval is not None, "loading a skill asks like every other call, though its answer is not an error"
    assert result.data["body"] is None
    return result.approval.id


@pytest.mark.anyio
async def test_an_approved_call_is_made(prowess: Prowess) -> None:
    skills = AgentSkills(prowess, conversation="chat")

    result = await skills.resume(await _ask(skills), *LOAD, approved=True)

    assert result.approval is None
    assert "72 characters" in result.data["body"]


@pytest.mark.anyio
async def test_a_denied_call_is_refused_by_the_gate(prowess: Prowess) -> None:
    skills = AgentSkills(prowess, conversation="chat")

    result = await skills.resume(await _ask(skills), *LOAD, approved=False)

    assert (result.approval, result.data["body"]) == (None, None)
    assert "denied" in result.data["error"]


@pytest.mark.anyio
async def test_an_answer_that_contradicts_one_given_elsewhere_makes_no_call(prowess: Prowess) -> None:
    skills = AgentSkills(prowess, conversation="chat")
    asked = await _ask(skills)
    await prowess.approvals.resolve(asked, approved=True)

    result = await skills.resume(asked, *LOAD, approved=False)

    assert not result.ok
    assert not result.data.get("body")


@pytest.mark.parametrize(
    ("adapter", "package"),
    [
        ("agent_framework", "agent_framework"),
        ("claude_agent", "claude_agent_sdk"),
        ("google_adk", "google.adk.agents.readonly_context"),
        ("crewai", "crewai"),
        ("llama_index", "llama_index.core.agent.workflow"),
    ],
)
def test_an_adapter_without_its_framework_says_what_to_install(
    adapter: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(Unavailable, match="is not installed") as caught:
        importlib.import_module(f"prowess.adapters.{adapter}")

    assert caught.value.hint == f"Run `pip install 'prowess[{adapter.replace('_', '-')}]'`."
