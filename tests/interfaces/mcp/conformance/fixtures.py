"""The tools, prompts and resources that the conformance suite requires of every server under test."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

Context = ServerRequestContext[Any, Any]
Announce = Callable[[Any], Awaitable[None]]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_PIXEL = _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)) + _chunk(b"IDAT", zlib.compress(b"\0\xff\0\0"))
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + _PIXEL + _chunk(b"IEND", b"")).decode()
_SOUND = struct.pack("<4sIHHIIHH4sI", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8, b"data", 0)
WAV = base64.b64encode(struct.pack("<4sI4s", b"RIFF", 4 + len(_SOUND), b"WAVE") + _SOUND).decode()

OBJECT: dict[str, Any] = {"type": "object"}


def schema(**properties: str) -> dict[str, Any]:
    fields = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": fields, "required": list(fields)}


SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
CUSTOM_HEADERS = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "priority": {"type": "integer", "x-mcp-header": "Priority"},
        "query": {"type": "string"},
    },
}
DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}
_TITLED = [{"const": f"value{number}", "title": title} for number, title in enumerate(("One", "Two", "Three"), 1)]
_OPTIONS = ["option1", "option2", "option3"]
ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _OPTIONS},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    },
}


def text(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=words)])


def embedded(uri: str, media: str, words: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=media, text=words))


def form(message: str, requested: dict[str, Any]) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=requested))


def sampling(prompt: str, most: int = 100) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=most))


IMAGE = types.ImageContent(data=PNG, mime_type="image/png")
NAME_FORM = form("What is your name?", schema(name="string"))


async def simple_text(context, params):
    return text("This is a simple text response for testing.")


async def image_content(context, params):
    return types.CallToolResult(content=[IMAGE])


async def audio_content(context, params):
    return types.CallToolResult(content=[types.AudioContent(data=WAV, mime_type="audio/wav")])


async def embedded_resource(context, params):
    resource = embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    return types.CallToolResult(content=[resource])


async def multiple_content_types(context, params):
    resource = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return types.CallToolResult(content=[types.TextContent(text="Multiple content types test:"), IMAGE, resource])


async def tool_with_logging(context, params):
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.session.send_log_message("info", words, related_request_id=context.request_id)
    return text("Done.")


async def error_handling(context, params):
    result = text("This tool intentionally returns an error for testing")
    return result.model_copy(update={"is_error": True})


async def tool_with_progress(context, params):
    token = (context.meta or {}).get("progress_token", (context.meta or {}).get("progressToken"))
    for done in (0, 50, 100):
        if token is not None:
            note = types.ProgressNotification(
                params=types.ProgressNotificationParams(progress_token=token, progress=done, total=100)
            )
            await context.session.send_notification(note, related_request_id=context.request_id)
    return text("Done.")


async def ask_model(context, params):
    from mcp.shared.message import ServerMessageMetadata

    answer = await context.session.send_request(
        sampling(params.arguments["prompt"]),
        types.CreateMessageResult,
        metadata=ServerMessageMetadata(related_request_id=context.request_id),
    )
    return text(f"LLM response: {answer.content.text}")


def elicits(requested: dict[str, Any], message: str = "Please fill this in."):
    async def tool(context, params):
        words = (params.arguments or {}).get("message", message)
        answer = await context.session.elicit_form(words, requested, context.request_id)
        return text(f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}")

    return tool


def asks(requests: dict[str, Any], done: str, state: str | None = None):
    """Return a tool that asks until it has all these answers, together with the expected state."""

    async def tool(context, params):
        answers = params.input_responses or {}
        if requests.keys() <= answers.keys() and params.request_state == state:
            shown = {key: answer.model_dump(mode="json") for key, answer in answers.items() if key in requests}
            name = ((shown.get("user_name") or {}).get("content") or {}).get("name", "")
            return text(f"{done}{name} {json.dumps(shown)}")
        return types.InputRequiredResult(input_requests=requests, request_state=state)

    return tool


async def multi_round(context, params):
    answers, state = params.input_responses or {}, params.request_state
    if state == "two" and "step2" in answers:
        return text("Both steps are done.")
    if state == "one" and "step1" in answers:
        request = form("Step 2: What is your favorite color?", schema(color="string"))
        return types.InputRequiredResult(input_requests={"step2": request}, request_state="two")
    request = form("Step 1: What is your name?", schema(name="string"))
    return types.InputRequiredResult(input_requests={"step1": request}, request_state="one")


async def capabilities(context, params):
    able = context.session.client_capabilities
    wanted: dict[str, Any] = {}
    if able is not None and able.elicitation is not None:
        wanted["user_name"] = NAME_FORM
    if able is not None and able.sampling is not None:
        wanted["question"] = sampling("What is the capital of France?")
    if not wanted or wanted.keys() <= (params.input_responses or {}).keys():
        return text("Done.")
    return types.InputRequiredResult(input_requests=wanted)


async def missing_capability(context, params):
    able = context.session.client_capabilities
    if able is not None and able.sampling is not None:
        return text("Done.")
    required = types.ClientCapabilities(sampling=types.SamplingCapability())
    data = types.MissingRequiredClientCapabilityErrorData(required_capabilities=required)
    raise MCPError(
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        "The client did not declare sampling.",
        data.model_dump(by_alias=True, mode="json", exclude_none=True),
    )


def announces(announce: Announce, event: Any):
    async def tool(context, params):
        await announce(event)
        return text("Announced.")

    return tool


def tools(announce: Announce) -> dict[str, tuple[dict[str, Any], Any]]:
    """Return the schema and the function of each tool by name."""
    confirm = form("Please confirm", schema(ok="boolean"))
    roots = types.ListRootsRequest()
    several = {"user_name": NAME_FORM, "greeting": sampling("Generate a greeting", 50), "client_roots": roots}
    capital = {"capital_question": sampling("What is the capital of France?")}
    return {
        "test_simple_text": (OBJECT, simple_text),
        "test_image_content": (OBJECT, image_content),
        "test_audio_content": (OBJECT, audio_content),
        "test_embedded_resource": (OBJECT, embedded_resource),
        "test_multiple_content_types": (OBJECT, multiple_content_types),
        "test_tool_with_logging": (OBJECT, tool_with_logging),
        "test_logging_tool": (OBJECT, tool_with_logging),
        "test_error_handling": (OBJECT, error_handling),
        "test_tool_with_progress": (OBJECT, tool_with_progress),
        "test_sampling": (schema(prompt="string"), ask_model),
        "test_elicitation": (schema(message="string"), elicits(schema(username="string", email="string"))),
        "test_elicitation_sep1034_defaults": (OBJECT, elicits(DEFAULTS)),
        "test_elicitation_sep1330_enums": (OBJECT, elicits(ENUMS)),
        "json_schema_2020_12_tool": (SCHEMA_2020_12, simple_text),
        "test_custom_headers": (CUSTOM_HEADERS, simple_text),
        "test_missing_capability": (OBJECT, missing_capability),
        "test_streaming_elicitation": (OBJECT, asks({"user_name": NAME_FORM}, "Hello, ")),
        "test_trigger_tool_change": (OBJECT, announces(announce, ToolsListChanged())),
        "test_trigger_prompt_change": (OBJECT, announces(announce, PromptsListChanged())),
        "test_input_required_result_elicitation": (OBJECT, asks({"user_name": NAME_FORM}, "Hello, ")),
        "test_input_required_result_sampling": (OBJECT, asks(capital, "The model said: ")),
        "test_input_required_result_list_roots": (OBJECT, asks({"client_roots": roots}, "The roots are: ")),
        "test_input_required_result_request_state": (OBJECT, asks({"confirm": confirm}, "state-ok", "asked")),
        "test_input_required_result_tampered_state": (OBJECT, asks({"confirm": confirm}, "state-ok", "asked")),
        "test_input_required_result_multiple_inputs": (OBJECT, asks(several, "All: ", "asked")),
        "test_input_required_result_multi_round": (OBJECT, multi_round),
        "test_input_required_result_capabilities": (OBJECT, capabilities),
    }


def said(*contents: Any) -> types.GetPromptResult:
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content) for content in contents])


async def get_prompt(context: Context, params: types.GetPromptRequestParams):
    given = params.arguments or {}
    if params.name == "test_simple_prompt":
        return said(types.TextContent(text="This is a simple prompt for testing."))
    if params.name == "test_prompt_with_arguments":
        words = f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"
        return said(types.TextContent(text=words))
    if params.name == "test_prompt_with_embedded_resource":
        resource = embedded(given["resourceUri"], "text/plain", "Embedded resource content for testing.")
        return said(resource, types.TextContent(text="Please process the embedded resource above."))
    if params.name == "test_prompt_with_image":
        return said(IMAGE, types.TextContent(text="Please analyze the image above."))
    if params.name == "test_input_required_result_prompt":
        if "user_context" in (params.input_responses or {}):
            return said(types.TextContent(text="With context."))
        request = form("What context should the prompt use?", schema(context="string"))
        return types.InputRequiredResult(input_requests={"user_context": request})
    raise MCPError(types.INVALID_PARAMS, "There is no such prompt.")


_ARGUMENTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def list_prompts(context: Context, params: Any) -> types.ListPromptsResult:
    prompts = [
        types.Prompt(
            name=name,
            description="A prompt for testing.",
            arguments=[
                types.PromptArgument(name=argument, description="For testing.", required=True) for argument in takes
            ],
        )
        for name, takes in _ARGUMENTS.items()
    ]
    return types.ListPromptsResult(prompts=prompts)


async def complete(context: Context, params: Any) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=["paris", "park", "party"], total=3, has_more=False))


async def set_level(context: Context, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


RESOURCES = (
    types.Resource(uri="test://static-text", name="static-text", description="Text.", mime_type="text/plain"),
    types.Resource(uri="test://static-binary", name="static-binary", description="An image.", mime_type="image/png"),
    types.Resource(uri="test://watched-resource", name="watched", description="Watched.", mime_type="text/plain"),
)
TEMPLATE = types.ResourceTemplate(uri_template="test://template/{id}/data", name="template", description="By id.")


async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = params.uri
    if uri == "test://static-binary":
        return types.ReadResourceResult(contents=[types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)])
    found = {
        "test://static-text": ("text/plain", "This is the content of the static text resource."),
        "test://watched-resource": ("text/plain", "Watched."),
    }.get(uri)
    if found is None and uri.startswith("test://template/"):
        number = uri.split("/")[3]
        data = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
        found = ("application/json", json.dumps(data))
    if found is None:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=found[0], text=found[1])])
