"""The tools that run a skill: its parts that ask a model, compute, or call something, and its scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from prowess.errors import NotFound
from prowess.tools.answer import Answer
from prowess.tools.desk import Desk

if TYPE_CHECKING:
    from prowess.run.outcome import Part, RunResult


_NAMED = 20
"""So many scripts are named where another one was asked for."""


async def run_skill(
    desk: Desk,
    skill: Annotated[
        str, Field(min_length=1, description="The skill's slug, as search_skills or list_skills gave it.")
    ],
    artifact: Annotated[str, Field(description="Run only the part of this name; without it, the whole skill.")] = "",
    inputs: Annotated[
        dict[str, Any], Field(description='What the skill works on, by name, such as {"text": "…"}.')
    ] = {},  # noqa: B006
) -> Answer:
    """Run a skill and get what comes out, checked.

    Only skills with parts that run can be run, such as prompts, JSON generation and reviews; others are read with
    load_skill. `output` is what the last part gave; `parts` tells how each fared, and which checks did not pass. This may
    take a while and cost money.
    """
    result = await desk.engine.attempt(
        desk.conversation,
        skill,
        artifact,
        inputs=inputs,
        spare=desk.spare,
        watch=desk.watch,
        actor=desk.actor,
    )
    return Answer(data=_told(result), error=result.error)


async def run_skill_script(
    desk: Desk,
    skill: Annotated[
        str, Field(min_length=1, description="The skill's slug, as search_skills or list_skills gave it.")
    ],
    script: Annotated[str, Field(min_length=1, description="The script's exact name, as load_skill lists it.")],
    args: Annotated[list[str], Field(description="Its arguments, one by one; no shell reads them.")] = [],  # noqa: B006
    stdin: Annotated[str, Field(description="What it reads on its standard input.")] = "",
) -> Answer:
    """Run a script of a skill, confined, in an empty folder that has the skill's files, and get what it printed.

    A person agrees first, to exactly these files. The script has no network, and of this machine only what its skill
    declares and was granted. Read it before with load_skill; the skill's instructions say when it is of use.
    """
    outline = await desk.engine.outline(skill)
    if outline is None:
        await desk.engine.skill(skill)  # says what there is instead
    found = outline.file_part("script", script) if outline else None
    if outline is None or found is None:
        there = ", ".join(part.name for part in outline.of_kind("script")[:_NAMED]) if outline else ""
        raise NotFound(
            f"The skill {skill[:80]!r} has no script {script[:80]!r}.", hint=f"Its scripts are {there or 'none'}."
        )
    result = await desk.engine.attempt(
        desk.conversation,
        skill,
        found.name,
        inputs={"args": args, "stdin": stdin},
        watch=desk.watch,
        actor=desk.actor,
    )
    ended = result.output.result if result.output else {}
    return Answer(data={**_told(result), **({"result": ended} if ended else {})}, error=result.error)


def _told(result: RunResult) -> dict[str, Any]:
    told: dict[str, Any] = {
        "skill": result.skill,
        "run_id": result.run_id,
        "output": None if result.output is None else result.output.value,
        "parts": [_part(part) for part in result.parts],
        "cost_usd": result.cost,
    }
    if result.produced:
        told["produced"] = [one.as_json() for one in result.produced]
    if result.error is not None:
        told["error"] = {"code": result.error.code, "message": result.error.message}
        told["hint"] = result.error.hint or "Change the inputs, or go on without this."
    return told


def _part(part: Part) -> dict[str, Any]:
    told: dict[str, Any] = {
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
        told["fallback_of"] = part.fallback_of
    return told
