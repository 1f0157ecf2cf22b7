"""Tools in the shapes that model APIs take, checked against the types of their own clients."""

from __future__ import annotations

import pydoc
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter

import prowess
from prowess.errors import Invalid
from prowess.policy.actor import Actor
from prowess.tools.tool import Tool, ToolAnswer
from prowess.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio

SHAPES: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "openai": ("openai.types.chat.ChatCompletionFunctionToolParam", lambda spec: spec["function"]["name"]),
    "openai-responses": ("openai.types.responses.FunctionToolParam", lambda spec: spec["name"]),
    "anthropic": ("anthropic.types.ToolParam", lambda spec: spec["name"]),
    "gemini": ("google.genai.types.FunctionDeclaration", lambda spec: spec["name"]),
}
"""By name: importing these libraries takes as long as collecting all other tests of this folder."""


async def _nothing(*_: Any) -> ToolAnswer:
    return ToolAnswer(data={})


def made(name: str) -> Tool:
    return Tool(name=name, description="Does nothing.", parameters={"type": "object"}, effect="reads", call=_nothing)


@pytest.mark.parametrize("format", SHAPES)
async def test_every_offered_tool_has_the_shape_of_the_api(place: Any, box: Callable[..., Toolbox], format: Any):
    place.skill("triage")
    shape, name_of = SHAPES[format]
    async with place.open() as engine:
        specs = await box(engine).specs(format)
        assert [name_of(spec) for spec in specs] == [tool.name for tool in await box(engine).offered()]
    for spec in specs:
        TypeAdapter(pydoc.locate(shape)).validate_python(spec)


async def test_a_plain_schema_is_that_of_the_arguments_with_name_and_description(
    place: Any, box: Callable[..., Toolbox]
):
    place.skill("triage")
    async with place.open() as engine:
        spec = next(one for one in await box(engine).specs() if one["title"] == "load_skill")
    assert spec["type"] == "object"
    assert spec["required"] == ["skill"]
    assert spec["description"].startswith("Read a skill")


async def test_an_unknown_format_is_refused_with_the_known_ones(place: Any, box: Callable[..., Toolbox]):
    async with place.open() as engine:
        with pytest.raises(Invalid) as caught:
            await box(engine).specs("cobol")
    assert "anthropic" in caught.value.hint


@pytest.mark.parametrize("name", ["skill_" + "x" * 59, "skill_grüße"])
def test_a_tool_whose_name_the_api_would_reject_is_left_out(name: str):
    assert made(name).spec("openai") is None
    assert made(name).spec("json-schema") is not None


async def test_a_toolbox_works_for_an_agent_of_the_person_unless_told_otherwise(place: Any):
    async with place.open(Actor(name="ann", user="u1")) as engine:
        assert Toolbox(engine).context.actor.label == "agent:agent@u1"
        agent = Actor(name="bot", kind="agent")
        assert Toolbox(engine.as_actor(agent)).context.actor == agent


def test_completion_sees_the_public_names():
    assert dir(prowess) == sorted(prowess.__all__)
