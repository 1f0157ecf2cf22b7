"""rapidfuzz: how many characters the word sets of message and card share."""

from __future__ import annotations

from collections.abc import Sequence

from material.sets import Card
from rapidfuzz import fuzz, process, utils


class RapidFuzz:
    """Every card is compared with every message."""

    def __init__(self, cards: Sequence[Card]) -> None:
        self.texts = [utils.default_process(card.text) for card in cards]

    def rank(self, message: str, limit: int = 10) -> list[int]:
        """The most alike."""
        found = process.extract(
            utils.default_process(message), self.texts, scorer=fuzz.token_set_ratio, processor=None, limit=limit
        )
        return [number for _, _, number in found]
