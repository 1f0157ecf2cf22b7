"""The whole loop with DSPy itself: a prompt becomes a module with demos, proves its gain, and runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from .conftest import SortingModel

pytestmark = [pytest.mark.anyio, pytest.mark.long]

REAL_PYTHON = Path(__file__).resolve().parents[3] / ".venv" / "sidecar" / "bin" / "python"


class Imitator(SortingModel):
    """Answers in DSPy's format; right once it has seen an example with its answer."""

    def answer(self, text: str) -> str:
        if "[[ ##" not in text:
            return super().answer(text)
        label = re.findall("about ([a-z]+)", text)[-1]
        return f"[[ ## output ## ]]\n{label if self.has_demos else 'It may be ' + label}\n\n[[ ## completed ## ]]"

    async def complete(self, request):
        self.has_demos = any(message.role == "assistant" for message in request.messages)
        return await super().complete(request)


async def test_a_prompt_is_optimised_by_dspy_and_approved(place, triage, ask):
    if not REAL_PYTHON.exists():
        pytest.skip("There is no .venv/sidecar. Run: scripts/setup")
    place = replace(place, environment={**place.environment, "PROWESS_SIDECAR": str(REAL_PYTHON)})
    triage(place)
    model = Imitator()
    async with place.open() as prowess:
        done = await prowess.optimize.run(ask(model=model, method="bootstrap_few_shot"))
        assert done.state == "proposed", done.reason
        await prowess.optimize.approve(done.id, digest=done.candidate_digest)
        ran = await prowess.run("triage", {"message": "A word about shipping"}, model=model)
        module = (await prowess.skills.get("triage")).find_artifact("sort-optimized")
    assert (ran.parts[0].artifact, ran.output.value) == ("sort-optimized", "shipping")
    assert json.loads(module.state)["metadata"]["dependency_versions"]["dspy"]
