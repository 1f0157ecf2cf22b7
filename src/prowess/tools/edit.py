"""Tools that create, change and delete skills."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from prowess.errors import DuplicateSkill, Invalid, NotFound, Problem
from prowess.skill.forms.devai import schema_of
from prowess.skill.kinds import Artifact, Function, Instructions, JsonObject
from prowess.skill.model import Skill
from prowess.skill.needs import NEED_FORMATS, parse_need
from prowess.skill.slug import check_slug, tool_name
from prowess.tools.skill_tools import read_skill_tools, read_tool_status
from prowess.tools.tool import ToolContext

_Id = Annotated[str, Field(description="The skill's id: lowercase letters, digits and hyphens, such as resize-image.")]
_Parameters = Annotated[
    dict[str, Any] | None,
    Field(
        description='The inputs by name, such as {"prompt": {"type": "string", "required": true}}, or a JSON Schema.'
    ),
]
_Code = Annotated[
    str | None,
    Field(description="A file with a function execute(args, ctx), for a skill that is called as a tool, skill_<id>."),
]
_Language = Annotated[
    Literal["python", "typescript"] | None, Field(description="What the code is written in; python by default.")
]
_Runtime = Annotated[
    Literal["wasm", "native"] | None,
    Field(description="Where the code runs: sealed off (wasm, the default), or native, once a person has agreed."),
]
_Hosts = Annotated[list[str] | None, Field(description="The hosts that ctx.fetch may reach, such as api.example.com.")]
_Env = Annotated[
    list[str] | None, Field(description="The names in ctx.env that it needs; an administrator allows each.")
]
_Roots = Annotated[
    list[str] | None, Field(description="Folders of the workspace that it reads, or writes with rw: before the name.")
]
_Requirements = Annotated[list[str] | None, Field(description="Python packages that it imports; they need native.")]
_Text = Annotated[str | None, Field(description="Markdown that teaches an agent how to do it, step by step.")]
_AnyLanguage = Literal["python", "typescript", "javascript"]
_PATHS: dict[_AnyLanguage, str] = {"python": "execute.py", "typescript": "execute.ts", "javascript": "execute.js"}
_Tags = Annotated[list[str] | None, Field(description="Words to find it by.")]


async def skill_create(
    context: ToolContext,
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
    language: _Language = None,
    runtime: _Runtime = None,
    hosts: _Hosts = None,
    env: _Env = None,
    roots: _Roots = None,
    requirements: _Requirements = None,
) -> dict[str, Any]:
    """Make a new skill from what you know how to do: give instructions, code, or both.

    It is yours to use at once, and code is a tool of yours from then on: call it once to see that it works. What reaches
    out is asked about first, and others are asked before they use it. Code has ctx.fetch, ctx.env, ctx.read_file,
    ctx.write_file and ctx.log, as far as hosts, env and roots say (in TypeScript readFile and writeFile), and gives
    {"success": true, "result": …}. An id that is taken is refused: change that skill with skill_update instead.
    """
    artifacts: list[Artifact] = []
    if instructions:
        artifacts.append(Instructions(name="instructions", content=instructions))
    if code:
        artifacts.append(_make_function(code, language or "python"))
    if not artifacts:
        raise Invalid("A skill needs instructions, code, or both.", hint="Give instructions as Markdown.")
    slug = _check_ascii_slug(id)
    await _check_slug_free(context, slug, called=bool(code))
    skill = Skill(
        slug=slug,
        title=_check_title(name),
        description=description,
        tags=tuple(tags or ()),
        parameters=_make_schema(parameters),
        author=context.actor.label,
        artifacts=tuple(artifacts),
        extra=_merge_needs({}, runtime=runtime, hosts=hosts, env=env, roots=roots, requirements=requirements),
    )
    # With the role of the session, which limits what an agent may write too.
    return await _describe_written(context, await context.engine.as_actor(await context.acting()).skills.create(skill))


async def skill_update(
    context: ToolContext,
    id: _Id,
    name: Annotated[str | None, Field(min_length=1, description="The new title.")] = None,
    description: Annotated[str | None, Field(min_length=1, max_length=1024, description="The new description.")] = None,
    parameters: _Parameters = None,
    code: _Code = None,
    instructions: _Text = None,
    tags: _Tags = None,
    language: _Language = None,
    runtime: _Runtime = None,
    hosts: _Hosts = None,
    env: _Env = None,
    roots: _Roots = None,
    requirements: _Requirements = None,
) -> dict[str, Any]:
    """Change a skill: only what you give is changed.

    A skill that you did not write yourself is changed only after a person has agreed.
    """
    skill = await context.engine.skills.get(id)
    given = {
        "title": None if name is None else _check_title(name),
        "description": description,
        "tags": None if tags is None else tuple(tags),
    }
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if parameters is not None:
        changes["parameters"] = _make_schema(parameters)
    artifacts = skill.artifacts
    if instructions is not None:
        artifacts = _replace_artifact(artifacts, Instructions(name="instructions", content=instructions))
    if code is not None:
        artifacts = _replace_artifact(artifacts, _make_function(code, language or _function_language(skill)))
    # The stored code is in the old language and would not run.
    elif language is not None and language != _function_language(skill):
        raise Invalid("Another language takes other code.", hint="Give the code as well.")
    extra = _merge_needs(skill.extra, runtime=runtime, hosts=hosts, env=env, roots=roots, requirements=requirements)
    if extra != skill.extra:
        changes["extra"] = extra
    if not changes and artifacts == skill.artifacts:
        raise Invalid("Nothing to change was given.", hint="Give at least one of the other arguments.")
    changed = skill.model_copy(update={**changes, "artifacts": artifacts})
    return await _describe_written(
        context, await context.engine.as_actor(await context.acting()).skills.update(changed)
    )


async def skill_delete(context: ToolContext, id: _Id) -> dict[str, Any]:
    """Remove a skill. A person has to agree first; it can be brought back later."""
    removed = await context.engine.as_actor(await context.acting()).skills.delete(id)
    return {"deleted": removed.slug}


async def _describe_written(context: ToolContext, kept: Skill) -> dict[str, Any]:
    """Describe a skill that was written, with the tool that calls it."""
    data: dict[str, Any] = {"id": kept.slug, "name": kept.title, "digest": kept.digest, "status": "active"}
    standing = await read_tool_status(context, [kept.slug])
    return {**data, **standing.get(kept.slug, {})}


async def _check_slug_free(context: ToolContext, id: str, *, called: bool) -> None:
    """Raise `DuplicateSkill` if the slug is taken in any scope, or, for a skill that is `called`, the name of its tool."""
    try:
        # In any scope: a new skill in a nearer scope would hide the one that others use.
        taken = await context.engine.skills.get(id)
    except NotFound:
        await _check_tool_free(context, id) if called else None
        return
    raise DuplicateSkill(
        f"There is a skill {taken.slug!r} already ({taken.scope}).",
        hint="Give another id, or change that skill with skill_update.",
    )


async def _check_tool_free(context: ToolContext, id: str) -> None:
    name = tool_name(id)
    if name in context.reserved or name in (await read_skill_tools(context)).by_name:
        raise DuplicateSkill(f"There is a tool {name} already.", hint="Give another id.")


def _check_ascii_slug(id: str) -> str:
    """Return the slug if it is plain ASCII: a skill made by an agent must not look like another one."""
    slug = check_slug(id)
    if not slug.isascii():
        raise Invalid(
            f"The id {slug!r} has letters beyond a to z.", hint="Use lowercase letters a to z, digits and hyphens."
        )
    return slug


def _check_title(title: str) -> str:
    if not title.strip() or not title.isprintable():
        raise Invalid("The name is empty, or has characters that cannot be seen.", hint="Give a title of one line.")
    return title


def _make_function(code: str, language: _AnyLanguage) -> Function:
    path = _PATHS[language]
    return Function(name="execute", ordinal=1, path=path, content=code, language=language)


def _function_language(skill: Skill) -> _AnyLanguage:
    """Return the language of the skill's function, or the default if it has none."""
    function = next((one for one in skill.artifacts if isinstance(one, Function)), None)
    return function.language if function else "python"


