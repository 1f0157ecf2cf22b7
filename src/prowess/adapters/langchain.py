"""Skills in LangChain, LangGraph and deepagents: a middleware for `create_agent` and `create_deep_agent`.

    agent = create_agent(model, middleware=[ProwessMiddleware(skills)], checkpointer=InMemorySaver())
    result = await agent.ainvoke({"messages": [HumanMessage(message)]}, config, version="v2")
    while result.interrupts:
        result = await agent.ainvoke(Command(resume=await answer_interrupts(result.interrupts, ask)), config, version="v2")

The prompt and the tools are rebuilt before each model request. An approval is an interrupt in the form of LangChain's
`HumanInTheLoopMiddleware` (one per call), so interfaces for it work: the answer is `{"type": "approve"}` or
`{"type": "reject"}`. Run the agent asynchronously.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from prowess.adapters.agent_skills import AgentSkills, AskPerson, PendingApproval, missing_framework

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain.agents.middleware.human_in_the_loop import ApproveDecision, RejectDecision
    from langchain.agents.middleware.types import ModelRequest, ModelResponse
    from langchain.tools.tool_node import ToolCallRequest
    from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
    from langgraph.types import Interrupt, interrupt
except ModuleNotFoundError as error:
    raise missing_framework("LangChain", "langchain") from error


class ProwessMiddleware(AgentMiddleware):
    """The skills of an agent: matching before the turn, prompt blocks and tools at each step, approvals as interrupts."""

    def __init__(self, skills: AgentSkills) -> None:
        super().__init__()
        self.tools = []  # they change, so they are added to each request instead
        self._skills = skills

    async def abefore_agent(self, state: Any, runtime: Any) -> None:
        """Match the user's message. A run that continues after an interrupt does not come here again."""
        last = state["messages"][-1] if state["messages"] else None
        if isinstance(last, HumanMessage) and last.text:
            await self._skills.begin(last.text)

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """Add the prompt blocks and the tools as they are now. A tool of the same name stays the agent's."""
        taken = {_tool_name(tool) for tool in request.tools}
        specs = [spec for spec in await self._skills.specs("openai") if spec["function"]["name"] not in taken]
        return await handler(
            request.override(
                system_message=await self._system_message(request.system_message), tools=[*request.tools, *specs]
            )
        )

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Run a tool of ours through the gate, with an interrupt if a person must approve; leave others to the agent."""
        call = request.tool_call
        if request.tool is not None or call["name"] not in {tool.name for tool in await self._skills.tools()}:
            return await handler(request)
        result = await self._skills.call(call["name"], call["args"])
        # LangGraph starts this node again after an interrupt: the call above asks again, and finds the same request.
        if result.approval is not None:
            decision = _interrupt(result.approval, str(call["id"]))
            result = await self._skills.resume(
                result.approval,
                call["name"],
                call["args"],
                approved=decision["type"] == "approve",
                note=str(decision.get("message", "")),
            )
        return ToolMessage(
            content=result.text,
            name=call["name"],
            tool_call_id=call["id"],
            status="success" if result.ok else "error",
        )

    async def _system_message(self, before: SystemMessage | None) -> SystemMessage | None:
        content = before.content if before is not None else ""
        if isinstance(content, str):
            text = await self._skills.prompt(into=content)
            return SystemMessage(text) if text else before
        # Blocks of content may be marked for caching, so they stay as they are.
        text = await self._skills.prompt()
        return SystemMessage([*content, {"type": "text", "text": text}]) if text else before


def _interrupt(approval: PendingApproval, call_id: str) -> dict[str, Any]:
    """Pause the graph until a person decides."""
    request = {
        "type": "tool_approval",
        "tool_call_id": call_id,
        "name": approval.tool,
        "args": approval.arguments,
        "description": approval.text,
        "approval": approval.as_json(),
    }
    return cast("dict[str, Any]", interrupt(request, response_schema=cast("Any", ApproveDecision | RejectDecision)))


async def answer_interrupts(interrupts: Sequence[Interrupt], ask: AskPerson) -> dict[str, dict[str, str]]:
    """Ask a person about every interrupt of ours, and return the decisions by interrupt id, for `Command(resume=…)`.

    Interrupts of others are left out.
    """
    decisions: dict[str, dict[str, str]] = {}
    for one in interrupts:
        value = cast("dict[str, Any]", one.value if isinstance(one.value, dict) else {})
        if "approval" in value:
            approved = await ask(PendingApproval.from_json(value["approval"]))
            decisions[one.id] = {"type": "approve" if approved else "reject"}
    return decisions


def _tool_name(tool: Any) -> str:
    """Return the name of a tool, which may be one that the model's provider runs."""
    if not isinstance(tool, dict):
        return tool.name
    spec = cast("dict[str, Any]", tool)
    return str(spec.get("function", spec).get("name", ""))
