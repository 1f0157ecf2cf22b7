"""Tools that let a skill's text into the prompt of the conversation, and out again."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from prowess.errors import NotFound
from prowess.session.session import EnabledSkill, Session
from prowess.tools.desk import Desk


async def enable_skill(
    desk: Desk,
    skill_slug: Annotated[str, Field(description="The slug of the skill, or scope:slug for one that is hidden.")],
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
        return {**told, "content": await desk.engine.enabled_text(session, enabled.slug, actor=desk.actor)}
    return {**told, "hint": "Its instructions are part of your system prompt from the next turn on."}


async def disable_skill(
    desk: Desk,
    skill_slug: Annotated[str, Field(description="The slug of a skill that is enabled, or scope:slug.")],
) -> dict[str, Any]:
    """Stop working with a skill: its text leaves your system prompt and its room is free again."""
    desk.require_conversation()
    session = await desk.found()
    held = _held(session, skill_slug)
    if session is None or held is None:
        there = ", ".join(skill.slug for skill in session.enabled) if session else ""
        raise NotFound(
            f"The skill {skill_slug[:80]!r} is not enabled in this conversation.", hint=f"Enabled: {there or 'none'}."
        )
    after = await desk.engine.disable(session, held.slug, actor=desk.actor)
    return {"disabled": held.slug, **_budget(after)}


async def list_enabled_skills(
    desk: Desk,
    content: Annotated[bool, Field(description="Also return the text of each, as after your context was cut.")] = False,
) -> dict[str, Any]:
    """The skills that are enabled in this conversation, and how much of the prompt budget they use."""
    desk.require_conversation()
    session = await desk.found()
    if session is None:
        return await _nothing_enabled(desk, content=content)
    text = await desk.engine.prompt(session, actor=desk.actor) if content else None
    now = await desk.engine.get_session(session, actor=desk.actor)
    told: dict[str, Any] = {**now.state, "budget_used_tokens": now.tokens, "budget_left_chars": now.budget.left}
    return told if text is None else {**told, "content": text}


async def _nothing_enabled(desk: Desk, *, content: bool) -> dict[str, Any]:
    """What a conversation tells in which nothing was enabled yet; its budget is the one that it would get."""
    limit = (await desk.engine.policy(actor=desk.actor)).skills_max_prompt_chars
    told: dict[str, Any] = {
        "enabled_skills": [],
        "budget_used_chars": 0,
        "budget_max_chars": limit,
        "budget_used_tokens": 0,
        "budget_left_chars": limit,
    }
    return {**told, "content": ""} if content else told


def _held(session: Session | None, slug: str) -> EnabledSkill | None:
    """The enabled skill that is meant, also by `scope:slug`."""
    scope, colon, name = slug.rpartition(":")
    held = session.get(name) if session else None
    return held if held and (not colon or held.scope == scope) else None


def _budget(session: Session) -> dict[str, int]:
    return {
        "budget_used_chars": session.budget.used,
        "budget_max_chars": session.budget.limit,
        "budget_left_chars": session.budget.left,
    }
