"""Inklings: the authoring workflow of the page, from the user's words to the skill that is saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prowess.errors import Refused
from prowess.llm.scripted import ScriptedModel
from prowess.policy.actor import agent_of, local_person

pytestmark = pytest.mark.anyio
EXAMPLES = Path(__file__).resolve().parents[2] / "examples/compose"
FIRST, SECOND = (json.loads((EXAMPLES / f"{name}-draft.json").read_text())[0]["json"] for name in ("first", "second"))


async def test_the_workflow_of_the_page(place, printed):
    """Create → validated → presented → "add a dspy_module" → re-validated → approved → saved to its scope."""
    page = printed("inklings", "Authoring Workflow\n", "Manual Import")
    request = "Create a skill that checks timeline consistency."
    assert request in page
    feedback = "add a dspy_module for optimized execution"
    assert feedback in page
    place.environment["PROWESS_EMBEDDER"] = "none"
    async with place.open() as prowess:
        model = ScriptedModel([FIRST, SECOND])
        draft = await prowess.compose.start(request, model=model)
        assert draft.round.kinds == ("instructions", "prompt_template")
        assert draft.round.checks.ok
        draft = await prowess.compose.refine(draft.id, feedback, model=model)
        assert "dspy_module" in draft.round.kinds
        assert draft.round.checks.ok
        with pytest.raises(Refused):
            await prowess.as_actor(agent_of(local_person("ann"))).compose.approve(draft.id)
        skill = await prowess.compose.approve(draft.id, digest=draft.round.digest, scope="account")
        assert (skill.slug, skill.scope) == ("timeline-check", "account")
        # "The prompt_template artifact remains as fallback."
        assert skill.artifact("module").fallback == "prompt"
        result = await prowess.run("timeline-check", {"story": "x"}, model=ScriptedModel(["None found."]))
        assert [part.kind for part in result.parts] == ["dspy_module", "prompt_template"]
        assert result.output.text == "None found."
