"""The toolbox of one agent: which tools it is offered now, and the calling of them.

The description and schema of a tool of ours are fixed; no text of a skill ever becomes part of them. What skills bring as
tools of their own stands beside them.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any

from prowess.engine.callables import Holdings
from prowess.engine.engine import Engine
from prowess.errors import NotFound, ProwessError, Refused
from prowess.llm.model import Model
from prowess.policy.actor import Actor
from prowess.policy.plain import plain
from prowess.policy.roles import Role, role_of
from prowess.run.call import Watch, unwatched
from prowess.tools import managing, prompting, reading, running
from prowess.tools.answer import Answer
from prowess.tools.arguments import arguments_of, checked, schema_of
from prowess.tools.desk import Desk
from prowess.tools.functions import function_named, functions_of, grants, is_listed, tool_of
from prowess.tools.tool import NEXT, Effect, Need, Tool, told

log = logging.getLogger(__name__)

Function = Callable[..., Awaitable[dict[str, Any] | Answer]]

_TABLE: tuple[tuple[Function, Effect, Need], ...] = (
    (reading.search_skills, "reads", "skills"),
    (prompting.enable_skill, "changes", "conversation"),
    (prompting.list_enabled_skills, "reads", "conversation"),
    (prompting.disable_skill, "changes", "conversation"),
    (reading.list_skills, "reads", "skills"),
    (reading.load_skill, "reads", "skills"),
    (reading.read_skill_resource, "reads", "files"),
    (running.run_skill, "runs", "skills"),
    (running.run_skill_script, "runs", "scripts"),
    (managing.skill_create, "changes", "writing"),
    (managing.skill_update, "changes", "writing"),
    (managing.skill_delete, "destroys", "writing"),
    (reading.skill_reload, "reads", ""),
    (reading.skill_list, "reads", ""),
)


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
            engine=engine,
            actor=actor,
            conversation=conversation,
            hands_over=hands_over,
            watch=watch,
            spare=spare,
            reserved=frozenset(tools()),
        )

    async def offered(self, holdings: Holdings | None = None) -> list[Tool]:
        """The tools that make sense now, for this actor and role; none for an actor who may not read skills.

        Ours come first, then those of skills, by name. `holdings` is what there is; without it, the engine is asked.
        """
        desk = self.desk
        if "skills.read" not in desk.actor.permissions:
            return []
        acting = await desk.acting()
        role = await self._role(acting)
        held = holdings or await desk.engine.holdings()
        there = _there(held, desk)
        ours = [
            tool
            for tool in tools().values()
            if (not tool.needs or tool.needs in there) and (role is None or role.offers(tool.name))
        ]
        return ours + await self._functions(held, acting, role)

    async def _functions(self, holdings: Holdings, acting: Actor, role: Role | None) -> list[Tool]:
        """The tools of skills that this actor sees, by name."""
        named = functions_of(holdings.functions, self.desk.reserved).by_name
        skills = [skill for name, skill in sorted(named.items()) if role is None or grants(role, name)]
        if not skills:
            return []
        rulings = await self.desk.engine.foresee_runs(skills, actor=acting)
        return [
            tool_of(skill) for skill, ruling in zip(skills, rulings, strict=True) if is_listed(skill, ruling, acting)
        ]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Call a tool. Whatever goes wrong is an answer in words that a model can act on.

        What nobody foresaw is logged with its traceback, of which the answer tells nothing.
        """
        refusal = _refusal
        try:
            tool = await self._found(name)
            refusal = tool.refusal
            await self._permit(tool)
            return await tool.call(self.desk, arguments)
        except ProwessError as error:
            return refusal(error)
        except Exception:
            log.exception("The tool %s failed.", plain(name, limit=80))
            return refusal(ProwessError("Something went wrong here, not with your call.", hint=NEXT))

    async def refusal(self, name: str, error: ProwessError) -> Answer:
        """An error as the tool of this name tells it."""
        try:
            return (await self._found(name)).refusal(error)
        except ProwessError:
            return _refusal(error)

    async def _found(self, name: str) -> Tool:
        """The tool of a name, whether it is offered or not."""
        if name in tools():
            return tools()[name]
        self.desk.actor.require("skills.read")
        skill = await function_named(self.desk, name) if name.startswith("skill_") else None
        if skill is None:
            raise NotFound(f"There is no tool {name[:80]!r}.", hint=f"The tools are {', '.join(tools())}.")
        return tool_of(skill)

    async def _role(self, acting: Actor) -> Role | None:
        """The role that counts: the actor's own, else that of the session, if there is one; no session is opened."""
        if not acting.role:
            return None
        return role_of(acting.role, await self.desk.engine.policy(actor=self.desk.actor))

    async def _permit(self, tool: Tool) -> None:
        actor = self.desk.actor
        actor.require("skills.read")
        if tool.needs == "writing" and "skills.write" not in actor.permissions:
            raise Refused(f"{actor.name} may not write skills.", hint="Ask a person with the permission skills.write.")
        role = await self._role(await self.desk.acting())
        if role is not None and not (grants(role, tool.name) if tool.digest else role.offers(tool.name)):
            raise Refused(
                f"The role {role.name} does not have the tool {tool.name}.",
                hint="Hand this to an agent whose role has it.",
            )


@cache
def tools() -> dict[str, Tool]:
    """Every tool, by name."""
    return {function.__name__: _tool(function, effect, needs) for function, effect, needs in _TABLE}


def _refusal(error: ProwessError) -> Answer:
    return Answer(data=told(error), error=error)


def _tool(function: Function, effect: Effect, needs: Need) -> Tool:
    arguments = arguments_of(function)

    async def call(desk: Desk, given: Mapping[str, Any]) -> Answer:
        answer = await function(desk, **checked(arguments, given))
        return answer if isinstance(answer, Answer) else Answer(data=answer)

    return Tool(
        name=function.__name__,
        description=inspect.cleandoc(function.__doc__ or ""),
        parameters=schema_of(arguments),
        effect=effect,
        needs=needs,
        call=call,
    )


def _there(holdings: Holdings, desk: Desk) -> set[Need]:
    found: set[Need] = set()
    if holdings.skills:
        found.add("skills")
    if holdings.files:
        found.add("files")
    if holdings.scripts:
        found.add("scripts")
    if holdings.skills and desk.conversation:
        found.add("conversation")
    if "skills.write" in desk.actor.permissions:
        found.add("writing")
    return found
