"""Several segments as one, without a look at the skills themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from prowess.match.arrays import Array, document_counts, ranges, starts_of
from prowess.match.segment import Segment, codes_of
from prowess.match.vectors.embedder import Embedder


class Part(Protocol):
    """A segment, and which of its documents still hold."""

    @property
    def segment(self) -> Segment:
        """The arrays."""
        ...

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Which documents still hold."""
        ...


def merged(parts: Sequence[Part], embedder: Embedder) -> Segment:
    """One segment with the living documents of all, the words and terms that they have, and nothing else."""
    kept = [np.flatnonzero(part.alive) for part in parts]
    phrases = [ranges(part.segment.phrase_start, chosen) for part, chosen in zip(parts, kept, strict=True)]
    flat = [ranges(part.segment.word_start, chosen) for part, chosen in zip(parts, phrases, strict=True)]
    used = [part.segment.phrase_words[places] for part, places in zip(parts, flat, strict=True)]
    segments = [part.segment for part in parts]

    numbers = np.concatenate([segment.words[places] for segment, places in zip(segments, used, strict=True)])
    words, first, phrase_words = np.unique(numbers, return_index=True, return_inverse=True)
    owner = np.repeat(np.arange(len(parts)), [len(places) for places in used])[first]
    origin = np.concatenate(used)[first]
    stems = _gather([segment.terms[segment.word_term] for segment in segments], owner, origin, np.uint64)
    terms, word_term = np.unique(stems, return_inverse=True)

    vectors = np.concatenate([segment.vectors[chosen] for segment, chosen in zip(segments, kept, strict=True)])
    vectors = vectors.reshape(-1, embedder.dimensions)
    phrase_start = starts_of(_each(segments, kept, "phrase_start"))
    word_start = starts_of(_each(segments, phrases, "word_start"))
    postings = _postings(segments, kept, terms)
    tags = _tags(segments, kept)
    meta = [segment.meta[ranges(segment.meta_start, chosen)] for segment, chosen in zip(segments, kept, strict=True)]
    word_vectors = np.empty((len(words), segments[0].word_vectors.shape[1]), np.int8)
    for place, segment in enumerate(segments):
        mine = owner == place
        word_vectors[mine] = segment.word_vectors[origin[mine]]
    return Segment(
        slugs=_concat(segments, kept, "slugs"),
        keys=_concat(segments, kept, "keys"),
        ranks=_concat(segments, kept, "ranks"),
        vectors=vectors,
        codes=codes_of(vectors),
        phrase_start=phrase_start,
        said_end=phrase_start[1:] - _bodies(segments, kept),
        phrase_field=_concat(segments, phrases, "phrase_field"),
        phrase_length=_concat(segments, phrases, "phrase_length"),
        word_start=word_start,
        phrase_words=phrase_words.astype(np.uint32),
        words=words,
        word_term=word_term.astype(np.uint32),
        word_vectors=word_vectors,
        word_weight=_gather([segment.word_weight for segment in segments], owner, origin, np.uint16),
        word_documents=document_counts(phrase_words, phrase_start, word_start, len(words)),
        terms=terms,
        **postings,
        patterned=_places(segments, kept, "patterned"),
        **tags,
        meta_start=starts_of(_each(segments, kept, "meta_start")),
        meta=np.concatenate(meta),
    )


def _postings(segments: Sequence[Segment], kept: Sequence[Array], terms: Array) -> dict[str, Array]:
    keys: list[Array] = []
    impacts: list[Array] = []
    before = 0
    for segment, chosen in zip(segments, kept, strict=True):
        place = np.full(segment.size, -1, np.int64)
        place[chosen] = before + np.arange(len(chosen))
        before += len(chosen)
        term = np.repeat(np.searchsorted(terms, segment.terms), np.diff(segment.posting_start)).astype(np.uint64)
        now = place[segment.postings]
        holds = now >= 0
        keys.append(term[holds] << np.uint64(32) | now[holds].astype(np.uint64))
        impacts.append(segment.impacts[holds])
    every = np.concatenate(keys)
    order = np.argsort(every, kind="stable")
    every = every[order]
    counts = np.bincount((every >> np.uint64(32)).astype(np.int64), minlength=len(terms))
    return {
        "posting_start": starts_of(counts),
        "postings": (every & np.uint64(0xFFFF_FFFF)).astype(np.uint32),
        "impacts": np.concatenate(impacts)[order],
    }


def _tags(segments: Sequence[Segment], kept: Sequence[Array]) -> dict[str, Array]:
    tags: list[Array] = []
    places: list[Array] = []
    before = 0
    for segment, chosen in zip(segments, kept, strict=True):
        place = np.full(segment.size, -1, np.int64)
        place[chosen] = before + np.arange(len(chosen))
        before += len(chosen)
        now = place[segment.tagged]
        tags.append(np.repeat(segment.tags, np.diff(segment.tagged_start))[now >= 0])
        places.append(now[now >= 0])
    tag, where = np.concatenate(tags), np.concatenate(places)
    order = np.lexsort((where, tag))
    found, starts = np.unique(tag[order], return_index=True)
    return {
        "tags": found,
        "tagged_start": np.append(starts, len(order)).astype(np.int64),
        "tagged": where[order].astype(np.uint32),
    }


def _places(segments: Sequence[Segment], kept: Sequence[Array], name: str) -> Array:
    """Where the documents of a list have come to stand, those that are left."""
    found: list[Array] = []
    before = 0
    for segment, chosen in zip(segments, kept, strict=True):
        found.append(before + np.flatnonzero(np.isin(chosen, getattr(segment, name))))
        before += len(chosen)
    return np.concatenate(found).astype(np.uint32)


def _bodies(segments: Sequence[Segment], kept: Sequence[Array]) -> Array:
    """How many phrases of a body each document has: one or none."""
    counts = [segment.phrase_start[1:] - segment.said_end for segment in segments]
    return np.concatenate([count[chosen] for count, chosen in zip(counts, kept, strict=True)])


def _concat(segments: Sequence[Segment], chosen: Sequence[Array], name: str) -> Array:
    return np.concatenate([getattr(segment, name)[some] for segment, some in zip(segments, chosen, strict=True)])


def _each(segments: Sequence[Segment], chosen: Sequence[Array], name: str) -> Array:
    """The lengths of the chosen stretches."""
    lengths = [np.diff(getattr(segment, name))[some] for segment, some in zip(segments, chosen, strict=True)]
    return np.concatenate(lengths)


def _gather(tables: Sequence[Array], owner: Array, origin: Array, kind: type[np.generic]) -> Array:
    """One value each, out of the table of its owner."""
    found = np.empty(len(owner), kind)
    for place, table in enumerate(tables):
        mine = owner == place
        found[mine] = table[origin[mine]]
    return found
