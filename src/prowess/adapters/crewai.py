"""Skills in CrewAI: an agent that brings its tools and instructions.

    agent = SkillAgent(skills, ask=ask, role="Writer", goal="…", backstory="…", llm=llm)
    result = await agent.kickoff_async(message)

The agent matches the message when a run starts, or the description of a task in a crew that runs with `akickoff`. The
prompt blocks are rebuilt before each request to the model, the tools at the beginning of a run. CrewAI has no pause for an
approval, so a call that needs one waits for `ask`; without it, the model is told that the call waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, PrivateAttr

from prowess.adapters.agent_skills import AgentSkills, AskPerson, missing_framework
from prowess.errors import Invalid
from prowess.tools.tool import Tool

try:
    from crewai import Agent
    from crewai.hooks import LLMCallHookContext
    from crewai.tools import BaseTool
except ModuleNotFoundError as error:
    raise missing_framework("CrewAI", "crewai") from error

T = TypeVar("T")


class SkillAgent(Agent):
    """An agent with skills. All options but the first two are those of `Agent`."""

    _skills: AgentSkills = PrivateAttr()
    _ask: AskPerson | None = PrivateAttr()
    _loop: asyncio.AbstractEventLoop | None = PrivateAttr(default=None)

    def __init__(self, skills: AgentSkills, *, ask: AskPerson | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._skills, self._ask = skills, ask

    async def kickoff_async(self, messages: Any, *options: Any, **named: Any) -> Any:
        """Match the user's last message, then run the agent."""
        self.tools = await self._begin(_text(messages), self.tools)
        return await super().kickoff_async(messages, *options, **named)  # pyright: ignore[reportUnknownMemberType]

    async def aexecute_task(self, task: Any, context: str | None = None, tools: list[BaseTool] | None = None) -> Any:
        """Match the description of a task of a crew, then execute it."""
        return await super().aexecute_task(task, context, await self._begin(str(task.description), tools or self.tools))

    def create_agent_executor(self, *options: Any, **named: Any) -> None:
        """Create the executor of a task, which rebuilds the prompt before each request."""
        super().create_agent_executor(*options, **named)
        self._add_hook(self.agent_executor)

    def call_tool(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a tool of ours through the gate, and ask a person if it needs an approval. Blocking."""
        return self._wait(self._call(name, arguments))

    def _prepare_kickoff(self, *options: Any, **named: Any) -> Any:
        executor, *rest = super()._prepare_kickoff(*options, **named)  # pyright: ignore[reportUnknownMemberType]
        self._add_hook(executor)
        return executor, *rest

    async def _begin(self, message: str, tools: list[BaseTool] | None) -> list[BaseTool]:
        """Match a message, and return the tools with those that are offered now. Tools of the same name stay the agent's."""
        self._loop = asyncio.get_running_loop()
        await self._skills.begin(message)
        own = [tool for tool in tools or [] if not isinstance(tool, SkillTool)]
        taken = {tool.name for tool in own}
        return [*own, *(SkillTool(tool, self) for tool in await self._skills.tools() if tool.name not in taken)]

    def _add_hook(self, executor: Any) -> None:
        if self._add_blocks not in executor.before_llm_call_hooks:  # an executor may be used again
            executor.before_llm_call_hooks.append(self._add_blocks)

    def _add_blocks(self, context: LLMCallHookContext) -> None:
        """Put the blocks as they are now into the system prompt, instead of those of earlier steps."""
        system = next((one for one in context.messages if one["role"] == "system"), None)
        prompt = self._wait(self._skills.prompt(into=str(system["content"] or "") if system else ""))
        if system is not None:
            system["content"] = prompt
        elif prompt:
            context.messages.insert(0, {"role": "system", "content": prompt})

    async def _call(self, name: str, arguments: dict[str, Any]) -> str:
        result = await self._skills.call(name, arguments)
        if result.approval is not None and self._ask is not None:
            await self._skills.ask(result.approval, self._ask)
            # Also after a denial: the gate then tells the model.
            result = await self._skills.call(name, arguments)
        return result.text

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        # CrewAI runs the steps of an agent, with hooks and tools, in threads outside the event loop.
        if self._loop is None:
            work.close()
            raise Invalid("An agent with skills must run in an event loop.", hint="Use kickoff_async or akickoff.")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class SkillTool(BaseTool):
    """One tool of Prowess. CrewAI must not remember its results: what a call returns changes."""

    _agent: SkillAgent = PrivateAttr()

    def __init__(self, tool: Tool, agent: SkillAgent) -> None:
        super().__init__(
            name=tool.name,
            description=tool.description,
            args_schema=_arguments_model(tool),
            cache_function=_never,
        )
        self._agent = agent

    def _run(self, **arguments: Any) -> str:
        return self._agent.call_tool(self.name, arguments)


def _arguments_model(tool: Tool) -> type[BaseModel]:
    """Return a model with the schema of a tool that accepts anything: the tool checks its arguments itself."""

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return {**tool.parameters}

    return Arguments


def _never(_arguments: Any, _result: Any) -> bool:
    return False


def _text(messages: Any) -> str:
    """Return the text of the user's last message."""
    if isinstance(messages, str):
        return messages
    said = [one["content"] for one in messages if one.get("role") == "user" and isinstance(one.get("content"), str)]
    return said[-1] if said else ""
