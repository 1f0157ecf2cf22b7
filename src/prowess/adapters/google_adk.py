"""Google ADK: skills as a toolset of an agent.

    agent = LlmAgent(name="helper", model="gemini-3.5-flash", tools=[SkillToolset(prowess)])

ADK asks a toolset before every request to the model. So the toolset matches the message when a turn starts, and gives the
prompt blocks and the tools anew at each step. A call that a person must approve asks for a tool confirmation and ends the
turn. ADK calls it again when the user's answer arrives.
"""

from __future__ import annotations

from typing import Any

from prowess.adapters.agent_skills import AgentSkills, missing_framework
from prowess.engine.engine import Engine
from prowess.tools.tool import Tool

try:
    from google.adk.agents.readonly_context import ReadonlyContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.base_toolset import BaseToolset
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types
except ImportError as error:
    raise missing_framework("Google ADK", "google-adk") from error

_MAX_CONVERSATIONS = 256
"""How many conversations are remembered. One that was forgotten is opened again."""

_STATE = "prowess_approval:"
"""The prefix of the keys in the state of an ADK session, which hold the request that a call waits for. They are kept with
the session, so that the answer can come in another process."""


class SkillToolset(BaseToolset):
    """The skills of an agent. Each session of ADK is its own conversation.

    `options` are those of `AgentSkills`, such as `agent` and `role`. All users of the agent share the engine's actor: make
    one toolset for each actor if they must not.
    """

    def __init__(self, prowess: Engine, **options: Any) -> None:
        super().__init__()
        # The tools change within a turn, for example when a skill is enabled.
        self._use_invocation_cache = False
        self._prowess, self._options = prowess, options
        self._turns: dict[str, tuple[str, AgentSkills]] = {}

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """Return the tools that are offered now; none without a session."""
        if readonly_context is None:
            return []
        skills = await self._begin(readonly_context)
        return [SkillTool(skills, tool) for tool in await skills.tools()]

    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        """Add the prompt blocks of this step to the system instruction."""
        skills = await self._begin(tool_context)
        if blocks := await skills.prompt():
            llm_request.append_instructions([blocks])

    async def _begin(self, context: ReadonlyContext) -> AgentSkills:
        """Return the skills of the session. The message of a turn is matched once, before its first request."""
        session = context.session
        # Two users may have sessions of the same id.
        name = f"adk:{session.app_name}:{session.user_id}:{session.id}"
        turn, skills = self._turns.pop(name, ("", None))
        if skills is None:
            skills = AgentSkills(self._prowess, conversation=name, **self._options)
        while len(self._turns) >= _MAX_CONVERSATIONS:
            del self._turns[next(iter(self._turns))]
        self._turns[name] = (context.invocation_id, skills)
        parts = (context.user_content.parts if context.user_content else None) or []
        message = "\n".join(part.text for part in parts if part.text)
        if turn != context.invocation_id and message:
            await skills.begin(message)
        return skills


class SkillTool(BaseTool):
    """One tool of Prowess in one conversation."""

    def __init__(self, skills: AgentSkills, tool: Tool) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._skills, self._parameters = skills, tool.parameters

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._parameters
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        """Call the tool through the gate; ask for a confirmation if a person must approve the call."""
        key = f"{_STATE}{tool_context.function_call_id}"
        answer, asked = tool_context.tool_confirmation, tool_context.state.get(key)
        if answer is not None and asked:
            # The request is the one that was shown, whatever the answer says that it is about.
            result = await self._skills.resume(asked, self.name, args, approved=answer.confirmed)
        else:
            result = await self._skills.call(self.name, args)
        if result.approval is not None:
            tool_context.state[key] = result.approval.id
            tool_context.request_confirmation(hint=result.approval.text, payload=result.approval.as_json())
            # Ends the turn: without an answer, there is nothing that the model could continue with.
            tool_context.actions.skip_summarization = True
        return result.data
