"""The tool that runs a skill: its parts that ask a model, compute, or call something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from prowess.tools.answer import Answer
from prowess.tools.desk import Desk

if TYPE_CHECKING:
    from prowess.run.outcome import Part, RunResult


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
