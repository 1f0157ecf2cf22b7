"""The index on disk: segment files that never change, and one small file that says which of them make up the index.

Many may read while one writes. A writer adds files and then exchanges the small file in one step; what nobody needs any
more goes last. Who was reading an older index keeps it: a mapped file stays until it is let go. What is damaged, or of
another version, counts as not there.
"""

from __future__ import annotations

import json
import os
import secrets
import unicodedata
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prowess.errors import ProwessError
from prowess.match.index import Index, Live
from prowess.match.lexicon import static
from prowess.match.segment import Segment
from prowess.match.segment_file import Damaged, open_regular, read_segment, write_segment
from prowess.match.vectors.embedder import Embedder
from prowess.storage.lock import locked_if_free

FORMAT = 2
"""Raised with every change of what is in a segment or how words are read: an older snapshot is then built anew."""

_CURRENT = "current"
_OURS = (".segment", ".tmp")
_ATTEMPTS = 3
_LARGEST = 1 << 28


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Saved:
    """An index with what it was made from: how far each store had come, and a record of all places.

    Two are equal where they have the very same index; its arrays are not compared.
    """

    index: Index
    positions: Mapping[str, str]
    record: bytes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Saved):
            return NotImplemented
        same = self.index is other.index
        return same and (self.positions, self.record) == (other.positions, other.record)

    def __hash__(self) -> int:
        return hash((id(self.index), self.record))


class Snapshot:
    """A folder with the index of one catalog."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[int, tuple[Segment, str]] = {}

    def load(self, embedder: Embedder) -> Saved | None:
        """The index as it was saved; None where there is none that can be used."""
        for _ in range(_ATTEMPTS):
            try:
                return self._load(embedder)
            except FileNotFoundError:
                # A writer was faster: what it put in place is complete.
                continue
            except (OSError, Damaged, ValueError, KeyError, TypeError, IndexError):
                return None
        return None

    def save(self, saved: Saved) -> bool:
        """Keep an index if nobody else is writing; whether that was done. A disk that is full or closed is no error."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self._folder.is_symlink():
                return False
            with locked_if_free(self._folder) as free:
                if free:
                    self._save(saved)
                return free
        except (OSError, ProwessError):
            return False

    def _load(self, embedder: Embedder) -> Saved:
        with open_regular(self._folder / _CURRENT) as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST or self._folder.is_symlink():
            raise Damaged(_CURRENT)
        check, _, rest = content.partition(b"\n")
        if int(check) != zlib.crc32(rest):
            raise Damaged(_CURRENT)
        head, _, record = rest.partition(b"\n")
        told: dict[str, Any] = json.loads(head)
        if (told["format"], told["embedder"], told["words"]) != (FORMAT, embedder.name, _words()):
            raise Damaged(_CURRENT)
        parts: list[Live] = []
        for part in told["parts"]:
            segment = read_segment(self._folder / part["file"])
            self._names[id(segment)] = (segment, part["file"])
            parts.append(Live.whole(segment).without(part["gone"]))
        return Saved(index=Index(parts=tuple(parts), embedder=embedder), positions=told["positions"], record=record)

    def _save(self, saved: Saved) -> None:
        files = [self._kept(part.segment) for part in saved.index.parts]
        parts = [{"file": file, "gone": _gone(part)} for file, part in zip(files, saved.index.parts, strict=True)]
        head = {
            "format": FORMAT,
            "embedder": saved.index.embedder.name,
            "words": _words(),
            "positions": dict(saved.positions),
            "parts": parts,
        }
        rest = json.dumps(head).encode() + b"\n" + saved.record
        temporary = self._folder / f"{_CURRENT}.{os.getpid()}.tmp"
        current = self._folder / _CURRENT
        try:
            temporary.write_bytes(str(zlib.crc32(rest)).encode() + b"\n" + rest)
            if current.is_dir() and not current.is_symlink():
                current.rmdir()
            temporary.replace(current)
        except OSError:
            self._clear(set())
            raise
        self._clear({_CURRENT, *files})

    def _kept(self, segment: Segment) -> str:
        """The file of a segment, written if there is none yet."""
        known = self._names.get(id(segment))
        if known is not None and (self._folder / known[1]).exists():
            return known[1]
        name = f"{secrets.token_hex(8)}.segment"
        write_segment(self._folder / name, segment)
        self._names[id(segment)] = (segment, name)
        return name

    def _clear(self, needed: set[str]) -> None:
        """Remove what is not needed any more, and what a killed writer left; the lock is ours."""
        self._names = {key: known for key, known in self._names.items() if known[1] in needed}
        for path in self._folder.iterdir():
            if path.suffix in _OURS and path.name not in needed:
                with suppress(OSError):
                    path.unlink()


def _words() -> str:
    """What words are read and compared by: other stems, characters or vectors make another index."""
    import Stemmer

    library: Any = Stemmer
    return f"{static().name} {library.version()} {unicodedata.unidata_version}"


def _gone(part: Live) -> list[int]:
    return np.flatnonzero(~part.alive).tolist()
