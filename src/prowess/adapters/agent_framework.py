"""Microsoft Agent Framework: skills as a context provider.

    agent = Agent(client, instructions="…", context_providers=[SkillProvider(prowess)])

The provider matches the message before a run, and offers the tools. Chat middleware puts the prompt blocks into the
instructions of every request. Function middleware makes the calls: one that a person must approve becomes a function
approval request, as with `approval_mode="always_require"`, but only where the gate asks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from prowess.adapters.agent_skills import AgentSkills, missing_framework
from prowess.engine.engine import Engine
from prowess.tools.tool import Tool

try:
    from agent_framework import (
        AgentSession,
        ChatContext,
        ChatMiddleware,
        Content,
        ContextProvider,
        FunctionInvocationContext,
        FunctionMiddleware,
        FunctionTool,
        Message,
        MiddlewareTermination,
        SessionContext,
        SupportsAgentRun,
    )
except ImportError as error:
    raise missing_framework("Microsoft Agent Framework", "agent-framework") from error


class SkillProvider(ContextProvider):
    """The skills of an agent. Each session of the framework is its own conversation.

    `options` are those of `AgentSkills`, such as `agent` and `role`. Which request a call waits for is kept in the
    session, so that the answer can come in another process.
    """

    def __init__(self, prowess: Engine, *, source_id: str = "prowess", **options: Any) -> None:
        super().__init__(source_id)
        self._prowess, self._options = prowess, options

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Match the message, record denials, and add the tools and the middleware of this run."""
        skills = AgentSkills(self._prowess, conversation=f"agent-framework:{session.session_id}", **self._options)
        asked: dict[str, str] = state.setdefault("approvals", {})
        for message in context.input_messages:
            for content in message.contents:
                # The framework answers a denied call itself, so the call never reaches the middleware.
                if content.type == "function_approval_response" and not content.approved and content.id in asked:
                    await skills.answer(asked.pop(content.id), approved=False)
        if text := _read_text(context.input_messages):
            await skills.begin(text)
        calls = _Calls(skills, asked)
        context.extend_tools(self.source_id, await calls.tools())
        context.extend_middleware(self.source_id, [_Prompt(skills), calls])


class _Prompt(ChatMiddleware):
    """Puts the blocks of this step at the end of the instructions, at every request to the model."""

    def __init__(self, skills: AgentSkills) -> None:
        self._skills = skills

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        options = dict(context.options or {})
        context.options = {**options, "instructions": await self._skills.prompt(options.get("instructions") or "")}
        await call_next()


class _Calls(FunctionMiddleware):
    """Calls the tools of Prowess, and asks for approvals. `asked` has the request of each call that waits."""

    def __init__(self, skills: AgentSkills, asked: dict[str, str]) -> None:
        self._skills, self._asked = skills, asked
        self._made: dict[str, FunctionTool] = {}

    async def tools(self) -> list[FunctionTool]:
        """Return the tools that are offered now."""
        offered = await self._skills.tools()
        self._made = {tool.name: self._made.get(tool.name) or self._make(tool) for tool in offered}
        return list(self._made.values())

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        name, arguments = context.function.name, dict(context.arguments)
        if self._made.get(name) is not context.function:
            await call_next()
            return
        call = str(context.metadata.get("function_call_occurrence_id") or context.metadata["call_id"])
        # A denied call does not get here: the framework answers it itself.
        asked = self._asked.pop(call, "") if "approval_response" in context.metadata else ""
        if asked:
            result = await self._skills.resume(asked, name, arguments, approved=True)
        else:
            result = await self._skills.call(name, arguments)
        if result.approval is not None:
            self._asked[call] = result.approval.id
            context.result = Content.from_function_approval_request(
                id=call,
                function_call=Content.from_function_call(
                    call_id=context.metadata["call_id"], name=name, arguments=arguments, id=call
                ),
                additional_properties=result.approval.as_json(),
            )
            raise MiddlewareTermination("A person must approve this call.")
        context.result = result.text
        if context.tools is not None:
            # The list is that of the next step: the call may have enabled a skill, or written one.
            others = [tool for tool in context.tools if not _is_one_of(tool, self._made)]
            context.tools[:] = [*others, *await self.tools()]

    def _make(self, tool: Tool) -> FunctionTool:
        async def call(**arguments: Any) -> str:
            # Reached only without the middleware, where nobody can be asked.
            return (await self._skills.call(tool.name, arguments)).text

        return FunctionTool(name=tool.name, description=tool.description, func=call, input_model=tool.parameters)


def _is_one_of(tool: Any, made: dict[str, FunctionTool]) -> bool:
    return isinstance(tool, FunctionTool) and made.get(tool.name) is tool


def _read_text(messages: list[Message]) -> str:
    return "\n".join(message.text for message in messages if message.role == "user" and message.text)
