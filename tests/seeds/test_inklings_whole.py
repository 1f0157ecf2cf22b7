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
