"""One run of one script, seen from the host: wait for a slot, answer calls, enforce limits, await the end."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, Final, Generic, TypeVar, cast

from prowess.child import frames
from prowess.errors import Invalid, ProwessError, Refused, RunFailed
from prowess.sandbox.messages import OFFLOAD_SIZE, encode_answer, encode_refusal, parse_json, parse_outcome
from prowess.sandbox.protocol import HostFunction, SandboxLimits, ScriptOutcome
from prowess.sandbox.script import Script
from prowess.sandbox.script_process import Peer
from prowess.threads import PartyShares, offload, tenant

MAX_NESTING: Final = 5
"""How deep runs may be nested: the first, and those that it waits for."""
_NESTED_SHARE = 4

_PerLoopT = TypeVar("_PerLoopT")

_nesting: ContextVar[int] = ContextVar("level_of_run", default=0)


class PerLoop(Generic[_PerLoopT]):
    """One value for each event loop, made on first use and gone with the loop."""

    def __init__(self, make: Callable[[], _PerLoopT]) -> None:
        self._make = make
        self._values: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _PerLoopT] = weakref.WeakKeyDictionary()

    def get(self) -> _PerLoopT:
        """Return the value of the running event loop."""
        loop = asyncio.get_running_loop()
        # `setdefault` alone would make a new value for every call.
        found = self._values.get(loop)
        return self._values.setdefault(loop, self._make()) if found is None else found


class RunSlots:
    """The slots of one sandbox: how many runs of an event loop are active at a time.

    A run that a host function starts is nested in the run that called it, whichever sandbox either is in. Each level has its
    own slots, a quarter of those of the first. With common slots, outer runs could hold all of them and wait for inner ones
    forever. No member of an organization takes all of them.
    """

    def __init__(self, most: int) -> None:
        # At least one slot per level, or a nested run would wait forever.
        self._sizes = [most, *[max(1, most // _NESTED_SHARE)] * (MAX_NESTING - 1)]
        self._shares = [PartyShares(size) for size in self._sizes]
        self._semaphores = PerLoop(lambda: [asyncio.Semaphore(size) for size in self._sizes])

    @property
    def total(self) -> int:
        """How many runs of one event loop there can be at a time, on all levels together."""
        return sum(self._sizes)

    @asynccontextmanager
    async def hold(self) -> AsyncGenerator[None]:
        """Hold a slot; runs that start inside are a level deeper. Raise `Refused` if they are nested too deeply."""
        level = _nesting.get()
        if level >= MAX_NESTING:
            raise Refused(
                f"Nested runs exceeded the limit of {MAX_NESTING} levels.", hint="Run the innermost skill separately."
            )
        async with self._shares[level].permit(tenant()), self._semaphores.get()[level]:
            outside = _nesting.set(level + 1)
            try:
                yield
            finally:
                _nesting.reset(outside)


GRACE_SECONDS = 5.0
"""How long a worker may take to end a script whose time is up, before it is killed itself."""


class ScriptRun:
    """A run that was started. The worker enforces the limits, and is not trusted to: they are checked here, too.

    Host functions run in the context (`contextvars`) of the caller.
    """

    def __init__(
        self, worker: Peer, number: int, script: Script, functions: Mapping[str, HostFunction], limits: SandboxLimits
    ) -> None:
        self._worker = worker
        self._number = number
        self._script = script
        self._functions = functions
        self._limits = limits
        # Copied now: calls arrive in callbacks of the event loop, which run in the context that started the worker.
        self._context = contextvars.copy_context()
        self._signatures: dict[str, inspect.Signature] = {}
        self._calls = 0
        self._traffic = 0
        self._call: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._ended = worker.open(number, self._called, self._wake)
        self._send(frames.RUN, _encode_limits(limits) + b"\n" + script.task(list(functions)))

    async def ended(self) -> ScriptOutcome:
        """Return the outcome; a cancelled run is stopped before the cancellation propagates."""
        try:
            await self._wait()
        except asyncio.CancelledError:
            await self._stop()
            raise
        finally:
            self._stop_timer()
            if self._call:
                self._call.cancel()  # a host function must not continue for a run that has ended
        if self._failure is not None:
            raise self._failure
        try:
            return await self._read()
        except ValueError as error:
            raise RunFailed(f"The sandbox failed during a run: {error}.") from error

    async def _wait(self) -> None:
        """Wait for the end. `asyncio.wait` would take one more turn of the event loop to notice it."""
        if not self._ended.done():
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    async def _read(self) -> ScriptOutcome:
        payload = self._ended.result()
        read = partial(parse_outcome, payload, self._script, self._calls, self._limits, confined=self._worker.confined)
        return await offload(read) if len(payload) > OFFLOAD_SIZE else read()

    async def _stop(self) -> None:
        """Stop the run and wait, however often this is cancelled; kill the worker only if it does not stop the run in time."""
        self._worker.send(self._number, frames.CANCEL, b"cancelled")
        now = asyncio.get_running_loop().time
        until = now() + GRACE_SECONDS
        while not self._ended.done() and (left := until - now()) > 0:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._ended], timeout=left)
        if not self._ended.done():
            self._worker.end()
        self._ended.exception()  # retrieved, so that asyncio does not log it as lost

    def _called(self, name: str, arguments: str) -> None:
        self._stop_timer()
        self._calls += 1
        self._traffic += len(arguments)
        if self._call and not self._call.done():
            self._worker.end()  # a guest waits for each answer: only a broken worker calls twice
        elif self._calls > self._limits.calls or self._traffic > self._limits.traffic_bytes:
            self._send(frames.CANCEL, b"calls")
        else:
            answering = self._answer(name, arguments)
            self._call = asyncio.get_running_loop().create_task(answering, context=self._context)

    async def _answer(self, name: str, arguments: str) -> None:
        try:
            answer = await self._get_answer(name, arguments)
        except BaseException as failure:
            # Also `CancelledError` and `KeyboardInterrupt`: the script must not continue without its host.
            self._failure = failure
            self._send(frames.CANCEL, b"host")
            if isinstance(failure, asyncio.CancelledError):
                raise
            return
        self._send(frames.RETURN, answer)

    async def _get_answer(self, name: str, arguments: str) -> bytes:
        """Return the answer to a call. A `ProwessError` is an answer that the script can handle; anything else ends it."""
        try:
            answer = await encode_answer(await self._call_function(name, arguments))
            # Inside the `try`, so that the script gets this as an error that it can handle.
            if len(answer) > self._limits.answer_bytes:
                raise Invalid(
                    f"The answer of {name}() has {len(answer):,} bytes, more than the limit of {self._limits.answer_bytes:,}."
                )
        except ProwessError as error:
            return encode_refusal(f"{error.message} {error.hint}".strip(), error.code)
        self._traffic += len(answer)
        return answer

    async def _call_function(self, name: str, arguments: str) -> Any:
        function = self._functions.get(name)
        if function is None:
            raise Invalid(f"Unknown host function {name[:60]!r}.")
        read = partial(_bind_arguments, self._signature(name, function), arguments, self._limits.call_bytes)
        try:
            args, kwargs = await offload(read) if len(arguments) > OFFLOAD_SIZE else read()
        except (ValueError, TypeError) as error:
            raise Invalid(f"{name}(): {error}.") from None
        return await function(*args, **kwargs)

    def _signature(self, name: str, function: HostFunction) -> inspect.Signature:
        if name not in self._signatures:
            self._signatures[name] = inspect.signature(function)
        return self._signatures[name]

    def _send(self, kind: int, payload: bytes) -> None:
        """Send a frame, after which the script computes; nothing is sent once the run has ended."""
        self._stop_timer()
        if self._ended.done():
            return
        # The worker ends the script itself; this is for a worker that cannot, because it hangs or was taken over.
        seconds = self._limits.seconds + GRACE_SECONDS
        self._timer = asyncio.get_running_loop().call_later(seconds, self._worker.end)
        self._worker.send(self._number, kind, payload)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None


@lru_cache(32)
def _encode_limits(limits: SandboxLimits) -> bytes:
    names = ("fuel", "seconds", "memory_bytes", "output_chars", "call_bytes", "result_bytes")
    return json.dumps({name: getattr(limits, name) for name in names}).encode()


def _bind_arguments(signature: inspect.Signature, text: str, most: int) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call; raise `ValueError` or `TypeError` if the function does not accept them."""
    if len(text) > most:
        raise ValueError(f"its arguments have {len(text):,} characters, more than the limit of {most:,}")
    parts = cast("list[Any]", parse_json(text, around=2))
    if not isinstance(parts, list) or [type(part) for part in parts] != [list, dict]:
        raise ValueError("its arguments are malformed")
    # Checked before the call, so that a `TypeError` inside the function is not taken for wrong arguments.
    signature.bind(*parts[0], **parts[1])
    return parts[0], parts[1]
