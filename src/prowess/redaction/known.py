"""Find known secrets in a text in any spelling: plain, encoded, escaped, reversed, split, or broken over lines."""

from __future__ import annotations

import html
import json
import re
from base64 import b32encode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from urllib.parse import quote, quote_plus, unquote

from prowess.redaction.regex import Pattern, compile_any_of, compile_linear

REDACTED = "[redacted]"
SHORTEST_SECRET = 6
"""Shorter values are not redacted: they occur in ordinary text by chance."""

_NEVER = "\0no secret\0"
"""A text that no view shows: a pattern of nothing would match everywhere."""
_SHORTEST_PIECE = 12
"""Shorter parts of a secret are not redacted by themselves, nor with separators in them."""
_LONGEST_SPLIT = 256
_MAX_WINDOWS = 8_000
"""The parts that are looked for at most: the pattern of them takes memory."""

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
_NOT_LETTERS = re.compile(r"[^A-Za-z0-9]+")
_SEPARATORS = bytes(code for code in range(256) if not (code < 128 and chr(code).isalnum()))
# Bytes above 0x7F are parts of characters, so that a row of them is decoded together.
_ESCAPE = (
    r"(%[0-7][0-9A-Fa-f]|(?:%[89A-Fa-f][0-9A-Fa-f])+)"
    r"|(?:&#([0-9]{1,7})|(?:&#[xX]|\\x|\\u\{?)([0-9A-Fa-f]{2,6}))[;}]?|&(amp|lt|gt|quot|apos);"
)
_ESCAPED = re.compile(_ESCAPE)
# Escapes of letters and digits, which no encoder needs: a text without any shows secrets as encoders write them.
_IS_ESCAPED = r"%(?:3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa])|&#[0-9xX]|\\x[3-7][0-9A-Fa-f]|\\u\{?0{0,4}[3-7][0-9A-Fa-f]"
_GAPS_AND_ESCAPES = re.compile(rf"{_ESCAPE}|[ \t\n\r\x0b\x0c]+")
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
        values = set(map(replace_surrogates, secrets))
        # A value that is part of our own mark would be found in every text that was redacted before.
        searched = [
            secret for secret in values if len(_unspaced_view(secret)) >= SHORTEST_SECRET and secret not in REDACTED
        ]
        # `int` raises for more than 4,300 digits.
        self._numbers = frozenset(
            int(secret) for secret in searched if secret.isascii() and secret.isdigit() and len(secret) < 400
        )
        plain = {form for secret in searched for form in _plain_forms(secret)}
        encoded = {form for secret in searched for form in (*_base64_forms(secret), *_base32_forms(secret))}
        pieces = _split_into_pieces(searched)
        # What the view without separators finds, the one without white space need not look for.
        bare = {form for form in plain | encoded if len(_letters_view(form)) < _SHORTEST_PIECE}
        self._views = (
            [
                _View(_plain_view, plain, encoded, quick=set()),
                _View(_unspaced_view, plain, encoded, quick=bare),
                _View(_letters_view, plain, encoded, pieces=pieces, shortest=_SHORTEST_PIECE),
                _View(_unescaped_view, plain, encoded),
                _View(_decoded_view, plain, encoded),
            ]
            if searched
            else []
        )

    def found_in(self, text: str) -> bool:
        """Return True if the text contains one of the values."""
        return any(view.found_in(text) for view in self._views)

    def redact(self, text: str) -> str:
        """Return the text with the values replaced."""
        if not self.found_in(text):
            return text
        for view in self._views:
            text = view.redact(text)
        return text

    def has_number(self, number: float) -> bool:
        """Return True if the number is one of the values."""
        return number in self._numbers


