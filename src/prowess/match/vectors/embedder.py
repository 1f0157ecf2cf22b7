"""What turns texts into vectors, and the one form in which all of them give those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCALE = 127
"""A vector of length 1 is kept as `round(SCALE * value)`, so an integer dot product over SCALE² is the cosine."""


class Embedder(Protocol):
    """Texts in, one row of whole numbers each out; safe to call from many threads.

    A row is the vector of its text, made of length 1, times `SCALE`, rounded to `int8`. Sums of products of such
    numbers are exact in `int32`, in any order, on every machine. Widen before multiplying: in `int8` they overflow.
    A text in which the model finds nothing gives a row of zeros, which is near nothing.

    Raises `Unavailable` where the model, its library or its server is missing or gives no usable answer; no text
    raises by what it says.
    """

    @property
    def name(self) -> str:
        """Model, version and dimensions. Vectors of two names cannot be compared: an index of another is rebuilt."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers a row has."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        """One row a text, in their order."""
        ...


def quantize(vectors: NDArray[np.floating[Any]]) -> NDArray[np.int8]:
    """Rows of any length as rows of an `Embedder`; a row of zeros stays one."""
    rows = np.asarray(vectors, dtype=np.float64)
    # Divided by the largest number first, squares neither overflow nor vanish.
    rows = rows / _nonzero(np.abs(rows).max(axis=1, keepdims=True, initial=0.0))
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    return np.rint(rows * (SCALE / _nonzero(lengths))).astype(np.int8)


def remove_surrogates(text: str) -> str:
    """The text without halves of characters, which cannot be written as UTF-8 and which libraries choke on."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _nonzero(divisors: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(divisors == 0.0, 1.0, divisors)
