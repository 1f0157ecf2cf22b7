"""The frontmatter as JSON: the short way for plain texts gives what the full reading gives, or leaves it to that."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from prowess.skill.json_frontmatter import _read_fully, _read_plain, frontmatter_json

LINES = (
    *("name: tidy", "a: b", " a: b", "a : b", "b: ü", "c: b # d", "'q': 'it''s'", '"e": "é"', "f: [a, b]", "g: {a: b}"),
    *("- a", "  - b", "h: >", "i: |-", "  more", "j:", "  k: l", "   m: n", "? o", ": p", "# note", "", "  "),
    *("r: 1", "1: s", 't: "1"', "u: ~", "v: yes", "true: w", "x: 0x1f", "y: .inf", "z: 1e3", "d: 2026-04-17"),
    *("aa: &a b", "bb: *a", "cc: !!str d", "<<: d", '"<<": d', "...", "---", "%YAML 1.1", "dd:\tb", 'ee: "\\u00e9"'),
    *('ff: "x', "gg: a: b", "hh: \x85b", "ii: \u2028b", "\ufeffjj: b", "kk: \x07", "ll: b\r", "mm: @b", "nn: |\n   b"),
)


@given(st.lists(st.sampled_from(LINES), max_size=6), st.sampled_from(("", " ", "-", " x: y", "\r")))
@example(['"<<": a', '"<<": b'], "")
def test_plain_texts_are_read_as_the_full_reading_reads_them(lines, first):
    content = "\n".join([f"---{first}", *lines, "---\nBody.\n"]).encode()
    assert _read_plain(content) in (None, _read_fully(content))
    assert frontmatter_json(content) == _read_fully(content)


def test_texts_are_read_the_short_way_and_other_types_are_not():
    fields = "name: tidy\ndescription: Tidies – a lot.\nmetadata:\n  author: 'me'\ntags:\n- one\n"
    assert _read_plain(f"---\n{fields}---\n".encode()) == {
        "name": "tidy",
        "description": "Tidies – a lot.",
        "metadata": {"author": "me"},
        "tags": ["one"],
    }
    assert _read_plain(f"---\n{fields}version: 1.0\n---\n".encode()) is None


def test_a_file_that_is_not_utf_8_has_no_frontmatter():
    assert frontmatter_json(b"---\nname: tidy\n---\n\xff\n") is None
