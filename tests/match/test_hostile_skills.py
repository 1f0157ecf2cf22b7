"""Skills that were made to break the index: whatever one of them says, the others are found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.catalog.store import SearchDocument
from prowess.match import lexicon
from prowess.match.index import Index
from prowess.match.ranking import rank
from prowess.match.vectors.embedder import WordsOnly

GOOD = SearchDocument(slug="sql-tuner", description="Explains slow database queries and proposes indexes.")
HEAVY = "\U0001ec71" * 64
"""A word of letters that are no piece of the model: byte by byte it weighs more than any other."""


def found(*hostile: SearchDocument, message: str = "why is this database query so slow") -> str:
    return rank(Index.build([*hostile, GOOD]), message, limit=1)[0].slug


def test_a_word_that_weighs_more_than_any_other_is_indexed():
    assert found(SearchDocument(slug="heavy", description=HEAVY, body=HEAVY, triggers=(HEAVY,))) == "sql-tuner"


def test_a_message_of_the_heaviest_words_is_answered():
    words = " ".join(HEAVY[:63] + chr(0x1EC71 + number) for number in range(1, 200))
    index = Index.build([GOOD, SearchDocument(slug="heavy", description=words)])
    assert rank(index, words, limit=1)[0].slug == "heavy"


def test_a_name_of_thousands_of_words_is_indexed():
    assert found(SearchDocument(slug="long", title="word " * 5_000, description="Long.")) == "sql-tuner"


def test_many_long_patterns_are_all_heard():
    hostile = [
        SearchDocument(
            slug=f"wordy-{number}",
            description="Wordy.",
            patterns=tuple(f"start{number}x{place}" + "a" * 980 for place in range(10)),
        )
        for number in range(12)
    ]
    assert found(*hostile) == "sql-tuner"
    assert found(*hostile, message=f"please start7x3{'a' * 980} now") == "wordy-7"


def test_thousands_of_patterns_are_all_heard():
    hostile = [
        SearchDocument(slug=f"terse-{number}", description="Terse.", patterns=(f"alpha{number}y", f"beta{number}y"))
        for number in range(4_000)
    ]
    index = Index.build(hostile, WordsOnly())
    assert rank(index, "run beta3456y", limit=1)[0].slug == "terse-3456"


def test_a_pattern_is_heard_at_the_end_of_a_long_message():
    fitting = SearchDocument(slug="omega", description="Something about gardens.", patterns=("rotate the keys",))
    assert found(fitting, message=f"{'filler ' * 5_000} rotate the keys") == "omega"


def test_more_words_than_are_remembered_do_no_harm(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lexicon, "_CACHE_SIZE", 40)
    monkeypatch.setattr(lexicon, "MAX_VOCABULARY", 60)
    lexicon.shared_lexicon.cache_clear()
    bodies = [
        SearchDocument(slug=f"s{n}", description="Some.", body=" ".join(f"w{n}x{i} shared" for i in range(50)))
        for n in range(9)
    ]
    assert found(*bodies) == "sql-tuner"


@given(st.lists(st.tuples(st.text(max_size=300), st.text(max_size=200), st.text(max_size=80)), max_size=4))
def test_whatever_a_skill_says_it_can_be_indexed(texts: list[tuple[str, str, str]]):
    hostile = [
        SearchDocument(
            slug=f"s{n}", title=tag, description=one, tags=(tag,), triggers=(two,), patterns=(two,), body=one * 3
        )
        for n, (one, two, tag) in enumerate(texts)
    ]
    index = Index.build([*hostile, GOOD])
    assert index.size == len(texts) + 1
    rank(index, " ".join(one for one, _, _ in texts), limit=5)
