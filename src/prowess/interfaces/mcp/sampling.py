"""The model of the client that calls, where it offers one: sampling.

The client puts each request before its own model, perhaps after its user has agreed. In the older protocol it is asked while
its call waits; in the newer one the call ends with the request, and comes again with the answer (see `relay`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable

from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from prowess.errors import RunFailed, Unavailable
from prowess.interfaces.mcp.caller import Context, agent_name
from prowess.llm.family import family_of
from prowess.llm.model import Message, Model, Reply, Request
from prowess.llm.schema_words import fitted

MOST_TOKENS = 4_096
"""How long an answer may become where the request does not say."""

Ask = Callable[[CreateMessageRequestParams], Awaitable[CreateMessageResult]]

_HINT = "Configure a model with PROWESS_MODEL, or use a client that offers its own."


def offers_model(context: Context) -> bool:
    """Whether the client that a request comes from offers its own model."""
    capabilities = context.session.client_capabilities
    return capabilities is not None and capabilities.sampling is not None


def meanwhile_model(context: Context) -> Model | None:
    """The model of a client that can be asked while its call waits; None where it offers none, or cannot be asked so."""
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS or not context.session.can_send_request:
        return None
    return SamplingModel(context, _asking(context)) if offers_model(context) else None


class SamplingModel:
    """Asks the client of one call. The tokens it takes are not known, so no usage is counted."""

    structured = False

    def __init__(self, context: Context, ask: Ask) -> None:
        client = context.session.client_params
        named = agent_name(client.client_info.name, "client") if client is not None else "client"
        self.name = f"sampling:{named}"
        self.family = family_of("sampling", named)
        self._ask = ask

    async def complete(self, request: Request) -> Reply:
        """The whole answer."""
        try:
            result = await self._ask(_params(fitted(request, structured=self.structured), self.name))
        except MCPError as error:
            raise Unavailable(f"{self.name} did not answer: {error.error.message[:200]}.", hint=_HINT) from error
        except ValidationError as error:
            raise RunFailed(f"The answer of {self.name} cannot be read.", hint=_HINT) from error
        if not isinstance(result.content, TextContent):
            raise RunFailed(f"The answer of {self.name} is no text.", hint=_HINT)
        cut = result.stop_reason == "maxTokens"
        return Reply(text=result.content.text, model=result.model, complete=not cut)

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """The same: a client answers in one piece."""
        reply = await self.complete(request)
        yield reply.text
        yield reply


def _asking(context: Context) -> Ask:
    related = ServerMessageMetadata(related_request_id=context.request_id)

    async def ask(params: CreateMessageRequestParams) -> CreateMessageResult:
        request = CreateMessageRequest(params=params)
        return await context.session.send_request(request, CreateMessageResult, metadata=related)

    return ask


def _params(request: Request, name: str) -> CreateMessageRequestParams:
    system = [message.text for message in request.messages if message.role == "system"]
    turns = [message for message in request.messages if message.role != "system"]
    return CreateMessageRequestParams(
        messages=[_turn(message, name) for message in turns],
        system_prompt="\n\n".join(system) or None,
        temperature=request.temperature,
        max_tokens=request.max_tokens or MOST_TOKENS,
    )


def _turn(message: Message, name: str) -> SamplingMessage:
    if message.role == "user" or (message.role == "assistant" and not message.calls):
        return SamplingMessage(role=message.role, content=TextContent(text=message.text))
    raise Unavailable(f"{name} is not asked to call tools.", hint=_HINT)
