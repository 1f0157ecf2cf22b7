"""Intent patterns: regular expressions that authors give, run in linear time by RE2 and never by `re`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from prowess.match.segment import Segment
from prowess.match.words import words_of

_TOGETHER = 20_000
"""So many characters of patterns are put together; RE2 has a fixed room for what it looks for at once."""
_SAYING_NOTHING = ("", "qzxjv kqwzx, vxqjz")


def pattern_hits(segment: Segment, message: str) -> dict[int, tuple[str, ...]]:
    """The documents with a pattern that the message fits, and the words that fitted."""
    if not len(segment.patterned):
        return {}
    groups = _KNOWN.get(segment)
    if groups is None:
        groups = _KNOWN[segment] = list(_grouped(segment))
    found: dict[int, tuple[str, ...]] = {}
    text = message.encode("utf-8", "replace").decode()
    for group in groups:
        for document, words in group.hits(text):
            found.setdefault(document, words)
    return found


class _Group:
    """Some patterns put together, so that a message is read once for all of them.

    A pattern that fits no message at all, or one of nonsense, is passed over: it would fit every other as well.
    """

    def __init__(self, engine: Any, patterns: list[tuple[int, str]]) -> None:
        self._filter: Any = engine.Filter()
        self._owners = [document for document, _ in patterns]
        for _, pattern in patterns:
            self._filter.Add(pattern, _options(engine))
        self._filter.Compile()
        self._empty = {place for text in _SAYING_NOTHING for place in self._filter.Match(text) or ()}

    def hits(self, text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The documents whose patterns fit, with the words of the message that fitted."""
        for place in self._filter.Match(text) or ():
            fitted = self._filter.re(place).search(text) if place not in self._empty else None
            if fitted:
                words = words_of(_whole_words(text, *fitted.span()))
                yield self._owners[place], tuple(dict.fromkeys(words))


def _grouped(segment: Segment) -> Iterator[_Group]:
    import re2

    group: list[tuple[int, str]] = []
    size = 0
    for document in segment.patterned.tolist():
        for pattern in segment.shown(document)["patterns"]:
            if size + len(pattern) > _TOGETHER and group:
                yield from _compiled(re2, group)
                group, size = [], 0
            group.append((document, pattern))
            size += len(pattern)
    yield from _compiled(re2, group)


def _compiled(engine: Any, patterns: list[tuple[int, str]]) -> Iterator[_Group]:
    """These patterns in as few groups as they fit in; what RE2 refuses is refused at save, and passed over here."""
    if not patterns:
        return
    try:
        group = _Group(engine, patterns)
    except (engine.error, UnicodeError):
        if len(patterns) > 1:
            half = len(patterns) // 2
            yield from _compiled(engine, patterns[:half])
            yield from _compiled(engine, patterns[half:])
    else:
        yield group


def _options(engine: Any) -> Any:
    options = engine.Options()
    options.log_errors = False
    options.case_sensitive = False
    return options


def _whole_words(text: str, begin: int, end: int) -> str:
    """A stretch of text up to where its words begin and end."""
    while begin and text[begin - 1].isalnum():
        begin -= 1
    while end < len(text) and text[end].isalnum():
        end += 1
    return text[begin:end]


_KNOWN: WeakKeyDictionary[Segment, list[_Group]] = WeakKeyDictionary()
