"""The `Embedder` protocol: texts in, quantized vectors out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCALE = 127
"""A unit vector is stored as `round(SCALE * value)`, so an integer dot product over SCALE² is the cosine."""


class Embedder(Protocol):
    """Turns texts into rows of integers; thread-safe.

    A row is the text's unit vector times `SCALE`, rounded to `int8`. Dot products are exact in `int32`, in any order, on
    every machine; widen before multiplying, because `int8` overflows. A text without anything the model knows gives zeros.

    Raises `Unavailable` if the model, its library or its server is missing or gives no usable answer; the content of a
    text never raises.
    """

    @property
    def name(self) -> str:
        """Model, version and dimensions. Vectors of different names cannot be compared, so the index is rebuilt."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a row."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        """Return one row per text, in order."""
        ...


def embed_cards(embedder: Embedder, cards: Sequence[Sequence[str]]) -> list[NDArray[np.int8]]:
    """Return the rows of each card `[head, part, …]`: first the whole text, then the head with each part.

    An embedder may have a method `embed_parts` that does this in one pass; others embed a text for each row.
    """
    embed_parts: Callable[[Sequence[Sequence[str]]], list[NDArray[np.int8]]] | None
    if (embed_parts := getattr(embedder, "embed_parts", None)) is not None:
        return embed_parts(cards)
    texts = [text for card in cards for text in (" . ".join(card), *(f"{card[0]}: {part}" for part in card[1:]))]
    rows = embedder.embed(texts)
    ends = np.cumsum([len(card) for card in cards])
    return np.split(rows, ends[:-1]) if len(cards) else []


def embed_sentences(embedder: Embedder, sentences: Sequence[str]) -> NDArray[np.int8]:
    """Return the rows of a message: first the whole, then each sentence.

    An embedder may have a method `embed_sentences` that does this in one pass; others embed a text for each row.
    """
    in_one_pass: Callable[[Sequence[str]], NDArray[np.int8]] | None
    if (in_one_pass := getattr(embedder, "embed_sentences", None)) is not None:
        return in_one_pass(sentences)
    return embedder.embed([" ".join(sentences), *sentences])


def quantize(vectors: NDArray[np.floating[Any]]) -> NDArray[np.int8]:
    """Normalize and quantize vectors; zeros stay zeros."""
    rows = np.asarray(vectors, dtype=np.float64)
    # Divide by the largest number first, so that squares neither overflow nor become zero.
    rows = rows / _nonzero(np.abs(rows).max(axis=1, keepdims=True, initial=0.0))
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    return np.rint(rows * (SCALE / _nonzero(lengths))).astype(np.int8)


def remove_surrogates(text: str) -> str:
    """Return the text without lone surrogates, which cannot be encoded as UTF-8 and make libraries fail."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _nonzero(divisors: NDArray[np.float64]) -> NDArray[np.float64]:
    return divisors + (divisors == 0.0)


class WordsOnly:
    """Stands in for an embedder where meaning is not to be compared: every row is zero."""

    name = "none"
    dimensions = 64

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        """Return zeros."""
        return np.zeros((len(texts), self.dimensions), np.int8)
