"""Several segments as one, without a look at the skills themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from prowess.match.arrays import Array, document_counts, ranges, starts_of
from prowess.match.segment import Segment, codes_of


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


def merged(parts: Sequence[Part]) -> Segment:
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
    stems = _gather([segment.terms[segment.word_term] for segment in segments], owner, origin)
    terms, word_term = np.unique(stems, return_inverse=True)

    vectors = np.concatenate([segment.vectors[chosen] for segment, chosen in zip(segments, kept, strict=True)])
    phrase_start = starts_of(_each(segments, kept, "phrase_start"))
    word_start = starts_of(_each(segments, phrases, "word_start"))
    moved = _moved(segments, kept)
    meta = [segment.meta[ranges(segment.meta_start, chosen)] for segment, chosen in zip(segments, kept, strict=True)]
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
        word_vectors=_gather([segment.word_vectors for segment in segments], owner, origin),
        word_weight=_gather([segment.word_weight for segment in segments], owner, origin),
        word_documents=document_counts(phrase_words, phrase_start, word_start, len(words)),
        terms=terms,
        **_postings(segments, moved, terms),
        patterned=_patterned(segments, moved),
        **_tags(segments, moved),
        meta_start=starts_of(_each(segments, kept, "meta_start")),
        meta=np.concatenate(meta),
    )


def _moved(segments: Sequence[Segment], kept: Sequence[Array]) -> list[Array]:
    """For each document of each segment its place in the new one; -1 for those that are gone."""
    found: list[Array] = []
    before = 0
    for segment, chosen in zip(segments, kept, strict=True):
        places = np.full(segment.size, -1, np.int64)
        places[chosen] = before + np.arange(len(chosen))
        before += len(chosen)
        found.append(places)
    return found


def _postings(segments: Sequence[Segment], moved: Sequence[Array], terms: Array) -> dict[str, Array]:
    keys: list[Array] = []
    impacts: list[Array] = []
    for segment, places in zip(segments, moved, strict=True):
        term = np.repeat(np.searchsorted(terms, segment.terms), np.diff(segment.posting_start)).astype(np.uint64)
        now = places[segment.postings]
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


def _tags(segments: Sequence[Segment], moved: Sequence[Array]) -> dict[str, Array]:
    tags: list[Array] = []
    tagged: list[Array] = []
    for segment, places in zip(segments, moved, strict=True):
        now = places[segment.tagged]
        tags.append(np.repeat(segment.tags, np.diff(segment.tagged_start))[now >= 0])
        tagged.append(now[now >= 0])
    tag, where = np.concatenate(tags), np.concatenate(tagged)
    order = np.lexsort((where, tag))
    found, starts = np.unique(tag[order], return_index=True)
    return {
        "tags": found,
        "tagged_start": np.append(starts, len(order)).astype(np.int64),
        "tagged": where[order].astype(np.uint32),
    }


def _patterned(segments: Sequence[Segment], moved: Sequence[Array]) -> Array:
    now = np.concatenate([places[segment.patterned] for segment, places in zip(segments, moved, strict=True)])
    return now[now >= 0].astype(np.uint32)


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


def _gather(tables: Sequence[Array], owner: Array, origin: Array) -> Array:
    """One row each, out of the table of its owner."""
    found = np.empty((len(owner), *tables[0].shape[1:]), tables[0].dtype)
    for place, table in enumerate(tables):
        mine = owner == place
        found[mine] = table[origin[mine]]
    return found
