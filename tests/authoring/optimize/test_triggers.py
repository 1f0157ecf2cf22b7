"""Optimizing when a skill is chosen: trigger phrases and descriptions, against queries, without harm to neighbours."""

from __future__ import annotations

import json

import pytest

from prowess.authoring.optimize import trigger_plan
from prowess.errors import Invalid, Refused

from .conftest import SortingModel

pytestmark = pytest.mark.anyio

VERBS = ("trim", "cut", "shorten", "split", "join", "crop")
QUERIES = [
    *(
        {"query": f"{verb} my screen recording number {number}", "should_trigger": True}
        for number in range(7)
        for verb in VERBS
    ),
    *({"query": f"write {number} poems about the sea", "should_trigger": False} for number in range(6)),
]


@pytest.fixture
def video(place):
    """Write a skill that its queries do not find."""

    def write(queries=QUERIES, description: str = "Knows the flags of the encoder."):
        text = f"---\nname: video\ndescription: {description}\n---\n\n# Video\n\nUse ffmpeg.\n"
        place.write("video", {"SKILL.md": text, "evals/triggers.json": json.dumps(queries)})
        place.skill("sea", fields="tags: [poems]\n")

    return write


@pytest.mark.long
async def test_phrases_that_catch_missed_queries_are_proposed_and_kept_once_approved(place, video, ask):
    video()
    async with place.open() as prowess:
        done = await prowess.optimize.run(ask(skill="video", method="phrases"))
        assert done.state == "proposed", done.reason
        assert (done.calls, done.artifact) == (0, "")
        shown = await prowess.optimize.diff(done.id)
        assert shown.parts["trigger_phrases"]["before"] == []
        approved = await prowess.optimize.approve(done.id)
        phrases = (await prowess.skills.get("video")).trigger_phrases
    # Live runs say nothing about triggers, so there is nothing to watch.
    assert approved.state == "kept"
    assert list(phrases) == shown.parts["trigger_phrases"]["after"]
    assert any("recording" in phrase for phrase in phrases)


async def test_a_description_is_rewritten_by_a_model_from_missed_queries(place, video, ask):
    video()
    better = "Trim, cut, shorten, split, join or crop a screen recording or any other video with ffmpeg."
    model = SortingModel(rewrites=("Writes poems about the sea.", better))
    async with place.open() as prowess:
        done = await prowess.optimize.run(ask(skill="video", method="description", model=model))
        assert done.state == "proposed", done.reason
        await prowess.optimize.approve(done.id)
        assert (await prowess.skills.get("video")).description == better
    held = [request.messages[-1].text for request in model.requests]
    assert all("You improve the description" in text for text in held)


@pytest.mark.long
async def test_a_candidate_that_competes_with_a_neighbour_is_dropped(place, video, ask, monkeypatch):
    video()
    monkeypatch.setattr(trigger_plan, "find_collisions", _collide_after_the_first())
    async with place.open() as prowess:
        done = await prowess.optimize.run(ask(skill="video", method="phrases"))
    assert done.state == "refused"


def _collide_after_the_first():
    asked = []

    class Collision:
        slugs = ("sea", "video")

    def find(*_, **__):
        asked.append(1)
        return [] if len(asked) == 1 else [Collision]

    return find


async def test_too_few_or_unreadable_queries_are_refused(place, video, ask):
    video(QUERIES[:8])
    async with place.open() as prowess:
        with pytest.raises(Refused, match="Too few queries") as few:
            await prowess.optimize.run(ask(skill="video", method="phrases"))
        assert "evals/triggers.json" in few.value.hint
        video([*QUERIES, {"query": "no result"}])
        with pytest.raises(Invalid, match="The trigger queries of 'video' have errors"):
            await prowess.optimize.run(ask(skill="video", method="phrases"))


@pytest.mark.long
async def test_a_skill_that_is_found_already_has_nothing_to_gain(place, video, ask):
    video(description="Trim, cut, shorten, split, join or crop a screen recording with ffmpeg.")
    async with place.open() as prowess:
        done = await prowess.optimize.run(ask(skill="video", method="phrases"))
    assert done.state == "refused"
