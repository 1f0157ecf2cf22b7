"""Prowess through its public door: what the default install makes of the same cards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

from material.sets import Card

from prowess.catalog.store import SearchDocument
from prowess.match.index import Index
from prowess.match.matcher import Matcher
from prowess.match.recommendation import Recommendation
from prowess.match.snapshot import SavedIndex, Snapshot
from prowess.match.vectors.card_vectors import CardVectors
from prowess.match.vectors.embedder import Embedder, WordsOnly
from prowess.match.vectors.encoder import default_encoder
from prowess.skill.slug import slugify

VECTORS = Path(__file__).resolve().parents[1] / "results" / "vectors"
"""The vectors of cards are kept between runs: those of all sets take minutes to compute."""


class ProwessPeer:
    """An index in memory, with the embedder of the default install where none is given."""

    def __init__(self, cards: Sequence[Card], embedder: Embedder | None = None) -> None:
        chosen = embedder or default_encoder()
        vectors = CardVectors(VECTORS, chosen)
        self.matcher = Matcher.of(Index.build(documents_of(cards), chosen, cards=vectors).with_all_vectors(vectors))
        self.numbers = {card.id: number for number, card in enumerate(cards)}

    def rank(self, message: str, limit: int = 10) -> list[int]:
        """The whole ranking, whatever is decided on the single skill."""
        return [number for number, _ in self.recommendations(message, limit)]

    def recommendations(self, message: str, limit: int) -> list[tuple[int, Recommendation]]:
        """The same with the decisions."""
        return [(self.numbers[item.digest], item) for item in self.matcher.rank(message, limit=limit)]


class KeptProwess:
    """The same with its snapshot; the ids of the cards are their numbers. The vectors of cards are computed apart."""

    def __init__(self, snapshot: Snapshot, index: Index) -> None:
        self.snapshot = snapshot
        self.matcher = Matcher.of(index)

    @classmethod
    def embedder(cls) -> Embedder:
        """The embedder of the default install."""
        return default_encoder()

    @classmethod
    def build(cls, cards: Iterable[Card], folder: Path) -> Self:
        """Index the cards and save the snapshot."""
        chosen = cls.embedder()
        index = Index.build(documents_of(cards), chosen, cards=CardVectors(folder / "vectors", chosen))
        kept = cls(Snapshot(folder), index)
        if not kept.save():
            raise SystemExit("the snapshot cannot be saved")
        return kept

    def prepare(self) -> None:
        """Compute the vectors of all cards."""
        self.prepared()

    def prepared(self) -> Index:
        """The index with the vectors of all cards."""
        index = self.matcher.index()
        return index.with_all_vectors(index.cards) if index.cards is not None else index

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Map the snapshot and the vectors."""
        snapshot, chosen = Snapshot(folder), cls.embedder()
        saved = snapshot.load(chosen)
        if saved is None:
            raise SystemExit("the snapshot cannot be loaded")
        # A server writes single vectors at most every two seconds, too.
        return cls(snapshot, saved.index.with_vectors(CardVectors(folder / "vectors", chosen, pause=2.0)))

    def rank(self, message: str, limit: int = 5) -> list[int]:
        """The whole ranking."""
        return [int(item.digest) for item in self.matcher.rank(message, limit=limit)]

    def update(self, number: int, card: Card) -> None:
        """Take in one changed skill with its vectors, as a match does where few are missing, and save the snapshot if it is time."""
        self.matcher = Matcher.of(self.matcher.index().updated(documents_of([card._replace(id=str(number))])))
        self.matcher = Matcher.of(self.prepared())
        self.save()

    def save(self) -> bool:
        """Keep the index as it is; return False if it was saved a moment ago."""
        return self.snapshot.save(SavedIndex(index=self.matcher.index(), positions={}, record=b""))


class KeptWords(KeptProwess):
    """Prowess with an embedder that is of no use, so that words alone decide."""

    @classmethod
    def embedder(cls) -> Embedder:
        """Zeros for every text."""
        return WordsOnly()

    def prepared(self) -> Index:
        """The index as it is: there are no vectors."""
        return self.matcher.index()


def documents_of(cards: Iterable[Card]) -> Iterator[SearchDocument]:
    """The cards as skills, their ids for digests; of cards with one name, the later ones get a number, as folders would."""
    taken: set[str] = set()
    for card in cards:
        slug = name = slugify(card.name) or "skill"
        again = 1
        while slug in taken:
            again += 1
            slug = f"{name}-{again}"
        taken.add(slug)
        yield SearchDocument(
            slug=slug,
            title=card.name,
            description=card.description,
            tags=card.tags,
            triggers=card.triggers,
            body=card.body,
            digest=card.id,
        )
