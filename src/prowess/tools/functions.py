"""Skills as tools: each skill with a function, a request or a command is a tool of its own, `skill_<slug>`.

Such a tool has the description and the parameters that its skill brings, so that it is listed only where the gate would let
its skill run, or where asking about it is worth it: for a skill of this place, or of the agent's own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast

from prowess.engine.callables import CallableSkill
from prowess.errors import ProwessError
from prowess.policy.actor import Actor
from prowess.policy.plain import plain
from prowess.policy.roles import Role, role_of
from prowess.policy.rules import Ruling
from prowess.skill.slug import tool_name
from prowess.tools.answer import Answer
from prowess.tools.arguments import refuse_no_text
from prowess.tools.desk import Desk
from prowess.tools.tool import HINT, Tool, told

if TYPE_CHECKING:
    from prowess.run.outcome import RunResult

DESCRIPTION_LIMIT = 1_024
_TITLE_LIMIT = 200
_MOST_TOOLS = 4_096
"""So many tools are kept ready."""
_MOST_LISTS = 8

_RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "success": {"type": "boolean"},
        "result": {"description": "What the skill gave."},
        "error": {"type": "string", "description": "What went wrong, where success is false."},
        "hint": HINT,
    },
    "required": ["success"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Functions:
    """The callable skills by the name of their tool, and by slug why others have none."""

    by_name: Mapping[str, CallableSkill]
    nameless: Mapping[str, str]


@lru_cache(maxsize=_MOST_LISTS)
def functions_of(skills: tuple[CallableSkill, ...], reserved: frozenset[str]) -> Functions:
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
    return Functions(by_name=by_name, nameless=nameless)


async def functions_at(desk: Desk) -> Functions:
    """The same, of the skills that there are now."""
    return functions_of((await desk.engine.holdings()).functions, desk.reserved)


async def function_named(desk: Desk, name: str) -> CallableSkill | None:
    """The skill whose tool has a name: by what was last seen, and only where that does not have it by what there is now."""
    seen = functions_of(desk.engine.held.functions, desk.reserved).by_name.get(name)
    return seen or (await functions_at(desk)).by_name.get(name)


def grants(role: Role, name: str) -> bool:
    """Whether an actor of a role gets the tool of a skill: as it runs skills, or by the tool's own name."""
    return role.offers("run_skill") or role.offers(name)


def is_listed(skill: CallableSkill, ruling: Ruling, actor: Actor) -> bool:
    """Whether an agent sees the tool: it may call it, or may ask to and the text is not a stranger's."""
    subject = skill.subject
    known = subject.trust == "local" or (subject.trust == "agent" and subject.written_by == actor.label)
    return ruling.answer == "allow" or (ruling.answer == "ask" and known)


async def standing_of(desk: Desk, slugs: Collection[str]) -> dict[str, dict[str, str]]:
    """For those of the skills that are called: the `tool` that the agent has, or `no_tool`, which says why it has none.

    A `hint` says that a person is asked when the tool is called.
    """
    there = (await desk.engine.holdings()).functions
    skills = [skill for skill in there if skill.slug in slugs]
    if not skills:
        return {}
    nameless, acting = functions_of(there, desk.reserved).nameless, await desk.acting()
    role = role_of(acting.role, await desk.engine.policy(actor=desk.actor)) if acting.role else None
    rulings = await desk.engine.foresee_runs(skills, actor=acting)
    return {
        skill.slug: _standing(skill, ruling, nameless.get(skill.slug, "") or _withheld(skill, role), acting)
        for skill, ruling in zip(skills, rulings, strict=True)
    }


def _withheld(skill: CallableSkill, role: Role | None) -> str:
    name = tool_name(skill.slug)
    return "" if role is None or grants(role, name) else f"The role {role.name} does not have the tool {name}."


def _standing(skill: CallableSkill, ruling: Ruling, fault: str, actor: Actor) -> dict[str, str]:
    if fault or not is_listed(skill, ruling, actor):
        return {"no_tool": fault or ruling.reason}
    asked = {"hint": f"A person is asked when it is called: {ruling.reason}"} if ruling.answer == "ask" else {}
    return {"tool": tool_name(skill.slug), **asked}


@lru_cache(maxsize=_MOST_TOOLS)
def tool_of(skill: CallableSkill) -> Tool:
    """A skill as a tool."""
    return Tool(
        name=tool_name(skill.slug),
        title=plain(skill.title, limit=_TITLE_LIMIT),
        description=plain(skill.description, limit=DESCRIPTION_LIMIT),
        parameters=_parameters(skill),
        effect="runs",
        call=partial(_call, skill),
        result=_RESULT,
        told=failed,
        digest=skill.subject.digest,
        reach=skill.subject.reach,
    )


def failed(error: ProwessError) -> dict[str, Any]:
    """An error as functions tell it."""
    return {"success": False, **told(error), "error": error.message, "code": error.code}


def _parameters(skill: CallableSkill) -> dict[str, Any]:
    """The schema of what a call gives: that of the skill, an object whatever else it says."""
    schema = cast("dict[str, Any]", _clean(skill.parameters or {}))
    return schema if schema.get("type") == "object" else {"type": "object"}


def _clean(value: Any) -> Any:
    """The same value with a mark for whatever is no text in it."""
    if isinstance(value, str):
        return plain(value, limit=len(value))
    if isinstance(value, dict):
        return {_clean(key): _clean(one) for key, one in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_clean(one) for one in cast("list[Any]", value)]
    return value


async def _call(skill: CallableSkill, desk: Desk, arguments: Mapping[str, Any]) -> Answer:
    refuse_no_text(tool_name(skill.slug), arguments)
    result = await desk.engine.attempt(
        desk.conversation,
        skill.slug,
        skill.artifact,
        inputs=arguments,
        spare=desk.spare,
        watch=desk.watch,
        actor=desk.actor,
    )
    trace = {"trace": result.parts[-1].trace} if result.parts else {}
    if result.error is not None:
        return Answer(data={**failed(result.error), **trace}, error=result.error)
    return Answer(data={"success": True, "result": _given(result), **trace})


def _given(result: RunResult) -> Any:
    """What the skill gave: data, or text where it gave nothing else."""
    output = result.output
    if output is None or output.kind == "function":
        return output and output.data
    return output.text or None if output.data is None else output.data
