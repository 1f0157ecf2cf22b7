"""The file of a static embedding: its pieces, and one vector of small whole numbers for each.

Layout, little-endian: a header (magic, SHA-256 of all that follows it, counts); the pieces as UTF-8, a line each; one
multiplier a piece (`uint8`); zeros up to a multiple of the page size; one row a piece (`int8`). The vector of a piece is
its row times its multiplier, on one scale for all pieces, so that sums of vectors are whole numbers and exact.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Self

import numpy as np

from prowess.errors import Unavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEADER = Struct("<8s32sIII")
_MAGIC = b"PROWVEC1"
_PAGE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What such a file holds. Opened, its rows are mapped: only those that are used are read."""

    pieces: list[str]
    multipliers: NDArray[np.uint8]
    rows: NDArray[np.int8]
    digest: str
    """SHA-256 of the content, in hexadecimal, as the file states it."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Map a file; `Unavailable` where it is missing or is not whole."""
        try:
            with path.open("rb") as file:
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise _damaged(path) from error
        if len(content) < _HEADER.size:
            raise _damaged(path)
        magic, digest, count, dimensions, length = _HEADER.unpack_from(content)
        multipliers = _HEADER.size + length
        start = _next_page(multipliers + count)
        if magic != _MAGIC or len(content) != start + count * dimensions:
            raise _damaged(path)
        pieces = content[_HEADER.size : multipliers].decode("utf-8", "replace").split("\n")
        if len(pieces) != count:
            raise _damaged(path)
        return cls(
            pieces=pieces,
            multipliers=np.frombuffer(content, np.uint8, count, multipliers),
            rows=np.frombuffer(content, np.int8, count * dimensions, start).reshape(count, dimensions),
            digest=digest.hex(),
        )

    @staticmethod
    def file_content(pieces: list[str], multipliers: NDArray[np.uint8], rows: NDArray[np.int8]) -> bytes:
        """The file that holds these; the same for the same, byte by byte."""
        import hashlib  # only whoever makes the file waits for it

        names = "\n".join(pieces).encode("utf-8")
        head = _HEADER.size + len(names) + len(multipliers)
        rest = names + multipliers.tobytes() + bytes(_next_page(head) - head) + rows.tobytes()
        return _HEADER.pack(_MAGIC, hashlib.sha256(rest).digest(), *rows.shape, len(names)) + rest


def _next_page(offset: int) -> int:
    return -(-offset // _PAGE) * _PAGE


def _damaged(path: Path) -> Unavailable:
    return Unavailable(
        f"{path.name}, the vectors that ship with Prowess, is missing or damaged", hint="Install Prowess again."
    )
