"""Skills in the OpenAI Agents SDK: an agent that brings its tools and instructions.

    agent = SkillAgent(name="Writer", instructions="…", skills=skills)
    result = await Runner.run(agent, message)
    while result.interruptions:
        result = await Runner.run(agent, await answer_interruptions(result, ask))

Instructions and tools are rebuilt before each model request. The SDK asks whether a call needs an approval before it runs
the tool's input guardrails. Our gate makes the call then, so put checks of your own into the gate (roles, policy) instead.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

from prowess.adapters.agent_skills import AgentSkills, AskPerson, missing_framework
from prowess.tools.tool import Tool

try:
    from agents import Agent, FunctionTool, RunContextWrapper, RunResult, RunResultStreaming, RunState, ToolApprovalItem
    from agents.tool_context import ToolContext
except ModuleNotFoundError as error:
    raise missing_framework("The OpenAI Agents SDK", "openai-agents") from error


class SkillTool(FunctionTool):
    """A tool of ours. Whether a call needs an approval is asked of the gate."""


@dataclass
class SkillAgent(Agent[Any]):
    """An agent with skills. A run with a new message of the user starts a turn."""

    skills: AgentSkills = field(kw_only=True)
    _tools: dict[str, tuple[Tool, SkillTool]] = field(
        default_factory=dict[str, tuple[Tool, SkillTool]], init=False, repr=False, compare=False
    )
    _began: str = field(default="", init=False, repr=False, compare=False)

    async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Any]:
        """Return the agent's tools and those of its skills, as they are now. Tools of the same name stay the agent's."""
        await self._begin(run_context)
        own = await super().get_all_tools(run_context)
        taken = {tool.name for tool in own}
        return [*own, *(self._tool(tool) for tool in await self.skills.tools() if tool.name not in taken)]

    async def get_system_prompt(self, run_context: RunContextWrapper[Any]) -> str | None:
        """Return the agent's instructions with the prompt blocks as they are now."""
        return await self.skills.prompt(into=await super().get_system_prompt(run_context) or "") or None

    async def _begin(self, run_context: RunContextWrapper[Any]) -> None:
        # The input of a run is the same at each of its steps, and after an interruption.
        items = cast("list[dict[str, Any]]", run_context.turn_input)
        given = [item for item in items if item.get("role") == "user"]
        key = json.dumps([len(items), given[-1:]], default=str)
        if given and key != self._began:
            self._began = key
            await self.skills.begin(_text(given[-1]["content"]))

    def _tool(self, tool: Tool) -> SkillTool:
        # The SDK compares tools by identity while it evaluates a call.
        known, made = self._tools.get(tool.name, (None, None))
        if known is not tool or made is None:
            made = _make_tool(self.skills, tool)
            self._tools[tool.name] = (tool, made)
        return made


def _make_tool(skills: AgentSkills, tool: Tool) -> SkillTool:
    async def needs_approval(_: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        return await skills.check(tool.name, arguments, call_id=call_id) is not None

    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        # If the SDK approved a call that nobody approved in our records, the answer says that it waits.
        return (await skills.call(tool.name, arguments, call_id=context.tool_call_id)).text

    return SkillTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.parameters,
        strict_json_schema=False,  # strict mode allows no optional arguments
        needs_approval=needs_approval,
        on_invoke_tool=invoke,
    )


async def answer_interruptions(result: RunResult | RunResultStreaming, ask: AskPerson) -> RunState[Any]:
    """Ask a person about every interruption by our tools, record the answers, and return the state to continue with.

    Interruptions by other tools stay as they are: approve or reject them in the state before you continue.
    """
    state = result.to_state()
    for item in result.interruptions:
        skills = await _find_skills(result, item)
        if skills is None:
            continue
        name, arguments, call_id = item.tool_name or "", item.arguments or "", item.call_id or ""
        approval = await skills.check(name, arguments, call_id=call_id)
        # None if it was answered elsewhere, or if the arguments are not JSON, which the answer tells the model.
        approved = approval is None or await skills.ask(approval, ask)
        if approved:
            state.approve(item)
        else:
            state.reject(item, rejection_message="The user denied this call.")
    return state


async def _find_skills(result: RunResult | RunResultStreaming, item: ToolApprovalItem) -> AgentSkills | None:
    """Return the skills whose tool was interrupted, or None if the tool is not ours."""
    if not isinstance(item.agent, SkillAgent):
        return None
    tools = await item.agent.get_all_tools(result.context_wrapper)
    ours = any(isinstance(tool, SkillTool) and tool.name == item.tool_name for tool in tools)
    return item.agent.skills if ours else None


def _text(content: Any) -> str:
    """Return the text of a user's message, which may also have images and files."""
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content if part.get("text"))
