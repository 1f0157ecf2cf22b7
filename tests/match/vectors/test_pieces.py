"""Texts are cut into the most probable pieces, as SentencePiece cuts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.match.vectors.pieces import LONGEST_TEXT, Pieces

SCORES = {
    "<unk>": 0.0,
    "<s>": 0.0,
    "</s>": 0.0,
    "▁": -3.0,
    "▁the": -5.0,
    "▁make": -9.0,
    "▁t": -8.0,
    "t": -6.0,
    "h": -6.5,
    "e": -6.0,
    "he": -7.0,
    "▁video": -12.0,
    "s": -4.0,
    "é": -9.0,
    "翻譯": -10.0,
    "～": -9.0,
}
NAMES = list(SCORES)


@pytest.fixture(scope="module")
def pieces() -> Pieces:
    return Pieces(Pieces.table(NAMES, list(SCORES.values())))


def cut(pieces: Pieces, text: str) -> list[str]:
    (numbers,) = pieces.encode([text])
    return [NAMES[number] for number in numbers]


def test_the_most_probable_pieces_are_chosen(pieces):
    assert cut(pieces, "the videos") == ["▁the", "▁video", "s"]
    assert cut(pieces, "thet") == ["▁the", "t"]
    assert cut(pieces, "th") == ["▁t", "h"]


def test_pieces_do_not_reach_over_the_end_of_a_word(pieces):
    assert cut(pieces, "t he") == ["▁t", "▁", "he"]


def test_adjacent_unknown_characters_are_one_unknown_piece(pieces):
    assert cut(pieces, "xyzt") == ["▁", "<unk>", "t"]
    assert cut(pieces, "x y") == ["▁", "<unk>", "▁", "<unk>"]


def test_text_is_normalized_as_the_model_was_trained(pieces):
    assert cut(pieces, " the\n\t\u200bthe\u3000the▁the\ufeff") == ["▁the"] * 4
    assert cut(pieces, "ｔｈｅ e\u0301 ～") == ["▁the", "▁", "é", "▁", "～"]


def test_text_without_words_has_no_pieces(pieces):
    assert pieces.encode(["", " \n ", "▁"]) == [[], [], []]


def test_known_words_are_those_with_a_piece_of_their_own(pieces):
    words = ["the", "video", "videos", "t", "s", "", "x" * 50]
    assert [word for word, known in zip(words, pieces.know(words), strict=True) if known] == ["the", "video", "t"]


def test_rare_words_weigh_more_than_everyday_ones(pieces):
    assert pieces.weight(["the", "make", "video", "翻譯", "zebra"]).tolist() == [0, 500, 1000, 667, 1000]


def test_no_words_have_no_weights(pieces):
    assert pieces.weight([]).shape == (0,)


@given(st.lists(st.text()))
def test_texts_are_cut_alike_alone_and_together(pieces, texts):
    assert pieces.encode(texts) == [pieces.encode([text])[0] for text in texts]


def test_the_beginning_and_the_end_of_a_very_long_text_count(pieces):
    found = cut(pieces, "the " * LONGEST_TEXT + "video")
    assert len(found) < LONGEST_TEXT
    assert found[0] == "▁the"
    assert found[-1] == "▁video"


def test_remembered_words_are_bounded(pieces):
    fresh = Pieces(Pieces.table(NAMES, list(SCORES.values())))
    fresh.encode([f"t{number}" for number in range(30_000)])
    assert len(fresh._words) <= 20_000
    assert fresh.encode(["the"]) == pieces.encode(["the"])
