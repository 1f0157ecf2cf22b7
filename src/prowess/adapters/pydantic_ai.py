"""Skills in pydantic-ai: a toolset that brings its instructions.

    agent = Agent(model, output_type=[str, DeferredToolRequests], toolsets=[SkillToolset(skills)])
    result = await agent.run(message)
    while isinstance(result.output, DeferredToolRequests):
        answers = await answer_requests(skills, result.output, ask)
        result = await agent.run(message_history=result.all_messages(), deferred_tool_results=answers)

Instructions and tools are rebuilt before each model request.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import SchemaValidator, core_schema

from prowess.adapters.agent_skills import AgentSkills, AskPerson, PendingApproval, missing_framework

try:
    from pydantic_ai import ApprovalRequired, DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied
    from pydantic_ai.messages import TextContent
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
except ModuleNotFoundError as error:
    raise missing_framework("pydantic-ai", "pydantic-ai") from error

# The toolbox checks arguments itself, and its answers say what is wrong.
_ANY_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))


class SkillToolset(AbstractToolset[Any]):
    """The tools and instructions of an agent's skills. A run with a prompt starts a turn."""

    def __init__(self, skills: AgentSkills, *, id: str = "prowess") -> None:
        self._skills = skills
        self._id = id

    @property
    def id(self) -> str:
        """The name of the toolset within an agent."""
        return self._id

    async def for_run(self, ctx: RunContext[Any]) -> AbstractToolset[Any]:
        """Match the message of this run. A run that only continues after an approval has none."""
        if message := _message_text(ctx.prompt):
            await self._skills.begin(message)
        return self

    async def get_instructions(self, ctx: RunContext[Any]) -> str | None:
        """Return the prompt blocks as they are now."""
        return await self._skills.prompt() or None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools that are offered now."""
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name, description=tool.description, parameters_json_schema=tool.parameters
                ),
                max_retries=1,
                args_validator=_ANY_OBJECT,
            )
            for tool in await self._skills.tools()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Call a tool through the gate; raise `ApprovalRequired` if a person must approve, with the request in its metadata."""
        result = await self._skills.call(name, tool_args)
        if result.approval is not None:
            raise ApprovalRequired(metadata=result.approval.as_json())
        return result.data


async def answer_requests(skills: AgentSkills, requests: DeferredToolRequests, ask: AskPerson) -> DeferredToolResults:
    """Ask a person about every approval of our tools, record the answers, and return them for the next run.

    Calls of other toolsets are left out: add their results before you continue.
    """
    answers = DeferredToolResults()
    for call in requests.approvals:
        metadata = requests.metadata.get(call.tool_call_id, {})
        if "approval_id" not in metadata:
            continue
        approved = await skills.ask(PendingApproval.from_json(metadata), ask)
        answers.approvals[call.tool_call_id] = True if approved else ToolDenied("The user denied this call.")
    return answers


def _message_text(prompt: Any) -> str:
    """Return the text of a prompt, which may also have images and files."""
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    texts = (part.content if isinstance(part, TextContent) else part for part in prompt)
    return "\n".join(text for text in texts if isinstance(text, str))
