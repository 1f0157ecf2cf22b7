"""The vectors of cards: computed once per text and embedder, shared by all workspaces and processes.

They lie in immutable files, in one folder per embedder. Every `add` writes its own file, so writers need no lock; when
there are too many files, one process at a time merges the smallest. Readers take every intact file there is: the same card
may be in several. A file that cannot be used is skipped, and its cards are computed again.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prowess.errors import ProwessError
from prowess.match.array_file import FileDamaged
from prowess.match.arrays import Array
from prowess.match.card import NO_KEY, card_key
from prowess.match.vectors.embedder import Embedder, embed_cards
from prowess.match.vectors.vector_table import (
    VectorRows,
    VectorTable,
    build_table,
    current_day,
    find_rows,
    merge_tables,
    read_table,
    write_table,
)
from prowess.storage.files.folder_lock import try_lock_folder

MAX_FILES = 8
"""If there are more files, the smallest are merged."""
KEPT_DAYS = 30
"""How long the vectors of a card are kept that no saved index has."""
MAX_UNUSED_SHARE = 0.25
"""Unused vectors are dropped if they are more than this share of all."""

_MERGED_AT_ONCE = 4
_STEP = 8
_SUFFIX, _TEMPORARY_SUFFIX = ".vectors", ".tmp"
_LEFTOVER_SECONDS = 3_600.0
_ATTEMPTS = 3
_CLOCK_TICK = 2_000_000_000
"""How coarse the times of files may be, in nanoseconds: two seconds on some file systems."""
_FEW = 32
"""As many vectors as this are written at once, however short the time since the last file."""


class CardVectors:
    """The vectors that one embedder gives for cards. Thread-safe.

    `folder` holds the vectors of all embedders; without one, or if it cannot be written to, vectors are kept in memory.
    `shipped` are files that come with Prowess: those of this embedder are read, and never written. After writing a file,
    a few vectors are kept in memory for `pause` seconds before the next one is written.
    """

    def __init__(
        self, folder: Path | None, embedder: Embedder, *, shipped: Sequence[Path] = (), pause: float = 0.0
    ) -> None:
        self.embedder = embedder
        self.folder = folder / _folder_name(embedder.name) if folder is not None else None
        """The folder of this embedder's files, if there is one."""
        self._lock = threading.Lock()
        self._files: dict[str, VectorTable] = {}
        self._damaged: set[str] = set()
        self._given = [table for path in shipped if (table := self._read_shipped(path)) is not None]
        self._added: list[VectorTable] = []
        self._pause = pause
        self._write_again = float("-inf")
        self._tables = tuple(self._given)
        self._looked_at: tuple[int, ...] = ()

    def in_memory(self) -> CardVectors:
        """Return vectors that start with these; more can be added to them without being kept on disk."""
        copy = CardVectors(None, self.embedder)
        copy._given = list(self.tables())
        copy._tables = tuple(copy._given)
        return copy

    def tables(self) -> tuple[VectorTable, ...]:
        """Return all tables, also those that other processes have added; the same tuple if nothing has changed."""
        with self._lock:
            self._look()
            return self._tables

    def find(self, keys: Array) -> VectorRows:
        """Return where the vectors of cards are, by the rows of their keys. Nothing is computed."""
        return find_rows(self.tables(), keys)

    def add(self, cards: Sequence[Sequence[str]], *, seconds: float | None = None) -> int:
        """Compute the vectors of cards that have none, and keep them; return the number of cards computed.

        With `seconds`, the cards are computed a few at a time, and no more after that time. Raises `Unavailable` if the
        embedder does. A full or read-only disk is not an error.
        """
        wanted = {card_key(card): card for card in cards}
        wanted.pop(NO_KEY, None)
        keys = np.array(list(wanted), np.uint64).reshape(-1, 2)
        keys = keys[self.find(keys).missing]
        chosen = [wanted[high, low] for high, low in keys.tolist()]
        vectors: list[NDArray[np.int8]] = []
        step = len(chosen) if seconds is None else _STEP
        # At least one step runs, however short the time is, so that repeated calls make progress.
        end = time.monotonic() + (seconds or 0.0)
        while len(vectors) < len(chosen) and (not vectors or time.monotonic() < end):
            vectors += embed_cards(self.embedder, chosen[len(vectors) : len(vectors) + step])
        if vectors:
            self._keep(build_table(keys[: len(vectors)], vectors))
        return len(vectors)

    def drop_unused(self, used: Array) -> None:
        """Drop the cards whose keys are not among the rows of `used` and that are older than `KEPT_DAYS`, if they are many."""
        if self.folder is None:
            return
        with self._lock, suppress(OSError, ProwessError), try_lock_folder(self.folder) as free:
            self._look()
            files = dict(self._files)
            masks = [_needed(table, used) for table in files.values()]
            kept, size = sum(int(mask.sum()) for mask in masks), sum(table.size for table in files.values())
            if free and size - kept > MAX_UNUSED_SHARE * size:
                self._replace(self.folder, files, masks, used)

    def _keep(self, table: VectorTable) -> None:
        """Write a table to its own file, or keep it in memory if that is impossible or was just done.

        A server gets a new card every few milliseconds while skills are written. A process that ends before the next file
        is written loses a few vectors, which the next one computes again.
        """
        with self._lock:
            self._added.append(table)
            if len(self._added) > MAX_FILES:
                self._added = [merge_tables(self._added)]
            moment = time.monotonic()
            is_due = moment >= self._write_again or sum(one.size for one in self._added) >= _FEW
            if self.folder is not None and is_due:
                self._write_again = moment + self._pause
                if self._write(self.folder, merge_tables(self._added) if len(self._added) > 1 else table):
                    self._added = []
                    self._merge_small(self.folder)
            self._collect()

    def _write(self, folder: Path, table: VectorTable) -> bool:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if _is_linked(folder):
                return False
            write_table(folder / f"{secrets.token_hex(8)}{_SUFFIX}", table, self.embedder.name)
        except OSError:
            return False
        return True

    def _look(self) -> None:
        """Open the files that are new, and forget those that are gone."""
        if self.folder is None:
            return
        state = _state_of(self.folder)
        if state and state == self._looked_at:
            return
        # A folder that was just written to can get more files without getting a later time.
        self._looked_at = state if state and time.time_ns() - state[-1] > _CLOCK_TICK else ()
        before = self._files
        for _ in range(_ATTEMPTS):
            names = _list_names(self.folder, _SUFFIX)
            known, self._files = self._files, {}
            gone = bool(known.keys() - set(names))
            for name in names:
                try:
                    self._files[name] = known[name] if name in known else self._read(self.folder / name)
                except FileNotFoundError:
                    gone = True
                except FileDamaged:
                    self._damaged.add(name)
                except OSError:
                    continue  # perhaps it can be read next time
            # If files are gone, they were merged: their successor may have been written after its place was listed.
            if not gone:
                break
        if self._files.keys() != before.keys():
            self._collect()

    def _collect(self) -> None:
        self._tables = (*self._given, *self._files.values(), *self._added)

    def _read(self, path: Path) -> VectorTable:
        if path.name in self._damaged:
            raise FileDamaged(path.name)
        return read_table(path, self.embedder.name, self.embedder.dimensions)

    def _read_shipped(self, path: Path) -> VectorTable | None:
        try:
            return read_table(path, self.embedder.name, self.embedder.dimensions)
        except (OSError, FileDamaged):
            return None

    def _merge_small(self, folder: Path) -> None:
        """Merge the smallest files if there are too many, unless another process is doing it."""
        self._look()
        if len(self._files) <= MAX_FILES and not self._damaged:
            return
        with suppress(OSError, ProwessError), try_lock_folder(folder) as free:
            if free:
                self._look()
                chosen = _smallest(self._files) if len(self._files) > MAX_FILES else {}
                self._replace(folder, chosen)

    def _replace(
        self,
        folder: Path,
        files: dict[str, VectorTable],
        masks: Sequence[NDArray[np.bool_]] | None = None,
        used: Array | None = None,
    ) -> None:
        """Replace files by one with their cards, or the chosen ones, and remove what is damaged; the caller holds the lock.

        A process that is killed in between leaves cards that are in two files.
        """
        # Damage must not get a new, valid checksum.
        intact = {name: table for name, table in files.items() if table.is_intact}
        if masks is not None:
            masks = [mask for mask, name in zip(masks, files, strict=True) if name in intact]
        if intact:
            merged = merge_tables(list(intact.values()), masks)
            if used is not None:
                places = merged.find(used)
                merged.days[places[places >= 0]] = current_day()
            if merged.size and not self._write(folder, merged):
                return
        leftover = [path for name in _list_names(folder, _TEMPORARY_SUFFIX) if _is_old(path := folder / name)]
        for path in (*(folder / name for name in (*files, *self._damaged)), *leftover):
            with suppress(OSError):
                path.unlink()  # a process that has mapped it keeps its content
        self._damaged.clear()
        self._look()


