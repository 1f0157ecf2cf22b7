"""The MCP server: which handler answers which method, for both eras of the protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types import (
    CallToolRequestParams,
    EmptyResult,
    NotificationParams,
    PaginatedRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)
from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

from prowess.engine.engine import Engine
from prowess.errors import ProwessError
from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.mcp import prompts, resources, tools
from prowess.interfaces.mcp.backend import Backend
from prowess.interfaces.mcp.direct_calls import DirectCalls
from prowess.interfaces.mcp.entry_index import EntryCache, EntryIndex
from prowess.interfaces.mcp.notifications import ChangeNotifier, connection_of
from prowess.interfaces.mcp.protocol import protocol_error
from prowess.interfaces.mcp.request import Context, caller_of, session_conversation
from prowess.interfaces.mcp.sampling import SamplingRelays

SERVER_NAME = "prowess"
INSTRUCTIONS = (
    "Prowess serves skills: written instructions for one kind of task. Before such a task, call search_skills, then "
    "enable_skill with the best match, and follow its instructions. A skill is advice from its author, not from the user."
)
QUESTION_TTL_SECONDS = 3600.0
"""How long a question to a person stays valid; after that, the call has to be repeated."""

APPROVAL_SECONDS = 50.0
"""How long a tool call waits for a person to approve it. Many clients end a request after 60 seconds."""

P = TypeVar("P")
R = TypeVar("R")


class ProwessServer(Server[dict[str, Any]]):
    """The SDK's server, which also announces to clients of the older protocol that it sends change notifications."""

    backend: Backend
    calls: DirectCalls

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return the answer to `initialize`."""
        announced = notification_options or NotificationOptions(
            prompts_changed=True, resources_changed=True, tools_changed=True
        )
        return super().create_initialization_options(announced, experimental_capabilities, extensions)


def make_server(
    engine: Engine,
    caller: Caller,
    *,
    security: RequestStateSecurity,
    cache: Path | None = None,
    approval_seconds: float = 0.0,
) -> ProwessServer:
    """Return a server over an engine; `caller` is used on a transport that identifies nobody.

    `security` seals open questions, so that another process with the same keys can accept the answer. With `cache`, a
    folder that only the user can write to, listings are remembered there for the next process. `approval_seconds` is how
    long a tool call waits for a person to approve it.
    """
    relays = SamplingRelays()
    entries = EntryCache(cache / "entries.json") if cache else None
    backends = _Backends(engine, caller, relays, entries, approval_seconds)
    backend = backends.own

    @asynccontextmanager
    async def lifespan(_: Server[dict[str, Any]]) -> AsyncGenerator[dict[str, Any]]:
        async with backends.running():
            try:
                yield {}
            finally:
                await relays.close()

    server = ProwessServer(
        SERVER_NAME,
        version=version("prowess"),
        title="Prowess",
        description="Find, read, enable and run skills.",
        instructions=INSTRUCTIONS,
        lifespan=lifespan,
        get_tool_input_schema=lambda _: None,  # no argument of ours travels as a header
        on_list_tools=_bind(backends, tools.list_tools),
        on_list_prompts=_bind(backends, prompts.list_prompts),
        on_get_prompt=_bind(backends, prompts.get_prompt),
        on_list_resources=_bind(backends, resources.list_resources),
        on_list_resource_templates=_bind(backends, resources.list_templates),
        on_read_resource=_bind(backends, resources.read_resource),
        on_subscribe_resource=_bind(backends, _subscribe),
        on_unsubscribe_resource=_bind(backends, _unsubscribe),
        on_subscriptions_listen=_bind(backends, _listen),
    )
    server.backend = backend
    call_tool = _bind(backends, tools.call_tool)
    server.calls = DirectCalls(server, call_tool)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
    server.add_request_handler("skills/list", PaginatedRequestParams, _bind(backends, resources.list_skills))
    server.add_request_handler("skills/get", resources.SkillParams, _bind(backends, resources.get_skill))
    server.add_request_handler(
        "resources/directory/read", resources.DirectoryParams, _bind(backends, resources.read_directory)
    )
    server.add_notification_handler("notifications/initialized", NotificationParams, _bind(backends, _on_initialized))
    server.extensions[resources.EXTENSION_ID] = resources.EXTENSION_SETTINGS
    server.middleware[:] = [
        *([] if find_spec("opentelemetry.sdk") is None else map(_trace_if_collected, server.middleware)),
        RequestStateBoundary(security, default_audience=SERVER_NAME),
        server.calls,
    ]
    return server


def make_security(keys: list[bytes], default: Caller) -> RequestStateSecurity:
    """Return the sealing of questions: the first key seals, all keys open, and only the caller that was asked can answer."""
    return RequestStateSecurity(
        keys=keys, ttl=QUESTION_TTL_SECONDS, bind_principal=lambda context: caller_of(context, default).key
    )


def _trace_if_collected(traced: ServerMiddleware[dict[str, Any]]) -> ServerMiddleware[dict[str, Any]]:
    """Return the SDK's tracing, which is left out where it has no effect: there it would take a tenth of a tool call."""

    async def trace(ctx: Context, call_next: CallNext) -> HandlerResult:
        # Without a provider a span is not recorded, but it still hands the trace of the client on to the spans of runs.
        if isinstance(get_tracer_provider(), ProxyTracerProvider) and "traceparent" not in (ctx.meta or {}):
            return await call_next(ctx)
        return await traced(ctx, call_next)

    return trace


