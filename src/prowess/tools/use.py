"""Tools that use skills: enable and disable them in the conversation, and run them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from prowess.errors import NotFound
from prowess.session.session import EnabledSkill, Session
from prowess.tools.tool import ToolAnswer, ToolContext

if TYPE_CHECKING:
    from prowess.run.result import RunPart, RunResult


async def enable_skill(
    context: ToolContext,
    skill_slug: Annotated[str, Field(description="The slug of the skill, or scope:slug for one that is hidden.")],
    reason: Annotated[str, Field(description="Why you need it; a person who is asked to approve reads this.")] = "",
) -> dict[str, Any]:
    """Work with a skill from now on: its instructions join your system prompt until it is disabled.

    It takes room of a limited prompt budget. Where the budget has no room, the answer names the skills that would make
    it; disable one of them first. Where a person has to approve, the answer says so: go on with something else and call
    again later.
    """
    session = await context.engine.enable(skill_slug, session=await context.session(), reason=reason)
    enabled = next(skill for skill in session.enabled if skill.slug == skill_slug.rpartition(":")[2])
    data: dict[str, Any] = {
        "enabled": enabled.slug,
        "name": enabled.title,
        "content_length": enabled.content_length,
        **_describe_budget(session),
    }
    if context.return_content:
        return {**data, "content": await context.engine.sessions.text(enabled.slug, session=session)}
    return {**data, "hint": "Its instructions are part of your system prompt from the next turn on."}


async def disable_skill(
    context: ToolContext,
    skill_slug: Annotated[str, Field(description="The slug of a skill that is enabled, or scope:slug.")],
) -> dict[str, Any]:
    """Stop working with a skill: its text leaves your system prompt and its room is free again."""
    context.require_conversation()
    session = await context.find_session()
    held = _find_enabled(session, skill_slug)
    if session is None or held is None:
        there = ", ".join(skill.slug for skill in session.enabled) if session else ""
        raise NotFound(
            f"The skill {skill_slug[:80]!r} is not enabled in this conversation.", hint=f"Enabled: {there or 'none'}."
        )
    after = await context.engine.disable(held.slug, session=session)
    return {"disabled": held.slug, **_describe_budget(after)}


async def list_enabled_skills(
    context: ToolContext,
    content: Annotated[bool, Field(description="Also return the text of each, as after your context was cut.")] = False,
) -> dict[str, Any]:
    """The skills that are enabled in this conversation, and how much of the prompt budget they use."""
    context.require_conversation()
    session = await context.find_session()
    if session is None:
        return await _describe_empty(context, content=content)
    text = await context.engine.prompt(session) if content else None
    # Assembling the prompt may drop skills whose approval is gone, so the session is read again after it.
    now = session if text is None else await context.engine.sessions.get(session)
    data: dict[str, Any] = {**now.state, "budget_used_tokens": now.tokens, "budget_left_chars": now.budget.left}
    return data if text is None else {**data, "content": text}


async def _describe_empty(context: ToolContext, *, content: bool) -> dict[str, Any]:
    """Describe a conversation without a session, with the budget that it would get."""
    limit = (await context.engine.policy.get()).skills_max_prompt_chars
    data: dict[str, Any] = {
        "enabled_skills": [],
        "budget_used_chars": 0,
        "budget_max_chars": limit,
        "budget_used_tokens": 0,
        "budget_left_chars": limit,
    }
    return {**data, "content": ""} if content else data


def _find_enabled(session: Session | None, slug: str) -> EnabledSkill | None:
    """Return the enabled skill with this slug or `scope:slug`, or None."""
    # With a scope, only the skill of that scope is meant, not one of the same slug that hides it.
    scope, colon, name = slug.rpartition(":")
    held = session.get(name) if session else None
    return held if held and (not colon or held.scope == scope) else None


def _describe_budget(session: Session) -> dict[str, int]:
    return {
        "budget_used_chars": session.budget.used,
        "budget_max_chars": session.budget.limit,
        "budget_left_chars": session.budget.left,
    }


async def run_skill(
    context: ToolContext,
    skill: Annotated[
        str, Field(min_length=1, description="The skill's slug, as search_skills or list_skills gave it.")
    ],
    artifact: Annotated[str, Field(description="Run only the part of this name; without it, the whole skill.")] = "",
    inputs: Annotated[
        dict[str, Any], Field(description='What the skill works on, by name, such as {"text": "…"}.')
    ] = {},  # noqa: B006
) -> ToolAnswer:
    """Run a skill and get what comes out, checked.

    Only skills with parts that run can be run, such as prompts, JSON generation and reviews; others are read with
    load_skill. `output` is what the last part gave; `parts` tells how each fared, and which checks did not pass. This may
    take a while and cost money.
    """
    result = await context.engine.runs.attempt(context.run_request(skill, artifact, inputs))
    return ToolAnswer(data=_describe_run(result), error=result.error)


async def run_skill_script(
    context: ToolContext,
    skill: Annotated[
        str, Field(min_length=1, description="The skill's slug, as search_skills or list_skills gave it.")
    ],
    script: Annotated[str, Field(min_length=1, description="The script's exact name, as load_skill lists it.")],
    args: Annotated[list[str], Field(description="Its arguments, one by one; no shell reads them.")] = [],  # noqa: B006
    stdin: Annotated[str, Field(description="What it reads on its standard input.")] = "",
) -> ToolAnswer:
    """Run a script of a skill, confined, in an empty folder that has the skill's files, and get what it printed.

    A person agrees first, to exactly these files. The script has no network, and of this machine only what its skill
    declares and was granted. Read it before with load_skill; the skill's instructions say when it is of use.
    """
    outline = await context.engine.skills.outline(skill)
    if outline is None:
        await context.engine.skills.get(skill)  # raises `NotFound` with a hint
    found = outline.file_part("script", script) if outline else None
    if outline is None or found is None:
        # The names of its scripts are text of the skill, which nobody may have accepted; load_skill asks first.
        raise NotFound(f"The skill {skill[:80]!r} has no script {script[:80]!r}.", hint="load_skill lists its scripts.")
    result = await context.engine.runs.attempt(context.run_request(skill, found.name, {"args": args, "stdin": stdin}))
    ended = result.output.result if result.output else {}
    return ToolAnswer(data={**_describe_run(result), **({"result": ended} if ended else {})}, error=result.error)


def _describe_run(result: RunResult) -> dict[str, Any]:
    data: dict[str, Any] = {
        "skill": result.skill,
        "run_id": result.run_id,
        "output": None if result.output is None else result.output.value,
        "parts": [_describe_part(part) for part in result.parts],
        "cost_usd": result.cost,
    }
    if result.produced:
        data["produced"] = [one.as_json() for one in result.produced]
    if result.error is not None:
        data["error"] = {"code": result.error.code, "message": result.error.message}
        data["hint"] = result.error.hint or "Change the inputs, or go on without this."
    return data


def _describe_part(part: RunPart) -> dict[str, Any]:
    data: dict[str, Any] = {
        "artifact": part.artifact,
        "kind": part.kind,
        "status": part.status,
        "trace": part.trace,
        "failed": [
            {"check": verdict.description, "severity": verdict.severity, "why": verdict.explanation}
            for verdict in part.verdicts
            if not verdict.passed
        ],
    }
    if part.fallback_of:
        data["fallback_of"] = part.fallback_of
    if part.error is not None and part.result:
        data["result"] = part.result
    return data
