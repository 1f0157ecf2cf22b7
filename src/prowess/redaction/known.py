"""Find known secrets in a text in any spelling: plain, encoded, escaped, or broken over lines."""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from urllib.parse import quote, quote_plus

from prowess.redaction.regex import Pattern, compile_any_of, compile_linear

REDACTED = "[redacted]"
SHORTEST_SECRET = 6
"""Shorter values are not redacted: they occur in ordinary text by chance."""

_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-")

# A secret may be interrupted by white space, by escaped line breaks (JSON, shells) and by invisible characters.
_SPACE = b" \t\n\r\x0b\x0c"
# Characters that a viewer shows as a space or not at all: soft hyphen, zero-width and typographic spaces, line
# separators, byte order mark.
_RARE = "\x85\xa0\xad\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff"
_BREAKS = ("n", "r", "t", "u000a", "u000A", "u000d", "u000D", "u0009")
_IS_RARE = f"[{_RARE}]"
_RARE_ONES = re.compile(f"[{_RARE}]+")
_GAPS = re.compile(r"[ \t\n\r\x0b\x0c]+")
_GAPS_AND_BREAKS = re.compile(rf"\\(?:{'|'.join(_BREAKS)})?|[ \t\n\r\x0b\x0c{_RARE}]+")

Span = tuple[int, int]


