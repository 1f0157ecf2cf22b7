"""The index on disk: immutable segment files that are memory-mapped, and one small file that lists the current ones."""

from __future__ import annotations

import errno
import json
import mmap
import os
import secrets
import stat
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO

import numpy as np

from prowess.errors import ProwessError
from prowess.match.arrays import Array
from prowess.match.index import Index, LiveSegment
from prowess.match.lexicon import static_embedder
from prowess.match.segment import Segment
from prowess.match.vectors.embedder import Embedder
from prowess.skill.reader_version import reader_version
from prowess.storage.files.folder_lock import try_lock_folder

_HEAD = Struct("<8sIII")
_MAGIC = b"PROWIDX1"
_ALIGNMENT = 64
_FULL_CHECK_BYTES = 1 << 25
"""Files up to this size are checked completely when opened; of larger ones the layout and both ends."""
_CHECKED_END_BYTES = 1 << 20


class SnapshotDamaged(Exception):
    """A snapshot file is not what was written."""


def write_segment(path: Path, segment: Segment) -> None:
    """Write a segment; the file gets its name only when it is complete and on disk."""
    arrays = {name: np.ascontiguousarray(array) for name, array in segment.arrays().items()}
    places, size = _lay_out(arrays)
    layout = {name: [array.dtype.str, list(array.shape), places[name]] for name, array in arrays.items()}
    header = json.dumps({"size": size, "arrays": layout}).encode()
    content = [part for array in arrays.values() for part in _pad(array)]
    head = _HEAD.pack(_MAGIC, len(header), zlib.crc32(header), _check_of(content, size)) + header
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.writelines((head.ljust(_data_start(header), b"\0"), *content))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_segment(path: Path) -> Segment:
    """Memory-map a segment; raise `SnapshotDamaged` if it is damaged, `OSError` if it is missing."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size < _HEAD.size:
            raise SnapshotDamaged(path.name)
        content = _map_file(file.fileno())
    try:
        magic, length, header_check, check = _HEAD.unpack_from(content)
        header = content[_HEAD.size : _HEAD.size + length]
        if magic != _MAGIC or zlib.crc32(header) != header_check:
            raise SnapshotDamaged(path.name)
        described = json.loads(header)
        start = _data_start(header)
        if len(content) != start + described["size"] or _check(content, start) != check:
            raise SnapshotDamaged(path.name)
        return Segment(**{name: _array(content, start, *of) for name, of in described["arrays"].items()})
    except (ValueError, TypeError, KeyError) as error:
        raise SnapshotDamaged(path.name) from error


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, or raise `SnapshotDamaged`: a link could lead anywhere, and opening a pipe would block."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise SnapshotDamaged(path.name) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SnapshotDamaged(path.name)
    return os.fdopen(descriptor, "rb")


def _lay_out(arrays: Mapping[str, Array]) -> tuple[dict[str, int], int]:
    places: dict[str, int] = {}
    end = 0
    for name, array in arrays.items():
        places[name] = end
        end = _align(end + array.nbytes)
    return places, end


def _align(place: int) -> int:
    return -(-place // _ALIGNMENT) * _ALIGNMENT


def _data_start(header: bytes) -> int:
    return _align(_HEAD.size + len(header))


def _map_file(descriptor: int) -> mmap.mmap:
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)


def _array(content: mmap.mmap, start: int, kind: str, shape: list[int], place: int) -> Array:
    count = int(np.prod(shape))
    return (
        np.frombuffer(content, np.dtype(kind), count, start + place).reshape(shape) if count else np.zeros(shape, kind)
    )


def _pad(array: Array) -> tuple[bytes | memoryview, bytes]:
    """Yield the bytes of an array, and the padding before the next one."""
    return array.data.cast("B") if array.size else b"", bytes(_align(array.nbytes) - array.nbytes)


def _check(content: mmap.mmap, start: int) -> int:
    check = 0
    with memoryview(content) as view:
        for first, last in _checked(len(content) - start):
            check = zlib.crc32(view[start + first : start + last], check)
    return check


def _check_of(content: Sequence[bytes | memoryview], size: int) -> int:
    """Return the checksum of parts that are not in a file yet."""
    check = 0
    for first, last in _checked(size):
        place = 0
        for part in content:
            with memoryview(part) as view:
                check = zlib.crc32(view[max(first - place, 0) : max(last - place, 0)], check)
                place += len(view)
    return check


def _checked(size: int) -> list[tuple[int, int]]:
    # Damage in the middle of a large file shows when it is used; the matcher then builds the index anew.
    return [(0, size)] if size <= _FULL_CHECK_BYTES else [(0, _CHECKED_END_BYTES), (size - _CHECKED_END_BYTES, size)]


SNAPSHOT_FORMAT = 2
"""Raise it with every change to segments or to how words are read, so that older snapshots are rebuilt."""

_CURRENT = "current"
_OWN_SUFFIXES = (".segment", ".tmp")
_ATTEMPTS = 3
_LARGEST_MANIFEST = 1 << 28


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

    def load(self, embedder: Embedder) -> SavedIndex | None:
        """Return the saved index, or None if there is no usable one."""
        for _ in range(_ATTEMPTS):
            try:
                return self._load(embedder)
            except FileNotFoundError:
                # A writer has replaced the files between the two reads; the new ones are complete.
                continue
            except (OSError, SnapshotDamaged, ValueError, KeyError, TypeError, IndexError):
                return None
        return None

    def save(self, saved: SavedIndex) -> bool:
        """Save an index unless another process is writing; return True if saved. A full or read-only disk is not an error."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self._folder.is_symlink():
                return False
            with try_lock_folder(self._folder) as free:
                if free:
                    self._save(saved)
                return free
        except (OSError, ProwessError):
            return False

    def _load(self, embedder: Embedder) -> SavedIndex:
        with open_regular(self._folder / _CURRENT) as file:
            content = file.read(_LARGEST_MANIFEST + 1)
        if len(content) > _LARGEST_MANIFEST or self._folder.is_symlink():
            raise SnapshotDamaged(_CURRENT)
        check, _, rest = content.partition(b"\n")
        if int(check) != zlib.crc32(rest):
            raise SnapshotDamaged(_CURRENT)
        head, _, record = rest.partition(b"\n")
        told: dict[str, Any] = json.loads(head)
        if (told["format"], told["embedder"], told["words"]) != (SNAPSHOT_FORMAT, embedder.name, _text_version()):
            raise SnapshotDamaged(_CURRENT)
        # The documents in it were derived by these readers: the same files may read differently now.
        if told["reader"] != reader_version():
            raise SnapshotDamaged(_CURRENT)
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
    return f"{static_embedder().name} {library.version()} {unicodedata.unidata_version}"


def _dead_documents(part: LiveSegment) -> list[int]:
    return np.flatnonzero(~part.alive).tolist()