def _merge_needs(extra: JsonObject, **needs: str | list[str] | None) -> JsonObject:
    """Return the fields with the given needs replaced. Empty values and defaults are dropped."""
    given = {name: value for name, value in needs.items() if value is not None}
    for name, form in NEED_FORMATS.items():
        if unread := parse_need(name, given.get(name))[1]:
            raise Invalid(f"{str(unread[0])[:80]!r} is nothing that {name} can have.", hint=f"It takes {form.takes}.")
    kept = {name: value for name, value in extra.items() if name not in given}
    return {**kept, **{name: value for name, value in given.items() if value and value != "wasm"}}


def _make_schema(parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    problems: list[Problem] = []
    schema = schema_of(parameters, problems)
    if problems:
        raise Invalid(problems[0].message, hint=problems[0].hint, problems=problems)
    return schema


def _replace_artifact(artifacts: tuple[Artifact, ...], new: Artifact) -> tuple[Artifact, ...]:
    """Replace the first artifact of the same kind, or append the new one."""
    old = next((artifact for artifact in artifacts if artifact.kind == new.kind and artifact.variant is None), None)
    if old is None:
        return (*artifacts, new)
    update: dict[str, Any] = {"content": new.content}
    # The name of the file must fit its language; otherwise the old path stays.
    if isinstance(new, Function) and isinstance(old, Function) and new.language != old.language:
        update |= {"language": new.language, "path": new.path}
    changed = old.model_copy(update=update)
    return tuple(changed if artifact is old else artifact for artifact in artifacts)
