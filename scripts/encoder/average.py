"""Average the students of several rounds and round the result to what `pack.py` takes: numpy only, no GPU.

`python scripts/encoder/average.py round1/student.npz round2/student.npz weights.npz`
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from prowess.match.arrays import Array

_STEP = 0.2356
"""The step between the 32 values of a row, as a share of its mean absolute value: it loses least."""


def read_student(path: Path) -> dict[str, Array]:
    """Return the weights that `train.py` saved, in float32."""
    with np.load(path) as saved:
        found = {name: saved[name].astype(np.float32) for name in saved.files}
    found["table"] = found["table"] * found.pop("scale")
    return found


def average(students: Sequence[dict[str, Array]]) -> dict[str, Array]:
    """Return the mean of all weights."""
    share = np.float32(1 / len(students))
    return {name: sum(student[name] * share for student in students) for name in students[0]}


def round_weights(weights: dict[str, Array]) -> dict[str, Array]:
    """Return the table with 5 bits a value and one scale a row, and products as `int8` with one scale a column."""
    table = weights["table"]
    steps = np.abs(table).mean(axis=1, keepdims=True) * _STEP
    values = np.clip(np.round(table / np.maximum(steps, 1e-12)), -16, 15)
    rounded: dict[str, Array] = {"table": values.astype(np.int8), "scale": steps.astype(np.float16)}
    for name, value in weights.items():
        if name != "table" and value.ndim == 2:
            scale = np.abs(value).max(axis=0, keepdims=True) / 127
            rounded[name], rounded[f"{name}.scale"] = np.round(value / scale).astype(np.int8), scale
        elif name != "table":
            rounded[name] = value
    return rounded


def main() -> None:
    """Write the averaged weights."""
    parser = argparse.ArgumentParser(description="Average the students of several rounds.")
    parser.add_argument("students", type=Path, nargs="+")
    parser.add_argument("output", type=Path)
    chosen = parser.parse_args()
    np.savez_compressed(chosen.output, **round_weights(average([read_student(path) for path in chosen.students])))


if __name__ == "__main__":
    main()
