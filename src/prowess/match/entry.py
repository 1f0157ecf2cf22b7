"""Prepare skills for the index: their words by field and phrase, and the key terms of their bodies.

All texts of many skills are split at once. What comes of a skill depends on that skill alone, so skills can be indexed in
any order and in any grouping.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from prowess.lazy_dataclass import dataclass
from prowess.match.arrays import Array, expand_slices, offsets_of
from prowess.match.card import card_key, make_card, name_words
from prowess.match.lexicon import Vocabulary
from prowess.match.recommendation import FIELD_NAMES, FieldName
from prowess.match.words import remove_exclusions, split_clauses

if TYPE_CHECKING:
    from prowess.catalog.store import SearchDocument

MAX_KEY_TERMS = 30
"""How many words of a body are indexed. Measured: thirty at a low weight gain 1 to 5 points of NDCG@10, whole bodies
lose some."""
BODY_CHARACTERS = 4_000
_FENCE = re.compile(r"\n[ \t]*(`{3,}|~{3,}).*(?:\n(?![ \t]*\1).*)*(?:\n[ \t]*\1)?")
"""Line by line, and starts with a character that the engine skips to: three times as fast as character by character."""

FIELD_WEIGHTS: dict[FieldName, tuple[float, float, float]] = {
    "name": (3.0, 3.0, 0.75),
    "description": (1.0, 22.0, 0.65),
    "tags": (1.0, 5.0, 0.75),
    "triggers": (0.7, 30.0, 0.75),
    "keywords": (1.0, 6.0, 0.75),
    "body": (0.3, 1.0, 0.0),
}
"""The weight of each field, its usual number of words, and how much each word of a longer field loses (`b` of BM25F).

The usual numbers are fixed, not averages over the catalog, so that an entry depends on its own skill alone. Measured for
descriptions: 28 and 0.75 lose half a point of NDCG@10 on catalogs of short descriptions and on long messages."""

_NAME, _DESCRIPTION, _TAGS, _TRIGGERS, _KEYWORDS, _BODY = map(FIELD_NAMES.index, FIELD_WEIGHTS)

MAX_TRIGGERS = 64
MAX_FIELD_WORDS = 400
_WORTH_BITS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Skills in the order of their slugs, with their words."""

    documents: Sequence[SearchDocument]
    vector_keys: list[tuple[int, int]]
    """The key of the vectors of each one's card."""
    phrase_start: Array
    """Where the phrases of each start. The key terms of its body are its last phrase."""
    fields: Array
    """The field of each phrase."""
    word_start: Array
    """Where the words of each phrase start. There are no empty phrases."""
    words: Array
    """The words, as positions in the vocabulary."""


def read_entries(documents: Sequence[SearchDocument], vocabulary: Vocabulary) -> Entries:
    """Return the entries of some documents."""
    ordered = sorted(documents, key=lambda document: document.slug)
    lines: list[str] = []
    fields: list[int] = []
    counts: list[int] = []
    keys: list[tuple[int, int]] = []
    for document in ordered:
        # A clause such as "not for spreadsheets" would attract messages about spreadsheets.
        called, description = name_words(document.slug, document.title), remove_exclusions(document.description)
        clauses, triggers = split_clauses(description), document.triggers[:MAX_TRIGGERS]
        tags, keywords = " ".join(document.tags), document.keywords[:MAX_TRIGGERS]
        own = [called, *clauses, tags, *triggers, *keywords]
        lines += own
        fields += [_NAME, *[_DESCRIPTION] * len(clauses), _TAGS]
        fields += [*[_TRIGGERS] * len(triggers), *[_KEYWORDS] * len(keywords)]
        counts.append(len(own))
        keys.append(card_key(make_card(called, clauses, triggers, tags)))
    # The bodies come last: all texts are read in one go.
    lines += [_strip_code(document.body[:BODY_CHARACTERS]) for document in ordered]
    words, starts = vocabulary.read(lines)
    first = starts[len(fields)]
    key_terms, key_starts = pick_key_terms(words[first:], starts[len(fields) :] - first, vocabulary)
    owners = np.repeat(np.arange(len(ordered)), counts)
    words, starts = _limit_fields(words[:first], starts[: len(fields) + 1], owners, np.array(fields, np.uint8))
    # The key terms of each document come after its lines.
    order = np.argsort(np.append(owners, np.arange(len(ordered))), kind="stable")
    begins = np.append(starts[:-1], key_starts[:-1] + len(words))[order]
    ends = np.append(starts[1:], key_starts[1:] + len(words))[order]
    is_used = ends > begins
    places, _ = expand_slices(begins[is_used], ends[is_used])
    owner = np.append(owners, np.arange(len(ordered)))[order][is_used]
    return Entries(
        documents=ordered,
        vector_keys=keys,
        phrase_start=offsets_of(np.bincount(owner, minlength=len(ordered))),
        fields=np.append(np.array(fields, np.uint8), np.full(len(ordered), _BODY, np.uint8))[order][is_used],
        word_start=offsets_of((ends - begins)[is_used]),
        words=np.append(words, key_terms)[places],
    )


