"""The sentence encoder of the default install: the convolutional network of USE-multilingual v3, in numpy.

A piece has 512 values. Three branches project them to 256, and convolve twice over 2, 3 and 5 neighbours. The normalized
features of all tokens are summed, so the sum of any part of a text costs little more; dense layers turn a sum into a vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from prowess.errors import Unavailable
from prowess.match.array_file import ArrayFile, FileDamaged, read_arrays
from prowess.match.arrays import Array, offsets_of
from prowess.match.vectors.embedder import quantize
from prowess.match.vectors.pieces import END, START, Pieces

ENCODER_FILE = Path(__file__).with_name("encoder.bin")
MESSAGE_TOKENS = 128
CARD_TOKENS = 160
"""Of a longer text, the first three quarters of these and the last quarter."""

EMBEDDED, BRANCH = 512, 256
BRANCHES = ((2, 0), (3, 1), (5, 2))
"""How many neighbours a branch convolves, and how many of them lie to the left."""

_FEATURES = EMBEDDED + BRANCH * len(BRANCHES)
_OFFSETS = sum(width for width, _ in BRANCHES)
_GAP = 2
"""Empty rows between texts, as many as a convolution reaches to either side."""

BLOCK_HEIGHT, BLOCK_WIDTH, ROW_UNIT = 320, 64, 4
_SMALL_PRODUCT = 500_000
_ROWS = 192
"""Rows computed in one go: more would leave the processor's cache."""

_CARDS = 256
_SLOTS, _KEPT_SLOTS = 2_048, 1_024

Floats = NDArray[np.float32]


class Encoder:
    """A sentence encoder from a file in the package: numpy only, a few milliseconds for a short text, many languages.

    A text's row is the same alone and in any batch: products have fixed shapes, and all else is computed row by row. Other
    processors may differ in the last digit.
    """

    def __init__(self, file: Path = ENCODER_FILE) -> None:
        self.pieces, self._network, self._name = _load(file)

    @property
    def name(self) -> str:
        """Model, dimensions and digest of the file."""
        return self._name

    @property
    def dimensions(self) -> int:
        """The length of a row."""
        return self._network.dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        """Return one row per text; zeros for a text without words."""
        numbers = self.pieces.encode(texts)
        rows = np.zeros((len(texts), self.dimensions), np.int8)
        told = [place for place, some in enumerate(numbers) if some]
        for chosen in _batches(told):
            parts = [_Tokens.of([numbers[place]], MESSAGE_TOKENS) for place in chosen]
            rows[chosen] = self._network.embed(parts)
        return rows

    def embed_parts(self, cards: Sequence[Sequence[str]]) -> list[NDArray[np.int8]]:
        """Return rows for each card, a head and its parts: first one for the whole text, then for the head with each part.

        The whole text is encoded once, so each part is read in its context.
        """
        numbers = iter(self.pieces.encode([part for card in cards for part in card]))
        split = [[next(numbers) for _ in card] for card in cards]
        rows = [np.zeros((max(len(card), 1), self.dimensions), np.int8) for card in cards]
        (stop,) = self.pieces.encode(["."])
        told = [place for place, card in enumerate(split) if any(card)]
        for chosen in _batches(told):
            found = self._network.embed([_Tokens.of(split[place], CARD_TOKENS, stop) for place in chosen])
            ends = offsets_of([len(rows[place]) for place in chosen]).tolist()
            for place, first, last in zip(chosen, ends, ends[1:], strict=False):
                rows[place] = found[first:last]
        return rows


@dataclass(frozen=True, slots=True)
class _Tokens:
    """The tokens of a text, and the lengths of the segments they form: start, head, then separator and part in turn, end."""

    numbers: list[int]
    lengths: list[int]

    @classmethod
    def of(cls, parts: Sequence[list[int]], limit: int, stop: Sequence[int] = ()) -> _Tokens:
        segments: list[Sequence[int]] = [(START,), parts[0]]
        for part in parts[1:]:
            segments += (stop, part)
        segments.append((END,))
        numbers = list(chain.from_iterable(segments))
        lengths = [len(segment) for segment in segments]
        if len(numbers) <= limit:
            return cls(numbers, lengths)
        first = limit - limit // 4
        last = len(numbers) - limit // 4
        ends = offsets_of(lengths)
        # The removed middle shortens each segment by what it shares with it.
        removed = np.clip(ends, first, last) - first
        return cls(numbers[:first] + numbers[last:], (lengths - np.diff(removed)).tolist())


