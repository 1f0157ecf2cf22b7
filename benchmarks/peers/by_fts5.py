"""SQLite FTS5: porter stemming, stop words dropped from the message, a name counting three times."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from material.sets import Card

from peers.words import words_of

FIELDS = ("name", "description", "tags", "triggers")
WEIGHTS = (3.0, 1.0, 1.0, 0.7)


class Fts5:
    """One table; the message's words, each quoted, are joined by OR."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.select = (
            f"SELECT rowid FROM cards WHERE cards MATCH ? ORDER BY bm25(cards, {', '.join(map(str, WEIGHTS))}) LIMIT ?"
        )

    @classmethod
    def build(cls, cards: Iterable[Card], folder: Path | None = None) -> Self:
        """Index the cards, in memory where no folder is given."""
        connection = sqlite3.connect(folder / "cards.db" if folder else ":memory:")
        connection.execute(f"CREATE VIRTUAL TABLE cards USING fts5({', '.join(FIELDS)}, tokenize = 'porter unicode61')")
        connection.executemany(
            "INSERT INTO cards (rowid, name, description, tags, triggers) VALUES (?, ?, ?, ?, ?)",
            ((number, *columns(card)) for number, card in enumerate(cards)),
        )
        connection.commit()
        return cls(connection)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open what `build` kept."""
        return cls(sqlite3.connect(folder / "cards.db"))

    def rank(self, message: str, limit: int = 10) -> list[int]:
        """The best by FTS5's weighted `bm25`."""
        words = list(dict.fromkeys(words_of(message)))
        if not words:
            return []
        expression = " OR ".join(f'"{word}"' for word in words)
        return [number for (number,) in self.connection.execute(self.select, (expression, limit))]

    def update(self, number: int, card: Card) -> None:
        """Replace one card and commit."""
        self.connection.execute(
            "UPDATE cards SET name = ?, description = ?, tags = ?, triggers = ? WHERE rowid = ?",
            (*columns(card), number),
        )
        self.connection.commit()


def columns(card: Card) -> tuple[str, str, str, str]:
    return card.name, card.description, " ".join(card.tags), " ".join(card.triggers)
