"""Versions in the order of semantic versioning, and an answer for what is none."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.skill.semver import is_prerelease, is_semver, latest_version, version_key

ASCENDING = [
    *("1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1"),
    *("1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0-0", "2.0.0", "10.0.0"),
]
NUMBERS = st.integers(min_value=0, max_value=30)
WORDS = st.lists(st.one_of(NUMBERS.map(str), st.sampled_from(["rc", "beta", "x-1"])), max_size=3)
VERSIONS = st.builds(
    lambda numbers, words: ".".join(map(str, numbers)) + ("-" + ".".join(words) if words else ""),
    st.tuples(NUMBERS, NUMBERS, NUMBERS),
    WORDS,
)


def test_versions_stand_in_the_order_that_the_rules_give():
    for earlier, later in itertools.pairwise(ASCENDING):
        assert version_key(earlier) < version_key(later)
    assert all(is_semver(version) for version in ASCENDING)


def test_build_metadata_does_not_count():
    assert version_key("1.0.0+20130313144700") == version_key("1.0.0+exp.sha")
    assert is_semver("1.0.0-rc.1+build.5")


def test_shorter_versions_are_read_with_zeros_and_anything_else_stands_below():
    assert version_key("1.2") == version_key("1.2.0")
    assert version_key("v3") == version_key("3.0.0")
    assert version_key("") < version_key("draft") < version_key("final") < version_key("0.0.1")


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "v1.0.0", "01.0.0", "1.0.0-01", "1.0.0 ", "1.0.0\n", "latest", "1" * 500]
)
def test_what_is_not_a_semantic_version_is_told(text):
    assert not is_semver(text)


def test_the_latest_is_the_latest_release_and_a_prerelease_only_where_there_is_nothing_else():
    assert latest_version(["1.0.0", "2.0.0-rc.1", "1.10.0", "1.9.0"]) == "1.10.0"
    assert latest_version(["1.0.0-rc.1", "1.0.0-rc.2"]) == "1.0.0-rc.2"
    assert latest_version([]) is None


@given(st.lists(VERSIONS, min_size=1))
def test_the_latest_is_one_of_them_and_no_release_stands_above_it(versions):
    found = latest_version(versions)
    assert found in versions
    releases = [version for version in versions if not is_prerelease(version)]
    assert all(version_key(version) <= version_key(found) for version in releases or versions)


@given(st.lists(st.text(max_size=30)))
def test_any_text_has_a_place_in_the_order(texts):
    ordered = sorted(texts, key=version_key)
    assert sorted(ordered, key=version_key) == ordered
