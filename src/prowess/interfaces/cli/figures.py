"""Figures for people: money, times, shares and counts, each short and each '-' where there is none."""

from __future__ import annotations

NONE = "-"


def money(dollars: float | None) -> str:
    """US dollars; the less they are, the more places."""
    if dollars is None:
        return NONE
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4f}" if dollars >= 0.01 else f"${dollars:.6f}"


def taken(milliseconds: int | None) -> str:
    """How long it took, in milliseconds, seconds or minutes."""
    if milliseconds is None:
        return NONE
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    return f"{milliseconds / 1_000:.1f} s" if milliseconds < 100_000 else f"{milliseconds / 60_000:.1f} min"


def share(of_one: float | None) -> str:
    """A part of a whole, in percent."""
    return NONE if of_one is None else f"{of_one * 100:.1f} %"


def count(number: int | None) -> str:
    """A number with its thousands marked."""
    return NONE if number is None else f"{number:,}"
