"""The encoder computes the network its weights belong to, the same for a text alone and in any batch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from prowess.errors import Unavailable
from prowess.match.vectors.embedder import SCALE
from prowess.match.vectors.encoder import CARD_TOKENS, MESSAGE_TOKENS, Encoder
from prowess.match.vectors.network import BRANCHES

from .tiny_encoder import PIECES, SHAPES, WORDS, random_weights, write_encoder


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    return random_weights()


@pytest.fixture
def encoder(encoder_file) -> Encoder:
    return Encoder(encoder_file)


def normalized(rows, gain, shift):
    rows = rows - rows.mean(axis=1, keepdims=True)
    return rows / np.sqrt((rows * rows).mean(axis=1, keepdims=True) + 1e-12) * gain + shift


def token_features(weights, tokens):
    """The features of each token, computed plainly."""
    values = (weights["table"] * weights["scale"].astype(np.float64))[tokens]

    def joined(name):
        return np.concatenate([weights[f"{name}{width}"] for width, _ in BRANCHES], axis=-1)

    projected = normalized(values @ joined("proj") + joined("proj_b"), joined("ln_g"), joined("ln_b"))
    features = [values]
    for branch, (width, left) in enumerate(BRANCHES):
        layer = projected[:, branch * 256 : (branch + 1) * 256]
        for number in (1, 2):
            padded = np.pad(layer, ((left, width - 1 - left), (0, 0)))
            windows = np.concatenate([padded[place : place + len(tokens)] for place in range(width)], axis=1)
            layer = np.maximum(windows @ weights[f"w{number}_{width}"] + weights[f"b{number}_{width}"], 0) + layer
        features.append(layer)
    return normalized(np.concatenate(features, axis=1), weights["ln_g"], weights["ln_b"])


def vector(weights, features):
    """The unit vector of the sum of features, computed plainly."""
    mean = (features.sum(axis=0) @ weights["cnn_W"] + len(features) * weights["cnn_b"]) / np.sqrt(len(features))
    middle = np.maximum(mean @ weights["p1"] + np.maximum(mean @ weights["d0"], 0) @ weights["d1"], 0)
    last = np.tanh(middle @ weights["p3"] + np.maximum(middle @ weights["d2"], 0) @ weights["d3"])
    return last / np.linalg.norm(last)


def numbers(text):
    return [PIECES.index(f"▁{word}") for word in text.split()]


def sentence(seed: int, length: int) -> str:
    return " ".join(np.random.default_rng(seed).choice(WORDS, length))


def test_vectors_are_those_of_the_network(encoder, weights):
    for length in (1, 2, 5, 30, MESSAGE_TOKENS - 2):
        text = sentence(length, length)
        (row,) = encoder.embed([text]) / SCALE
        expected = vector(weights, token_features(weights, [1, *numbers(text), 2]))
        assert row @ expected / np.linalg.norm(row) > 0.995


def test_a_part_is_read_in_the_context_of_its_card(encoder, weights):
    head, first, second = sentence(1, 3), sentence(2, 8), sentence(3, 5)
    (rows,) = encoder.embed_parts([[head, first, second]])
    features = token_features(weights, [1, *numbers(f"{head} . {first} . {second}"), 2])
    around = [0, 1, 2, 3, len(features) - 1]
    for row, tokens in zip(
        rows, ([*range(len(features))], [*around, *range(5, 13)], [*around, *range(14, 19)]), strict=True
    ):
        expected = vector(weights, features[tokens])
        assert row / SCALE @ expected / np.linalg.norm(row / SCALE) > 0.995


def test_a_sentence_is_read_in_the_context_of_its_message(encoder, weights):
    first, second = sentence(2, 8), sentence(3, 5)
    rows = encoder.embed_sentences([first, second])
    assert (rows[0] == encoder.embed([f"{first} {second}"])[0]).all()
    features = token_features(weights, [1, *numbers(f"{first} {second}"), 2])
    for row, tokens in zip(rows[1:], ([0, *range(1, 9), 14], [0, *range(9, 14), 14]), strict=True):
        expected = vector(weights, features[tokens])
        assert row / SCALE @ expected / np.linalg.norm(row / SCALE) > 0.995


def test_a_sentence_beyond_the_limit_resembles_nothing(encoder):
    sentences = [sentence(seed, 20) for seed in range(30)]
    rows = encoder.embed_sentences(sentences)
    assert [bool(row.any()) for row in (rows[1], rows[15], rows[-1])] == [True, False, True]
    assert (encoder.embed_sentences(sentences) == rows).all()


def test_a_text_has_the_same_row_alone_and_in_any_batch(encoder):
    texts = [sentence(seed, 1 + seed * 7 % 150) for seed in range(60)]
    together = encoder.embed(texts)
    assert (together[::-1] == encoder.embed(texts[::-1])).all()
    assert all((encoder.embed([text])[0] == row).all() for text, row in zip(texts, together, strict=True))


def test_a_card_has_the_same_rows_alone_and_in_any_batch(encoder):
    cards = [[sentence(seed, 3), *(sentence(100 * seed + part, 9) for part in range(seed % 7))] for seed in range(50)]
    for card, rows in zip(cards, encoder.embed_parts(cards), strict=True):
        assert (encoder.embed_parts([card])[0] == rows).all()
        assert rows.shape == (len(card), encoder.dimensions)


def test_more_pieces_than_are_remembered_change_nothing(encoder_file):
    texts = [sentence(seed, 40) for seed in range(20)]
    used, fresh = Encoder(encoder_file), Encoder(encoder_file)
    used.embed([sentence(seed, 100) for seed in range(100, 140)])
    assert (used.embed(texts) == fresh.embed(texts)).all()


def test_the_beginning_and_the_end_of_a_long_text_count(encoder):
    words = sentence(5, 1_000).split()
    kept = MESSAGE_TOKENS - MESSAGE_TOKENS // 4 - 1
    shorter = [*words[:kept], *words[kept + 100 :]]
    assert (encoder.embed([" ".join(words)]) == encoder.embed([" ".join(shorter)])).all()
    assert (encoder.embed([" ".join(words)]) != encoder.embed([" ".join(words[:-1])])).any()


def test_a_part_beyond_the_limit_has_the_row_of_the_head(encoder):
    card = [sentence(1, 3), *(sentence(part, 20) for part in range(20))]
    (rows,) = encoder.embed_parts([card])
    assert sum(len(numbers(part)) for part in card) > CARD_TOKENS
    assert (rows[10] == rows[11]).all()
    assert (rows[1] != rows[10]).any()
    assert (rows[-1] != rows[10]).any()


def test_empty_cards_and_parts_are_no_error(encoder):
    rows = encoder.embed_parts([[], [""], ["w1", ""], ["", "w2"]])
    assert [len(some) for some in rows] == [1, 1, 2, 2]
    assert [bool(some.any()) for some in rows] == [False, False, True, True]


def test_many_threads_may_ask_at_once(encoder):
    texts = [sentence(seed, 20) for seed in range(40)]
    expected = encoder.embed(texts)
    with ThreadPoolExecutor(4) as pool:
        assert all((found == expected).all() for found in pool.map(lambda _: encoder.embed(texts), range(8)))


def test_weights_may_be_quantized_before_they_are_packed(weights, encoder, tmp_path):
    quantized = dict(weights)
    for name in SHAPES:
        scale = np.abs(weights[name]).max(axis=0, keepdims=True) / 127
        quantized[name], quantized[f"{name}.scale"] = np.rint(weights[name] / scale).astype(np.int8), scale
    write_encoder(tmp_path / "quantized.bin", quantized)
    text = [sentence(1, 20)]
    assert (Encoder(tmp_path / "quantized.bin").embed(text) == encoder.embed(text)).all()


def test_the_output_may_be_cut_to_its_first_values(weights, encoder_file, tmp_path):
    write_encoder(tmp_path / "short.bin", weights, 128)
    short = Encoder(tmp_path / "short.bin")
    row, longer = short.embed(["w1 w2"])[0].astype(float), Encoder(encoder_file).embed(["w1 w2"])[0][:128].astype(float)
    assert short.dimensions == 128
    assert row @ longer / np.linalg.norm(row) / np.linalg.norm(longer) > 0.99


@pytest.mark.parametrize("damage", [lambda _: b"", lambda content: content[:-1], lambda content: b"x" + content[1:]])
def test_a_damaged_file_is_unavailable_with_a_hint(encoder_file, tmp_path, damage):
    path = tmp_path / "encoder.bin"
    path.write_bytes(damage(encoder_file.read_bytes()))
    with pytest.raises(Unavailable, match=r"encoder\.bin") as caught:
        Encoder(path)
    assert caught.value.hint


def test_a_missing_file_is_unavailable(tmp_path):
    with pytest.raises(Unavailable, match="missing"):
        Encoder(tmp_path / "encoder.bin")


@pytest.fixture(scope="module")
def shipped() -> Encoder:
    return Encoder()


def test_like_is_nearer_than_unlike_in_several_languages(shipped):
    texts = ["cut the end off this video", "trim a clip", "Kürze dieses Video", "剪辑视频", "file my tax return"]
    rows = shipped.embed(texts).astype(np.int32)
    near = rows @ rows.T / SCALE**2
    assert near[0, 1:4].min() > near[0, 4]


@pytest.mark.parametrize(
    "text", ["\ud800 lone", "\x00\x01", "x" * 100_000, "日本語" * 40_000, "a " * 100_000, "<s></s>", "🎉"]
)
def test_no_text_raises(shipped, text):
    (row,) = shipped.embed([text]).astype(np.int32)
    assert 0.97 < np.sqrt(row @ row) / SCALE < 1.03
