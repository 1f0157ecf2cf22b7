"""Words of a text for the peers that leave that to their caller: split, lower-cased, without the empty ones, stemmed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
WORD = re.compile(r"[a-z0-9]+(?:[+#]+(?![a-z0-9]))?")
IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
    a about after again all also am an and any are as at be because been before being below between both but by can
    could did do does doing done during each etc few for from further get had has have having he help her here hers him
    his how i if in into is it its just like make me more most my need needed needs no not of on only or other our out
    over own please same shall she should so some such than that the their theirs them then there these they this those
    through to too under until up us use used uses using very via want wants was we were what when where which while who
    whom why will with would you your yours yourself able
    """,
    )
)

_stemmers: Any = import_module("Stemmer")
stem_words: Callable[[Sequence[str]], list[str]] = _stemmers.Stemmer("english").stemWords


def words_of(text: str) -> list[str]:
    """Every word that carries meaning, in order; all of them where none does. Ideographs come in overlapping pairs."""
    plain = unicodedata.normalize("NFKC", text)
    found = WORD.findall(HUMP.sub(" ", plain).lower())
    kept = [word for word in found if word not in STOP_WORDS] or found
    pairs = [run[at : at + 2] for run in IDEOGRAPHS.findall(plain) for at in range(max(1, len(run) - 1))]
    return kept + pairs
