"""A segment: some skills as arrays of numbers, laid out so that a file of them can be mapped and used as it is.

Terms and words are stored as hashes only, so a segment contains no text of a body. `meta` holds the public fields of
each skill, as JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from prowess.lazy_dataclass import dataclass
from prowess.match.arrays import Array, count_documents, offsets_of, rank_unique, sort_unique
from prowess.match.entry import FIELD_WEIGHTS, MAX_TRIGGERS, Entries
from prowess.match.lexicon import Vocabulary, hash_word, hash_words
from prowess.match.recommendation import FIELD_NAMES
from prowess.skill.limits import MAX_INTENT_PATTERNS

if TYPE_CHECKING:
    from prowess.catalog.store import SearchDocument

IMPACT_SCALE = 100
"""The impact of a term on a skill runs from 1 to this."""
FIELD_BITS = len(FIELD_NAMES)
"""The lowest bits of a posting's marks say which fields have the term."""
DECLARED_SIZES = 9
"""The bits above: the term is in a trigger phrase or keyword of one term, of two, and so on; the last one is for all longer ones."""
# The parameter k1 of BM25F.
_SATURATION = 1.2
_quote = json.encoder.encode_basestring_ascii
_PARSE = json.JSONDecoder().raw_decode
"""Without the search for an encoding and for spaces, which take half the time of `json.loads`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Segment:
    """The arrays. Offset arrays (`…_start`) have one item more than there are lists."""

    slugs: Array  # hash of the slug of each document
    locations: Array  # hash of the path of each document, 0 if it has none
    keys: Array  # SHA-256 of slug, scope and digest of each document, as four numbers
    ranks: Array  # whether searches may find the document
    offers: Array  # whether it may also be recommended for a message
    vector_keys: Array  # the key of each document's card, as two numbers; zeros without a card
    phrase_start: Array  # documents → phrases
    phrase_field: Array
    word_start: Array  # phrases → their words
    phrase_words: Array
    words: Array  # hashes of all words, ascending
    word_term: Array  # words → terms
    word_weight: Array
    word_documents: Array  # the number of documents that have each word
    terms: Array  # hashes of all terms, ascending
    posting_start: Array  # terms → postings
    postings: Array  # documents, ascending within a term
    impacts: Array
    posting_marks: Array  # where in the document the term is: bits of `FIELD_BITS`, and of `DECLARED_SIZES` above them
    patterned: Array  # the documents that have intent patterns
    tags: Array  # hashes of all tags, ascending
    tagged_start: Array  # tags → documents
    tagged: Array
    meta_start: Array
    meta: Array

    @property
    def size(self) -> int:
        """The number of documents."""
        return len(self.slugs)

    def shown(self, document: int) -> dict[str, Any]:
        """Return the public fields of a document."""
        return _PARSE(self._text(document))[0]

    def slug(self, document: int) -> str:
        """Return the slug of a document, which comes first in its public fields."""
        return _PARSE(self._text(document), len('{"slug":'))[0]

    def _text(self, document: int) -> str:
        return self.meta[self.meta_start[document] : self.meta_start[document + 1]].tobytes().decode("ascii")

    def find(self, slug: str) -> int | None:
        """Return the position of a slug, or None."""
        number = np.uint64(hash_word(slug))
        # Different slugs may have the same hash, so the slug itself is compared, too.
        places = np.flatnonzero(self.slugs == number)
        return next((place for place in places.tolist() if self.shown(place)["slug"] == slug), None)

    def find_location(self, location: str) -> list[int]:
        """Return the positions of the documents at a path."""
        places = np.flatnonzero(self.locations == np.uint64(hash_word(location)))
        return [place for place in places.tolist() if self.shown(place)["location"] == location]

    def words_of(self, document: int) -> Array:
        """Return the distinct words of a document."""
        first, last = self.phrase_start[document], self.phrase_start[document + 1]
        return sort_unique(self.phrase_words[self.word_start[first] : self.word_start[last]])

    def tagged_with(self, tags: Sequence[int]) -> Array:
        """Return a mask of the documents that have all of these tags."""
        chosen = np.ones(self.size, np.bool_)
        for tag in tags:
            has = np.zeros(self.size, np.bool_)
            place = int(np.searchsorted(self.tags, np.uint64(tag)))
            if place < len(self.tags) and self.tags[place] == tag:
                has[self.tagged[self.tagged_start[place] : self.tagged_start[place + 1]]] = True
            chosen &= has
        return chosen

    def arrays(self) -> Mapping[str, Array]:
        """Return every array by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def build_segment(entries: Entries, vocabulary: Vocabulary) -> Segment:
    """Return the segment of these entries."""
    documents, fields, phrase_start = entries.documents, entries.fields, entries.phrase_start
    table = _WordTable(vocabulary, entries.words)
    said = _PhraseWords(entries.word_start, phrase_start, fields, table)
    metas = [_encode_metadata(document) for document in documents]
    return Segment(
        slugs=hash_words([document.slug for document in documents]),
        locations=hash_words([document.location for document in documents]),
        keys=np.frombuffer(b"".join(map(_document_key, documents)), "<u8").astype(np.uint64).reshape(-1, 4),
        ranks=(ranks := np.array([bool(document.description.strip()) for document in documents], np.bool_)),
        offers=ranks & ~np.array([document.people_only for document in documents], np.bool_),
        vector_keys=np.array(entries.vector_keys, np.uint64).reshape(-1, 2),
        phrase_start=phrase_start,
        phrase_field=fields,
        word_start=said.word_start,
        phrase_words=table.places,
        words=table.numbers,
        word_term=table.term,
        word_weight=table.weights,
        word_documents=count_documents(table.places, said.documents, len(table.numbers)),
        terms=table.terms,
        **said.postings(),
        patterned=np.flatnonzero([bool(document.patterns) for document in documents]).astype(np.uint32),
        **_group_by_tag(documents),
        meta_start=offsets_of(list(map(len, metas))),
        meta=np.frombuffer(b"".join(metas), np.uint8),
    )


