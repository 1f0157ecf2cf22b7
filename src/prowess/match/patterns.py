"""Intent patterns: regular expressions that authors give, run in linear time by RE2 and never by `re`."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from prowess.match.segment import Segment
from prowess.match.words import words_of

LONGEST_MESSAGE = 20_000
MOST_PATTERNS = 64
_SAYING_NOTHING = ("", "qzxjv kqwzx, vxqjz")


def pattern_hits(segment: Segment, message: str) -> dict[int, tuple[str, ...]]:
    """The documents with a pattern that the message fits, and the words that fitted."""
    if not len(segment.patterned):
        return {}
    patterns = _KNOWN.get(segment)
    if patterns is None:
        patterns = _KNOWN[segment] = _Patterns(segment)
    return patterns.hits(message[:LONGEST_MESSAGE])


class _Patterns:
    """All patterns of a segment, put together so that a message is read once for all of them.

    What RE2 refuses is refused when a skill is saved; here it is passed over. So is a pattern that fits no message at all,
    or one of nonsense: it would fit every other as well, and says nothing.
    """

    def __init__(self, segment: Segment) -> None:
        import re2

        engine: Any = re2
        self._options: Any = engine.Options()
        self._options.log_errors = False
        self._options.case_sensitive = False
        self._filter: Any = engine.Filter()
        self._owners: list[int] = []
        for document in segment.patterned.tolist():
            for pattern in segment.shown(document)["patterns"][:MOST_PATTERNS]:
                try:
                    if any(engine.search(pattern, text, self._options) for text in _SAYING_NOTHING):
                        continue
                    self._filter.Add(pattern, self._options)
                except (engine.error, UnicodeError):
                    continue
                self._owners.append(document)
        if self._owners:
            self._filter.Compile()

    def hits(self, message: str) -> dict[int, tuple[str, ...]]:
        """The documents whose patterns fit, with the telling words of what fitted."""
        found: dict[int, tuple[str, ...]] = {}
        text = message.encode("utf-8", "replace").decode()
        places: list[int] = (self._filter.Match(text) or []) if self._owners else []
        for place in places:
            fitted = self._filter.re(place).search(text)
            words = words_of(_whole_words(text, *fitted.span())) if fitted else []
            found.setdefault(self._owners[place], tuple(dict.fromkeys(words)))
        return found


def _whole_words(text: str, begin: int, end: int) -> str:
    """A stretch of text up to where its words begin and end."""
    while begin and text[begin - 1].isalnum():
        begin -= 1
    while end < len(text) and text[end].isalnum():
        end += 1
    return text[begin:end]


_KNOWN: WeakKeyDictionary[Segment, _Patterns] = WeakKeyDictionary()
