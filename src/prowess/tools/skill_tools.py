"""Skills as tools: each skill with a function, a request or a command is a tool of its own, `skill_<slug>`.

Such a tool has the description and parameters of its skill, so it is listed only if the gate would let the skill run, or
if a person may be asked: for a local skill, or the agent's own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast

from prowess.engine.callables import CallableSkill
from prowess.errors import ProwessError
from prowess.policy.actor import Actor
from prowess.policy.roles import Role, find_role
from prowess.policy.rules import Ruling
from prowess.policy.text import clean_text
from prowess.skill.kinds import kind_info
from prowess.skill.slug import tool_name
from prowess.tools.tool import HINT_SCHEMA, Tool, ToolAnswer, ToolContext, check_text, told

if TYPE_CHECKING:
    from prowess.run.result import RunResult

DESCRIPTION_LIMIT = 1_024
_TITLE_LIMIT = 200
_CACHED_TOOLS = 4_096
"""So many tools are kept ready."""
_CACHED_LISTS = 8

_SKILL_RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "success": {"type": "boolean"},
        "result": {"description": "What the skill gave."},
        "error": {"type": "string", "description": "What went wrong, where success is false."},
        "hint": HINT_SCHEMA,
    },
    "required": ["success"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTools:
    """The callable skills by the name of their tool, and by slug why others have none."""

    by_name: Mapping[str, CallableSkill]
    nameless: Mapping[str, str]


@lru_cache(maxsize=_CACHED_LISTS)
def name_skill_tools(skills: tuple[CallableSkill, ...], reserved: frozenset[str]) -> SkillTools:
    """Which tool belongs to which skill; `reserved` are the names of other tools.

    Two skills can come to the same name: it is that of the skill of this place before that of one from elsewhere or by an
    agent, and then of the first by slug.
    """
    by_name: dict[str, CallableSkill] = {}
    nameless: dict[str, str] = {}
    for skill in sorted(skills, key=lambda one: (one.subject.trust != "local", one.slug)):
        name = tool_name(skill.slug)
        if skill.fault:
            nameless[skill.slug] = skill.fault
        elif name in reserved:
            nameless[skill.slug] = f"Its tool would be called {name}, as another tool of Prowess."
        elif name in by_name:
            nameless[skill.slug] = f"Its tool would be called {name}, as that of the skill {by_name[name].slug!r}."
        else:
            by_name[name] = skill
    return SkillTools(by_name=by_name, nameless=nameless)


async def read_skill_tools(desk: ToolContext) -> SkillTools:
    """The same, of the skills that there are now."""
    return name_skill_tools((await desk.engine.skills.inventory()).functions, desk.reserved)


async def find_callable(desk: ToolContext, name: str) -> CallableSkill | None:
    """The skill whose tool has a name: by what was last seen, and only where that does not have it by what there is now."""
    seen = name_skill_tools(desk.engine.skills.last_inventory.functions, desk.reserved).by_name.get(name)
    return seen or (await read_skill_tools(desk)).by_name.get(name)


def role_offers_skill(role: Role, name: str) -> bool:
    """Whether an actor of a role gets the tool of a skill: as it runs skills, or by the tool's own name."""
    return role.offers("run_skill") or role.offers(name)


def is_listed(skill: CallableSkill, ruling: Ruling, actor: Actor) -> bool:
    """Whether an agent sees the tool: it may call it, or may ask to and the text is not a stranger's."""
    subject = skill.subject
    known = subject.trust == "local" or (subject.trust == "agent" and subject.written_by == actor.label)
    return ruling.answer == "allow" or (ruling.answer == "ask" and known)


async def read_tool_status(desk: ToolContext, slugs: Collection[str]) -> dict[str, dict[str, str]]:
    """For those of the skills that are called: the `tool` that the agent has, or `no_tool`, which says why it has none.

    A `hint` says that a person is asked when the tool is called.
    """
    there = (await desk.engine.skills.inventory()).functions
    skills = [skill for skill in there if skill.slug in slugs]
    if not skills:
        return {}
    nameless, acting = name_skill_tools(there, desk.reserved).nameless, await desk.acting()
    role = find_role(acting.role, await desk.engine.policy.get()) if acting.role else None
    rulings = await desk.engine.as_actor(acting).runs.preview(skills)
    return {
        skill.slug: _tool_status(skill, ruling, nameless.get(skill.slug, "") or _role_refusal(skill, role), acting)
        for skill, ruling in zip(skills, rulings, strict=True)
    }


def _role_refusal(skill: CallableSkill, role: Role | None) -> str:
    name = tool_name(skill.slug)
    return (
        "" if role is None or role_offers_skill(role, name) else f"The role {role.name} does not have the tool {name}."
    )


def _tool_status(skill: CallableSkill, ruling: Ruling, fault: str, actor: Actor) -> dict[str, str]:
    if fault or not is_listed(skill, ruling, actor):
        return {"no_tool": fault or ruling.reason}
    asked = {"hint": f"A person is asked when it is called: {ruling.reason}"} if ruling.answer == "ask" else {}
    return {"tool": tool_name(skill.slug), **asked}


@lru_cache(maxsize=_CACHED_TOOLS)
def make_skill_tool(skill: CallableSkill) -> Tool:
    """A skill as a tool."""
    return Tool(
        name=tool_name(skill.slug),
        title=clean_text(skill.title, limit=_TITLE_LIMIT),
        description=clean_text(skill.description, limit=DESCRIPTION_LIMIT),
        parameters=_make_parameters(skill),
        effect="runs",
        call=partial(_call_skill, skill),
        result=_SKILL_RESULT,
        told=failure_data,
        digest=skill.subject.digest,
        reach=skill.subject.reach,
    )


def failure_data(error: ProwessError) -> dict[str, Any]:
    """An error as functions tell it."""
    return {"success": False, **told(error), "error": error.message, "code": error.code}


def _make_parameters(skill: CallableSkill) -> dict[str, Any]:
    """The schema of what a call gives: that of the skill, an object whatever else it says."""
    schema = cast("dict[str, Any]", _clean_schema(skill.parameters or {}))
    return schema if schema.get("type") == "object" else {"type": "object"}


def _clean_schema(value: Any) -> Any:
    """The same value with a mark for whatever is no text in it."""
    if isinstance(value, str):
        return clean_text(value, limit=len(value))
    if isinstance(value, dict):
        return {_clean_schema(key): _clean_schema(one) for key, one in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_clean_schema(one) for one in cast("list[Any]", value)]
    return value


async def _call_skill(skill: CallableSkill, desk: ToolContext, arguments: Mapping[str, Any]) -> ToolAnswer:
    check_text(tool_name(skill.slug), arguments)
    result = await desk.engine.runs.attempt(desk.run_request(skill.slug, skill.artifact, arguments))
    trace = {"trace": result.parts[-1].trace} if result.parts else {}
    if result.error is not None:
        return ToolAnswer(data={**failure_data(result.error), **trace}, error=result.error)
    return ToolAnswer(data={"success": True, "result": _result_value(result), **trace})


def _result_value(result: RunResult) -> Any:
    """What the skill gave: data, or text where it gave nothing else."""
    output = result.output
    if output is None or kind_info(output.kind).gives == "data":
        return output and output.data
    return output.text or None if output.data is None else output.data
