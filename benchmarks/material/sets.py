"""The retrieval sets: cards, and queries with the cards that answer them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

SHARED = Path(__file__).resolve().parents[3] / "shared"
SET_NAMES = ("sfskills", "metatool", "author-phrases")


class Card(NamedTuple):
    """What a skill says of itself, as every method gets it; `body` is '' where the set has none."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    body: str = ""

    @property
    def text(self) -> str:
        """Everything but the body in one string, for methods without fields."""
        return " . ".join((self.name, self.description, *self.tags, *self.triggers))


class Query(NamedTuple):
    """A message, and the ids of the cards that it should find."""

    id: str
    text: str
    relevant: frozenset[str]


class RetrievalSet(NamedTuple):
    """One set, whole."""

    name: str
    cards: list[Card]
    queries: list[Query]


class Absent(Exception):
    """A set is not there; the message says which and where it was looked for."""


def read_set(name: str, folder: Path = SHARED / "bench") -> RetrievalSet:
    """Read one set. Queries that equal a trigger word for word are left out: the triggers are indexed."""
    if not (folder / name).is_dir():
        raise Absent(f"{name}: there is no folder of that name in {folder}")
    cards = [card_of(row) for row in rows_of(folder / name / "corpus.jsonl.gz")]
    queries = [
        Query(row["id"], row["text"], frozenset(row["relevant"]))
        for row in rows_of(folder / name / "queries.jsonl.gz")
        if not row.get("verbatim_trigger")
    ]
    return RetrievalSet(name, cards, queries)


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a gzipped file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def card_of(row: dict[str, Any]) -> Card:
    return Card(
        row["id"],
        row["name"],
        row["description"],
        tuple(map(str, row.get("tags") or ())),
        tuple(map(str, row.get("triggers") or ())),
        row.get("body") or "",
    )
