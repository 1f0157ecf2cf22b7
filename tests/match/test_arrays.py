"""Many lists of different lengths in one array."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prowess.match.arrays import count_documents, offsets_of, sort_unique, take_slices

LISTS = st.lists(st.lists(st.integers(0, 9), max_size=12), max_size=8)


def flat(lists):
    return np.array([number for some in lists for number in some], np.int64)


@given(LISTS, st.data())
def test_some_lists_are_taken_in_their_order(lists, data):
    chosen = [place for place in range(len(lists)) if data.draw(st.booleans())]
    found = take_slices(flat(lists), offsets_of([len(some) for some in lists]), np.array(chosen, np.int64))
    assert found.tolist() == flat([lists[place] for place in chosen]).tolist()


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_distinct_numbers_are_ascending_and_come_once(numbers):
    assert sort_unique(np.array(numbers, np.uint64)).tolist() == sorted(set(numbers))


@given(LISTS)
def test_a_word_counts_once_for_each_document_it_is_in(lists):
    documents = np.repeat(np.arange(len(lists)), [len(some) for some in lists])
    counts = count_documents(flat(lists), documents, 10)
    assert counts.tolist() == [sum(word in some for some in lists) for word in range(10)]
