"""Inklings: the DSPy part of its Consistency Checker, run as the page prints it, in the real sidecar."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prowess.llm.scripted import ScriptedModel
from prowess.open import Prowess

pytestmark = pytest.mark.anyio

PYTHON = Path(__file__).resolve().parents[2] / ".venv" / "sidecar" / "bin" / "python"
CLAIMS = [
    {"page_name": "Harbour", "text": "The harbour was built in 1201."},
    {"page_name": "Chronicle", "text": "The harbour was built in 1340."},
]
THOUGHT = (
    "[[ ## reasoning ## ]]\nThe years differ.\n\n[[ ## contradictions ## ]]\nClaims 1 and 2.\n\n[[ ## completed ## ]]"
)


@pytest.fixture
def document(printed: Callable[..., str]) -> dict[str, Any]:
    text = printed("inklings", '{ "id": "550e8400', "Artifact Kinds\n", keep='{ "id": "550e8400')
    return json.loads(text)


@pytest.fixture
def kept(sandboxed, tmp_path) -> Callable[[dict[str, Any]], AbstractAsyncContextManager[Prowess]]:
    """An engine with the sidecar, which keeps a printed package in its workspace."""
    if not PYTHON.exists():
        pytest.skip("There is no .venv/sidecar. Run: scripts/setup")
    place = replace(sandboxed, environment={**sandboxed.environment, "PROWESS_SIDECAR": str(PYTHON)})

    for name, year in (("chronicle", 1340), ("harbour", 1201)):
        (place.workspace / f"{name}.md").write_text(f"# {name.title()}\nThe harbour was built in {year}.\n")

    @asynccontextmanager
    async def keep(*documents: dict[str, Any]) -> AsyncIterator[Prowess]:
        async with place.open() as engine:
            for number, document in enumerate(documents):
                file = tmp_path / f"{number}.json"
                file.write_text(json.dumps(document))
                [imported] = await engine.skills.import_path(file)
                if imported.error is not None:
                    raise imported.error
            yield engine

    return keep


def saved_state(instructions: str, **more: Any) -> str:
    fields = [{"prefix": f"{name}:", "description": name} for name in ("Claims", "Reasoning", "Contradictions")]
    state = {"predict": {"demos": [], "signature": {"instructions": instructions, "fields": fields}, **more}}
    return base64.b64encode(json.dumps(state).encode()).decode()


@pytest.mark.long
async def test_the_checker_runs_whole_as_printed_with_its_dspy_module_and_scripts_reach_one(kept, document) -> None:
    state = saved_state("Compare the years.", lm={"temperature": 0.25, "api_base": "https://evil.example"})
    optimised = {
        "name": "Optimised",
        "description": "The module with a state.",
        "artifacts": [document["artifacts"][1], {**document["artifacts"][3], "state_blob": state}],
    }
    script = "import inklings\ninklings.submit(inklings.run_skill('optimised', {'claims': {{ claims }}}))"
    caller = {
        "name": "Caller",
        "description": "Runs the other one.",
        "artifacts": [{"kind": "code_template", "name": "script", "content": script}],
    }
    async with kept(document, optimised, caller) as prowess:
        # One answer for each page, then the module's: the state that the page prints is a placeholder.
        with ScriptedModel(['["Built in 1201."]', '["Built in 1340."]', THOUGHT]) as model:
            printed = await prowess.run("consistency-checker", {"entity_type": "harbour"}, model=model)
        with ScriptedModel([THOUGHT]) as inner:
            called = await prowess.run("caller", {"claims": CLAIMS}, model=inner)
        rows = await prowess.traces.list()
    assert [part.artifact for part in printed.parts] == ["Overview", "Cross-Reference Script", "DSPy Checker"]
    assert printed.output.data == {"contradictions": "Claims 1 and 2."}
    assert "Built in 1340." in model.requests[-1].messages[-1].text
    assert called.output.data == printed.output.data
    assert "Compare the years." in inner.requests[0].messages[0].text
    assert inner.requests[0].temperature == 0.25
    assert [row.status for row in rows if row.artifact_kind == "dspy_module"] == ["ok", "ok"]
