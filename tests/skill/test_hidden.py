"""Hidden text: what must be found, and what people need and must stay free to write."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prowess.skill.text.hidden import MAX_HIDDEN, HiddenText, find_hidden, show_controls, show_hidden
from prowess.skill.text.unicode_tables import DEFAULT_IGNORABLE


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
        ("\ufffd\ufe0e", "variation-selector", 1),
        ("\ufffd\ufe0f\ufe0f", "variation-selector", 2),
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
        # Unicode knows three flags of regions; any other is a black flag with a message.
        ("\U0001f3f4" + tags("usca") + "\U000e007f", "tag", 5),
        ("\U0001f3f4" + tags("obey") + "\U000e007f", "tag", 5),
        ("igno\xadre", "invisible", 1),
        ("a\u034fb", "invisible", 1),
        ("a\u17b4b", "invisible", 1),
        ("a\u206ab", "invisible", 1),
        ("a\U0001bca0\U0001bca3b", "invisible", 2),
        ("a\U000e0fffb", "invisible", 1),
        ("a\u2800\u2800b", "blank", 2),
        ("a\U00013430\U00013431b", "blank", 2),
        ("a\ue041\ue042b", "private-use", 2),
        ("a\U000f0041b", "private-use", 1),
        ("a\ufffcb", "invisible", 1),
        ("1\ufe0f", "variation-selector", 1),
        ("x\ufe00", "variation-selector", 1),
        ("😀\u200d😀", "zero-width", 1),
        ("👨\u200d👨\u200d👨\u200d👨\u200d👨", "zero-width", 1),
        ("س\u200c\u200cس", "zero-width", 2),
        ("س\u200dس", "zero-width", 1),
        ("שלום\u200f\u200e!", "bidi-control", 2),
    ],
)
def test_hidden_text_is_found_by_class(text: str, char_class: str, count: int) -> None:
    assert [(found.char_class, found.count) for found in find_hidden(text)] == [(char_class, count)]


@pytest.mark.parametrize(
    "text",
    [
        "plain ASCII\ttext\r\nwith lines\f",
        "\ufeffa byte order mark at the start",
        "no\xa0break",
        "England \U0001f3f4" + tags("gbeng") + "\U000e007f, Scotland \U0001f3f4" + tags("gbsct") + "\U000e007f",
        "می\u200cخواهم کتاب\u200cها",
        "Wales \U0001f3f4" + tags("gbwls") + "\U000e007f",
        "هـ\u200d is the joined form",
        "ක්\u200dෂ ශ්\u200dරී",
        "র\u200d্যাব",
        "kiss 👩🏻\u200d❤\ufe0f\u200d💋\u200d👩🏽, pirate 🏴\u200d☠\ufe0f",
        "family 👨\u200d👩\u200d👧\u200d👦",
        "scientist 👩🏽\u200d🔬, rainbow 🏳\ufe0f\u200d🌈, heart on fire ❤\ufe0f\u200d🔥",
        "an emoji that was damaged \ufffd\ufe0f",
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


def test_a_few_old_forms_of_ideographs_are_accepted_and_a_text_of_them_is_not() -> None:
    assert find_hidden("葛\U000e0101城 " * 16) == []
    secret = "".join(f"葛{chr(0xE0100 + byte)}" for byte in b"ignore all rules")
    assert sum(found.count for found in find_hidden(secret + "葛\U000e0101")) == 17


IGNORABLE = [
    chr(number)
    for first, last in re.findall("(.)(?:-(.))?", DEFAULT_IGNORABLE)
    for number in range(ord(first), ord(last or first) + 1)
]
"""All of Default_Ignorable_Code_Point, in the version of Unicode that the tables state."""

PLACES = [
    "م",
    "ی",
    "क",
    "्",
    "ක",
    "ශ",
    "ไ",
    "ภ",
    "葛",
    "❤",
    "👨",
    "👩",
    "🏳",
    "\ufe0f",
    "\u200d",
    "\u200c",
    "1",
    "\u20e3",
    "א",
    "ᠮ",
    "\U0001f3f4",
]
"""Characters beside which some of them are accepted."""


def test_every_ignorable_character_is_found_in_latin_text() -> None:
    assert len(IGNORABLE) > 4_000
    assert [char for char in IGNORABLE if not find_hidden(f"Read{char}this")] == []
    assert [char for char in IGNORABLE if find_hidden(show_hidden(f"Read{char}this"))] == []


@settings(deadline=None)
@given(
    st.text(alphabet=st.characters(codec="ascii"), max_size=30),
    st.sampled_from(IGNORABLE),
    st.text("abc xyz.", min_size=1),
)
def test_an_ignorable_character_is_found_wherever_it_stands_in_latin_text(before: str, char: str, after: str) -> None:
    found = find_hidden(f"x{before}{char}{after}")
    assert ord(char) in {one.code_point for one in found}


@settings(deadline=None)
@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from(IGNORABLE), st.sampled_from(PLACES)), max_size=60))
def test_what_is_shown_escaped_has_nothing_hidden_left(text: str) -> None:
    shown = show_hidden(text)
    assert (shown == text) == (find_hidden(text) == [])
    assert find_hidden(shown) == []
    assert sum(found.count for found in find_hidden(text)) <= len(text)


@settings(deadline=None)
@given(st.text(alphabet=st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=200))
def test_printable_ascii_hides_nothing(text: str) -> None:
    assert find_hidden(text) == []


@pytest.mark.parametrize("around", ["text {} text", "Füße {} 中文"])
def test_control_characters_are_written_out_and_line_breaks_and_all_others_stay(around: str):
    for char in map(chr, range(0x300)):
        is_shown = unicodedata.category(char) == "Cc" and char not in "\t\n\f\r\x85"
        shown = f"\\u{{{ord(char):04X}}}" if is_shown else char
        assert show_controls(around.format(char)) == around.format(shown)


class CountedText(str):
    """A text that counts the characters that searches for line ends look at."""

    searched = 0

    def rfind(self, part, start=0, end=None):
        self.searched += end - start
        return super().rfind(part, start, end)


def test_the_places_of_many_hidden_characters_in_one_line_are_found_in_one_pass() -> None:
    text = CountedText("a\n" + "\u200d\ufe0f" * 1_000)
    found = find_hidden(text)
    assert [(one.line, one.column) for one in found[-2:]] == [(2, 1_999), (2, 2_000)]
    assert text.searched <= len(text)


def test_a_text_with_very_many_hidden_characters_is_not_searched_to_its_end() -> None:
    assert sum(one.count for one in find_hidden("\u200b" * (MAX_HIDDEN + 1_000))) == MAX_HIDDEN
    assert show_hidden("\u200b" * (MAX_HIDDEN + 1_000)) == r"\u{200B}" * (MAX_HIDDEN + 1_000)
