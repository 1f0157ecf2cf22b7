"""A skill that sorts support messages, cases for it, and a model that sorts as well as its prompt tells it to."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from prowess.authoring.optimize import decision, search, trigger_plan
from prowess.authoring.optimize.proposal import Budget, OptimizationRequest
from prowess.llm.model import Reply, Request, Usage

LABELS = ("billing", "shipping", "account")
PROMPT = "Sort this message: {{ message }}"
BETTER = "Sort this message. Answer with one word: billing, shipping or account.\n\n{{ message }}"
WORSE = "Write a poem about this message: {{ message }}"
SIDECAR = """
title: Triage
version: 1.0.0
artifacts:
  - path: prompts/sort.j2
    kind: prompt_template
    name: sort
    assertions:
      - {type: pattern, check: match, pattern: "^[a-z]+$", description: One word., severity: soft}
"""


def make_cases(count: int = 30) -> list[dict[str, Any]]:
    """Return cases whose messages name their label, each with the check that the answer is that word."""
    return [
        {
            "id": f"case-{number}",
            "inputs": {"message": f"Message {number} about {LABELS[number % 3]}"},
            "expected": LABELS[number % 3],
            "checks": [{"type": "normalized"}],
        }
        for number in range(count)
    ]


class SortingModel:
    """Answers with one word if its prompt says so, with a sentence otherwise. Asked to rewrite, it returns `rewrites`."""

    name = "test:sorting"
    family = "test"
    structured = True

    def __init__(self, rewrites: Any = (WORSE, BETTER)) -> None:
        self.rewrites = rewrites
        self.requests: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.requests.append(request)
        return Reply(
            text=self.answer(request.messages[-1].text), usage=Usage(input_tokens=5, output_tokens=5, requests=1)
        )

    async def stream(self, request: Request):
        yield await self.complete(request)

    def answer(self, text: str) -> str:
        if text.startswith("You improve"):
            return self.rewrites if isinstance(self.rewrites, str) else json.dumps({"rewrites": list(self.rewrites)})
        label = re.findall("about ([a-z]+)", text)[-1]
        return label if "one word" in text else f"It may be about {label}."


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for fewer cases, so that tests are fast. How many are needed in earnest is tested with the decision."""
    monkeypatch.setattr(search, "MIN_TRAIN", 3)
    monkeypatch.setattr(search, "MIN_VALIDATION", 3)
    for module in (search, trigger_plan):
        monkeypatch.setattr(module, "MIN_HELD_OUT", 6)
    monkeypatch.setattr(decision, "MIN_HELD_OUT", 6)


@pytest.fixture
def model() -> SortingModel:
    return SortingModel()


@pytest.fixture
def triage() -> Callable[..., None]:
    """Write the skill into a place."""

    def write(place: Any, *, cases: Any = None, sidecar: str = SIDECAR, prompt: str = PROMPT, **files: str) -> None:
        listed = make_cases() if cases is None else cases
        place.skill(
            "triage",
            files={
                "agents/prowess.yaml": sidecar,
                "prompts/sort.j2": prompt,
                "evals/cases.json": json.dumps(listed),
                **files,
            },
        )

    return write


@pytest.fixture
def ask() -> Callable[..., OptimizationRequest]:
    """Make a request to rewrite the prompt of the skill."""

    def make(**changes: Any) -> OptimizationRequest:
        calls = changes.pop("calls", 2_000)
        told: dict[str, Any] = {"skill": "triage", "method": "rewrite", "budget": Budget(calls=calls), **changes}
        return OptimizationRequest(**told)

    return make