class _WordTable:
    """Distinct words in order of their hashes, and the position of every word of the vocabulary that is given."""

    def __init__(self, vocabulary: Vocabulary, learnt: Array) -> None:
        is_used = np.zeros(len(vocabulary.numbers), np.bool_)
        is_used[learnt] = True
        used = np.flatnonzero(is_used)
        used = used[np.argsort(vocabulary.numbers[used], kind="stable")]
        moved = np.zeros(len(vocabulary.numbers), np.uint32)
        moved[used] = np.arange(len(used), dtype=np.uint32)
        self.places = moved[learnt]
        self.numbers = vocabulary.numbers[used]
        self.weights = vocabulary.weights[used]
        self.terms, term = rank_unique(vocabulary.terms[used])
        self.term = term.astype(np.uint32)


class _PhraseWords:
    """The words of all phrases of all documents, concatenated."""

    def __init__(self, word_start: Array, phrase_start: Array, fields: Array, table: _WordTable) -> None:
        self.word_start, self._fields, self._table = word_start, fields, table
        self._owners = np.repeat(np.arange(len(phrase_start) - 1), np.diff(phrase_start))
        self._sizes = np.diff(word_start)
        self.documents = np.repeat(self._owners, self._sizes)

    def postings(self) -> dict[str, Array]:
        """Return which documents have which terms, and the impact of each: BM25F over the weights and lengths of fields."""
        terms = self._table.term[self._table.places].astype(np.uint64)
        # Term and place as the halves of one number: one sort of plain numbers gives the postings in order.
        order = np.sort(terms << np.uint64(32) | np.arange(len(terms), dtype=np.uint64))
        terms, order = order >> np.uint64(32), (order & np.uint64(0xFFFF_FFFF)).astype(np.int64)
        documents = self.documents[order]
        is_new = (terms[1:] != terms[:-1]) | (documents[1:] != documents[:-1])
        starts = np.flatnonzero(np.append(True, is_new)) if len(terms) else np.zeros(0, np.int64)
        # Rounded, so that the sum of a few shares does not depend on their order.
        shares = np.repeat(self._shares(), self._sizes)[order]
        marks = np.repeat(self._marks(), self._sizes)[order]
        amount = np.round(np.add.reduceat(shares, starts), 6) if len(starts) else np.zeros(0)
        # Without the rarity of the term, which changes with every other skill; a query multiplies by it.
        impacts = np.rint(IMPACT_SCALE * amount / (_SATURATION + amount)).clip(1, IMPACT_SCALE)
        counts = np.bincount(terms[starts].astype(np.int64), minlength=len(self._table.terms))
        return {
            "posting_start": offsets_of(counts),
            "postings": documents[starts].astype(np.uint32),
            "impacts": impacts.astype(np.uint8),
            "posting_marks": np.bitwise_or.reduceat(marks, starts) if len(starts) else marks,
        }

    def _marks(self) -> Array:
        """Return the marks of the terms in each phrase."""
        is_declared = (self._fields == FIELD_NAMES.index("triggers")) | (self._fields == FIELD_NAMES.index("keywords"))
        phrases = np.repeat(np.flatnonzero(is_declared), self._sizes[is_declared])
        terms = self._table.term[self._table.places[np.repeat(is_declared, self._sizes)]]
        counts = count_documents(phrases, terms, len(self._sizes)).clip(1, DECLARED_SIZES)
        marks = np.left_shift(1, self._fields, dtype=np.uint16)
        return marks | np.where(is_declared, 1 << (FIELD_BITS - 1 + counts), 0).astype(np.uint16)

    def _shares(self) -> Array:
        """Return what one word of each phrase adds to the impact."""
        weights, usual, penalties = np.array([FIELD_WEIGHTS.get(name, (0.0, 1.0, 0.0)) for name in FIELD_NAMES]).T
        kinds = self._owners * len(FIELD_NAMES) + self._fields
        relative = np.bincount(kinds, weights=self._sizes)[kinds] / usual[self._fields]
        penalty = penalties[self._fields]
        return weights[self._fields] / (1 - penalty + penalty * relative)


