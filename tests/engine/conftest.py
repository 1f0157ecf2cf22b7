"""A skill that greets, and the traces that its runs leave."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from prowess.llm.model import Reply, Request

SIDECAR = """
title: Greeter
version: 1.0.0
artifacts:
  - path: prompts/greet.j2
    kind: prompt_template
    name: greet
    ordinal: 1
  - path: prompts/answer.j2
    kind: prompt_template
    name: Polite Answer
    ordinal: 2
"""
ANSWER = "Answer to: {{ greet }} (before: {{ previous }})"


class Greeter:
    """Writes a skill with two prompts: one greets, the other answers to the greeting."""

    sidecar = SIDECAR

    def __call__(self, place: Any, *, sidecar: str = SIDECAR, **files: str) -> None:
        place.skill(
            "greeter",
            files={
                "agents/prowess.yaml": sidecar,
                "prompts/greet.j2": "Greet {{ name }}.",
                **({"prompts/answer.j2": ANSWER} if "answer.j2" in sidecar else {}),
                **files,
            },
        )


class Waiting:
    """A model that never answers, and says when it was asked."""

    name = "test:waiting"
    family = "test"
    structured = True

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def complete(self, _request: Request) -> Reply:
        self.asked.set()
        await asyncio.Event().wait()
        return Reply()

    async def stream(self, request: Request):
        yield "Good"
        await self.complete(request)


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


@pytest.fixture
def greeter() -> Greeter:
    return Greeter()


@pytest.fixture
def traces() -> Callable[[Any], Awaitable[list[Any]]]:
    """Every trace whole, the first first."""

    async def read(prowess: Any) -> list[Any]:
        return [await prowess.traces.get(row.id) for row in reversed(await prowess.traces.list())]

    return read
