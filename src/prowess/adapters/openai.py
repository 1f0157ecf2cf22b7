"""Skills with OpenAI's SDK: a loop over Chat Completions, or over the Responses API.

    client = AsyncOpenAI()
    messages = [{"role": "user", "content": message}]
    done = await run_tools(client, skills, messages, model="gpt-6", ask=ask)
    print(done.text)

If you write your own loop, `skills.specs("openai")` and `skills.specs("openai-responses")` give the tools for a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from prowess.adapters.agent_skills import AgentSkills, AskPerson, missing_framework
from prowess.adapters.tool_calls import MAX_STEPS, LoopResult, ToolCall, answer_calls

try:
    from openai import AsyncOpenAI
except ModuleNotFoundError as error:
    raise missing_framework("The OpenAI SDK", "openai") from error

Messages = Sequence[dict[str, Any]]


async def run_tools(
    client: AsyncOpenAI,
    skills: AgentSkills,
    messages: Messages,
    *,
    model: str,
    instructions: str = "",
    ask: AskPerson | None = None,
    max_steps: int = MAX_STEPS,
    **options: Any,
) -> LoopResult:
    """Ask the model and run its tool calls until it answers, with Chat Completions.

    A turn starts if the last message is the user's; otherwise the loop continues with the calls that have no result yet.
    `messages` have no system message: `instructions` and the skills become one, rebuilt for each request. `options` go to
    `client.chat.completions.create`.
    """
    conversation = list(messages)
    if conversation and conversation[-1]["role"] == "user":
        await skills.begin(_text(conversation[-1]["content"]))
    for _ in range(max_steps):
        open_calls = _open_calls(conversation)
        results = await answer_calls(skills, open_calls, ask)
        for call, result in zip(open_calls, results, strict=True):
            if result.approval is None:
                conversation.append({"role": "tool", "tool_call_id": call.id, "content": result.text})
        if pending := tuple(result.approval for result in results if result.approval is not None):
            return LoopResult(messages=conversation, pending=pending)
        system = await skills.prompt(into=instructions)
        answer = await cast("Any", client.chat.completions).create(
            model=model,
            messages=[*([{"role": "system", "content": system}] if system else []), *conversation],
            tools=await skills.specs("openai"),
            **options,
        )
        message = answer.choices[0].message
        conversation.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return LoopResult(messages=conversation, text=message.content or "")
    return LoopResult(messages=conversation, stopped=True)


async def run_responses(
    client: AsyncOpenAI,
    skills: AgentSkills,
    items: Messages,
    *,
    model: str,
    instructions: str = "",
    ask: AskPerson | None = None,
    max_steps: int = MAX_STEPS,
    **options: Any,
) -> LoopResult:
    """Do what `run_tools` does, with the Responses API: `items` are its input items. `options` go to `client.responses.create`."""
    conversation = list(items)
    if conversation and conversation[-1].get("role") == "user":
        await skills.begin(_text(conversation[-1]["content"]))
    for _ in range(max_steps):
        answered = {item["call_id"] for item in conversation if item.get("type") == "function_call_output"}
        open_calls = [
            ToolCall(id=item["call_id"], name=item["name"], arguments=item["arguments"])
            for item in conversation
            if item.get("type") == "function_call" and item["call_id"] not in answered
        ]
        results = await answer_calls(skills, open_calls, ask)
        for call, result in zip(open_calls, results, strict=True):
            if result.approval is None:
                conversation.append({"type": "function_call_output", "call_id": call.id, "output": result.text})
        if pending := tuple(result.approval for result in results if result.approval is not None):
            return LoopResult(messages=conversation, pending=pending)
        answer = await cast("Any", client.responses).create(
            model=model,
            instructions=await skills.prompt(into=instructions) or None,
            input=conversation,
            tools=await skills.specs("openai-responses"),
            **options,
        )
        conversation += [item.model_dump(exclude_none=True) for item in answer.output]
        if not any(item.type == "function_call" for item in answer.output):
            return LoopResult(messages=conversation, text=answer.output_text)
    return LoopResult(messages=conversation, stopped=True)


def _open_calls(messages: Messages) -> list[ToolCall]:
    """Return the calls of the model's last message that have no result yet."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message["role"] == "tool":
            answered.add(message["tool_call_id"])
            continue
        return [
            ToolCall(id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
            if call["id"] not in answered
        ]
    return []


def _text(content: str | Sequence[dict[str, Any]]) -> str:
    """Return the text of a user's message, which may also have images and files."""
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content if part.get("text"))
