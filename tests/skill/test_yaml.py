"""YAML as strangers write it, and as we write it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prowess.errors import Invalid
from prowess.skill.limits import Limits
from prowess.skill.text.hidden import find_hidden
from prowess.skill.text.yaml import YamlRefused, load
from prowess.skill.text.yaml_writer import dump

ROOMY = Limits(frontmatter_bytes=10_000_000, yaml_depth=50)


def refusal(text: str, **options: Any) -> YamlRefused:
    with pytest.raises(YamlRefused) as caught:
        load(text, **options)
    return caught.value


def test_every_scalar_stays_the_text_that_was_written() -> None:
    loaded = load("version: 1.10\nflag: yes\nday: 2026-04-17\noctal: 0o17\nquoted: '1'\ntruth: true\n")
    assert loaded.value == {
        "version": "1.10",
        "flag": "yes",
        "day": "2026-04-17",
        "octal": "0o17",
        "quoted": "1",
        "truth": "true",
    }


@pytest.mark.parametrize("text", ["a:", "a: ~", "a: null", "a: NULL"])
def test_nothing_is_none(text: str) -> None:
    assert load(text).value == {"a": None}


@pytest.mark.parametrize("text", ["a: ''", 'a: ""'])
def test_empty_quotes_are_empty_text(text: str) -> None:
    assert load(text).value == {"a": ""}


def test_a_quoted_null_is_text() -> None:
    assert load("a: 'null'", typed=True).value == {"a": "null"}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("false", False),
        ("True", "True"),
        ("yes", "yes"),
        ("0", 0),
        ("-7", -7),
        ("-0", "-0"),
        ("007", "007"),
        ("1_000", "1_000"),
        ("1.1", 1.1),
        ("1.10", "1.10"),
        ("1.0", 1.0),
        ("1.0e+16", 1e16),
        ("1e16", "1e16"),
        (".5", ".5"),
        (".inf", ".inf"),
        ("0x1f", "0x1f"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_typed_reading_takes_a_number_only_where_it_is_written_as_we_would(written: str, value: Any) -> None:
    loaded = load(f"a: {written}", typed=True).value["a"]
    assert loaded == value
    assert type(loaded) is type(value)


def test_lists_and_mappings_nest() -> None:
    text = "a:\n  - x\n  - k: v\n    l: [1, 2]\nb: {c: d}\n"
    assert load(text).value == {"a": ["x", {"k": "v", "l": ["1", "2"]}], "b": {"c": "d"}}


def test_lines_are_those_of_the_top_level_keys() -> None:
    loaded = load("name: x\n\ndescription: >\n  long\n  text\nmetadata:\n  name: inner\n")
    assert loaded.lines == {"name": 1, "description": 3, "metadata": 6}
    assert load("a: 1\nb: 2", first_line=10).lines == {"a": 10, "b": 11}


@pytest.mark.parametrize("sign", ["\x85", "\u2028", "\u2029"])
def test_lines_are_those_of_the_file_where_yaml_sees_more_of_them(sign: str) -> None:
    text = f'a: "x{sign}y{sign}z"\nb: 1\r\nc: 2\n'
    assert load(text).lines == {"a": 1, "b": 2, "c": 3}
    assert load(text + "b: 3\n", first_line=5, first_wins=True).repeated == (("b", 8),)
    for fault in ("c: *x\n", "e: f: g\n", "h: \x01\n"):
        with pytest.raises(YamlRefused) as refused:
            load(text + fault, first_line=2)
        assert refused.value.line == 5


@given(st.dictionaries(st.text("ab-:\x7f\\x7F\n\"' ", min_size=1), st.text("ab-:\x7f\x80\\x7F\n\"'é "), max_size=4))
@settings(max_examples=200, deadline=None)
def test_no_three_dashes_stand_in_a_row_where_they_are_not_wanted(value: dict[str, str]) -> None:
    written = dump({**value, "rule": ["---", "a----b"]}, three_dashes=False)
    assert "---" not in written
    assert load(written, typed=True).value == {**value, "rule": ["---", "a----b"]}


@pytest.mark.parametrize(
    ("text", "styles"),
    [
        ("a: b\nc:\n  - d\n", set()),
        ("a: [b]", {"flow"}),
        ("a: {}", {"flow"}),
        ("a:\n  x: 1\nb:\n    y: 2\n", {"uneven-indent"}),
        ("%YAML 1.1\n---\na: b\n", {"directive"}),
    ],
)
def test_ways_of_writing_that_strict_readers_refuse_are_noted(text: str, styles: set[str]) -> None:
    assert load(text).styles == styles


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("a: 1\nb: &x 2", "yaml-alias", 2),
        ("a: *x", "yaml-alias", 1),
        ("a: &x\n  b: c", "yaml-alias", 1),
        ("a: !!python/object:os.system x", "yaml-tag", 1),
        ("a: !x [b]", "yaml-tag", 1),
        ("x: 1\n<<: {a: b}", "yaml-merge-key", 2),
        ("a: 1\nb: 2\na: 3", "yaml-duplicate-key", 3),
        ("a:\n  b: 1\n  b: 2", "yaml-duplicate-key", 3),
        ("a: [[[[[[[[1]]]]]]]]", "yaml-depth", 1),
        ("[a, b]: c", "yaml-key", 1),
        ("? {a: b}\n: c", "yaml-key", 1),
        ("a: b\n---\nc: d", "yaml-documents", 2),
        ("a: b: c", "yaml-syntax", 1),
        ("a: 'x", "yaml-syntax", 1),
        ("ok: 1\nb\x01: 2", "yaml-character", 2),
        ("a: \ud800", "yaml-character", 1),
        ('a: "\\ud83d"', "yaml-syntax", 1),
        ("%YAML 1." + "9" * 5000 + "\n---\na: b", "yaml-syntax", 1),
    ],
)
def test_what_a_skill_may_not_use_is_refused_with_code_and_line(text: str, code: str, line: int) -> None:
    refused = refusal(text)
    assert (refused.code, refused.line) == (code, line)
    assert refused.message


def test_the_cap_counts_bytes_and_comes_before_parsing() -> None:
    assert load("a: " + "é" * 8000).value == {"a": "é" * 8000}
    assert refusal("a: " + "é" * 8200).code == "frontmatter-too-large"
    assert refusal("[" * 200_000).code == "frontmatter-too-large"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 16_000,
        "{a: " * 4_000,
        "- " * 8_000,
        "? " * 8_000,
        "a: &a [x]\n" + "".join(f"b{i}: &b{i} [*a, *a]\n" for i in range(99)),
        "\n".join(f"k{i}: {i}" for i in range(10_000)),
        "!" * 16_000,
        "&" * 16_000,
        "'" * 16_001,
        '"' + "\\" * 16_001,
        "\x00" * 1000,
    ],
)
def test_hostile_text_is_refused_and_nothing_worse(text: str) -> None:
    assert refusal(text).code.startswith(("yaml-", "frontmatter-"))


def test_hostile_text_is_refused_under_a_larger_cap_too() -> None:
    assert refusal("[" * 200_000, limits=ROOMY).code == "yaml-depth"


def test_an_escaped_surrogate_pair_is_one_character() -> None:
    assert load('a: "\\ud83d\\udd2d \\u00e9"').value == {"a": "🔭 é"}
    assert load('{"a": {"emoji": "\\uD83D\\uDD2D"}}').value == {"a": {"emoji": "🔭"}}


def test_the_first_of_two_equal_keys_can_be_asked_for() -> None:
    loaded = load("a: 1\nb: {c: 1, c: {d: e}}\na: 3", first_wins=True)
    assert loaded.value == {"a": "1", "b": {"c": "1"}}
    assert loaded.repeated == (("c", 2), ("a", 3))


def test_without_the_c_parser_the_pure_one_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prowess.skill.text.yaml._PARSER", pyyaml.SafeLoader)
    assert load('a: "\\ud83d\\udd2d"\nb: [1]').value == {"a": "🔭", "b": ["1"]}
    assert refusal('a: "\\ud83d"').code == "yaml-syntax"
    assert refusal('a: "\\UFFFFFFFF"').code == "yaml-syntax"
    assert refusal("a: *b").code == "yaml-alias"
    assert refusal("a: \x01").code == "yaml-character"


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        load(text)
    except YamlRefused:
        return


TRICKY = st.sampled_from(
    [
        *[
            "",
            " ",
            "1.10",
            "1.1",
            "1e5",
            "true",
            "True",
            "null",
            "~",
            "yes",
            "2026-01-01",
            "0o17",
            "1_000",
            ".inf",
            ".NaN",
        ],
        *[
            "- x",
            "a: b",
            "# c",
            "'",
            '"',
            "<<",
            "[a]",
            "{a}",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "|",
            ">",
            "-",
            "?",
            ":",
        ],
        *[
            "line\nline",
            "line\n",
            "\nline",
            "  in\n out",
            "trail  \nx ",
            "a\n\n\nb\n\n",
            "tab\there",
            "\ttab",
            "\r\n",
            "a\rb",
        ],
        *[
            "é🔭",
            "\x85",
            "\u2028",
            "a\u2028b\nc",
            "\x00",
            "\x1b[0m",
            "\ufeff",
            "x\ufeff\ny",
            "---",
            "...",
            "--- x",
            "=",
        ],
    ]
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TRICKY | st.text()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TRICKY | st.text(max_size=20), inner, max_size=4),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types: 1, 1.0 and True are three values."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other and (not isinstance(one, float) or math.copysign(1, one) == math.copysign(1, other))


@settings(max_examples=200, deadline=None)
@given(VALUES)
@example({"text": "one\ntwo\n", "k" * 300: ["x" * 2000, {"multi\nline key": 1}], "deep": [[[[{}]]]]})
@example({"": [[], {}, "", None, -0.0, 1e16, 1e-7, 2**80]})
def test_what_is_dumped_reads_back_as_the_same_value(value: Any) -> None:
    text = dump(value)
    assert same(load(text, typed=True, limits=ROOMY).value, value)
    assert dump(value) == text


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(max_size=9), TRICKY, max_size=6))
def test_other_readers_take_dumped_text_for_text(value: dict[str, str]) -> None:
    assert pyyaml.safe_load(dump(value)) == value


def test_a_dump_is_made_for_people() -> None:
    value = {"title": "A title", "version": "1.10", "tags": ["a", "b"], "when": "One.\nTwo.\n", "none": None}
    assert dump(value) == (
        "title: A title\nversion: '1.10'\ntags:\n  - a\n  - b\nwhen: |\n  One.\n  Two.\nnone: null\n"
    )


def test_an_emoji_in_quotes_keeps_its_selector_beside_it() -> None:
    text = dump({"three": '"---" \\ 👁\ufe0f\a\x85\u2028'}, three_dashes=False)
    assert text == 'three: "\\"\\x2D--\\" \\\\ 👁\ufe0f\\a\\N\\L"\n'
    assert find_hidden(text) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: "a"}, {"a": object()}, "\ud800", b"bytes"])
def test_what_cannot_be_written_is_refused_with_words(value: Any) -> None:
    with pytest.raises(Invalid) as caught:
        dump(value)
    assert caught.value.hint


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(Invalid, match="deeper"):
        dump(value)
