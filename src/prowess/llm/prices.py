"""The price of requests, from a price list in an installed package: nothing is downloaded."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from prowess.llm.model import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

PRICED = frozenset({"openai", "anthropic", "google"})
"""The providers with list prices; a self-hosted server has none."""

DEFAULT_MAX_TOKENS = 8_192
"""The assumed length of a reply if the request sets no limit."""


def cost_of(model_name: str, usage: Usage) -> float | None:
    """Return the cost in US dollars of using a model such as `openai:gpt-5`, or None if its price is unknown."""
    priced = _find_price(model_name)
    if priced is None:
        return None
    from genai_prices import Usage as PricedUsage

    provider, model = priced
    cached = min(max(usage.cached_tokens, 0), usage.input_tokens)
    used = PricedUsage(input_tokens=usage.input_tokens, cache_read_tokens=cached, output_tokens=usage.output_tokens)
    return float(model.calc_price(used, provider).total_price)


def max_cost(model_name: str, input_tokens: int, max_tokens: int | None) -> float | None:
    """Return the highest possible cost of a request in US dollars, or None if the price is unknown."""
    most = DEFAULT_MAX_TOKENS if max_tokens is None else max_tokens
    return cost_of(model_name, Usage(input_tokens=input_tokens, output_tokens=most, requests=1))


def lacks_price(model_name: str) -> bool:
    """Return True if the model costs money but its price is unknown."""
    return model_name.partition(":")[0] in PRICED and _find_price(model_name) is None


@lru_cache(maxsize=256)
def _find_price(model_name: str) -> tuple[Provider, ModelInfo] | None:
    provider, _, name = model_name.partition(":")
    name = name.rpartition("/")[2]  # Google accepts `models/NAME` for NAME
    if provider not in PRICED or not name:
        return None
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    try:
        return get_snapshot().find_provider_model(name, None, provider, None)
    except LookupError:
        return None
