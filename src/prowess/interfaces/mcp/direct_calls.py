"""Tool calls of the newer protocol, without the layers of the SDK that only pass them on.

Requests are checked by the SDK's own rules, but answers are sent as our code makes them, instead of being parsed and
written once more. A call over HTTP that needs no stream does not go through the SDK's transport either. Any request that is
not clearly valid is left to the SDK, which reports what is wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, partial
from typing import Any, cast

import anyio
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.runner import modern_error_data
from mcp.server.session import ServerSession
from mcp.server.streamable_http import check_accept_headers
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
)
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import SERVER_INFO_META_KEY, CallToolRequestParams, InputRequiredResult, RequestId, RequestParams
from mcp_types.methods import serialize_server_result, validate_client_request
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from prowess.interfaces.mcp.request import Context
from prowess.skill.json_values import json_value

METHOD = "tools/call"
_KEYS = {"jsonrpc", "id", "method", "params"}

CallTool = Callable[[Context, CallToolRequestParams], Awaitable[dict[str, Any] | InputRequiredResult]]


class DirectCalls:
    """Answers the tool calls of a server. As the innermost middleware, it takes them from the SDK on every transport."""

    def __init__(self, server: Server[Any], call_tool: CallTool) -> None:
        self._server = server
        self._call_tool = call_tool

    @cached_property
    def _meta(self) -> dict[str, Any]:
        """What every result of the newer protocol says about the server."""
        return {SERVER_INFO_META_KEY: self._server.server_info_stamp}

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer a tool call of the newer protocol, and pass on everything else."""
        version = ctx.protocol_version
        if ctx.method != METHOD or version not in MODERN_PROTOCOL_VERSIONS or self._is_replaced:
            return await call_next(ctx)
        validate_client_request(METHOD, version, ctx.params)
        result = await self._call_tool(ctx, CallToolRequestParams.model_validate(ctx.params, by_name=False))
        if isinstance(result, InputRequiredResult):
            dumped = result.model_dump(by_alias=True, mode="json", exclude_none=True)
            result = serialize_server_result(METHOD, version, dumped)
        return {**result, "_meta": self._meta}

    async def answer(self, request: Request, body: bytes) -> Response | None:
        """Return the response to a request over HTTP, or None if the SDK has to answer it."""
        message = None if self._is_replaced else _read_call(request, body)
        if message is None:
            return None
        headers = request.headers
        route = classify_inbound_request(message, headers=dict(headers))
        if isinstance(route, InboundLadderRejection) or find_duplicated_routing_header(headers.items()):
            return None
        request_id, params = message["id"], message["params"]
        try:
            meta = RequestParams.model_validate(params, by_name=False).meta
        except ValidationError:
            return None
        connection = Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)
        exchange = _SingleExchange(request, request_id)
        context: Context = ServerRequestContext(
            session=ServerSession(exchange, connection, request_meta=meta),
            lifespan_context={},
            method=METHOD,
            params=params,
            request_id=request_id,
            meta=meta,
            protocol_version=route.protocol_version,
            request=request,
        )
        call: Any = _refuse
        for middleware in reversed(self._server.middleware):
            call = partial(middleware, call_next=call)
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id}
        status = 200
        try:
            answer["result"] = await call(context)
        except Exception as failure:  # noqa: BLE001  (the one place where an error becomes an answer)
            error = modern_error_data(failure)
            answer["error"] = error.model_dump(mode="json", by_alias=True, exclude_none=True)
            status = ERROR_CODE_HTTP_STATUS.get(error.code, status)
        return Response(json.dumps(answer, separators=(",", ":")), status, media_type="application/json")

    @property
    def _is_replaced(self) -> bool:
        """True if an application has set its own handler for tool calls."""
        entry = self._server.get_request_handler(METHOD)
        return entry is None or entry.handler is not self._call_tool


async def _refuse(context: Context) -> HandlerResult:
    raise NotImplementedError(context.method)  # `DirectCalls` is the innermost middleware and answers every call


def _read_call(request: Request, body: bytes) -> dict[str, Any] | None:
    """Return the message of a request if it is a tool call without a doubt."""
    headers = request.headers
    is_json = headers.get("content-type", "").lower().startswith("application/json")
    if headers.get("mcp-method") != METHOD or not is_json or not check_accept_headers(request)[0]:
        return None
    message = json_value(body)
    if not isinstance(message, dict) or cast("dict[str, Any]", message).keys() != _KEYS:
        return None
    call = cast("dict[str, Any]", message)
    if call["jsonrpc"] != "2.0" or call["method"] != METHOD or not isinstance(call["params"], dict):
        return None
    return call if type(call["id"]) in (int, str) else None


class _SingleExchange:
    """The channel back to a client that gets one response: nothing can be sent before it."""

    can_send_request = False

    def __init__(self, request: Request, request_id: RequestId) -> None:
        self.request_id = request_id
        self.message_metadata = ServerMessageMetadata(request_context=request)
        self.transport = TransportContext(kind="streamable-http", can_send_request=False, headers=request.headers)

    @property
    def cancel_requested(self) -> anyio.Event:
        return anyio.Event()  # never set: such a client cancels by closing the connection

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,  # noqa: ARG002
        opts: CallOptions | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Do nothing, as the SDK does where the response is plain JSON."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Do nothing, as the SDK does where the response is plain JSON."""
