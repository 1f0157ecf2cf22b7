"""The ways to each provider, one function each. They hand over the key that they are given, and read none themselves."""

from __future__ import annotations

from prowess.llm.provided import Line
from prowess.llm.wire import http_client

OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"
GOOGLE_URL = "https://generativelanguage.googleapis.com"

NO_KEY = "none"
"""What a server is sent that needs no key."""


def openai_line(model: str, url: str, key: str) -> Line:
    """To OpenAI."""
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = http_client(url)
    provider = OpenAIProvider(openai_client=AsyncOpenAI(base_url=url, api_key=key, http_client=client, max_retries=0))
    return Line(model=OpenAIChatModel(model, provider=provider), client=client)


def compatible_line(model: str, url: str, key: str) -> Line:
    """To any server that speaks OpenAI's chat API; nothing of an OpenAI account is sent there."""
    from openai import AsyncOpenAI, Omit
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    client = http_client(url)
    theirs = {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
    speaking = AsyncOpenAI(
        base_url=url,
        api_key=key or NO_KEY,
        http_client=client,
        max_retries=0,
        default_headers=theirs,  # pyright: ignore[reportArgumentType]
    )
    profile = OpenAIModelProfile(supports_json_schema_output=True, openai_chat_supports_max_completion_tokens=False)
    provider = OpenAICompatibleProvider("compatible", openai_client=speaking, profile=profile)
    return Line(model=OpenAIChatModel(model, provider=provider), client=client)


def anthropic_line(model: str, url: str, key: str) -> Line:
    """To Anthropic."""
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = http_client(url)
    speaking = AsyncAnthropic(base_url=url, api_key=key, http_client=client, max_retries=0, open_telemetry=False)
    return Line(model=AnthropicModel(model, provider=AnthropicProvider(anthropic_client=speaking)), client=client)


def google_line(model: str, url: str, key: str) -> Line:
    """To Google's Gemini."""
    from google.genai.types import HttpRetryOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    client = http_client(url)
    provider = GoogleProvider(api_key=key, base_url=url, http_client=client, retry_options=HttpRetryOptions(attempts=1))
    return Line(model=GoogleModel(model, provider=provider), client=client)
