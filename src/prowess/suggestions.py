"""Suggest the known names that someone probably meant. No suggestion is better than a silly one."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST = 200
_SHORTEST_PREFIX = 3


def near_names(name: str, known: Iterable[str], *, count: int = 3) -> list[str]:
    """Return the known names that differ from `name` by few typing errors, or start with it; nearest first.

    Case does not matter. A name with a namespace, such as `postgres.triage`, is also found by what follows the dot, and a
    path by its last part.
    """
    typed = name.strip().lower()[:_LONGEST]
    ranked = sorted((rank, other) for other in set(known) if (rank := _rank(typed, other.lower())) is not None)
    return [other for _, other in ranked[:count]]


def did_you_mean(name: str, known: Iterable[str], *, count: int = 3) -> str:
    """Return a question with the nearest names, or '' if none is near."""
    found = [repr(other) for other in near_names(name, known, count=count)]
    return f"Did you mean {' or '.join(found)}?" if found else ""


def _rank(typed: str, other: str) -> tuple[int, int] | None:
    """Return how far two names are apart, the smaller the nearer; None if nobody would take one for the other."""
    parts = {other, other.rpartition(".")[2], other.rpartition("/")[2]}
    ranks = [rank for part in parts if (rank := _rank_part(typed, part)) is not None]
    return min(ranks, default=None)


def _rank_part(typed: str, other: str) -> tuple[int, int] | None:
    shorter, longer = sorted((typed, other), key=len)
    limit = _most_errors(shorter, longer)
    # A short name that starts with another letter is another word: `get` is not a typing error for `pet`.
    if limit and len(longer) <= 4 and shorter[0] != longer[0]:
        limit = 0
    errors = _count_errors(typed, other, limit)
    if errors is not None:
        return errors, 0
    # What was typed may be only the beginning of a name. A name may be the beginning of what was typed, if little follows.
    is_prefix = len(shorter) >= _SHORTEST_PREFIX and longer.startswith(shorter)
    is_prefix = is_prefix and (shorter == typed or len(longer) < 2 * len(shorter))
    return (limit + 1, len(longer) - len(shorter)) if is_prefix else None


def _most_errors(shorter: str, longer: str) -> int:
    """Return how many typing errors are plausible: one in five letters, and none in the shortest names."""
    return 0 if len(shorter) < 3 else max(1, len(longer) // 5)


def _count_errors(typed: str, other: str, limit: int) -> int | None:
    """Return the letters to insert, delete, replace or swap with their neighbour; None if there are more than `limit`."""
    if abs(len(typed) - len(other)) > limit:
        return None
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(typed, 1):
        current = [row]
        for column, target in enumerate(other, 1):
            cost = min(last[column] + 1, current[-1] + 1, last[column - 1] + (letter != target))
            is_swapped = row > 1 and column > 1 and letter == other[column - 2] and target == typed[row - 2]
            current.append(min(cost, before[column - 2] + 1) if is_swapped else cost)
        # The errors only grow from row to row.
        if min(current) > limit:
            return None
        before, last = last, current
    return last[-1] if last[-1] <= limit else None
