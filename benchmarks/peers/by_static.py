"""Static token embeddings: the mean of a text's token vectors, read from the two files that wordllama carries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from material.sets import Card
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


class StaticEmbedder:
    """The first `dimensions` of every token vector."""

    def __init__(self, dimensions: int = 256) -> None:
        spec = find_spec("wordllama")
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError("wordllama is not installed")
        folder = Path(spec.origin).parent
        tokenizers: Any = import_module("tokenizers")
        self.tokenizer = tokenizers.Tokenizer.from_file(
            str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json")
        )
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.table = only_tensor(folder / "weights" / "l2_supercat_256.safetensors")[:, :dimensions]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector of length one per text; zeros for a text without tokens."""
        vectors = np.zeros((len(texts), self.table.shape[1]), np.float32)
        for row, encoded in enumerate(self.tokenizer.encode_batch(list(texts), add_special_tokens=False)):
            if encoded.ids:
                vectors[row] = self.table[encoded.ids].mean(axis=0, dtype=np.float32)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


class Static:
    """By cosine alone."""

    def __init__(self, cards: Sequence[Card]) -> None:
        self.embedder = StaticEmbedder()
        self.vectors = self.embedder.embed([embedded_text(card) for card in cards])

    def rank(self, message: str, limit: int = 10) -> list[int]:
        """The nearest."""
        return best(self.vectors @ self.embedder.embed([message])[0], limit)


def embedded_text(card: Card) -> str:
    return " . ".join((card.name, card.description, " ".join(card.tags)))


def best(scores: NDArray[Any], limit: int) -> list[int]:
    """The positions of the highest scores, best first; of equal ones the earlier."""
    return np.argsort(-scores, kind="stable")[:limit].tolist()


def only_tensor(path: Path) -> Vectors:
    """The one tensor of a safetensors file."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(data[8:start])
    header.pop("__metadata__", None)
    (tensor,) = header.values()
    kind = {"F16": np.float16, "F32": np.float32}[tensor["dtype"]]
    first, last = tensor["data_offsets"]
    return np.frombuffer(data[start + first : start + last], kind).reshape(tensor["shape"]).astype(np.float32)
