"""How models are reached: what the settings say about them, gathered in one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Which models are used where none is named, and how they are reached. Keys are never shown.

    `base_url` and `key` belong to the one OpenAI-compatible server that `compatible:` names; the keys of other providers
    are read from `environment`. Nothing limits the requests where `requests_per_minute` is None.
    """

    default: str = ""
    evaluation: str = ""
    base_url: str = ""
    key: str = field(default="", repr=False)
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    requests_per_minute: int | None = None
    timeout_seconds: float = 60
    attempts: int = 3
    home: Path = field(default_factory=lambda: Path.home() / ".prowess")
