"""Models that a provider serves over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from prowess.errors import AnswerUnusable, ProwessError, RunFailed
from prowess.lazy_dataclass import dataclass
from prowess.llm.model import Model, Reply, Request, Usage, fit_schema
from prowess.llm.prices import cost_of

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelResponse, ModelResponseStreamEvent
    from pydantic_ai.models import Model as Underlying

_MAX_TOKENS = 100_000_000
"""A higher token count in a reply is taken for a mistake of the server."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProviderClient:
    """A pydantic-ai model, and the HTTP client it uses."""

    model: Underlying
    client: httpx2.AsyncClient


class RemoteModel:
    """A provider's model. Sends each request once: timeouts and retries belong to `GuardedModel`.

    It can be used from several event loops, also at the same time; each gets its own connections, because those of an
    HTTP client belong to one loop. The API key is in the connections only, not in the `repr` or in errors.
    """

    def __init__(
        self,
        *,
        name: str,
        family: str,
        connect: Callable[[], ProviderClient],
        secrets: tuple[str, ...] = (),
        key_hint: str = "",
    ) -> None:
        self.name = name
        self.family = family
        self._connect = connect
        self._secrets = secrets
        self._key_hint = key_hint or "Check the key and its permissions."
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, ProviderClient] = WeakKeyDictionary()
        self._lock = threading.Lock()
        # Connect now, so that a missing library or a wrong setting fails when the model is opened.
        self._spare: ProviderClient | None = connect()
        self.structured = bool(self._spare.model.profile.get("supports_json_schema_output"))

    def __repr__(self) -> str:
        return f"<RemoteModel {self.name}>"

    async def complete(self, request: Request) -> Reply:
        """Return the whole reply."""
        from prowess.llm.conversion import convert_messages, convert_parameters, convert_settings
        from prowess.llm.transport import new_exchange

        exchange = new_exchange()
        try:
            request = fit_schema(request, structured=self.structured)
            model = self._client().model
            parameters = convert_parameters(request, structured=self.structured)
            settings = convert_settings(request, model.profile)
            response = await model.request(convert_messages(request.messages), settings, parameters)
            return self._read(response)
        except Exception as error:  # noqa: BLE001  (providers' libraries raise anything)
            failure = self._translate(error, answered=exchange.answered)
        # Raised outside the handler: the original error, which may contain a key, must not become its context.
        raise failure

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """Yield the reply's text in chunks, and the whole `Reply` last."""
        from prowess.llm.transport import new_exchange

        failure: ProwessError
        started = False
        exchange = new_exchange()
        async with aclosing(self._pieces(request)) as pieces:
            try:
                async for piece in pieces:
                    started = True
                    yield piece
            except Exception as error:  # noqa: BLE001
                failure = self._translate(error, answered=exchange.answered, started=started)
            else:
                return
        raise failure  # outside the handler, as in `complete`

    async def _pieces(self, request: Request) -> AsyncGenerator[str | Reply]:
        from prowess.llm.conversion import convert_messages, convert_parameters, convert_settings

        written: list[str] = []
        request = fit_schema(request, structured=self.structured)
        model = self._client().model
        parameters = convert_parameters(request, structured=self.structured)
        settings = convert_settings(request, model.profile)
        async with model.request_stream(convert_messages(request.messages), settings, parameters) as response:
            async for event in response:
                if piece := _text_of(event):
                    written.append(piece)
                    yield piece
        whole = response.get()
        # A stream that ends early without an error must not pass as a whole answer.
        if whole.state != "complete":
            raise self._unusable(whole, f"The answer of {self.name} ended early.", hint="Try again.")
        yield self._read(whole, text="".join(written))

    async def close(self) -> None:
        """Close the connections of the running event loop; the next request opens new ones."""
        with self._lock:
            clients = [self._clients.pop(asyncio.get_running_loop(), None), self._spare]
            self._spare = None
        for client in clients:
            if client is not None:
                await client.client.aclose()

    def _client(self) -> ProviderClient:
        loop = asyncio.get_running_loop()
        with self._lock:
            client = self._clients.get(loop)
            if client is None:
                # The client of the constructor is used once; it has no connections yet, so it fits any event loop.
                spare, self._spare = self._spare, None
                client = self._clients[loop] = spare or self._connect()
            return client

    def _read(self, response: ModelResponse, *, text: str | None = None) -> Reply:
        from prowess.llm.conversion import convert_reply

        try:
            return convert_reply(response, model=self.name, text=text)
        except RunFailed as error:
            message, hint = error.message, error.hint
        if response.finish_reason == "length":
            message = f"{message} The answer was truncated at its length limit."
            hint = "Raise `max_tokens`."
        raise self._unusable(response, message, hint=hint)

    def _unusable(self, response: ModelResponse, message: str, *, hint: str) -> AnswerUnusable:
        """Return the error, with the tokens and the cost of the reply if the server's count is plausible."""
        read, written = tokens = int(response.usage.input_tokens), int(response.usage.output_tokens)
        # A server can report any number; only a plausible one is charged.
        if min(tokens) < 0 or not 0 < read + written <= _MAX_TOKENS:
            return AnswerUnusable(message, hint=hint)
        used = Usage(input_tokens=read, output_tokens=written, cached_tokens=response.usage.cache_read_tokens)
        cost = cost_of(self.name, used)
        return AnswerUnusable(message, hint=hint, tokens=tokens, cost=cost)

    def _translate(self, error: Exception, *, answered: bool, started: bool = False) -> ProwessError:
        from prowess.llm.transport import interrupted, translate_error

        failure = translate_error(
            error, model=self.name, secrets=self._secrets, key_hint=self._key_hint, answered=answered
        )
        return interrupted(failure, model=self.name) if started else failure


def _text_of(event: ModelResponseStreamEvent) -> str:
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def open_compatible(model_name: str, *, name: str, base_url: str, key: str, family: str) -> Model:
    """Open a model of a server with OpenAI's chat API."""
    from prowess.llm.transport import compatible_client

    return RemoteModel(
        name=name,
        family=family,
        connect=lambda: compatible_client(model_name, base_url, key),
        secrets=(key,) if key else (),
    )
