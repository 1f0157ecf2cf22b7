"""The embedder of the default install: one fixed vector a piece of a word, and the sum of them for a text."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prowess.errors import Invalid
from prowess.match.vectors.embedder import SCALE
from prowess.match.vectors.pieces import Pieces
from prowess.match.vectors.table import Table
from prowess.match.words import CJK_RUN, pairs_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

FILE = Path(__file__).with_name("static.bin")
MODEL = "wordllama-l2-supercat+pairs"
LONGEST_CHARACTERS = 16_384
LONGEST_PIECES = 4_096
"""Only so much of the beginning of a text counts. 127 × 255 × this is below 2²⁷, and its square times 256 dimensions below
2⁶²: all sums here are exact, the former in `float64`, the latter in `int64`."""

WEIGHT_UNIT = 64
"""Weights of words are counted in this many units of the table: most are below 2,000."""

HEAVIEST = 4_095
"""No word weighs more, so that weights fit in 16 bits and sums over a whole text are exact; single pieces stay below."""
_PAIR = 4_000
"""Each number of a pair's vector, up to its sign: so a pair weighs about as much as a telling word."""

_BATCH = 256


class StaticEmbedder:
    """Vectors of `wordllama` from a file that Prowess carries: no download, no library, some 10 µs a short text.

    The same on every machine, to the last bit: sums of whole numbers are exact, and what follows (a square root, a
    division, a rounding) is rounded in one way everywhere. `dimensions` keeps only the first of the 256, which the model
    is trained for: 64 and 128 are good choices. Upper and lower case differ; space of any kind only parts words.
    """

    def __init__(self, *, dimensions: int = 256, file: Path = FILE) -> None:
        table = Table.open(file)
        if not 1 <= dimensions <= table.rows.shape[1]:
            raise Invalid(
                f"the static embedding has no {dimensions} dimensions", hint=f"Ask for 1 to {table.rows.shape[1]}."
            )
        self._pieces = Pieces(table.pieces)
        # In float64, products and sums of these whole numbers are exact, in whatever order they are added.
        self._multipliers = table.multipliers.astype(np.float64)
        self._rows = table.rows
        self._dimensions = dimensions
        self._name = f"{MODEL}-{dimensions}:{table.digest[:12]}"

    @property
    def name(self) -> str:
        """Model, dimensions and the digest of its file."""
        return self._name

    @property
    def dimensions(self) -> int:
        """How many numbers a row has."""
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        """One row a text; zeros for one without a word."""
        sums = np.zeros((len(texts), self._dimensions))
        for row, text in zip(sums, texts, strict=True):
            self._add(row, text[:LONGEST_CHARACTERS])
        return _normalised(sums)

    def _add(self, row: NDArray[np.float64], text: str) -> None:
        if not text.isascii() and CJK_RUN.search(text):
            row += self._pairs(pairs_of(text))
            text = CJK_RUN.sub(" ", text)
        numbers = self._pieces.of_text(text, LONGEST_PIECES)
        if numbers:
            chosen = np.array(numbers)
            row += self._multipliers.take(chosen) @ self._vectors(chosen)

    def _pairs(self, pairs: Sequence[str]) -> NDArray[np.float64]:
        """The sum of vectors that say of pairs of characters only which are the same.

        The model has seen little Chinese, Japanese and Korean: to it, any two texts in them are alike. So each pair has a
        direction of its own, by chance, but the same everywhere: the signs that a hash gives.
        """
        bits = b"".join(hashlib.blake2b(pair.encode("utf-8", "replace"), digest_size=32).digest() for pair in pairs)
        signs = np.unpackbits(np.frombuffer(bits, np.uint8)).reshape(len(pairs), -1)[:, : self._dimensions]
        return (2 * signs.sum(axis=0, dtype=np.float64) - len(pairs)) * _PAIR

    def words(self, words: Sequence[str]) -> NDArray[np.int8]:
        """One row a word as it stands alone: what `embed` gives, faster for thousands of single words."""
        return self.weighed(words)[0]

    def knows(self, word: str) -> bool:
        """Whether the model has the word as one piece: common words are, typing errors are not."""
        return len(self._pieces.of(word[:LONGEST_CHARACTERS])) == 1

    def weighed(self, words: Sequence[str]) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        """The rows of words, and how much each weighs in a text: the length its vector has before it is made 1.

        The model was trained so that words which mean more are longer. Weighed rows add up to the vector of a text.
        """
        rows = np.empty((len(words), self._dimensions), dtype=np.int8)
        weights = np.empty(len(words), dtype=np.int64)
        for start in range(0, len(words), _BATCH):
            batch = words[start : start + _BATCH]
            sums = self._sums([self._pieces.of_text(word[:LONGEST_CHARACTERS], LONGEST_PIECES) for word in batch])
            for place, word in enumerate(batch):
                if not word.isascii() and CJK_RUN.search(word):
                    sums[place] = 0.0
                    self._add(sums[place], word[:LONGEST_CHARACTERS])
            rows[start : start + _BATCH] = _normalised(sums)
            weights[start : start + _BATCH] = np.minimum(np.rint(_lengths(sums) / WEIGHT_UNIT)[:, 0], HEAVIEST)
        return rows, weights

    def _sums(self, numbers: list[list[int]]) -> NDArray[np.float64]:
        """The first piece of every word at once, then the second of all that have one, and so on."""
        sums = np.zeros((len(numbers), self._dimensions))
        lengths = np.array([len(some) for some in numbers])
        for position in range(lengths.max()):
            longer = np.flatnonzero(lengths > position)
            chosen = np.array([numbers[word][position] for word in longer.tolist()])
            sums[longer] += self._multipliers.take(chosen)[:, np.newaxis] * self._vectors(chosen)
        return sums

    def _vectors(self, chosen: NDArray[np.intp]) -> NDArray[np.float64]:
        return self._rows.take(chosen, axis=0)[:, : self._dimensions].astype(np.float64)


def _lengths(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sqrt(np.square(sums.astype(np.int64)).sum(axis=1, keepdims=True).astype(np.float64))


def _normalised(sums: NDArray[np.float64]) -> NDArray[np.int8]:
    lengths = _lengths(sums)
    return np.rint(sums * SCALE / np.where(lengths == 0.0, 1.0, lengths)).astype(np.int8)
