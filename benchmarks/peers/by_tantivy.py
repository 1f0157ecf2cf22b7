"""tantivy: English stemming, stop words dropped from the message, no boosts (they lower its quality)."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from material.sets import Card

from peers.words import words_of

tantivy: Any = import_module("tantivy")
FIELDS = ["name", "description", "tags", "triggers"]
HEAP_BYTES = 128_000_000


class Tantivy:
    """Four fields, searched together."""

    def __init__(self, index: Any) -> None:
        self.index = index
        self.searcher: Any = index.searcher()

    @classmethod
    def build(cls, cards: Iterable[Card], folder: Path | None = None) -> Self:
        """Index the cards, in memory where no folder is given."""
        index = tantivy.Index(schema(), path=str(folder) if folder else None)
        writer = index.writer(heap_size=HEAP_BYTES, num_threads=1)
        for number, card in enumerate(cards):
            writer.add_document(document(number, card))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        return cls(index)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open what `build` kept."""
        return cls(tantivy.Index.open(str(folder)))

    def rank(self, message: str, limit: int = 10) -> list[int]:
        """The best by BM25, summed over the fields."""
        words = [word for word in words_of(message) if word.isalnum()]
        if not words:
            return []
        query = self.index.parse_query(" ".join(words), FIELDS)
        hits = self.searcher.search(query, limit, count=False).hits
        return [int(self.searcher.doc(address)["number"][0]) for _, address in hits]

    def update(self, number: int, card: Card) -> None:
        """Replace one card and commit."""
        writer = self.index.writer(heap_size=HEAP_BYTES, num_threads=1)
        writer.delete_documents("number", number)
        writer.add_document(document(number, card))
        writer.commit()
        self.index.reload()
        self.searcher = self.index.searcher()


def schema() -> Any:
    builder = tantivy.SchemaBuilder()
    for name in FIELDS:
        builder.add_text_field(name, stored=False, tokenizer_name="en_stem")
    builder.add_integer_field("number", stored=True, indexed=True, fast=True)
    return builder.build()


def document(number: int, card: Card) -> Any:
    return tantivy.Document(
        number=number,
        name=card.name,
        description=card.description,
        tags=" ".join(card.tags),
        triggers=" ".join(card.triggers),
    )
