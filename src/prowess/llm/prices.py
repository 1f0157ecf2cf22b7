"""What requests cost, from a price list that is part of an installed package: nothing is fetched."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from prowess.llm.model import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

PRICED = frozenset({"openai", "anthropic", "google"})
"""The providers whose list prices are known; a server of one's own has none."""

DEFAULT_MAX_TOKENS = 8_192
"""How long an answer is taken to become where the request does not limit it."""


def cost_of(model_name: str, usage: Usage) -> float | None:
    """US dollars for what was used of a model such as `openai:gpt-5`; None where no price is known."""
    priced = _find_price(model_name)
    if priced is None:
        return None
    from genai_prices import Usage as Used

    provider, model = priced
    used = Used(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    return float(model.calc_price(used, provider).total_price)


def max_cost(model_name: str, input_tokens: int, max_tokens: int | None) -> float | None:
    """US dollars that a request costs at most, with as long an answer as it allows; None where no price is known."""
    most = DEFAULT_MAX_TOKENS if max_tokens is None else max_tokens
    return cost_of(model_name, Usage(input_tokens=input_tokens, output_tokens=most, requests=1))


def lacks_price(model_name: str) -> bool:
    """Whether a model costs money and nobody here knows how much."""
    return model_name.partition(":")[0] in PRICED and _find_price(model_name) is None


@lru_cache(maxsize=256)
def _find_price(model_name: str) -> tuple[Provider, ModelInfo] | None:
    provider, _, name = model_name.partition(":")
    name = name.rpartition("/")[2]  # Google takes `models/NAME` for NAME
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
