"""Tokens are estimated from bytes, and never as none where there is text."""

from __future__ import annotations

import pytest

from prowess.session.session import estimate_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("four", 1), ("fives", 2), ("é" * 4, 2), ("中文字", 3), ("日本語 and text", 6), ("\ud800", 1)],
)
def test_four_bytes_are_a_token_and_so_is_an_ideograph(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens
