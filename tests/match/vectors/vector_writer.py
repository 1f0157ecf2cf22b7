"""A small embedder, and a program that adds card vectors, to be killed and to be run twice.

`points FOLDER` adds once for every step that takes on disk, killed just before that step, and prints a JSON line each.
`add FOLDER FIRST LAST` adds the cards of these numbers one by one.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prowess.match.card import card_key
from prowess.match.vectors.card_vectors import MAX_FILES, CardVectors
from prowess.match.vectors.vector_table import VectorRows

STEPS = ("fsync", "mkdir", "rename", "replace", "unlink")
DIMENSIONS = 96


class HashEmbedder:
    """Gives every text a vector by chance, the same each time; counts the texts."""

    def __init__(self, name: str = "hash/1 (96)") -> None:
        self.name = name
        self.dimensions = DIMENSIONS
        self.texts = 0

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        self.texts += len(texts)
        digests = [hashlib.shake_128(text.encode("utf-8", "replace")).digest(DIMENSIONS) for text in texts]
        return np.frombuffer(b"".join(digests), np.int8).reshape(len(texts), DIMENSIONS)


def card(number: int) -> list[str]:
    return [f"skill {number}", *(f"does thing {part}" for part in range(1 + number % 3))]


def keys_of(cards: Sequence[Sequence[str]]) -> NDArray[np.uint64]:
    return np.array([card_key(one) for one in cards], np.uint64).reshape(-1, 2)


def right_rows(one: Sequence[str]) -> NDArray[np.int8]:
    return HashEmbedder().embed([" . ".join(one), *(f"{one[0]}: {part}" for part in one[1:])])


def are_right(rows: VectorRows, cards: Sequence[Sequence[str]]) -> bool:
    """Whether each card has its own rows, or none."""
    there = np.flatnonzero(rows.first >= 0)
    found, starts = rows.take(there)
    return all(
        np.array_equal(found[starts[place] : starts[place + 1]], right_rows(cards[number]))
        for place, number in enumerate(there.tolist())
    )


def kill_before(step: int) -> None:
    """Let this process die just before its `step`-th change on disk, or when a file has been opened and not written."""
    left = [step]

    def count_down() -> None:
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    def guarded(call: Callable[..., object]) -> Callable[..., object]:
        def run(*args: Any, **kwargs: Any) -> object:
            count_down()
            return call(*args, **kwargs)

        return run

    opening = io.open

    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if "w" not in mode:
            return opening(file, mode, *args, **kwargs)
        count_down()
        made = opening(file, mode, *args, **kwargs)
        count_down()
        return made

    for name in STEPS:
        setattr(os, name, guarded(getattr(os, name)))
    io.open = opened


def killed(folder: Path, step: int) -> bool:
    """Whether the writer was killed; it is not once there are fewer steps than that."""
    child = os.fork()
    if child == 0:
        kill_before(step)
        CardVectors(folder, HashEmbedder()).add([card(100), card(101)])
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def points(base: Path) -> Iterator[dict[str, Any]]:
    # With `MAX_FILES` files, the next one makes them be merged.
    for name, before in (("first", 0), ("later", 3), ("merging", MAX_FILES)):
        prepared = base / name
        prepared.mkdir()
        for number in range(before):
            CardVectors(prepared / "vectors", HashEmbedder()).add([card(number)])
        old, new = [card(number) for number in range(before)], [card(100), card(101)]
        for step in count():
            folder = shutil.copytree(prepared, base / f"{name}-{step}") / "vectors"
            was_killed = killed(folder, step)
            after = CardVectors(folder, HashEmbedder()).find(keys_of([*old, *new]))
            embedder = HashEmbedder()
            again = CardVectors(folder, embedder)
            again.add([*old, *new, card(102)])
            whole = again.find(keys_of([*old, *new]))
            yield {
                "killed": was_killed,
                "lost": int(after.missing[:before].sum()),
                "new": int((~after.missing[before:]).sum()),
                "right": are_right(after, [*old, *new]) and are_right(whole, [*old, *new]),
                "missing": int(whole.missing.sum()),
                "files": len(list(folder.rglob("*.vectors"))),
            }
            if not was_killed:
                break


def main() -> None:
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "points":
        for line in points(folder):
            print(json.dumps(line), flush=True)  # noqa: T201
        return
    vectors = CardVectors(folder, HashEmbedder())
    for number in range(int(sys.argv[3]), int(sys.argv[4])):
        vectors.add([card(number)])


if __name__ == "__main__":
    main()
