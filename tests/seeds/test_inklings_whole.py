"""Inklings: a Consistency Checker run whole over a workspace of pages, its script in the sandbox, its DSPy part by the prompt."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prowess.llm.scripted import Answer, ScriptedModel
from prowess.open import Prowess
from prowess.settings import read_settings
from prowess.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/workspace"


@pytest.fixture
def sample(place, sandbox_home: Path) -> Callable[[], Prowess]:
    """An engine over a copy of the sample workspace, with the sandbox built."""
    shutil.copytree(EXAMPLE, place.workspace, dirs_exist_ok=True)
    home = Path(place.environment["PROWESS_HOME"])
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copytree(sandbox_home / "sandbox", home / "sandbox")
    return lambda: Prowess.open(settings=read_settings(place.environment))


async def test_it_collects_claims_from_the_pages_and_asks_about_them(sample):
    answers = [
        Answer(when="Keeper of the [[Grey Light]]", reply={"claims": ["Mara was born in 388."]}),
        Answer(when="| 391 |", reply={"claims": ["Mara was born in 391."]}),
        Answer(when="These claims are all about", reply="Claims 1 and 2 cannot both be true: 388 or 391."),
        *[Answer(when="list its factual claims", reply={"claims": []}) for _ in range(3)],
    ]
    async with sample() as prowess:
        with ScriptedModel(answers, unordered=True) as model:
            result = await prowess.run("consistency-checker", {"entity": "Mara"}, model=model)
        rows = await prowess.traces.list()
    assert [(part.artifact, part.status) for part in result.parts] == [
        ("Overview", "ok"),
        ("Cross-Reference Script", "ok"),
        ("DSPy Checker", "unavailable"),
        ("Check Prompt", "ok"),
    ]
    collected = result.parts[1].output
    assert collected is not None
    assert {claim["page"] for claim in collected.data["claims"]} == {"characters/mara-venn", "timeline"}
    assert result.text == "Claims 1 and 2 cannot both be true: 388 or 391."
    assert len(rows) == 4
    assert {row.run_id for row in rows} == {result.run_id}


async def test_a_script_and_an_agent_run_another_skill_by_the_id_of_its_package(sample, tmp_path, printed):
    page = printed("inklings", "The bridge between the WASM sandbox", "Sidecar service modes")
    assert "run_skill(skill_id, params)" in page
    adder = "a1b2c3d4-e29b-41d4-a716-446655440000"
    scripts = {
        "Adder": (adder, "import inklings\ninklings.submit(sum({{ numbers }}))"),
        "Caller": (
            adder.replace("a1", "b1"),
            f"import inklings\ninklings.submit(inklings.run_skill('{adder}', {{'numbers': [1, 2]}}))",
        ),
    }
    async with sample() as prowess:
        for name, (package, code) in scripts.items():
            artifact = {"kind": "code_template", "name": "Script", "content": code}
            about = {"id": package, "name": name, "description": f"{name} of numbers.", "artifacts": [artifact]}
            file = tmp_path / f"{name}.json"
            file.write_text(json.dumps(about))
            await prowess.skills.import_path(file)
        assert (await prowess.run("caller")).data == 3
        answer = await Toolbox(prowess).call("run_skill", {"skill_id": adder, "params": {"numbers": [2, 2]}})
    assert (answer.data["skill"], answer.data["output"]) == ("adder", 4)


async def test_the_printed_script_runs_through_the_engine(sample, tmp_path, printed):
    text = printed("inklings", '{ "id": "550e8400', "Artifact Kinds\n", keep='{ "id": "550e8400')
    document: dict[str, Any] = json.loads(text)
    document["name"] = "Printed Checker"
    file = tmp_path / "printed-checker.json"
    file.write_text(json.dumps(document))
    async with sample() as prowess:
        await prowess.skills.import_path(file)
        model = ScriptedModel([f"- claim {number}" for number in range(20)])
        result = await prowess.run(
            "printed-checker", {"entity_type": "character"}, artifacts="Cross-Reference Script", model=model
        )
    assert result.data["entity_type"] == "character"
    assert result.data["claims"][0] == "claim 0"
    assert all("Extract factual claims about character entities" in _asked(request) for request in model.requests)


def _asked(request: Any) -> str:
    return request.messages[-1].text
