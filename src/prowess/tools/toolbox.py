"""The toolbox of one agent: which tools it is offered now, and the calling of them.

A tool's description and schema are ours and fixed; no text of a skill ever becomes part of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from prowess.engine.engine import Engine
from prowess.errors import ApprovalRequired, BudgetExceeded, Invalid, NotFound, Problem, ProwessError, Refused
from prowess.policy.actor import Actor
from prowess.policy.plain import plain
from prowess.policy.roles import Role, role_of
from prowess.skill.kinds import FILE_KINDS
from prowess.skill.model import SkillCard
from prowess.tools import managing, prompting, reading
from prowess.tools.desk import Desk

Function = Callable[..., Awaitable[dict[str, Any]]]
Effect = Literal["reads", "changes", "destroys"]
Need = Literal["", "skills", "files", "conversation", "writing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool as an agent sees it. `needs` is what has to be there for it to make sense."""

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Effect
    needs: Need
    function: Function
    arguments: type[BaseModel]

    @property
    def result(self) -> dict[str, Any]:
        """The JSON Schema of its answer: an object, which has `error` where the tool refused."""
        return _RESULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a call gave; with an `error`, `data` tells the agent what went wrong and what to do."""

    data: dict[str, Any]
    error: ProwessError | None = field(default=None)

    @property
    def ok(self) -> bool:
        """Whether the tool did what it was asked."""
        return self.error is None


_TABLE: tuple[tuple[Function, Effect, Need], ...] = (
    (reading.search_skills, "reads", "skills"),
    (prompting.enable_skill, "changes", "conversation"),
    (prompting.list_enabled_skills, "reads", "conversation"),
    (prompting.disable_skill, "changes", "conversation"),
    (reading.list_skills, "reads", "skills"),
    (reading.load_skill, "reads", "skills"),
    (reading.read_skill_resource, "reads", "files"),
    (managing.skill_create, "changes", "writing"),
    (managing.skill_update, "changes", "writing"),
    (managing.skill_delete, "destroys", "writing"),
    (reading.skill_reload, "reads", ""),
    (reading.skill_list, "reads", ""),
)
_RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "error": {
            "description": "What went wrong, where the tool refused; absent or null otherwise.",
            "anyOf": [
                {"type": "null"},
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
                    "required": ["code", "message"],
                },
            ],
        },
        "hint": {"description": "What to do next.", "type": ["string", "null"]},
    },
}


class Toolbox:
    """The tools of one agent in one conversation."""

    def __init__(self, engine: Engine, *, actor: Actor, conversation: str = "", hands_over: bool = False) -> None:
        self.desk = Desk(engine=engine, actor=actor, conversation=conversation, hands_over=hands_over)

    async def offered(self) -> list[Tool]:
        """The tools that make sense now, for this actor and role; none for an actor who may not read skills."""
        desk = self.desk
        if "skills.read" not in desk.actor.permissions:
            return []
        role = await self._role()
        cards = await desk.engine.cards()
        there = _there(cards, desk)
        return [
            tool for tool in tools().values() if (not tool.needs or tool.needs in there) and _grants(role, tool.name)
        ]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Call a tool. Whatever goes wrong is an answer in words that a model can act on."""
        try:
            tool = tools().get(name)
            if tool is None:
                raise NotFound(f"There is no tool {name[:80]!r}.", hint=f"The tools are {', '.join(tools())}.")
            await self._permit(tool)
            values = _checked(tool, arguments)
            return Answer(data=await tool.function(self.desk, **values))
        except ProwessError as error:
            return Answer(data=_told(error), error=error)

    async def _role(self) -> Role | None:
        actor = self.desk.actor
        return role_of(actor.role, await self.desk.engine.policy(actor=actor)) if actor.role else None

    async def _permit(self, tool: Tool) -> None:
        actor = self.desk.actor
        actor.require("skills.read")
        if tool.needs == "writing" and "skills.write" not in actor.permissions:
            raise Refused(f"{actor.name} may not write skills.", hint="Ask a person with the permission skills.write.")
        if not _grants(await self._role(), tool.name):
            raise Refused(
                f"The role {actor.role} does not have the tool {tool.name}.",
                hint="Hand this to an agent whose role has it.",
            )


@cache
def tools() -> dict[str, Tool]:
    """Every tool, by name."""
    return {function.__name__: _tool(function, effect, needs) for function, effect, needs in _TABLE}


def _tool(function: Function, effect: Effect, needs: Need) -> Tool:
    arguments = _arguments(function)
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    for value in schema.get("properties", {}).values():
        value.pop("title", None)
    return Tool(
        name=function.__name__,
        description=inspect.cleandoc(function.__doc__ or ""),
        parameters=schema,
        effect=effect,
        needs=needs,
        function=function,
        arguments=arguments,
    )


def _arguments(function: Function) -> type[BaseModel]:
    """The arguments of a tool, but for the desk that it works at."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in list(inspect.signature(function).parameters.items())[1:]
    }
    config = ConfigDict(extra="forbid", strict=True)
    return create_model(function.__name__, __config__=config, **fields)


def _checked(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    try:
        model = tool.arguments.model_validate(arguments)
    except ValidationError as error:
        problems = [
            _fault(fault["loc"], fault["msg"]) for fault in error.errors(include_url=False, include_input=False)[:20]
        ]
        told = "; ".join(problem.message for problem in problems)
        takes = ", ".join(tool.arguments.model_fields) or "no arguments"
        raise Invalid(
            f"{tool.name} cannot be called like this: {told}.", hint=f"It takes {takes}.", problems=problems
        ) from error
    return {name: getattr(model, name) for name in type(model).model_fields}


def _fault(place: tuple[int | str, ...], said: str) -> Problem:
    """What is wrong with one argument; an unknown one can have any name, so that its name has an end."""
    field = ".".join(plain(str(part), limit=80) for part in place) or "arguments"
    return Problem(code="argument", severity="error", message=f"{field}: {plain(said, limit=200)}", field=field)


def _there(cards: list[SkillCard], desk: Desk) -> set[Need]:
    found: set[Need] = set()
    if cards:
        found.add("skills")
    if any(not FILE_KINDS.isdisjoint(card.kinds) for card in cards):
        found.add("files")
    if cards and desk.conversation:
        found.add("conversation")
    if "skills.write" in desk.actor.permissions:
        found.add("writing")
    return found


def _grants(role: Role | None, tool: str) -> bool:
    return role is None or role.offers(tool)


def _told(error: ProwessError) -> dict[str, Any]:
    told: dict[str, Any] = {"error": {"code": error.code, "message": error.message}, "hint": error.hint or None}
    if isinstance(error, BudgetExceeded):
        budget = {"limit": error.limit, "used": error.used, "need": error.need, "disable": list(error.room)}
        told["budget"] = budget
    if isinstance(error, ApprovalRequired):
        told["approval_id"] = error.approval_id
    if not told["hint"]:
        told["hint"] = "Go on without this, or ask the person you work for."
    return told
