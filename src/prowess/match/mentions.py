"""Skills that a message points at directly: by slug (`consistency-checker`, `/review`, `$review`), or by an intent pattern.

Intent patterns are regular expressions by skill authors. RE2 runs them in linear time; `re` is never used for them,
because it took more than 3 seconds for one hostile pattern on 29 characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from prowess.match.lexicon import hash_word
from prowess.match.segment import Segment
from prowess.match.words import LONGEST_WORD, extract_words, split_words

# The conditions before and after exclude parts of paths, URLs, e-mail addresses and longer words.
_COMPOUND_SLUG = re.compile(r"(?<![\w./@-])[a-z0-9]+(?:[-.][a-z0-9]+)+(?![\w@]|-\w|\.\w|/)")
_MARKED_SLUG = re.compile(r"(?<![\w/.:])[/$]([a-z0-9]+(?:[-.][a-z0-9]+)*)(?![\w/]|\.\w)")
_MAX_SLUGS = 5_000
_FEW_SLUGS = 20


def find_mentioned(segment: Segment, message: str) -> list[int]:
    """Return the documents whose slug is in the message: slugs of several words, or any slug after `/` or `$`."""
    named = _find_slugs(message)
    if not named:
        return []
    numbers = np.array([hash_word(slug) for slug in named], np.uint64)
    if len(numbers) > _FEW_SLUGS:
        there = np.isin(segment.slugs, numbers)
    else:
        # For a few numbers, one comparison each is far faster than `np.isin`, which sorts.
        there = np.logical_or.reduce([segment.slugs == number for number in numbers])
    return [place for place in np.flatnonzero(there).tolist() if segment.shown(place)["slug"] in named]


def contains_phrase(message: str, phrase: str) -> bool:
    """Return True if the message contains a phrase of at least two words, word for word."""
    said = _normalize_message(message)
    first = phrase.split(None, 1)[0] if phrase.strip() else ""
    # Most phrases end here: splitting all of them into words took a twentieth of a match.
    is_one_word = first.isascii() and first.isalnum() and (first.islower() or first[1:].islower())
    if is_one_word and f" {first[:LONGEST_WORD].lower()} " not in said:
        return False
    words = _normalize_phrase(phrase)
    return " " in words.strip() and words in said


def _normalize(text: str) -> str:
    # The spaces at both ends make a search for a phrase match whole words only.
    return f" {' '.join(split_words(text))} "


_normalize_message = lru_cache(maxsize=16)(_normalize)
_normalize_phrase = lru_cache(maxsize=4_096)(_normalize)


@lru_cache(maxsize=16)
def _find_slugs(message: str) -> frozenset[str]:
    """Return everything in the message that looks like a slug."""
    text = message.lower()
    compound = _COMPOUND_SLUG.findall(text) if "-" in text or "." in text else []
    marked = _MARKED_SLUG.findall(text) if "/" in text or "$" in text else []
    return frozenset(sorted({*compound, *marked})[:_MAX_SLUGS])


_GROUP_CHARACTERS = 20_000
"""The size of a group: RE2 has a fixed memory budget per set of patterns."""
_NONSENSE = ("", "qzxjv kqwzx, vxqjz")


def match_patterns(segment: Segment, message: str) -> dict[int, tuple[str, ...]]:
    """Return the documents with a pattern that matches the message, and the matching words."""
    if not len(segment.patterned):
        return {}
    groups = _GROUPS.get(segment)
    if groups is None:
        groups = _GROUPS[segment] = list(_group_patterns(segment))
    found: dict[int, tuple[str, ...]] = {}
    # RE2 reads UTF-8, which has no lone surrogates.
    text = message.encode("utf-8", "replace").decode()
    for group in groups:
        for document, words in group.hits(text):
            found.setdefault(document, words)
    return found


class _PatternGroup:
    """Patterns that are matched in one pass over the message.

    A pattern that matches the empty text or nonsense is ignored: it would match every message.
    """

    def __init__(self, engine: Any, patterns: list[tuple[int, str]]) -> None:
        self._filter: Any = engine.Filter()
        self._owners = [document for document, _ in patterns]
        for _, pattern in patterns:
            self._filter.Add(pattern, _re2_options(engine))
        self._filter.Compile()
        self._empty = {place for text in _NONSENSE for place in self._filter.Match(text) or ()}

    def hits(self, text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the documents whose patterns match, with the matching words."""
        for place in self._filter.Match(text) or ():
            fitted = self._filter.re(place).search(text) if place not in self._empty else None
            if fitted:
                words = extract_words(_widen_to_words(text, *fitted.span()))
                yield self._owners[place], tuple(dict.fromkeys(words))


def _group_patterns(segment: Segment) -> Iterator[_PatternGroup]:
    import re2

    group: list[tuple[int, str]] = []
    size = 0
    for document in segment.patterned.tolist():
        for pattern in segment.shown(document)["patterns"]:
            if size + len(pattern) > _GROUP_CHARACTERS and group:
                yield from _compile_groups(re2, group)
                group, size = [], 0
            group.append((document, pattern))
            size += len(pattern)
    yield from _compile_groups(re2, group)


def _compile_groups(engine: Any, patterns: list[tuple[int, str]]) -> Iterator[_PatternGroup]:
    """Compile the patterns in as few groups as possible; those that RE2 rejects (saving rejects them, too) are ignored."""
    if not patterns:
        return
    try:
        group = _PatternGroup(engine, patterns)
    except (engine.error, UnicodeError):
        if len(patterns) > 1:
            half = len(patterns) // 2
            yield from _compile_groups(engine, patterns[:half])
            yield from _compile_groups(engine, patterns[half:])
    else:
        yield group


def _re2_options(engine: Any) -> Any:
    options = engine.Options()
    options.log_errors = False
    options.case_sensitive = False
    return options


def _widen_to_words(text: str, begin: int, end: int) -> str:
    """Return a part of the text, extended to whole words."""
    while begin and text[begin - 1].isalnum():
        begin -= 1
    while end < len(text) and text[end].isalnum():
        end += 1
    return text[begin:end]


# Compiled once per segment, and dropped with it.
_GROUPS: WeakKeyDictionary[Segment, list[_PatternGroup]] = WeakKeyDictionary()
