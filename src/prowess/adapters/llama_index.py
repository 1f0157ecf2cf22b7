"""LlamaIndex: skills for a function-calling agent.

    agent = SkillAgent(prowess, llm=llm, system_prompt="…")
    handler = agent.run("…", ctx=context)

The agent matches the message when a run starts, and has the prompt blocks and the tools of each step. A call that a person
must approve waits: the run emits an `InputRequiredEvent`, and continues with a `HumanResponseEvent` that has the same
`approval_id` and `approved`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from prowess.adapters.agent_skills import AgentSkills, CallResult, missing_framework
from prowess.engine.engine import Engine
from prowess.tools.tool import Tool

try:
    from llama_index.core.agent.workflow import AgentOutput, FunctionAgent
    from llama_index.core.agent.workflow.agent_context import AgentContext
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.llms import ChatMessage
    from llama_index.core.memory import BaseMemory
    from llama_index.core.tools import AsyncBaseTool, ToolMetadata, ToolOutput
    from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent
except ImportError as error:
    raise missing_framework("LlamaIndex", "llama-index") from error

_CONVERSATION = "prowess_conversation"
"""The key in the store of a context that holds the name of its conversation. It is kept when the context is serialized."""


class SkillAgent(FunctionAgent):
    """A function agent with skills. Each `Context` is its own conversation.

    `skill_options` are those of `AgentSkills`, such as `agent` and `role`; all others are those of `FunctionAgent`.
    """

    _prowess: Engine = PrivateAttr()
    _options: dict[str, Any] = PrivateAttr()

    def __init__(self, prowess: Engine, *, skill_options: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(**options)  # pyright: ignore[reportUnknownMemberType]
        self._prowess, self._options = prowess, skill_options or {}

    async def get_tools(self, input_str: str | None = None) -> Sequence[AsyncBaseTool]:
        """Return the agent's own tools and those of Prowess. `_call_tool` calls them in their conversation."""
        offered = await AgentSkills(self._prowess, conversation="llama-index", **self._options).tools()
        return [*await super().get_tools(input_str), *(SkillTool(tool) for tool in offered)]

    async def take_step(
        self, ctx: AgentContext, llm_input: list[ChatMessage], tools: Sequence[AsyncBaseTool], memory: BaseMemory
    ) -> AgentOutput:
        """Match the message at the first step, and ask the model with the prompt blocks of this step."""
        skills = await self._skills(ctx)
        if not await ctx.store.get("num_iterations", default=0):
            await skills.begin(await ctx.store.get("user_msg_str", default=""))
        has_system = bool(llm_input) and llm_input[0].role == "system"
        prompt = await skills.prompt((llm_input[0].content if has_system else "") or "")
        system = [ChatMessage(role="system", content=prompt)] if prompt else []
        return await super().take_step(ctx, [*system, *llm_input[has_system:]], tools, memory)

    async def _call_tool(self, ctx: Context, tool: AsyncBaseTool, tool_input: dict[str, Any]) -> ToolOutput:
        """Call a tool; one of Prowess through the gate, in the conversation of the context."""
        if not isinstance(tool, SkillTool):
            return await super()._call_tool(ctx, tool, tool_input)  # pyright: ignore[reportUnknownMemberType]
        skills, name = await self._skills(ctx), tool.metadata.get_name()
        # The whole step is repeated when the answer arrives, so this call asks the gate again: nothing ran before.
        result = await skills.call(name, tool_input)
        while (approval := result.approval) is not None:
            answer = await ctx.wait_for_event(
                HumanResponseEvent,
                waiter_id=approval.id,
                waiter_event=InputRequiredEvent(**{"prefix": approval.text, **approval.as_json()}),
                requirements={"approval_id": approval.id},
                timeout=None,
            )
            # Compared with True, so that an answer without the field denies.
            result = await skills.resume(approval.id, name, tool_input, approved=answer.get("approved") is True)
        return _make_output(name, tool_input, result)

    async def _skills(self, ctx: AgentContext | Context) -> AgentSkills:
        conversation = await ctx.store.get(_CONVERSATION, default=None)
        if conversation is None:
            conversation = f"llama-index:{uuid4()}"
            await ctx.store.set(_CONVERSATION, conversation)
        return AgentSkills(self._prowess, conversation=conversation, **self._options)


class _Metadata(ToolMetadata):
    """Describes a tool by its JSON Schema. LlamaIndex itself knows only pydantic models."""

    def __init__(self, tool: Tool) -> None:
        super().__init__(name=tool.name, description=tool.description, fn_schema=None)
        self._parameters = tool.parameters

    def get_parameters_dict(self) -> dict[str, Any]:
        return self._parameters


class SkillTool(AsyncBaseTool):
    """One tool of Prowess. Only a `SkillAgent` can call it, because the call belongs to a conversation."""

    def __init__(self, tool: Tool) -> None:
        self._metadata = _Metadata(tool)

    @property
    def metadata(self) -> ToolMetadata:
        """The name, the description and the schema of the tool."""
        return self._metadata

    def call(self, *_: Any, **arguments: Any) -> ToolOutput:
        """Refuse the call: see the class."""
        return asyncio.run(self.acall(**arguments))

    async def acall(self, *_: Any, **arguments: Any) -> ToolOutput:
        """Refuse the call: see the class."""
        error = {"error": {"code": "invalid", "message": "Only a SkillAgent can call this tool."}}
        return _make_output(self.metadata.get_name(), arguments, CallResult(data=error, ok=False))


def _make_output(name: str, arguments: dict[str, Any], result: CallResult) -> ToolOutput:
    return ToolOutput(
        tool_name=name, content=result.text, raw_input=arguments, raw_output=result.data, is_error=not result.ok
    )
