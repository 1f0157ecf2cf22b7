"""The sentence encoder of the default install: USE-multilingual v3 in numpy, its weights in a memory-mapped file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prowess.errors import Unavailable
from prowess.match.array_file import FileDamaged, read_arrays
from prowess.match.arrays import offsets_of
from prowess.match.vectors.network import Network, Tokens
from prowess.match.vectors.pieces import Pieces

ENCODER_FILE = Path(__file__).with_name("encoder.bin")
MESSAGE_TOKENS = 256
CARD_TOKENS = 160
"""Of a longer text, the first three quarters of these and the last quarter."""

_BATCH = 256
_RECENT_TEXTS, _LONGEST_RECENT = 128, 4_000
"""How many of the last texts are remembered, and up to which length: a message is often matched more than once."""


class Encoder:
    """A sentence encoder from a file in the package: numpy only, a few milliseconds for a short text, many languages.

    A text has the same row alone and in any batch; see `Network`. Other processors may differ in the last digit.
    """

    def __init__(self, file: Path = ENCODER_FILE) -> None:
        self.pieces, self._network, self._name = _load(file)
        self._recent: dict[str | tuple[str, ...], NDArray[np.int8]] = {}

    @property
    def name(self) -> str:
        """Model, dimensions and digest of the file."""
        return self._name

    @property
    def dimensions(self) -> int:
        """The length of a row."""
        return self._network.dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        """Return one row per text; zeros for a text without words."""
        known = self._recent
        found = [known.get(text) for text in texts]
        missing = list(dict.fromkeys(text for text, row in zip(texts, found, strict=True) if row is None))
        if missing:
            new = dict(zip(missing, self._embed(missing), strict=True))
            found = [new[text] if row is None else row for text, row in zip(texts, found, strict=True)]
            self._remember(new)
        return np.array(found, np.int8).reshape(len(texts), self.dimensions)

    def _remember(self, rows: Mapping[str, NDArray[np.int8]] | Mapping[tuple[str, ...], NDArray[np.int8]]) -> None:
        short = {text: row for text, row in rows.items() if sum(map(len, text)) <= _LONGEST_RECENT}
        # A new dictionary, so that threads that read the old one are not disturbed.
        kept = {**self._recent, **short}
        self._recent = dict(list(kept.items())[-_RECENT_TEXTS:])

    def _embed(self, texts: Sequence[str]) -> NDArray[np.int8]:
        numbers = self.pieces.encode(texts)
        rows = np.zeros((len(texts), self.dimensions), np.int8)
        told = [place for place, some in enumerate(numbers) if some]
        for chosen in _batches(told):
            parts = [Tokens.of([numbers[place]], MESSAGE_TOKENS) for place in chosen]
            rows[chosen] = self._network.embed_messages(parts)
        return rows

    def embed_sentences(self, sentences: Sequence[str]) -> NDArray[np.int8]:
        """Return rows for a message: first one for the whole, then one for each sentence.

        The message is encoded once, so each sentence is read in its context. Zeros for one that is cut away.
        """
        key = tuple(sentences)
        rows = self._recent.get(key)
        if rows is None:
            text = Tokens.of([[], *self.pieces.encode(sentences)], MESSAGE_TOKENS)
            rows = self._network.embed_messages([text])
            rows[1:][[not length for length in text.lengths[3:-1:2]]] = 0
            self._remember({key: rows})
        return rows

    def embed_parts(self, cards: Sequence[Sequence[str]]) -> list[NDArray[np.int8]]:
        """Return rows for each card, a head and its parts: first one for the whole text, then for the head with each part.

        The whole text is encoded once, so each part is read in its context.
        """
        numbers = iter(self.pieces.encode([part for card in cards for part in card]))
        split = [[next(numbers) for _ in card] for card in cards]
        rows = [np.zeros((max(len(card), 1), self.dimensions), np.int8) for card in cards]
        (stop,) = self.pieces.encode(["."])
        told = [place for place, card in enumerate(split) if any(card)]
        for chosen in _batches(told):
            found = self._network.embed_cards([Tokens.of(split[place], CARD_TOKENS, stop) for place in chosen])
            ends = offsets_of([len(rows[place]) for place in chosen]).tolist()
            for place, first, last in zip(chosen, ends, ends[1:], strict=False):
                rows[place] = found[first:last]
        return rows


@cache
def default_encoder() -> Encoder:
    """Return the encoder that ships with Prowess, loaded once."""
    return Encoder()


def _load(file: Path) -> tuple[Pieces, Network, str]:
    try:
        content = read_arrays(file)
        return Pieces(content.arrays), Network(content), str(content.facts["name"])
    except (OSError, FileDamaged, KeyError, ValueError) as error:
        raise Unavailable(
            f"{file.name}, the encoder that ships with Prowess, is missing or damaged", hint="Install Prowess again."
        ) from error


def _batches(places: Sequence[int]) -> Iterator[Sequence[int]]:
    for first in range(0, len(places), _BATCH):
        yield places[first : first + _BATCH]
