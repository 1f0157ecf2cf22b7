"""Draw figures with their intervals as SVG, without any script. Colours come from the style sheet of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 760
_LEFT = 250
_RIGHT = 110
_ROW = 34
_TOP = 12
_BOTTOM = 34
_LONGEST_LABEL = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One row of a plot: a value with its interval, None for what is not known. `style` is a class of the style sheet."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    style: str = "plain"
    note: str = ""


def draw_marks(
    marks: Sequence[Mark],
    *,
    low: float,
    high: float,
    ticks: Sequence[float],
    show: Callable[[float], str],
    title: str,
    zero: float | None = None,
) -> str:
    """Return a plot with one row for each mark: a dot at its value, a line over its interval. `zero` draws a line of no change."""
    height = _TOP + _ROW * len(marks) + _BOTTOM
    span = (high - low) or 1.0

    def at(value: float) -> float:
        return round(_LEFT + (min(max(value, low), high) - low) / span * (WIDTH - _LEFT - _RIGHT), 1)

    bottom = _TOP + _ROW * len(marks)
    drawn = [f'<line class="grid" x1="{at(tick)}" x2="{at(tick)}" y1="{_TOP}" y2="{bottom}"/>' for tick in ticks]
    drawn += [f'<text class="tick" x="{at(tick)}" y="{bottom + 20}">{escape(show(tick))}</text>' for tick in ticks]
    if zero is not None:
        drawn.append(f'<line class="zero" x1="{at(zero)}" x2="{at(zero)}" y1="{_TOP - 6}" y2="{bottom + 4}"/>')
    for index, mark in enumerate(marks):
        drawn += _draw_row(mark, _TOP + _ROW * index + _ROW / 2, at)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(drawn)}</svg>"
    )


def _draw_row(mark: Mark, y: float, at: Callable[[float], float]) -> list[str]:
    label = mark.label if len(mark.label) <= _LONGEST_LABEL else f"{mark.label[: _LONGEST_LABEL - 1]}…"
    drawn = [
        f'<text class="label" x="{_LEFT - 14}" y="{y + 5}"><title>{escape(mark.label)}</title>{escape(label)}</text>'
    ]
    if mark.value is not None:
        if mark.low is not None and mark.high is not None:
            ends = (at(mark.low), at(mark.high))
            drawn.append(f'<line class="interval {mark.style}" x1="{ends[0]}" x2="{ends[1]}" y1="{y}" y2="{y}"/>')
            drawn += [f'<line class="cap {mark.style}" x1="{x}" x2="{x}" y1="{y - 6}" y2="{y + 6}"/>' for x in ends]
        drawn.append(f'<circle class="dot {mark.style}" cx="{at(mark.value)}" cy="{y}" r="6"/>')
    drawn.append(f'<text class="note" x="{WIDTH - _RIGHT + 14}" y="{y + 5}">{escape(mark.note)}</text>')
    return drawn


def round_ticks(most: float) -> list[float]:
    """Return ticks from minus to plus a round number that is at least `most`."""
    steps = (0.05, 0.1, 0.2, 0.5, 1.0)
    edge = next((step for step in steps if step >= most), 1.0)
    return [-edge, -edge / 2, 0.0, edge / 2, edge]
