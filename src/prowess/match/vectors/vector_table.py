"""Tables of card vectors, as they lie in files, and where in them the vectors of a segment's documents are."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prowess.match.array_file import ArrayReader, FileDamaged, read_arrays, write_arrays
from prowess.match.arrays import Array, expand_slices, offsets_of

_FORMAT = 1
_ARRAYS = ("keys", "starts", "days", "rows", "codes")
_FULL_CHECK_BYTES = 1 << 19
UNMAPPED_BYTES = 1 << 26
"""From this size on, the rows that a match needs are read from the file. A thousand messages need nearly all rows: of 100,000
cards they would take 360 MB if they were mapped. Reading them takes 4 % of the time of such a match."""
_SECONDS_PER_DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VectorTable:
    """The vectors of some cards."""

    keys: Array  # the two halves of each card's key, as two rows; cards are in ascending order of their keys
    starts: Array  # cards → rows, with the end of the last
    days: Array  # the day since 1970 on which each card was last known to be in use
    rows: Array  # int8: of each card, the whole text first, then its parts
    codes: Array  # the signs of the rows as bits: a row per 64 dimensions, a column per row of `rows`
    check: int
    """The checksum of `rows`."""
    reader: ArrayReader | None = None
    """Reads the rows and codes of a large file."""

    @property
    def size(self) -> int:
        """The number of cards."""
        return self.keys.shape[1]

    @property
    def is_intact(self) -> bool:
        """True if the rows are as they were written; reads all of them."""
        return zlib.crc32(self.rows.data) == self.check

    def take_rows(self, begins: Array, counts: Array) -> NDArray[np.int8]:
        """Return slices of `rows`, concatenated."""
        if self.reader is not None:
            return self.reader.read("rows", begins, begins + counts)
        return self.rows.take(expand_slices(begins, begins + counts)[0], axis=0)

    def code_lines(self) -> Iterator[NDArray[np.uint64]]:
        """Yield the rows of `codes`."""
        for line in range(len(self.codes)):
            if self.reader is not None:
                yield self.reader.read("codes", np.array([line]), np.array([line + 1]))[0]
            else:
                yield self.codes[line]

    def find(self, keys: Array) -> NDArray[np.int64]:
        """Return the position of each key, given as rows of two halves; -1 for those that are not here."""
        if not self.size:
            return np.full(len(keys), -1, np.int64)
        places = np.searchsorted(self.keys[0], keys[:, 0]).astype(np.int64)
        while True:
            # The first halves of two keys may be the same: continue to the next as long as only the second halves differ.
            inside = np.minimum(places, self.size - 1)
            same = (places < self.size) & (self.keys[0, inside] == keys[:, 0])
            if not same.any():
                return np.full(len(keys), -1, np.int64)
            other = same & (self.keys[1, inside] != keys[:, 1])
            if not other.any():
                return np.where(same, places, -1)
            places += other


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorRows:
    """Where the vectors of some documents are. The first row of a document is its whole card; its parts follow."""

    tables: tuple[VectorTable, ...]
    table: NDArray[np.int16]
    """The table of each document, -1 if it has no vectors."""
    first: NDArray[np.int64]
    """Its first row in that table, -1 if it has no vectors."""
    count: NDArray[np.int64]
    """The number of its rows, 0 if it has no vectors."""
    missing: NDArray[np.bool_]
    """The documents whose vectors are not computed yet; a document without a card needs none."""

    @property
    def dimensions(self) -> int:
        """The length of a row; 0 if there is none."""
        return self.tables[0].rows.shape[1] if self.tables else 0

    def take(self, documents: Array) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        """Return the rows of some documents, concatenated, and where those of each start, with the end of the last."""
        starts = offsets_of(self.count[documents])
        tables = self.table[documents]
        if len(documents) and (tables == tables[0]).all():
            return self.tables[int(tables[0])].take_rows(self.first[documents], self.count[documents]), starts
        rows = np.empty((int(starts[-1]), self.dimensions), np.int8)
        for table, chosen in self._by_table(documents):
            target, _ = expand_slices(starts[chosen], starts[chosen + 1])
            rows[target] = table.take_rows(self.first[documents[chosen]], self.count[documents[chosen]])
        return rows, starts

    @cached_property
    def absent(self) -> NDArray[np.int64]:
        """The documents without vectors."""
        return np.flatnonzero(self.first < 0)

    @cached_property
    def codes(self) -> NDArray[np.uint64]:
        """The sign codes of whole cards: a row per 64 dimensions, a column per document; zeros without vectors."""
        found = np.zeros((-(-self.dimensions // 64), len(self.first)), np.uint64)
        for table, chosen in self._by_table(np.arange(len(self.first))):
            for number, codes in enumerate(table.code_lines()):
                found[number, chosen] = codes.take(self.first[chosen])
        return found

    def _by_table(self, documents: Array) -> Iterator[tuple[VectorTable, Array]]:
        """Yield each table with the positions, among the given documents, of those whose rows it has."""
        of = self.table[documents]
        for number, table in enumerate(self.tables):
            chosen = np.flatnonzero(of == number)
            if len(chosen):
                yield table, chosen


def find_rows(tables: tuple[VectorTable, ...], keys: Array) -> VectorRows:
    """Return where the vectors of documents are, by the rows of their keys; zeros stand for no card."""
    table, first = np.full(len(keys), -1, np.int16), np.full(len(keys), -1, np.int64)
    count = np.zeros(len(keys), np.int64)
    missing: NDArray[np.bool_] = np.any(keys, axis=1)
    # In the order of the keys, in which they are found several times as fast.
    left = np.argsort(keys[:, 0]) if tables else np.zeros(0, np.int64)
    for number, one in enumerate(tables):
        left = left[missing[left]]
        if not len(left):
            break
        places = one.find(keys[left])
        found, places = left[places >= 0], places[places >= 0]
        table[found] = number
        first[found], count[found] = one.starts[places], one.starts[places + 1] - one.starts[places]
        missing[found] = False
    # Only the tables that are used: another one may go without a lookup of these documents in all tables again.
    used: list[int] = np.bincount(table + 1, minlength=1)[1:].nonzero()[0].tolist()
    place = np.full(len(tables) + 1, -1, np.int16)  # the last one for -1, which stays
    place[used] = np.arange(len(used))
    return VectorRows(
        tables=tuple(tables[number] for number in used),
        table=place[table],
        first=first,
        count=count,
        missing=missing,
    )


def sign_codes(rows: NDArray[np.int8]) -> NDArray[np.uint64]:
    """Return the signs of vectors as bits: a row per 64 dimensions, a column per vector."""
    signs = rows > 0
    if rows.shape[1] % 64:
        signs = np.pad(signs, ((0, 0), (0, -rows.shape[1] % 64)))
    return np.ascontiguousarray(np.packbits(signs, axis=1, bitorder="little").view("<u8").T)


def build_table(keys: Array, vectors: Sequence[NDArray[np.int8]]) -> VectorTable:
    """Return a table of distinct cards, given the rows of their keys in any order, and the vectors of each."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    ordered: list[NDArray[np.int8]] = [vectors[place] for place in order]
    rows = np.concatenate(ordered)
    return VectorTable(
        keys=np.ascontiguousarray(keys[order].T),
        starts=offsets_of(list(map(len, ordered))),
        days=np.full(len(keys), current_day(), np.uint16),
        rows=rows,
        codes=sign_codes(rows),
        check=zlib.crc32(rows.data),
    )


