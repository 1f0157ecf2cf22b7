"""The embedder of the default install: one fixed vector per word piece, summed up for a text.

Layout of the vector file, little-endian: a header (magic, SHA-256 of everything after it, counts); the pieces as UTF-8,
one per line; one multiplier per piece (`uint8`); zeros up to a multiple of the page size; one row per piece (`int8`). The
vector of a piece is its row times its multiplier, on one scale for all pieces, so sums of vectors are exact integers.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Self

import numpy as np

from prowess.errors import Invalid, Unavailable
from prowess.match.arrays import offsets_of, weighted_sums
from prowess.match.vectors.embedder import SCALE
from prowess.match.vectors.tokenizer import Tokenizer
from prowess.match.words import CJK_RUN, cjk_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray


_HEADER = Struct("<8s32sIII")
_MAGIC = b"PROWVEC1"
_PAGE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorTable:
    """The content of the vector file; rows are memory-mapped, so only those used are read."""

    pieces: list[str]
    multipliers: NDArray[np.uint8]
    rows: NDArray[np.int8]
    digest: str
    """The SHA-256 of the content that the file states."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a file, or raise `Unavailable` if it is missing or damaged."""
        try:
            with path.open("rb") as file:
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise _damaged_file(path) from error
        if len(content) < _HEADER.size:
            raise _damaged_file(path)
        magic, digest, count, dimensions, length = _HEADER.unpack_from(content)
        multipliers = _HEADER.size + length
        start = _next_page(multipliers + count)
        if magic != _MAGIC or len(content) != start + count * dimensions:
            raise _damaged_file(path)
        pieces = content[_HEADER.size : multipliers].decode("utf-8", "replace").split("\n")
        if len(pieces) != count:
            raise _damaged_file(path)
        return cls(
            pieces=pieces,
            multipliers=np.frombuffer(content, np.uint8, count, multipliers),
            rows=np.frombuffer(content, np.int8, count * dimensions, start).reshape(count, dimensions),
            # Not computed, which would read the whole file; only its layout is checked.
            digest=digest.hex(),
        )

    @staticmethod
    def file_content(pieces: list[str], multipliers: NDArray[np.uint8], rows: NDArray[np.int8]) -> bytes:
        """Return the file's bytes; equal input gives equal bytes."""
        names = "\n".join(pieces).encode("utf-8")
        head = _HEADER.size + len(names) + len(multipliers)
        rest = names + multipliers.tobytes() + bytes(_next_page(head) - head) + rows.tobytes()
        return _HEADER.pack(_MAGIC, hashlib.sha256(rest).digest(), *rows.shape, len(names)) + rest


