"""A segment: some skills as arrays of numbers, laid out so that a file of them can be mapped and used as it is.

Terms and words are known by their numbers alone, so no text of a body is in
here. `meta` holds what is shown of a skill, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prowess.match.arrays import Array, document_counts, starts_of, stretches
from prowess.match.entry import MOST_TRIGGERS, SAYING, Entry, Phrase
from prowess.match.hashing import number_of
from prowess.match.lexicon import DIMENSIONS, lengths_of_sums, look_up
from prowess.match.recommendation import FIELD_NAMES
from prowess.match.vectors.embedder import Embedder
from prowess.skill.limits import MOST_PATTERNS

IMPACT = 100
"""A posting's impact runs from 1 to this: how much a skill is about a term, saturated."""
_K1 = 1.2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Segment:
    """The arrays. Offsets (`…_start`) have one place more than what they are about."""

    slugs: Array  # number of the slug, by document
    keys: Array  # slug, scope and digest of each document as four numbers
    ranks: Array  # whether the document may be recommended
    vectors: Array  # one row a document, of the embedder
    codes: Array  # the signs of that row as bits; one row of 64 bits for every document, row after row
    phrase_start: Array  # documents → phrases
    said_end: Array  # documents → the end of their phrases that are not of the body, which comes last
    phrase_field: Array
    phrase_length: Array  # how long the sum of its words' vectors is
    word_start: Array  # phrases → words of them
    phrase_words: Array
    words: Array  # numbers of all words, ascending
    word_term: Array  # words → terms
    word_vectors: Array
    word_weight: Array
    word_documents: Array  # in how many documents each word is
    terms: Array  # numbers of all terms, ascending
    posting_start: Array  # terms → postings
    postings: Array  # documents, ascending within a term
    impacts: Array
    patterned: Array  # the documents that have intent patterns
    tags: Array  # numbers of all tags, ascending
    tagged_start: Array  # tags → documents
    tagged: Array
    meta_start: Array
    meta: Array

    @property
    def size(self) -> int:
        """How many documents there are."""
        return len(self.slugs)

    def shown(self, document: int) -> dict[str, Any]:
        """What may be shown of a document."""
        return json.loads(self.meta[self.meta_start[document] : self.meta_start[document + 1]].tobytes())

    def find(self, slug: str) -> int | None:
        """The place of a slug."""
        number = np.uint64(number_of(slug))
        places = np.flatnonzero(self.slugs == number)
        return next((place for place in places.tolist() if self.shown(place)["slug"] == slug), None)

    def words_of(self, document: int) -> Array:
        """The words of a document, each once."""
        first, last = self.phrase_start[document], self.phrase_start[document + 1]
        return np.unique(self.phrase_words[self.word_start[first] : self.word_start[last]])

    def tagged_with(self, tags: Sequence[int]) -> Array:
        """Which documents have all of these tags, by number."""
        chosen = np.ones(self.size, np.bool_)
        for tag in tags:
            has = np.zeros(self.size, np.bool_)
            place = int(np.searchsorted(self.tags, np.uint64(tag)))
            if place < len(self.tags) and self.tags[place] == tag:
                has[self.tagged[self.tagged_start[place] : self.tagged_start[place + 1]]] = True
            chosen &= has
        return chosen

    def arrays(self) -> Mapping[str, Array]:
        """Every array by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def build_segment(entries: Sequence[Entry], embedder: Embedder) -> Segment:
    """The segment of these entries."""
    ordered = sorted(entries, key=lambda entry: entry.document.slug)
    table = _WordTable(ordered)
    vectors = embedder.embed([entry.text for entry in ordered])
    phrases = [phrase for entry in ordered for phrase in entry.phrases]
    flat = table.places([word for phrase in phrases for word in phrase.words])
    word_start = starts_of([len(phrase.words) for phrase in phrases])
    phrase_start = starts_of([len(entry.phrases) for entry in ordered])
    metas = [_shown(entry) for entry in ordered]
    return Segment(
        slugs=np.array([number_of(entry.document.slug) for entry in ordered], np.uint64),
        keys=np.array([_key(entry) for entry in ordered], np.uint64).reshape(-1, 4),
        ranks=np.array([entry.ranks for entry in ordered], np.bool_),
        vectors=vectors,
        codes=codes_of(vectors),
        phrase_start=phrase_start,
        said_end=phrase_start[1:] - np.array([_has_body(entry) for entry in ordered], np.int64),
        phrase_field=np.array([phrase.field for phrase in phrases], np.uint8),
        phrase_length=_lengths(table, phrases, flat, word_start),
        word_start=word_start,
        phrase_words=flat,
        words=table.numbers,
        word_term=table.term,
        word_vectors=table.vectors,
        word_weight=table.weights,
        word_documents=document_counts(flat, phrase_start, word_start, len(table.numbers)),
        **_postings(ordered, table),
        patterned=np.flatnonzero([bool(entry.document.patterns) for entry in ordered]).astype(np.uint32),
        **_tagged(ordered),
        meta_start=starts_of([len(meta) for meta in metas]),
        meta=np.frombuffer(b"".join(metas), np.uint8),
    )


class _WordTable:
    """The distinct words of some entries, ascending by number."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        distinct = sorted({word for entry in entries for phrase in entry.phrases for word in phrase.words})
        known = look_up(distinct)
        numbers = np.array([word.number for word in known], np.uint64)
        order = np.argsort(numbers, kind="stable")
        self.numbers = numbers[order]
        self.vectors = np.array([word.vector for word in known], np.int8).reshape(-1, DIMENSIONS)[order]
        self.weights = np.array([word.weight for word in known], np.uint16)[order]
        terms, term = np.unique(np.array([word.term for word in known], np.uint64)[order], return_inverse=True)
        self.terms, self.term = terms, term.astype(np.uint32)
        places = np.empty(len(distinct), np.uint32)
        places[order] = np.arange(len(distinct), dtype=np.uint32)
        self._place = dict(zip(distinct, places.tolist(), strict=True))

    def places(self, words: Sequence[str]) -> Array:
        """Where these words stand."""
        return np.fromiter(map(self._place.__getitem__, words), np.uint32, len(words))


