"""Named numpy arrays in one immutable file that is memory-mapped when it is read.

Layout, little-endian: a head (magic, length and checksum of the header, checksum of the data); the header as JSON (size of
the data, type, shape and place of each array, and what the writer wants to state); the arrays, each at a multiple of 64.
"""

from __future__ import annotations

import errno
import json
import math
import mmap
import os
import stat
import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO
from weakref import finalize

import numpy as np

from prowess.lazy_dataclass import dataclass
from prowess.match.arrays import Array

_HEAD = Struct("<8sIII")
_MAGIC = b"PROWARR1"
_ALIGNMENT = 64
FULL_CHECK_BYTES = 1 << 25
"""Data up to this size is checked completely when opened; of more, the layout and both ends."""

CHECKED_END_BYTES = 1 << 20


class FileDamaged(Exception):
    """A file is not what was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFile:
    """The content of a file; the arrays are read-only and memory-mapped, so only what is used is read."""

    arrays: Mapping[str, Array]
    facts: Mapping[str, Any]
    """What the writer stated next to the arrays."""
    reader: ArrayReader | None = None
    """Reads parts of the arrays without mapping them, if that was asked for."""


class ArrayReader:
    """Reads parts of the arrays in an open file.

    A mapped file adds to the memory of the process: up to 2 MB for every byte that is read, where the system keeps files in
    large pages. What is read with this does not.
    """

    def __init__(self, descriptor: int, arrays: Mapping[str, Array], places: Mapping[str, int]) -> None:
        self._descriptor, self._arrays, self._places = descriptor, arrays, places
        # Not when the process ends: other threads may still be reading then.
        finalize(self, os.close, descriptor).atexit = False

    def read(self, name: str, begins: Array, ends: Array) -> Array:
        """Return slices of an array, concatenated; raise `ValueError` if the file is shorter than it was."""
        array, lengths = self._arrays[name], ends - begins
        size = array.itemsize * math.prod(array.shape[1:])
        slices = zip((lengths * size).tolist(), (self._places[name] + begins * size).tolist(), strict=True)
        content = b"".join([os.pread(self._descriptor, length, place) for length, place in slices])
        return np.frombuffer(content, array.dtype).reshape(int(lengths.sum()), *array.shape[1:])


def write_arrays(
    path: Path,
    arrays: Mapping[str, Array],
    *,
    facts: Mapping[str, Any] | None = None,
    full_check: int | None = None,
    checked: Collection[str] = (),
) -> None:
    """Write a file, which gets its name only when it is complete and on disk.

    `full_check` is the size up to which readers check all data; `FULL_CHECK_BYTES` by default. Of larger files they check
    the arrays named in `checked`, or both ends if there are none.
    """
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    places, size = _lay_out(contiguous)
    layout = {name: [array.dtype.str, list(array.shape), places[name]] for name, array in contiguous.items()}
    limit = FULL_CHECK_BYTES if full_check is None else full_check
    ranges = _checked(size, limit)
    if checked and size > limit:
        ranges = [(places[name], places[name] + contiguous[name].nbytes) for name in checked]
    header = json.dumps({"size": size, "checked": ranges, "arrays": layout, "facts": dict(facts or {})}).encode()
    content = [part for array in contiguous.values() for part in _pad(array)]
    head = _HEAD.pack(_MAGIC, len(header), zlib.crc32(header), _check_of(content, ranges)) + header
    # With the process id, because another process may be writing the same file.
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.writelines((head.ljust(_data_start(header), b"\0"), *content))
            file.flush()
            # Before the rename: after a power failure, the name could otherwise lead to a file without its content.
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_arrays(path: Path, *, reader_from: float = float("inf")) -> ArrayFile:
    """Memory-map a file; raise `FileDamaged` if it is damaged, `OSError` if it is missing.

    A file of at least `reader_from` bytes gets a reader.
    """
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size < _HEAD.size:
            raise FileDamaged(path.name)
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            magic, length, header_check, check = _HEAD.unpack_from(content)
            header = content[_HEAD.size : _HEAD.size + length]
            if magic != _MAGIC or zlib.crc32(header) != header_check:
                raise FileDamaged(path.name)
            described = json.loads(header)
            start = _data_start(header)
            if len(content) != start + described["size"] or _check(content, start, described["checked"]) != check:
                raise FileDamaged(path.name)
            arrays = {name: _array(content, start, *of) for name, of in described["arrays"].items()}
            places = {name: start + place for name, (_, _, place) in described["arrays"].items()}
            facts = described["facts"]
        except (ValueError, TypeError, KeyError) as error:
            raise FileDamaged(path.name) from error
        reader = ArrayReader(os.dup(file.fileno()), arrays, places) if len(content) >= reader_from else None
        return ArrayFile(arrays=arrays, facts=facts, reader=reader)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, or raise `FileDamaged`: a link could lead anywhere, and opening a pipe would block."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileDamaged(path.name) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileDamaged(path.name)
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


def _array(content: mmap.mmap, start: int, kind: str, shape: list[int], place: int) -> Array:
    count = int(np.prod(shape))
    return (
        np.frombuffer(content, np.dtype(kind), count, start + place).reshape(shape) if count else np.zeros(shape, kind)
    )


def _pad(array: Array) -> tuple[bytes | memoryview, bytes]:
    """Return the bytes of an array, and the padding before the next one."""
    return array.data.cast("B") if array.size else b"", bytes(_align(array.nbytes) - array.nbytes)


def _checked(size: int, full_check: int) -> list[tuple[int, int]]:
    # Damage in the middle of a large file shows when it is used; the matcher then builds the index anew.
    end = CHECKED_END_BYTES
    return [(0, size)] if size <= max(full_check, 2 * end) else [(0, end), (size - end, size)]


def _check(content: mmap.mmap, start: int, checked: Sequence[Sequence[int]]) -> int:
    check = 0
    with memoryview(content) as view:
        for first, last in checked:
            check = zlib.crc32(view[start + first : start + last], check)
    return check


def _check_of(content: Sequence[bytes | memoryview], checked: Sequence[Sequence[int]]) -> int:
    """Return the checksum of parts that are not in a file yet."""
    check = 0
    for first, last in checked:
        place = 0
        for part in content:
            with memoryview(part) as view:
                check = zlib.crc32(view[max(first - place, 0) : max(last - place, 0)], check)
                place += len(view)
    return check
