"""A program that writes snapshots, to be killed and to be read beside.

`points FOLDER` saves once for every step that takes on disk, killed just before that step, and prints a JSON line each.
`forever FOLDER` saves one index after the other, in turn, and prints a line for each.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from prowess.catalog.store import SearchDocument
from prowess.match.index import Index
from prowess.match.snapshot import SavedIndex, Snapshot
from prowess.match.vectors.embedder import WordsOnly

STEPS = ("fsync", "mkdir", "rename", "replace", "unlink")


def generation(number: int) -> Index:
    """An index of which every skill says which one it is of."""
    documents = (
        SearchDocument(
            slug=f"skill-{place}", description=f"Reads invoices, generation {number}.", digest=f"{number}-{place}"
        )
        for place in range(5 + number % 3)
    )
    return Index.build(documents, WordsOnly())


def saved(number: int) -> SavedIndex:
    return SavedIndex(index=generation(number), positions={"number": str(number)}, record=f"{number}".encode() * 1000)


def state(folder: Path) -> dict[str, Any]:
    """What a reader finds."""
    found = Snapshot(folder).load(WordsOnly())
    if found is None:
        return {"number": None, "whole": True}
    number = int(found.positions["number"])
    whole = found.index.digest == generation(number).digest and found.record == saved(number).record
    return {"number": number, "whole": whole}


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


def killed(folder: Path, number: int, step: int) -> bool:
    """Whether the writer was killed; it is not once there are fewer steps than that."""
    child = os.fork()
    if child == 0:
        kill_before(step)
        Snapshot(folder).save(saved(number))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def points(base: Path) -> Iterator[dict[str, Any]]:
    for name, before in (("first", None), ("second", 1)):
        prepared = base / name
        prepared.mkdir()
        if before is not None:
            Snapshot(prepared / "kept").save(saved(before))
        for step in count():
            folder = shutil.copytree(prepared, base / f"{name}-{step}") / "kept"
            was_killed = killed(folder, 2, step)
            after = state(folder)
            again = Snapshot(folder).save(saved(3))
            files = len(list(folder.iterdir()))
            yield {"before": before, "killed": was_killed, **after, "again": again, "files": files, **tail(folder)}
            if not was_killed:
                break


def tail(folder: Path) -> dict[str, Any]:
    return {"last": state(folder)["number"]}


def main() -> None:
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "points":
        for line in points(folder):
            print(json.dumps(line), flush=True)  # noqa: T201
        return
    snapshot = Snapshot(folder)
    for number in count(int(sys.argv[3])):
        done = snapshot.save(saved(number))
        print(number if done else "busy", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
