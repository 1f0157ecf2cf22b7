"""The toolbox of one agent: which tools it is offered now, and the calling of them.

A tool's description and schema are ours and fixed; no text of a skill ever becomes part of them.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel

from prowess.engine.engine import Engine
from prowess.errors import ApprovalRequired, BudgetExceeded, NotFound, ProwessError, Refused
from prowess.llm.model import Model
from prowess.policy.actor import Actor
from prowess.policy.plain import plain
from prowess.policy.roles import Role, role_of
from prowess.run.call import Watch, unwatched
from prowess.skill.kinds import FILE_KINDS
from prowess.tools import managing, prompting, reading, running
from prowess.tools.answer import Answer
from prowess.tools.arguments import arguments_of, checked, schema_of
from prowess.tools.desk import Desk

log = logging.getLogger(__name__)

Function = Callable[..., Awaitable[dict[str, Any] | Answer]]
Effect = Literal["reads", "changes", "destroys", "runs"]
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


_TABLE: tuple[tuple[Function, Effect, Need], ...] = (
    (reading.search_skills, "reads", "skills"),
    (prompting.enable_skill, "changes", "conversation"),
    (prompting.list_enabled_skills, "reads", "conversation"),
    (prompting.disable_skill, "changes", "conversation"),
    (reading.list_skills, "reads", "skills"),
    (reading.load_skill, "reads", "skills"),
    (reading.read_skill_resource, "reads", "files"),
    (running.run_skill, "runs", "skills"),
    (managing.skill_create, "changes", "writing"),
    (managing.skill_update, "changes", "writing"),
    (managing.skill_delete, "destroys", "writing"),
    (reading.skill_reload, "reads", ""),
    (reading.skill_list, "reads", ""),
)
_FAILED = "Go on without this, or ask the person you work for."
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
        "hint": {"description": "What to do next.", "anyOf": [{"type": "string"}, {"type": "null"}]},
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What an engine has for its tools to work on: any skill, and any skill with files besides its instructions."""

    skills: bool
    files: bool


async def holdings_of(engine: Engine) -> Holdings:
    """What there is now; it is the same for every actor, so that many toolboxes can be asked with one look."""
    files = await engine.serves(FILE_KINDS)
    return Holdings(skills=files or await engine.serves(), files=files)


class Toolbox:
    """The tools of one agent in one conversation."""

    def __init__(
        self,
        engine: Engine,
        *,
        actor: Actor,
        conversation: str = "",
        hands_over: bool = False,
        watch: Watch = unwatched,
        spare: Model | None = None,
    ) -> None:
        self.desk = Desk(
            engine=engine, actor=actor, conversation=conversation, hands_over=hands_over, watch=watch, spare=spare
        )

    async def offered(self, holdings: Holdings | None = None) -> list[Tool]:
        """The tools that make sense now, for this actor and role; none for an actor who may not read skills.

        `holdings` is what there is; without it, the engine is asked.
        """
        desk = self.desk
        if "skills.read" not in desk.actor.permissions:
            return []
        role = await self._role()
        there = _there(holdings or await holdings_of(desk.engine), desk)
        return [
            tool
            for tool in tools().values()
            if (not tool.needs or tool.needs in there) and (role is None or role.offers(tool.name))
        ]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Call a tool. Whatever goes wrong is an answer in words that a model can act on.

        What nobody foresaw is logged with its traceback, of which the answer tells nothing.
        """
        try:
            tool = _named(name)
            await self._permit(tool)
            given = await tool.function(self.desk, **checked(tool.arguments, arguments))
            return given if isinstance(given, Answer) else Answer(data=given)
        except ProwessError as error:
            return Answer(data=_told(error), error=error)
        except Exception:
            log.exception("The tool %s failed.", plain(name, limit=80))
            failure = ProwessError("Something went wrong here, not with your call.", hint=_FAILED)
            return Answer(data=_told(failure), error=failure)

    async def _role(self) -> Role | None:
        """The role that counts: the actor's own, else that of the session, if there is one; no session is opened."""
        name = await self.desk.role()
        return role_of(name, await self.desk.engine.policy(actor=self.desk.actor)) if name else None

    async def _permit(self, tool: Tool) -> None:
        actor = self.desk.actor
        actor.require("skills.read")
        if tool.needs == "writing" and "skills.write" not in actor.permissions:
            raise Refused(f"{actor.name} may not write skills.", hint="Ask a person with the permission skills.write.")
        role = await self._role()
        if role is not None and not role.offers(tool.name):
            raise Refused(
                f"The role {role.name} does not have the tool {tool.name}.",
                hint="Hand this to an agent whose role has it.",
            )


@cache
def tools() -> dict[str, Tool]:
    """Every tool, by name."""
    return {function.__name__: _tool(function, effect, needs) for function, effect, needs in _TABLE}


def _named(name: str) -> Tool:
    tool = tools().get(name)
    if tool is None:
        raise NotFound(f"There is no tool {name[:80]!r}.", hint=f"The tools are {', '.join(tools())}.")
    return tool


def _tool(function: Function, effect: Effect, needs: Need) -> Tool:
    arguments = arguments_of(function)
    return Tool(
        name=function.__name__,
        description=inspect.cleandoc(function.__doc__ or ""),
        parameters=schema_of(arguments),
        effect=effect,
        needs=needs,
        function=function,
        arguments=arguments,
    )


def _there(holdings: Holdings, desk: Desk) -> set[Need]:
    found: set[Need] = set()
    if holdings.skills:
        found.add("skills")
    if holdings.files:
        found.add("files")
    if holdings.skills and desk.conversation:
        found.add("conversation")
    if "skills.write" in desk.actor.permissions:
        found.add("writing")
    return found


def _told(error: ProwessError) -> dict[str, Any]:
    told: dict[str, Any] = {"error": {"code": error.code, "message": error.message}, "hint": error.hint or None}
    if isinstance(error, BudgetExceeded):
        budget = {"limit": error.limit, "used": error.used, "need": error.need, "disable": list(error.room)}
        told["budget"] = budget
    if isinstance(error, ApprovalRequired):
        told["approval_id"] = error.approval_id
    if not told["hint"]:
        told["hint"] = _FAILED
    return told
