"""A message prepared for ranking: its words, their weights, and likely meanings of unknown words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from prowess.errors import Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.match.arrays import Array, find_sorted
from prowess.match.index import Index
from prowess.match.lexicon import (
    LONGEST_HASHED,
    Word,
    find_common_words,
    hash_neighbours,
    hash_word,
    shared_lexicon,
)
from prowess.match.request import Request, read_request, remove_invisible, unwrap
from prowess.match.sentences import split_sentences
from prowess.match.spelling import correct
from prowess.match.vectors.embedder import embed_sentences, quantize
from prowess.match.vectors.pieces import FULL_WEIGHT
from prowess.match.vectors.prior import message_prior
from prowess.match.words import extract_words

MAX_MEANINGS = 3
_MAX_KEPT_MEANINGS = 20_000
_SHORTEST_WORD = 4
_SHORTEST_COMPOUND = 9
_VERSIONED = re.compile(r"([a-z]{3,})[0-9]+")
_PLURAL = re.compile(r"([b-df-hj-np-tv-xz]{2,})s")
_LINKS = ("", "s", "es", "n", "en", "e")
"""The linking letters in German compounds."""


def find_meanings(index: Index, words: Sequence[str]) -> dict[str, list[Word]]:
    """Return up to three known words that each of these unknown words may mean, most likely first."""
    # People repeat their words, and an index never changes.
    known = index.meanings
    new = [word for word in words if word not in known]
    may_be_errors = [
        word for word in new if _SHORTEST_WORD <= len(word) <= LONGEST_HASHED and word.isascii() and word.isalpha()
    ]
    # A correct word that no skill uses is not a typing error.
    common = find_common_words(may_be_errors)
    found = {word: _find_meanings(index, word) for word in may_be_errors if word not in common}
    for word in new:
        if (plain := _plain_form(word)) and (named := _find_known(index, _hash_array([plain]))):
            found[word] = named
    if new and len(known) < _MAX_KEPT_MEANINGS:
        known.update((word, found.get(word, [])) for word in new)
    return {word: found.get(word) or known.get(word, []) for word in words}


def _find_meanings(index: Index, word: str) -> list[Word]:
    # A word of the same length (one letter wrong, or two swapped) is the likelier meaning.
    same, other = hash_neighbours(word)
    cuts = _compound_cuts(word)
    # Most words have no meaning, so one search for everything comes first.
    is_known = _contains(index, np.concatenate((same, other, _hash_array([word[cut:] for cut in cuts]))))
    if not is_known.any():
        return []
    ends = (len(same), len(same) + len(other))
    found = _find_known(index, same[is_known[: ends[0]]])
    if len(found) < MAX_MEANINGS:
        more = _find_known(index, other[is_known[ends[0] : ends[1]]])
        found += [meaning for meaning in more if meaning.term not in {known.term for known in found}]
    return found[:MAX_MEANINGS] or _split_compound(index, word, compress(cuts, is_known[ends[1] :].tolist()))


def _plain_form(word: str) -> str:
    """Return the name in a word such as `react19` or `pdfs`, or '': stemmers know neither versions nor plurals without a vowel."""
    found = _VERSIONED.fullmatch(word) or _PLURAL.fullmatch(word)
    return found[1] if found else ""


def _contains(index: Index, numbers: Array) -> Array:
    """Return which of the words skills use."""
    is_known = np.zeros(len(numbers), np.bool_)
    for part in index.parts:
        places, there = find_sorted(part.segment.words, numbers)
        chosen = there.nonzero()[0]
        is_known[chosen[part.word_count[places[chosen]] > 0]] = True
    return is_known


def _find_known(index: Index, numbers: Array) -> list[Word]:
    """Return those of the words that skills use, most used first, one per term."""
    ranked: list[tuple[int, int, Word]] = []
    for part in index.parts:
        segment = part.segment
        places, there = find_sorted(segment.words, numbers)
        places = places[there]
        for place in sorted({*places[part.word_count[places] > 0].tolist()}) if len(places) else ():
            term = int(segment.terms[segment.word_term[place]])
            meaning = Word(int(segment.words[place]), term, int(segment.word_weight[place]))
            ranked.append((index.count(term), meaning.number, meaning))
    ranked.sort(key=lambda entry: (-entry[0], entry[1]))
    found: dict[int, Word] = {}
    for _, _, meaning in ranked:
        found.setdefault(meaning.term, meaning)
    return list(found.values())


def _compound_cuts(word: str) -> list[int]:
    """Return where a compound may be split, first so that the shorter part is as long as possible."""
    if len(word) < _SHORTEST_COMPOUND:
        return []
    cuts = range(_SHORTEST_WORD, len(word) - _SHORTEST_WORD + 1)
    return sorted(cuts, key=lambda place: abs(2 * place - len(word)))


def _split_compound(index: Index, word: str, cuts: Iterable[int]) -> list[Word]:
    """Return the two known words that a compound consists of, given the cuts before a known word."""
    for cut in cuts:
        head = _find_known(index, _hash_array(_compound_heads(word[:cut])))
        if head:
            return [head[0], _find_known(index, _hash_array([word[cut:]]))[0]]
    return []


def _compound_heads(text: str) -> Iterable[str]:
    """Yield the first part of a compound with and without its linking letters."""
    return (
        text.removesuffix(link) for link in _LINKS if text.endswith(link) and len(text) - len(link) >= _SHORTEST_WORD
    )


def _hash_array(words: Iterable[str]) -> Array:
    return np.array([hash_word(word) for word in words], np.uint64)


LONGEST_MESSAGE = 20_000
"""The middle of a longer message is dropped: the question is usually at the beginning or the end."""
MAX_WORDS = 4_000
MAX_CONTEXT_WORDS = 200
"""Only the last words of the context count."""
MAX_TERMS = 200
"""Only the rarest terms of a long message are searched for."""
MAX_COMPARED_WORDS = 64
"""Only the rarest words of a long message are compared individually."""
LEXICAL_WEIGHT = 0.044
"""The weight of BM25F, where the cosine weighs 1. Measured: more in long messages makes them worse, also those of 100 words."""
WHOLE_WEIGHT = 0.5
"""What a skill gains that has all words of a message: a name that only one skill has finds it, whatever it means."""
RARE_PART = 0.5
"""Words that few skills have find these if they make up this share of a message."""
LEAST_REQUEST = 1.0
"""A request with less weight ("fix this") is read together with what was pasted below it."""
STRENGTH_UNIT = 16
"""Term weights are integers, in this fraction of a unit of rarity."""

# Measured: without saturation, words that a long message repeats outweigh the others. That cost 11 points of NDCG@10 on
# messages of 200 words, and nothing on short ones.
_SATURATION = 1.0
_REPAIR_WEIGHT = 0.7
_CONTEXT_WEIGHT, _CONTEXT_MEANING = 0.3, 0.5
_MAX_REPAIRS = 32
_FEW_SKILLS = 100
_RARE_COUNT, _MAX_RARE_COUNT, _RARE_SHARE, _RARE_WEIGHT = 2, 64, 0.01, 850


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A prepared message."""

    message: str
    asked: str
    """What the message asks for, without what was pasted into it, and with typing errors corrected."""
    words: dict[str, int]
    """The distinct words in order of appearance."""
    weights: dict[int, int]
    """The general weight of each term that is compared individually; `FULL_WEIGHT` for an informative one."""
    rare: frozenset[int]
    """Those of these terms that are rare, in general and among the skills."""
    total: float
    """The sum of the weights of all words, 1 for an informative one."""
    strengths: dict[int, int]
    """The terms to search for, in the order of the message: from it, its corrections, and then the context."""
    lexical_weight: float
    """How much words count relative to meaning: more in messages of one or two words, which are often names."""
    meant: dict[int, str]
    """The word of the message behind each term, '' for context."""
    places: list[dict[int, int]]
    """The positions of the terms in each segment that has them."""
    embedded: NDArray[np.int8]
    """The vector of the message from the index's embedder, to compare with cards."""
    sentences: NDArray[np.int8]
    """The vectors of its sentences; none if there is only one."""
    prior: float
    """What the message alone says about whether a skill fits; see `message_prior`."""
    has_vector: bool
    """False if the embedder is unavailable, or knows nothing in the message."""

    def weigh(self, terms: Iterable[int]) -> float:
        """Return the sum of the general weights of some terms, 1 for an informative one."""
        # Weights are integers, so that the sum is exact in any order.
        return sum([self.weights.get(term, 0) for term in terms]) / FULL_WEIGHT


