"""Whether the prompts and rubrics that a skill names are there, and can be used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prowess.errors import NotFound, Problem, ProwessError
from prowess.skill.forms.codes import error
from prowess.skill.kinds import Artifact, JsonGeneration, Review
from prowess.skill.model import Skill
from prowess.templates.registry import Registry, broken
from prowess.templates.shelves import EntryKind

UNKNOWN = ("prompt-unknown", "rubric-unknown")
"""The codes of problems on which only the registry has the last word."""


def with_references(
    skill: Skill, problems: Sequence[Problem], registry: Registry, organization: str
) -> tuple[Problem, ...]:
    """The problems of a skill, with what the registry says in place of what its package alone could say; worst first."""
    told = [problem for problem in problems if problem.code not in UNKNOWN]
    found = list(unresolved(skill, registry, organization))
    return (
        *(one for one in found if one.severity == "error"),
        *told,
        *(one for one in found if one.severity != "error"),
    )


def unresolved(skill: Skill, registry: Registry, organization: str) -> Iterator[Problem]:
    """A problem for each prompt or rubric that the skill names and that nobody has, or that cannot be used. Blocking."""
    for artifact in skill.artifacts:
        reference = _reference(artifact)
        if reference is None:
            continue
        kind, named, version = reference
        field = f"{artifact.name}.{kind}_id"
        try:
            entry = registry.find(kind, named, version, skill=skill, organization=organization)
        except NotFound as fault:
            yield error(f"{kind}-unknown", fault.message, fault.hint, field=field)
        except ProwessError as fault:  # a database that does not answer leaves it open
            yield Problem(
                code=f"{kind}-unknown", severity="warning", message=fault.message, hint=fault.hint, field=field
            )
        else:
            if entry.value is None:
                fault = broken(entry)
                yield error(f"{kind}-invalid", fault.message, fault.hint, field=field)


def _reference(artifact: Artifact) -> tuple[EntryKind, str, str | None] | None:
    if isinstance(artifact, JsonGeneration):
        return "prompt", artifact.prompt_id, artifact.prompt_version
    if isinstance(artifact, Review):
        return "rubric", artifact.rubric_id, artifact.rubric_version
    return None