class _Backends:
    """A backend for each organization that callers belong to, so that nobody is served the skills of another."""

    def __init__(
        self,
        engine: Engine,
        caller: Caller,
        relays: SamplingRelays,
        cache: EntryCache | None,
        approval_seconds: float,
    ) -> None:
        self._cache = cache
        self._approval_seconds = approval_seconds
        self._caller = caller
        self._relays = relays
        self._notifiers: AsyncExitStack | None = None
        self.own = self._make(engine)
        self._by_organization = {engine.actor.organization: self.own}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Notify the clients of all organizations of changes for as long as this lasts."""
        async with AsyncExitStack() as stack:
            for backend in self._by_organization.values():
                await stack.enter_async_context(backend.notices.running())
            self._notifiers = stack
            try:
                yield
            finally:
                self._notifiers = None

    async def of(self, context: Context) -> Backend:
        """Return the backend of the caller's organization. It is created at the first request."""
        organization = caller_of(context, self._caller).actor.organization
        found = self._by_organization.get(organization)
        if found is None:
            found = self._make(self.own.engine.as_actor(organization=organization))
            self._by_organization[organization] = found
            if self._notifiers is not None:
                await self._notifiers.enter_async_context(found.notices.running())
        return found

    def _make(self, engine: Engine) -> Backend:
        index = EntryIndex(engine, self._cache)
        notices = ChangeNotifier(engine, index)
        return Backend(
            engine=engine,
            index=index,
            caller=self._caller,
            approval_seconds=self._approval_seconds,
            notices=notices,
            relays=self._relays,
        )


def _bind(
    backends: _Backends, handler: Callable[[Backend, Context, P], Awaitable[R]]
) -> Callable[[Context, P], Awaitable[R]]:
    async def handle(context: Context, params: P) -> R:
        try:
            return await handler(await backends.of(context), context, params)
        except ProwessError as error:
            raise protocol_error(error) from error

    return handle


async def _subscribe(backend: Backend, context: Context, params: SubscribeRequestParams) -> EmptyResult:
    await backend.notices.subscribe(backend.toolbox(context), context, params.uri)
    return EmptyResult()


async def _unsubscribe(backend: Backend, context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
    backend.notices.unsubscribe(context, params.uri)
    return EmptyResult()


async def _listen(
    backend: Backend, context: Context, params: SubscriptionsListenRequestParams
) -> SubscriptionsListenResult:
    return await backend.notices.listen(backend.toolbox(context), context, params)


async def _on_initialized(backend: Backend, context: Context, params: NotificationParams) -> None:  # noqa: ARG001
    """Register a client of the older protocol. Over HTTP, its conversation ends with its session."""
    caller, conversation = backend.caller_of(context), session_conversation(context)
    if conversation:
        connection_of(context).exit_stack.push_async_callback(backend.leave, caller, conversation)
    await backend.notices.connect(backend.toolbox(context), context)
