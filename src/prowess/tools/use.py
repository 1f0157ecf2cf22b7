"""Tools that use skills: enable and disable them in the conversation, and run them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AliasChoices, Field

from prowess.errors import NotFound
from prowess.session.session import EnabledSkill, Session
from prowess.threads import offload
from prowess.tools.tool import DEFAULT_HINT, SkillName, ToolAnswer, ToolContext

if TYPE_CHECKING:
    from prowess.run.result import RunPart, RunResult


async def enable_skill(
    context: ToolContext,
    skill: SkillName,
    reason: Annotated[str, Field(description="Your reason, shown to the person who approves it.")] = "",
) -> dict[str, Any]:
    """Use a skill for the rest of this conversation: its instructions become part of your prompt. Follow them.

    If the prompt is full, the answer names skills to disable; disable one and call again. If a person must approve, the
    call waits for the answer.
    """
    session = await context.engine.enable(skill, session=await context.session(), reason=reason)
    enabled = next(one for one in session.enabled if one.slug == skill.rpartition(":")[2])
    return await describe_enabled(context, session, enabled)


async def describe_enabled(context: ToolContext, session: Session, enabled: EnabledSkill) -> dict[str, Any]:
    """Describe a skill that is enabled now, with its text for agents whose prompt we do not write."""
    data: dict[str, Any] = {
        "skill": enabled.slug,
        "status": "enabled",
        "title": enabled.title,
        "content_length": enabled.content_length,
        **_describe_budget(session),
    }
    if context.return_content:
        return {**data, "content": await context.engine.sessions.text(enabled.slug, session=session)}
    return {**data, "hint": "Its instructions are part of your system prompt from the next turn on."}


async def disable_skill(context: ToolContext, skill: SkillName) -> dict[str, Any]:
    """Stop using a skill: its instructions leave your prompt and free their space."""
    context.require_conversation()
    session = await context.find_session()
    enabled = _find_enabled(session, skill)
    if session is None or enabled is None:
        slugs = ", ".join(row.slug for row in session.enabled) if session else ""
        raise NotFound(
            f"The skill {skill[:80]!r} is not enabled in this conversation.",
            hint=f"Call disable_skill with one of the enabled skills: {slugs}." if slugs else "No skill is enabled.",
        )
    after = await context.engine.disable(enabled.slug, session=session)
    return {"skill": enabled.slug, "status": "disabled", **_describe_budget(after)}


async def list_enabled_skills(
    context: ToolContext,
    content: Annotated[bool, Field(description="Also return their instructions.")] = False,
) -> dict[str, Any]:
    """List the skills that are enabled in this conversation, and the prompt space that they use."""
    context.require_conversation()

    def read() -> tuple[Session | None, int]:
        session = context.read_session()
        # A conversation without a session would get the budget of the policy. Read here: a second thread costs more.
        return session, context.engine.context.read_policy().skills_max_prompt_chars if session is None else 0

    session, limit = await offload(read)
    if session is None:
        return _describe_empty(limit, content=content)
    text = await context.engine.prompt(session) if content else None
    # Assembling the prompt may drop skills whose approval is gone, so the session is read again after it.
    now = session if text is None else await context.engine.sessions.get(session)
    data: dict[str, Any] = {**now.state, "budget_used_tokens": now.tokens, "budget_left_chars": now.budget.left}
    return data if text is None else {**data, "content": text}


def _describe_empty(limit: int, *, content: bool) -> dict[str, Any]:
    """Describe a conversation without a session, with the budget that it would get."""
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
    skill = session.get(name) if session else None
    return skill if skill and (not colon or skill.scope == scope) else None


def _describe_budget(session: Session) -> dict[str, int]:
    return {
        "budget_used_chars": session.budget.used,
        "budget_max_chars": session.budget.limit,
        "budget_left_chars": session.budget.left,
    }


async def run_skill(
    context: ToolContext,
    skill: SkillName,
    artifact: Annotated[str, Field(description="Run only this part.")] = "",
    inputs: Annotated[
        dict[str, Any],
        Field(
            description='By name, for example {"text": "…"}.',
            validation_alias=AliasChoices("inputs", "params", "parameters", "arguments"),
        ),
    ] = {},  # noqa: B006
) -> ToolAnswer:
    """Run a skill that can run (a prompt, JSON generation, a review, code) and return its checked `output`.

    Skills that are only instructions cannot run; enable those. A run can take a while and cost money.
    """
    result = await context.engine.runs.attempt(context.run_request(skill, artifact, inputs))
    return ToolAnswer(data=_describe_run(result), error=result.error)


async def run_skill_script(
    context: ToolContext,
    skill: SkillName,
    script: Annotated[
        str,
        Field(
            min_length=1,
            description="One of its available_scripts, or the path of another.",
            validation_alias=AliasChoices("script", "script_name"),
        ),
    ],
    args: Annotated[list[str], Field(description="Its arguments, one per item.")] = [],  # noqa: B006
    stdin: Annotated[str, Field(description="Its standard input.")] = "",
) -> ToolAnswer:
    """Run a script of a skill in a sandbox and return what it printed. A person must approve it first.

    The script has no network, and only the files of its skill.
    """
    outline = await context.engine.skills.outline(skill)
    if outline is None:
        await context.engine.skills.get(skill)  # raises `NotFound` with a hint
    found = outline.find_file("script", script) if outline else None
    if outline is None or found is None:
        # The names of its scripts are text of the skill, which nobody may have accepted; load_skill asks first.
        raise NotFound(
            f"The skill {skill[:80]!r} has no script {script[:80]!r}.",
            hint=f"Call load_skill with {skill[:80]!r}; available_scripts lists its scripts.",
        )
    result = await context.engine.runs.attempt(context.run_request(skill, found, {"args": args, "stdin": stdin}))
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
        data["hint"] = result.error.hint or f"Correct the inputs and call run_skill again. {DEFAULT_HINT}"
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
