"""The index on disk: immutable segment files that are memory-mapped, and one small file that lists the current ones."""

from __future__ import annotations

import json
import os
import secrets
import unicodedata
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from prowess.errors import ProwessError
from prowess.lazy_dataclass import dataclass
from prowess.match.array_file import FileDamaged, open_regular, read_arrays, write_arrays
from prowess.match.index import Index, LiveSegment
from prowess.match.segment import Segment
from prowess.match.vectors.embedder import Embedder
from prowess.match.vectors.encoder import default_encoder
from prowess.skill.reader_version import reader_version
from prowess.storage.files.folder_lock import try_lock_folder


def write_segment(path: Path, segment: Segment) -> None:
    """Write a segment; the file gets its name only when it is complete and on disk."""
    write_arrays(path, segment.arrays())


def read_segment(path: Path) -> Segment:
    """Memory-map a segment; raise `FileDamaged` if it is damaged, `OSError` if it is missing."""
    try:
        return Segment(**read_arrays(path).arrays)
    except TypeError as error:
        raise FileDamaged(path.name) from error


SNAPSHOT_FORMAT = 10
"""Raise it with every change to segments or to how words are read, so that older snapshots are rebuilt."""

_CURRENT = "current"
_OWN_SUFFIXES = (".segment", ".tmp")
_ATTEMPTS = 3
_LARGEST_MANIFEST = 1 << 28
_LARGE = 1_000
_PAUSE = 50
"""After an index of so many skills was saved, the next save waits this many times as long as that took."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SavedIndex:
    """An index with its origin: the position of each store, and a record of all places.

    Equality compares the index by identity, not its arrays.
    """

    index: Index
    positions: Mapping[str, str]
    record: bytes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SavedIndex):
            return NotImplemented
        same = self.index is other.index
        return same and (self.positions, self.record) == (other.positions, other.record)

    def __hash__(self) -> int:
        return hash((id(self.index), self.record))


class Snapshot:
    """A folder with the saved index of one catalog."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # By `id`. The segment is kept as well, so that no other object can get the same id.
        self._names: dict[int, tuple[Segment, str]] = {}
        self._pause_until = 0.0

    def load(self, embedder: Embedder) -> SavedIndex | None:
        """Return the saved index, or None if there is no usable one."""
        for _ in range(_ATTEMPTS):
            try:
                return self._load(embedder)
            except FileNotFoundError:
                # A writer has replaced the files between the two reads; the new ones are complete.
                continue
            except (OSError, FileDamaged, ValueError, KeyError, TypeError, IndexError):
                return None
        return None

    def save(self, saved: SavedIndex) -> bool:
        """Save an index unless another process is writing; return True if saved. A full or read-only disk is not an error.

        Where skills change all the time, a large index is not saved each time. A process that loads an older one reads the
        changes since then.
        """
        began = monotonic()
        if began < self._pause_until and saved.index.size >= _LARGE:
            return False
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self._folder.is_symlink():
                return False
            with try_lock_folder(self._folder) as free:
                if free:
                    self._save(saved)
                    ended = monotonic()
                    self._pause_until = ended + _PAUSE * (ended - began)
                return free
        except (OSError, ProwessError):
            return False

    def _load(self, embedder: Embedder) -> SavedIndex:
        with open_regular(self._folder / _CURRENT) as file:
            content = file.read(_LARGEST_MANIFEST + 1)
        if len(content) > _LARGEST_MANIFEST or self._folder.is_symlink():
            raise FileDamaged(_CURRENT)
        check, _, rest = content.partition(b"\n")
        if int(check) != zlib.crc32(rest):
            raise FileDamaged(_CURRENT)
        head, _, record = rest.partition(b"\n")
        told: dict[str, Any] = json.loads(head)
        if (told["format"], told["embedder"], told["words"]) != (SNAPSHOT_FORMAT, embedder.name, _text_version()):
            raise FileDamaged(_CURRENT)
        # The documents in it were derived by these readers: the same files may read differently now.
        if told["reader"] != reader_version():
            raise FileDamaged(_CURRENT)
        parts: list[LiveSegment] = []
        for part in told["parts"]:
            segment = read_segment(self._folder / part["file"])
            self._names[id(segment)] = (segment, part["file"])
            parts.append(LiveSegment.whole(segment).without(part["gone"]))
        return SavedIndex(
            index=Index(parts=tuple(parts), embedder=embedder), positions=told["positions"], record=record
        )

    def _save(self, saved: SavedIndex) -> None:
        files = [self._kept(part.segment) for part in saved.index.parts]
        parts = [
            {"file": file, "gone": _dead_documents(part)} for file, part in zip(files, saved.index.parts, strict=True)
        ]
        head = {
            "format": SNAPSHOT_FORMAT,
            "embedder": saved.index.embedder.name,
            "words": _text_version(),
            "reader": reader_version(),
            "positions": dict(saved.positions),
            "parts": parts,
        }
        rest = json.dumps(head).encode() + b"\n" + saved.record
        temporary = self._folder / f"{_CURRENT}.{os.getpid()}.tmp"
        current = self._folder / _CURRENT
        try:
            # Not synced: after a crash, a damaged file fails its checksum and the index is built anew.
            temporary.write_bytes(str(zlib.crc32(rest)).encode() + b"\n" + rest)
            if current.is_dir() and not current.is_symlink():
                current.rmdir()
            temporary.replace(current)
        except OSError:
            self._clear(set())
            raise
        self._clear({_CURRENT, *files})

    def _kept(self, segment: Segment) -> str:
        """Return the file of a segment, writing it if necessary."""
        known = self._names.get(id(segment))
        if known is not None and (self._folder / known[1]).exists():
            return known[1]
        name = f"{secrets.token_hex(8)}.segment"
        write_segment(self._folder / name, segment)
        self._names[id(segment)] = (segment, name)
        return name

    def _clear(self, needed: set[str]) -> None:
        """Remove files that are not needed, including those of a killed writer; the caller holds the lock."""
        self._names = {key: known for key, known in self._names.items() if known[1] in needed}
        for path in self._folder.iterdir():
            if path.suffix in _OWN_SUFFIXES and path.name not in needed:
                with suppress(OSError):
                    path.unlink()  # a process that has mapped it keeps its content


def _text_version() -> str:
    """Return the versions of what decides how words are read: with another stemmer, Unicode or vectors, the index is rebuilt."""
    import Stemmer

    library: Any = Stemmer
    return f"{default_encoder().name} {library.version()} {unicodedata.unidata_version}"


def _dead_documents(part: LiveSegment) -> list[int]:
    return np.flatnonzero(~part.alive).tolist()
