"""Prices are those of the list that is installed, and what has no price has none."""

from __future__ import annotations

import pytest

from prowess.llm.model import Usage
from prowess.llm.prices import DEFAULT_MAX_TOKENS, cost_of, max_cost


def test_a_cost_is_the_tokens_times_their_price():
    assert cost_of("openai:gpt-4o", Usage(input_tokens=1_000_000, output_tokens=0)) == pytest.approx(2.5)
    assert cost_of("openai:gpt-4o", Usage(input_tokens=0, output_tokens=1_000_000)) == pytest.approx(10)
    assert cost_of("openai:gpt-4o", Usage()) == 0


def test_input_that_was_cached_costs_less():
    assert cost_of("openai:gpt-4o", Usage(input_tokens=1_000_000, cached_tokens=400_000)) == pytest.approx(2.0)
    # A server that reports more than there was.
    assert cost_of("openai:gpt-4o", Usage(input_tokens=1_000_000, cached_tokens=2_000_000)) == pytest.approx(1.25)


@pytest.mark.parametrize("name", ["openai:gpt-5", "anthropic:claude-haiku-5-5", "google:gemini-2.5-pro"])
def test_the_models_of_each_provider_have_a_price(name):
    cost = cost_of(name, Usage(input_tokens=1_000, output_tokens=1_000))

    assert cost is not None
    assert 0 < cost < 1


@pytest.mark.parametrize(
    "name",
    [
        "openai:no-such-model",
        "local:smollm2",
        "ollama:gpt-4o",
        "scripted:test",
        "compatible:gpt-4o",
        "gpt-4o",
        "",
        "openai:",
    ],
)
def test_a_model_that_is_not_on_the_list_or_runs_elsewhere_has_none(name):
    assert cost_of(name, Usage(input_tokens=1, output_tokens=1)) is None
    assert max_cost(name, 1, 1) is None


def test_the_most_that_a_request_costs_is_with_the_longest_answer():
    assert max_cost("openai:gpt-4o", 1_000_000, 1_000_000) == pytest.approx(12.5)
    assert max_cost("openai:gpt-4o", 0, None) == pytest.approx(10 * DEFAULT_MAX_TOKENS / 1e6)
