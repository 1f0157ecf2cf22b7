"""Skills of connectors on the command line and in the tools of an agent."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.connectors.skill_servers import BODY, LIMITS, ROOT, URI, FakeSkillServer, connect_to

from prowess.connectors.connectors import Connectors
from prowess.connectors.hosted.skills import HostedSkills
from prowess.interfaces.cli.main import run
from prowess.policy.actor import Actor, agent_of
from prowess.tools.toolbox import Toolbox

ANN = Actor(name="ann")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeSkillServer:
    """A connector `docs` with one skill, which every engine reaches."""
    made = FakeSkillServer()
    made.add(references__limits_md=LIMITS)
    connect = connect_to(made)
    monkeypatch.setattr(Connectors, "hosted", property(lambda self: HostedSkills(self._context, connect)))
    return made


@pytest.mark.anyio
async def test_an_agent_finds_fetches_and_reads_a_skill_with_the_tools_it_has(place: Any, server: FakeSkillServer):
    place.environment["PROWESS_EMBEDDER"] = "none"
    async with place.open(ANN) as engine:
        await engine.policy.set("skills_dynamic_search_enabled", value=True)
        box = Toolbox(engine, actor=agent_of(ANN), conversation="chat")
        assert "read_skill_resource" in {tool.name for tool in await box.offered()}
        found = (await box.call("search_skills_registry", {"query": "refund", "source": "connector:docs"})).data
        chosen = {"source": "connector:docs", "skill_id": "refunds"}
        assert json.dumps(chosen) in found["hint"]
        assert "description" not in found["skills"][0]
        asked = (await box.call("fetch_registry_skill", chosen)).data
        await engine.approvals.resolve(asked["approval_id"], approved=True)
        used = (await box.call("fetch_registry_skill", chosen)).data
        assert (used["skill"], used["files"]) == ("docs.acme.billing.refunds", ["references/limits.md"])
        file = {"skill": used["skill"], "path": "references/limits.md"}
        assert (await box.call("read_skill_resource", file)).data["text"] == LIMITS
        server.files[f"{ROOT}/references/limits.md"] = b"other"
        assert (await box.call("read_skill_resource", file)).data["error"]["code"] == "conflict"
        assert (await box.call("disable_skill", {"skill": used["skill"]})).data["error"]["code"] == "not-found"
        wrong = (await box.call("search_skills_registry", {"query": "refund", "source": "elsewhere"})).data
        assert "connector:NAME" in wrong["hint"]


@pytest.fixture
def prowess(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command in this process, and return what it printed."""

    def call(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["prowess", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            run()
        out, err = capfd.readouterr()
        assert not ended.value.code, err
        return out if "--json" in arguments else out + err

    return call


def test_a_person_lists_reads_and_uses_skills_on_the_command_line(
    place: Any, server: FakeSkillServer, monkeypatch: pytest.MonkeyPatch, prowess: Callable[..., str]
):
    monkeypatch.chdir(place.workspace)
    server.add("skill://reports/daily")["resources"] = "dynamic"
    server.add("skill://broken")["resources"] = None
    prowess("policy", "set", "skills_dynamic_search_enabled", "true")
    prowess("policy", "set", "skills_dynamic_search_policy", "auto")
    listed = prowess("connector", "skills", "docs")
    assert "usable" in listed
    assert "dynamic" in listed
    assert "Left out: 'skill://broken/SKILL.md'" in listed
    assert json.loads(prowess("connector", "skills", "docs", "--json"))["skills"][0]["uri"] == URI
    assert BODY.strip() in prowess("connector", "read", "docs", URI)
    assert json.loads(prowess("connector", "read", "docs", f"{ROOT}/references/limits.md", "--json"))["text"] == LIMITS
    assert "1 skill enabled" in prowess("connector", "use", "docs", "refunds")
    assert f"connector:docs {URI}" in prowess("prompt")
