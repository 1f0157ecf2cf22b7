"""Inputs that the parameters of a skill do not declare: accepted if the skill may use them, and refused otherwise."""

from __future__ import annotations

import json

import pytest

from prowess.errors import Invalid

pytestmark = pytest.mark.anyio

PARAMETERS = {"type": "object", "properties": {"topic": {"type": "string"}}}


def write(place, sidecar: dict, **files: str) -> None:
    document = "---\nname: outline\ndescription: Outlines a talk.\n---\n\nOutline it.\n"
    told = {"version": "1.0.0", "parameters": PARAMETERS, **sidecar}
    place.write("outline", {"SKILL.md": document, "agents/prowess.yaml": json.dumps(told), **files})


FIELDS = ("id", "name", "description", "pass_condition", "fail_condition")
RUBRIC = {
    "id": "tone",
    "name": "Tone",
    "version": "1.0.0",
    "scoring_mode": "binary",
    "criteria": [dict.fromkeys(FIELDS, "polite")],
}
CASES = {
    "a variable of a template": ({}, {"prompts/draft.j2": "{{ topic }} {{ tone }}"}, "tone"),
    "a name in a section of a template": ({}, {"prompts/draft.mustache": "{{#topic}}{{tone}}{{/topic}}"}, "tone"),
    "a name in code": ({}, {"code/draft.py": "submit(inputs.get('tone'))"}, "tone"),
    "an earlier output": ({}, {"code/draft.py": "submit(1)", "prompts/last.j2": "{{ topic }}"}, "draft"),
    "what came before": ({}, {"prompts/draft.j2": "{{ topic }}"}, "previous"),
    "the text that is reviewed": (
        {},
        {"rubrics/tone.json": json.dumps(RUBRIC)},
        "asset",
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_an_input_that_a_skill_may_use_is_accepted(place, case):
    sidecar, files, name = CASES[case]
    write(place, sidecar, **files)
    async with place.open() as prowess:
        await prowess.run("outline", {"topic": "bees", name: "a"}, dry_run=True)
        with pytest.raises(Invalid, match="'tonality' is unknown"):
            await prowess.run("outline", {"topic": "bees", "tonality": "a"}, dry_run=True)


async def test_a_skill_without_parameters_accepts_every_input(place):
    write(place, {"parameters": None}, **{"prompts/draft.j2": "{{ topic }}"})
    async with place.open() as prowess:
        await prowess.run("outline", {"topic": "bees", "tonality": "a"}, dry_run=True)


async def test_an_input_that_only_a_description_mentions_is_refused(place):
    write(place, {}, **{"prompts/draft.j2": "Write in a calm tone about {{ topic }}."})
    async with place.open() as prowess:
        with pytest.raises(Invalid, match="'tone' is unknown"):
            await prowess.run("outline", {"topic": "bees", "tone": "calm"}, dry_run=True)
