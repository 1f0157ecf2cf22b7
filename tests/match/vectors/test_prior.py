"""What a message alone adds to the score of every skill."""

from __future__ import annotations

import numpy as np
import pytest

from prowess.match.vectors.encoder import default_encoder
from prowess.match.vectors.prior import LARGEST_PRIOR, LEAST_PRIOR, message_prior


def prior(message: str, words: float = 3.0, embedder: str = "") -> float:
    encoder = default_encoder()
    return message_prior(embedder or encoder.name, encoder.embed([message])[0], words)


def test_it_belongs_to_the_shipped_encoder():
    assert prior("put these numbers into a chart for the board") != 0
    assert prior("put these numbers into a chart for the board", embedder="another-512") == 0


@pytest.mark.parametrize("message", ["hello", "你好", "谢谢", "zzzz"])
def test_a_message_of_one_word_is_not_raised(message):
    assert prior(message, words=1.0) <= 0


@pytest.mark.parametrize("message", ["hello", "what time is it", "asdf qwer zxcv", "我想把这些会议记录整理成一份清单"])
def test_it_is_bounded(message):
    assert LEAST_PRIOR <= prior(message) <= LARGEST_PRIOR


def test_a_vector_of_another_length_adds_nothing():
    assert message_prior(default_encoder().name, np.zeros(1, np.int8), 3.0) == 0
