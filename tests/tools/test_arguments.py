"""The arguments of tools: one name for one thing, other names accepted, and small mistakes forgiven."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from prowess.errors import Invalid
from prowess.policy.actor import Actor
from prowess.tools.tool import PROBLEM_LIMIT, check_arguments
from prowess.tools.toolbox import Toolbox, builtin_tools

pytestmark = pytest.mark.anyio

NAMING = {
    "enable_skill",
    "disable_skill",
    "load_skill",
    "read_skill_resource",
    "run_skill",
    "run_skill_script",
    "skill_create",
    "skill_update",
    "skill_delete",
}


def test_every_tool_that_takes_a_skill_calls_it_skill():
    takes = {name for name, tool in builtin_tools().items() if "skill" in tool.parameters["properties"]}
    assert takes == NAMING | {"compose_skill"}  # which can also begin with no skill
    others = {"skill_slug", "skill_name", "skill_id", "slug", "id"}
    for name in takes:
        assert not others & set(builtin_tools()[name].parameters["properties"])
    for name in NAMING:
        assert builtin_tools()[name].parameters["required"][0] == "skill"
        assert others <= set(builtin_tools()[name].aliases)


def test_no_two_tools_have_the_same_words_in_another_order():
    words = [frozenset(name.removesuffix("s").split("_")) for name in builtin_tools()]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("name", ["skill", "skill_slug", "skill_name", "skill_id", "slug", "name", "id"])
async def test_a_skill_can_be_given_by_the_name_that_other_products_use(
    place: Any, box: Callable[..., Toolbox], ann: Actor, name: str
):
    place.skill("triage")
    async with place.open(ann) as engine:
        assert (await box(engine).call("load_skill", {name: "triage"})).data["body"]


async def test_giving_a_skill_twice_is_refused(place: Any, box: Callable[..., Toolbox], ann: Actor):
    place.skill("triage")
    async with place.open(ann) as engine:
        answer = await box(engine).call("load_skill", {"skill": "triage", "name": "other"})
        assert answer.data["error"]["code"] == "invalid"
        assert answer.data["hint"] == "Call load_skill with skill. Optional: reference, script."


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "triage", "limit": "5"},
        {"query": "triage", "tags": None, "limit": None},
        {"query": "triage", "tags": ""},
        {"query": "triage", "tags": "[]"},
        {"query": "triage", "tags": "slow"},
        {"query": "triage", "tags": '["slow"]'},
    ],
)
async def test_values_that_small_models_write_as_text_or_null_are_understood(
    place: Any, box: Callable[..., Toolbox], ann: Actor, arguments: dict[str, Any]
):
    place.skill("triage", fields="metadata:\n  tags: slow\n")
    async with place.open(ann) as engine:
        answer = await box(engine).call("search_skills", arguments)
        assert [found["skill"] for found in answer.data["skills"]] == ["triage"]


async def test_inputs_that_are_an_object_written_as_text_are_understood(
    place: Any, box: Callable[..., Toolbox], ann: Actor
):
    place.skill("triage")
    async with place.open(ann) as engine:
        answer = await box(engine).call("run_skill", {"skill": "triage", "inputs": '{"text": "slow"}'})
        assert answer.data.get("error", {}).get("code") != "invalid-arguments"
        wrong = await box(engine).call("run_skill", {"skill": "triage", "inputs": "slow"})
        assert "inputs" in wrong.data["error"]["message"]


def test_of_many_unknown_arguments_only_those_that_are_reported_are_checked():
    class Few(BaseModel):
        model_config = ConfigDict(extra="forbid")
        day: str

    with pytest.raises(Invalid) as caught:
        check_arguments(Few, {**{f"x{number}": 1 for number in range(1000)}, "day": 1})
    assert isinstance(caught.value.__cause__, ValidationError)
    assert caught.value.__cause__.error_count() <= PROBLEM_LIMIT + 2
    assert any("day" in problem.message for problem in caught.value.problems)
