"""Tools that create, change and delete skills, or have a model draft one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AliasChoices, Field

from prowess.errors import DuplicateSkill, Invalid, NotFound, Problem
from prowess.skill.kinds import Artifact, Function, Instructions, JsonObject
from prowess.skill.model import Skill
from prowess.skill.needs import NEED_FORMATS, parse_need
from prowess.skill.slug import check_slug, tool_name
from prowess.tools.skill_tools import read_skill_tools, read_tool_status
from prowess.tools.tool import ToolContext

if TYPE_CHECKING:
    from prowess.authoring.compose.composition import Composition

_NewSkill = Annotated[
    str,
    Field(
        description="Its name, for example resize-image.",
        validation_alias=AliasChoices("skill", "id", "slug", "skill_id", "skill_slug", "skill_name"),
    ),
]
_ChangedSkill = Annotated[
    str,
    Field(
        description="Its name, from search_skills.",
        validation_alias=AliasChoices("skill", "id", "slug", "skill_id", "skill_slug", "skill_name"),
    ),
]
_TITLE_NAMES = AliasChoices("title", "name")
_Description = Annotated[str, Field(min_length=1, max_length=1024)]
_Language = Literal["python", "typescript"]
_Runtime = Literal["wasm", "native"]
_AnyLanguage = Literal["python", "typescript", "javascript"]
# Linear in the length of a line, whatever it repeats: a model writes the code.
_PYTHON = re.compile(r"^(?:async )?def \w++\(.*:\s*(?:#.*)?$", re.MULTILINE)
_TYPESCRIPT = re.compile(
    r"^[^\S\n]*+(?:export\s+(?:default\s+)?(?:async\s+)?(?:function|const|let)\b|import\s.*\bfrom\s+[\"'])",
    re.MULTILINE,
)
_PATHS: dict[_AnyLanguage, str] = {"python": "execute.py", "typescript": "execute.ts", "javascript": "execute.js"}


async def skill_create(
    context: ToolContext,
    skill: _NewSkill,
    title: Annotated[str, Field(min_length=1, validation_alias=_TITLE_NAMES)],
    description: Annotated[
        _Description, Field(description="What it does and when to use it. Skills are found by this.")
    ],
    instructions: Annotated[str | None, Field(description="Markdown: how to do the task, step by step.")] = None,
    code: Annotated[str | None, Field(description="A file that defines execute(args, ctx).")] = None,
    parameters: Annotated[
        dict[str, Any] | None,
        Field(description='The args of the code: {"width": {"type": "integer", "required": true}}, or a JSON Schema.'),
    ] = None,
    tags: list[str] | None = None,
    language: Annotated[_Language | None, Field(description="Default: recognised from the code.")] = None,
    runtime: Annotated[_Runtime | None, Field(description="native must be approved. Default: wasm.")] = None,
    hosts: Annotated[list[str] | None, Field(description="Hosts for ctx.fetch.")] = None,
    env: Annotated[list[str] | None, Field(description="Variables for ctx.env.")] = None,
    roots: Annotated[list[str] | None, Field(description="Workspace folders to read, or rw:NAME to write.")] = None,
    requirements: Annotated[list[str] | None, Field(description="Python packages; needs native.")] = None,
) -> dict[str, Any]:
    """Create a skill from instructions, code, or both.

    You can use it at once. Code becomes the tool skill_<name>; call it once to test it. ctx has fetch, env, read_file,
    write_file and log (TypeScript: readFile, writeFile). execute returns {"success": true, "result": …}.
    """
    artifacts: list[Artifact] = []
    if instructions:
        artifacts.append(Instructions(name="instructions", content=instructions))
    if code:
        artifacts.append(_make_function(code, language or _recognise_language(code)))
    if not artifacts:
        raise Invalid(
            "A skill needs instructions, code, or both.", hint="Call skill_create again with instructions as Markdown."
        )
    slug = _check_ascii_slug(skill)
    await _check_slug_free(context, slug, called=bool(code))
    new = Skill(
        slug=slug,
        title=_check_title(title),
        description=description,
        tags=tuple(tags or ()),
        parameters=_make_schema(parameters),
        author=context.actor.label,
        form="native" if instructions else "devai",
        artifacts=tuple(artifacts),
        extra=_merge_needs({}, runtime=runtime, hosts=hosts, env=env, roots=roots, requirements=requirements),
    )
    # With the role of the session, which limits what an agent may write too.
    return await _describe_written(context, await context.engine.as_actor(await context.acting()).skills.create(new))


async def skill_update(
    context: ToolContext,
    skill: _ChangedSkill,
    title: Annotated[str | None, Field(min_length=1, validation_alias=_TITLE_NAMES)] = None,
    description: _Description | None = None,
    instructions: str | None = None,
    code: str | None = None,
    parameters: dict[str, Any] | None = None,
    tags: list[str] | None = None,
    language: _Language | None = None,
    runtime: _Runtime | None = None,
    hosts: list[str] | None = None,
    env: list[str] | None = None,
    roots: list[str] | None = None,
    requirements: list[str] | None = None,
) -> dict[str, Any]:
    """Change a skill. Give only what changes; the arguments are those of skill_create.

    Changing a skill that you did not create needs an approval.
    """
    before = await context.engine.skills.get(skill)
    fields = {
        "title": None if title is None else _check_title(title),
        "description": description,
        "tags": None if tags is None else tuple(tags),
    }
    changes: dict[str, Any] = {key: value for key, value in fields.items() if value is not None}
    if parameters is not None:
        changes["parameters"] = _make_schema(parameters)
    artifacts = before.artifacts
    if instructions is not None:
        artifacts = _replace_artifact(artifacts, Instructions(name="instructions", content=instructions))
    if code is not None:
        artifacts = _replace_artifact(
            artifacts, _make_function(code, language or _recognise_language(code, _function_language(before)))
        )
    # The stored code is in the old language and would not run.
    elif language is not None and language != _function_language(before):
        raise Invalid("A new language needs new code.", hint="Call skill_update again with language and code.")
    extra = _merge_needs(before.extra, runtime=runtime, hosts=hosts, env=env, roots=roots, requirements=requirements)
    if extra != before.extra:
        changes["extra"] = extra
    if not changes and artifacts == before.artifacts:
        raise Invalid(
            "Nothing to change.", hint="Call skill_update again with what should change, for example instructions."
        )
    changed = before.model_copy(update={**changes, "artifacts": artifacts})
    return await _describe_written(
        context, await context.engine.as_actor(await context.acting()).skills.update(changed)
    )


async def skill_delete(context: ToolContext, skill: _ChangedSkill) -> dict[str, Any]:
    """Delete a skill. A person must approve it first. It can be restored later."""
    removed = await context.engine.as_actor(await context.acting()).skills.delete(skill)
    return {"skill": removed.slug, "status": "deleted"}


async def _describe_written(context: ToolContext, skill: Skill) -> dict[str, Any]:
    """Describe a skill that was written, with the tool that calls it."""
    data: dict[str, Any] = {"skill": skill.slug, "title": skill.title, "digest": skill.digest, "status": "active"}
    tools = await read_tool_status(context, [skill.slug])
    return {**data, **tools.get(skill.slug, {})}


async def _check_slug_free(context: ToolContext, id: str, *, called: bool) -> None:
    """Raise `DuplicateSkill` if the slug is taken in any scope, or, for a skill that is `called`, the name of its tool."""
    try:
        # In any scope: a new skill in a nearer scope would hide the one that others use.
        existing = await context.engine.skills.get(id)
    except NotFound:
        await _check_tool_free(context, id) if called else None
        return
    raise DuplicateSkill(
        f"A skill {existing.slug!r} already exists ({existing.scope}).",
        hint="Call skill_create with another name, or skill_update to change that skill.",
    )


async def _check_tool_free(context: ToolContext, id: str) -> None:
    name = tool_name(id)
    if name in context.reserved or name in (await read_skill_tools(context)).by_name:
        raise DuplicateSkill(f"A tool {name} already exists.", hint="Call skill_create with another name.")


def _check_ascii_slug(id: str) -> str:
    """Return the slug if it is plain ASCII: a skill made by an agent must not look like another one."""
    slug = check_slug(id)
    if not slug.isascii():
        raise Invalid(
            f"Invalid name {slug!r}: it has letters other than a to z.",
            hint="Use lowercase letters a to z, digits and hyphens.",
        )
    return slug


def _check_title(title: str) -> str:
    if not title.strip() or not title.isprintable():
        raise Invalid("The title is empty or has invisible characters.", hint="Use a title of one line.")
    return title


def _make_function(code: str, language: _AnyLanguage) -> Function:
    path = _PATHS[language]
    return Function(name="execute", ordinal=1, path=path, content=code, language=language)


def _recognise_language(code: str, known: _AnyLanguage | None = None) -> _AnyLanguage:
    """Return the language that only code of this language has marks of; otherwise the known one, or Python."""
    has_python = _PYTHON.search(code) is not None
    if _TYPESCRIPT.search(code) and not has_python:
        return known if known in ("typescript", "javascript") else "typescript"
    return "python" if has_python else known or "python"


def _function_language(skill: Skill) -> _AnyLanguage:
    """Return the language of the skill's function, or the default if it has none."""
    function = next((artifact for artifact in skill.artifacts if isinstance(artifact, Function)), None)
    return function.language if function else "python"


