"""Models on this machine: a GGUF file, by its path or by the name of one that can be fetched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from prowess.errors import Unavailable
from prowess.llm.config import ModelConfig
from prowess.llm.family import family_of
from prowess.llm.local_files import FETCHABLE
from prowess.llm.local_serving import LocalServer, Serving, server_of
from prowess.llm.model import Model, Reply, Request
from prowess.llm.provided import ProvidedModel

ANSWER_TOKENS = 512
"""How long an answer may become where the request does not say."""

_PREFIX = "local:"
_LIBRARIES = ("xllamacpp", "pydantic_ai", "openai")
_INSTALL = "Install it: pip install 'prowess[local]'"
_PATH = f"Give the path of a GGUF file, or one of the names that can be fetched: {', '.join(FETCHABLE)}."


def open_local(name: str, config: ModelConfig) -> Model:
    """The model of a name such as `local:smollm2` or `local:/path/to/model.gguf`. Nothing is started before it is asked.

    Raises `Unavailable` where its file, or a library that it takes, is not there.
    """
    missing = [library for library in _LIBRARIES if find_spec(library) is None]
    if missing:
        raise Unavailable(f"Local models need what is not installed: {', '.join(missing)}.", hint=_INSTALL)
    name = name.removeprefix(_PREFIX)
    known = FETCHABLE.get(name)
    file = known.file(config.home) if known else Path(name).expanduser().absolute()
    if not file.is_file():
        if known:
            raise Unavailable(f"The model {name} is not fetched yet.", hint=f"Fetch it: {known.command}")
        raise Unavailable(f"There is no model {name!r}.", hint=_PATH)
    return LocalModel(f"{_PREFIX}{name}", server_of(file, sha256=known.sha256 if known else ""))


def _ending(request: Request) -> Request:
    """The request with an end to its answer: a small model may go on for ever."""
    return replace(request, max_tokens=request.max_tokens or ANSWER_TOKENS)


class LocalModel:
    """A model that a server of our own serves, in a process of its own; it is held to a schema by a grammar.

    The server starts with the first request, and again where it has died.
    """

    structured = True

    def __init__(self, name: str, server: LocalServer) -> None:
        self.name = name
        self.family = family_of("local", name.removeprefix(_PREFIX))
        self._server = server
        self._serving: Serving | None = None
        self._provided: ProvidedModel | None = None

    def __repr__(self) -> str:
        return f"<LocalModel {self.name}>"

    async def complete(self, request: Request) -> Reply:
        """The whole answer."""
        return await (await self._served()).complete(_ending(request))

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """The answer piece by piece, and last the whole."""
        async with aclosing((await self._served()).stream(_ending(request))) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        """Close the connections to the server, which goes on for others who use it."""
        if self._provided is not None:
            await self._provided.close()

    async def _served(self) -> ProvidedModel:
        serving = self._server.serving or await asyncio.to_thread(self._server.start)
        provided = self._provided
        if provided is None or serving is not self._serving:
            past, provided = provided, self._reached(serving)
            self._serving, self._provided = serving, provided
            if past is not None:
                await past.close()
        return provided

    def _reached(self, serving: Serving) -> ProvidedModel:
        from prowess.llm.lines import compatible_line

        return ProvidedModel(
            name=self.name,
            family=self.family,
            connect=partial(compatible_line, serving.alias, serving.url, serving.key),
            secrets=(serving.key,),
        )
