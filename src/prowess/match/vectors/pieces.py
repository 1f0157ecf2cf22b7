"""Words cut into the pieces that a model knows: byte pair encoding, a word at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prowess.match.vectors.joining import Joining

WORD_START = "▁"
LONGEST_STRETCH = 256
"""A longer word is cut at this many characters first, so that no input takes more than linear time."""

MANY = 10_000
"""From so many new words on they are cut all at once, which takes a table that has to be made first."""
_SOME = 200
"""From so many on if there is that table."""

_REMEMBERED_WORDS = 100_000
_LEARNT_AT_ONCE = 75_000
_NO_PIECE = 1 << 30
_FIRST_BYTE = 3
"""The numbers 3 to 258 stand for single bytes, for characters that are no piece."""


class Pieces:
    """The pieces of a vocabulary in which a piece that was learnt earlier has the lower number.

    Of all neighbours in a word that together are a piece, those with the lowest number are joined, the leftmost first,
    until none are left. No piece holds a word start beyond its first character, so words can be taken one by one.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        self._numbers = dict(zip(pieces, range(len(pieces)), strict=True))
        self._words: dict[str, tuple[int, ...]] = {}
        self._joining: Joining | None = None

    def of(self, word: str) -> tuple[int, ...]:
        """The numbers of the pieces of one word, which holds no space; remembered for the next time."""
        known = self._words.get(word)
        if known is not None:
            return known
        numbers = self._cut(WORD_START + word)
        if len(self._words) >= _REMEMBERED_WORDS:
            self._words.clear()
        if len(word) <= LONGEST_STRETCH:
            self._words[word] = numbers
        return numbers

    def learn(self, words: Iterable[str]) -> None:
        """Remember the pieces of words that will be asked for; of many, in a third of the time that they take alone."""
        known = self._words
        new = [word for word in dict.fromkeys(words) if word and word not in known]
        if len(new) < (MANY if self._joining is None else _SOME):
            return
        new = [WORD_START + word for word in new[:_LEARNT_AT_ONCE]]
        if len(known) + len(new) > _REMEMBERED_WORDS:
            # A new dictionary: another thread may still be reading the old one.
            known = self._words = {}
        for word, numbers in self._joins().cut([word for word in new if word not in self._numbers]):
            known[word.removeprefix(WORD_START)] = numbers

    def of_text(self, text: str, limit: int) -> list[int]:
        """The numbers of the pieces of a text, at most `limit`. Space of any kind and length only parts words."""
        numbers: list[int] = []
        known = self._words.get
        for word in text.split():
            numbers += known(word) or self.of(word)
            if len(numbers) >= limit:
                return numbers[:limit]
        return numbers

    def _joins(self) -> Joining:
        if self._joining is None:
            from prowess.match.vectors.joining import Joining  # only who builds an index waits for it

            self._joining = Joining(self._numbers)
        return self._joining

    def _cut(self, text: str) -> tuple[int, ...]:
        whole = self._numbers.get(text)
        if whole is not None:
            return (whole,)
        numbers: list[int] = []
        for start in range(0, len(text), LONGEST_STRETCH):
            for piece in self._joined(list(text[start : start + LONGEST_STRETCH])):
                number = self._numbers.get(piece)
                if number is None:
                    numbers += (_FIRST_BYTE + byte for byte in piece.encode("utf-8", "replace"))
                else:
                    numbers.append(number)
        return tuple(numbers)

    def _joined(self, parts: list[str]) -> list[str]:
        number = self._numbers.get
        pairs = [number(left + right, _NO_PIECE) for left, right in pairwise(parts)]
        while pairs:
            lowest = min(pairs)
            if lowest == _NO_PIECE:
                break
            at = pairs.index(lowest)
            del pairs[at]
            joined = parts[at] + parts.pop(at + 1)
            parts[at] = joined
            if at < len(pairs):
                pairs[at] = number(joined + parts[at + 1], _NO_PIECE)
            if at:
                pairs[at - 1] = number(parts[at - 1] + joined, _NO_PIECE)
        return parts
