"""What an unknown word may mean."""

from __future__ import annotations

from prowess.catalog.store import SearchDocument
from prowess.match.index import Index
from prowess.match.lexicon import hash_word
from prowess.match.query import find_meanings


def test_of_terms_used_equally_often_the_one_with_the_lowest_word_comes_first():
    index = Index.build(
        [
            SearchDocument(slug="one", description="Copied copies."),
            SearchDocument(slug="other", description="A copier."),
        ]
    )
    assert hash_word("copied") < hash_word("copier") < hash_word("copies")
    assert [word.number for word in find_meanings(index, "copiez")] == [hash_word("copied"), hash_word("copier")]


def test_the_term_that_more_skills_have_comes_first():
    documents = [SearchDocument(slug=f"copier-{number}", description="A copier.") for number in range(3)]
    index = Index.build([SearchDocument(slug="one", description="Copied copies."), *documents])
    assert [word.number for word in find_meanings(index, "copiez")] == [hash_word("copier"), hash_word("copied")]
