"""Asking a client's model in the newer protocol: a call ends with the request, and comes again with the answer.

Meanwhile the run waits in this process, for as long as it has time; its id travels in the sealed state of the request, so
that only the caller whose run it is can answer. A run whose client does not come back ends when its time is over.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping

from mcp_types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    InputRequest,
    InputRequiredResult,
    InputResponseRequestParams,
)

from prowess.errors import NotFound, Unavailable
from prowess.run.call import Step, Watch, unwatched

MOST_WAITING = 100
"""So many runs wait for their clients at once; where there are more, the first of them ends."""

KEY = "run"

Result = CallToolResult | InputRequiredResult


class Relay:
    """What one run asks of its client, round by round."""

    def __init__(self) -> None:
        self.watch: Watch = unwatched
        """Who is told of progress in this round."""
        self.asked = asyncio.Event()
        """Set while something is asked that has no answer."""
        self._open: dict[str, tuple[CreateMessageRequest, asyncio.Future[CreateMessageResult]]] = {}
        self._put: frozenset[str] = frozenset()
        """What the client was asked at the end of the round before."""
        self._number = 0

    def tell(self, step: Step) -> None:
        """Tell of progress."""
        self.watch(step)

    async def ask(self, params: CreateMessageRequestParams) -> CreateMessageResult:
        """Ask with the end of this round, and wait for the round that answers."""
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
        """What is asked by now, and so put to the client."""
        self._put = frozenset(self._open)
        return {key: request for key, (request, _) in self._open.items()}

    def answer(self, answers: Mapping[str, object]) -> None:
        """Take the answers to what was put to the client; what has none is not put again.

        What has been asked since waits for the end of this round.
        """
        for key in [key for key in self._open if key in self._put]:
            _, future = self._open[key]
            given = answers.get(key)
            if future.done():
                pass  # the run ended meanwhile
            elif isinstance(given, CreateMessageResult):
                future.set_result(given)
            else:
                future.set_exception(Unavailable("The client did not answer.", hint="Configure a model."))
            self._forget(key)
        self._put = frozenset()

    def _forget(self, key: str) -> None:
        self._open.pop(key, None)
        if not self._open:
            self.asked.clear()


class Relays:
    """The runs that wait for the answers of their clients."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Relay, asyncio.Task[Result]]] = {}

    async def round(
        self, params: InputResponseRequestParams, watch: Watch, begin: Callable[[Relay], Awaitable[Result]]
    ) -> Result:
        """Begin a call, or go on with the one that these parameters answer, until it is done or asks something."""
        waiting = _run_of(params.request_state)
        relay, call = self._begun(begin) if waiting is None else self._taken(waiting)
        relay.watch = watch
        relay.answer(params.input_responses or {})
        try:
            while not (call.done() or relay.asked.is_set()):
                await _either(call, relay.asked)
        except asyncio.CancelledError:
            call.cancel()
            raise
        finally:
            relay.watch = unwatched
        return call.result() if call.done() else self._put(relay, call)

    async def close(self) -> None:
        """End what still waits."""
        calls = [call for _, call in self._waiting.values()]
        self._waiting.clear()
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    def _begun(self, begin: Callable[[Relay], Awaitable[Result]]) -> tuple[Relay, asyncio.Task[Result]]:
        relay = Relay()
        return relay, asyncio.ensure_future(_awaited(begin(relay)))

    def _taken(self, run: str) -> tuple[Relay, asyncio.Task[Result]]:
        found = self._waiting.pop(run, None)
        if found is None:
            raise NotFound("The run that this answers is not here any more.", hint="Call run_skill again.")
        return found

    def _put(self, relay: Relay, call: asyncio.Task[Result]) -> InputRequiredResult:
        run = secrets.token_urlsafe(16)
        self._waiting[run] = (relay, call)
        while len(self._waiting) > MOST_WAITING:
            _, first = self._waiting.pop(next(iter(self._waiting)))
            first.cancel()
        return InputRequiredResult(input_requests=relay.requests(), request_state=json.dumps({KEY: run}))


async def _either(call: asyncio.Task[Result], event: asyncio.Event) -> None:
    """Wait until a call is done or an event has come."""
    coming = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({call, coming}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        coming.cancel()


async def _awaited(work: Awaitable[Result]) -> Result:
    return await work


def _run_of(state: str | None) -> str | None:
    """The run that a state names; None for the state of another question, or none."""
    named = json.loads(state).get(KEY) if state else None
    return named if isinstance(named, str) else None
