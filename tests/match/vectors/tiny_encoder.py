"""An encoder with the shapes of the real one, random weights and a few words."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np

from prowess.match.vectors.network import BRANCHES

PACK: dict[str, Any] = runpy.run_path(str(Path(__file__).resolve().parents[3] / "scripts" / "encoder" / "pack.py"))
WORDS = [f"w{number}" for number in range(300)]
PIECES = ["<unk>", "<s>", "</s>", "▁.", "▁:", *(f"▁{word}" for word in WORDS)]
SHAPES = {
    **{f"proj{width}": (512, 256) for width, _ in BRANCHES},
    **{f"w{layer}_{width}": (width * 256, 256) for layer in (1, 2) for width, _ in BRANCHES},
    "cnn_W": (1280, 512),
    "d0": (512, 320),
    "d1": (320, 320),
    "p1": (512, 320),
    "d2": (320, 512),
    "p3": (320, 256),
    "d3": (512, 256),
}


def random_weights() -> dict[str, np.ndarray]:
    """Return weights with the scales of real ones."""
    random = np.random.default_rng(7)
    found = {
        name: random.normal(0, shape[0] ** -0.5, shape).astype(np.float32) for name, shape in sorted(SHAPES.items())
    }
    for name, size in [("ln_g", 1280), ("ln_b", 1280), ("cnn_b", 512)]:
        found[name] = random.normal(1 if name == "ln_g" else 0, 0.1, size).astype(np.float32)
    for width, _ in BRANCHES:
        for name in (f"proj_b{width}", f"b1_{width}", f"b2_{width}", f"ln_b{width}"):
            found[name] = random.normal(0, 0.1, 256).astype(np.float32)
        found[f"ln_g{width}"] = random.normal(1, 0.1, 256).astype(np.float32)
    found["table"] = random.integers(-16, 16, (len(PIECES) + 1, 512)).astype(np.int8)
    found["scale"] = random.uniform(0.01, 0.02, (len(PIECES) + 1, 1)).astype(np.float16)
    return found


def write_encoder(path: Path, weights: dict[str, np.ndarray], dimensions: int | None = None) -> None:
    scores = [0.0] * 3 + [-8.0] * (len(PIECES) - 3)
    pieces = [PACK["Piece"](text, score) for text, score in zip(PIECES, scores, strict=True)]
    PACK["pack_weights"](weights, pieces, path, dimensions=dimensions, model="tiny")
