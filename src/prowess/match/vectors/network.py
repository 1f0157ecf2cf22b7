"""The network of the encoder: tokens in, vectors out.

A piece has 512 values. Three branches project them to 256, and convolve twice over 2, 3 and 5 neighbours. The normalized
features of all tokens are summed, so the sum of any part of a text costs little more; dense layers turn a sum into a vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from threading import Lock
from typing import Self

import numpy as np
from numpy.typing import NDArray

from prowess.lazy_dataclass import dataclass
from prowess.match.array_file import ArrayFile
from prowess.match.arrays import Array, offsets_of
from prowess.match.vectors.embedder import quantize
from prowess.match.vectors.matrices import BLOCK_WIDTH, ROW_UNIT, Floats, Product, read_products
from prowess.match.vectors.pieces import END, START

EMBEDDED, BRANCH = 512, 256
BRANCHES = ((2, 0), (3, 1), (5, 2))
"""How many neighbours a branch convolves, and how many of them lie to the left."""

_FEATURES = EMBEDDED + BRANCH * len(BRANCHES)
_GAP = 2
"""Empty rows between texts, as many as a convolution reaches to either side."""
_FIRST_BRANCHES = [
    next(branch for branch, (width, left) in enumerate(BRANCHES) if -left <= distance < width - left)
    for distance in range(-_GAP, _GAP + 1)
]
"""The first branch that sees a neighbour at each distance, from left to right; all branches after it do, too."""

_ROWS = 384
"""Rows computed in one go; what more of them take does not fit into the processor's cache."""

_DENSE = ("cnn_W", "d0", "d1", "p1", "d2", "p3", "d3")
_KEPT_BYTES = 4 << 20
"""More than any array of a message takes."""

_MESSAGE_PIECES, _CARD_PIECES = 1_024, 4_096
"""How many pieces' features are kept; each takes 15 kB."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a text, and the lengths of the segments they form: start, head, then separator and part in turn, end."""

    numbers: list[int]
    lengths: list[int]

    @classmethod
    def of(cls, parts: Sequence[list[int]], limit: int, stop: Sequence[int] = ()) -> Self:
        """Return the tokens of a head and parts, with `stop` before each part, cut to the limit."""
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


class Network:
    """The layers; thread-safe."""

    def __init__(self, file: ArrayFile) -> None:
        arrays = file.arrays
        self._eps = np.float32(file.facts["eps"])
        self.dimensions = int(file.facts["dimensions"])
        widths = [width for width, _ in BRANCHES]
        products = read_products(
            arrays, ["proj", *_DENSE, *(f"w1_{width}" for width in widths), *(f"w2_{width}" for width in widths)]
        )
        layers = _PieceLayers(arrays, products, self._eps)
        self._message_pieces = _PieceCache(layers, _MESSAGE_PIECES)
        self._card_pieces = _PieceCache(layers, _CARD_PIECES)
        self._second = [products[f"w2_{width}"] for width, _ in BRANCHES]
        self._second_bias = [arrays[f"b2_{width}"] for width, _ in BRANCHES]
        self._gain, self._shift, self._bias = arrays["ln_g"], arrays["ln_b"], arrays["cnn_b"]
        # OpenBLAS reads ahead in its work memory. Until a larger product has used that memory, this is slow on some
        # processors: all products then take a fifth longer.
        _ = np.zeros((12, 512), np.float32) @ np.zeros((512, BLOCK_WIDTH), np.float32)
        # Until a block of this size has been freed, the C library returns free memory to the system at once. Each long message
        # would then get its memory page by page again, which took a fourth of its time.
        _ = np.empty(_KEPT_BYTES, np.uint8)
        self._dense = {name: products[name] for name in _DENSE}

    def embed_messages(self, texts: Sequence[Tokens]) -> NDArray[np.int8]:
        """Return one row per text."""
        return self._embed(texts, self._message_pieces)

    def embed_cards(self, texts: Sequence[Tokens]) -> NDArray[np.int8]:
        """Return the rows of each text: the whole, and its head with each part."""
        return self._embed(texts, self._card_pieces)

    def _embed(self, texts: Sequence[Tokens], cache: _PieceCache) -> NDArray[np.int8]:
        sums: list[Floats] = []
        counts: list[int] = []
        for group in _groups(texts):
            segments = self._segment_sums(group, cache)
            first = 0
            for text in group:
                last = first + len(text.lengths)
                sums.append(_rows_of(segments[first:last]))
                counts += _counts_of(text.lengths)
                first = last
        return quantize(self._vectors(np.concatenate(sums), np.array(counts, np.float32)))

    def _segment_sums(self, texts: Sequence[Tokens], cache: _PieceCache) -> Floats:
        """Return the sum of normalized features for each segment."""
        places, size = _lay_out(texts)
        pieces = cache.gather(texts, places, size)
        hidden = _relu(pieces.first)
        hidden += pieces.branches
        hidden[pieces.empty] = 0
        features = np.empty_like(hidden)
        for branch, (width, left) in enumerate(BRANCHES):
            columns = slice(branch * BRANCH, (branch + 1) * BRANCH)
            # With empty rows on both sides, so that shifted slices stay inside.
            products = np.empty((size + 2 * _GAP, width * BRANCH), np.float32)
            products[:_GAP] = products[-_GAP:] = 0
            self._second[branch](hidden[:, columns], out=products[_GAP:-_GAP])
            total = features[:, columns]
            np.add(products[_GAP - left :][:size, :BRANCH], self._second_bias[branch], out=total)
            for offset in range(1, width):
                total += products[_GAP + offset - left :][:size, offset * BRANCH : (offset + 1) * BRANCH]
        _relu(features)
        features += hidden
        sums = pieces.sums + features.sum(axis=1)
        squares = pieces.squares + np.einsum("ij,ij->i", features, features)
        means = sums / np.float32(_FEATURES)
        factors = 1 / np.sqrt(squares / np.float32(_FEATURES) - means * means + self._eps)
        means *= factors
        found = np.zeros((sum(len(text.lengths) for text in texts), _FEATURES), np.float32)
        segment = 0
        for text, place in zip(texts, places, strict=True):
            begin = place
            for length in text.lengths:
                if length == 1:
                    # As below, without what it takes to start a sum.
                    np.multiply(pieces.embedded[begin], factors[begin], out=found[segment, :EMBEDDED])
                    np.multiply(features[begin], factors[begin], out=found[segment, EMBEDDED:])
                    found[segment] -= means[begin]
                elif length:
                    own = slice(begin, begin + length)
                    np.einsum("i,ij->j", factors[own], pieces.embedded[own], out=found[segment, :EMBEDDED])
                    np.einsum("i,ij->j", factors[own], features[own], out=found[segment, EMBEDDED:])
                    found[segment] -= means[own].sum()
                begin += length
                segment += 1
        return found

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


