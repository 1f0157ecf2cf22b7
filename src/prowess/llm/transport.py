"""Clients for each provider, their HTTP connections, and the translation of their errors.

No redirect is followed, no response grows without limit, and no error message contains an API key.
"""

from __future__ import annotations

import base64
import ipaddress
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
from pydantic_ai import exceptions as theirs

from prowess.errors import AnswerUnusable, ProwessError, RunFailed, TryLater, Unavailable
from prowess.llm.remote import ProviderClient


@dataclass(slots=True)
class Exchange:
    """The state of one request: `answered` once the server has started a successful response."""

    answered: bool = False


MAX_ANSWER_BYTES = 32 * 1024 * 1024

_current_exchange: ContextVar[Exchange | None] = ContextVar("exchange", default=None)
# Only a safety net: `GuardedModel` has the configured timeout.
_TIMEOUT = httpx2.Timeout(3_600, connect=10)


def new_exchange() -> Exchange:
    """Start an exchange for the next request of this task."""
    # The libraries hide the response from us; a context variable reaches our hook in the HTTP client through them.
    exchange = Exchange()
    _current_exchange.set(exchange)
    return exchange


def http_client(url: str) -> httpx2.AsyncClient:
    """Return a client for this server. A server on this machine is reached without the environment's proxy."""

    async def check(response: httpx2.Response) -> None:
        exchange = _current_exchange.get()
        if exchange is not None and response.is_success:
            exchange.answered = True
        if 300 <= response.status_code < 400:
            raise Unavailable(
                f"The server redirects (status {response.status_code}), and redirects are not followed.",
                hint="Use the new URL directly. Following the redirect would send the API key to another server.",
            )
        # The limit counts bytes as they arrive: a small compressed answer could expand to gigabytes after it.
        if response.headers.get("content-encoding", "identity") != "identity":
            raise AnswerUnusable(
                "The server sent a compressed answer, which is not supported.",
                hint="Turn off compression on the server.",
            )
        response.stream = _LimitedStream(response.stream, MAX_ANSWER_BYTES)

    return httpx2.AsyncClient(
        timeout=_TIMEOUT,
        follow_redirects=False,
        # A proxy cannot reach a server on this machine, or would reach its own.
        trust_env=not is_loopback(url),
        verify=_default_tls() if urlsplit(url).scheme == "https" else _empty_tls(),
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [check]},
    )


@lru_cache(maxsize=1)
def _default_tls() -> ssl.SSLContext:
    """Return the default TLS context, shared because loading the certificates is slow."""
    return httpx2.create_ssl_context()


