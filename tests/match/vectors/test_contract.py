"""What every embedder promises, held by each of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from prowess.match.vectors.embedder import SCALE, Embedder, embed_sentences, quantize
from prowess.match.vectors.encoder import Encoder, default_encoder
from prowess.match.vectors.endpoint import EndpointEmbedder
from prowess.match.vectors.onnx import OnnxEmbedder

TEXTS = ["cats", "dogs and cats", "taxes", "", "cats", " \n\t"]


@pytest.fixture(params=["default", "encoder", "onnx", "endpoint"])
def embedder(request) -> Embedder:
    if request.param == "default":
        return default_encoder()
    if request.param == "encoder":
        return Encoder(request.getfixturevalue("encoder_file"))
    if request.param == "onnx":
        return OnnxEmbedder.at(request.getfixturevalue("sentence_model")())
    return EndpointEmbedder(request.getfixturevalue("embedding_server").url, "tiny")


def test_one_row_a_text_with_the_dimensions_it_states(embedder):
    rows = embedder.embed(TEXTS)
    assert rows.dtype == np.int8
    assert rows.shape == (len(TEXTS), embedder.dimensions)


def test_an_integer_dot_product_is_the_cosine(embedder):
    rows = embedder.embed(TEXTS).astype(np.int32)
    assert np.abs((rows * rows).sum(axis=1)[[0, 1, 2, 4]] / SCALE**2 - 1).max() < 0.03


def test_a_text_without_a_word_is_near_nothing(embedder):
    assert not embedder.embed(TEXTS)[[3, 5]].any()


def test_a_row_depends_on_its_text_alone(embedder):
    rows = embedder.embed(TEXTS)
    assert (rows[0] == rows[4]).all()
    assert (rows[2] == embedder.embed([TEXTS[2]])[0]).all()


def test_a_message_has_its_own_row_and_one_for_each_sentence(embedder):
    rows = embed_sentences(embedder, ["cats", "dogs and cats"])
    assert rows.shape == (3, embedder.dimensions)
    assert (rows[0] == embedder.embed(["cats dogs and cats"])[0]).all()
    assert rows[1:].any(axis=1).all()


def test_no_texts_give_no_rows(embedder):
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def test_the_name_is_stable_and_tells_models_apart(embedder):
    before = embedder.name
    embedder.embed(TEXTS)
    assert embedder.name == before
    assert len(before.split(":")) > 1


@pytest.mark.parametrize("text", ["\ud800", "\x00", "word " * 5_000, "x" * 50_000, "日本", "🎉"])
def test_no_text_raises_by_what_it_says(embedder, text):
    assert embedder.embed([text]).shape == (1, embedder.dimensions)


def test_many_threads_may_ask_at_once(embedder):
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: embedder.embed(TEXTS).tobytes(), range(12)))
    assert set(results) == {embedder.embed(TEXTS).tobytes()}


def test_any_finite_numbers_are_brought_to_length_one():
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1e300, 1e300], [-1e-300, 0.0]])
    assert quantize(rows).tolist() == [[76, 102], [0, 0], [90, 90], [-127, 0]]
