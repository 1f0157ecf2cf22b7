"""Write the vector file of Prowess from an installed `wordllama`: `python scripts/static_vectors.py`.

The original weights are `float16`; they are stored as `int8` with one multiplier per piece, at half the size.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from struct import unpack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prowess.match.vectors.static import VECTOR_FILE, VectorTable


def package_folder() -> Path:
    """Return the folder of `wordllama` without importing it, which would load much that is not needed."""
    found = find_spec("wordllama")
    if found is None or found.origin is None:
        raise SystemExit("wordllama is not installed: it is in the group of dependencies `dev`")
    return Path(found.origin).parent


def original_pieces(folder: Path) -> list[str]:
    """Return the pieces of its tokenizer by number, after checking that `Tokenizer` may merge them by number."""
    tokenizer = json.loads((folder / "tokenizers" / "l2_supercat_tokenizer_config.json").read_text(encoding="utf-8"))
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    _check(tokenizer, vocabulary)
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _check(tokenizer: dict[str, Any], vocabulary: dict[str, int]) -> None:
    merges = [
        tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in tokenizer["model"]["merges"]
    ]
    results = [vocabulary[left + right] for left, right in merges if not (left + right).startswith("▁▁")]
    possible = {
        (piece[:cut], piece[cut:])
        for piece in vocabulary
        for cut in range(1, len(piece))
        if piece[:cut] in vocabulary and piece[cut:] in vocabulary
    }
    facts = {
        "pieces are numbered from 0": sorted(vocabulary.values()) == list(range(len(vocabulary))),
        "bytes have the numbers 3 to 258": all(vocabulary[f"<0x{byte:02X}>"] == byte + 3 for byte in range(256)),
        "pieces are joined in the order of their numbers": results == sorted(results),
        "any two pieces that make a piece are joined": possible == set(merges),
        "a word starts only at the start of a piece": all("▁" not in piece.lstrip("▁") for piece in vocabulary),
        "no piece has a line feed": not any("\n" in piece for piece in vocabulary),
        "a text is only given its word starts": tokenizer["pre_tokenizer"] is None
        and [step["type"] for step in tokenizer["normalizer"]["normalizers"]] == ["Prepend", "Replace"],
    }
    wrong = [fact for fact, holds in facts.items() if not holds]
    if wrong:
        raise SystemExit(
            f"this wordllama is not the one that Prowess knows; it no longer holds that {'; '.join(wrong)}"
        )


def original_weights(folder: Path) -> NDArray[np.float64]:
    """Return its weights, one row per piece."""
    content = (folder / "weights" / "l2_supercat_256.safetensors").read_bytes()
    (length,) = unpack("<Q", content[:8])
    tensor = json.loads(content[8 : 8 + length])["embedding.weight"]
    start, end = tensor["data_offsets"]
    values = np.frombuffer(content[8 + length + start : 8 + length + end], np.dtype("<f2"))
    return values.reshape(tensor["shape"]).astype(np.float64)


def built(folder: Path) -> bytes:
    """Return the whole file."""
    weights = original_weights(folder)
    largest = np.abs(weights).max(axis=1)
    multipliers = np.maximum(np.ceil(255 * (largest / largest.max())), 1.0)
    unit = largest.max() / 255 / 127
    rows = np.clip(np.rint(weights / (multipliers * unit)[:, np.newaxis]), -127, 127)
    return VectorTable.file_content(original_pieces(folder), multipliers.astype(np.uint8), rows.astype(np.int8))


if __name__ == "__main__":
    VECTOR_FILE.write_bytes(built(package_folder()))
    print(f"{VECTOR_FILE.name}: {VECTOR_FILE.stat().st_size:,} bytes")
