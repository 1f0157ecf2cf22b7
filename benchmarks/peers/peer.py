"""What a peer is: something that ranks cards for a message, and for the larger ones, keeps its index in a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, Self

from material.sets import Card


class Peer(Protocol):
    """Ranks the cards it was built from."""

    def rank(self, message: str, limit: int = 10) -> list[int]:
        """The numbers of the cards that fit best, best first; cards are numbered as they came."""
        ...


class KeptPeer(Peer, Protocol):
    """A peer whose index outlives its process."""

    @classmethod
    def build(cls, cards: Iterable[Card], folder: Path) -> Self:
        """Index the cards and keep the index in the folder."""
        ...

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Open an index that `build` kept."""
        ...

    def update(self, number: int, card: Card) -> None:
        """Replace the card of this number by one of the same name; the next `rank` sees it.

        Raises NotImplementedError where only a rebuild could.
        """
        ...