def _smallest(files: dict[str, VectorTable]) -> dict[str, VectorTable]:
    """Return the files to merge: the smallest few, and each next one that is not larger than all before it together.

    So each card is copied a number of times that grows with the logarithm of the number of cards.
    """
    ordered = sorted(files.items(), key=lambda item: len(item[1].rows))
    total = 0
    for place, (_, table) in enumerate(ordered):
        if place >= _MERGED_AT_ONCE and len(table.rows) > total:
            return dict(ordered[:place])
        total += len(table.rows)
    return files


def _needed(table: VectorTable, used: Array) -> NDArray[np.bool_]:
    needed = table.days.astype(np.int64) + KEPT_DAYS >= current_day()
    places = table.find(used)
    needed[places[places >= 0]] = True
    return needed


def _folder_name(embedder: str) -> str:
    """Return a file name for an embedder: readable, and different for every embedder."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", embedder).strip(".-")[:60]
    return f"{readable}-{hashlib.sha256(embedder.encode('utf-8', 'replace')).hexdigest()[:12]}"


def _list_names(folder: Path, suffix: str) -> list[str]:
    """Return the names of files with this suffix, in order; [] if the folder is missing, or a link, which could lead anywhere."""
    if _is_linked(folder):
        return []
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(suffix))  # noqa: PTH208
    except OSError:
        return []


def _state_of(folder: Path) -> tuple[int, ...]:
    """Return what changes with the files in a folder, its time last; () if it is missing."""
    try:
        found = os.lstat(folder)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _is_linked(folder: Path) -> bool:
    return folder.is_symlink() or folder.parent.is_symlink()


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.lstat().st_mtime > _LEFTOVER_SECONDS
    except OSError:
        return False
