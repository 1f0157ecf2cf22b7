"""Goals of the figures, and a line on each: met or not, and by which figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Goal(NamedTuple):
    """At this many cards, the figure of this key must not be above the limit."""

    cards: int
    key: str
    limit: float
    unit: str
    what: str


def print_goals(goals: Sequence[Goal], rows: Sequence[Mapping[str, Any]]) -> None:
    """One line for every goal whose size was measured."""
    by_size = {row["cards"]: row for row in rows}
    if not any(goal.cards in by_size for goal in goals):
        return
    print("\nGoals")
    for goal in goals:
        row = by_size.get(goal.cards)
        if row is not None:
            print(f"{verdict(goal, row):<18}{goal.cards:>9,}  {goal.what}: {figure(goal, row)}")


def verdict(goal: Goal, row: Mapping[str, Any]) -> str:
    """By wall time; a busy machine can miss a goal that the CPU time meets."""
    if goal.key not in row:
        return "not measured"
    if row[goal.key] <= goal.limit:
        return "met"
    return "met in CPU time" if row.get(cpu_key(goal), goal.limit + 1) <= goal.limit else "NOT MET"


def figure(goal: Goal, row: Mapping[str, Any]) -> str:
    if goal.key not in row:
        return str(row.get("failed", "no figure"))
    cpu = f", CPU {row[cpu_key(goal)]:.2f}" if cpu_key(goal) in row else ""
    return f"{row[goal.key]:.2f}{cpu}, at most {goal.limit:g} {goal.unit}"


def cpu_key(goal: Goal) -> str:
    kind, _, rest = goal.key.partition("_")
    return f"{kind}_cpu_{rest}"
