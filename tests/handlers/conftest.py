"""What handlers are made of: an asker without any model configured, a renderer, and calls that bring their own model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prowess.llm.model import ModelConfig
from prowess.llm.models import Models
from prowess.prompts.renderer import WorkerRenderer
from prowess.run.call import Call
from prowess.run.model_client import ModelClient
from prowess.run.request import Step
from prowess.run.spending import Spending
from prowess.run.telemetry import NoTelemetry
from prowess.skill.kinds import Artifact
from prowess.skill.model import Skill


@pytest.fixture
def asker(tmp_path: Path) -> ModelClient:
    """Reaches the models that calls bring; nothing here has a price, so nothing is reserved."""
    models = Models(ModelConfig(home=tmp_path / ".prowess"))
    return ModelClient(models, Spending(_no_records), NoTelemetry())


def _no_records() -> None:
    raise AssertionError("Nothing here costs anything.")


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