def replace_surrogates(text: str) -> str:
    """Return the text with lone surrogates replaced: they cannot be encoded as UTF-8, which RE2 needs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


class KnownValues:
    """Redacts known values; those with fewer than six characters, without white space, are ignored."""

    def __init__(self, secrets: Iterable[str]) -> None:
        given = set(map(replace_surrogates, secrets))
        # A value that is part of our own mark would be found in every text that was redacted before.
        wanted = [
            secret for secret in given if len(_unspaced_view(secret)) >= SHORTEST_SECRET and secret not in REDACTED
        ]
        # `int` raises for more than 4,300 digits.
        self._numbers = frozenset(
            int(secret) for secret in wanted if secret.isascii() and secret.isdigit() and len(secret) < 400
        )
        plain = {form for secret in wanted for form in _plain_forms(secret)}
        encoded = {form for secret in wanted for form in _base64_forms(secret)}
        self._views = (
            [_View(look, plain, encoded) for look in (_plain_view, _unspaced_view, _unescaped_view)] if wanted else []
        )

    def found_in(self, text: str) -> bool:
        """Return True if the text contains one of the values."""
        return any(view.found_in(text) for view in self._views[1:])  # whatever the plain view finds, the others find

    def redact(self, text: str) -> str:
        """Return the text with the values replaced."""
        if not self.found_in(text):
            return text
        for view in self._views:
            if view.found_in(text):
                text = view.redact(text)
        return text

    def has_number(self, number: float) -> bool:
        """Return True if the number is one of the values."""
        return number in self._numbers


class _View:
    """A way to look at a text in which certain separators are dropped, so that a broken-up secret is whole again."""

    def __init__(self, look: Callable[[str], bytes], plain: set[str], encoded: set[str]) -> None:
        self._look = look
        # Two patterns to redact with, because only base64 matches have to be widened; one for the quick check.
        self._plain = _any_of({look(form) for form in plain})
        self._encoded = _any_of({look(form) for form in encoded})
        self._any = _any_of({look(form) for form in plain | encoded})

    def found_in(self, text: str) -> bool:
        if (
            self._look is _unescaped_view
            and "\\" not in text
            and (text.isascii() or not compile_linear(_IS_RARE).search(text))
        ):
            return False  # nothing to unescape: the unspaced view finds the same
        return self._any.search(self._look(text)) is not None

    def redact(self, text: str) -> str:
        seen, places = self._places(text)
        found = [(places[start], places[end - 1] + 1) for start, end in _find_spans(self._plain, seen)]
        wide = _widen(text, [(places[start], places[end - 1] + 1) for start, end in _find_spans(self._encoded, seen)])
        return _cut_out(text, found + wide)

    def _places(self, text: str) -> tuple[str, Sequence[int]]:
        """Return the text as this view shows it, and the original position of each character."""
        if self._look is _plain_view:
            # Positions are 1:1 here, and a range takes no memory.
            return text, range(len(text))
        places: list[int] = []
        parts: list[str] = []
        end = 0
        for gap in (_GAPS_AND_BREAKS if self._look is _unescaped_view else _GAPS).finditer(text):
            places.extend(range(end, gap.start()))
            parts.append(text[end : gap.start()])
            end = gap.end()
        places.extend(range(end, len(text)))
        return "".join((*parts, text[end:])), places


def _find_spans(pattern: Pattern, seen: str) -> list[Span]:
    return [match.span() for match in pattern.finditer(seen)]


def _plain_view(text: str) -> bytes:
    return text.encode()


def _unspaced_view(text: str) -> bytes:
    # Bytes can drop characters in one pass; this runs for every text that is stored.
    return text.encode().translate(None, _SPACE)


def _unescaped_view(text: str) -> bytes:
    if not text.isascii():
        text = _RARE_ONES.sub("", text)
    if "\\" in text:
        first, *parts = text.split("\\")
        text = "".join((first, *(_skip_break(part) for part in parts)))
    return _unspaced_view(text)


def _skip_break(text: str) -> str:
    """Return what follows a backslash, without the letters of an escaped line break."""
    if text.startswith(_BREAKS):
        return text[1 if text[0] != "u" else 5 :]
    return text


def _widen(text: str, spans: Iterable[Span]) -> list[Span]:
    """Extend the spans to whole base64 values.

    The characters at both ends of a match hold bits of the neighbouring bytes, so what is left would reveal some.
    """
    found: list[Span] = []
    done = 0
    for start, end in spans:
        if end <= done:
            continue  # inside the previous value
        # Never back into the previous value: each character is visited once, so a value full of matches takes linear
        # time.
        while start > done and text[start - 1] in _BASE64:
            start -= 1  # noqa: PLW2901
        while end < len(text) and (text[end] in _BASE64 or text[end] == "="):
            end += 1  # noqa: PLW2901
        found.append((start, end))
        done = end
    return found


def _cut_out(text: str, spans: Iterable[Span]) -> str:
    parts: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start >= done:
            parts += (text[done:start], REDACTED)
        done = max(done, end)
    return "".join((*parts, text[done:]))


def _any_of(forms: set[bytes]) -> Pattern:
    """Return a pattern for any of these, the longest first."""
    # Checked again here: a view may shorten a form, and short ones occur in ordinary text. The longest first, so that a
    # secret which contains another one is removed whole.
    wanted = sorted((form for form in forms if len(form) >= SHORTEST_SECRET), key=lambda form: (-len(form), form))
    return compile_any_of([form.decode() for form in wanted])


def _plain_forms(secret: str) -> Iterator[str]:
    """Yield a value as it is, escaped for JSON, URLs and HTML, and as hexadecimal digits."""
    yield secret
    for ascii_only in (True, False):
        escaped = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        # Some encoders escape the slash, and logs often have JSON within JSON.
        yield from (escaped, escaped.replace("/", "\\/"), json.dumps(escaped)[1:-1])
    storable = secret.encode()
    # What encoders leave as it is: nothing, the default of Python, `encodeURIComponent` of JavaScript, and all that RFC
    # 3986 allows in a path.
    for safe in ("", "/", "!*'()", "/:@!$&'()*+,;="):
        percent = quote(storable, safe=safe)
        yield from (percent, _lower_hex(percent), quote_plus(storable, safe=safe))
    yield from (html.escape(secret), html.escape(secret, quote=False))
    yield from (storable.hex(), storable.hex().upper())


def _lower_hex(percent: str) -> str:
    parts = percent.split("%")
    return "%".join([parts[0], *(part[:2].lower() + part[2:] for part in parts[1:])])


def _base64_forms(secret: str) -> Iterator[str]:
    """Yield the base64 characters that depend on the value alone.

    Base64 encodes three bytes at a time, so a value inside a longer text has three spellings, one for each offset; the
    first and last characters of each also depend on the bytes around the value and are left out.
    """
    content = secret.encode()
    # With one byte before the value, the first 8 bits are foreign: they reach into the second character, so two are
    # left out. With two bytes it is 16 bits and three characters.
    for offset, start in ((0, 0), (1, 2), (2, 3)):
        whole = b64encode(bytes(offset) + content).decode()
        # At the end, one byte in the last group gives two characters and `==`, of which the second depends on what
        # follows; two bytes give three characters and `=`, of which the third does.
        tail = {0: 0, 1: 3, 2: 2}[(offset + len(content)) % 3]
        form = whole[start : len(whole) - tail]
        yield from (form, form.translate(_URL_SAFE), form.replace("+", "%2B").replace("/", "%2F"))


_URL_SAFE = str.maketrans("+/", "-_")
