"""Arguments of commands: whatever a value is, it stays within its argument and begins no option."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid
from prowess.handlers.cli_command import fill_arguments, fill_text
from prowess.skill.declarations import split_command_line


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("git log --oneline", ("git", "log", "--oneline")),
        ("convert {{ file }} 'a b' out.png", ("convert", "{{file}}", "a b", "out.png")),
        ('jq ".a | .b"', ("jq", ".a | .b")),
        (
            "cat x; rm -rf / && echo $HOME `id` > y",
            ("cat", "x;", "rm", "-rf", "/", "&&", "echo", "$HOME", "`id`", ">", "y"),
        ),
        ("", ()),
    ],
)
def test_a_line_is_split_by_its_quotes_and_by_nothing_else(line, words):
    assert split_command_line(line) == words


def test_a_line_with_an_open_quote_is_refused():
    with pytest.raises(Invalid, match="is not valid"):
        split_command_line("echo 'x")


@pytest.mark.parametrize(
    ("template", "values", "expected"),
    [
        ("{{ a }}", {"a": "x y"}, "x y"),
        ("--name={{a}}", {"a": "-rf"}, "--name=-rf"),
        ("{{ a }}-{{ b }}", {"a": 1, "b": 2.5}, "1-2.5"),
        ("{{ a }}", {"a": True}, "true"),
        ("{{ a }}", {"a": ["x", 1]}, '["x", 1]'),
        ("{{ a.b.1 }}", {"a": {"b": [1, "second"]}}, "second"),
        ("{{ a }}", {"a": "{{ b }}", "b": "never"}, "{{ b }}"),
        ("{{ a }}", {"a": ""}, ""),
        ("{ a } }}", {}, "{ a } }}"),
    ],
)
def test_values_fill_an_argument_whole_or_in_part(template, values, expected):
    assert fill_arguments([template], values) == [expected]


@pytest.mark.parametrize("template", ["{{ a | upper }}", "{% if a %}x{% endif %}", "{{ a", "{{ a b }}", "{{ a() }}"])
def test_other_marks_are_refused(template):
    with pytest.raises(Invalid, match="Unsupported template"):
        fill_arguments([template], {"a": "x"})


@pytest.mark.parametrize("values", [{}, {"a": None}, {"a": "text"}, {"a": {"c": 1}}, {"a": []}])
def test_an_input_without_a_value_is_named(values):
    with pytest.raises(Invalid, match=r"Missing input 'a\.b'"):
        fill_arguments(["x{{ a.b }}"], values)


@pytest.mark.parametrize(
    ("template", "values"),
    [("{{ a }}", {"a": "-rf"}), ("{{ a }}", {"a": -1}), ("{{ a }}{{ b }}", {"a": "", "b": "--x"})],
)
def test_a_value_does_not_begin_an_option(template, values):
    with pytest.raises(Invalid, match="starts with '-'"):
        fill_arguments(["-o", template], values)


def test_it_may_where_the_template_says_that_only_values_follow():
    assert fill_arguments(["-v", "--", "{{ a }}"], {"a": "-rf"}) == ["-v", "--", "-rf"]


def test_a_value_that_is_two_dashes_says_nothing_of_the_kind():
    with pytest.raises(Invalid):
        fill_arguments(["x{{ a }}", "{{ b }}"], {"a": "--", "b": "-rf"})


def test_arguments_that_belong_together_are_left_out_together():
    templates = ["list", ("--lang", "{{ lang }}"), ("--since={{ since }}",)]
    assert fill_arguments(templates, {"since": "2026"}) == ["list", "--since=2026"]
    assert fill_arguments(templates, {"lang": "de", "since": None}) == ["list", "--lang", "de"]


@given(st.text(), st.text())
def test_no_text_becomes_two_arguments_or_an_option(first, second):
    values = {"a": first, "b": second}
    try:
        made = fill_arguments(["run", "{{ a }}", "--b={{ b }}", "{{ a }}{{ b }}"], values)
    except Invalid:
        assert first.startswith("-") or (not first and second.startswith("-"))
        return
    assert made == ["run", first, f"--b={second}", first + second]
    assert not any(one.startswith("-") for one in (made[1], made[3]))


@given(st.text())
def test_a_text_for_stdin_is_as_it_was_given(value):
    assert fill_text("<{{ a }}>", {"a": value}) == f"<{value}>"