class _Product:
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
        self._multiply(rows[:, :height], self._blocks[0], found)
        if len(self._blocks) > 1:
            room = np.empty_like(found)
            for part, blocks in enumerate(self._blocks[1:], 1):
                self._multiply(rows[:, part * height : (part + 1) * height], blocks, room)
                found += room
        return found

    def _multiply(self, rows: Floats, blocks: Floats, out: Floats) -> None:
        count, height, width = blocks.shape
        tiled = len(rows) // self._tile * self._tile
        for part, tile in ((slice(tiled), self._tile), (slice(tiled, None), len(rows) - tiled)):
            if tile and len(rows[part]):
                np.matmul(
                    rows[part].reshape(-1, 1, tile, height),
                    blocks,
                    out=out[part].reshape(-1, tile, count, width).transpose(0, 2, 1, 3),
                )


class _Network:
    def __init__(self, file: ArrayFile) -> None:
        arrays = file.arrays
        self._eps = np.float32(file.facts["eps"])
        self.dimensions = int(file.facts["dimensions"])
        self._features = _PieceFeatures(arrays, self._eps)
        self._second = [_product(arrays, f"w2_{width}") for width, _ in BRANCHES]
        self._first_bias = [arrays[f"b1_{width}"] for width, _ in BRANCHES]
        self._second_bias = [arrays[f"b2_{width}"] for width, _ in BRANCHES]
        self._gain, self._shift, self._bias = arrays["ln_g"], arrays["ln_b"], arrays["cnn_b"]
        self._dense = {name: _product(arrays, name) for name in ("cnn_W", "d0", "d1", "p1", "d2", "p3", "d3")}

    def embed(self, texts: Sequence[_Tokens]) -> NDArray[np.int8]:
        """Return the rows of each text: the whole, and its head with each part."""
        sums: list[Floats] = []
        counts: list[Floats] = []
        for group in _groups(texts):
            segments, lengths = self._segment_sums(group)
            first = 0
            for text in group:
                last = first + len(text.lengths)
                own, sizes = segments[first:last], lengths[first:last]
                sums.append(_rows_of(own))
                counts.append(_rows_of(sizes[:, np.newaxis])[:, 0])
                first = last
        return quantize(self._vectors(np.concatenate(sums), np.concatenate(counts)))

    def _segment_sums(self, texts: Sequence[_Tokens]) -> tuple[Floats, Floats]:
        """Return the sum of normalized features for each segment, and the number of its tokens."""
        places, size = _lay_out(texts)
        slots, embedded, first, branches, sums, squares = self._features.gather(texts, places, size)
        empty = np.flatnonzero(slots == 0)
        features = np.empty((size, BRANCH * len(BRANCHES)), np.float32)
        for branch, (width, left) in enumerate(BRANCHES):
            columns = slice(branch * BRANCH, (branch + 1) * BRANCH)
            hidden = first[branch]
            hidden += self._first_bias[branch]
            np.maximum(hidden, 0, out=hidden)
            hidden += branches[:, columns]
            hidden[empty] = 0
            # With empty rows on both sides, so that shifted slices stay inside.
            products = np.empty((size + 2 * _GAP, width * BRANCH), np.float32)
            products[:_GAP] = products[-_GAP:] = 0
            self._second[branch](hidden, out=products[_GAP:-_GAP])
            total = np.add(products[_GAP - left :][:size, :BRANCH], self._second_bias[branch])
            for offset in range(1, width):
                total += products[_GAP + offset - left :][:size, offset * BRANCH : (offset + 1) * BRANCH]
            np.maximum(total, 0, out=total)
            np.add(total, hidden, out=features[:, columns])
        sums += features.sum(axis=1)
        squares += np.einsum("ij,ij->i", features, features)
        means = sums / np.float32(_FEATURES)
        factors = 1 / np.sqrt(squares / np.float32(_FEATURES) - means * means + self._eps)
        means *= factors
        lengths = [length for text in texts for length in text.lengths]
        found = np.zeros((len(lengths), _FEATURES), np.float32)
        segment = 0
        for text, place in zip(texts, places, strict=True):
            begin = place
            for length in text.lengths:
                if length:
                    own = slice(begin, begin + length)
                    np.einsum("i,ij->j", factors[own], embedded[own], out=found[segment, :EMBEDDED])
                    np.einsum("i,ij->j", factors[own], features[own], out=found[segment, EMBEDDED:])
                    found[segment] -= means[own].sum()
                begin += length
                segment += 1
        return found, np.array(lengths, np.float32)

    def _vectors(self, sums: Floats, counts: Floats) -> Floats:
        size = len(sums)
        rows = np.zeros((_round_up(size, ROW_UNIT), _FEATURES), np.float32)
        rows[:size] = sums
        rows[:size] *= self._gain
        rows[:size] += counts[:, np.newaxis] * self._shift
        dense = self._dense
        mean = dense["cnn_W"](rows)
        mean[:size] += counts[:, np.newaxis] * self._bias
        mean[:size] *= (1 / np.sqrt(counts))[:, np.newaxis]
        inner = _relu(dense["d0"](mean))
        middle = dense["p1"](mean)
        middle += dense["d1"](inner)
        _relu(middle)
        last = dense["p3"](middle)
        last += dense["d3"](_relu(dense["d2"](middle)))
        return np.tanh(last[:size], out=last[:size])


