"""The words that tell what a body is about."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from prowess.catalog.store import SearchDocument
from prowess.match.entry import MAX_KEY_TERMS, read_entries
from prowess.match.lexicon import Vocabulary
from prowess.match.recommendation import FIELD_NAMES

MANY = " ".join(f"{one}{two}" for one in ("amber", "basalt", "cobalt", "dolomite") for two in "abcdefghijklmnop")


def key_terms(body):
    return sorted(key_terms_of([body])[0])


def key_terms_of(bodies):
    vocabulary = Vocabulary()
    documents = [SearchDocument(slug=f"skill-{place:05}", body=body) for place, body in enumerate(bodies)]
    entries = read_entries(documents, vocabulary)
    texts = vocabulary.texts(entries.words)
    found = []
    for first, last in pairwise(entries.phrase_start):
        # The key terms of a body are the last phrase, if there are any.
        of_body = [place for place in range(first, last) if entries.fields[place] == FIELD_NAMES.index("body")]
        found.append([text for place in of_body for text in texts[slice(*entries.word_start[place : place + 2])]])
    return found


def test_a_short_body_gives_all_its_telling_words_once():
    assert key_terms("The hygrometer and the nozzles. Hygrometer!") == ["hygrometer", "nozzles"]


def test_there_are_at_most_thirty():
    assert len(key_terms(MANY)) == MAX_KEY_TERMS == 30


def test_a_word_that_comes_often_is_among_them():
    assert "encarsia" in key_terms(f"{MANY} {'encarsia ' * 40}")


def test_numbers_and_the_shortest_words_are_not():
    assert key_terms("In 2024 we go to HQ by ox and plane") == ["plane"]


def test_code_is_left_out():
    body = "Nozzles\n```python\nimport frobnicate\n```\nwasps\n~~~\nquuxify\n~~~\nmist\n"
    assert key_terms(body) == ["mist", "nozzles", "wasps"]


def test_code_in_a_list_and_a_fence_around_a_fence_are_left_out_too():
    assert key_terms("1. Nozzles:\n\n   ```sh\n   frobnicate\n   ```\n2. Mist\n") == ["mist", "nozzles"]
    assert key_terms("````md\n```\nfrobnicate\n```\nquuxify\n````\nMist\n") == ["mist"]


def test_a_fence_that_is_never_closed_reaches_to_the_end():
    assert key_terms("Words first.\n```\nfrobnicate\n") == ["first", "words"]


def test_a_long_body_is_read_as_far_as_it_may_count():
    assert "encarsia" not in key_terms("hygrometer " * 10_000 + "encarsia")


@given(st.text(st.characters(codec=None)) | st.text("ab \n`~", max_size=60))
def test_any_body_has_key_terms_that_are_the_same_each_time(body):
    found = key_terms(body)
    assert found == key_terms(body)
    assert len(found) == len(set(found)) <= MAX_KEY_TERMS


@given(st.lists(st.text("abc 9C#'é中\n`", max_size=80), max_size=5))
def test_the_key_terms_of_a_body_do_not_depend_on_the_bodies_beside_it(bodies):
    assert key_terms_of(bodies) == [key_terms_of([body])[0] for body in bodies]
