"""A secret that is known does not stay, however it is written."""

from __future__ import annotations

import base64
import html
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.redaction import Redactor

SECRET = 'Canary/7f"3&x+9é\\Z?-value'

WRITTEN = {
    "as it is": SECRET,
    "JSON": json.dumps(SECRET),
    "JSON with all characters": json.dumps(SECRET, ensure_ascii=False),
    "JSON in JSON": json.dumps(json.dumps({"a": SECRET})),
    "JSON with escaped slashes": json.dumps(SECRET).replace("/", "\\/"),
    "URL": quote(SECRET, safe=""),
    "URL with slashes": quote(SECRET),
    "URL in lower case": re.sub("%..", lambda code: code.group().lower(), quote(SECRET, safe="")),
    "form": quote_plus(SECRET),
    "HTML": html.escape(SECRET),
    "hexadecimal": SECRET.encode().hex(),
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "URL-safe base64": base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    "base64 in lines": base64.encodebytes(b"x" * 40 + SECRET.encode() + b"y" * 40).decode(),
    "login": base64.b64encode(f"ada:{SECRET}".encode()).decode(),
    "broken over lines": SECRET[:9] + "\n" + SECRET[9:],
    "broken and indented": SECRET[:9] + "\r\n    " + SECRET[9:],
    "spaced out": " ".join(SECRET),
    "broken by a shell": SECRET[:9] + "\\\n" + SECRET[9:],
    "broken in JSON": json.dumps(SECRET[:9] + "\n" + SECRET[9:]),
    "broken by what nobody sees": SECRET[:9] + "\u200b" + SECRET[9:],
    "reversed": SECRET[::-1],
    "base32": base64.b32encode(SECRET.encode()).decode(),
    "base32 in lower case, in a longer value": base64.b32encode(b"ab" + SECRET.encode() + b"xyz").decode().lower(),
    "every byte in percent": "".join(f"%{byte:02x}" for byte in SECRET.encode()),
    "some letters in percent": SECRET.replace("a", "%61").replace("l", "%6C"),
    "HTML in numbers": "".join(f"&#{ord(char)};" for char in SECRET),
    "HTML in hexadecimal": "".join(f"&#x{ord(char):x};" for char in SECRET),
    "escapes of a program": "".join(f"\\x{ord(char):02x}" for char in SECRET),
    "joined by a program": f'{SECRET[:7]}" + "{SECRET[7:14]}" + "{SECRET[14:]}',
    "a list of letters": ", ".join(f"'{char}'" for char in SECRET),
    "quoted in a mail": f"{SECRET[:9]}\n> {SECRET[9:]}",
    "joined by dashes": "-".join(SECRET),
}


def plainly(text):
    return "".join(text.split())


@pytest.mark.parametrize("how", WRITTEN)
def test_it_is_removed_and_what_stands_around_it_stays(how):
    redacted = Redactor([SECRET]).text(f"before, {WRITTEN[how]} , after")
    assert redacted.startswith("before, ")
    assert redacted.endswith(" , after")
    assert "[redacted]" in redacted
    assert "Canary" not in plainly(redacted)
    assert plainly(WRITTEN[how])[4:16] not in plainly(redacted)


@given(
    secret=st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=8, max_size=60),
    before=st.binary(max_size=7),
    after=st.binary(max_size=7),
)
def test_base64_hides_it_at_no_place_of_a_longer_value(secret, before, after):
    redacted = Redactor([secret]).text("value=" + base64.b64encode(before + secret.encode() + after).decode() + ";")
    assert redacted == "value=[redacted];"


@given(
    secret=st.text(st.characters(exclude_categories=["Cs", "Z", "Cc", "Cf"]), min_size=6, max_size=40),
    before=st.text(max_size=30),
    after=st.text(max_size=30),
    places=st.sets(st.integers(0, 40), max_size=4),
    gap=st.sampled_from(["\n", " ", "\r\n\t", "\\n", "\\\n", "\u00a0", "\u2028"]),
)
def test_no_text_around_it_and_no_gap_in_it_keeps_it(secret, before, after, places, gap):
    if secret in "[redacted]":
        return
    broken = "".join(gap * (place in places and place > 0) + letter for place, letter in enumerate(secret))
    redacted = Redactor([secret]).text(before + broken + after)
    assert broken not in redacted.replace("[redacted]", "\0")


