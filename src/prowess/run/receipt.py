"""The receipt of a run: what it touched of the world outside it, and what it was refused, against what its skill declares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal

from prowess.skill.kinds import JsonObject
from prowess.skill.needs import Needs

Touched = Literal["hosts", "env", "read", "written", "skills", "binaries", "packages", "pages", "models"]

MOST_NAMES = 100
"""So many different names of one sort are kept; the others are counted together."""
OTHERS = "others"
_NAME_CHARS = 200


class Receipt:
    """Kept while an artifact runs, by those who let it touch something; a skill cannot write to it."""

    def __init__(self, needs: Needs | None = None) -> None:
        self.needs = needs or Needs()
        self.hide: Callable[[str], str] = str
        """Removes from a name what must not be told."""
        self._touched: dict[Touched, Counter[str]] = {}
        self._refused: dict[Touched, Counter[str]] = {}

    def touch(self, sort: Touched, name: str) -> None:
        """Note that something was used."""
        _count(self._touched, sort, self.hide(name))

    def refuse(self, sort: Touched, name: str) -> None:
        """Note that something was asked for and not given."""
        _count(self._refused, sort, self.hide(name))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell: nothing declared, nothing touched, nothing refused."""
        return not (self._touched or self._refused or self.needs.as_json())

    def as_json(self) -> JsonObject:
        """What was declared, and how often each thing was touched or refused."""
        return {
            "declared": self.needs.as_json(),
            "touched": {sort: dict(names) for sort, names in self._touched.items()},
            "refused": {sort: dict(names) for sort, names in self._refused.items()},
        }


def _count(kept: dict[Touched, Counter[str]], sort: Touched, name: str) -> None:
    names, short = kept.setdefault(sort, Counter()), name[:_NAME_CHARS]
    known = short in names or len(names) < MOST_NAMES
    names[short if known else OTHERS] += 1