def build_query(index: Index, message: str, context: str = "") -> Query:
    """Prepare a message for an index. Any text is valid; one without words finds nothing."""
    message, context = unwrap(remove_invisible(_trim_middle(message))), context[-LONGEST_MESSAGE:]
    request = read_request(message, lambda word: any(map(index.has_name, _count_words(word)[1])))
    counts, heard = _count_words(request.worded)
    is_pasted = bool(request.pasted) and _weigh(heard) < LEAST_REQUEST
    if is_pasted:
        request = Request(message, message, "")
        counts, heard = _count_words(message)
    terms = _TermCollector(index, [known.term for known in heard])
    said = terms.understand(counts, heard)
    # The words of pasted code count like those of the context. Its meaning does not: it would blur that of the request.
    for around in (context, request.pasted):
        if around.strip():
            terms.around(extract_words(around)[-MAX_CONTEXT_WORDS:])
    strengths = terms.strengths()
    weights = {known.term: known.weight for known in said}
    total = sum(weights.values()) / FULL_WEIGHT
    rarest = sorted(weights, key=lambda term: -terms.rarity[term])[:MAX_COMPARED_WORDS]
    rows = _embed(index, correct(request.text, terms.repaired), context)
    embedded = rows[0]
    return Query(
        message=message,
        asked=correct(request.worded, terms.repaired),
        words={word: place for place, word in enumerate(counts)},
        weights={term: weights[term] for term in rarest},
        rare=frozenset([term for term in rarest if weights[term] >= _RARE_WEIGHT and terms.is_rare(term)]),
        total=total,
        strengths=strengths,
        lexical_weight=round(LEXICAL_WEIGHT + WHOLE_WEIGHT / max(sum(terms.rarity[term] for term in weights), 1.0), 6),
        meant={term: terms.meant[term] for term in strengths},
        places=terms.places,
        embedded=embedded,
        sentences=rows[1:],
        prior=message_prior(index.embedder.name, embedded, 0.0 if is_pasted else total),
        has_vector=bool(np.count_nonzero(embedded)),
    )


