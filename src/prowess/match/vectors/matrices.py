"""Multiplication with the matrices of the encoder, so that a result depends on nothing but its own row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from prowess.match.arrays import Array

BLOCK_HEIGHT, BLOCK_WIDTH, ROW_UNIT = 320, 64, 4
"""How weights are stored in the file, and what the number of rows in a product is a multiple of."""

_SMALL_PRODUCT = 500_000
_CACHE_LINE = 64

Floats = NDArray[np.float32]


class Product:
    """Multiplication with a matrix, stored as blocks of at most `BLOCK_HEIGHT` rows and `BLOCK_WIDTH` columns.

    Products of blocks are too small for BLAS to start threads, which would take longer than the work. They are also so low
    that BLAS sums each value in one go, in the same order whatever the number of rows, so results do not depend on batches.
    """

    def __init__(self, blocks: Floats) -> None:
        self._blocks = blocks
        _, count, height, width = blocks.shape
        self._tile = _SMALL_PRODUCT // (height * width) // ROW_UNIT * ROW_UNIT
        self.columns = count * width

    def __call__(self, rows: Floats, out: Floats | None = None) -> Floats:
        """Return the product with rows, whose number is a multiple of `ROW_UNIT`."""
        found = np.empty((len(rows), self.columns), np.float32) if out is None else out
        height = self._blocks.shape[2]
        if len(rows) <= self._tile:
            return self._multiply_few(rows, found)
        self._multiply(rows[:, :height], self._blocks[0], found)
        if len(self._blocks) > 1:
            room = np.empty_like(found)
            for part, blocks in enumerate(self._blocks[1:], 1):
                self._multiply(rows[:, part * height : (part + 1) * height], blocks, room)
                found += room
        return found

    def _multiply_few(self, rows: Floats, out: Floats) -> Floats:
        """Multiply with all blocks at once."""
        parts, count, height, width = self._blocks.shape
        room = out[np.newaxis] if parts == 1 else np.empty((parts, *out.shape), np.float32)
        np.matmul(
            rows.reshape(len(rows), parts, 1, height).transpose(1, 2, 0, 3),
            self._blocks,
            out=room.reshape(parts, len(rows), count, width).transpose(0, 2, 1, 3),
        )
        return out if parts == 1 else np.add.reduce(room, axis=0, out=out)

    def _multiply(self, rows: Floats, blocks: Floats, out: Floats) -> None:
        count, height, width = blocks.shape
        tiled = len(rows) // self._tile * self._tile
        for part, tile in ((slice(tiled), self._tile), (slice(tiled, None), len(rows) - tiled)):
            if tile and len(rows[part]):
                np.matmul(
                    rows[part].reshape(1, -1, tile, height),
                    blocks[:, np.newaxis],
                    out=out[part].reshape(-1, tile, count, width).transpose(2, 0, 1, 3),
                )


def read_products(arrays: Mapping[str, Array], names: Sequence[str]) -> dict[str, Product]:
    """Return the matrices by name. All lie in one array, because numpy asks for large pages from 4 MB on.

    Large pages, and matrices that start at a cache line, make a short message a tenth faster: it mostly waits for memory.
    """
    room = np.empty(sum(arrays[name].size for name in names) + _CACHE_LINE, np.float32)
    # The first element that starts a cache line, for which `room` is one line longer than the weights.
    first = -room.__array_interface__["data"][0] % _CACHE_LINE // room.itemsize
    found: dict[str, Product] = {}
    for name in names:
        blocks = room[first : first + arrays[name].size].reshape(arrays[name].shape)
        blocks[:] = arrays[name]
        blocks *= arrays[f"{name}.scale"]
        found[name] = Product(blocks)
        first += blocks.size
    return found
