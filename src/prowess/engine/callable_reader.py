"""Read what callers and the gate need to know of a skill that can be called as a tool."""

from __future__ import annotations

from prowess.catalog.catalog import Catalog
from prowess.catalog.store import Store
from prowess.engine.callables import CallableSkill
from prowess.errors import Invalid
from prowess.run.runner import subject_of_run
from prowess.run.selection import select_artifacts
from prowess.skill.declarations import parse_command, parse_request
from prowess.skill.kinds import Artifact, CliCommand, Function, HttpCall, kind_info
from prowess.skill.model import Skill
from prowess.skill.profiles.declarations import find_function_fault
from prowess.skill.schema import compile_schema


def read_callable(catalog: Catalog, store: Store, skill: Skill) -> CallableSkill | None:
    """Return what a caller needs to know of a skill, or None if it cannot be called."""
    artifact = _find_callable_artifact(skill)
    if artifact is None:
        return None
    return CallableSkill(
        slug=skill.slug,
        title=skill.title,
        description=skill.description,
        parameters=skill.parameters,
        artifact=artifact.name,
        subject=subject_of_run(catalog, store, skill, (artifact.name,), scan=False),
        fault=_find_fault(skill, artifact),
    )


def _find_callable_artifact(skill: Skill) -> Artifact | None:
    """Return the first artifact that runs by itself and can be called, or None."""
    try:
        return next((artifact for artifact in select_artifacts(skill) if _is_callable(artifact)), None)
    except Invalid:
        return None


def _is_callable(artifact: Artifact) -> bool:
    """Return True for an artifact of a callable kind. A function without content is only a reference to one."""
    return kind_info(artifact.kind).is_tool and (not isinstance(artifact, Function) or bool(artifact.content))


def _find_fault(skill: Skill, artifact: Artifact) -> str:
    """Return why no call could succeed, whatever its arguments; '' if no reason is known."""
    try:
        if skill.parameters is not None:
            compile_schema(skill.parameters)
    except Invalid as error:
        return f"Its parameters are not a valid schema: {error.message}"
    if isinstance(artifact, Function):
        return _find_function_fault(artifact)
    try:
        if isinstance(artifact, HttpCall):
            parse_request(artifact)
        elif isinstance(artifact, CliCommand):
            parse_command(artifact)
    except Invalid as error:
        return error.message
    return ""


def _find_function_fault(function: Function) -> str:
    fault = find_function_fault(function)
    if fault is None or not fault.certain:
        return ""
    where = f", line {fault.line}" if fault.line else ""
    return f"{function.path or function.name}{where}: {fault.message}"