def merge_tables(tables: Sequence[VectorTable], chosen: Sequence[NDArray[np.bool_]] | None = None) -> VectorTable:
    """Return one table with all cards, or the chosen ones of each table; of several with the same key, one is kept."""
    masks = chosen or [np.ones(table.size, np.bool_) for table in tables]
    keys = np.concatenate([table.keys[:, mask] for table, mask in zip(tables, masks, strict=True)], axis=1)
    days = np.concatenate([table.days[mask] for table, mask in zip(tables, masks, strict=True)])
    shifts = offsets_of([len(table.rows) for table in tables])[:-1]
    begins, ends = (
        np.concatenate(
            [table.starts[side][mask] + shift for table, mask, shift in zip(tables, masks, shifts, strict=True)]
        )
        for side in (slice(None, -1), slice(1, None))
    )
    # The latest day first, so that it is the one that is kept.
    order = np.lexsort((-days.astype(np.int64), keys[1], keys[0]))
    ordered = keys[:, order]
    order = order[np.append(True, (ordered[:, 1:] != ordered[:, :-1]).any(axis=0))[: len(order)]]
    source, starts = expand_slices(begins[order], ends[order])
    rows = np.concatenate([table.rows for table in tables]).take(source, axis=0)
    codes = np.concatenate([table.codes for table in tables], axis=1).take(source, axis=1)
    return VectorTable(
        keys=np.ascontiguousarray(keys[:, order]),
        starts=np.append(starts, len(source)).astype(np.int64),
        days=days[order],
        rows=rows,
        codes=codes,
        check=zlib.crc32(rows.data),
    )


def write_table(path: Path, table: VectorTable, embedder: str) -> None:
    """Write a table that an embedder made; the file gets its name only when it is complete and on disk."""
    facts = {"format": _FORMAT, "embedder": embedder, "check": table.check}
    # Reading all rows would take longer than a match. They are checked when files are merged; until then, damage to a row
    # ranks one skill wrongly and does nothing else.
    arrays = {name: getattr(table, name) for name in _ARRAYS}
    write_arrays(path, arrays, facts=facts, full_check=_FULL_CHECK_BYTES, checked=("keys", "starts", "days"))


def read_table(path: Path, embedder: str, dimensions: int) -> VectorTable:
    """Memory-map a table; raise `FileDamaged` if it is not an intact one of this embedder, `OSError` if it is missing."""
    file = read_arrays(path, reader_from=UNMAPPED_BYTES)
    try:
        if (file.facts["format"], file.facts["embedder"]) != (_FORMAT, embedder):
            raise FileDamaged(path.name)
        arrays = {name: file.arrays[name] for name in _ARRAYS}
        table = VectorTable(**arrays, check=file.facts["check"], reader=file.reader)
        if not _is_sound(table, dimensions):
            raise FileDamaged(path.name)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FileDamaged(path.name) from error
    return table


def _is_sound(table: VectorTable, dimensions: int) -> bool:
    """Return True if the arrays fit together, so that no lookup can lead outside of them."""
    count, height = table.size, len(table.rows)
    types = [getattr(table, name).dtype.str for name in _ARRAYS]
    shapes = [getattr(table, name).shape for name in _ARRAYS]
    width = -(-dimensions // 64)
    return (
        types == ["<u8", "<i8", "<u2", "|i1", "<u8"]
        and shapes == [(2, count), (count + 1,), (count,), (height, dimensions), (width, height)]
        and bool(table.starts[0] == 0 and table.starts[-1] == height and (np.diff(table.starts) > 0).all())
        and bool((table.keys[0, 1:] >= table.keys[0, :-1]).all())
    )


def current_day() -> int:
    """Return the number of days since 1970."""
    return int(time.time() // _SECONDS_PER_DAY)
