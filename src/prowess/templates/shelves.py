"""Where prompts and rubrics are kept: a shelf gives entries, good ones and ones with problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from prowess.errors import Problem
from prowess.templates.prompt import Prompt
from prowess.templates.rubric import Rubric

EntryKind = Literal["prompt", "rubric"]
ENTRY_KINDS: tuple[EntryKind, ...] = ("prompt", "rubric")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One version of one prompt or rubric on a shelf; `value` is None where a problem keeps it from being used.

    `origin` says which shelf it is from, as in `workspace` or `skill:SLUG`, and `location` the file or database.
    """

    kind: EntryKind
    id: str
    version: str = ""
    origin: str
    location: str = ""
    value: Prompt | Rubric | None
    problems: tuple[Problem, ...] = ()

    @property
    def label(self) -> str:
        """What it is called together with its version."""
        return f"{self.id}@{self.version}" if self.version else self.id


class Shelf(Protocol):
    """Somewhere that prompts and rubrics are kept. Blocking; bad content is an entry with problems and raises nothing."""

    def entries(self, kind: EntryKind, organization: str, id: str | None = None) -> Sequence[Entry]:
        """What an organization finds here, or what it finds here under one id; in no order."""
        ...


class MemoryShelf:
    """Prompts and rubrics that are handed over as values."""

    def __init__(self, *values: Prompt | Rubric, origin: str = "memory") -> None:
        self._entries = [
            Entry(
                kind="prompt" if isinstance(value, Prompt) else "rubric",
                id=value.id,
                version=value.version,
                origin=origin,
                value=value,
            )
            for value in values
        ]

    def entries(self, kind: EntryKind, organization: str, id: str | None = None) -> Sequence[Entry]:  # noqa: ARG002
        """Those of the kind, whoever asks."""
        return [entry for entry in self._entries if entry.kind == kind and id in (None, entry.id)]
