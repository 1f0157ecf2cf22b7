"""Wrappers around a model: timeouts, retries and rate limit (`GuardedModel`), and unreliable schema support (`CautiousModel`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, runtime_checkable

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from prowess.errors import AnswerUnusable, ProwessError, RunFailed, TimedOut, TryLater
from prowess.llm.model import Model, Reply, Request, add_schema_text, enforces_schema
from prowess.llm.models import RateLimit, Sleep

MAX_WAIT_SECONDS = 30.0
"""Seconds that a further try is waited for; where a provider asks for more, there is none."""

_T = TypeVar("_T")
_backoff = wait_random_exponential(multiplier=0.5, max=MAX_WAIT_SECONDS)


@runtime_checkable
class Closeable(Protocol):
    """A model that holds something open."""

    async def close(self) -> None:
        """Let go of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenedStream:
    """A stream that has begun."""

    pieces: AsyncGenerator[str | Reply]
    first: str | Reply


class GuardedModel:
    """Asks a model with a time-out, further tries after faults that pass, and at a pace.

    The time-out is for a whole answer, or for each piece of one that is streamed. A further try waits for a random time
    that grows with each, and at least as long as the provider asks. A stream is tried again only before its first piece.
    """

    def __init__(
        self,
        inner: Model,
        *,
        timeout_seconds: float = 60,
        attempts: int = 3,
        pace: RateLimit | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.inner = inner
        self._timeout = timeout_seconds
        self._attempts = max(attempts, 1)
        self._pace = pace
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"<GuardedModel over {self.inner!r}>"

    @property
    def name(self) -> str:
        """What the model is called."""
        return self.inner.name

    @property
    def family(self) -> str:
        """Whose prompts suit it."""
        return self.inner.family

    @property
    def structured(self) -> bool:
        """Whether it can be held to a schema."""
        return self.inner.structured

    async def complete(self, request: Request) -> Reply:
        """The whole answer."""
        return await self._retried(self._once, request)

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """The answer piece by piece, and last the whole."""
        opened = await self._retried(self._opened, request)
        pieces = opened.pieces
        piece: str | Reply | None = opened.first
        async with aclosing(pieces):
            while piece is not None:
                yield piece
                piece = await self._in_time(anext(pieces, None))

    async def close(self) -> None:
        """Let go of what the model holds open."""
        if isinstance(self.inner, Closeable):
            await self.inner.close()

    async def _once(self, request: Request) -> Reply:
        await self._turn()
        return await self._in_time(self.inner.complete(request))

    async def _opened(self, request: Request) -> _OpenedStream:
        await self._turn()
        pieces = self.inner.stream(request)
        try:
            first = await self._in_time(anext(pieces, None))
        except BaseException:
            await pieces.aclose()
            raise
        if first is None:
            raise AnswerUnusable(f"{self.name} answered nothing at all.", hint="Ask again, or use another model.")
        return _OpenedStream(pieces=pieces, first=first)

    async def _turn(self) -> None:
        if self._pace is not None:
            await self._pace.turn()

    async def _in_time(self, answer: Awaitable[_T]) -> _T:
        try:
            async with asyncio.timeout(self._timeout):
                return await answer
        except TimeoutError:
            raise TimedOut(
                f"{self.name} did not answer within {self._timeout:g} seconds.",
                hint="Ask for less, use a faster model, or try again later.",
            ) from None

    async def _retried(self, ask: Callable[[Request], Awaitable[_T]], request: Request) -> _T:
        """Ask, and again after a fault that may pass."""
        # Most requests succeed at once, and tenacity costs as much as all our other wrappers together: it takes over
        # only after a fault, which is replayed as its first attempt so that it counts and waits as if it had asked.
        try:
            return await ask(request)
        except TryLater as error:
            if not _is_retryable(error):
                raise
            first: list[TryLater] = [error]

        async def ask_again() -> _T:
            if first:
                raise first.pop()
            return await ask(request)

        return await self._retrying()(ask_again)

    def _retrying(self) -> AsyncRetrying:
        return AsyncRetrying(
            stop=stop_after_attempt(self._attempts),
            wait=_retry_wait,
            retry=retry_if_exception(_is_retryable),
            sleep=self._sleep,  # pyright: ignore[reportArgumentType]
            reraise=True,
        )


def _is_retryable(error: BaseException) -> bool:
    return isinstance(error, TryLater) and (error.retry_after or 0) <= MAX_WAIT_SECONDS


def _retry_wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, TryLater) else None
    return max(asked or 0, _backoff(state))


class CautiousModel:
    """Asks for an answer to a schema in words too, since some servers pass a schema over without a word.

    Where a server refuses the first request that has one, the words alone do from then on.
    """

    def __init__(self, inner: Model) -> None:
        self.inner = inner
        self._holds = False
        self._refuses = False

    def __repr__(self) -> str:
        return f"<CautiousModel over {self.inner!r}>"

    @property
    def name(self) -> str:
        """What the model is called."""
        return self.inner.name

    @property
    def family(self) -> str:
        """Whose prompts suit it."""
        return self.inner.family

    @property
    def structured(self) -> bool:
        """Whether it can be held to a schema, as far as is known."""
        return self.inner.structured and not self._refuses

    async def complete(self, request: Request) -> Reply:
        """The whole answer."""
        if not self._is_doubtful(request):
            return await self.inner.complete(request)
        *_, last = [piece async for piece in self._with_schema(request, stream=False)]
        assert isinstance(last, Reply)  # noqa: S101  (the last of all pieces)
        return last

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """The answer piece by piece, and last the whole."""
        told = self._with_schema if self._is_doubtful(request) else self._told
        async with aclosing(told(request, stream=True)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        """Let go of what the model holds open."""
        if isinstance(self.inner, Closeable):
            await self.inner.close()

    def _is_doubtful(self, request: Request) -> bool:
        """Whether the server is asked to hold the answer to a schema; any other schema is in words already."""
        return enforces_schema(request, structured=self.inner.structured)

    async def _with_schema(self, request: Request, *, stream: bool) -> AsyncGenerator[str | Reply]:
        worded = add_schema_text(request)
        refusal: RunFailed | None = None
        if not self._refuses:
            begun = False
            try:
                async with aclosing(self._told(worded, stream=stream)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield piece
            except RunFailed as error:
                if begun or self._holds or isinstance(error, TimedOut):
                    raise
                refusal = error
            else:
                self._holds = True
                return
        try:
            async with aclosing(self._told(replace(worded, schema=None), stream=stream)) as pieces:
                async for piece in pieces:
                    yield piece
        except ProwessError as error:
            raise refusal or error from None
        self._refuses = True

    async def _told(self, request: Request, *, stream: bool) -> AsyncGenerator[str | Reply]:
        if not stream:
            yield await self.inner.complete(request)
            return
        async with aclosing(self.inner.stream(request)) as pieces:
            async for piece in pieces:
                yield piece
