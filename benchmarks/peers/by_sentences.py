"""A sentence model from a folder with its ONNX file and tokeniser: cosine alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from material.sets import Card

from peers.by_static import best, embedded_text
from prowess.match.vectors.embedder import Embedder


class Sentences:
    """One vector per card."""

    def __init__(self, embedder: Embedder, cards: Sequence[Card]) -> None:
        self.embedder = embedder
        self.vectors = embedder.embed([embedded_text(card) for card in cards]).astype(np.int32)

    def rank(self, message: str, limit: int = 10) -> list[int]:
        """The nearest."""
        return best(self.vectors @ self.embedder.embed([message])[0].astype(np.int32), limit)


def sentence_peer(folder: Path) -> Callable[[Sequence[Card]], Sentences]:
    """Build such peers with the model of that folder."""
    from prowess.match.vectors.onnx import OnnxEmbedder

    embedder = OnnxEmbedder.at(folder)
    return lambda cards: Sentences(embedder, cards)
