"""Skills as tools: each skill with a function, a request or a command is its own tool, `skill_<slug>`.

Such a tool has the description and parameters of its skill, so it is listed only if the gate would let the skill run, or
if a person may be asked: for a local skill, or the agent's own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from prowess.engine.callables import CallableSkill, preview_calls
from prowess.errors import ProwessError
from prowess.policy.actor import Actor
from prowess.policy.roles import Role, find_role
from prowess.policy.rules import Ruling
from prowess.policy.subject import Subject
from prowess.policy.text import clean_text
from prowess.skill.json_values import json_list, json_object, map_texts
from prowess.skill.kinds import kind_info
from prowess.skill.slug import tool_name
from prowess.threads import offload
from prowess.tools.tool import HINT_SCHEMA, Tool, ToolAnswer, ToolContext, check_text, error_data

if TYPE_CHECKING:
    from prowess.run.result import RunResult

DESCRIPTION_LIMIT = 1_024
_TITLE_LIMIT = 200
_CACHED_TOOLS = 4_096
"""How many tools of skills are cached."""
_CACHED_LISTS = 8

_ALTERNATIVES = ("allOf", "anyOf", "oneOf")
_REJECTED = frozenset({*_ALTERNATIVES, "enum", "not"})
"""Keywords that the APIs of OpenAI and Anthropic reject at the top level of a tool's schema."""

_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""The names of arguments that Anthropic's API accepts. It rejects the whole request for another one."""

