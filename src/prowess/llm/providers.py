"""The table of model providers: one row each."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from prowess.errors import Invalid, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.llm.model import Model, ModelConfig, family_of
from prowess.llm.remote import ProviderClient, RemoteModel, open_compatible

OLLAMA_URL = "http://localhost:11434/v1"

Opener = Callable[["Provider", str, ModelConfig], Model]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A model provider: the extra to install, the environment variables with the API key, and how to open a model.

    `plain` providers have model names only. For the others a name can be a path, which a skill may not choose.
    """

    name: str
    form: str
    open: Opener
    extra: str = ""
    modules: tuple[str, ...] = ()
    """The modules that the extra installs."""
    keys: tuple[str, ...] = ()
    plain: bool = True
    least_seconds: float = 0
    """The shortest timeout: a model on this machine is slow, and may have to be loaded first."""

    @property
    def installed(self) -> bool:
        """True if its modules are installed."""
        return all(map(_is_installed, self.modules))

    def key(self, config: ModelConfig) -> str:
        """Return the API key, or raise `Unavailable` naming the variable to set."""
        found = next((value for name in self.keys if (value := config.environment.get(name, "").strip())), "")
        if self.keys and not found:
            raise Unavailable(
                f"No API key for {self.name}: {self.keys[0]} is not set.",
                hint=f"Set {' or '.join(self.keys)} to your API key.",
            )
        return found

    def has_key(self, config: ModelConfig) -> bool:
        """Return True if the API key is set, or none is needed."""
        return not self.keys or any(config.environment.get(name, "").strip() for name in self.keys)

    def needs(self, config: ModelConfig) -> str:
        """Return what is still needed before it can be used, or '' if it is ready."""
        if not self.installed:
            return f"needs: pip install 'prowess[{self.extra}]'"
        if not self.has_key(config):
            return f"needs {' or '.join(self.keys)}"
        if self.name == "compatible" and not config.base_url:
            return "needs PROWESS_MODEL_URL"
        return ""


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # the parent package is missing
        return False


def _open_openai(provider: Provider, model: str, config: ModelConfig) -> Model:
    from prowess.llm.transport import OPENAI_URL, openai_client

    return _open_remote(provider, model, config, _base_url(config, "OPENAI_BASE_URL", OPENAI_URL), openai_client)


def _open_anthropic(provider: Provider, model: str, config: ModelConfig) -> Model:
    from prowess.llm.transport import ANTHROPIC_URL, anthropic_client

    return _open_remote(
        provider, model, config, _base_url(config, "ANTHROPIC_BASE_URL", ANTHROPIC_URL), anthropic_client
    )


def _open_google(provider: Provider, model: str, config: ModelConfig) -> Model:
    from prowess.llm.transport import GOOGLE_URL, google_client

    return _open_remote(provider, model, config, _base_url(config, "GOOGLE_GEMINI_BASE_URL", GOOGLE_URL), google_client)


def _open_ollama(provider: Provider, model: str, config: ModelConfig) -> Model:
    # Optional: a local Ollama needs no key, a hosted one does.
    key = config.environment.get("OLLAMA_API_KEY", "").strip()
    return _open_cautious(provider, model, _base_url(config, "OLLAMA_BASE_URL", OLLAMA_URL), key)


def _open_compatible(provider: Provider, model: str, config: ModelConfig) -> Model:
    if not config.base_url:
        raise Unavailable(
            "No server URL: PROWESS_MODEL_URL is not set.",
            hint="Set PROWESS_MODEL_URL to an OpenAI-compatible server, for example http://localhost:8000/v1, and PROWESS_MODEL_KEY if it needs a key.",
        )
    return _open_cautious(provider, model, _check_url("PROWESS_MODEL_URL", config.base_url), config.key)


def _open_cautious(provider: Provider, model: str, url: str, key: str) -> Model:
    from prowess.llm.tool_schema import UncertainToolModel
    from prowess.llm.wrappers import CautiousModel

    family = family_of(provider.name, model)
    opened = open_compatible(model, name=f"{provider.name}:{model}", base_url=url, key=key, family=family)
    return UncertainToolModel(CautiousModel(opened))


def _open_local(provider: Provider, model: str, config: ModelConfig) -> Model:
    from prowess.llm.local import open_local
    from prowess.llm.tool_schema import ToolSchemaModel

    return ToolSchemaModel(open_local(f"{provider.name}:{model}", config))


def _open_scripted(provider: Provider, model: str, config: ModelConfig) -> Model:  # noqa: ARG001  (the signature of every opener)
    from prowess.llm.scripted import read_script

    return read_script(Path(model))


def _open_remote(
    provider: Provider, model: str, config: ModelConfig, url: str, connect: Callable[[str, str, str], ProviderClient]
) -> Model:
    key = provider.key(config)
    return RemoteModel(
        name=f"{provider.name}:{model}",
        family=family_of(provider.name, model),
        connect=lambda: connect(model, url, key),
        secrets=(key,),
        key_hint=f"Check {' or '.join(provider.keys)} and the permissions of the key.",
    )


def _base_url(config: ModelConfig, variable: str, default: str) -> str:
    return _check_url(variable, config.environment.get(variable, "").strip() or default)


def _check_url(variable: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise Invalid(f"{variable} is not a valid URL.", hint="Use a URL such as https://models.example.com/v1.")
    return url


_LOCAL_SECONDS = 300
_LAYER = "pydantic_ai"
"""The library that talks to every provider."""

_ROWS = (
    Provider(
        name="openai",
        form="openai:NAME",
        extra="openai",
        modules=(_LAYER, "openai"),
        keys=("OPENAI_API_KEY",),
        open=_open_openai,
    ),
    Provider(
        name="anthropic",
        form="anthropic:NAME",
        extra="anthropic",
        modules=(_LAYER, "anthropic"),
        keys=("ANTHROPIC_API_KEY",),
        open=_open_anthropic,
    ),
    Provider(
        name="google",
        form="google:NAME",
        extra="google",
        modules=(_LAYER, "google.genai"),
        keys=("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        open=_open_google,
    ),
    Provider(
        name="ollama",
        form="ollama:NAME",
        extra="openai",
        modules=(_LAYER, "openai"),
        least_seconds=_LOCAL_SECONDS,
        open=_open_ollama,
    ),
    Provider(
        name="compatible", form="compatible:NAME", extra="openai", modules=(_LAYER, "openai"), open=_open_compatible
    ),
    Provider(
        name="local",
        form="local:smollm2 or local:/path/to/model.gguf",
        extra="local",
        modules=("xllamacpp",),
        plain=False,
        least_seconds=_LOCAL_SECONDS,
        open=_open_local,
    ),
    Provider(name="scripted", form="scripted:FILE.json", plain=False, open=_open_scripted),
)
PROVIDERS: dict[str, Provider] = {row.name: row for row in _ROWS}