def _limit_fields(words: Array, starts: Array, owners: Array, fields: Array) -> tuple[Array, Array]:
    """Return the first `MAX_FIELD_WORDS` words of each field, and of each trigger phrase, with the start of each line."""
    if not len(fields):
        return words, starts
    is_new = (owners[1:] != owners[:-1]) | (fields[1:] != fields[:-1]) | (fields[1:] == _TRIGGERS)
    firsts = starts[:-1][np.append(True, is_new)][np.append(0, is_new.cumsum())]
    sizes = np.diff(starts)
    kept = np.clip(firsts + MAX_FIELD_WORDS - starts[:-1], 0, sizes)
    if (kept == sizes).all():
        return words, starts
    places, _ = expand_slices(starts[:-1], starts[:-1] + kept)
    return words[places], offsets_of(kept)


def pick_key_terms(words: Array, starts: Array, vocabulary: Vocabulary) -> tuple[Array, Array]:
    """Return at most thirty words of each body, by frequency and general weight, and where those of each body start.

    The choice depends on a body alone, so a change to another skill never changes it.
    """
    count = len(starts) - 1
    owners = np.repeat(np.arange(count), np.diff(starts))
    may = vocabulary.may_be_key_term[words]
    by_hash, places = _order_by_hash(words[may], vocabulary)
    # Body and word as the halves of one number: one sort counts the words of every body.
    pairs = np.sort(owners[may].astype(np.uint64) << np.uint64(32) | places)
    firsts = np.flatnonzero(np.append(True, pairs[1:] != pairs[:-1])) if len(pairs) else np.zeros(0, np.int64)
    counts = np.diff(np.append(firsts, len(pairs)))
    owners = (pairs[firsts] >> np.uint64(32)).astype(np.int64)
    words = by_hash[pairs[firsts] & np.uint64(0xFFFF_FFFF)]
    sizes = np.bincount(owners, minlength=count)
    is_long = sizes[owners] > MAX_KEY_TERMS
    # Frequency × √weight, squared: whole numbers, so that the order is the same everywhere.
    worth = np.where(is_long, counts**2 * vocabulary.weights[words].astype(np.int64), 0)
    # One stable sort, because the words of a body are in the order of their hashes. Both parts fit: a body has less than
    # 2¹⁷ words, and a weight 16 bits.
    order = np.argsort(owners << _WORTH_BITS | ((1 << _WORTH_BITS) - 1 - worth), kind="stable")
    ranks = np.arange(len(order)) - np.repeat(sizes.cumsum() - sizes, sizes)
    return words[order[ranks < MAX_KEY_TERMS]], offsets_of(np.minimum(sizes, MAX_KEY_TERMS))


def _order_by_hash(words: Array, vocabulary: Vocabulary) -> tuple[Array, Array]:
    """Return the distinct words in the order of their hashes, and the place of each word among them."""
    is_used = np.zeros(len(vocabulary.numbers), np.bool_)
    is_used[words] = True
    used = np.flatnonzero(is_used).astype(np.uint32)
    used = used[np.argsort(vocabulary.numbers[used])]
    places = np.zeros(len(is_used), np.uint32)
    places[used] = np.arange(len(used), dtype=np.uint32)
    return used, places[words]


def _strip_code(body: str) -> str:
    return _FENCE.sub(" ", f"\n{body}") if "```" in body or "~~~" in body else body
