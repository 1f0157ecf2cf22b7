"""Bars for the terminal, an eighth of a cell exact."""

from __future__ import annotations

_EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(share: float, cells: int) -> str:
    """A bar of so many cells at most, padded to that width; what is more than nothing is never invisible."""
    share = max(0.0, min(share, 1.0))
    eighths = max(round(share * cells * 8), 1 if share else 0)
    full, part = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[part] if part else "")).ljust(cells)
