"""A sentence model from a folder gives its vectors; what is missing or wrong is told with what to do."""

from __future__ import annotations

import builtins
import hashlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from prowess.errors import Unavailable
from prowess.match.vectors.onnx import ModelFiles, OnnxEmbedder

NOTHING_LEFT = '{"type": "Replace", "pattern": {"Regex": "."}, "content": ""}'


def test_vectors_of_tokens_are_averaged(sentence_model):
    embedder = OnnxEmbedder.at(sentence_model())
    rows = embedder.embed(["cats taxes", "cats", "cats dogs taxes unheard"])
    assert embedder.dimensions == 3
    assert rows[0].tolist() == [0, 127, 0]
    assert rows[1].tolist() == [127, 0, 0]
    assert rows[2].tolist() == [62, 92, 62]


def test_many_texts_of_many_lengths_come_in_their_order(sentence_model):
    embedder = OnnxEmbedder.at(sentence_model())
    texts = [("cats " if number % 3 else "taxes ") * (1 + number * 7 % 11) for number in range(100)]
    rows = embedder.embed(texts)
    assert [row[0] > 0 for row in rows.tolist()] == [bool(number % 3) for number in range(100)]


@pytest.mark.parametrize("name", ["model.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx"])
def test_the_model_is_found_where_models_lie(sentence_model, name):
    folder = sentence_model(name)
    assert OnnxEmbedder.at(folder).embed(["cats"]).tolist() == [[127, 0, 0]]
    assert OnnxEmbedder.at(folder / name).name == OnnxEmbedder.at(folder).name


@pytest.mark.parametrize(
    "inputs",
    [
        ("input_ids",),
        ("input_ids", "attention_mask"),
        ("input_ids", "attention_mask", "token_type_ids"),
    ],
)
def test_a_model_is_given_what_it_asks_for(sentence_model, inputs):
    assert OnnxEmbedder.at(sentence_model(inputs=inputs)).embed(["dogs"]).tolist() == [[114, 57, 0]]


def test_a_model_that_gives_one_vector_a_text_is_taken_at_its_word(sentence_model):
    assert OnnxEmbedder.at(sentence_model(pool=True)).embed(["cats taxes"]).tolist() == [[0, 127, 0]]


def test_the_first_token_counts_where_the_pooling_says_so(sentence_model):
    folder = sentence_model()
    mean = OnnxEmbedder.at(folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    first = OnnxEmbedder.at(folder)
    assert first.embed(["cats taxes"]).tolist() == [[127, 0, 0]]
    assert first.name != mean.name


@pytest.mark.parametrize("content", ["", "[", "[]", "null", "{}", '{"pooling_mode_cls_token": "yes"}'])
def test_a_pooling_that_says_nothing_known_means_the_mean(sentence_model, content):
    folder = sentence_model()
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(content)
    assert ModelFiles.find(folder).pooling == "mean"


def test_the_name_holds_the_digest_of_the_model_and_follows_every_file_that_decides(sentence_model):
    folder = sentence_model()
    digest = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()[:12]
    names = {OnnxEmbedder.at(folder).name}
    assert f"onnx:{digest}:" in next(iter(names))
    (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text() + "\n")
    names.add(OnnxEmbedder.at(folder).name)
    (folder / "model.onnx_data").write_bytes(b"numbers that the model keeps apart")
    names.add(OnnxEmbedder.at(folder).name)
    assert len(names) == 3


def test_a_long_text_is_cut(sentence_model):
    embedder = OnnxEmbedder.at(sentence_model())
    assert embedder.embed(["cats " * 512 + "taxes " * 2_000]).tolist() == [[127, 0, 0]]


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_named(sentence_model, missing):
    folder = sentence_model()
    (folder / missing).unlink()
    with pytest.raises(Unavailable) as caught:
        OnnxEmbedder.at(folder)
    assert missing in caught.value.message + caught.value.hint


@pytest.mark.parametrize("broken", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"this is neither"])
def test_a_broken_file_is_unavailable(sentence_model, broken, content):
    folder = sentence_model()
    (folder / broken).write_bytes(content)
    with pytest.raises(Unavailable) as caught:
        OnnxEmbedder.at(folder)
    assert caught.value.hint


