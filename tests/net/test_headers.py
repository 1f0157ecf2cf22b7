"""The header fields that a request may bring."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid
from prowess.net.request import MAX_HEADERS, normalize_headers, normalize_method


def test_names_are_in_lower_case_and_what_the_sender_says_itself_is_passed_over():
    given_ones = {
        "X-Key": " a ",
        "Content-Length": "5",
        "Connection": "upgrade",
        "Accept-Encoding": "br",
        "Keep-Alive": "1",
    }
    assert normalize_headers(given_ones) == {"x-key": "a"}


@pytest.mark.parametrize(
    "name", ["Host", "Transfer-Encoding", "TE", "Trailer", "Upgrade", "Expect", "Proxy-Authorization"]
)
def test_a_field_that_would_change_whom_or_how_is_refused(name):
    with pytest.raises(Invalid, match=name.lower()):
        normalize_headers({name: "x"})


@pytest.mark.parametrize("name", ["", "X Y", "X:Y", "X\r\nHost", "Ünïcode", "x" * 200, "X\x00"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(Invalid):
        normalize_headers({name: "x"})


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\rb", "a\x00b", "\x7f", "日本", "\ud800"])
def test_a_value_that_breaks_its_line_is_refused_and_not_shown(value):
    with pytest.raises(Invalid) as caught:
        normalize_headers({"X-Key": value})
    assert value not in caught.value.message


def test_one_name_in_two_spellings_is_refused():
    with pytest.raises(Invalid, match="twice"):
        normalize_headers({"X-Key": "1", "x-key": "2"})


def test_more_than_can_be_sent_is_refused():
    with pytest.raises(Invalid):
        normalize_headers({f"x-{n}": "1" for n in range(MAX_HEADERS + 1)})
    with pytest.raises(Invalid):
        normalize_headers({"x": "y" * 40_000})


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "", "GET /x", "G\r\nX", "get\n"])
def test_a_method_that_is_not_sent_is_refused(method):
    with pytest.raises(Invalid):
        normalize_method(method)


@given(st.dictionaries(st.text(max_size=10), st.text(max_size=20), max_size=5))
def test_whatever_is_let_through_is_one_line_of_a_header(headers):
    try:
        fields = normalize_headers(headers)
    except Invalid:
        return
    for name, value in fields.items():
        assert "\n" not in f"{name}{value}"
        assert "\r" not in f"{name}{value}"
        f"{name}: {value}".encode("latin-1")
