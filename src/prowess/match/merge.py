"""Merge several segments into one without reading the skills again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from prowess.match.arrays import Array, offsets_of, rank_unique, take_slices
from prowess.match.segment import Segment


class SegmentPart(Protocol):
    """A segment with its live documents."""

    @property
    def segment(self) -> Segment:
        """The segment."""
        ...

    @property
    def alive(self) -> NDArray[np.bool_]:
        """The mask of live documents."""
        ...

    @property
    def term_count(self) -> NDArray[np.int32]:
        """The number of live documents with each term."""
        ...

    @property
    def word_count(self) -> NDArray[np.int32]:
        """The number of live documents with each word."""
        ...


def merge_segments(parts: Sequence[SegmentPart]) -> Segment:
    """Return one segment with the live documents of all parts, and only the words and terms they use."""
    # Deleted documents are only marked until now; the merge is what frees their words and postings.
    kept = [np.flatnonzero(part.alive) for part in parts]
    segments = [part.segment for part in parts]
    used = [np.flatnonzero(part.word_count) for part in parts]
    words, placed = _unite([segment.words[some] for segment, some in zip(segments, used, strict=True)])
    word_places = _new_places(segments, used, placed)
    stems = [segment.terms[segment.word_term[some]] for segment, some in zip(segments, used, strict=True)]
    terms, word_term = rank_unique(_merge_rows(stems, placed, len(words)))

    phrase_start = offsets_of(_slice_lengths(segments, kept, "phrase_start"))
    moved = _new_documents(segments, kept)
    return Segment(
        slugs=_concat(segments, kept, "slugs"),
        locations=_concat(segments, kept, "locations"),
        keys=_concat(segments, kept, "keys"),
        ranks=_concat(segments, kept, "ranks"),
        offers=_concat(segments, kept, "offers"),
        vector_keys=_concat(segments, kept, "vector_keys"),
        phrase_start=phrase_start,
        phrase_field=_concat_slices(segments, kept, "phrase_field", "phrase_start"),
        word_start=offsets_of(_phrase_lengths(segments, kept)),
        phrase_words=_merge_phrase_words(segments, kept, word_places),
        words=words,
        word_term=word_term.astype(np.uint32),
        word_weight=_merge_rows(_select(segments, used, "word_weight"), placed, len(words)),
        word_documents=_merge_word_counts(parts, used, placed, len(words)),
        terms=terms,
        **_merge_postings(parts, moved, terms),
        patterned=_merge_patterned(segments, moved),
        **_merge_tags(segments, moved),
        meta_start=offsets_of(_slice_lengths(segments, kept, "meta_start")),
        meta=_concat_slices(segments, kept, "meta", "meta_start"),
    )


def _unite(numbers: Sequence[Array]) -> tuple[Array, list[Array]]:
    """Return the sorted distinct numbers of all tables, and the positions of each table's numbers among them."""
    every, placed = rank_unique(np.concatenate(numbers))
    return every, np.split(placed, np.cumsum([len(some) for some in numbers])[:-1])


def _new_places(segments: Sequence[Segment], used: Sequence[Array], placed: Sequence[Array]) -> list[Array]:
    """Return the new position of each word of each segment, 0 for dropped words."""
    found: list[Array] = []
    for segment, some, now in zip(segments, used, placed, strict=True):
        places = np.zeros(len(segment.words), np.uint32)
        places[some] = now
        found.append(places)
    return found


def _merge_rows(tables: Sequence[Array], placed: Sequence[Array], size: int) -> Array:
    """Return one table with the rows of several; equal rows may come from any of them."""
    found = np.empty((size, *tables[0].shape[1:]), tables[0].dtype)
    for table, now in zip(tables, placed, strict=True):
        found[now] = table
    return found


def _merge_word_counts(
    parts: Sequence[SegmentPart], used: Sequence[Array], placed: Sequence[Array], size: int
) -> Array:
    found = np.zeros(size, np.int32)
    for part, some, now in zip(parts, used, placed, strict=True):
        found[now] += part.word_count[some]
    return found


def _merge_phrase_words(segments: Sequence[Segment], kept: Sequence[Array], places: Sequence[Array]) -> Array:
    return np.concatenate(
        [
            now[take_slices(segment.phrase_words, segment.word_start[segment.phrase_start], chosen)]
            for segment, chosen, now in zip(segments, kept, places, strict=True)
        ]
    )


