"""Inklings: its cross-reference script, run as the page prints it, over a workspace and a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from prowess.handlers.code_template import CodeTemplateHandler
from prowess.handlers.host_functions import HOST_FUNCTION_NAMES, HostModule
from prowess.llm.scripted import Answer, ScriptedModel
from prowess.sandbox.wasm.sandbox import WasmSandbox
from prowess.skill.forms import read_package
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.workspace.workspace import Workspace

NAME = "Cross-Reference Script"


@pytest.fixture
def skill(printed: Callable[..., str]) -> Skill:
    text = printed("inklings", '{ "id": "550e8400', "Artifact Kinds\n", keep='{ "id": "550e8400')
    return read_package(Package.of_texts("consistency-checker.json", {"consistency-checker.json": text})).skill


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "harbour.md").write_text("---\ntitle: Harbour\ntype: location\n---\nBuilt in 1201.")
    (tmp_path / "tower.md").write_text("---\ntitle: Tower\ntype: location\n---\nIt has nine floors.")
    (tmp_path / "ann.md").write_text("---\ntitle: Ann\ntype: character\n---\nShe is a diver.")
    return Workspace(tmp_path)


@pytest.fixture
def run(skill, workspace, sandbox_home, new_call, model_client):
    """What the printed script gives for a type of entity, answered by a model."""

    def ran(entity_type: str, model: ScriptedModel):
        artifact = next(one for one in skill.artifacts if one.name == NAME)
        call = new_call(skill, artifact, {"entity_type": entity_type}, model=model)

        async def go():
            sandbox = WasmSandbox(sandbox_home)
            try:
                return await CodeTemplateHandler(sandbox, HostModule(model_client, workspace)).run(call)
            finally:
                await sandbox.close()

        return asyncio.run(go())

    return ran


def test_the_printed_script_collects_the_claims_of_every_page_of_the_type(run):
    answers = [
        Answer(when="Built in 1201", reply="- The harbour was built in 1201."),
        Answer(when="nine floors", reply=json.dumps(["The tower has nine floors.", "It is a tower."])),
    ]
    with ScriptedModel(answers, unordered=True) as model:
        output = run("location", model)
    assert output.data["entity_type"] == "location"
    assert sorted(output.data["claims"]) == [
        "It is a tower.",
        "The harbour was built in 1201.",
        "The tower has nine floors.",
    ]
    assert all("factual claims about location entities" in one.messages[0].text for one in model.requests)


@pytest.mark.few(2)
@pytest.mark.parametrize("hostile", ["'); inklings.submit('forged'); ('", "location'\n", "{entity_type}", "\\", '"""'])
def test_no_input_becomes_code_of_the_printed_script(run, hostile):
    model = ScriptedModel([Answer(when=lambda _: True, reply="none")] * 3, unordered=True)
    output = run(hostile, model)
    assert output.data["entity_type"] == hostile


def test_every_host_function_that_the_page_names_is_there(printed):
    listed = printed("inklings", "Host functions available: ", ". See")
    named = {name.strip() for name in listed.replace("\n", " ").split(",")}
    assert named <= {*HOST_FUNCTION_NAMES, "submit"}
