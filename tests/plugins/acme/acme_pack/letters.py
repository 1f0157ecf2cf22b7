"""An embedder: how often each letter occurs. It finds texts with the same letters, not with the same meaning."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from prowess.match.vectors.embedder import quantize

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class LetterEmbedder:
    name = "acme-letters-1-26"
    dimensions = len(LETTERS)

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        counts = [[text.lower().count(letter) for letter in LETTERS] for text in texts]
        return quantize(np.array(counts, dtype=np.float64).reshape(len(texts), self.dimensions))
