"""Compute missing card vectors in the background: one process per home, detached from the process that started it.

Run as `python -m prowess.engine.vector_worker`. It takes its work from the saved indexes, keeps what it has computed after
every batch, and ends when nothing is missing. It can be killed at any moment.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from prowess.match.index import Index
    from prowess.match.vectors.card_vectors import CardVectors
    from prowess.settings import Settings

_LOCK_FILE = "worker"
_NICENESS = 19
_BATCH_SECONDS, _WHOLE_SECONDS = 180, 1_800.0
"""The process is killed if a batch takes longer, and takes no new batch after the whole time."""
_PAUSE_SECONDS, _FAILURE_PAUSE_SECONDS = 60.0, 300.0
"""How long no other process is started after one that did not end by itself, and after one whose embedder failed."""
_LARGEST_NOTE, _LARGEST_FAILURE = 10_000, 1_000
_ATTEMPTS, _ATTEMPT_SECONDS = 5, 0.02


def vectors_folder(home: Path) -> Path:
    """Return the folder with the card vectors of all embedders."""
    return home / "cache" / "vectors"


def start_worker(settings: Settings) -> bool:
    """Start the process unless it is running, or one has just failed; return False if it cannot work here."""
    folder = vectors_folder(settings.home)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return False
    if folder.is_symlink() or not os.access(folder, os.W_OK) or not sys.executable or hasattr(sys, "frozen"):
        return False
    if is_running(settings) or _is_paused(settings):
        return True
    # Until the process ends as it should, no other one is started for a while, also if it cannot even start.
    _write_note(settings, _PAUSE_SECONDS)
    return _spawn(settings)


def is_running(settings: Settings) -> bool:
    """Return True if the process is running."""
    try:
        with _hold_lock(vectors_folder(settings.home), shared=True) as free:
            return not free
    except OSError:
        return False


def last_failure(settings: Settings) -> str:
    """Return why the process failed the last time, or ''."""
    return str(_read_note(settings).get("failure", ""))


def _is_paused(settings: Settings) -> bool:
    until = _read_note(settings).get("until", 0.0)
    # A time far ahead was written by a clock that has been set back since.
    return 0.0 < until - time.time() <= _FAILURE_PAUSE_SECONDS


def _spawn(settings: Settings) -> bool:
    import subprocess
    import threading

    # By environment, not as arguments, which everyone on the machine can read. The settings may be those of a program,
    # not of its environment.
    own = {
        "PROWESS_HOME": str(settings.home),
        "PROWESS_WORKSPACE": "/",
        "PROWESS_EMBEDDER": settings.embedder,
        "PROWESS_EMBEDDER_URL": settings.embedder_url,
        "PROWESS_EMBEDDER_KEY": settings.embedder_key,
        "OPENBLAS_NUM_THREADS": "1",
    }
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "prowess.engine.vector_worker"],
            env={**os.environ, **settings.environment, "PROWESS_SECRET_KEY": "", **own},  # it signs nothing
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Its own session: Ctrl-C and a closed terminal are for the caller alone.
            start_new_session=True,
        )
    except OSError:
        return False
    # Waited for in a thread, or a long-lived caller would keep a zombie. The thread does not keep the caller from exiting.
    threading.Thread(target=process.wait, daemon=True).start()
    return True


@contextmanager
def _hold_lock(folder: Path, *, shared: bool = False) -> Generator[bool]:
    """Hold the lock of the process if it is free, and yield whether it is; it is released when its holder dies."""
    import fcntl

    how = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
    descriptor = os.open(folder / _LOCK_FILE, how | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _read_note(settings: Settings) -> dict[str, Any]:
    """Return what the last process wrote about itself, if it had the same embedder."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        path = vectors_folder(settings.home) / _LOCK_FILE
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            note = json.loads(file.read(_LARGEST_NOTE))
        if note["embedder"] == settings.embedder:
            return {"until": float(note["until"]), "failure": note.get("failure", "")}
    return {}


def _write_note(settings: Settings, pause: float, failure: str = "") -> None:
    """Say that no other process is to be started for a while."""
    note = {"embedder": settings.embedder, "until": time.time() + pause, "failure": failure[:_LARGEST_FAILURE]}
    with suppress(OSError):
        # Written in place: the file is the lock, and replacing it would let in a second process.
        path = vectors_folder(settings.home) / _LOCK_FILE
        how = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, how, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(note).encode())


def main() -> None:
    """Compute what is missing, unless another process is doing it."""
    from prowess.settings import read_settings

    signal.alarm(_BATCH_SECONDS)
    with suppress(OSError):
        os.nice(_NICENESS)
    settings = read_settings()
    lock = vectors_folder(settings.home) / _LOCK_FILE
    for _ in range(_ATTEMPTS):
        with _hold_lock(lock.parent) as free:
            if free:
                _work(settings, partial(_is_same_file, lock, lock.stat()))
                return
        # Someone may have held the lock for a moment, to see whether this process is running.
        time.sleep(_ATTEMPT_SECONDS)


def _is_same_file(path: Path, before: os.stat_result) -> bool:
    """Return False if the folder was deleted: continuing would make it again, perhaps while another process uses it."""
    try:
        return os.path.samestat(path.stat(), before)
    except OSError:
        return False


def _work(settings: Settings, go_on: Callable[[], bool]) -> None:
    from prowess.engine.matcher import open_card_vectors
    from prowess.errors import ProwessError
    from prowess.plugins import working_plugins

    try:
        # Plugins add embedders, and are part of what a saved index is checked against.
        working_plugins()
        computed = compute_missing(settings, open_card_vectors(settings), go_on=go_on)
    except ProwessError as error:
        _write_note(settings, _FAILURE_PAUSE_SECONDS, error.message)
    else:
        # Without anything to do, the skills that someone missed are in no saved index: starting again would not help.
        _write_note(settings, 0.0 if computed else _PAUSE_SECONDS)


def compute_missing(settings: Settings, cards: CardVectors, *, go_on: Callable[[], bool] = lambda: True) -> int:
    """Compute the vectors that saved indexes lack, those of the latest index first, then drop those that none uses.

    Return the number of cards computed. `go_on` is asked before each batch.
    """
    import numpy as np

    from prowess.match.matcher import BATCH

    end = time.monotonic() + _WHOLE_SECONDS
    total, done = 0, 1
    # Once more after the last one was computed: in the meantime there may be other skills.
    while done and time.monotonic() < end:
        done = 0
        used: list[NDArray[np.uint64]] = [np.zeros((0, 2), np.uint64)]
        for index in _saved_indexes(settings, cards):
            used += [part.segment.vector_keys[part.alive] for part in index.parts]
            missing = list(index.missing_cards())
            for first in range(0, len(missing), BATCH):
                if time.monotonic() >= end or not go_on():
                    return total + done
                signal.alarm(_BATCH_SECONDS)
                done += cards.add(missing[first : first + BATCH])
        total += done
        if not done:
            cards.drop_unused(np.concatenate(used))
    return total


def _saved_indexes(settings: Settings, cards: CardVectors) -> Iterator[Index]:
    from prowess.engine.matcher import snapshots_folder
    from prowess.match.snapshot import Snapshot

    for folder in sorted(snapshots_folder(settings).glob("*/"), key=_last_saved, reverse=True):
        saved = Snapshot(folder).load(cards.embedder)
        if saved is not None:
            yield saved.index.with_vectors(cards)


def _last_saved(folder: Path) -> float:
    try:
        return (folder / "current").stat().st_mtime
    except OSError:
        return 0.0


if __name__ == "__main__":
    main()
