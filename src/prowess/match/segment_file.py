"""A segment as a file that is mapped, not read: a header that says where each array lies, then the arrays."""

from __future__ import annotations

import errno
import json
import mmap
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO

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
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            for name, array in arrays.items():
                file.seek(_start(header) + places[name])
                file.write(array.data.cast("B") if array.size else b"")
            file.truncate(_start(header) + size)
            file.flush()
            with temporary.open("rb") as again:
                content = _mapped(again.fileno())
                check = _check(content, _start(header))
            file.seek(0)
            file.write(_HEAD.pack(_MAGIC, len(header), zlib.crc32(header), check) + header)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


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


def _check(content: mmap.mmap, start: int) -> int:
    check = 0
    for stretch in _checked(len(content), start):
        with memoryview(content) as view:
            check = zlib.crc32(view[stretch], check)
    return check


def _checked(size: int, start: int) -> Iterator[slice[Any, Any, Any]]:
    if size - start <= _CHECKED_WHOLE:
        yield slice(start, size)
    else:
        yield slice(start, start + _END)
        yield slice(size - _END, size)
