"""The card of a skill as JSON."""

from __future__ import annotations

from prowess.skill.model import ShadowedSkill, SkillCard


def test_a_card_becomes_the_json_that_pydantic_makes_of_it() -> None:
    card = SkillCard(
        slug="a.b",
        title="B",
        description="Does b.",
        version="1.0.0",
        tags=("one", "two"),
        scope="workspace",
        source="user",
        digest="d",
        kinds=("instructions", "function"),
        chars=12,
        hides=(ShadowedSkill(scope="account", source="community", digest="e"),),
        trust="accepted",
        enabled=False,
    )

    assert list(card.as_json().items()) == list(card.model_dump(mode="json").items())