def _count_words(text: str) -> tuple[dict[str, int], list[Word]]:
    """Return the words of a text with their numbers, and their properties."""
    counts: dict[str, int] = {}
    for word in extract_words(text)[:MAX_WORDS]:
        counts[word] = counts.get(word, 0) + 1
    return counts, shared_lexicon().words(list(counts))


def _weigh(words: Iterable[Word]) -> float:
    """Return the sum of the general weights of words, 1 for an informative one."""
    return sum([known.weight for known in words]) / FULL_WEIGHT


def _trim_middle(message: str) -> str:
    half = LONGEST_MESSAGE // 2
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:half]} {message[-half:]}"


@lru_cache(maxsize=4_096)
def compute_rarity(size: int, count: int) -> float:
    """Return the rarity of a term that `count` of `size` skills have: ln((N + 1) / (n + ½)), to a thousandth.

    In a small catalog a term that few skills have is rarer than their number tells.
    """
    # Rounded, because the last digit of a logarithm may differ between machines.
    return round(math.log((max(size, _FEW_SKILLS) + 1) / (count + 0.5)), 3)


class _TermCollector:
    """Collects the terms of a message with their weights; the first weight of a term stays."""

    def __init__(self, index: Index, terms: Sequence[int]) -> None:
        self._index = index
        self._said: dict[int, int] = {}
        self._added: dict[int, float] = {}
        self._counts: dict[int, int] = {}
        self.rarity: dict[int, float] = {}
        """The rarity of each term."""
        self.meant: dict[int, str] = {}
        self.repaired: dict[str, list[Word]] = {}
        """What words of the message that no skill has may mean."""
        self.places: list[dict[int, int]] = [{} for _ in index.parts]
        self._look_up(terms)

    def understand(self, counts: Mapping[str, int], heard: Sequence[Word]) -> list[Word]:
        """Add the words of the message, and the likely meanings of those that no skill uses; return what each means.

        A repeated word counts more, but less than twice as much.
        """
        unknown = [word for word, known in zip(counts, heard, strict=True) if not self._counts[known.term]]
        self.repaired = repaired = find_meanings(self._index, unknown[:_MAX_REPAIRS])
        self._look_up([meaning.term for meanings in repaired.values() for meaning in meanings])
        said: list[Word] = []
        for (word, count), known in zip(counts.items(), heard, strict=True):
            self._said[known.term] = self._said.get(known.term, 0) + count
            self.meant.setdefault(known.term, word)
            meanings = repaired.get(word)
            if meanings:
                self._add([meaning.term for meaning in meanings], _REPAIR_WEIGHT, word)
            said.append(meanings[0] if meanings else known)
        return said

    def is_rare(self, term: int) -> bool:
        """Return True if few skills have this term, and some do."""
        few = max(_RARE_COUNT, min(self._index.size * _RARE_SHARE, _MAX_RARE_COUNT))
        return 0 < self._counts.get(term, 0) <= few

    def around(self, words: Sequence[str]) -> list[Word]:
        """Add the words of the context."""
        before = shared_lexicon().words(words)
        terms = [known.term for known in before]
        self._look_up(terms)
        self._add(terms, _CONTEXT_WEIGHT, "")
        return before

    def strengths(self) -> dict[int, int]:
        """Return the strongest of the terms that skills use, in the order in which they were added, with their strengths."""
        weights = {term: (_SATURATION + 1) * count / (_SATURATION + count) for term, count in self._said.items()}
        weights = {**self._added, **weights} if self._added else weights
        found = {
            term: round(STRENGTH_UNIT * self.rarity[term] * weights[term]) for term in self.meant if self._counts[term]
        }
        if len(found) <= MAX_TERMS:
            return found
        strongest = set(sorted(found, key=lambda term: (-found[term], term))[:MAX_TERMS])
        return {term: strength for term, strength in found.items() if term in strongest}

    def _add(self, terms: list[int], weight: float, word: str) -> None:
        for term in terms:
            self._added.setdefault(term, weight)
            self.meant.setdefault(term, word)

    def _look_up(self, terms: Iterable[int]) -> None:
        """Find the positions of new terms in the segments, and the number of skills with each."""
        # Each term once: a message has several words of one stem, and the skills that have it must not count for each.
        new = [term for term in dict.fromkeys(terms) if term not in self._counts]
        if not new:
            return
        numbers, counts = np.array(new, np.uint64), dict.fromkeys(new, 0)
        for part, places in zip(self._index.parts, self.places, strict=True):
            found, there = find_sorted(part.segment.terms, numbers)
            chosen = there.nonzero()[0]
            found = found[chosen]
            held = part.term_count[found] if len(found) else found
            for which, place, count in zip(chosen.tolist(), found.tolist(), held.tolist(), strict=True):
                places[new[which]] = place
                counts[new[which]] += count
        size = self._index.size
        self._counts.update(counts)
        self.rarity.update([(term, compute_rarity(size, count)) for term, count in counts.items()])


def _embed(index: Index, message: str, context: str) -> NDArray[np.int8]:
    """Return the vectors of the message and of its sentences, or zeros if the embedder is unavailable, so that words alone decide."""
    sentences = split_sentences(message)
    try:
        rows = embed_sentences(index.embedder, sentences) if len(sentences) > 1 else index.embedder.embed([message])
        if not context.strip():
            return rows
        before = index.embedder.embed([context])
    except Unavailable:
        return np.zeros((1, 1), np.int8)
    return np.concatenate((quantize(rows[:1] + _CONTEXT_MEANING * before), rows[1:]))
