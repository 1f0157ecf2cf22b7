"""Asking a client's model in the newer protocol: a call ends with the request, and comes again with the answer.

Meanwhile the run waits in this process, for as long as it has time; its id travels in the sealed state of the request, so
that only the caller whose run it is can answer. A run whose client does not come back ends when its time is over. Callers
have no part in each other's runs: one that has too many is refused another, and nobody else notices.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from mcp_types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    InputRequest,
    InputRequiredResult,
    InputResponseRequestParams,
)

from prowess.errors import NotFound, TryLater, Unavailable
from prowess.run.call import Step, Watch, unwatched

MOST_OPEN = 100
"""So many runs of one caller go on or wait at once."""

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


@dataclass(slots=True, eq=False)
class _Run:
    """One call, over all its rounds. `awaited` is what the state has to name that goes on with it; '' while a round does."""

    relay: Relay
    call: asyncio.Task[Result]
    awaited: str = ""


class Relays:
    """The runs that go on, or wait for the answers of their clients, by caller and in the order in which they began."""

    def __init__(self) -> None:
        self._runs: dict[str, list[_Run]] = {}

    async def round(
        self, caller: str, params: InputResponseRequestParams, watch: Watch, begin: Callable[[Relay], Awaitable[Result]]
    ) -> Result:
        """Begin a caller's call, or go on with the one that these parameters answer, until it is done or asks something.

        `TryLater` where too many runs of this caller are not over.
        """
        waiting = _run_of(params.request_state)
        run = self._begun(caller, begin) if waiting is None else self._taken(caller, waiting)
        run.relay.watch = watch
        run.relay.answer(params.input_responses or {})
        try:
            while not (run.call.done() or run.relay.asked.is_set()):
                await _either(run.call, run.relay.asked)
        except asyncio.CancelledError:
            run.call.cancel()
            self._forget(caller, run)
            raise
        finally:
            run.relay.watch = unwatched
        if not run.call.done():
            return _put(run)
        self._forget(caller, run)
        return run.call.result()

    async def close(self) -> None:
        """End what still waits."""
        calls = [run.call for runs in self._runs.values() for run in runs if run.awaited]
        self._runs.clear()
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    def _begun(self, caller: str, begin: Callable[[Relay], Awaitable[Result]]) -> _Run:
        runs = self._runs.get(caller, [])
        if len(runs) >= MOST_OPEN:
            self._make_room(caller, runs)
        relay = Relay()
        run = _Run(relay, asyncio.ensure_future(_awaited(begin(relay))))
        self._runs.setdefault(caller, []).append(run)
        return run

    def _make_room(self, caller: str, runs: list[_Run]) -> None:
        """Forget a run that ended while it waited and whose end nobody has asked for."""
        ended = next((run for run in runs if run.awaited and run.call.done()), None)
        if ended is None:
            raise TryLater(
                f"{len(runs)} runs of yours wait for the answers of your model, so no other begins.",
                hint="Answer these, or wait until their time is over.",
            )
        self._forget(caller, ended)

    def _taken(self, caller: str, awaited: str) -> _Run:
        found = next((run for run in self._runs.get(caller, ()) if run.awaited == awaited), None)
        if found is None:
            raise NotFound("The run that this answers is not here any more.", hint="Call run_skill again.")
        found.awaited = ""
        return found

    def _forget(self, caller: str, run: _Run) -> None:
        left = [one for one in self._runs.get(caller, ()) if one is not run]
        if left:
            self._runs[caller] = left
        else:
            self._runs.pop(caller, None)


def _put(run: _Run) -> InputRequiredResult:
    """Put to the client what the run asks."""
    run.awaited = secrets.token_urlsafe(16)
    return InputRequiredResult(input_requests=run.relay.requests(), request_state=json.dumps({KEY: run.awaited}))


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
