"""What a slug is, and what free text becomes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid
from prowess.skill.forms import read_package
from prowess.skill.package import Package
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


@pytest.mark.parametrize(
    ("slug", "fault", "used"),
    [("a" * 63 + "-b", "is longer than 64 characters", "a" * 63), ("Bad Slug", "is not valid", "bad-slug")],
)
def test_a_slug_that_is_corrected_is_named_with_its_fault(slug, fault, used):
    text = f"---\nname: notes\nslug: {slug}\ndescription: d\n---\n"
    problems = read_package(Package.of_texts("notes", {"SKILL.md": text})).problems
    messages = [problem.message for problem in problems if problem.code == "slug-invalid"]
    assert messages == [f"The slug {slug!r} {fault}; {used!r} is used instead."]
