"""The embedder of the extra `[semantic]`: a sentence model in the ONNX format, run on this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from prowess.errors import Unavailable
from prowess.match.vectors.embedder import quantised, sound
from prowess.match.vectors.model_files import ModelFiles

LONGEST_CHARACTERS = 16_384
LONGEST_TOKENS = 512
"""Only so much of the beginning of a text counts."""

_INSTALL = "Install it: pip install 'prowess[semantic]'"
_OUTPUT = "Give a model whose output is one vector a token, or one a text."
_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})

Vector = Callable[[str], NDArray[np.float64]]


class OnnxEmbedder:
    """A sentence model by its files (`at`) or by its name (`downloaded`).

    Texts go through the model one by one: in a batch, a model of rounded weights gives a text other numbers beside other
    texts, and an index must not depend on what was indexed together. On a processor this is no slower. Models compute in
    floating point, so two kinds of processor may differ in the last digit of a number.
    """

    def __init__(self, identity: str, vector: Vector) -> None:
        self._vector = vector
        self._dimensions = len(self._checked("A text to see how long a vector is."))
        if not self._dimensions:
            raise Unavailable("the sentence model finds no word in a sentence", hint=_OUTPUT)
        self._name = f"{identity}-{self._dimensions}"

    @classmethod
    def at(cls, path: Path) -> Self:
        """The model in a folder with `model.onnx`, or `onnx/model*.onnx`, and `tokenizer.json`; or that file itself.

        Vectors of tokens are averaged, or the first is taken where `1_Pooling/config.json` says so. The name of the
        embedder holds the digests of the files that decide its vectors. Raises `Unavailable` where one of them or the
        library that runs them is missing.
        """
        files = ModelFiles.find(path)
        model = _LocalModel(files)
        return cls(f"onnx:{files.digest()}:{files.pooling}", model)

    @classmethod
    def downloaded(cls, model: str, *, cache: Path | None = None) -> Self:
        """A model that the library `fastembed` knows, downloaded by it where `cache` does not hold it yet."""
        fastembed = _library("fastembed")
        try:
            embedding = fastembed.TextEmbedding(model, cache_dir=None if cache is None else str(cache))
        except Exception as error:
            raise Unavailable(
                f"the model {model!r} cannot be had from fastembed: {error}",
                hint="Choose one that fastembed lists, check the network, or give the path of a folder with the model.",
            ) from error
        return cls(f"fastembed:{fastembed.__version__}:{model}", lambda text: next(iter(embedding.embed([text]))))

    @property
    def name(self) -> str:
        """What decides the vectors, and how long they are."""
        return self._name

    @property
    def dimensions(self) -> int:
        """How many numbers a row has."""
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        """One row a text; zeros for one without a word."""
        rows = np.zeros((len(texts), self._dimensions))
        for row, text in zip(rows, texts, strict=True):
            vector = self._checked(text) if text.strip() else np.zeros(0)
            if len(vector) not in (0, self._dimensions):
                raise Unavailable(
                    f"the sentence model gives {len(vector)} numbers, not {self._dimensions}", hint=_OUTPUT
                )
            row[: len(vector)] = vector
        return quantised(rows)

    def _checked(self, text: str) -> NDArray[np.float64]:
        """The vector of a text, of no length where the model finds nothing in it."""
        try:
            vector = np.asarray(self._vector(sound(text[:LONGEST_CHARACTERS])), dtype=np.float64)
        except Exception as error:
            raise Unavailable(
                f"the sentence model fails: {error}", hint="Is it a model that turns sentences into vectors?"
            ) from error
        if vector.ndim != 1 or not np.isfinite(vector).all():
            raise Unavailable(
                f"the sentence model gives values of the shape {vector.shape} for a text, or some that are not numbers",
                hint=_OUTPUT,
            )
        return vector


class _LocalModel:
    """A model file and its tokenizer, loaded: a text in, its vector out."""

    def __init__(self, files: ModelFiles) -> None:
        runtime = _library("onnxruntime")
        tokenizers = _library("tokenizers")
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(files.tokenizer))
            self._session: Any = runtime.InferenceSession(str(files.model), providers=["CPUExecutionProvider"])
        except Exception as error:
            raise Unavailable(
                f"{files.model.parent.name}/{files.model.name} or its tokenizer.json cannot be loaded: {error}",
                hint="Are the files whole, and of one model?",
            ) from error
        self._tokenizer.enable_truncation(LONGEST_TOKENS)
        self._tokenizer.no_padding()
        self._inputs = {item.name for item in self._session.get_inputs()}
        self._outputs = [item.name for item in self._session.get_outputs()]
        self._first_token = files.pooling == "cls"
        if "input_ids" not in self._inputs or self._inputs - _INPUTS:
            raise Unavailable(
                f"{files.model.name} asks for {', '.join(sorted(self._inputs))}",
                hint="Give a model that reads token ids.",
            )

    def __call__(self, text: str) -> NDArray[np.float64]:
        """The vector, of no length where there is no token; without other texts, nothing is padded."""
        tokens = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        if not tokens.size:
            return np.zeros(0)
        given = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        wanted = "sentence_embedding" if "sentence_embedding" in self._outputs else self._outputs[0]
        ((output,),) = self._session.run([wanted], {name: given[name] for name in self._inputs})
        if output.ndim != 2:
            return output
        return output[0] if self._first_token else output.mean(axis=0, dtype=np.float64)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise Unavailable(
            f"a sentence model needs the library {name}, which is not installed", hint=_INSTALL
        ) from error