def _phrase_lengths(segments: Sequence[Segment], kept: Sequence[Array]) -> Array:
    """Return the number of words of each phrase."""
    return np.concatenate(
        [
            take_slices(np.diff(segment.word_start), segment.phrase_start, chosen)
            for segment, chosen in zip(segments, kept, strict=True)
        ]
    )


def _new_documents(segments: Sequence[Segment], kept: Sequence[Array]) -> list[Array]:
    """Return the new position of each document of each segment, -1 for dropped ones."""
    found: list[Array] = []
    before = 0
    for segment, chosen in zip(segments, kept, strict=True):
        places = np.full(segment.size, -1, np.int64)
        places[chosen] = before + np.arange(len(chosen))
        before += len(chosen)
        found.append(places)
    return found


def _merge_postings(parts: Sequence[SegmentPart], moved: Sequence[Array], terms: Array) -> dict[str, Array]:
    """Return the postings: per term, those of the first segment, then of the second, and so on, which keeps them sorted."""
    places = [np.searchsorted(terms, part.segment.terms) for part in parts]
    starts = offsets_of(_count_postings(parts, places, len(terms)))
    postings, impacts, marks = (np.empty(starts[-1], kind) for kind in (np.uint32, np.uint8, np.uint16))
    # Where the next posting of each term goes. A term that no live document has is not in `terms`: `searchsorted` gives
    # it the place of another, or the extra one at the end, which does no harm because it has no postings.
    following = np.append(starts[:-1], 0)
    for part, now, place in zip(parts, moved, places, strict=True):
        segment = part.segment
        documents = now[segment.postings]
        holds = documents >= 0
        begins = offsets_of(part.term_count)[:-1]
        target = np.repeat(following[place] - begins, part.term_count) + np.arange(np.count_nonzero(holds))
        postings[target], impacts[target] = documents[holds], segment.impacts[holds]
        marks[target] = segment.posting_marks[holds]
        # `add.at`, because several terms may have the same place, one of them live: `+=` would add only the last one.
        np.add.at(following, place, part.term_count)
    return {"posting_start": starts, "postings": postings, "impacts": impacts, "posting_marks": marks}


def _count_postings(parts: Sequence[SegmentPart], places: Sequence[Array], size: int) -> Array:
    counts = np.zeros(size + 1, np.int64)
    for part, place in zip(parts, places, strict=True):
        # As in `_merge_postings`: places may repeat.
        np.add.at(counts, place, part.term_count)
    return counts[:-1]


def _merge_tags(segments: Sequence[Segment], moved: Sequence[Array]) -> dict[str, Array]:
    tags: list[Array] = []
    tagged: list[Array] = []
    for segment, places in zip(segments, moved, strict=True):
        now = places[segment.tagged]
        tags.append(np.repeat(segment.tags, np.diff(segment.tagged_start))[now >= 0])
        tagged.append(now[now >= 0])
    tag, where = np.concatenate(tags), np.concatenate(tagged)
    order = np.lexsort((where, tag))
    found, places = rank_unique(tag)
    return {
        "tags": found,
        "tagged_start": offsets_of(np.bincount(places, minlength=len(found))),
        "tagged": where[order].astype(np.uint32),
    }


def _merge_patterned(segments: Sequence[Segment], moved: Sequence[Array]) -> Array:
    now = np.concatenate([places[segment.patterned] for segment, places in zip(segments, moved, strict=True)])
    return now[now >= 0].astype(np.uint32)


def _concat_slices(segments: Sequence[Segment], kept: Sequence[Array], name: str, starts: str) -> Array:
    """Return the items of a ragged array that belong to the kept documents."""
    return np.concatenate(
        [
            take_slices(getattr(segment, name), getattr(segment, starts), chosen)
            for segment, chosen in zip(segments, kept, strict=True)
        ]
    )


def _concat(segments: Sequence[Segment], chosen: Sequence[Array], name: str) -> Array:
    return np.concatenate(_select(segments, chosen, name))


def _select(segments: Sequence[Segment], chosen: Sequence[Array], name: str) -> list[Array]:
    return [getattr(segment, name)[some] for segment, some in zip(segments, chosen, strict=True)]


def _slice_lengths(segments: Sequence[Segment], chosen: Sequence[Array], name: str) -> Array:
    """Return the lengths of the chosen lists."""
    lengths = [np.diff(getattr(segment, name))[some] for segment, some in zip(segments, chosen, strict=True)]
    return np.concatenate(lengths)
