"""What an unknown word may mean."""

from __future__ import annotations

from prowess.catalog.document import Document
from prowess.match.hashing import number_of
from prowess.match.index import Index
from prowess.match.repair import meanings_of


def test_of_terms_used_equally_often_the_one_with_the_lowest_word_comes_first():
    index = Index.build(
        [Document(slug="one", description="Copied copies."), Document(slug="other", description="A copier.")]
    )
    assert number_of("copied") < number_of("copier") < number_of("copies")
    assert [word.number for word in meanings_of(index, "copiez")] == [number_of("copied"), number_of("copier")]


def test_the_term_that_more_skills_have_comes_first():
    documents = [Document(slug=f"copier-{number}", description="A copier.") for number in range(3)]
    index = Index.build([Document(slug="one", description="Copied copies."), *documents])
    assert [word.number for word in meanings_of(index, "copiez")] == [number_of("copier"), number_of("copied")]
