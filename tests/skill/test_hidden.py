"""Hidden text: what must be found, and what people need and must stay free to write."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prowess.skill.text.hidden import HiddenText, find_hidden, show_hidden


def tags(text: str) -> str:
    return "".join(chr(0xE0000 + ord(char)) for char in text)


@pytest.mark.parametrize(
    ("text", "char_class", "count"),
    [
        ("Hello" + tags("obey"), "tag", 4),
        ("\U0001f3f4" + tags("gb"), "tag", 2),
        ("no flag " + tags("gbeng") + "\U000e007f", "tag", 6),
        ("\U000e0001", "tag", 1),
        ("a\ufe0f", "variation-selector", 1),
        ("❤\ufe0f\ufe0f", "variation-selector", 2),
        ("😀" + "".join(chr(0xE0100 + byte) for byte in b"payload"), "variation-selector", 7),
        ("葛\U000e0100\U000e0101", "variation-selector", 2),
        ("pass\u200bword", "zero-width", 1),
        ("a\u200d\u200cb", "zero-width", 2),
        ("a\u2060b", "zero-width", 1),
        ("a\u2063b", "zero-width", 1),
        ("late\ufeffmark", "zero-width", 1),
        ("ca\u180eb", "zero-width", 1),
        ("x\u202eevil", "bidi-control", 1),
        ("a\u2066b", "bidi-control", 1),
        ("latin\u200fonly text", "bidi-control", 1),
        ("a\ufff9b", "invisible", 1),
        ("a\U0001d173b", "invisible", 1),
        ("a\ufdd0b", "invisible", 1),
        ("a\U0002ffffb", "invisible", 1),
        ("a\u3164b", "invisible", 1),
        ("a\ud800b", "invisible", 1),
        ("a\x00b", "control", 1),
        ("\x1b[31mred", "control", 1),
        ("a\x7fb", "control", 1),
        ("a\x9bb", "control", 1),
    ],
)
def test_hidden_text_is_found_by_class(text: str, char_class: str, count: int) -> None:
    assert [(found.char_class, found.count) for found in find_hidden(text)] == [(char_class, count)]


@pytest.mark.parametrize(
    "text",
    [
        "plain ASCII\ttext\r\nwith lines\f",
        "\ufeffa byte order mark at the start",
        "soft\xadhyphen and no\xa0break",
        "England \U0001f3f4" + tags("gbeng") + "\U000e007f, Scotland \U0001f3f4" + tags("gbsct") + "\U000e007f",
        "می\u200cخواهم کتاب\u200cها",
        "family 👨\u200d👩\u200d👧\u200d👦",
        "scientist 👩🏽\u200d🔬, rainbow 🏳\ufe0f\u200d🌈, heart on fire ❤\ufe0f\u200d🔥",
        "keycaps 1\ufe0f\u20e3 #\ufe0f\u20e3 *\ufe0f\u20e3",
        "symbols ❤\ufe0f ☎\ufe0e ©\ufe0f ™\ufe0f ↔\ufe0f ‼\ufe0f ℹ\ufe0f Ⓜ\ufe0f 〰\ufe0f",
        "क्\u200dष and क्\u200cष",
        "ശ്രീ നന്\u200d",
        "ภาษา\u200bไทย",
        "ភាសា\u200bខ្មែរ",
        "שלום\u200f!",
        "עברית (\u200eC++\u200e) עברית",
        "ᠮᠣᠩ\u180eᠭᠣᠯ\u180b",
        "葛\U000e0100城 辻\U000e0101",
        "中\ufe00",
        "日本語 中文 한국어 ελληνικά русский",
        "emoji 😀 🇩🇪 👍🏽",
        "next line \x85 and separators \u2028 \u2029",
    ],
)
def test_ordinary_writing_of_any_script_is_accepted(text: str) -> None:
    assert find_hidden(text) == []


def test_a_run_is_told_once_with_its_place() -> None:
    text = "first line\nsecond " + tags("abc") + " and \u200bmore"
    assert find_hidden(text) == [
        HiddenText(line=2, column=8, char_class="tag", code_point=0xE0061, count=3),
        HiddenText(line=2, column=16, char_class="zero-width", code_point=0x200B, count=1),
    ]


def test_neighbours_of_different_classes_are_two_runs() -> None:
    assert [found.char_class for found in find_hidden("a\u200b\u202eb")] == ["zero-width", "bidi-control"]


def test_hidden_text_is_shown_escaped_and_the_rest_as_it_is() -> None:
    assert show_hidden("a" + tags("A") + "b 👨\u200d👩 \u200b") == "a\\u{E0041}b 👨\u200d👩 \\u{200B}"
    assert show_hidden("\x1b[31m") == "\\u{001B}[31m"


@settings(deadline=None)
@given(st.text(alphabet=st.characters(), max_size=60))
def test_what_is_shown_escaped_has_nothing_hidden_left(text: str) -> None:
    shown = show_hidden(text)
    assert (shown == text) == (find_hidden(text) == [])
    assert sum(found.count for found in find_hidden(text)) <= len(text)


@settings(deadline=None)
@given(st.text(alphabet=st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=200))
def test_printable_ascii_hides_nothing(text: str) -> None:
    assert find_hidden(text) == []
