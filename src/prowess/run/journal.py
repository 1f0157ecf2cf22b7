"""The journal of a run: what its host answered, so that the same run can be gone through again without asking again.

A script is run anew from its first line, with the same inputs and the same random numbers; each call that the journal knows is
answered from it, until the journal ends or the script asks something else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prowess.errors import ProwessError
from prowess.sandbox.sandbox import HostFunction

CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One call and the JSON of its answer; None for a call that was refused, which is made again."""

    name: str
    asked: str
    """Identifies the arguments."""
    answer: str | None


class Journal:
    """Written while a run goes on, and read first where it goes on with another."""

    def __init__(self, *, seed: str, known: Sequence[Entry] = ()) -> None:
        self.seed = seed
        self._known = list(known)
        self._entries: list[Entry] = []
        self.replayed = 0
        """How many calls were answered from it."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every call so far."""
        return tuple(self._entries)

    @property
    def size(self) -> int:
        """How many characters the answers have."""
        return sum(len(entry.answer or "") for entry in self._entries)

    def over(
        self, functions: Mapping[str, HostFunction], reached: Callable[[], Awaitable[None]]
    ) -> dict[str, HostFunction]:
        """The functions, each with its answers in the journal; `reached` is awaited at every new checkpoint."""
        return {name: self._journaled(name, function, reached) for name, function in functions.items()}

    def _journaled(self, name: str, function: HostFunction, reached: Callable[[], Awaitable[None]]) -> HostFunction:
        async def answer(*args: Any, **kwargs: Any) -> Any:
            asked = _mark(args, kwargs)
            known = self._next(name, asked)
            if known is not None and known.answer is not None:
                self.replayed += 1
                self._entries.append(known)
                return json.loads(known.answer)
            try:
                value = await function(*args, **kwargs)
            except ProwessError:
                self._entries.append(Entry(name=name, asked=asked, answer=None))
                raise
            self._entries.append(Entry(name=name, asked=asked, answer=json.dumps(value)))
            if name == CHECKPOINT:
                await reached()
            return value

        return answer

    def _next(self, name: str, asked: str) -> Entry | None:
        """What is known about this call; where the script goes another way, nothing is known from there on."""
        if not self._known:
            return None
        entry = self._known.pop(0)
        if (entry.name, entry.asked) != (name, asked):
            self._known.clear()
            return None
        return entry


def _mark(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps([args, kwargs], sort_keys=True).encode()).hexdigest()[:32]
