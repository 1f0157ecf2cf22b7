"""Models of servers that differ in what they make of a schema."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from prowess.errors import ProwessError, RunFailed, TimedOut
from prowess.llm.guard import Closing
from prowess.llm.model import Model, Reply, Request
from prowess.llm.schema_words import in_words, is_held


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
        if isinstance(self.inner, Closing):
            await self.inner.close()

    def _is_doubtful(self, request: Request) -> bool:
        """Whether the server is asked to hold the answer to a schema; any other schema is in words already."""
        return is_held(request, structured=self.inner.structured)

    async def _with_schema(self, request: Request, *, stream: bool) -> AsyncGenerator[str | Reply]:
        worded = in_words(request)
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