def _merge_needs(extra: JsonObject, **needs: str | list[str] | None) -> JsonObject:
    """Return the fields with the given needs replaced. Empty values and defaults are dropped."""
    values = {name: value for name, value in needs.items() if value is not None}
    for name, form in NEED_FORMATS.items():
        if unread := parse_need(name, values.get(name))[1]:
            raise Invalid(f"Invalid value {str(unread[0])[:80]!r} for {name}.", hint=f"It takes {form.takes}.")
    others = {name: value for name, value in extra.items() if name not in values}
    return {**others, **{name: value for name, value in values.items() if value and value != "wasm"}}


def _make_schema(parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    # Imported here because it imports the readers of skills, which offering the tool does not need.
    from prowess.skill.forms.devai import schema_of

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


async def compose_skill(
    context: ToolContext,
    request: Annotated[str, Field(description="To start: what the skill should do.")] = "",
    composition: Annotated[str, Field(description="To continue: from an earlier answer.")] = "",
    feedback: Annotated[str, Field(description="What to change.")] = "",
    skill: Annotated[str, Field(description="To start: change this skill.")] = "",
    propose: Annotated[bool, Field(description="Ask the user to approve and save it.")] = False,
) -> dict[str, Any]:
    """Have a model draft a skill with tests.

    Offer this when the user keeps asking for the same. Start with request, then give composition and feedback, then
    composition and propose. Only the user sees and approves it.
    """
    # Imported here because it imports the database, which offering the tool does not need.
    from prowess.authoring.compose.composer import Composer

    composer = Composer(context.engine.as_actor(await context.acting()).context)
    if bool(request.strip()) == bool(composition.strip()):
        raise Invalid("Give either request or composition.", hint="Call compose_skill with request to start.")
    if request.strip():
        if feedback or propose:
            raise Invalid("There is no draft yet.", hint="Call compose_skill with request alone first.")
        draft = await composer.start(request, skill=skill, fallback_model=context.fallback_model)
        return _describe(draft)
    if feedback and propose:
        raise Invalid("Give either feedback or propose.", hint="Call compose_skill with feedback first, then propose.")
    if feedback:
        return _describe(await composer.refine(composition, feedback, fallback_model=context.fallback_model))
    if propose:
        saved = await composer.propose(composition)
        data = {"composition": composition, "state": "saved", "skill": saved.slug, "digest": saved.digest}
        return {**data, "hint": f"The user approved it. It is the skill {saved.slug} now."}
    return _describe(await composer.show(composition))


def _describe(composition: Composition) -> dict[str, Any]:
    """Describe a composition, and say what to call next."""
    if composition.state != "open":
        hint = "This composition has ended. Call compose_skill with request to start another one."
    elif composition.round is None:
        hint = "There is no draft yet. Call compose_skill with composition and feedback to try again."
    elif composition.round.checks.ok:
        hint = (
            f"Tell the user to look at the draft with `prowess compose show {composition.id[:8]}`. If they want changes, call "
            "compose_skill with composition and feedback; if they like it, with composition and propose."
        )
    else:
        hint = "The draft has errors and cannot be saved. Call compose_skill with composition and feedback to fix it."
    data = composition.as_agent_json()
    return {"composition": data.pop("id"), **data, "hint": hint}
