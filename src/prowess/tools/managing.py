"""Tools that write skills: an agent makes, changes and removes what it, and others, can use from then on."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from prowess.errors import DuplicateSkill, Invalid, NotFound, Problem
from prowess.skill.forms.devai import schema_of
from prowess.skill.kinds import Artifact, Function, Instructions
from prowess.skill.model import Skill
from prowess.skill.slug import check_slug
from prowess.tools.desk import Desk

_Id = Annotated[str, Field(description="The skill's id: lowercase letters, digits and hyphens, such as resize-image.")]
_Parameters = Annotated[
    dict[str, Any] | None,
    Field(
        description='The inputs by name, such as {"prompt": {"type": "string", "required": true}}, or a JSON Schema.'
    ),
]
_Code = Annotated[
    str | None, Field(description="Python with a function execute(args, ctx), for a skill that computes.")
]
_Text = Annotated[str | None, Field(description="Markdown that teaches an agent how to do it, step by step.")]
_Tags = Annotated[list[str] | None, Field(description="Words to find it by.")]


async def skill_create(
    desk: Desk,
    id: _Id,
    name: Annotated[str, Field(min_length=1, description="The title, for people.")],
    description: Annotated[
        str,
        Field(min_length=1, max_length=1024, description="What it does and when to use it; skills are found by this."),
    ],
    parameters: _Parameters = None,
    code: _Code = None,
    instructions: _Text = None,
    tags: _Tags = None,
) -> dict[str, Any]:
    """Make a new skill from what you know how to do: give instructions, code, or both.

    It is yours to use at once; others are asked before they use it. An id that is taken is refused: change that skill
    with skill_update instead.
    """
    artifacts: list[Artifact] = []
    if instructions:
        artifacts.append(Instructions(name="instructions", content=instructions))
    if code:
        artifacts.append(_function(code))
    if not artifacts:
        raise Invalid("A skill needs instructions, code, or both.", hint="Give instructions as Markdown.")
    slug = _plain_slug(id)
    await _refuse_taken(desk, slug)
    skill = Skill(
        slug=slug,
        title=_one_line(name),
        description=description,
        tags=tuple(tags or ()),
        parameters=_schema(parameters),
        author=desk.actor.label,
        artifacts=tuple(artifacts),
    )
    kept = await desk.engine.create_skill(skill, actor=await desk.acting())
    return {"id": kept.slug, "name": kept.title, "digest": kept.digest, "status": "active"}


async def skill_update(
    desk: Desk,
    id: _Id,
    name: Annotated[str | None, Field(min_length=1, description="The new title.")] = None,
    description: Annotated[str | None, Field(min_length=1, max_length=1024, description="The new description.")] = None,
    parameters: _Parameters = None,
    code: _Code = None,
    instructions: _Text = None,
    tags: _Tags = None,
) -> dict[str, Any]:
    """Change a skill: only what you give is changed.

    A skill that you did not write yourself is changed only after a person has agreed.
    """
    skill = await desk.engine.skill(id)
    given = {
        "title": None if name is None else _one_line(name),
        "description": description,
        "tags": None if tags is None else tuple(tags),
    }
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if parameters is not None:
        changes["parameters"] = _schema(parameters)
    artifacts = skill.artifacts
    if instructions is not None:
        artifacts = _with(artifacts, Instructions(name="instructions", content=instructions))
    if code is not None:
        artifacts = _with(artifacts, _function(code))
    if not changes and artifacts == skill.artifacts:
        raise Invalid("Nothing to change was given.", hint="Give at least one of the other arguments.")
    changed = skill.model_copy(update={**changes, "artifacts": artifacts})
    kept = await desk.engine.update_skill(changed, actor=await desk.acting())
    return {"id": kept.slug, "name": kept.title, "digest": kept.digest, "status": "active"}


async def skill_delete(desk: Desk, id: _Id) -> dict[str, Any]:
    """Remove a skill. A person has to agree first; it can be brought back later."""
    removed = await desk.engine.delete(id, actor=await desk.acting())
    return {"deleted": removed.slug}


async def _refuse_taken(desk: Desk, id: str) -> None:
    """An agent's skill stands in for nobody else's, in whatever scope that is."""
    try:
        taken = await desk.engine.skill(id)
    except NotFound:
        return
    raise DuplicateSkill(
        f"There is a skill {taken.slug!r} already ({taken.scope}).",
        hint="Give another id, or change that skill with skill_update.",
    )


def _plain_slug(id: str) -> str:
    """A slug of ASCII alone: what an agent makes must not look like another skill."""
    slug = check_slug(id)
    if not slug.isascii():
        raise Invalid(
            f"The id {slug!r} has letters beyond a to z.", hint="Use lowercase letters a to z, digits and hyphens."
        )
    return slug


def _one_line(title: str) -> str:
    if not title.strip() or not title.isprintable():
        raise Invalid("The name is empty, or has characters that cannot be seen.", hint="Give a title of one line.")
    return title


def _function(code: str) -> Function:
    return Function(name="execute", ordinal=1, path="execute.py", content=code)


def _schema(parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    problems: list[Problem] = []
    schema = schema_of(parameters, problems)
    if problems:
        raise Invalid(problems[0].message, hint=problems[0].hint, problems=problems)
    return schema


def _with(artifacts: tuple[Artifact, ...], new: Artifact) -> tuple[Artifact, ...]:
    """The artifacts with this one in the place of the first of its kind, or at the end."""
    old = next((artifact for artifact in artifacts if artifact.kind == new.kind and artifact.variant is None), None)
    if old is None:
        return (*artifacts, new)
    changed = old.model_copy(update={"content": new.content})
    return tuple(changed if artifact is old else artifact for artifact in artifacts)
