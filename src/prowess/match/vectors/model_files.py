"""Where the files of a local sentence model lie, and what identifies them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from prowess.errors import Unavailable

LARGEST_MODEL = 4 * 1024**3
LARGEST_TOKENIZER = 128 * 1024**2
_LARGEST_CONFIG = 1024**2

Pooling = Literal["mean", "cls"]

_HINT = "Give a folder with model.onnx, or onnx/model*.onnx, and tokenizer.json."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """A model, the numbers it may keep in files of their own, its tokenizer, and how its vectors become one."""

    model: Path
    tokenizer: Path
    external: tuple[Path, ...] = ()
    pooling: Pooling = "mean"

    @classmethod
    def find(cls, path: Path) -> Self:
        """The files below a folder, or around a file `*.onnx`; `Unavailable` where they are missing or far too large."""
        model = _model(path)
        folders = [folder for folder in (path, model.parent, model.parent.parent) if folder.is_dir()]
        tokenizer = _first(folder / "tokenizer.json" for folder in folders)
        if tokenizer is None:
            raise Unavailable(f"there is no tokenizer.json beside {model.name}", hint=_HINT)
        _check_size(model, LARGEST_MODEL)
        _check_size(tokenizer, LARGEST_TOKENIZER)
        external = tuple(file for suffix in ("_data", ".data") if (file := Path(f"{model}{suffix}")).is_file())
        return cls(model=model, tokenizer=tokenizer, external=external, pooling=_pooling(tokenizer.parent))

    def digest(self) -> str:
        """The first 12 digits of the SHA-256 of each file that decides the vectors, the model first."""
        return ":".join(_digest(file)[:12] for file in (self.model, *self.external, self.tokenizer))


def _model(path: Path) -> Path:
    if path.is_file() and path.suffix == ".onnx":
        return path
    found = _first([path / "model.onnx", path / "onnx" / "model.onnx", *sorted(path.glob("onnx/model*.onnx"))])
    if found is None:
        raise Unavailable(f"there is no sentence model at {path}", hint=_HINT)
    return found


def _first(paths: Iterable[Path]) -> Path | None:
    return next((path for path in paths if path.is_file()), None)


def _check_size(file: Path, largest: int) -> None:
    size = file.stat().st_size
    if not 0 < size <= largest:
        raise Unavailable(f"{file.name} has {size:,} bytes; 1 to {largest:,} are read", hint="Is it the right file?")


def _pooling(folder: Path) -> Pooling:
    """What `1_Pooling/config.json` asks for, the custom of sentence models; the mean where it asks for nothing known."""
    file = folder / "1_Pooling" / "config.json"
    try:
        asked: Any = json.loads(file.read_bytes()) if file.stat().st_size <= _LARGEST_CONFIG else {}
        return "cls" if asked["pooling_mode_cls_token"] is True else "mean"
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return "mean"


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
