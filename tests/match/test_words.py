"""Text as words."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.match.lexicon import Vocabulary
from prowess.match.words import LONGEST_WORD, extract_words, normalize, slug_words, split_words, stem_words

ANY_TEXT = st.text(st.characters(codec=None))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("parseJsonFile", ["parse", "json", "file", "parsejsonfile"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("utf8Decoder", ["utf8", "decoder", "utf8decoder"]),
        ("code-review_tool.v2/final", ["code", "review", "tool", "v2", "final"]),
        ("C++ or C#, F# too", ["c++", "c#", "f#"]),
        ("Crème BRÛLÉE, naïve Ångström", ["creme", "brulee", "naive", "angstrom"]),
        ("Straße", ["strasse"]),
        ("STRAẞE", ["strasse"]),
        ("e\u0301clair", ["eclair"]),
        ("ﬁle №1", ["file", "no1"]),
        ("don't we'll they’re John's files", ["john", "files"]),
        ("Привет мир", ["привет", "мир"]),
        ("", []),
        ("?!… — \x00", []),
    ],
)
def test_words_are_lower_case_without_accents_and_split_where_people_see_two(text, words):
    assert extract_words(text) == words


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("核对发票", ["核对", "对发", "发票"]),
        ("敬語を直す", ["敬語", "語を", "を直", "直す"]),
        ("カタカナ", ["カタ", "タカ", "カナ"]),
        ("자기소개서 검토", ["자기", "기소", "소개", "개서", "검토"]),
        ("猫", ["猫"]),
        ("用Python写脚本", ["python", "用", "写脚", "脚本"]),
    ],
)
def test_chinese_japanese_and_korean_give_pairs_of_characters(text, pairs):
    assert extract_words(text) == pairs


def test_half_width_katakana_and_composed_hangul_are_the_same_words_as_the_usual_ones():
    assert extract_words("ｶﾀｶﾅ") == extract_words("カタカナ")
    assert extract_words("한국") == extract_words("한국")


def test_stop_words_are_left_out_unless_nothing_else_is_said():
    assert extract_words("please help me with the invoices") == ["invoices"]
    assert extract_words("can you help me with this") == ["can", "you", "help", "me", "with", "this"]


def test_a_slug_is_spelled_out_with_its_namespace():
    assert slug_words("acme.release-notes") == "acme release notes"


def test_words_of_one_stem_are_one_term():
    assert len(set(stem_words(["test", "tests", "testing", "tested"]))) == 1
    assert len(set(stem_words(["invoice", "vacation"]))) == 2


@given(ANY_TEXT | st.text("Ａｅ，：＇＞\u0301\u0338が＂"))
def test_a_text_is_normalized_as_unicode_says(text):
    assert normalize(text) == unicodedata.normalize("NFKC", text)


@given(ANY_TEXT)
def test_any_text_gives_the_same_list_of_short_words_each_time(text):
    words = extract_words(text)
    assert words == extract_words(text)
    assert all(word and len(word) <= LONGEST_WORD for word in words)
    assert set(words) <= set(split_words(text))


@pytest.mark.parametrize("text", ["a" * 200_000, "word " * 40_000, "\ud800" * 200_000, "漢" * 200_000, "aB" * 100_000])
def test_a_very_long_text_is_read_as_far_as_it_may_count(text):
    assert all(len(word) <= LONGEST_WORD for word in extract_words(text))
    assert extract_words(text) == extract_words(text + text)


@given(
    st.lists(
        st.text(st.characters(codec=None)) | st.text("ab C+#_'’s\x01é…\u0301か\u3099中文-", max_size=40), max_size=6
    )
)
def test_many_texts_at_once_have_the_words_that_each_has_alone(texts):
    vocabulary = Vocabulary()
    words, starts = vocabulary.read(texts)
    found = vocabulary.texts(words)
    assert [found[begin:end] for begin, end in pairwise(starts)] == [extract_words(text) for text in texts]
