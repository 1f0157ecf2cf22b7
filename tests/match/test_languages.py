"""Messages in other languages than the catalog's first one."""

from __future__ import annotations

import pytest

from prowess.catalog.store import SearchDocument
from prowess.match.index import Index
from prowess.match.ranking import rank


@pytest.mark.parametrize(
    ("message", "slug"),
    [
        ("Bitte prüfe meinen Mietvertrag auf unwirksame Klauseln", "vertragspruefung"),
        ("kündigung der wohnung", "vertragspruefung"),
        ("kundigung der wohnung", "vertragspruefung"),
        ("creme brulee", "cafe-menu"),
        ("CRÈME BRÛLÉE", "cafe-menu"),
        ("menu du café", "cafe-menu"),
        ("请帮我核对这些发票的金额", "fapiao-helper"),
        ("报销单", "fapiao-helper"),
        ("このメールの敬語を直してください", "keigo-coach"),
        ("ビジネスメール", "keigo-coach"),
        ("자기소개서를 검토해 주세요", "resume-helper-ko"),
        ("이력서", "resume-helper-ko"),
    ],
)
def test_a_skill_is_found_in_its_own_language(matcher, message, slug):
    best = matcher.match(message)[0]
    assert best.slug == slug
    assert best.evidence


@pytest.mark.parametrize("message", ["Wohnungskündigung", "Klauselprüfung Mietverträge", "Mietverträgeklauseln"])
def test_a_german_compound_means_its_parts(first, message):
    best = first(message)
    assert best.slug == "vertragspruefung"
    assert best.evidence


@pytest.mark.parametrize(
    ("written", "asked"), [("Café", "cafe"), ("cafe", "Café"), ("Straße", "strasse"), ("strasse", "STRASSE")]
)
def test_accents_do_not_matter_on_either_side(written, asked):
    index = Index.build(
        [
            SearchDocument(slug="one", description=f"Something about a {written} in town."),
            SearchDocument(slug="two", description="Something about a harbour in town."),
        ]
    )
    best = rank(index, asked, limit=1)[0]
    assert best.slug == "one"
    assert [item.field for item in best.evidence] == ["description"]


@pytest.mark.parametrize(
    "message", ["你好", "谢谢", "Guten Morgen!", "Wie ist das Wetter?", "Bonjour, ça va ?", "¿Qué hora es?"]
)
def test_chit_chat_gives_none_in_other_languages_too(matcher, message):
    assert matcher.match(message) == []


@pytest.mark.parametrize("message", ["我喜欢吃苹果", "今日の天気はどうですか", "오늘 날씨 어때"])
def test_chit_chat_gives_none_also_where_the_language_is_all_that_is_shared(matcher, message):
    assert matcher.match(message) == []