class _View:
    """A way to look at a text in which a secret that was broken up, or escaped, is whole again.

    `quick` are the forms that the quick check looks for: none where other views find the same. `pieces` are secrets of which
    every part of `shortest` characters is looked for too.
    """

    def __init__(
        self,
        look: Callable[[str], bytes],
        plain: set[str],
        encoded: set[str],
        *,
        quick: set[str] | None = None,
        pieces: Sequence[str] = (),
        shortest: int = SHORTEST_SECRET,
    ) -> None:
        self._look = look
        self._forms = (plain, encoded)
        self._quick = plain | encoded if quick is None else quick
        self._windows = {window for piece in pieces for window in _windows(piece)}
        self._shortest = shortest
        # Forward and backward, so that a match can be extended to as much as stands there of a secret.
        self._pieces = "\n".join((*pieces, *(piece[::-1] for piece in pieces)))

    # Compiled with the first text that needs them: most processes redact nothing, and few texts have escapes.
    @cached_property
    def _any(self) -> Pattern:
        return _any_of({self._look(form) for form in self._quick} | self._windows, self._shortest)

    # Two patterns to redact with, because only encoded matches have to be widened.
    @cached_property
    def _plain(self) -> Pattern:
        return _any_of({self._look(form) for form in self._forms[0]} | self._windows, self._shortest)

    @cached_property
    def _encoded(self) -> Pattern:
        return _any_of({self._look(form) for form in self._forms[1]}, self._shortest)

    def found_in(self, text: str) -> bool:
        if not (self._quick or self._windows) or not self._applies(text):
            return False
        return self._any.search(self._look(text)) is not None

    def _applies(self, text: str) -> bool:
        """Return False if this view shows a text as the one without white space does."""
        if self._look is _unescaped_view:
            return "\\" in text or not (text.isascii() or not compile_linear(_IS_RARE).search(text))
        if self._look is _decoded_view:
            return ("%" in text or "&" in text or "\\" in text) and compile_linear(_IS_ESCAPED).search(text) is not None
        return True

    def redact(self, text: str) -> str:
        if not self._applies(text):
            return text
        seen = self._show(text)
        plain, encoded = _find_spans(self._plain, seen), _find_spans(self._encoded, seen)
        if not plain and not encoded:
            return text  # usually: another view has found the secret, and the places take far longer than the search
        starts, ends = self._places(text)
        spans = [self._extend(seen, *span) for span in plain]
        found = [(starts[start], ends[end - 1]) for start, end in spans]
        wide = _widen(text, [(starts[start], ends[end - 1]) for start, end in encoded])
        return _cut_out(text, found + wide)

    def _extend(self, seen: str, start: int, end: int) -> Span:
        """Extend a match to both sides, as long as it is part of one secret."""
        if self._pieces:
            while end < len(seen) and seen[start : end + 1] in self._pieces:
                end += 1
            while start and seen[start - 1 : end] in self._pieces:
                start -= 1
        return start, end

    def _show(self, text: str) -> str:
        """Return the text as this view shows it."""
        dropped = _DROPPED.get(self._look)
        if dropped is None:
            return text
        return dropped.sub(_unescape if self._look is _decoded_view else "", text)

    def _places(self, text: str) -> tuple[Sequence[int], Sequence[int]]:
        """Return where each character that this view shows starts and ends in the original."""
        dropped = _DROPPED.get(self._look)
        if dropped is None:
            # Positions are 1:1 here, and a range takes no memory.
            return range(len(text)), range(1, len(text) + 1)
        starts: list[int] = []
        ends: list[int] = []
        end = 0
        for gap in dropped.finditer(text):
            starts.extend(range(end, gap.start()))
            ends.extend(range(end + 1, gap.start() + 1))
            width = len(_unescape(gap)) if self._look is _decoded_view else 0
            starts.extend([gap.start()] * width)
            ends.extend([gap.end()] * width)
            end = gap.end()
        starts.extend(range(end, len(text)))
        ends.extend(range(end + 1, len(text) + 1))
        return starts, ends


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


def _letters_view(text: str) -> bytes:
    """Return only ASCII letters and digits: whatever separates the parts of a secret is gone."""
    return text.encode().translate(None, _SEPARATORS)


def _decoded_view(text: str) -> bytes:
    """Return the text with the escapes of URLs, HTML and programs decoded."""
    return _unspaced_view(_ESCAPED.sub(_unescape, text))


