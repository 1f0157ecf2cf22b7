"""Convert requests and replies between Prowess and pydantic-ai."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from pydantic_ai import messages as theirs
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from prowess.errors import RunFailed
from prowess.llm.model import Message, Reply, Request, ToolCall, Usage, enforces_schema


def convert_messages(messages: Sequence[Message]) -> list[theirs.ModelMessage]:
    """Return the conversation as alternating requests and responses."""
    turns: list[theirs.ModelMessage] = []
    # Consecutive messages that are not the model's become one request: providers expect turns to alternate, with all
    # tool results in the turn after the calls.
    for by_model, group in groupby(messages, key=lambda message: message.role == "assistant"):
        if by_model:
            turns.extend(theirs.ModelResponse(parts=_response_parts(message)) for message in group)
        else:
            turns.append(theirs.ModelRequest(parts=[_request_part(message) for message in group]))
    return turns


def _response_parts(message: Message) -> list[theirs.ModelResponsePart]:
    text: list[theirs.ModelResponsePart] = [theirs.TextPart(message.text)] if message.text else []
    return text + [theirs.ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in message.calls]


def _request_part(message: Message) -> theirs.ModelRequestPart:
    if message.role == "system":
        return theirs.SystemPromptPart(message.text)
    if message.role == "tool":
        return theirs.ToolReturnPart(message.name, message.text, tool_call_id=message.call_id)
    return theirs.UserPromptPart(message.text)


def convert_parameters(request: Request, *, structured: bool) -> ModelRequestParameters:
    """Return the request's tools, and its schema if the provider enforces it."""
    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.parameters)
        for tool in request.tools
    ]
    if request.schema is not None and enforces_schema(request, structured=structured):
        output = OutputObjectDefinition(json_schema=request.schema, name="answer")
        return ModelRequestParameters(function_tools=tools, output_mode="native", output_object=output)
    return ModelRequestParameters(function_tools=tools)


def convert_settings(request: Request, profile: ModelProfile) -> ModelSettings:
    """Return temperature, token limit and whether tools may be called; the temperature is dropped for models that reject one (reasoning models do)."""
    settings = ModelSettings()
    if request.temperature is not None and _supports_temperature(cast("Mapping[str, Any]", profile)):
        settings["temperature"] = request.temperature
    if request.max_tokens is not None:
        settings["max_tokens"] = request.max_tokens
    if request.answer_only and request.tools:
        settings["tool_choice"] = "none"
    return settings


def _supports_temperature(profile: Mapping[str, Any]) -> bool:
    if profile.get("anthropic_disallows_sampling_settings"):
        return False
    if not profile.get("openai_supports_reasoning"):
        return True
    # A reasoning model accepts a temperature only while it does not reason.
    efforts = profile.get("openai_reasoning_efforts")
    can_skip_reasoning = (
        "none" in efforts if efforts is not None else profile.get("openai_supports_reasoning_effort_none")
    )
    return bool(can_skip_reasoning) and not profile.get("thinking_enabled_by_default")


def convert_reply(response: theirs.ModelResponse, *, model: str, text: str | None = None) -> Reply:
    """Return the reply, or raise `RunFailed` if the model refused or called a tool with something other than an object."""
    if response.finish_reason == "content_filter":
        raise RunFailed(f"{model} refused to answer.", hint="Change the request, or use another model.")
    written = [part.content for part in response.parts if isinstance(part, theirs.TextPart)]
    calls = [_convert_call(part, model) for part in response.parts if isinstance(part, theirs.ToolCallPart)]
    used = response.usage
    # A server can send any number, also one that is not whole.
    usage = Usage(
        input_tokens=int(used.input_tokens),
        output_tokens=int(used.output_tokens),
        requests=1,
        cached_tokens=int(used.cache_read_tokens),
    )
    return Reply(
        text="".join(written) if text is None else text,
        calls=tuple(calls),
        usage=usage,
        model=response.model_name or "",
        complete=response.finish_reason != "length",
    )


def _convert_call(part: theirs.ToolCallPart, model: str) -> ToolCall:
    # By default the library returns `{"INVALID_JSON": …}` instead, which a tool would take for its arguments.
    try:
        arguments = part.args_as_dict(raise_if_invalid=True)
        # NaN and halves of characters can neither be stored nor sent back to the model.
        json.dumps([part.tool_name, arguments], ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, AssertionError):
        raise RunFailed(
            f"{model} called {part.tool_name[:80]!r} with arguments that are not a JSON object.", hint="Try again."
        ) from None
    return ToolCall(id=part.tool_call_id, name=part.tool_name, arguments=arguments)
