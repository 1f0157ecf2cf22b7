"""Wrappers around a model: timeouts, retries and rate limit (`GuardedModel`), and unreliable schema support (`CautiousModel`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol, TypeVar, runtime_checkable

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, wait_random_exponential

from prowess.errors import AnswerUnusable, ProwessError, RunFailed, TimedOut, TryLater
from prowess.lazy_dataclass import dataclass
from prowess.llm.model import Model, Reply, Request, add_schema_text, enforces_schema, is_small
from prowess.llm.models import RateLimit, Sleep

MAX_WAIT_SECONDS = 30.0
"""The longest wait before a retry. If a provider asks for a longer one, the request fails instead."""

_T = TypeVar("_T")
_backoff = wait_random_exponential(multiplier=0.5, max=MAX_WAIT_SECONDS)


@runtime_checkable
class Closeable(Protocol):
    """A model that holds resources, such as connections."""

    async def close(self) -> None:
        """Release them."""
        ...


class WrapperModel:
    """The base of the wrappers: everything but the requests is passed on to the wrapped model."""

    def __init__(self, inner: Model) -> None:
        self.inner = inner

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self.inner!r}>"

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self.inner.name

    @property
    def family(self) -> str:
        """The family of the wrapped model."""
        return self.inner.family

    @property
    def structured(self) -> bool:
        """True if the provider enforces a JSON schema on replies."""
        return self.inner.structured

    @property
    def small(self) -> bool:
        """True if the wrapped model is a small one; see `is_small`."""
        return is_small(self.inner)

    async def close(self) -> None:
        """Release what the wrapped model holds."""
        if isinstance(self.inner, Closeable):
            await self.inner.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenedStream:
    """A stream whose first chunk has arrived."""

    pieces: AsyncGenerator[str | Reply]
    first: str | Reply


class GuardedModel(WrapperModel):
    """Adds a timeout, retries after transient errors, and a rate limit to a model.

    The timeout is for a whole reply, or for each chunk of a stream; a request may ask for a longer one. Retries back off exponentially with jitter, and wait
    at least as long as the provider asks. A stream is retried only before its first chunk: the caller may have shown it.
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
        super().__init__(inner)
        self._timeout = timeout_seconds
        self._attempts = max(attempts, 1)
        self._pace = pace
        self._sleep = sleep

    async def complete(self, request: Request) -> Reply:
        """Return the whole reply."""
        return await self._retried(self._once, request)

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """Yield the reply's text in chunks, and the whole `Reply` last."""
        opened = await self._retried(self._opened, request)
        pieces = opened.pieces
        piece: str | Reply | None = opened.first
        async with aclosing(pieces):
            while piece is not None:
                yield piece
                piece = await self._in_time(anext(pieces, None), request)

    async def _once(self, request: Request) -> Reply:
        # Outside the timeout: a request that waits for its turn has not been sent yet.
        await self._turn()
        return await self._in_time(self.inner.complete(request), request)

    async def _opened(self, request: Request) -> _OpenedStream:
        await self._turn()
        pieces = self.inner.stream(request)
        try:
            first = await self._in_time(anext(pieces, None), request)
        except BaseException:
            # Otherwise the connection stays open until the garbage collector finds the generator.
            await pieces.aclose()
            raise
        if first is None:
            raise AnswerUnusable(f"{self.name} returned an empty answer.", hint="Try again, or use another model.")
        return _OpenedStream(pieces=pieces, first=first)

    async def _turn(self) -> None:
        if self._pace is not None:
            await self._pace.turn()

    async def _in_time(self, answer: Awaitable[_T], request: Request) -> _T:
        # A caller who gave the run more time than usual, for a slow model say, must not meet a shorter limit here.
        seconds = max(self._timeout, request.seconds)
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            raise TimedOut(
                f"{self.name} timed out after {seconds:g} seconds.",
                hint="Ask for a shorter answer, use a faster model, or try again later.",
            ) from None

    async def _retried(self, ask: Callable[[Request], Awaitable[_T]], request: Request) -> _T:
        """Send the request, and retry after transient errors."""
        # Most requests succeed at once, and tenacity costs as much as all our other wrappers together: it takes over
        # only after an error, which is replayed as its first attempt so that it counts and backs off as usual.
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
    retry_after = error.retry_after if isinstance(error, TryLater) else None
    return max(retry_after or 0, _backoff(state))


class CautiousModel(WrapperModel):
    """Puts the schema into the prompt as well, because some servers ignore schemas silently.

    If a server rejects the first request with a schema, later requests have it in the prompt only.
    """

    def __init__(self, inner: Model) -> None:
        super().__init__(inner)
        self._accepts_schemas = False
        self._rejects_schemas = False

    @property
    def structured(self) -> bool:
        """True unless the server is known not to support schemas."""
        return self.inner.structured and not self._rejects_schemas

    async def complete(self, request: Request) -> Reply:
        """Return the whole reply."""
        if not self._is_doubtful(request):
            return await self.inner.complete(request)
        *_, last = [piece async for piece in self._with_schema(request, stream=False)]
        assert isinstance(last, Reply)  # noqa: S101  (the last chunk)
        return last

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """Yield the reply's text in chunks, and the whole `Reply` last."""
        send = self._with_schema if self._is_doubtful(request) else self._send
        async with aclosing(send(request, stream=True)) as pieces:
            async for piece in pieces:
                yield piece

    def _is_doubtful(self, request: Request) -> bool:
        """Return True if the request relies on the server to enforce its schema."""
        return enforces_schema(request, structured=self.inner.structured)

    async def _with_schema(self, request: Request, *, stream: bool) -> AsyncGenerator[str | Reply]:
        prompted = add_schema_text(request)
        rejection: RunFailed | None = None
        if not self._rejects_schemas:
            started = False
            try:
                async with aclosing(self._send(prompted, stream=stream)) as pieces:
                    async for piece in pieces:
                        started = True
                        yield piece
            except RunFailed as error:
                # Once a schema was accepted, or text has arrived, the failure has another reason.
                if started or self._accepts_schemas or isinstance(error, TimedOut):
                    raise
                rejection = error
            else:
                self._accepts_schemas = True
                return
        try:
            async with aclosing(self._send(replace(prompted, schema=None), stream=stream)) as pieces:
                async for piece in pieces:
                    yield piece
        except ProwessError as error:
            # The request fails without a schema, too: the first error says why.
            raise rejection or error from None
        self._rejects_schemas = True

    async def _send(self, request: Request, *, stream: bool) -> AsyncGenerator[str | Reply]:
        if not stream:
            yield await self.inner.complete(request)
            return
        async with aclosing(self.inner.stream(request)) as pieces:
            async for piece in pieces:
                yield piece
