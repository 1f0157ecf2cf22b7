"""The scores that commands show next to skills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prowess.interfaces.cli.server import chosen_server

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.skill.model import Skill, SkillCard
    from prowess.storage.scores import SkillScore

    Scores = Mapping[tuple[str, str], SkillScore]
    """Scores by slug and digest."""


async def read_skill_scores(prowess: Prowess) -> Scores:
    """Return the scores of evaluations on this machine; none for the skills of a server."""
    if chosen_server() is not None:
        return {}
    from prowess.engine.scores import read_scores
    from prowess.threads import offload

    return await offload(read_scores, prowess.context)


def score_json(scores: Scores, skill: Skill | SkillCard) -> dict[str, Any] | None:
    """Return the score of exactly these bytes as JSON; None if they were not evaluated."""
    found = scores.get((skill.slug, skill.digest))
    return found.as_json() if found else None
