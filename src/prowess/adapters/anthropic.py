"""Skills with Anthropic's SDK: a loop over the Messages API.

    client = AsyncAnthropic()
    messages = [{"role": "user", "content": message}]
    done = await run_tools(client, skills, messages, model="claude-haiku-5-5", ask=ask)
    print(done.text)

If you write your own loop, `skills.specs("anthropic")` gives the tools for a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from prowess.adapters.agent_skills import AgentSkills, AskPerson, CallResult, missing_framework
from prowess.adapters.tool_calls import MAX_STEPS, LoopResult, ToolCall, answer_calls

try:
    from anthropic import AsyncAnthropic
except ModuleNotFoundError as error:
    raise missing_framework("The Anthropic SDK", "anthropic") from error

MAX_TOKENS = 4_096


async def run_tools(
    client: AsyncAnthropic,
    skills: AgentSkills,
    messages: Sequence[dict[str, Any]],
    *,
    model: str,
    system: str = "",
    max_tokens: int = MAX_TOKENS,
    ask: AskPerson | None = None,
    max_steps: int = MAX_STEPS,
    **options: Any,
) -> LoopResult:
    """Ask the model and run its tool calls until it answers.

    A turn starts if the last message has text of the user; otherwise the loop continues with the calls that have no result
    yet. `system` and the skills become the system prompt, rebuilt for each request. `options` go to
    `client.messages.create`.
    """
    conversation = list(messages)
    if conversation and conversation[-1]["role"] == "user" and (message := _text(conversation[-1]["content"])):
        await skills.begin(message)
    for _ in range(max_steps):
        open_calls = _open_calls(conversation)
        results = await answer_calls(skills, open_calls, ask)
        _add_results(conversation, open_calls, results)
        if pending := tuple(result.approval for result in results if result.approval is not None):
            return LoopResult(messages=conversation, pending=pending)
        answer = await cast("Any", client.messages).create(
            model=model,
            max_tokens=max_tokens,
            **({"system": prompt} if (prompt := await skills.prompt(into=system)) else {}),
            messages=conversation,
            tools=await skills.specs("anthropic"),
            **options,
        )
        content = [block.model_dump(exclude_none=True) for block in answer.content]
        conversation.append({"role": "assistant", "content": content})
        if answer.stop_reason != "tool_use":
            return LoopResult(messages=conversation, text=_text(content))
    return LoopResult(messages=conversation, stopped=True)


def _open_calls(messages: Sequence[dict[str, Any]]) -> list[ToolCall]:
    """Return the calls of the model's last message that have no result yet."""
    answered = _result_ids(messages[-1]) if messages else set[str]()
    answer = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
    # After a message of the user that is not about these calls, they are over.
    if answer is None or not (messages[-1] is answer or answered):
        return []
    return [
        ToolCall(id=block["id"], name=block["name"], arguments=block["input"])
        for block in _blocks(answer["content"])
        if block["type"] == "tool_use" and block["id"] not in answered
    ]


def _add_results(messages: list[dict[str, Any]], calls: Sequence[ToolCall], results: Sequence[CallResult]) -> None:
    """Add results to the one message that has all results of the model's last message."""
    blocks = [
        {"type": "tool_result", "tool_use_id": call.id, "content": result.text, "is_error": not result.ok}
        for call, result in zip(calls, results, strict=True)
        if result.approval is None
    ]
    if not blocks:
        return
    if _result_ids(messages[-1]):
        messages[-1] = {"role": "user", "content": [*messages[-1]["content"], *blocks]}
    else:
        messages.append({"role": "user", "content": blocks})


def _result_ids(message: dict[str, Any]) -> set[str]:
    return {block["tool_use_id"] for block in _blocks(message["content"]) if block["type"] == "tool_result"}


def _blocks(content: str | Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(content: str | Sequence[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in _blocks(content) if block["type"] == "text")
