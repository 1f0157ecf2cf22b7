"""What a slug is, and what free text becomes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid
from prowess.skill.slug import MAX_NAME_CHARS, check_slug, is_slug, slugify, tool_name


@pytest.mark.parametrize(
    "text", ["a", "release-notes", "postgres.health-triage", "a.b.c", "3d-print", "数据分析", "größe", "x" * 64]
)
def test_a_slug_is_a_slug(text):
    assert is_slug(text)
    assert check_slug(text) == slugify(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A",
        "a b",
        "a_b",
        "-a",
        "a-",
        "a--b",
        ".a",
        "a.",
        "a..b",
        "a/b",
        "../a",
        "a\n",
        "a\x00",
        "x" * 65,
        "Größe",
        "ﬁx",
    ],
)
def test_what_is_not_a_slug_is_refused_with_the_rule(text):
    assert not is_slug(text)
    with pytest.raises(Invalid, match="Invalid slug") as refused:
        check_slug(text)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Consistency Checker", "consistency-checker"),
        ("Customer.io Automation", "customer-io-automation"),
        ("  --Hello,   World!-- ", "hello-world"),
        ("snake_case_name", "snake-case-name"),
        ("C++ / Rust", "c-rust"),
        ("日本語 スキル", "日本語-スキル"),
        ("!!!", ""),
        ("", ""),
    ],
)
def test_free_text_becomes_the_nearest_slug(text, slug):
    assert slugify(text) == slug


@given(st.text(max_size=200))
def test_whatever_is_slugified_is_a_slug_or_nothing(text):
    slug = slugify(text)
    assert slug == "" or is_slug(slug)
    assert slugify(slug) == slug
    assert len(slug.rpartition(".")[2]) <= MAX_NAME_CHARS


def test_the_tool_of_a_skill_is_named_after_its_slug():
    assert tool_name("postgres.health-triage") == "skill_postgres_health_triage"
