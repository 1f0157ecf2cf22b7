"""Models that a provider serves over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from prowess.errors import ProwessError, RunFailed
from prowess.llm.model import Model, Reply, Request

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelResponseStreamEvent
    from pydantic_ai.models import Model as Underlying


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Line:
    """A way to a provider: the model as the library has it, and the connections it uses."""

    model: Underlying
    client: httpx2.AsyncClient


class ProvidedModel:
    """A model of a provider, asked once per request: time-outs and further tries are a guard's matter.

    It can be used from several event loops, one after the other or at once; each has connections of its own. The key is
    only inside the connections; it is not in the `repr`, nor in an error.
    """

    def __init__(
        self, *, name: str, family: str, connect: Callable[[], Line], secrets: tuple[str, ...] = (), key_hint: str = ""
    ) -> None:
        self.name = name
        self.family = family
        self._connect = connect
        self._secrets = secrets
        self._key_hint = key_hint or "Check the key, and what it may be used for."
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, Line] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._spare: Line | None = connect()
        self.structured = bool(self._spare.model.profile.get("supports_json_schema_output"))

    def __repr__(self) -> str:
        return f"<ProvidedModel {self.name}>"

    async def complete(self, request: Request) -> Reply:
        """The whole answer."""
        from prowess.llm.wording import parameters_of, reply_of, settings_of, turns_of

        try:
            model = self._line().model
            parameters = parameters_of(request, structured=self.structured)
            settings = settings_of(request, model.profile)
            response = await model.request(turns_of(request.messages), settings, parameters)
            return reply_of(response, model=self.name)
        except Exception as error:  # noqa: BLE001  (whatever a provider's library raises is told in our words)
            fault = self._translated(error)
        raise fault

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """The answer piece by piece, and last the whole."""
        # What was raised must not be the context of the error of ours: it may have a key in it.
        fault: ProwessError
        async with aclosing(self._pieces(request)) as pieces:
            try:
                async for piece in pieces:
                    yield piece
            except Exception as error:  # noqa: BLE001
                fault = self._translated(error)
            else:
                return
        raise fault

    async def _pieces(self, request: Request) -> AsyncGenerator[str | Reply]:
        from prowess.llm.wording import parameters_of, reply_of, settings_of, turns_of

        written: list[str] = []
        model = self._line().model
        parameters = parameters_of(request, structured=self.structured)
        settings = settings_of(request, model.profile)
        async with model.request_stream(turns_of(request.messages), settings, parameters) as response:
            async for event in response:
                if piece := _text_in(event):
                    written.append(piece)
                    yield piece
        whole = response.get()
        if whole.state != "complete":
            raise RunFailed(f"The answer of {self.name} broke off.", hint="Ask again.")
        yield reply_of(whole, model=self.name, text="".join(written))

    async def close(self) -> None:
        """Close the connections of the running event loop; the next request opens new ones."""
        with self._lock:
            lines = [self._lines.pop(asyncio.get_running_loop(), None), self._spare]
            self._spare = None
        for line in lines:
            if line is not None:
                await line.client.aclose()

    def _line(self) -> Line:
        loop = asyncio.get_running_loop()
        with self._lock:
            line = self._lines.get(loop)
            if line is None:
                spare, self._spare = self._spare, None
                line = self._lines[loop] = spare or self._connect()
            return line

    def _translated(self, error: Exception) -> ProwessError:
        from prowess.llm.faults import translated

        return translated(error, model=self.name, secrets=self._secrets, key_hint=self._key_hint)


def _text_in(event: ModelResponseStreamEvent) -> str:
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def open_compatible(model_name: str, *, name: str, base_url: str, key: str, family: str) -> Model:
    """A model of a server that speaks OpenAI's chat API, under the name that it is called here."""
    from prowess.llm.lines import compatible_line

    return ProvidedModel(
        name=name,
        family=family,
        connect=lambda: compatible_line(model_name, base_url, key),
        secrets=(key,) if key else (),
    )