class _PieceFeatures:
    """What depends on a piece alone: its values, the projections, and its share in the first convolution.

    Computed once for all its occurrences, and kept for the pieces that came first, which are mostly frequent ones.
    """

    def __init__(self, arrays: Mapping[str, Array], eps: np.float32) -> None:
        self._low, self._high, self._scale = arrays["table_low"], arrays["table_high"], arrays["table_scale"]
        self._eps = eps
        self._project = _product(arrays, "proj")
        self._first = [_product(arrays, f"w1_{width}") for width, _ in BRANCHES]
        self._bias, self._gain, self._shift = arrays["proj_b"], arrays["proj_g"], arrays["proj_s"]
        self._lock = Lock()
        self._slots: dict[int, int] = {}
        # Slot 0 stands for no piece. Memory is taken when a slot is first used.
        self._embedded = np.zeros((_SLOTS, EMBEDDED), np.float32)
        self._branches = np.zeros((_SLOTS, BRANCH * len(BRANCHES)), np.float32)
        self._shares = np.zeros((_OFFSETS, _SLOTS, BRANCH), np.float32)
        self._sums = np.zeros(_SLOTS, np.float32)
        self._squares = np.zeros(_SLOTS, np.float32)

    def gather(
        self, texts: Sequence[_Tokens], places: Sequence[int], size: int
    ) -> tuple[NDArray[np.intp], Floats, list[Floats], Floats, Floats, Floats]:
        """Return the slot of each row and its features; the first convolution is the sum of its neighbours' shares."""
        with self._lock:
            known = self._find(dict.fromkeys(chain.from_iterable(text.numbers for text in texts)))
            padded = np.zeros(size + 2 * _GAP, np.intp)
            for text, place in zip(texts, places, strict=True):
                begin = place + _GAP
                padded[begin : begin + len(text.numbers)] = [known[number] for number in text.numbers]
            first: list[Floats] = []
            share = 0
            room = np.empty((size, BRANCH), np.float32)
            for width, left in BRANCHES:
                total = self._shares[share].take(padded[_GAP - left : _GAP - left + size], axis=0)
                for offset in range(1, width):
                    begin = _GAP + offset - left
                    self._shares[share + offset].take(padded[begin : begin + size], axis=0, out=room, mode="clip")
                    total += room
                first.append(total)
                share += width
            slots = padded[_GAP:-_GAP]
            embedded, branches = self._embedded.take(slots, axis=0), self._branches.take(slots, axis=0)
            return slots, embedded, first, branches, self._sums[slots], self._squares[slots]

    def _find(self, numbers: Mapping[int, None]) -> Mapping[int, int]:
        slots = self._slots
        missing = [number for number in numbers if number not in slots]
        if len(slots) + len(missing) >= _SLOTS:
            slots = self._slots = {number: slot for number, slot in slots.items() if slot < _KEPT_SLOTS}
            missing = [number for number in numbers if number not in slots]
        if missing:
            first = len(slots) + 1
            self._compute(np.array(missing), first)
            slots.update(zip(missing, range(first, first + len(missing)), strict=True))
        return slots

    def _compute(self, numbers: NDArray[np.int64], first: int) -> None:
        size = len(numbers)
        rows = np.zeros((_round_up(size, ROW_UNIT), EMBEDDED), np.float32)
        rows[:size] = self._decode(numbers)
        projected = self._project(rows)
        projected += self._bias
        projected -= projected.mean(axis=1, keepdims=True)
        variances = np.einsum("ij,ij->i", projected, projected) / np.float32(projected.shape[1])
        projected *= (1 / np.sqrt(variances + self._eps))[:, np.newaxis]
        projected *= self._gain
        projected += self._shift
        own = slice(first, first + size)
        self._embedded[own] = rows[:size]
        self._branches[own] = projected[:size]
        self._sums[own] = rows[:size].sum(axis=1)
        self._squares[own] = np.einsum("ij,ij->i", rows[:size], rows[:size])
        share = 0
        for branch, (width, _) in enumerate(BRANCHES):
            part = np.ascontiguousarray(projected[:, branch * BRANCH : (branch + 1) * BRANCH])
            found = self._first[branch](part)
            for offset in range(width):
                self._shares[share + offset, own] = found[:size, offset * BRANCH : (offset + 1) * BRANCH]
            share += width

    def _decode(self, numbers: NDArray[np.int64]) -> Floats:
        """Return rows of the table, whose values have 5 bits: four in one array, the highest in another."""
        low = self._low[numbers]
        values = np.unpackbits(self._high[numbers], axis=1)
        values <<= 4
        half = EMBEDDED // 2
        values[:, :half] |= low & 15
        values[:, half:] |= low >> 4
        rows = values.astype(np.float32)
        rows -= 16
        rows *= self._scale[numbers].astype(np.float32)[:, np.newaxis]
        return rows


