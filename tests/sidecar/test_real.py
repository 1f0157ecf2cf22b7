"""The real program in its environment, through the engine: templates that use the sandbox, tools and assertions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from prowess.errors import Invalid
from prowess.llm.scripted import ScriptedModel
from prowess.run.request import RunRequest

from .conftest import REAL_PYTHON

pytestmark = pytest.mark.anyio


def fields(**values: Any) -> str:
    """An answer in the form that DSPy asks for."""
    return "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in {**values, "completed": ""}.items())


MODULES: dict[str, dict[str, Any]] = {
    "compute": {"template_id": "program_of_thought", "signature": "question -> answer: int"},
    "look-up": {"template_id": "react", "signature": "question -> answer", "tools": ["get_page"]},
    "improve": {"template_id": "refine", "signature": "question -> answer", "n": 2},
    "unknown": {"template_id": "guess", "signature": "question -> answer"},
}


@pytest.fixture
def place(sandboxed):
    if not REAL_PYTHON.exists():
        pytest.skip("There is no .venv/sidecar. Run: scripts/setup")
    pattern = {"type": "pattern", "check": "match", "pattern": "1201", "description": "It has the year."}
    for slug, content in MODULES.items():
        module = {"path": "dspy/m.json", "kind": "dspy_module", "name": "m", "fallback": "ask"}
        asserted = {**module, "assertions": [pattern]} if slug == "improve" else module
        listed = [asserted, {"path": "prompts/ask.j2", "kind": "prompt_template", "name": "ask"}]
        files = {"agents/prowess.yaml": json.dumps({"title": slug, "artifacts": listed}), "prompts/ask.j2": "x"}
        sandboxed.skill(slug, files={**files, "dspy/m.json": json.dumps(content)})
    (sandboxed.workspace / "harbour.md").write_text("# Harbour\nBuilt in 1201.\n")
    return replace(sandboxed, environment={**sandboxed.environment, "PROWESS_SIDECAR": str(REAL_PYTHON)})


async def test_templates_use_the_sandbox_tools_and_assertions_of_the_engine(place) -> None:
    computing = fields(reasoning="Add.", generated_code="```python\nSUBMIT({'answer': 6 * 7})\n```")
    looking = fields(next_thought="Look.", next_tool_name="get_page", next_tool_args='{"slug": "harbour"}')
    done = fields(next_thought="Done.", next_tool_name="finish", next_tool_args="{}")
    async with place.open() as prowess:

        async def run(slug: str, *replies: str) -> tuple[Any, ScriptedModel]:
            with ScriptedModel(list(replies)) as model:
                request = RunRequest(slug=slug, artifacts=("m",), inputs={"question": "When?"}, model=model)
                return await prowess.runs.attempt(request), model

        computed, asked = await run("compute", computing, fields(reasoning="So.", answer="42"))
        looked, _ = await run("look-up", looking, done, fields(reasoning="It says so.", answer="1201"))
        advice = fields(discussion="No year.", advice='{"predict": "Name the year."}')
        refined, _ = await run(
            "improve", fields(reasoning="?", answer="Long ago"), advice, fields(reasoning="!", answer="1201")
        )
        wrong, _ = await run("unknown")
    assert computed.output.data == {"answer": 42}
    assert '{"answer": 42}' in asked.requests[1].messages[-1].text, "what the code submitted in the sandbox"
    assert looked.output.data == {"answer": "1201"}
    assert "harbour" in json.dumps(looked.parts[0].receipt)
    assert refined.output.data == {"answer": "1201"}
    assert isinstance(wrong.error, Invalid)
    assert "prowess sidecar templates" in wrong.error.hint
