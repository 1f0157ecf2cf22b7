"""How much one rendering may take."""

from __future__ import annotations

from dataclasses import dataclass

from prowess.skill.limits import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderLimits:
    """Caps on one rendering, with room to spare for honest templates, and how many go on at once."""

    seconds: float = 2.0
    memory_bytes: int = 256 * MIB
    output_bytes: int = MIB
    values_bytes: int = 4 * MIB
    depth: int = 64
    """How deep the values may nest."""
    steps: int = 5_000_000
    """How many instructions a MiniJinja template may take."""
    workers: int = 2
    start_seconds: float = 30.0
    """How long a worker may take until it is ready."""


DEFAULT_LIMITS = RenderLimits()