def _load(file: Path) -> tuple[Pieces, _Network, str]:
    try:
        content = read_arrays(file)
        return Pieces(content.arrays), _Network(content), str(content.facts["name"])
    except (OSError, FileDamaged, KeyError, ValueError) as error:
        raise Unavailable(
            f"{file.name}, the encoder that ships with Prowess, is missing or damaged", hint="Install Prowess again."
        ) from error


def _product(arrays: Mapping[str, Array], name: str) -> _Product:
    blocks = arrays[name].astype(np.float32)
    blocks *= arrays[f"{name}.scale"]
    return _Product(blocks)


def _batches(places: Sequence[int]) -> Iterator[Sequence[int]]:
    for first in range(0, len(places), _CARDS):
        yield places[first : first + _CARDS]


def _groups(texts: Sequence[_Tokens]) -> Iterator[list[_Tokens]]:
    group: list[_Tokens] = []
    rows = 0
    for text in texts:
        needed = len(text.numbers) + _GAP
        if group and rows + needed > _ROWS:
            yield group
            group, rows = [], 0
        group.append(text)
        rows += needed
    yield group


def _lay_out(texts: Sequence[_Tokens]) -> tuple[list[int], int]:
    """Return the first row of each text, and the number of rows."""
    places: list[int] = []
    row = 0
    for text in texts:
        places.append(row)
        row += len(text.numbers) + _GAP
    return places, _round_up(row - _GAP, ROW_UNIT)


def _rows_of(segments: Floats) -> Floats:
    """Return the sums for the whole text, and for the head with each part; all include start and end."""
    parts = segments[3:-1:2]
    around = segments[0] + segments[1] + segments[-1]
    return np.concatenate((segments.sum(axis=0, keepdims=True), around + parts))


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _relu(rows: Floats) -> Floats:
    return np.maximum(rows, 0, out=rows)