@lru_cache(maxsize=1)
def _empty_tls() -> ssl.SSLContext:
    """Return a context for plain HTTP, where httpx would otherwise load the certificates for nothing."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def is_loopback(url: str) -> bool:
    """Return True if the URL's host is this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _LimitedStream(httpx2.AsyncByteStream):
    """A byte stream that raises `AnswerUnusable` beyond its limit."""

    def __init__(self, stream: httpx2.AsyncByteStream | httpx2.SyncByteStream | None, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if not isinstance(self._stream, httpx2.AsyncByteStream):
            return
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > self._limit:
                raise AnswerUnusable(
                    f"The answer exceeds the limit of {self._limit:,} bytes.", hint="Lower `max_tokens`."
                )
            yield piece

    async def aclose(self) -> None:
        if isinstance(self._stream, httpx2.AsyncByteStream):
            await self._stream.aclose()


# Request timeout, conflict, too early and too many requests: the same request may succeed later.
_RETRY_STATUS = frozenset({408, 409, 425, 429})
# Key, payment, permission or name: repeating the request changes nothing.
_DENIED_STATUS = frozenset({401, 402, 403, 404})
_TRANSIENT_ERRORS = (
    theirs.ModelConnectionError,
    theirs.ModelRateLimitError,
    theirs.ModelUnavailableError,
    theirs.ModelServerError,
)
_MAX_SHOWN = 300
_KEY_FRAGMENT = 8
"""This many consecutive characters of a key count as a leak."""


def translate_error(
    error: Exception, *, model: str, secrets: Sequence[str], key_hint: str, answered: bool = False
) -> ProwessError:
    """Return the Prowess error for a provider's error, without a reference to the original, which may contain a key.

    If the provider has `answered`, the reply is to blame, not the request.
    """
    # Our hook in the HTTP client raises errors that the libraries wrap in their own.
    own = next((cause for cause in _causes(error) if isinstance(cause, ProwessError)), None)
    if own is not None:
        return own
    text = _provider_text(error, secrets)
    if isinstance(error, theirs.ModelHTTPError):
        return _translate_status(error, model, text, key_hint, answered=answered)
    if isinstance(error, _TRANSIENT_ERRORS) or _is_transport(error):
        return TryLater(
            f"{model} is not reachable{text}.",
            hint="Check the network and the server URL, or try again later.",
            retry_after=getattr(error, "retry_after", None),
        )
    if isinstance(error, theirs.ContentFilterError):
        return AnswerUnusable(f"{model} refused to answer{text}.", hint="Change the request, or use another model.")
    if answered or isinstance(error, theirs.UnexpectedModelBehavior):
        return AnswerUnusable(
            f"The answer of {model} cannot be parsed{text}.", hint="Check that the server implements the API."
        )
    return RunFailed(f"{model} rejected the request{text}.", hint="Change the request, or use another model.")


def interrupted(error: ProwessError, *, model: str) -> ProwessError:
    """Return the error for a stream that failed halfway: one that is not retried, because text was delivered already."""
    if isinstance(error, RunFailed):
        return error
    return AnswerUnusable(f"The answer of {model} ended early: {error.message}", hint=error.hint)


def _translate_status(
    error: theirs.ModelHTTPError, model: str, text: str, key_hint: str, *, answered: bool
) -> ProwessError:
    status = error.status_code
    if isinstance(error, theirs.ModelQuotaExceededError) or status in _DENIED_STATUS:
        hint = "Check the name of the model, and that the key has access to it." if status == 404 else key_hint
        return Unavailable(f"{model} is not available: status {status}{text}.", hint=hint)
    if status in _RETRY_STATUS or status >= 500:
        return TryLater(
            f"{model} is overloaded or failing: status {status}{text}.",
            hint="Try again later, or use another model.",
            retry_after=error.retry_after,
        )
    kind = AnswerUnusable if answered else RunFailed
    return kind(
        f"{model} rejected the request: status {status}{text}.", hint="Change the request, or use another model."
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    # Chains of exceptions can be circular.
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _is_transport(error: BaseException) -> bool:
    # By name: the libraries use different HTTP packages, and not all of them are installed.
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "httpcore2")


def _provider_text(error: Exception, secrets: Sequence[str]) -> str:
    """Return the provider's own message as ` (…)`, or '' if there is none; a message with the key is withheld."""
    # Later lines of an error message are about the internals of a library.
    is_answer = isinstance(error, theirs.ModelHTTPError)
    message = _body_message(error.body) if is_answer else str(error).strip().partition("\n")[0]
    # A message can hold escape sequences for the terminal, so only printable characters are kept.
    plain = " ".join("".join(letter if letter.isprintable() else " " for letter in message[:4_000]).split())
    if any(_contains_key(secret, plain) for secret in secrets):
        return " (message withheld because it contains the key)"
    cut = plain if len(plain) <= _MAX_SHOWN else f"{plain[:_MAX_SHOWN]}…"
    return f" ({cut.rstrip('.')})" if cut else ""


def _body_message(body: object) -> str:
    if isinstance(body, str):
        return body
    if not isinstance(body, Mapping):
        return ""
    fields = cast("Mapping[str, Any]", body)
    inner = fields.get("error")
    if isinstance(inner, Mapping):
        return _body_message(cast("Mapping[str, Any]", inner))
    message = fields.get("message") or inner
    return message if isinstance(message, str) else ""


def _contains_key(secret: str, text: str) -> bool:
    size = min(_KEY_FRAGMENT, len(secret))
    if not size:
        return False
    # Fragments count, because providers often repeat a key with its middle replaced by asterisks.
    forms = (secret, base64.b64encode(secret.encode()).decode())
    return any(form[start : start + size] in text for form in forms for start in range(len(form) - size + 1))


OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"
GOOGLE_URL = "https://generativelanguage.googleapis.com"

PLACEHOLDER_KEY = "none"
"""The key for servers that need none: the library requires one."""


def openai_client(model: str, url: str, key: str) -> ProviderClient:
    """Connect to OpenAI."""
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = http_client(url)
    # No retries in any library: `GuardedModel` retries, and two layers would multiply the attempts.
    provider = OpenAIProvider(openai_client=AsyncOpenAI(base_url=url, api_key=key, http_client=client, max_retries=0))
    return ProviderClient(model=OpenAIChatModel(model, provider=provider), client=client)


def compatible_client(model: str, url: str, key: str) -> ProviderClient:
    """Connect to any server with OpenAI's chat API, without the headers of an OpenAI account."""
    from openai import AsyncOpenAI, Omit
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    client = http_client(url)
    # The library reads these from OPENAI_ORG_ID and OPENAI_PROJECT_ID, and would send them to any server.
    no_account = {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
    openai = AsyncOpenAI(
        base_url=url,
        api_key=key or PLACEHOLDER_KEY,
        http_client=client,
        max_retries=0,
        default_headers=no_account,  # pyright: ignore[reportArgumentType]
    )
    profile = OpenAIModelProfile(supports_json_schema_output=True, openai_chat_supports_max_completion_tokens=False)
    provider = OpenAICompatibleProvider("compatible", openai_client=openai, profile=profile)
    return ProviderClient(model=OpenAIChatModel(model, provider=provider), client=client)


def anthropic_client(model: str, url: str, key: str) -> ProviderClient:
    """Connect to Anthropic."""
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = http_client(url)
    anthropic = AsyncAnthropic(base_url=url, api_key=key, http_client=client, max_retries=0, open_telemetry=False)
    return ProviderClient(
        model=AnthropicModel(model, provider=AnthropicProvider(anthropic_client=anthropic)), client=client
    )


def google_client(model: str, url: str, key: str) -> ProviderClient:
    """Connect to Google's Gemini."""
    from google.genai.types import HttpRetryOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    client = http_client(url)
    provider = GoogleProvider(api_key=key, base_url=url, http_client=client, retry_options=HttpRetryOptions(attempts=1))
    return ProviderClient(model=GoogleModel(model, provider=provider), client=client)
