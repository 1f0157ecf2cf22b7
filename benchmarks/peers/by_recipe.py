"""The recipe to beat: BM25F over five fields, typing errors mended, and a static embedding, z-normalised and added."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from material.sets import Card
from numpy.typing import NDArray

from peers.by_static import StaticEmbedder, best, embedded_text
from peers.words import stem_words, words_of

K1, K3 = 1.2, 1.0
EMBEDDING_WEIGHT, DIMENSIONS = 0.8, 64
MENDED_WEIGHT, MENDED_CHOICES = 0.7, 3
BODY_TERMS = 30
FENCE = re.compile(r"```.*?```", re.DOTALL)
NEGATED = re.compile(
    r"(?:^|(?<=[.;!?)\n—–-]))\s*(?:\*\*)?"
    r"(?:(?:NOT|[Nn]ot) for|Not intended for|D(?:O NOT|o NOT|o not|on't) (?:use|USE|TRIGGER)|Avoid using|SKIP)\b"
    r"[^.;\n]*(?:[.;\n]|$)"
)

Scores = NDArray[np.float32]


class Field(NamedTuple):
    """A field's texts, how much it counts, and how much its length is held against it."""

    texts: Sequence[str]
    weight: float
    b: float = 0.75


class RecipeWords:
    """Its lexical part alone: postings as three arrays."""

    def __init__(self, cards: Sequence[Card]) -> None:
        self.count = len(cards)
        said = without_negations(cards)
        self.spoken: Counter[str] = Counter()
        self._index(
            [
                Field([card.name for card in said], 3.0),
                Field([card.description for card in said], 1.0),
                Field([" ".join(card.tags) for card in said], 1.0),
                Field([" ".join(card.triggers) for card in said], 0.7),
                Field(body_terms(card.body for card in said), 0.3, b=0.0),
            ]
        )
        self.near: dict[str, list[str]] = defaultdict(list)
        for word in sorted(self.spoken):
            if 4 <= len(word) <= 20 and word.isascii():
                for form in shortened(word):
                    self.near[form].append(word)

    def rank(self, message: str, limit: int = 10) -> list[int]:
        """The best by words."""
        return best(self.lexical(message), limit)

    def lexical(self, message: str) -> Scores:
        """BM25F of each card."""
        scores = np.zeros(self.count, np.float32)
        words = words_of(message)
        stems = stem_words(words)
        for stem, times in Counter(stems).items():
            self._add(scores, stem, (K3 + 1) * times / (K3 + times))
        unknown = {word for word, stem in zip(words, stems, strict=True) if stem not in self.vocabulary}
        for word in sorted(unknown):
            for stem in set(stem_words(self._mended(word))):
                self._add(scores, stem, MENDED_WEIGHT)
        return scores

    def _mended(self, word: str) -> list[str]:
        if len(word) < 4 or word.isdigit() or not word.isascii():
            return []
        candidates = {other for form in shortened(word) for other in self.near.get(form, ())}
        order = sorted(candidates, key=lambda other: (abs(len(other) - len(word)), -self.spoken[other], other))
        return order[:MENDED_CHOICES]

    def _add(self, scores: Scores, stem: str, weight: float) -> None:
        term = self.vocabulary.get(stem)
        if term is not None:
            here = slice(self.starts[term], self.starts[term + 1])
            scores[self.cards[here]] += weight * self.impacts[here]

    def _index(self, fields: Iterable[Field]) -> None:
        self.vocabulary: dict[str, int] = {}
        weights: dict[tuple[int, int], float] = defaultdict(float)
        for field in fields:
            words = [words_of(text) if text else [] for text in field.texts]
            lengths = [len(found) for found in words if found]
            usual = sum(lengths) / len(lengths) if lengths else 1
            for number, found in enumerate(words):
                self.spoken.update(set(found))
                norm = 1 - field.b + field.b * len(found) / usual
                for stem, times in Counter(stem_words(found)).items():
                    term = self.vocabulary.setdefault(stem, len(self.vocabulary))
                    weights[term, number] += field.weight * times / norm
        postings = sorted(weights.items())
        terms = np.array([term for (term, _), _ in postings])
        frequency = np.array([weight for _, weight in postings], np.float32)
        spread = np.bincount(terms, minlength=len(self.vocabulary))
        rarity = np.log(1 + (self.count - spread + 0.5) / (spread + 0.5))
        self.cards = np.array([number for (_, number), _ in postings])
        self.impacts = (rarity[terms] * (K1 + 1) * frequency / (K1 + frequency)).astype(np.float32)
        self.starts = np.concatenate([[0], np.cumsum(spread)])


class Recipe(RecipeWords):
    """The whole recipe, with one vector per card."""

    def __init__(self, cards: Sequence[Card]) -> None:
        self.embedder = StaticEmbedder(DIMENSIONS)
        self.vectors = self.embedder.embed([embedded_text(card) for card in without_negations(cards)])
        super().__init__(cards)

    def rank(self, message: str, limit: int = 10) -> list[int]:
        """The best by both scores together."""
        fused = standard(self.lexical(message)) + EMBEDDING_WEIGHT * standard(self.cosines(message))
        return best(fused, limit)

    def cosines(self, message: str) -> Scores:
        """How near each card is to the message."""
        return self.vectors @ self.embedder.embed([message])[0]


def without_negations(cards: Iterable[Card]) -> list[Card]:
    """The cards without what they say they are not for."""
    return [card._replace(description=NEGATED.sub(" ", card.description)) for card in cards]


def body_terms(bodies: Iterable[str]) -> list[str]:
    """The thirty words of each body that set it apart from the others."""
    counted = [
        Counter(word for word in words_of(FENCE.sub(" ", body)) if len(word) > 2 and not word.isdigit())
        for body in bodies
    ]
    spread = Counter(word for words in counted for word in words)

    def chosen(words: Counter[str]) -> list[str]:
        weight = {
            word: math.sqrt(times) * math.log(1 + len(counted) / spread[word])
            for word, times in words.items()
            if spread[word] > 1
        }
        return sorted(weight, key=lambda word: (-weight[word], word))[:BODY_TERMS]

    return [" ".join(chosen(words)) for words in counted]


def shortened(word: str) -> set[str]:
    """The word, and every form of it with one letter gone; words one edit apart share one of these."""
    return {word, *(word[:at] + word[at + 1 :] for at in range(len(word)))}


def standard(scores: Scores) -> Scores:
    """The scores with mean 0 and deviation 1."""
    return (scores - scores.mean()) / (scores.std() + 1e-6)
