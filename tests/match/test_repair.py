"""What an unknown word may mean."""

from __future__ import annotations

import pytest

from prowess.catalog.store import SearchDocument
from prowess.match.index import Index
from prowess.match.lexicon import hash_word
from prowess.match.query import build_query, find_meanings


def test_of_terms_used_equally_often_the_one_with_the_lowest_word_comes_first():
    index = Index.build(
        [
            SearchDocument(slug="one", description="Copied copies."),
            SearchDocument(slug="other", description="A copier."),
        ]
    )
    assert hash_word("copied") < hash_word("copier") < hash_word("copies")
    assert [word.number for word in find_meanings(index, ["copiez"])["copiez"]] == [
        hash_word("copied"),
        hash_word("copier"),
    ]


def test_the_term_that_more_skills_have_comes_first():
    documents = [SearchDocument(slug=f"copier-{number}", description="A copier.") for number in range(3)]
    index = Index.build([SearchDocument(slug="one", description="Copied copies."), *documents])
    assert [word.number for word in find_meanings(index, ["copiez"])["copiez"]] == [
        hash_word("copier"),
        hash_word("copied"),
    ]


@pytest.mark.parametrize(
    ("word", "name"), [("react19", "react"), ("python3", "python"), ("pdfs", "pdf"), ("csvs", "csv")]
)
def test_a_name_is_found_behind_its_version_and_its_plural(word: str, name: str):
    index = Index.build([SearchDocument(slug="one", description="React, Python, PDF and CSV.")])
    assert [meaning.number for meaning in find_meanings(index, [word])[word]] == [hash_word(name)]


def test_a_word_that_a_skill_has_is_not_taken_apart():
    index = Index.build(
        [
            SearchDocument(slug="hashes", description="Compute sha256 checksums."),
            SearchDocument(slug="sha", description="Explain sha."),
        ]
    )
    query = build_query(index, "sha256 of this download")
    assert hash_word("sha") not in query.strengths