@dataclass(frozen=True, slots=True)
class _PieceFeatures:
    """What depends on a piece alone: its values, the projections, and its share in the first convolution of its neighbours."""

    embedded: Floats
    branches: Floats
    shares: list[Floats]
    """One array per distance of the neighbour, from left to right, for the branches that see it."""
    sums: Floats
    squares: Floats

    def at(self, places: slice) -> _PieceFeatures:
        """Return a view of the features of some pieces."""
        shares = [share[places] for share in self.shares]
        return _PieceFeatures(
            self.embedded[places], self.branches[places], shares, self.sums[places], self.squares[places]
        )


class _PieceLayers:
    """Computes the features of pieces."""

    def __init__(self, arrays: Mapping[str, Array], products: Mapping[str, Product], eps: np.float32) -> None:
        self._low, self._high, self._scale = arrays["table_low"], arrays["table_high"], arrays["table_scale"]
        self._eps = eps
        self._project = products["proj"]
        self._first = [products[f"w1_{width}"] for width, _ in BRANCHES]
        self._first_bias = [arrays[f"b1_{width}"] for width, _ in BRANCHES]
        self._bias, self._gain, self._shift = arrays["proj_b"], arrays["proj_g"], arrays["proj_s"]

    def compute(self, numbers: Sequence[int], out: _PieceFeatures) -> None:
        """Compute the features of pieces by their numbers."""
        size = len(numbers)
        rows = np.zeros((_round_up(size, ROW_UNIT), EMBEDDED), np.float32)
        rows[:size] = self._decode(np.array(numbers))
        projected = self._project(rows)
        projected += self._bias
        width = np.float32(projected.shape[1])
        projected -= np.add.reduce(projected, axis=1, keepdims=True) / width
        variances = np.einsum("ij,ij->i", projected, projected) / width
        projected *= (1 / np.sqrt(variances + self._eps))[:, np.newaxis]
        projected *= self._gain
        projected += self._shift
        for branch, (width, left) in enumerate(BRANCHES):
            found = self._first[branch](projected[:, branch * BRANCH : (branch + 1) * BRANCH])
            # A piece is its own neighbour in the middle; adding the bias there saves a step for each token.
            found[:, left * BRANCH : (left + 1) * BRANCH] += self._first_bias[branch]
            for place in range(width):
                distance = _GAP + place - left
                begin = (branch - _FIRST_BRANCHES[distance]) * BRANCH
                share = found[:size, place * BRANCH : (place + 1) * BRANCH]
                out.shares[distance][:, begin : begin + BRANCH] = share
        rows = rows[:size]
        out.embedded[:], out.branches[:] = rows, projected[:size]
        out.sums[:], out.squares[:] = rows.sum(axis=1), np.einsum("ij,ij->i", rows, rows)

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


