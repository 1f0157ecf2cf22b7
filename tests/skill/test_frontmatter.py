"""Markdown with frontmatter, as regular as it should be and as irregular as it is found."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prowess.skill.limits import Limits
from prowess.skill.text.document import TEXT_CODES, Document
from prowess.skill.text.reader import read_document

GOOD = "---\nname: tidy\ndescription: Tidies up.\n---\n\n# Tidy\n\nBody.\n"


def codes(document: Document) -> list[str]:
    return [problem.code for problem in document.problems]


def read(block: str, body: str = "# Body\n") -> Document:
    return read_document(f"---\n{block}---\n{body}")


def test_a_regular_file_is_read_without_a_word() -> None:
    document = read_document(GOOD.encode())
    assert document == Document(
        raw="name: tidy\ndescription: Tidies up.\n",
        fields={"name": "tidy", "description": "Tidies up."},
        lines={"name": 2, "description": 3},
        body="\n# Tidy\n\nBody.\n",
        body_line=5,
        how="yaml",
        problems=(),
    )


def test_text_and_bytes_read_the_same() -> None:
    assert read_document(GOOD) == read_document(GOOD.encode())


def test_strings_stay_as_written() -> None:
    fields = read("version: 1.10\nupdated: 2026-04-17\nalways: yes\nempty:\n").fields
    assert fields == {"version": "1.10", "updated": "2026-04-17", "always": "yes", "empty": None}


def test_a_rule_in_the_body_is_not_a_marker() -> None:
    document = read("name: a\ndescription: b --- c\n", "one\n---\ntwo\n")
    assert document.fields["description"] == "b --- c"
    assert document.body == "one\n---\ntwo\n"


def test_three_hyphens_at_the_end_of_the_file_close_it() -> None:
    document = read_document("---\nname: a\n---")
    assert (document.fields, document.body, codes(document)) == ({"name": "a"}, "", [])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xef\xbb\xbf" + GOOD.encode(), ["bom"]),
        (GOOD.replace("\n", "\r\n").encode(), ["crlf"]),
        (GOOD.replace("\n", "\r").encode(), ["crlf"]),
        (GOOD.encode("utf-16"), ["utf-16"]),
        (GOOD.encode("utf-16-le"), ["utf-16"]),
        (GOOD.encode("utf-16-be"), ["utf-16"]),
        (GOOD.encode("utf-32"), ["utf-16"]),
        (GOOD.replace("Body.", "Caf\xe9 \u2019.").encode("cp1252"), ["not-utf8"]),
        (GOOD.replace("Body.", "\x81\xe9.").encode("latin-1"), ["not-utf8"]),
        (GOOD.replace("Body.", "a\x00b").encode(), ["nul-character"]),
    ],
)
def test_any_encoding_is_read_and_told(data: bytes, expected: list[str]) -> None:
    document = read_document(data)
    assert dict(document.fields) == {"name": "tidy", "description": "Tidies up."}
    assert codes(document) == expected
    assert document.how == "yaml"


def test_the_raw_frontmatter_keeps_its_line_ends() -> None:
    document = read_document("---\r\nname: a\r\ndescription: b\r\n---\r\nBody\r\n")
    assert document.raw == "name: a\r\ndescription: b\r\n"
    assert document.body == "Body\r\n"
    assert (document.lines, document.body_line) == ({"name": 2, "description": 3}, 5)


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("\n\n---\nname: a\ndescription: b\n---\nBody\n", "blank-before-frontmatter", 1),
        ("<!-- note -->\n---\nname: a\ndescription: b\n---\nBody\n", "comment-before-frontmatter", 1),
        ("```yaml\n---\nname: a\ndescription: b\n---\nBody\n", "fenced-frontmatter", 1),
        ("# Title\n\n---\nname: a\ndescription: b\n---\nBody\n", "text-before-frontmatter", 1),
        ("name: a\ndescription: b\n\n# Body\n", "frontmatter-not-opened", 1),
        ("name: a\ndescription: b\n---\nBody\n", "frontmatter-not-opened", 1),
        ("---\nname: a\ndescription: b\n\n# Body\n", "frontmatter-not-closed", 4),
        ("---\nname: a\ndescription: b\n\n# Body\n\nText\n\n---\n\nMore\n", "frontmatter-not-closed", 4),
        ("----\nname: a\ndescription: b\n---\nBody\n", "marker-form", 1),
        ("---\nname: a\ndescription: b\n----\nBody\n", "marker-form", 4),
        ("---\nname: a\ndescription: b\n...\nBody\n", "marker-form", 4),
        ("---\nname: a\ndescription: b\n---# Body\n", "text-after-marker", 4),
    ],
)
def test_a_block_that_is_marked_oddly_is_found(text: str, code: str, line: int) -> None:
    document = read_document(text)
    assert dict(document.fields) == {"name": "a", "description": "b"}
    assert [(problem.code, problem.line) for problem in document.problems] == [(code, line)]
    assert document.problems[0].hint
    assert document.raw == "name: a\ndescription: b\n"
    assert "Body" in document.body


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("---  \nname: a\ndescription: b\n---\t\nBody\n", 1),
        ("---\nname: a\ndescription: b\n--- \nBody\n", 4),
    ],
)
def test_spaces_after_a_marker_are_told_and_harmless(text: str, line: int) -> None:
    document = read_document(text)
    assert (document.fields, document.body) == ({"name": "a", "description": "b"}, "Body\n")
    assert [(problem.code, problem.line) for problem in document.problems] == [("marker-form", line)]


def test_text_before_the_frontmatter_stays_in_the_body() -> None:
    document = read_document("# Title\n\n---\nname: a\n---\nBody\n")
    assert document.body == "# Title\n\nBody\n"


def test_an_empty_block_is_told_and_costs_nothing() -> None:
    document = read_document("---\n---\nBody\n")
    assert (document.raw, document.fields, document.body) == ("", {}, "Body\n")
    assert codes(document) == ["empty-frontmatter"]


@pytest.mark.parametrize(
    "text", ["", "Just text.\n", "# Title\n\nText.\n\n---\n\nMore: text\n", "---\n\nA rule first.\n"]
)
def test_a_file_without_frontmatter_is_all_body(text: str) -> None:
    document = read_document(text)
    assert (document.raw, document.fields, document.body, document.how) == (None, {}, text, "none")
    assert codes(document) == ["no-frontmatter"]


def test_text_between_rules_is_no_frontmatter() -> None:
    text = "---\nSome words here.\n---\nMore.\n"
    document = read_document(text)
    assert (document.raw, document.body, codes(document)) == (None, text, ["frontmatter-not-a-mapping"])


def test_a_second_block_in_the_body_is_told() -> None:
    document = read("name: a\ndescription: b\n", "\n---\nname: c\ndescription: d\n---\nBody\n")
    assert document.fields["name"] == "a"
    assert [(problem.code, problem.line) for problem in document.problems] == [("second-frontmatter", 6)]


REPAIRS = [
    ("description: Build it. Triggers: a, b", "Build it. Triggers: a, b", "unquoted-colon"),
    ("description: Use it when:", "Use it when:", "unquoted-colon"),
    ("description: Use it\n  When: always", "Use it When: always", "unquoted-colon"),
    ("description: >- Use it when", "Use it when", "text-after-block-sign"),
    ("description: | Use it\n  now", "Use it now", "text-after-block-sign"),
    ("description: **Bold** start", "**Bold** start", "leading-sign"),
    ("description: @scope/pkg", "@scope/pkg", "leading-sign"),
    ("description: `code` first", "`code` first", "leading-sign"),
    ("description: %percent", "%percent", "leading-sign"),
    ("description: , comma", ", comma", "leading-sign"),
    ('description: "a" b', "a b", "text-after-quote"),
    ('description: "say "hi" now"', 'say "hi" now', "unescaped-quote"),
    ('description: "a \\d b"', "a \\d b", "bad-escape"),
    ('description: "never closed', "never closed", "unclosed-quote"),
    ("description: [a] [b]", "[a] [b]", "text-after-list"),
    ("description: {{x}}", "{{x}}", "yaml-key"),
    ("description: [@scope/x, b]", "[@scope/x, b]", "broken-flow"),
    ("description: {a: [b, c}", "{a: [b, c}", "broken-flow"),
    ("description: {a: [b", {"a": ["b"]}, "unclosed-bracket"),
    ("description: - x", ["x"], "list-on-key-line"),
    ("description: *anchor", "*anchor", "yaml-alias"),
    ("description: !tag x", "!tag x", "yaml-tag"),
    ("description: some text\nthat goes on here", "some text that goes on here", "line-without-key"),
    ("description: |\ntext in column one", "text in column one", "bad-indent"),
    ("description:\n\t- x", ["x"], "tab-indent"),
    ("description:\n  * x\n  * y", ["x", "y"], "star-list"),
    ("description:\n  a: b: c\n  d: *e", {"a": "b: c", "d": "*e"}, "unquoted-colon"),
    ("description:\n  a: 1\n  a: 2", {"a": "1"}, "yaml-duplicate-key"),
    ("description: [[[[[[[[[1]]]]]]]]]", "[[[[[[[[[1]]]]]]]]]", "yaml-depth"),
    ("description: a\x07b", "ab", "yaml-character"),
]


@pytest.mark.parametrize(
    ("block", "value", "code"), REPAIRS, ids=[f"{code}-{i}" for i, (_, _, code) in enumerate(REPAIRS)]
)
def test_a_value_that_yaml_refuses_is_mended_and_told(block: str, value: object, code: str) -> None:
    document = read(f"name: a\n{block}\nversion: 1.10\n")
    assert dict(document.fields) == {"name": "a", "description": value, "version": "1.10"}
    assert code in codes(document)
    assert document.how == "repaired"
    assert document.raw == f"name: a\n{block}\nversion: 1.10\n"
    problem = next(problem for problem in document.problems if problem.code == code)
    assert problem.hint
    assert problem.line is not None
    assert 3 <= problem.line <= 3 + block.count("\n")


def test_the_hint_shows_the_mended_line() -> None:
    (problem,) = read("name: a\ndescription: It's here: now\n").problems
    assert problem.hint == "Quote the value: `description: 'It''s here: now'`"
    assert (problem.line, problem.field, problem.severity) == (3, "description", "warning")
    assert read("name: a\ndescription: 'It''s here: now'\n").fields["description"] == "It's here: now"


@given(
    st.text(alphabet="ab :#-", min_size=1, max_size=12).map(str.strip).filter(bool),
    st.lists(st.text(alphabet="ab: #-", max_size=8).map("#{}".format), min_size=1, max_size=3),
    st.sampled_from(["", "argument-hint: x\n", "license: MIT\n"]),
)
@example("read this", ["# a comment"], "")
def test_comments_below_a_value_with_a_colon_do_not_end_the_frontmatter(
    text: str, comments: list[str], below: str
) -> None:
    rest = "".join(f"{comment}\n" for comment in comments) + below
    document = read(f"name: a\ndescription: Note: {text}\n{rest}", "# Body\n\n---\n")
    quoted = read(f"name: a\ndescription: 'x'\n{rest}", "# Body\n\n---\n")
    assert document.body == quoted.body
    assert list(document.fields) == list(quoted.fields)


def test_a_heading_and_a_rule_below_frontmatter_without_an_end_are_the_body() -> None:
    document = read_document("---\nname: a\ndescription: Note: b\n\n# Title\n\nText.\n\n---\nMore.\n")
    assert document.body == "\n# Title\n\nText.\n\n---\nMore.\n"
    assert "frontmatter-not-closed" in codes(document)


def test_of_two_equal_keys_the_first_counts() -> None:
    document = read("name: a\ndescription: b\nname: c\n")
    assert document.fields == {"name": "a", "description": "b"}
    assert [(problem.code, problem.line) for problem in document.problems] == [("yaml-duplicate-key", 4)]


def test_a_key_that_is_set_in_by_mistake_is_a_key() -> None:
    document = read("name: a\n description: b\n")
    assert document.fields == {"name": "a", "description": "b"}
    assert [(problem.code, problem.line) for problem in document.problems] == [("bad-indent", 3)]


def test_the_markers_of_a_merge_are_left_out() -> None:
    document = read("name: a\n<<<<<<< ours\nversion: 1\n=======\nversion: 2\n>>>>>>> theirs\ndescription: b\n")
    assert document.fields == {"name": "a", "version": "1", "description": "b"}
    assert codes(document) == ["merge-conflict", "yaml-duplicate-key"]


def test_every_fault_is_told_at_its_line_and_costs_no_other_key() -> None:
    document = read("name: *a\nauthor: @me\ntags: [x, y]\ndescription: a: b\n")
    assert document.fields == {"name": "*a", "author": "@me", "tags": ["x", "y"], "description": "a: b"}
    assert [problem.line for problem in document.problems] == [2, 3, 5]
    assert list(document.lines.items()) == [("name", 2), ("author", 3), ("tags", 4), ("description", 5)]


def test_an_anchor_bomb_is_text() -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"k{i}: &k{i} [*a, *a, *a]\n" for i in range(40))
    document = read("name: n\ndescription: d\n" + bomb)
    assert document.fields["name"] == "n"
    assert document.fields["k7"] == "&k7 [*a, *a, *a]"
    assert set(codes(document)) == {"yaml-alias"}


def test_an_oversized_block_gives_what_its_beginning_says() -> None:
    document = read("name: a\ndescription: 'b'\nx: " + "y" * 20_000 + "\n")
    assert (document.fields["name"], document.fields["description"]) == ("a", "b")
    assert [(problem.code, problem.severity) for problem in document.problems] == [("frontmatter-too-large", "warning")]
    assert document.how == "scanned"


def test_a_block_that_grows_over_the_limit_while_its_tabs_are_replaced_is_read_line_by_line() -> None:
    document = read("name: a\nmetadata:\n" + "\t" * 15_000 + "b c\n\td\n")

    assert document.fields["name"] == "a"
    assert "frontmatter-too-large" in codes(document)


def test_the_limits_are_the_callers() -> None:
    block = "name: a\ndescription: " + "y" * 20_000 + "\n"
    assert codes(read_document(f"---\n{block}---\n", limits=Limits(frontmatter_bytes=100_000))) == []


def test_faults_without_end_are_cut_short() -> None:
    document = read("".join(f"k{i}: a: b\n" for i in range(1000)))
    assert codes(document)[-1] == "too-many-faults"
    assert len(document.problems) == 51
    assert document.fields["k999"] == "a: b"


HOSTILE = [
    "[" * 200_000,
    "{a: " * 4_000,
    "---\n" + "[" * 200_000,
    "---\n" + "{a: " * 4_000 + "\n---\n",
    "---\n" + "- " * 8_000 + "\n---\n",
    "---\n" + "a: b: c\n" * 2_000 + "---\n",
    "---\n" + "\n".join(f"k{i}: v" for i in range(10_000)) + "\n---\n",
    "---\n" + "<!-- -->" * 20_000,
    "<!---->\n" * 50_000,
    "\n" * 500_000,
    "---\n" * 100_000,
    "`" * 500_000,
    "---\nname: \x00\x00\ndescription: a: b\x00\n---\n",
    "---\nname: \ud800\ndescription: \udfff: x\n---\n",
    "---\nname: 'a\n" + "x: 'y\n" * 2_000 + "---\n",
    "---\nname:\n" + "  - a: b: c\n" * 1_000 + "---\n",
    "---\nname: " + '"' * 10_000 + "\n---\n",
    "---\nname: " + "[" * 10_000 + "\n---\n",
    "---\n\ufeffname: a\n---\n",
    "---\n? a\n: b\n---\n",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_read_too(text: str) -> None:
    check(read_document(text))
    check(read_document(text.encode("utf-8", "surrogatepass")))


def check(document: Document) -> None:
    assert document.how == "yaml" or document.problems
    assert set(document.fields) == set(document.lines)
    for problem in document.problems:
        assert problem.code in TEXT_CODES
        assert problem.hint
        assert problem.message
        assert problem.line is None or problem.line >= 1


@settings(deadline=None)
@given(st.binary(max_size=300))
@example(b"\xff\xfe")
@example(b"---\n\xff\xfe\n---\n")
def test_no_bytes_make_it_raise(data: bytes) -> None:
    check(read_document(data))
    check(read_document(b"---\n" + data))
    check(read_document(b"---\n" + data + b"\n---\n"))


WORDS = st.sampled_from(
    [
        *["name: a\n", "description: b\n", "name", ": ", " ", "\n", "\r\n", "\t", "- ", "---", "---\n", "...", "# "],
        *[
            "'",
            '"',
            "[",
            "]",
            "{",
            "}",
            ",",
            "|",
            ">",
            ">-",
            "*",
            "&a",
            "!",
            "<<",
            "%",
            "@",
            "`",
            "\\",
            "\\u",
            "a",
            "b c",
        ],
        *[
            "\x00",
            "\u2028",
            "<!--",
            "-->",
            "```",
            "<<<<<<< x\n",
            "\ufeff",
            "\x85",
            "é",
            "🔭",
            "1.10",
            "~",
            "* x\n",
        ],
    ]
)


@settings(deadline=None)
@given(st.lists(WORDS, max_size=40).map("".join))
def test_no_text_makes_it_raise(text: str) -> None:
    check(read_document(text))
    document = read_document(f"---\n{text}\n---\n")
    check(document)
    assert document.raw is None or document.raw in f"---\n{text}\n---\n"


def test_every_code_that_is_told_has_its_meaning_in_the_table_and_the_table_has_no_other() -> None:
    folder = Path(inspect.getfile(read_document)).parent
    sources = "\n".join(path.read_text() for path in folder.glob("*.py") if path.name != "document.py")
    told = set(re.findall(r'(?:problem|Fix|_at)\(\s*(?:text, \w+(?:\.\w+\(\))?, )?"([a-z0-9-]+)"', sources))
    refused = set(re.findall(r'"((?:yaml|frontmatter)-[a-z-]+)"', sources))
    assert told | refused == set(TEXT_CODES)
    assert all(meaning.endswith(".") for meaning in TEXT_CODES.values())
    assert list(TEXT_CODES) == sorted(TEXT_CODES)