def _next_page(offset: int) -> int:
    return -(-offset // _PAGE) * _PAGE


def _damaged_file(path: Path) -> Unavailable:
    return Unavailable(
        f"{path.name}, the vectors that ship with Prowess, is missing or damaged", hint="Install Prowess again."
    )


VECTOR_FILE = Path(__file__).with_name("static.bin")
MODEL_NAME = "wordllama-l2-supercat+pairs"
LONGEST_CHARACTERS = 16_384
LONGEST_PIECES = 4_096
"""Only the beginning of a text counts. 127 × 255 × this is below 2²⁷, and its square times 256 dimensions below 2⁶²: all
sums here are exact, the former in `float64`, the latter in `int64`."""

WEIGHT_UNIT = 64
"""The unit of word weights, in units of the table: most weights are below 2,000."""

MAX_WEIGHT = 4_095
"""The limit for weights, so that they fit in 16 bits and sums over a whole text are exact; single pieces stay below it."""
_PAIR_WEIGHT = 4_000
"""The absolute value of each component of a pair's vector: a pair weighs about as much as an informative word."""

_BATCH = 256


class StaticEmbedder:
    """Vectors of `wordllama` from a file in the package: no download, no library, about 10 µs for a short text.

    Results are the same on every machine, to the last bit: integer sums are exact, and IEEE 754 defines the rounding of
    the square root, the division and the rounding that follow. `dimensions` keeps only the first of the 256, which the
    model is trained for; 64 and 128 are good choices. Case matters; white space only separates words.
    """

    def __init__(self, *, dimensions: int = 256, file: Path = VECTOR_FILE) -> None:
        table = VectorTable.open(file)
        if not 1 <= dimensions <= table.rows.shape[1]:
            raise Invalid(
                f"the static embedding has no {dimensions} dimensions", hint=f"Ask for 1 to {table.rows.shape[1]}."
            )
        self._pieces = Tokenizer(table.pieces)
        self._multipliers = table.multipliers
        self._rows = table.rows
        self._dimensions = dimensions
        self._name = f"{MODEL_NAME}-{dimensions}:{table.digest[:12]}"

    @property
    def name(self) -> str:
        """Model, dimensions and digest of the file."""
        return self._name

    @property
    def dimensions(self) -> int:
        """The length of a row."""
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        """Return one row per text; zeros for a text without words."""
        rows = np.empty((len(texts), self._dimensions), dtype=np.int8)
        for some, sums in self._summed(texts):
            rows[some] = _normalize(sums, _lengths(sums))
        return rows

    def words(self, words: Sequence[str]) -> NDArray[np.int8]:
        """Return one row per word, as `embed` does for the word alone."""
        return self.weighed(words)[0]

    def knows(self, word: str) -> bool:
        """Return True if the model has the word as one piece, which is so for common words but not for typing errors."""
        return len(self._pieces.of(word[:LONGEST_CHARACTERS])) == 1

    def weighed(self, words: Sequence[str]) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        """Return the rows of words, and the weight of each in a text: the length of its vector before normalization.

        The model was trained so that meaningful words have longer vectors. Weighted rows add up to the vector of a text.
        """
        rows = np.empty((len(words), self._dimensions), dtype=np.int8)
        weights = np.empty(len(words), dtype=np.int64)
        for some, sums in self._summed(words):
            lengths = _lengths(sums)
            rows[some] = _normalize(sums, lengths)
            weights[some] = np.minimum(np.rint(lengths / WEIGHT_UNIT), MAX_WEIGHT)
        return rows, weights

    def _summed(self, texts: Sequence[str]) -> Iterator[tuple[list[int], NDArray[np.float64]]]:
        """Yield the vector sums of texts in batches of similar length, with the positions of the texts."""
        if len(texts) > _BATCH:
            self._pieces.learn(chain.from_iterable(text[:LONGEST_CHARACTERS].split() for text in texts))
        # By length, because summing takes as many steps as the longest text of a batch has pieces.
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for start in range(0, len(order), _BATCH):
            some = order[start : start + _BATCH]
            yield some, self._sums([texts[place][:LONGEST_CHARACTERS] for place in some])

    def _sums(self, texts: list[str]) -> NDArray[np.float64]:
        unspaced = [place for place, text in enumerate(texts) if not text.isascii() and CJK_RUN.search(text)]
        pairs = [cjk_pairs(texts[place]) for place in unspaced]
        for place in unspaced:
            texts[place] = CJK_RUN.sub(" ", texts[place])
        sums = self._sums_of_pieces([self._pieces.of_text(text, LONGEST_PIECES) for text in texts])
        if unspaced:
            sums[unspaced] += self._sums_of_pairs(pairs)
        return sums

    def _sums_of_pieces(self, numbers: list[list[int]]) -> NDArray[np.float64]:
        chosen = np.array([number for some in numbers for number in some], np.intp)
        if len(numbers) == 1:
            # In float64, products and sums of these whole numbers are exact, in whatever order they are added.
            weights = self._multipliers.take(chosen).astype(np.float64)
            return (weights @ self._rows.take(chosen, axis=0)[:, : self._dimensions].astype(np.float64))[np.newaxis]
        starts = offsets_of(list(map(len, numbers)))
        return weighted_sums(self._rows[:, : self._dimensions], self._multipliers, chosen, starts).astype(np.float64)

    def _sums_of_pairs(self, texts: list[list[str]]) -> NDArray[np.float64]:
        """Return sums of pseudo-random vectors for character pairs, which only detect equal pairs.

        The model has seen little Chinese, Japanese and Korean; all texts in them look alike to it. So each pair gets a
        direction from a hash, which is the same on every machine.
        """
        pairs = [pair for some in texts for pair in some]
        # 32 bytes: one bit, the sign, for each of the 256 dimensions.
        bits = b"".join(hashlib.blake2b(pair.encode("utf-8", "replace"), digest_size=32).digest() for pair in pairs)
        ones = np.unpackbits(np.frombuffer(bits, np.uint8)).reshape(len(pairs), -1)[:, : self._dimensions]
        starts = offsets_of(list(map(len, texts)))
        sums = weighted_sums(ones, np.ones(len(pairs), np.int32), np.arange(len(pairs)), starts)
        return (2.0 * sums - np.diff(starts)[:, np.newaxis]) * _PAIR_WEIGHT


def _lengths(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    whole = sums.astype(np.int64)
    return np.sqrt(np.einsum("ij,ij->i", whole, whole).astype(np.float64))


def _normalize(sums: NDArray[np.float64], lengths: NDArray[np.float64]) -> NDArray[np.int8]:
    return np.rint(sums * SCALE / np.where(lengths == 0.0, 1.0, lengths)[:, np.newaxis]).astype(np.int8)
