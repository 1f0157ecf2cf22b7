"""bm25s with its own tokeniser and English stop words, and Snowball stemming."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from material.sets import Card

bm25s: Any = import_module("bm25s")
STEMMER: Any = import_module("Stemmer").Stemmer("english")


class Bm25s:
    """One text per card, scores computed when it is indexed."""

    def __init__(self, engine: Any, count: int) -> None:
        self.engine = engine
        self.count = count

    @classmethod
    def build(cls, cards: Iterable[Card], folder: Path | None = None) -> Self:
        """Index the cards, in memory where no folder is given."""
        texts = [card.text for card in cards]
        engine = bm25s.BM25()
        engine.index(tokens_of(texts), show_progress=False)
        if folder:
            engine.save(folder, show_progress=False)
            (folder / "count").write_text(str(len(texts)))
        return cls(engine, len(texts))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open what `build` kept."""
        return cls(bm25s.BM25.load(folder, mmap=True), int((folder / "count").read_text()))

    def rank(self, message: str, limit: int = 10) -> list[int]:
        """The best by BM25; cards without any word of the message are left out."""
        found = self.engine.retrieve(tokens_of([message]), k=min(limit, self.count), show_progress=False)
        return [int(number) for number, score in zip(found.documents[0], found.scores[0], strict=True) if score > 0]

    def update(self, number: int, card: Card) -> None:
        """Not possible: the scores of every card depend on all others."""
        raise NotImplementedError(f"card {number} ({card.name}) would need a rebuild")


def tokens_of(texts: list[str]) -> Any:
    return bm25s.tokenize(texts, stopwords="en", stemmer=STEMMER, show_progress=False)
