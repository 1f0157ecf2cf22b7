"""A segment as a file that is mapped, not read: a header that says where each array lies, then the arrays."""

from __future__ import annotations

import errno
import json
import mmap
import os
import stat
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import BinaryIO

import numpy as np

from prowess.match.arrays import Array
from prowess.match.segment import Segment

_HEAD = Struct("<8sIII")
_MAGIC = b"PROWIDX1"
_ALIGNED = 64
_CHECKED_WHOLE = 1 << 25
"""A file up to this size is checked to the last byte when it is opened; of a larger one the ends are, and its layout."""
_END = 1 << 20


class Damaged(Exception):
    """The file is not what was written."""


def write_segment(path: Path, segment: Segment) -> None:
    """Write a segment; the file takes its name when it is complete and on disk."""
    arrays = {name: np.ascontiguousarray(array) for name, array in segment.arrays().items()}
    places, size = _laid_out(arrays)
    layout = {name: [array.dtype.str, list(array.shape), places[name]] for name, array in arrays.items()}
    header = json.dumps({"size": size, "arrays": layout}).encode()
    content = [part for array in arrays.values() for part in _padded(array)]
    head = _HEAD.pack(_MAGIC, len(header), zlib.crc32(header), _check_of(content, size)) + header
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.writelines((head.ljust(_start(header), b"\0"), *content))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_segment(path: Path) -> Segment:
    """Map a segment; `Damaged` where it is not whole, `OSError` where it is not there."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size < _HEAD.size:
            raise Damaged(path.name)
        content = _mapped(file.fileno())
    try:
        magic, length, header_check, check = _HEAD.unpack_from(content)
        header = content[_HEAD.size : _HEAD.size + length]
        if magic != _MAGIC or zlib.crc32(header) != header_check:
            raise Damaged(path.name)
        described = json.loads(header)
        start = _start(header)
        if len(content) != start + described["size"] or _check(content, start) != check:
            raise Damaged(path.name)
        return Segment(**{name: _array(content, start, *of) for name, of in described["arrays"].items()})
    except (ValueError, TypeError, KeyError) as error:
        raise Damaged(path.name) from error


def open_regular(path: Path) -> BinaryIO:
    """Open a file that is a file: not a link, nor something that one waits for; `Damaged` where it is not."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Damaged(path.name) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Damaged(path.name)
    return os.fdopen(descriptor, "rb")


def _laid_out(arrays: Mapping[str, Array]) -> tuple[dict[str, int], int]:
    places: dict[str, int] = {}
    end = 0
    for name, array in arrays.items():
        places[name] = end
        end = _aligned(end + array.nbytes)
    return places, end


def _aligned(place: int) -> int:
    return -(-place // _ALIGNED) * _ALIGNED


def _start(header: bytes) -> int:
    return _aligned(_HEAD.size + len(header))


def _mapped(descriptor: int) -> mmap.mmap:
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)


def _array(content: mmap.mmap, start: int, kind: str, shape: list[int], place: int) -> Array:
    count = int(np.prod(shape))
    return (
        np.frombuffer(content, np.dtype(kind), count, start + place).reshape(shape) if count else np.zeros(shape, kind)
    )


def _padded(array: Array) -> tuple[bytes | memoryview, bytes]:
    """The bytes of an array, and those up to where the next one may begin."""
    return array.data.cast("B") if array.size else b"", bytes(_aligned(array.nbytes) - array.nbytes)


def _check(content: mmap.mmap, start: int) -> int:
    check = 0
    with memoryview(content) as view:
        for first, last in _checked(len(content) - start):
            check = zlib.crc32(view[start + first : start + last], check)
    return check


def _check_of(content: Sequence[bytes | memoryview], size: int) -> int:
    """The same, of what is not in a file yet: parts that follow each other."""
    check = 0
    for first, last in _checked(size):
        place = 0
        for part in content:
            with memoryview(part) as view:
                check = zlib.crc32(view[max(first - place, 0) : max(last - place, 0)], check)
                place += len(view)
    return check


def _checked(size: int) -> list[tuple[int, int]]:
    return [(0, size)] if size <= _CHECKED_WHOLE else [(0, _END), (size - _END, size)]