class _PieceCache:
    """The features of many pieces, computed once for all their occurrences; thread-safe.

    When it is full, the pieces that came first stay: these are mostly the frequent ones.
    """

    def __init__(self, layers: _PieceLayers, size: int) -> None:
        self._layers = layers
        self._size = size
        self._lock = Lock()
        self._slots: dict[int, int] = {}
        # Slot 0 stands for no piece. The operating system provides memory when a slot is first used.
        widths = [(len(BRANCHES) - first) * BRANCH for first in _FIRST_BRANCHES]
        room = [np.zeros((size, width), np.float32) for width in (EMBEDDED, BRANCH * len(BRANCHES), *widths)]
        self._kept = _PieceFeatures(room[0], room[1], room[2:], np.zeros(size, np.float32), np.zeros(size, np.float32))

    def gather(self, texts: Sequence[Tokens], places: Sequence[int], size: int) -> _Gathered:
        """Return the features of each row; the first convolution is the sum of the shares of its neighbours."""
        with self._lock:
            known = self._find(texts)
            padded = np.zeros(size + 2 * _GAP, np.intp)
            for text, place in zip(texts, places, strict=True):
                begin = place + _GAP
                padded[begin : begin + len(text.numbers)] = [known[number] for number in text.numbers]
            first = np.zeros((size, BRANCH * len(BRANCHES)), np.float32)
            for offset, share in enumerate(self._kept.shares):
                first[:, -share.shape[1] :] += share.take(padded[offset : offset + size], axis=0)
            slots = padded[_GAP:-_GAP]
            return _Gathered(
                empty=np.flatnonzero(slots == 0),
                embedded=self._kept.embedded.take(slots, axis=0),
                branches=self._kept.branches.take(slots, axis=0),
                first=first,
                sums=self._kept.sums.take(slots),
                squares=self._kept.squares.take(slots),
            )

    def _find(self, texts: Sequence[Tokens]) -> Mapping[int, int]:
        slots = self._slots
        missing = list(dict.fromkeys([number for text in texts for number in text.numbers if number not in slots]))
        if len(slots) + len(missing) >= self._size:
            numbers = dict.fromkeys(chain.from_iterable(text.numbers for text in texts))
            kept = min(self._size * 3 // 4, self._size - len(numbers) - 1)
            slots = self._slots = dict(islice(slots.items(), kept))
            missing = [number for number in numbers if number not in slots]
        if missing:
            first = len(slots) + 1
            self._layers.compute(missing, out=self._kept.at(slice(first, first + len(missing))))
            slots.update(zip(missing, range(first, first + len(missing)), strict=True))
        return slots


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gathered:
    """The features of pieces by row; empty rows belong to no token."""

    empty: NDArray[np.intp]
    embedded: Floats
    branches: Floats
    first: Floats
    sums: Floats
    squares: Floats


def _groups(texts: Sequence[Tokens]) -> Iterator[list[Tokens]]:
    group: list[Tokens] = []
    rows = 0
    for text in texts:
        needed = len(text.numbers) + _GAP
        if group and rows + needed > _ROWS:
            yield group
            group, rows = [], 0
        group.append(text)
        rows += needed
    yield group


def _lay_out(texts: Sequence[Tokens]) -> tuple[list[int], int]:
    """Return the first row of each text, and the number of rows."""
    places: list[int] = []
    row = 0
    for text in texts:
        places.append(row)
        row += len(text.numbers) + _GAP
    return places, _round_up(row - _GAP, ROW_UNIT)


def _rows_of(segments: Floats) -> Floats:
    """Return the sums for the whole text, and for the head with each part; all include start and end."""
    whole = segments.sum(axis=0, keepdims=True)
    parts = segments[3:-1:2]
    return np.concatenate((whole, segments[0] + segments[1] + segments[-1] + parts)) if len(parts) else whole


def _counts_of(lengths: Sequence[int]) -> list[int]:
    """Return the number of tokens behind each of these sums."""
    around = lengths[0] + lengths[1] + lengths[-1]
    return [sum(lengths), *(around + length for length in lengths[3:-1:2])]


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _relu(rows: Floats) -> Floats:
    return np.maximum(rows, 0, out=rows)
