"""The embedder of the extra `[semantic]`: a sentence model in ONNX format, run on this machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from prowess.errors import Unavailable
from prowess.match.vectors.embedder import quantize, remove_surrogates

LARGEST_MODEL = 4 * 1024**3
LARGEST_TOKENIZER = 128 * 1024**2
_LARGEST_CONFIG = 1024**2

Pooling = Literal["mean", "cls"]

_FILES_HINT = "Give a folder with model.onnx, or onnx/model*.onnx, and tokenizer.json."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The files of a model: the model, its external weights, its tokenizer, and the pooling."""

    model: Path
    tokenizer: Path
    external: tuple[Path, ...] = ()
    pooling: Pooling = "mean"

    @classmethod
    def find(cls, path: Path) -> Self:
        """Return the files in a folder or next to a `*.onnx` file, or raise `Unavailable` if they are missing or too large."""
        model = _find_model(path)
        folders = [folder for folder in (path, model.parent, model.parent.parent) if folder.is_dir()]
        tokenizer = _first_file(folder / "tokenizer.json" for folder in folders)
        if tokenizer is None:
            raise Unavailable(f"tokenizer.json is missing next to {model.name}", hint=_FILES_HINT)
        _check_size(model, LARGEST_MODEL)
        _check_size(tokenizer, LARGEST_TOKENIZER)
        # A model of more than 2 GB, the limit of its file format, keeps its weights in a file next to it.
        external = tuple(file for suffix in ("_data", ".data") if (file := Path(f"{model}{suffix}")).is_file())
        return cls(model=model, tokenizer=tokenizer, external=external, pooling=_read_pooling(tokenizer.parent))

    def digest(self) -> str:
        """Return the first 12 digits of the SHA-256 of each file that affects the vectors, the model first."""
        return ":".join(_digest(file)[:12] for file in (self.model, *self.external, self.tokenizer))


def _find_model(path: Path) -> Path:
    if path.is_file() and path.suffix == ".onnx":
        return path
    found = _first_file([path / "model.onnx", path / "onnx" / "model.onnx", *sorted(path.glob("onnx/model*.onnx"))])
    if found is None:
        raise Unavailable(f"no sentence model found at {path}", hint=_FILES_HINT)
    return found


def _first_file(paths: Iterable[Path]) -> Path | None:
    return next((path for path in paths if path.is_file()), None)


def _check_size(file: Path, largest: int) -> None:
    size = file.stat().st_size
    if not 0 < size <= largest:
        raise Unavailable(
            f"{file.name} has {size:,} bytes; the limit is {largest:,}", hint="Check that it is the right file."
        )


def _read_pooling(folder: Path) -> Pooling:
    """Return the pooling from `1_Pooling/config.json`, the convention of sentence models; the default is the mean."""
    file = folder / "1_Pooling" / "config.json"
    try:
        asked: Any = json.loads(file.read_bytes()) if file.stat().st_size <= _LARGEST_CONFIG else {}
        return "cls" if asked["pooling_mode_cls_token"] is True else "mean"
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return "mean"


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


LONGEST_CHARACTERS = 16_384
LONGEST_TOKENS = 512
"""Only the beginning of a text counts."""

_INSTALL_HINT = "Install it: pip install 'prowess[semantic]'"
_OUTPUT_HINT = "Use a model that outputs one vector per token, or one per text."
_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})

Vector = Callable[[str], NDArray[np.float64]]


