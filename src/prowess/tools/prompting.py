"""Tools that let a skill's text into the prompt of the conversation, and out again."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from prowess.session.session import Session
from prowess.tools.desk import Desk


async def enable_skill(
    desk: Desk,
    skill_slug: Annotated[str, Field(description="The slug of the skill.")],
    reason: Annotated[str, Field(description="Why you need it; a person who is asked to approve reads this.")] = "",
) -> dict[str, Any]:
    """Work with a skill from now on: its instructions join your system prompt until it is disabled.

    It takes room of a limited prompt budget. Where the budget has no room, the answer names the skills that would make
    it; disable one of them first. Where a person has to approve, the answer says so: go on with something else and call
    again later.
    """
    session = await desk.engine.enable(await desk.session(), skill_slug, reason=reason, actor=desk.actor)
    enabled = next(skill for skill in session.enabled if skill.slug == skill_slug.rpartition(":")[2])
    told: dict[str, Any] = {
        "enabled": enabled.slug,
        "name": enabled.title,
        "content_length": enabled.content_length,
        **_budget(session),
    }
    if desk.hands_over:
        return {**told, "content": await _block(desk, session, enabled.slug)}
    return {**told, "hint": "Its instructions are part of your system prompt from the next turn on."}


async def disable_skill(
    desk: Desk,
    skill_slug: Annotated[str, Field(description="The slug of a skill that is enabled.")],
) -> dict[str, Any]:
    """Stop working with a skill: its text leaves your system prompt and its room is free again."""
    session = await desk.engine.disable(await desk.session(), skill_slug, actor=desk.actor)
    return {"disabled": skill_slug, **_budget(session)}


async def list_enabled_skills(
    desk: Desk,
    content: Annotated[bool, Field(description="Also return the text of each, as after your context was cut.")] = False,
) -> dict[str, Any]:
    """The skills that are enabled in this conversation, and how much of the prompt budget they use."""
    text = await desk.engine.prompt(await desk.session(), actor=desk.actor) if content else None
    session = await desk.session()
    told: dict[str, Any] = {
        **session.state,
        "budget_used_tokens": session.tokens,
        "budget_left_chars": session.budget.left,
    }
    return told if text is None else {**told, "content": text}


def _budget(session: Session) -> dict[str, int]:
    return {
        "budget_used_chars": session.budget.used,
        "budget_max_chars": session.budget.limit,
        "budget_left_chars": session.budget.left,
    }


async def _block(desk: Desk, session: Session, slug: str) -> str:
    """The block of one enabled skill, as it would stand in a prompt."""
    blocks = await desk.engine.prompt_blocks(session, actor=desk.actor)
    now = await desk.engine.get_session(session, actor=desk.actor)
    place = next((place for place, skill in enumerate(now.enabled) if skill.slug == slug), None)
    return blocks[place] if place is not None and place < len(blocks) else ""