def _lengths(table: _WordTable, phrases: Sequence[Phrase], flat: Array, word_start: Array) -> Array:
    """The lengths of the phrases that say something as a whole; 0 for those that only list words."""
    lengths = np.zeros(len(phrases), np.float32)
    saying = np.flatnonzero([SAYING[phrase.field] for phrase in phrases])
    words, starts = stretches(word_start[saying], word_start[saying + 1])
    lengths[saying] = lengths_of_sums(table.vectors, table.weights, flat[words], np.append(starts, len(words)))
    return lengths


def _postings(entries: Sequence[Entry], table: _WordTable) -> dict[str, Array]:
    """Which documents have which terms, and how much each is about it."""
    documents: list[int] = []
    words: list[str] = []
    amounts: list[float] = []
    for document, entry in enumerate(entries):
        found = entry.frequencies()
        words += found
        amounts += found.values()
        documents += [document] * len(found)
    keys = table.term[table.places(words)].astype(np.uint64) << np.uint64(32) | np.array(documents, np.uint64)
    order = np.argsort(keys, kind="stable")
    keys, starts = np.unique(keys[order], return_index=True)
    # A sum of a few shares: rounded, it does not depend on their order.
    amount = np.round(np.add.reduceat(np.array(amounts)[order], starts), 6) if len(starts) else np.zeros(0)
    impacts = np.rint(IMPACT * amount / (_K1 + amount)).clip(1, IMPACT)
    terms = (keys >> np.uint64(32)).astype(np.int64)
    return {
        "terms": table.terms,
        "posting_start": starts_of(np.bincount(terms, minlength=len(table.terms))),
        "postings": (keys & np.uint64(0xFFFF_FFFF)).astype(np.uint32),
        "impacts": impacts.astype(np.uint8),
    }


def _tagged(entries: Sequence[Entry]) -> dict[str, Array]:
    pairs = sorted({(tag_number(tag), place) for place, entry in enumerate(entries) for tag in entry.document.tags})
    tags, starts = np.unique(np.array([tag for tag, _ in pairs], np.uint64), return_index=True)
    return {
        "tags": tags,
        "tagged_start": np.append(starts, len(pairs)).astype(np.int64),
        "tagged": np.array([place for _, place in pairs], np.uint32),
    }


def tag_number(tag: str) -> int:
    """The number of a tag; case and surrounding space do not count."""
    return number_of(tag.strip().casefold())


def codes_of(vectors: NDArray[np.int8]) -> NDArray[np.uint64]:
    """The signs of vectors as bits, 64 to a number; one row of numbers for each 64 dimensions."""
    width = -(-vectors.shape[1] // 64) * 64
    signs = np.zeros((len(vectors), width), np.bool_)
    signs[:, : vectors.shape[1]] = vectors > 0
    packed = np.packbits(signs, axis=1, bitorder="little").view("<u8")
    return np.ascontiguousarray(packed.T)


def _has_body(entry: Entry) -> bool:
    return bool(entry.phrases) and FIELD_NAMES[entry.phrases[-1].field] == "body"


def _key(entry: Entry) -> tuple[int, ...]:
    document = entry.document
    told = "\0".join((document.slug, document.scope, document.digest)).encode("utf-8", "replace")
    return struct.unpack("<4Q", hashlib.sha256(told).digest())


def _shown(entry: Entry) -> bytes:
    document = entry.document
    shown = {
        "slug": document.slug,
        "title": document.title,
        "description": document.description,
        "tags": document.tags,
        "scope": document.scope,
        "digest": document.digest,
        "patterns": document.patterns[:MOST_PATTERNS],
        "triggers": document.triggers[:MOST_TRIGGERS],
    }
    return json.dumps(shown, ensure_ascii=True, separators=(",", ":")).encode()