@given(st.text(max_size=300))
def test_a_text_without_secrets_stays_as_it_is(text):
    redactor = Redactor(["Zq8-known-7719-value"])
    readable = text.encode(errors="replace").decode()
    if redactor.is_clean(text):
        assert redactor.text(text) == readable


@pytest.mark.parametrize("cut", range(12, 25))
def test_its_parts_are_removed_where_they_stand_alone(cut):
    secret = "tok3n8Zq71kX5wB2mP9rV4sY6dF0hJ7c"
    given = {"first": secret[:cut], "then": f"x {secret[cut:]} y", "other": "tok3n stays"}
    redacted = Redactor([secret]).value(given)
    assert redacted["first"] == "[redacted]"
    assert redacted["other"] == "tok3n stays"
    assert (redacted["then"] == "x [redacted] y") == (len(secret) - cut >= 12)


@given(st.text("abcdefgh0123456789-_", min_size=8, max_size=40), st.binary(max_size=6), st.binary(max_size=6))
def test_base32_hides_it_at_no_place_of_a_longer_value(secret, before, after):
    if len(secret.strip("-_")) < 8:
        return
    redacted = Redactor([secret]).text("value=" + base64.b32encode(before + secret.encode() + after).decode() + ";")
    assert redacted == "value=[redacted];"


def test_parts_of_addresses_and_of_plain_words_are_not_looked_for():
    redactor = Redactor(["https://hooks.example.com/services/T0/B0/secret", "correct-horse-battery-staple"])
    for text in ("see https://hooks.example.com/services/ for more", "a correct horse battery"):
        assert redactor.text(text) == text


def test_the_longest_of_several_is_removed_whole():
    assert Redactor(["secret-one", "secret-one-and-more"]).text("x secret-one-and-more y") == "x [redacted] y"


def test_values_under_six_characters_are_not_looked_for():
    assert Redactor(["abc", "", "   \n  ", "a b c"]).text("abc a b c") == "abc a b c"


def test_a_number_that_is_a_secret_is_removed_from_values():
    assert Redactor(["48151623"]).value({"pin": 48151623, "other": 4815162}) == {"pin": "[redacted]", "other": 4815162}


def test_values_of_objects_and_their_keys_are_looked_through():
    value = {"a": [{"b": f"x {SECRET}"}], SECRET: 1, "n": None, "t": True, "f": 1.5}
    assert Redactor([SECRET]).value(value) == {
        "a": [{"b": "x [redacted]"}],
        "[redacted]": 1,
        "n": None,
        "t": True,
        "f": 1.5,
    }


@pytest.mark.long
def test_many_long_secrets_can_be_known_at_once():
    secrets = [f"{number:04d}-" + "Ab3/" * 400 for number in range(60)]
    redactor = Redactor(secrets)
    assert redactor.text(f"x {secrets[37]} y") == "x [redacted] y"
    assert redactor.text(f"x {base64.b64encode(secrets[59].encode()).decode()} y") == "x [redacted] y"


def test_half_a_surrogate_pair_is_no_obstacle():
    assert Redactor([SECRET]).text(f"\ud800 {SECRET}") == "? [redacted]"


def test_a_value_that_the_system_could_not_decode_is_looked_for_all_the_same():
    secret = b"caf\xe9-secret-7719".decode(errors="surrogateescape")
    assert Redactor([secret]).text(f"x {secret} y") == "x [redacted] y"


def test_a_secret_again_and_again_in_one_long_value_takes_no_longer_than_its_length():
    secret = "abcdef"  # its base64 repeats with it, without a break
    blob = base64.b64encode(secret.encode() * 30_000).decode()
    assert Redactor([secret]).text(f"x {blob} y") == "x [redacted] y"