_SKILL_RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "success": {"type": "boolean"},
        "result": {"description": "The output of the skill."},
        "error": {"type": "string", "description": "What went wrong, if success is false."},
        "hint": HINT_SCHEMA,
    },
    "required": ["success"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTools:
    """Callable skills by the name of their tool, and by slug the reason why others have none."""

    by_name: Mapping[str, CallableSkill]
    nameless: Mapping[str, str]


@lru_cache(maxsize=_CACHED_LISTS)
def name_skill_tools(
    skills: tuple[CallableSkill, ...], reserved: frozenset[str], local: frozenset[str] = frozenset()
) -> SkillTools:
    """Assign tool names to skills; `reserved` are the names of other tools, `local` the slugs of local skills.

    If two skills would get the same name, a local skill wins over any other; then the first slug wins. Otherwise a skill
    from elsewhere could take over the calls of a local one.
    """
    by_name: dict[str, CallableSkill] = {}
    nameless: dict[str, str] = {}
    for skill in sorted(skills, key=lambda one: (one.slug not in local, one.slug)):
        name = tool_name(skill.slug)
        if skill.fault:
            nameless[skill.slug] = skill.fault
        elif argument := next(
            (key for key in _find_properties(skill.parameters or {}) if not _ARGUMENT.fullmatch(key)), ""
        ):
            nameless[skill.slug] = (
                f"APIs of models reject its argument {clean_text(argument, limit=80)!r}: a name has at most 64 of A-Z, a-z, 0-9, "
                f"`_`, `.` and `-`. Call run_skill instead."
            )
        elif name in reserved:
            nameless[skill.slug] = f"The tool name {name} is taken by a built-in tool."
        elif name in by_name:
            nameless[skill.slug] = f"The tool name {name} is taken by the skill {by_name[name].slug!r}."
        else:
            by_name[name] = skill
    return SkillTools(by_name=by_name, nameless=nameless)


async def read_skill_tools(context: ToolContext) -> SkillTools:
    """Return the tools of the skills that exist now."""
    return await _name_tools(context, (await context.engine.skills.inventory()).functions)


def name_tools(context: ToolContext, skills: tuple[CallableSkill, ...]) -> SkillTools:
    """Return the tools of these skills. Blocking if two would have the same name: then it matters how far they are trusted."""
    if _have_own_names(skills):
        return name_skill_tools(skills, context.reserved)
    seen = preview_calls(context.engine.context, skills)
    local = frozenset(subject.slug for subject, _ in seen if subject.trust == "local")
    return name_skill_tools(skills, context.reserved, local)


async def _name_tools(context: ToolContext, skills: tuple[CallableSkill, ...]) -> SkillTools:
    return name_tools(context, skills) if _have_own_names(skills) else await offload(name_tools, context, skills)


@lru_cache(maxsize=_CACHED_LISTS)
def _have_own_names(skills: tuple[CallableSkill, ...]) -> bool:
    return len({tool_name(skill.slug) for skill in skills}) == len(skills)


async def find_callable(context: ToolContext, name: str) -> CallableSkill | None:
    """Return the skill whose tool has this name. The last inventory is tried first; a new one is read only if it fails."""
    seen = (await _name_tools(context, context.engine.skills.last_inventory.functions)).by_name.get(name)
    return seen or (await read_skill_tools(context)).by_name.get(name)


def role_offers_skill(role: Role, name: str) -> bool:
    """Return True if the role may run skills in general, or has this tool by name."""
    return role.offers("run_skill") or role.offers(name)


def is_listed(subject: Subject, ruling: Ruling, actor: Actor) -> bool:
    """Return True if the agent may call the tool, or may ask to and the skill's text is local or its own."""
    # Text from elsewhere would be in the tool's description before a person has seen it.
    known = subject.trust == "local" or (subject.trust == "agent" and subject.written_by == actor.label)
    return ruling.answer == "allow" or (ruling.answer == "ask" and known)


async def read_tool_status(context: ToolContext, slugs: Collection[str]) -> dict[str, dict[str, str]]:
    """Return, for each callable skill, the name of its `tool`, or in `no_tool` the reason why the agent has none.

    A `hint` says that a person is asked when the tool is called.
    """
    there = (await context.engine.skills.inventory()).functions
    skills = [skill for skill in there if skill.slug in slugs]
    if not skills:
        return {}
    nameless, acting = (await _name_tools(context, there)).nameless, await context.acting()
    role = find_role(acting.role, await context.engine.policy.get()) if acting.role else None
    previews = await context.engine.as_actor(acting).runs.preview(skills)
    return {
        skill.slug: _tool_status(subject, ruling, nameless.get(skill.slug, "") or _role_refusal(skill, role), acting)
        for skill, (subject, ruling) in zip(skills, previews, strict=True)
    }


def _role_refusal(skill: CallableSkill, role: Role | None) -> str:
    name = tool_name(skill.slug)
    return (
        "" if role is None or role_offers_skill(role, name) else f"The role {role.name} does not have the tool {name}."
    )


def _tool_status(subject: Subject, ruling: Ruling, fault: str, actor: Actor) -> dict[str, str]:
    if fault or not is_listed(subject, ruling, actor):
        return {"no_tool": fault or ruling.reason}
    hint = {"hint": f"A person must approve the first call: {ruling.reason}"} if ruling.answer == "ask" else {}
    return {"tool": tool_name(subject.slug), **hint}


# Keyed by identity: a `CallableSkill` stays the same object while its skill stays the same.
@lru_cache(maxsize=_CACHED_TOOLS)
def make_skill_tool(skill: CallableSkill) -> Tool:
    """Return a skill as a tool."""
    return Tool(
        name=tool_name(skill.slug),
        title=clean_text(skill.title, limit=_TITLE_LIMIT),
        description=clean_text(skill.description, limit=DESCRIPTION_LIMIT),
        parameters=_make_parameters(skill),
        effect="runs",
        call=partial(_call_skill, skill),
        result=_SKILL_RESULT,
        describe_error=failure_data,
        digest=skill.subject.digest,
        reach=skill.subject.reach,
    )


def failure_data(error: ProwessError) -> dict[str, Any]:
    """Return an error in the shape of the answers of skill tools."""
    return {"success": False, **error_data(error), "error": error.message, "code": error.code}


def _make_parameters(skill: CallableSkill) -> dict[str, Any]:
    """Return the schema of the arguments as the APIs of models take it: an object, without alternatives at the top level.

    They reject the whole request for one such tool. A run checks the arguments against the schema that the author wrote.
    """
    # The skill's author wrote the schema; one that cannot be encoded would fail the whole list of tools.
    schema = json_object(map_texts(skill.parameters or {}, _encodable, names=_encodable))
    if schema.get("type", "object") != "object":
        return {"type": "object"}
    properties = _find_properties(schema)
    shown = {key: value for key, value in schema.items() if key not in _REJECTED}
    return {**shown, "type": "object", **({"properties": properties} if properties else {})}


def _find_properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a schema and of its alternatives."""
    branches = [json_object(branch) for key in _ALTERNATIVES for branch in json_list(schema.get(key))]
    properties: dict[str, Any] = {}
    for part in (*branches, schema):
        properties |= json_object(part.get("properties"))
    return properties


def _encodable(text: str) -> str:
    return clean_text(text, limit=len(text))


async def _call_skill(skill: CallableSkill, context: ToolContext, arguments: Mapping[str, Any]) -> ToolAnswer:
    check_text(tool_name(skill.slug), arguments)
    result = await context.engine.runs.attempt(context.run_request(skill.slug, skill.artifact, arguments))
    trace = {"trace": result.parts[-1].trace} if result.parts else {}
    if result.error is not None:
        return ToolAnswer(data={**failure_data(result.error), **trace}, error=result.error)
    return ToolAnswer(data={"success": True, "result": _result_value(result), **trace})


def _result_value(result: RunResult) -> Any:
    """Return the output of the skill: its data, or else its text."""
    output = result.output
    if output is None or kind_info(output.kind).gives == "data":
        return output and output.data
    return output.text or None if output.data is None else output.data
