"""How models are reached, from what the settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prowess.llm.config import ModelConfig

if TYPE_CHECKING:
    from prowess.settings import Settings


def model_config(settings: Settings) -> ModelConfig:
    """All that the settings say about models."""
    return ModelConfig(
        default=settings.model,
        evaluation=settings.evaluation_model,
        base_url=settings.model_url,
        key=settings.model_key,
        environment=settings.environment,
        requests_per_minute=settings.model_requests_per_minute,
        home=settings.home,
    )
