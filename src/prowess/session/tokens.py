"""How many tokens a text may cost: an estimate that needs no tokenizer, on the safe side for most of them."""

from __future__ import annotations

import re

CHARS_PER_TOKEN = 4

_CJK = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")


def estimate(text: str) -> int:
    """About as many tokens as a model reads: four bytes of UTF-8 each, a character of Chinese, Japanese, Korean one each."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size != len(text):
        size += len(_CJK.findall(text))
    return -(-size // CHARS_PER_TOKEN)


def tokens_of_chars(count: int) -> int:
    """About as many tokens as plain text of that many characters has."""
    return -(-count // CHARS_PER_TOKEN)
