"""Use the model of the MCP client (sampling).

In the older protocol the server asks the client while the client's call waits. In the newer one a request cannot be
sent during a call. The call ends with the question instead, and the client calls again with the answer:

    round 1   tools/call                     ->  InputRequiredResult (question, state)
    round 2   tools/call (answer, state)     ->  the result, or the next question

Between two rounds the run waits in this process until its deadline. Its id travels in the sealed request state, so that
only the same caller can answer.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    InputRequest,
    InputRequiredResult,
    InputResponseRequestParams,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from prowess.errors import NotFound, RunFailed, TryLater, Unavailable
from prowess.interfaces.auth.caller import agent_name
from prowess.interfaces.mcp.request import Context
from prowess.llm.model import Message, Model, Reply, Request, family_of, fit_schema
from prowess.run.request import Step, StepListener, ignore_step
from prowess.shares import Shares

MAX_OPEN_RUNS = 200
"""How many runs may be running or waiting at the same time. One caller gets half (`shares.py`)."""

RUN_KEY = "run"

CallResult = dict[str, Any] | InputRequiredResult
"""The result of a tool call as it is sent, or a question to the client."""


class SamplingRelay:
    """Passes the model requests of one run to its client, and the answers back, over several rounds."""

    def __init__(self) -> None:
        self.on_step: StepListener = ignore_step
        """Receives the progress of the current round."""
        self.asked = asyncio.Event()
        """Set while at least one request has no answer."""
        self._open: dict[str, tuple[CreateMessageRequest, asyncio.Future[CreateMessageResult]]] = {}
        self._put: frozenset[str] = frozenset()
        """The keys of the requests that were sent to the client at the end of the last round."""
        self._number = 0

    def report(self, step: Step) -> None:
        """Report progress to the current round."""
        self.on_step(step)

    async def ask(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Queue a request, which is sent at the end of this round, and wait for its answer in a later round.

        Raise `Unavailable` if the client's next call has no answer to it.
        """
        self._number += 1
        key = f"sampling-{self._number}"
        future: asyncio.Future[CreateMessageResult] = asyncio.get_running_loop().create_future()
        self._open[key] = (CreateMessageRequest(params=params), future)
        self.asked.set()
        try:
            return await future
        finally:
            self._forget(key)

    def requests(self) -> dict[str, InputRequest]:
        """Return the open requests by key, and remember them as sent."""
        self._put = frozenset(self._open)
        return {key: request for key, (request, _) in self._open.items()}

    def answer(self, answers: Mapping[str, object]) -> None:
        """Deliver the client's answers to the requests that were sent. A request without an answer fails.

        Requests queued since then are not touched; they are sent at the end of this round.
        """
        # The run continues between two rounds and may queue more requests. Only those sent can have an answer.
        for key in [key for key in self._open if key in self._put]:
            _, future = self._open[key]
            result = answers.get(key)
            if future.done():
                pass  # the run was cancelled in the meantime
            elif isinstance(result, CreateMessageResult):
                future.set_result(result)
            else:
                future.set_exception(Unavailable("The client did not answer.", hint="Configure a model."))
            self._forget(key)
        self._put = frozenset()

    def _forget(self, key: str) -> None:
        self._open.pop(key, None)
        if not self._open:
            self.asked.clear()


@dataclass(slots=True, eq=False)
class _OpenRun:
    """One call over all its rounds.

    `awaited` is the id that the next round's state must contain. It is '' during a round, so that no second request can
    join the same round.
    """

    relay: SamplingRelay
    call: asyncio.Task[CallResult]
    awaited: str = ""


class SamplingRelays:
    """The runs in progress, or waiting for their clients' answers, by caller in the order of their start."""

    def __init__(self) -> None:
        self._runs: dict[str, list[_OpenRun]] = {}

    async def round(
        self,
        caller: str,
        params: InputResponseRequestParams,
        on_step: StepListener,
        begin: Callable[[SamplingRelay], Awaitable[CallResult]],
    ) -> CallResult:
        """Start a call, or continue the one that `params` answers, until it ends or has a question for the client.

        Return the call's result or the question. Raise `TryLater` if the caller has too many open runs, and `NotFound`
        if the run to continue is gone. If the round is cancelled, the run is cancelled too.
        """
        waiting = _parse_run_id(params.request_state)
        run = self._begun(caller, begin) if waiting is None else self._taken(caller, waiting)
        run.relay.on_step = on_step
        run.relay.answer(params.input_responses or {})
        try:
            while not (run.call.done() or run.relay.asked.is_set()):
                await _wait_for_either(run.call, run.relay.asked)
        except asyncio.CancelledError:
            run.call.cancel()
            self._forget(caller, run)
            raise
        finally:
            # The progress token of this request is invalid once it is answered.
            run.relay.on_step = ignore_step
        if not run.call.done():
            return _ask_client(run)
        self._forget(caller, run)
        return run.call.result()

    async def close(self) -> None:
        """Cancel the runs that wait for an answer, and wait until they have ended."""
        calls = [run.call for runs in self._runs.values() for run in runs if run.awaited]
        self._runs.clear()
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    def _begun(self, caller: str, begin: Callable[[SamplingRelay], Awaitable[CallResult]]) -> _OpenRun:
        runs = self._runs.get(caller, [])
        if not Shares(MAX_OPEN_RUNS, (name for name, open_runs in self._runs.items() for _ in open_runs)).has_room(
            caller
        ):
            self._make_room(caller, runs)
        relay = SamplingRelay()
        run = _OpenRun(relay, asyncio.ensure_future(_as_coroutine(begin(relay))))
        self._runs.setdefault(caller, []).append(run)
        return run

    def _make_room(self, caller: str, runs: list[_OpenRun]) -> None:
        """Drop a run that ended between two rounds and was never fetched. Raise `TryLater` if there is none."""
        ended = next((run for run in runs if run.awaited and run.call.done()), None)
        if ended is None:
            raise TryLater(
                f"Too many runs wait for answers of their clients' models, {len(runs)} of them are yours.",
                hint="Answer them, or wait until they time out.",
            )
        self._forget(caller, ended)

    def _taken(self, caller: str, awaited: str) -> _OpenRun:
        found = next((run for run in self._runs.get(caller, ()) if run.awaited == awaited), None)
        if found is None:
            raise NotFound("This run has ended.", hint="Call run_skill again.")
        found.awaited = ""
        return found

    def _forget(self, caller: str, run: _OpenRun) -> None:
        left = [open_run for open_run in self._runs.get(caller, ()) if open_run is not run]
        if left:
            self._runs[caller] = left
        else:
            self._runs.pop(caller, None)


def _ask_client(run: _OpenRun) -> InputRequiredResult:
    """Return the run's open requests as the result of this round, with a new id for the next round."""
    run.awaited = secrets.token_urlsafe(16)
    return InputRequiredResult(input_requests=run.relay.requests(), request_state=json.dumps({RUN_KEY: run.awaited}))


async def _wait_for_either(call: asyncio.Task[CallResult], event: asyncio.Event) -> None:
    """Wait until the call is done or the event is set. The call is not cancelled."""
    coming = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({call, coming}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        coming.cancel()


async def _as_coroutine(work: Awaitable[CallResult]) -> CallResult:
    return await work


def _parse_run_id(state: str | None) -> str | None:
    """Return the run id in a request state, or None if there is no state or it belongs to an approval question."""
    run_id = json.loads(state).get(RUN_KEY) if state else None
    return run_id if isinstance(run_id, str) else None


DEFAULT_MAX_TOKENS = 4_096
"""The limit for an answer if the request has none; the protocol requires one."""

Ask = Callable[[CreateMessageRequestParams], Awaitable[CreateMessageResult]]

_HINT = "Configure a model with PROWESS_MODEL, or use a client that offers its own."


def client_offers_model(context: Context) -> bool:
    """Return True if the client of a request offers its own model."""
    capabilities = context.session.client_capabilities
    return capabilities is not None and capabilities.sampling is not None


def waiting_client_model(context: Context) -> Model | None:
    """Return the model of a client that can be asked while its call waits.

    Return None if the client offers no model, or if its protocol or connection does not allow requests during a call.
    """
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS or not context.session.can_send_request:
        return None
    return SamplingModel(context, _direct_ask(context)) if client_offers_model(context) else None


class SamplingModel:
    """The model of the client of one call. Clients do not report tokens, so no usage is counted."""

    structured = False

    def __init__(self, context: Context, ask: Ask) -> None:
        client = context.session.client_params
        client_name = agent_name(client.client_info.name, "client") if client is not None else "client"
        self.name = f"sampling:{client_name}"
        self.family = family_of("sampling", client_name)
        self._ask = ask

    async def complete(self, request: Request) -> Reply:
        """Return the whole answer.

        Raise `Unavailable` if the client refuses or fails, and `RunFailed` if its answer is malformed or not text.
        """
        try:
            result = await self._ask(_message_params(fit_schema(request, structured=self.structured), self.name))
        except MCPError as error:
            raise Unavailable(f"{self.name} did not answer: {error.error.message[:200]}.", hint=_HINT) from error
        except ValidationError as error:
            raise RunFailed(f"The answer of {self.name} cannot be read.", hint=_HINT) from error
        if not isinstance(result.content, TextContent):
            raise RunFailed(f"The answer of {self.name} is not text.", hint=_HINT)
        cut = result.stop_reason == "maxTokens"
        return Reply(text=result.content.text, model=result.model, complete=not cut)

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """Yield the whole answer at once, then the reply: the protocol does not stream."""
        reply = await self.complete(request)
        yield reply.text
        yield reply


def _direct_ask(context: Context) -> Ask:
    related = ServerMessageMetadata(related_request_id=context.request_id)

    async def ask(params: CreateMessageRequestParams) -> CreateMessageResult:
        request = CreateMessageRequest(params=params)
        return await context.session.send_request(request, CreateMessageResult, metadata=related)

    return ask


def _message_params(request: Request, name: str) -> CreateMessageRequestParams:
    system = [message.text for message in request.messages if message.role == "system"]
    turns = [message for message in request.messages if message.role != "system"]
    return CreateMessageRequestParams(
        messages=[_sampling_message(message, name) for message in turns],
        system_prompt="\n\n".join(system) or None,
        temperature=request.temperature,
        max_tokens=request.max_tokens or DEFAULT_MAX_TOKENS,
    )


def _sampling_message(message: Message, name: str) -> SamplingMessage:
    if message.role == "user" or (message.role == "assistant" and not message.calls):
        return SamplingMessage(role=message.role, content=TextContent(text=message.text))
    raise Unavailable(f"{name} cannot call tools.", hint=_HINT)
