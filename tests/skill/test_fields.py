"""Fields in every way that people write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prowess.skill.text.fields import as_flag, as_list, as_text, as_tools, find_title, first_heading, first_paragraph


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("  as is \n", "as is"),
        (["a", None, "b"], "a, b"),
        ({"a": "b", "c": ["d", "e"]}, "a: b; c: d, e"),
        (1.5, "1.5"),
        (True, "true"),
        ([[["deep"]]], "deep"),
    ],
)
def test_any_value_has_a_text(value: Any, text: str) -> None:
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("value", "items"),
    [
        (None, ()),
        ("", ()),
        (["a", "b", "a", ""], ("a", "b")),
        ("a, b; c", ("a", "b", "c")),
        ("two words, b", ("two words", "b")),
        ("[a, b]", ("a", "b")),
        ("[\"a\", 'b']", ("a", "b")),
        ("- a\n- b", ("a", "b")),
        ({"x": ["a", "b"], "y": "c, d"}, ("a", "b", "c", "d")),
        ([1, True], ("1", "true")),
        (["with, comma"], ("with, comma",)),
    ],
)
def test_a_list_is_a_list_in_every_form(value: Any, items: tuple[str, ...]) -> None:
    assert as_list(value) == items


@pytest.mark.parametrize(
    ("value", "tools"),
    [
        ("Read, Bash(git add:*), Bash(npm run test:*)", ("Read", "Bash(git add:*)", "Bash(npm run test:*)")),
        ("Read, Write", ("Read", "Write")),
        (["Read", "Write"], ("Read", "Write")),
        (["Bash(git add:*)", "Read"], ("Bash(git add:*)", "Read")),
        ([{"WebFetch(domain": "example.com)"}, "Read"], ("WebFetch(domain: example.com)", "Read")),
        ("Read Write", ("Read", "Write")),
        ("Bash(git:*) Bash(jq:*) Read", ("Bash(git:*)", "Bash(jq:*)", "Read")),
        ("Read", ("Read",)),
        ("*", ("*",)),
        (None, ()),
        ("[Read, Write]", ("Read", "Write")),
        ('["Read", "Bash(ls *)"]', ("Read", "Bash(ls *)")),
        ("- Read\n- Write", ("Read", "Write")),
        ({"Read": True, "Write": False, "Grep": None}, ("Read", "Grep")),
        ({"files": ["Read", "Write"]}, ("Read", "Write")),
        (["Read, Write", "Read"], ("Read", "Write")),
        ("mcp__server__tool, Task(agent(x), y)", ("mcp__server__tool", "Task(agent(x), y)")),
    ],
)
def test_tools_are_read_in_all_their_forms(value: Any, tools: tuple[str, ...]) -> None:
    assert as_tools(value) == tools


@pytest.mark.parametrize(
    ("value", "flag"),
    [
        (True, True),
        ("yes", True),
        (" True ", True),
        ("on", True),
        (1, True),
        (False, False),
        ("no", False),
        ("off", False),
        ("0", False),
        ("maybe", None),
        (None, None),
        ("", None),
        ([], None),
    ],
)
def test_a_flag_is_yes_or_no_or_neither(value: Any, flag: bool | None) -> None:
    assert as_flag(value) is flag


@pytest.mark.parametrize(
    ("body", "heading"),
    [
        ("# Title\n\nText", "Title"),
        ("\n\n# Title #\n", "Title"),
        ("## Second\n\n# First\n", "First"),
        ("Text\n\n## Only ##\n", "Only"),
        ("```\n# comment\n```\n# Real\n", "Real"),
        ("~~~sh\n# comment\n```\n~~~\n# Real\n", "Real"),
        ("<!--\n# hidden\n-->\n# Real\n", "Real"),
        ("Title\n=====\n\nText", "Title"),
        ("# **Bold** and [link](https://x.y/z) `code`\r\n", "Bold and link code"),
        ("#hashtag text", "hashtag text"),
        ("#1 is a number", ""),
        ("# <b></b>\n\n## Two\n", "Two"),
        ("<b></b>\n=======\n\n## Two\n", "Two"),
        ("## Second\n\n```\n# comment\n```\n", "Second"),
        ("## Second\r# First\r", "First"),
        ("## Second\n\nFirst\n===\n", "First"),
        ("No heading", ""),
        ("", ""),
    ],
)
def test_the_first_heading_outside_code_is_found(body: str, heading: str) -> None:
    assert first_heading(body) == heading


@pytest.mark.parametrize(
    ("body", "title"),
    [
        ("# Title\n\nText", "Title"),
        ("Some words.\n\n## Second\n\n# First\n", "First"),
        ("## Second\n\nFirst\n===\n", "First"),
        ("You are an expert.\n\n## Use this skill when\n", ""),
        ("## Instructions\n\n```\n# comment\n```\n", ""),
        ("No heading", ""),
    ],
)
def test_only_a_top_level_heading_is_a_title(body: str, title: str) -> None:
    assert find_title(body) == title


@pytest.mark.parametrize(
    ("body", "paragraph"),
    [
        ("# Title\n\nFirst line\nsecond line.\n\nNext.", "First line second line."),
        ("# Title\nDirectly below.\n## More", "Directly below."),
        ("![badge](x.png)\n\n> A quote.\n\n| a | b |\n\nReal *text*.", "Real *text*."),
        ("<!-- note -->\n\n---\n\nReal text.", "Real text."),
        ("<!-- note -->\nReal text.", "Real text."),
        ("<!-- note --> <!-- more -->Real text.", "Real text."),
        ("<!-- note --><!-- a long\none -->\nReal text.", "Real text."),
        ("<!-->\nReal text.", "Real text."),
        ("<!-- only a note -->", "only a note"),
        ("```\ncode\n```\n\nReal text.", "Real text."),
        ("Title\n=====\n\nReal text.", "Real text."),
        ("**Bold** with `code` and [a link](http://x/y).\r\n\r\nNext", "Bold with code and a link."),
        ("# Title\n\n- one\n- two\n", "one two"),
        ("> Quoted words\n", "Quoted words"),
        ("# Only a heading", "Only a heading"),
        ("```\njust code\n```", "just code"),
        ("", ""),
        ("***\n___\n", ""),
    ],
)
def test_the_first_paragraph_is_the_first_running_text(body: str, paragraph: str) -> None:
    assert first_paragraph(body) == paragraph


def test_a_long_paragraph_is_cut_at_a_word() -> None:
    text = first_paragraph("word " * 300)
    assert len(text) <= 500
    assert text.endswith("word…")
    assert len(first_paragraph("x" * 3000, limit=50)) == 50


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "unit",
    [
        "[",
        "(",
        "# ",
        "`",
        "- ",
        "<",
        "*",
        " ",
        "[a](",
        "<!--",
        "\n",
        "# \n",
        "- - -\n",
        "a(",
        "\n\ta\n",
        "'\n",
        "=\n",
        "<!---->",
        "<!-->",
        "## a\n",
        "## a\n```\n# b\n",
    ],
)
def test_no_body_is_too_much(unit: str) -> None:
    body = unit * (300_000 // len(unit))
    find_title(body)
    first_heading(body)
    first_paragraph(body)
    as_tools(body)
    as_list(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(JSON)
def test_any_value_gives_text_and_lists_of_text(value: Any) -> None:
    assert isinstance(as_text(value), str)
    for items in (as_list(value), as_tools(value)):
        assert all(isinstance(item, str) and item for item in items)
    assert as_flag(value) in (True, False, None)


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("#`~-=*_>|<!a b\n\r\t[]()1."), max_size=120))
def test_any_body_has_a_heading_and_a_paragraph_or_none(body: str) -> None:
    assert "\n" not in first_heading(body)
    assert len(first_paragraph(body, limit=40)) <= 40
    assert bool(first_paragraph(body)) or not any(char.isalpha() for char in body)
