"""A model within limits: time, tries and pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from prowess.errors import AnswerUnusable, TimedOut, TryLater
from prowess.llm.model import Model, Reply, Request
from prowess.llm.pace import Pace, Sleep

LONGEST_WAIT = 30.0
"""Seconds that a further try is waited for; where a provider asks for more, there is none."""

_T = TypeVar("_T")
_growing = wait_random_exponential(multiplier=0.5, max=LONGEST_WAIT)


@runtime_checkable
class Closing(Protocol):
    """A model that holds something open."""

    async def close(self) -> None:
        """Let go of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
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
        pace: Pace | None = None,
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
        return await self._retrying()(self._once, request)

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """The answer piece by piece, and last the whole."""
        opened: _Opened = await self._retrying()(self._opened, request)
        pieces = opened.pieces
        piece: str | Reply | None = opened.first
        async with aclosing(pieces):
            while piece is not None:
                yield piece
                piece = await self._in_time(anext(pieces, None))

    async def close(self) -> None:
        """Let go of what the model holds open."""
        if isinstance(self.inner, Closing):
            await self.inner.close()

    async def _once(self, request: Request) -> Reply:
        await self._turn()
        return await self._in_time(self.inner.complete(request))

    async def _opened(self, request: Request) -> _Opened:
        await self._turn()
        pieces = self.inner.stream(request)
        try:
            first = await self._in_time(anext(pieces, None))
        except BaseException:
            await pieces.aclose()
            raise
        if first is None:
            raise AnswerUnusable(f"{self.name} answered nothing at all.", hint="Ask again, or use another model.")
        return _Opened(pieces=pieces, first=first)

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

    def _retrying(self) -> AsyncRetrying:
        # One for each request: it keeps count.
        return AsyncRetrying(
            stop=stop_after_attempt(self._attempts),
            wait=_wait,
            retry=retry_if_exception(_worth_another_try),
            sleep=self._sleep,  # pyright: ignore[reportArgumentType]
            reraise=True,
        )


def _worth_another_try(error: BaseException) -> bool:
    return isinstance(error, TryLater) and (error.retry_after or 0) <= LONGEST_WAIT


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, TryLater) else None
    return max(asked or 0, _growing(state))
