"""The toolbox of one agent: which tools it is offered now, and how they are called.

The descriptions and schemas of the built-in tools are fixed; no text of a skill becomes part of them. Skills that can be
called are separate tools.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cache, wraps
from typing import Any, get_args

from prowess.engine.callables import Inventory, preview_calls
from prowess.engine.engine import Engine
from prowess.errors import Invalid, NotFound, ProwessError, Refused, RunFailed
from prowess.llm.model import Model
from prowess.policy.actor import Actor, agent_of
from prowess.policy.organization import OrgPolicy
from prowess.policy.roles import Role, find_role
from prowess.policy.text import clean_text
from prowess.run.request import Step, StepListener, ignore_step
from prowess.suggestions import did_you_mean
from prowess.threads import is_interruption, offload
from prowess.tools import connectors, edit, live, lookup, use
from prowess.tools import use as running
from prowess.tools.skill_tools import find_callable, is_listed, make_skill_tool, name_tools, role_offers_skill
from prowess.tools.tool import (
    DEFAULT_HINT,
    Effect,
    Need,
    SpecFormat,
    Tool,
    ToolAnswer,
    ToolContext,
    argument_aliases,
    check_arguments,
    error_data,
    make_arguments_model,
    make_arguments_schema,
    not_an_object,
    read_arguments,
)

log = logging.getLogger(__name__)

WAIT_NOTICE_SECONDS = 10.0
"""How often a call that waits for an approval reports that it still does."""

ToolFunction = Callable[..., Awaitable[dict[str, Any] | ToolAnswer]]

_TOOL_TABLE: tuple[tuple[ToolFunction, Effect, Need], ...] = (
    (lookup.search_skills, "reads", "skills"),
    (use.enable_skill, "changes", "conversation"),
    (use.list_enabled_skills, "reads", "conversation"),
    (use.disable_skill, "changes", "conversation"),
    (lookup.list_skills, "reads", ""),
    (lookup.load_skill, "reads", "skills"),
    (lookup.read_skill_resource, "reads", "files"),
    (running.run_skill, "runs", "skills"),
    (running.run_skill_script, "runs", "scripts"),
    (live.search_skills_registry, "reads", "registry"),
    (live.fetch_registry_skill, "changes", "live"),
    (edit.skill_create, "changes", "writing"),
    (edit.skill_update, "changes", "writing"),
    (edit.skill_delete, "destroys", "writing"),
    (edit.compose_skill, "changes", "writing"),
    (lookup.skill_reload, "reads", ""),
    (connectors.list_connectors, "reads", "connectors"),
    (connectors.search_connector_tools, "reads", "connectors"),
    (connectors.execute_connector_tool, "runs", "connectors"),
    (connectors.request_connector_access, "changes", "connectors"),
)

TOOL_ALIASES = {"skill_list": "list_skills"}
"""Other names of tools, as roles and agents of other products use them. They can be called, but are not offered."""


class Toolbox:
    """The tools of one agent in one conversation. The default actor is an agent of the engine's actor."""

    def __init__(
        self,
        engine: Engine,
        *,
        actor: Actor | None = None,
        conversation: str = "",
        return_content: bool = False,
        approval_seconds: float = 0.0,
        on_step: StepListener = ignore_step,
        fallback_model: Model | None = None,
    ) -> None:
        self.context = ToolContext(
            engine=engine.as_actor(actor or _default_agent(engine.actor)),
            conversation=conversation,
            return_content=return_content,
            approval_seconds=approval_seconds,
            on_step=on_step,
            fallback_model=fallback_model,
            reserved=frozenset([*builtin_tools(), *TOOL_ALIASES]),
        )

    async def offered(self, inventory: Inventory | None = None) -> list[Tool]:
        """Return the tools that this actor can use now in its role; none if the actor may not read skills.

        Built-in tools come first, then the tools of skills, by name. Pass `inventory` if you already have it, to save a query.
        """
        return await offload(self.read_offered, inventory)

    def read_offered(self, inventory: Inventory | None = None, *, recent: float = 0.0) -> list[Tool]:
        """Return the same as `offered`. Blocking.

        Skills that another program changed in the last `recent` seconds may be missing, or offered with their earlier content.
        """
        context = self.context
        if "skills.read" not in context.actor.permissions:
            return []
        engine = context.engine.context
        # One transaction for everything that is read: each of its own takes longer than what it reads.
        with engine.resources.snapshot():
            acting, policy = context.read_acting(), engine.read_policy()
            role = find_role(acting.role, policy) if acting.role else None
            skills = inventory or engine.resources.look_for_tools(recent=recent)
            available = _available_needs(skills, context) | self._live_needs(policy)
            if connectors.has_connectors(context):
                available.add("connectors")
            builtin = [
                tool
                for tool in builtin_tools().values()
                if (not tool.needs or tool.needs in available) and (role is None or _role_offers(role, tool))
            ]
            return builtin + self._functions(skills, acting, role)

    async def specs(self, format: SpecFormat = "json-schema") -> list[dict[str, Any]]:
        """Return the offered tools in the shape of a model API. Tools whose name it would reject are left out.

        Pass the name and the arguments of the model's tool call to `call`.
        """
        if format not in get_args(SpecFormat):
            raise Invalid(f"Unknown format {format[:40]!r}.", hint=f"Use one of: {', '.join(get_args(SpecFormat))}.")
        specs = [tool.spec(format) for tool in await self.offered()]
        return [spec for spec in specs if spec is not None]

    def _functions(self, inventory: Inventory, acting: Actor, role: Role | None) -> list[Tool]:
        """Return the tools of skills that the actor sees, by name."""
        named = name_tools(self.context, inventory.functions).by_name
        skills = [skill for name, skill in sorted(named.items()) if role is None or role_offers_skill(role, name)]
        if not skills:
            return []
        # One preview for all: it takes a few queries, however many skills there are.
        previews = preview_calls(self.context.engine.as_actor(acting).context, skills)
        return [
            make_skill_tool(skill)
            for skill, (subject, ruling) in zip(skills, previews, strict=True)
            if is_listed(subject, ruling, acting)
        ]

    async def call(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> ToolAnswer:
        """Call a tool. Errors are returned as results that a model can act on.

        `arguments` may be the JSON text that a model wrote, or None if it gave none. With `approval_seconds`, a call that
        needs an approval waits for the answer and continues by itself.
        """
        values = read_arguments(arguments)
        if values is None:
            return await self.refusal(name, not_an_object(name))
        answer = await self.attempt(name, values)
        return await self.resume(name, values, answer) if self.context.approval_seconds else answer

    async def resume(self, name: str, arguments: Mapping[str, Any], answer: ToolAnswer) -> ToolAnswer:
        """Wait until a person answers the approval that a call needs, then call again. Return other answers as they are.

        If nobody answers in time, the answer still has the id of the approval.
        """
        approval_id, seconds = str(answer.data.get("approval_id") or ""), self.context.approval_seconds
        if not approval_id or not seconds:
            return answer
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.context.on_step(Step(artifact=name, state=f"waiting for a person to approve {approval_id[:8]}"))
            row = await self.context.engine.approvals.wait(approval_id, seconds=min(left, WAIT_NOTICE_SECONDS))
            if row.state != "pending":
                # If the person denied it, the gate says so.
                return await self.attempt(name, arguments)
        hint = (
            f"Nobody has answered the approval {approval_id[:8]} yet. Tell the person that it is waiting for "
            f"their answer, and continue with other work. Then call {name} again with the same arguments."
        )
        return replace(answer, data={**answer.data, "hint": hint})

    async def attempt(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Call a tool once, without waiting for an approval.

        An unexpected exception is logged with its traceback; the answer does not show it.
        """
        # Errors have the general shape until the tool is known, then the shape of its answers.
        refusal = _error_answer
        try:
            tool = await self._find_tool(name)
            refusal = tool.refusal
            await self._permit(tool)
            return await tool.call(self.context, arguments)
        except ProwessError as error:
            return refusal(error.for_agent())
        except Exception:
            log.exception("The tool %s failed.", clean_text(name, limit=80))
            return refusal(ProwessError("Internal error. Your call was correct.", hint=DEFAULT_HINT))

    async def refusal(self, name: str, error: ProwessError) -> ToolAnswer:
        """Return an error in the shape of the tool with this name."""
        try:
            return (await self._find_tool(name)).refusal(error.for_agent())
        except ProwessError:
            return _error_answer(error.for_agent())

    async def _find_tool(self, name: str) -> Tool:
        """Return the tool with this name, offered or not, or raise `NotFound`."""
        own = builtin_tools().get(TOOL_ALIASES.get(name, name))
        if own is not None:
            return own
        self.context.actor.require("skills.read")
        skill = await find_callable(self.context, name) if name.startswith("skill_") else None
        if skill is None:
            offered = [tool.name for tool in await self.offered()]
            # Tools of skills may be many, and this is an answer to a model.
            names = [other for other in offered if other in builtin_tools()]
            listed = f"Call one of: {', '.join(names)}." if names else "No tool is available."
            raise NotFound(f"Unknown tool {name[:80]!r}.", hint=did_you_mean(name, offered) or listed)
        return make_skill_tool(skill)

    def _live_needs(self, policy: OrgPolicy) -> set[Need]:
        """Return what tools over a registry need, where an administrator has turned that on. Most have not."""
        # Compared with True, so that an unreadable value counts as off.
        if policy.skills_dynamic_search_enabled is not True:
            return set()
        # Files of a connector's skill can be read once it is fetched.
        return {"registry", "live", "conversation", "files"} if self.context.conversation else {"registry"}

    async def _role(self, acting: Actor) -> Role | None:
        """Return the role that the actor works in, or None."""
        if not acting.role:
            return None
        return find_role(acting.role, await self.context.engine.policy.get())

    async def _permit(self, tool: Tool) -> None:
        actor = self.context.actor
        actor.require("skills.read")
        if tool.needs == "writing" and "skills.write" not in actor.permissions:
            raise Refused(
                f"{actor.name} may not write skills.", hint="Ask a person who has the permission skills.write."
            )
        # Checked again at the call: a model can name a tool that it was not offered.
        role = await self._role(await self.context.acting())
        if role is not None and not _role_offers(role, tool):
            raise Refused(
                f"The role {role.name} does not have the tool {tool.name}.",
                hint="Use another tool, or delegate this to an agent whose role has it.",
            )


@cache
def builtin_tools() -> dict[str, Tool]:
    """Return the built-in tools and those of plugins, by name."""
    from prowess.plugins import working_plugins

    own = {function.__name__: _make_tool(function, effect, needs) for function, effect, needs in _TOOL_TABLE}
    brought: dict[str, Tool] = {}
    for plugin, tool in ((one, tool) for one in working_plugins() for tool in one.tools):
        name = tool.function.__name__
        # A plugin cannot replace a tool of ours.
        if name not in own:
            try:
                brought[name] = _make_tool(_checked(tool.function, plugin.name), tool.effect, "")
            except Exception as error:  # noqa: BLE001  (such as a missing annotation; the other tools are served)
                log.warning("Skipping the tool %s of a plugin: %s: %s", name, type(error).__name__, error)
    return own | brought


def _checked(function: ToolFunction, plugin: str) -> ToolFunction:
    """Return the function of a plugin's tool. It raises `RunFailed` for a foreign error, and if it returns no JSON object."""
    name = f"The tool {function.__name__} of the plugin {clean_text(plugin)}"

    @wraps(function)
    async def checked(*args: Any, **named: Any) -> dict[str, Any] | ToolAnswer:
        try:
            answer = await function(*args, **named)
            _check_data(answer.data if isinstance(answer, ToolAnswer) else answer)
        except BaseException as error:  # such as `SystemExit`, which would end the server
            if isinstance(error, ProwessError) or is_interruption(error):
                raise
            log.exception("%s failed.", name)
            hint = "This is a bug in the plugin, not in your call. The log has the traceback."
            raise RunFailed(f"{name} failed: {type(error).__name__}.", hint=hint) from error
        return answer

    return checked


def _check_data(data: object) -> None:
    if not isinstance(data, dict):
        raise TypeError(f"The tool returned {type(data).__name__}, not a dict.")
    json.dumps(data, ensure_ascii=False, allow_nan=False).encode()


def _role_offers(role: Role, tool: Tool) -> bool:
    """Return True if the role has the tool, under any of its names."""
    if tool.digest:
        return role_offers_skill(role, tool.name)
    aliases = [alias for alias, name in TOOL_ALIASES.items() if name == tool.name]
    return any(role.offers(name) for name in (tool.name, *aliases))


def _default_agent(actor: Actor) -> Actor:
    """Return an agent that works for a person; tools are called by a model, which must not act with a person's rights."""
    return agent_of(actor) if actor.is_person else actor


def _error_answer(error: ProwessError) -> ToolAnswer:
    return ToolAnswer(data=error_data(error), error=error)


def _make_tool(function: ToolFunction, effect: Effect, needs: Need) -> Tool:
    arguments = make_arguments_model(function)

    async def run(context: ToolContext, values: dict[str, Any]) -> ToolAnswer:
        try:
            answer = await function(context, **values)
        except NotFound as error:
            return _error_answer(error.for_agent())
        return answer if isinstance(answer, ToolAnswer) else ToolAnswer(data=answer)

    async def call(context: ToolContext, raw: Mapping[str, Any]) -> ToolAnswer:
        values = check_arguments(arguments, raw)
        answer = await run(context, values)
        # Writing needs the exact name: a skill must not be changed because its title resembles another's name.
        if "skill" not in values or needs == "writing" or not (answer.error or answer.data.get("error")):
            return answer
        return await lookup.correct_name(
            context, values["skill"], answer, lambda slug: run(context, {**values, "skill": slug})
        )

    return Tool(
        name=function.__name__,
        description=" ".join((function.__doc__ or "").split()),
        parameters=make_arguments_schema(arguments),
        effect=effect,
        needs=needs,
        call=call,
        aliases=argument_aliases(arguments),
    )


def _available_needs(inventory: Inventory, context: ToolContext) -> set[Need]:
    found: set[Need] = set()
    if inventory.skills:
        found.add("skills")
    if inventory.files:
        found.add("files")
    if inventory.scripts:
        found.add("scripts")
    if inventory.skills and context.conversation:
        found.add("conversation")
    if "skills.write" in context.actor.permissions:
        found.add("writing")
    return found