class OnnxEmbedder:
    """A sentence model, by its files (`at`) or by its name (`downloaded`).

    Texts are embedded one by one: in a batch, a quantized model gives a text different numbers depending on the other
    texts, and an index must not depend on what was indexed together. On a CPU this is not slower. Models compute in
    floating point, so different processors may differ in the last digit.
    """

    def __init__(self, identity: str, vector: Vector) -> None:
        self._vector = vector
        self._dimensions = len(self._checked("A text to see how long a vector is."))
        if not self._dimensions:
            raise Unavailable("the sentence model returns nothing for a sentence", hint=_OUTPUT_HINT)
        self._name = f"{identity}-{self._dimensions}"

    @classmethod
    def at(cls, path: Path) -> Self:
        """Return the model in a folder with `model.onnx` or `onnx/model*.onnx`, and `tokenizer.json`; or of that file.

        Token vectors are averaged, or the first is used if `1_Pooling/config.json` says so. The embedder's name contains
        the digests of the files that affect its vectors. Raise `Unavailable` if a file or the library is missing.
        """
        files = ModelFiles.find(path)
        model = _LocalModel(files)
        return cls(f"onnx:{files.digest()}:{files.pooling}", model)

    @classmethod
    def downloaded(cls, model: str, *, cache: Path | None = None) -> Self:
        """Return a model that the library `fastembed` knows; it is downloaded unless `cache` has it."""
        fastembed = _import_library("fastembed")
        try:
            embedding = fastembed.TextEmbedding(model, cache_dir=None if cache is None else str(cache))
        except Exception as error:
            raise Unavailable(
                f"fastembed cannot load the model {model!r}: {error}",
                hint="Choose a model that fastembed lists, check the network, or use the path of a folder with the model.",
            ) from error
        return cls(f"fastembed:{fastembed.__version__}:{model}", lambda text: next(iter(embedding.embed([text]))))

    @property
    def name(self) -> str:
        """Everything that affects the vectors, and their length."""
        return self._name

    @property
    def dimensions(self) -> int:
        """The length of a row."""
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        """Return one row per text; zeros for a text without words."""
        rows = np.zeros((len(texts), self._dimensions))
        for row, text in zip(rows, texts, strict=True):
            vector = self._checked(text) if text.strip() else np.zeros(0)
            if len(vector) not in (0, self._dimensions):
                raise Unavailable(
                    f"the sentence model returned {len(vector)} numbers instead of {self._dimensions}",
                    hint=_OUTPUT_HINT,
                )
            row[: len(vector)] = vector
        return quantize(rows)

    def _checked(self, text: str) -> NDArray[np.float64]:
        """Return the vector of a text, or zeros if the model finds nothing in it."""
        try:
            vector = np.asarray(self._vector(remove_surrogates(text[:LONGEST_CHARACTERS])), dtype=np.float64)
        except Exception as error:
            raise Unavailable(
                f"the sentence model failed: {error}", hint="Use a model that turns sentences into vectors."
            ) from error
        if vector.ndim != 1 or not np.isfinite(vector).all():
            raise Unavailable(
                f"the sentence model returned values of shape {vector.shape} for a text, or values that are not numbers",
                hint=_OUTPUT_HINT,
            )
        return vector


class _LocalModel:
    """A loaded model and its tokenizer."""

    def __init__(self, files: ModelFiles) -> None:
        runtime = _import_library("onnxruntime")
        tokenizers = _import_library("tokenizers")
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(files.tokenizer))
            self._session: Any = runtime.InferenceSession(str(files.model), providers=["CPUExecutionProvider"])
        except Exception as error:
            raise Unavailable(
                f"{files.model.parent.name}/{files.model.name} or its tokenizer.json cannot be loaded: {error}",
                hint="Check that the files are complete and belong to the same model.",
            ) from error
        self._tokenizer.enable_truncation(LONGEST_TOKENS)
        self._tokenizer.no_padding()
        self._inputs = {item.name for item in self._session.get_inputs()}
        self._outputs = [item.name for item in self._session.get_outputs()]
        self._first_token = files.pooling == "cls"
        if "input_ids" not in self._inputs or self._inputs - _INPUTS:
            raise Unavailable(
                f"{files.model.name} requires the inputs {', '.join(sorted(self._inputs))}",
                hint="Use a model that reads token ids.",
            )

    def __call__(self, text: str) -> NDArray[np.float64]:
        """Return the vector of a text, or zeros without tokens; a single text needs no padding."""
        tokens = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        if not tokens.size:
            return np.zeros(0)
        given = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        wanted = "sentence_embedding" if "sentence_embedding" in self._outputs else self._outputs[0]
        ((output,),) = self._session.run([wanted], {name: given[name] for name in self._inputs})
        if output.ndim != 2:
            return output
        return output[0] if self._first_token else output.mean(axis=0, dtype=np.float64)


def _import_library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise Unavailable(
            f"a sentence model needs the library {name}, which is not installed", hint=_INSTALL_HINT
        ) from error
