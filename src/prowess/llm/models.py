"""Open models by name, such as `anthropic:claude-haiku-5-5`."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from prowess.errors import Invalid, NoModel, Refused, RunFailed, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.llm.model import Model, ModelConfig, Reply, Request, family_of
from prowess.llm.providers import PROVIDERS, Provider

Sleep = Callable[[float], Awaitable[object]]


class RateLimit:
    """Spaces requests evenly, at most `per_minute` a minute.

    Callers that come too early wait in order of arrival. Safe to share between threads and event loops.
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
        # Each caller reserves its start time under the lock and sleeps outside it: no queue, no fairness to arrange.
        with self._lock:
            now = self._clock()
            start = max(now, self._next)
            self._next = start + self._gap
        if start > now:
            await self._sleep(start - now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model that can be chosen by its name. `needs` says what is missing before it can answer; '' if it is ready."""

    name: str
    is_default: bool
    needs: str


UNKNOWN_MODEL = "(no model chosen)"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnopenedModel:
    """Stands in for a model in a dry run: it needs no API key and no installed extra, and cannot be asked."""

    name: str = UNKNOWN_MODEL
    family: str = ""
    structured: bool = True

    async def complete(self, request: Request) -> Reply:  # noqa: ARG002
        """Raise `Unavailable`."""
        raise Unavailable(f"{self.name} is a placeholder and cannot answer.", hint="Open the model first.")

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """Raise `Unavailable`."""
        yield await self.complete(request)


NAME_FORMS = ", ".join(row.form for row in PROVIDERS.values())

NO_MODEL_HINT = (
    "Pass `--model PROVIDER:NAME` (model= in Python), or set PROWESS_MODEL and the key of the provider. To use a model on "
    "this machine, run `pip install 'prowess[local]'` and `prowess model fetch smollm2`, and pass `--model local:smollm2`."
)

_PREFIXES = (
    (re.compile(r"(gpt-|chatgpt-|o\d)"), "openai"),
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gemini-"), "google"),
)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
_LONGEST = 4_096
_SCHEMA_AS_TEXT = frozenset({"ollama", "compatible"})
"""Providers whose servers may ignore a schema, so it goes into the prompt as well."""


class Models:
    """Opens models by name, each once, with the configured limits.

    Opening a model blocks: it may import the provider's library. Safe to use from many threads.
    """

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._opened: dict[str, Model] = {}
        self._by_alias: dict[str, Model] = {}  # by the names callers used, which may lack the provider
        self._lock = threading.Lock()

    @property
    def default(self) -> str:
        """The name of the default model, or ''."""
        return self._config.default

    @property
    def evaluation(self) -> str:
        """The name of the model for reviews and semantic assertions, or '' to use the run's own."""
        return self._config.evaluation

    @property
    def configured(self) -> frozenset[str]:
        """The names that the operator configured, with '' for the default. Everyone may choose them, also paths."""
        return frozenset(("", self.default, self.evaluation, *self._config.offered))

    def open(self, name: str) -> Model:
        """Return the model of that name.

        Raise `NoModel` for '', `Invalid` for a malformed name, and `Unavailable` if its API key or extra is missing.
        """
        provider, model = _parse_name(name)
        full = f"{provider.name}:{model}"
        with self._lock:
            # Opened under the lock, although that blocks: two threads must not open the same model twice.
            if full not in self._opened:
                self._opened[full] = self._guarded(provider, _open_model(provider, model, self._config))
            self._by_alias[name] = self._opened[full]
            return self._opened[full]

    def opened(self, name: str) -> Model | None:
        """Return the model of that name if it is open already, else None; never blocks."""
        return self._by_alias.get(name)

    def named(self, name: str) -> Model:
        """Return a stand-in for the model of that name, to show what it would be sent; '' means not chosen yet."""
        if not name:
            return UnopenedModel()
        provider, model = _parse_name(name)
        return UnopenedModel(
            name=f"{provider.name}:{model}",
            family=family_of(provider.name, model),
            structured=provider.name not in _SCHEMA_AS_TEXT,
        )

    def check(self, name: str) -> None:
        """Raise `Invalid` for a malformed name, without opening the model; '' is accepted."""
        if name:
            _parse_name(name)

    def check_chooser(self, name: str, who: str) -> None:
        """Raise `Refused` for a model that a skill or a remote caller may not choose: its name is a path on this machine."""
        provider, model = _parse_name(name)
        if not provider.plain and not (provider.name == "local" and re.fullmatch(r"[a-z0-9][a-z0-9-]*", model)):
            raise Refused(
                f"{who} may not choose the model {name[:80]!r}: it is a file on this machine.",
                hint="Choose it on that machine, with `--model` or PROWESS_MODEL.",
            )

    def choices(self) -> list[ModelChoice]:
        """Return the models that are configured or on this machine, the default first. Other names can be used as well."""
        from prowess.llm.local import FETCHABLE

        config = self._config
        fetched = [f"local:{model.name}" for model in FETCHABLE.values() if model.file(config.home).is_file()]
        names = dict.fromkeys((config.default, *config.offered, config.evaluation, *fetched))
        return [
            ModelChoice(
                name=name if name in config.offered else _short_name(name),
                is_default=name == config.default,
                needs=self._needs(name),
            )
            for name in names
            # Paths on this machine are shown only if the operator offers them.
            if name and (name in (config.default, *config.offered) or _short_name(name) == name)
        ]

    def check_choice(self, name: str) -> None:
        """Raise `Invalid` for an unknown name, and `Unavailable` if the model cannot be used yet; '' is accepted."""
        if name and (needs := _parse_name(name)[0].needs(self._config)):
            raise Unavailable(
                f"The model {name[:80]!r} cannot be used yet: it {needs}.",
                hint="Choose another model, or run `prowess model list` on the server to see what is missing.",
            )

    def _needs(self, name: str) -> str:
        try:
            return _parse_name(name)[0].needs(self._config)
        except Invalid as error:
            return error.message

    async def close(self) -> None:
        """Close the connections of the running event loop; the models stay usable.

        Raise `RunFailed`, after closing all, if a scripted model was used and has steps left.
        """
        # Imported late: `wrappers` imports this module, and tenacity, which is not needed before a model is opened.
        from prowess.llm.wrappers import Closeable

        with self._lock:
            # A copy, so that the lock is not held while connections close.
            opened = list(self._opened.values())
        unfinished: RunFailed | None = None
        for model in opened:
            try:
                if isinstance(model, Closeable):
                    await model.close()
            except RunFailed as error:
                # Raised only at the end: the other models must be closed, too.
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
        if provider.installed:
            provider.key(config)  # before the provider's library is imported, which takes seconds
        return provider.open(provider, model, config)
    except ImportError as error:
        missing = error.name or str(error)
        raise Unavailable(
            f"Models of {provider.name} need a package that is not installed: {missing}.",
            hint=f"Run `pip install 'prowess[{provider.extra}]'`.",
        ) from error


def _parse_name(name: str) -> tuple[Provider, str]:
    if not name:
        raise NoModel("No model is configured.", hint=NO_MODEL_HINT)
    before, colon, after = name.partition(":")
    provider = PROVIDERS.get(before) if colon else None
    if provider is None:
        # A name without a provider may have its own colon, so the whole of it is the name.
        provider, after = PROVIDERS.get(_infer_provider(name)), name
    if provider is None or not _check_name(provider, after):
        raise Invalid(f"Invalid model name {name[:80]!r}.", hint=f"Use one of: {NAME_FORMS}.")
    return provider, after


def _short_name(name: str) -> str:
    """Return the name without the folder of a file on this machine."""
    provider, colon, rest = name.partition(":")
    return (
        f"{provider}:{Path(rest).name}" if colon and provider in PROVIDERS and not PROVIDERS[provider].plain else name
    )


def _infer_provider(name: str) -> str:
    return next((provider for beginning, provider in _PREFIXES if beginning.match(name)), "")


def _check_name(provider: Provider, model: str) -> bool:
    if not provider.plain:
        return bool(model) and len(model) <= _LONGEST and "\0" not in model
    # With some providers the name becomes part of a URL: `..` or `//` could lead to another path of the server.
    return _PLAIN_NAME.fullmatch(model) is not None and ".." not in model and "//" not in model