def _group_by_tag(documents: Sequence[SearchDocument]) -> dict[str, Array]:
    every = [tag for document in documents for tag in document.tags]
    distinct = list(dict.fromkeys(every))
    tags, number = rank_unique(hash_words([_fold_tag(tag) for tag in distinct]))
    numbers = dict(zip(distinct, number.tolist(), strict=True))
    owners = np.repeat(np.arange(len(documents)), [len(document.tags) for document in documents])
    pairs = sort_unique(
        np.array([numbers[tag] for tag in every], np.uint64) << np.uint64(32) | owners.astype(np.uint64)
    )
    return {
        "tags": tags,
        "tagged_start": offsets_of(np.bincount((pairs >> np.uint64(32)).astype(np.int64), minlength=len(tags))),
        "tagged": (pairs & np.uint64(0xFFFF_FFFF)).astype(np.uint32),
    }


def hash_tag(tag: str) -> int:
    """Return the hash of a tag, ignoring case and surrounding space."""
    return hash_word(_fold_tag(tag))


def _fold_tag(tag: str) -> str:
    return tag.strip().casefold()


def _document_key(document: SearchDocument) -> bytes:
    told = "\0".join((document.slug, document.scope, document.digest)).encode("utf-8", "replace")
    return hashlib.sha256(told).digest()


def _encode_metadata(document: SearchDocument) -> bytes:
    # Put together here: the encoder takes twice as long for a small object, because it is made anew for each.
    return (
        f'{{"slug":{_quote(document.slug)},"title":{_quote(document.title)},'
        f'"description":{_quote(document.description)},"tags":{_quote_all(document.tags)},'
        f'"scope":{_quote(document.scope)},"digest":{_quote(document.digest)},'
        f'"location":{_quote(document.location)},"version":{_quote(document.version)},"chars":{document.chars},'
        f'"people_only":{"true" if document.people_only else "false"},'
        f'"patterns":{_quote_all(document.patterns[:MAX_INTENT_PATTERNS])},'
        f'"triggers":{_quote_all(document.triggers[:MAX_TRIGGERS])}}}'
    ).encode()


def _quote_all(texts: Sequence[str]) -> str:
    return f"[{','.join(map(_quote, texts))}]" if texts else "[]"