def _unescape(match: re.Match[str]) -> str:
    """Return the characters that an escape stands for; '' for white space."""
    percent, decimal, hexadecimal, name = match.groups()
    if percent:
        return unquote(percent, errors="replace")
    if name:
        return html.unescape(f"&{name};")
    if not (decimal or hexadecimal):
        return ""
    code = int(decimal) if decimal else int(hexadecimal, 16)
    # Half a surrogate pair, or no character at all: nothing that a secret contains.
    return chr(code) if code < 0xD800 or 0xE000 <= code < 0x110000 else "?"


_DROPPED: dict[Callable[[str], bytes], re.Pattern[str]] = {
    _unspaced_view: _GAPS,
    _unescaped_view: _GAPS_AND_BREAKS,
    _letters_view: _NOT_LETTERS,
    _decoded_view: _GAPS_AND_ESCAPES,
}
"""What each view drops or decodes."""


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
    previous_end = 0
    for start, end in spans:
        if end <= previous_end:
            continue  # inside the previous value
        # Never back into the previous value: each character is visited once, so a value full of matches takes linear
        # time.
        while start > previous_end and text[start - 1] in _BASE64:
            start -= 1  # noqa: PLW2901
        while end < len(text) and (text[end] in _BASE64 or text[end] == "="):
            end += 1  # noqa: PLW2901
        found.append((start, end))
        previous_end = end
    return found


def _cut_out(text: str, spans: Iterable[Span]) -> str:
    parts: list[str] = []
    previous_end = 0
    for start, end in sorted(spans):
        if start >= previous_end:
            parts += (text[previous_end:start], REDACTED)
        previous_end = max(previous_end, end)
    return "".join((*parts, text[previous_end:]))


def _any_of(forms: set[bytes], shortest: int) -> Pattern:
    """Return a pattern for any of these, the longest first."""
    # Checked again here: a view may shorten a form, and short ones occur in ordinary text. The longest first, so that a
    # secret which contains another one is removed whole.
    ordered = sorted((form for form in forms if len(form) >= shortest), key=lambda form: (-len(form), form))
    return compile_any_of([form.decode() for form in ordered] or [_NEVER])


def _split_into_pieces(secrets: Iterable[str]) -> list[str]:
    """Return the letters and digits of the secrets whose parts are secret as well, as far as they are not too many."""
    pieces: list[str] = []
    room = _MAX_WINDOWS
    for secret in sorted(secrets):
        letters = _letters_view(secret).decode()
        # A part of an address, a path or a text says nothing: only generated values are looked for in parts.
        generated = not re.search(r"://|\s", secret) and _SHORTEST_PIECE <= len(letters) <= _LONGEST_SPLIT
        room -= 2 * len(letters) if generated else 0
        if generated and room >= 0:
            pieces.append(letters)
    return pieces


def _windows(piece: str) -> Iterator[bytes]:
    """Yield every part of the shortest length that has letters and digits, forward and backward."""
    for start in range(len(piece) - _SHORTEST_PIECE + 1):
        window = piece[start : start + _SHORTEST_PIECE]
        if not (window.isalpha() or window.isdigit()):
            yield from (window.encode(), window[::-1].encode())


def _plain_forms(secret: str) -> Iterator[str]:
    """Yield a value as it is and reversed, escaped for JSON, URLs and HTML, and as hexadecimal digits."""
    yield from (secret, secret[::-1])
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


def _base32_forms(secret: str) -> Iterator[str]:
    """Yield the base32 characters that depend on the value alone: five bytes are eight characters, so there are five offsets."""
    content = secret.encode()
    for offset in range(5):
        whole = b32encode(bytes(offset) + content).decode().rstrip("=")
        # The first characters hold bits of the bytes before; the last one may hold bits of the byte after.
        start = -(-offset * 8 // 5)
        form = whole[start : (offset + len(content)) * 8 // 5]
        yield from (form, form.lower())


_URL_SAFE = str.maketrans("+/", "-_")
