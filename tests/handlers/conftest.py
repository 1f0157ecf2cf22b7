"""What handlers are made of: a renderer, and calls that bring their own model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from prowess.prompts.renderer import WorkerRenderer
from prowess.run.call import Call
from prowess.run.request import Step
from prowess.skill.kinds import Artifact
from prowess.skill.model import Skill


@pytest.fixture(scope="session")
def renderer() -> Iterator[WorkerRenderer]:
    """The renderer that is used outside tests."""
    opened = WorkerRenderer()
    yield opened
    asyncio.run(opened.close())


@pytest.fixture
def steps() -> list[Step]:
    """What was told about a call while it ran."""
    return []


@pytest.fixture
def call_of(new_call: Callable[..., Call], steps: list[Step]) -> Callable[..., Call]:
    """A call of an artifact of a skill, for inputs."""

    def make(artifact: Artifact, inputs: dict, *others: Artifact, skill: dict | None = None, **settings) -> Call:
        about = {"slug": "checker", "title": "Checker", "description": "Checks.", **(skill or {})}
        made = Skill(artifacts=(artifact, *others), **about)
        return new_call(made, artifact, inputs, on_step=steps.append, **settings)

    return make