def test_a_model_that_asks_for_something_else_is_unavailable(sentence_model):
    with pytest.raises(Unavailable, match="pixels"):
        OnnxEmbedder.at(sentence_model(inputs=("input_ids", "pixels")))


def test_a_model_that_gives_no_numbers_is_unavailable(sentence_model):
    with pytest.raises(Unavailable, match="not numbers"):
        OnnxEmbedder.at(sentence_model(vectors=np.full((5, 3), np.nan)))


def test_a_model_that_fails_on_a_text_is_unavailable(sentence_model):
    folder = sentence_model(vectors=np.ones((2, 3)))
    embedder = OnnxEmbedder.at(folder)
    with pytest.raises(Unavailable, match="failed"):
        embedder.embed(["taxes"])


def test_a_model_whose_vectors_have_no_fixed_length_is_unavailable(sentence_model):
    embedder = OnnxEmbedder.at(sentence_model(pool=True, axis=2))
    with pytest.raises(Unavailable, match="returned 2 numbers"):
        embedder.embed(["cats dogs"])


def test_a_tokenizer_that_finds_no_word_in_a_sentence_is_unavailable(sentence_model):
    folder = sentence_model()
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"normalizer": null', '"normalizer": ' + NOTHING_LEFT))
    with pytest.raises(Unavailable, match="returns nothing"):
        OnnxEmbedder.at(folder)


@pytest.mark.parametrize("library", ["onnxruntime", "tokenizers", "fastembed"])
def test_without_the_extra_the_install_line_is_told(sentence_model, monkeypatch, library):
    folder = sentence_model()
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(Unavailable, match=library) as caught:
        OnnxEmbedder.downloaded("any/model") if library == "fastembed" else OnnxEmbedder.at(folder)
    assert "pip install 'prowess[semantic]'" in caught.value.hint


def test_a_model_that_cannot_be_downloaded_is_unavailable_with_a_way_out(monkeypatch):
    def no_source(name, cache_dir):
        raise ValueError(f"Could not load model {name} from any source.")

    monkeypatch.setitem(sys.modules, "fastembed", SimpleNamespace(TextEmbedding=no_source, __version__="1"))
    with pytest.raises(Unavailable, match="any source") as caught:
        OnnxEmbedder.downloaded("some/model")
    assert "path of a folder" in caught.value.hint


def test_a_downloaded_model_is_run_by_fastembed(monkeypatch, tmp_path):
    class TextEmbedding:
        def __init__(self, name, cache_dir):
            assert (name, cache_dir) == ("some/model", str(tmp_path))

        def embed(self, texts):
            return (np.array([len(text), 0.0, 0.0]) for text in texts)

    monkeypatch.setitem(sys.modules, "fastembed", SimpleNamespace(TextEmbedding=TextEmbedding, __version__="1.2"))
    embedder = OnnxEmbedder.downloaded("some/model", cache=tmp_path)
    assert embedder.name == "fastembed:1.2:some/model-3"
    assert embedder.embed(["one", " "]).tolist() == [[127, 0, 0], [0, 0, 0]]


def test_nothing_heavy_is_imported_before_a_model_is_asked_for(monkeypatch):
    real = builtins.__import__
    for name in [name for name in sys.modules if name.startswith("prowess.match.vectors")]:
        monkeypatch.delitem(sys.modules, name)

    def watching(name, *rest, **kwargs):
        assert name.split(".")[0] not in ("onnxruntime", "tokenizers", "fastembed", "torch")
        return real(name, *rest, **kwargs)

    monkeypatch.setattr(builtins, "__import__", watching)
    import prowess.match.vectors.onnx  # noqa: F401
