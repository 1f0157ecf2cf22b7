"""Calls of artifacts, which bring their own model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from prowess.run.call import Call
from prowess.skill.kinds import Artifact, Description
from prowess.skill.model import Skill


@pytest.fixture
def call_of(new_call: Callable[..., Call]) -> Callable[..., Call]:
    """A call of an artifact; without one, of a description."""

    def make(artifact: Artifact | None = None, *, inputs: dict | None = None, others: tuple = (), **settings) -> Call:
        called = artifact or Description(name="about")
        skill = Skill(slug="checker", title="Checker", description="Checks.", artifacts=(called, *others))
        return new_call(skill, called, inputs, **settings)

    return make


@pytest.fixture
def turns_during() -> Callable[[Callable[[], Awaitable]], tuple]:
    """What something gives, and how often another task had its turn meanwhile."""

    def measure(work: Callable[[], Awaitable]) -> tuple:
        return asyncio.run(_measured(work))

    return measure


async def _measured(work: Callable[[], Awaitable]) -> tuple:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    running = asyncio.create_task(other())
    given = await work()
    running.cancel()
    return given, turns
