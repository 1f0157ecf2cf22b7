"""Split many texts at once into tokens, the stretches of letters and digits that words are made of.

Only distinct tokens become strings. All others are numbers: that takes a tenth of the time, because the words of skills
recur. `split_words` gives the same for a single text.
"""

from __future__ import annotations

import codecs
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from prowess.match.arrays import Array
from prowess.match.words import CJK_RUN, LONGEST_TEXT, normalize, split_words, strip_accents
from prowess.patterns import lazy_pattern

_SEPARATOR = "\x01"
_CHUNK = 1 << 20
"""The number of characters that are split at a time, which bounds the memory and fits into the processor's cache."""
_MAX_RUNS, _LONGEST_RUN = 20_000, 16

_SPACE, _APOSTROPHE, _PLUS, _HASH = b" '+#"
_TABLE = bytes(code if chr(code).isalnum() or code == 1 else _SPACE for code in range(128)).ljust(256)
_IS_WORD: NDArray[np.bool_] = np.array([chr(code).isalnum() or chr(code) == "_" for code in range(128)] + [False] * 128)
_LOWER = np.frombuffer(bytes(range(256)).lower(), np.uint8)
_IS_SHORT_ENDING, _IS_LONG_ENDING = np.zeros(1 << 8, np.bool_), np.zeros(1 << 16, np.bool_)
_IS_SHORT_ENDING[list(b"stdm")] = True
_IS_LONG_ENDING[[int.from_bytes(ending) for ending in (b"ll", b"re", b"ve")]] = True

_CJK_RUNS = lazy_pattern(f"({CJK_RUN.pattern})")
_MARKS = "+#'’\u3099\u309a"
_MIXED = lazy_pattern(r"(?:[+#]|['’][a-z]{0,2})[^\x00-\x7f]|[\u3099\u309a]", re.IGNORECASE)

_UNIT = 8
_LONGEST_HASHED = 64
# The bytes of a token of up to so many bytes, of the eight that are read.
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_UNIT + 1)], np.uint64)
# Unknown to the authors of skills, who could otherwise make a token that passes for another one.
_FACTOR = np.uint64(int.from_bytes(os.urandom(8)) | 1)


def split_tokens(texts: Sequence[str]) -> Iterator[tuple[list[str], Array, Array]]:
    """Yield the tokens of the next few texts: distinct ones, the places of all among them, and the number in each text.

    A token may occur twice among the distinct ones.
    """
    plain, more = _to_ascii(texts)
    ends = np.cumsum([len(text) + 1 for text in plain])
    first = 0
    while first < len(plain):
        before = ends[first - 1] if first else 0
        last = max(int(ends.searchsorted(before + _CHUNK)), first + 1)
        distinct, places, counts = _split(plain[first:last])
        if more:
            found = {place - first: more[place] for place in range(first, last) if place in more}
            distinct, places, counts = _insert(distinct, places, counts, found)
        yield distinct, places, counts
        first = last


def _to_ascii(texts: Sequence[str]) -> tuple[list[str], dict[int, list[str]]]:
    """Return texts in ASCII, and by their places the tokens of those that have others as well."""
    found = [text[:LONGEST_TEXT] for text in texts]
    more: dict[int, list[str]] = {}
    for place in [place for place, text in enumerate(found) if not text.isascii()]:
        text = found[place]
        try:
            found[place] = text.encode("ascii", _ACCENTS).decode("ascii")
        except UnicodeEncodeError:
            found[place], more[place] = _split_foreign(text)
    if "".join(found).count(_SEPARATOR):
        found = [text.replace(_SEPARATOR, " ") for text in found]
    return found, more


def _split_foreign(text: str) -> tuple[str, list[str]]:
    """Return the part of a text that is in ASCII, and the tokens of the rest."""
    normal = normalize(text)
    parts = _CJK_RUNS.split(normal)
    latin, runs = " ".join(parts[::2]), parts[1::2]
    if not latin.isascii():
        latin = strip_accents(latin).replace("’", "'")
    # What an apostrophe, a sign or an accent beside such a run means depends on both sides of it.
    is_mixed = any(mark in normal for mark in _MARKS) and _MIXED.search(normal)
    # There are symbols among these characters, too. A text with nothing but symbols has no pairs.
    if is_mixed or not latin.isascii() or not any(map(str.isalnum, "".join(runs))):
        return "", split_words(text)
    return latin, [run[place : place + 2] for run in runs for place in range(max(1, len(run) - 1))]


_ACCENTS = "prowess-accents"
_runs: dict[str, bytes] = {}


def _strip_run(error: UnicodeError) -> tuple[bytes, int]:
    """Replace adjacent characters that are not in ASCII, if they can be read on their own; raise the error if not."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    run = error.object[error.start : error.end]
    known = _runs.get(run)
    if known is None:
        # An accent belongs to the letter before it.
        if unicodedata.combining(unicodedata.normalize("NFKD", run[0])[0]):
            raise error
        # Both apostrophes are read alike.
        normal = normalize(run)
        bare = strip_accents(normal).replace("’", "'")
        if not bare.isascii() or CJK_RUN.search(normal):
            raise error
        known = bare.encode()
        if len(run) <= _LONGEST_RUN:
            if len(_runs) >= _MAX_RUNS:
                _runs.clear()
            _runs[run] = known
    return known, error.end


codecs.register_error(_ACCENTS, _strip_run)


def _split(texts: Sequence[str]) -> tuple[list[str], Array, Array]:
    """Return the distinct tokens of texts in ASCII, the places of all tokens among them, and the number in each text."""
    raw = _SEPARATOR.join(["", *texts, ""]).encode()
    # Room at the end, so that eight bytes can be read from every place.
    told = np.frombuffer(raw + bytes(_UNIT), np.uint8)
    codes = np.frombuffer(bytearray(raw.translate(_TABLE) + bytes(_UNIT)), np.uint8)
    _remove_contractions(told, codes)
    _keep_signs(raw, told, codes)
    is_inside = codes > _SPACE
    edges = np.flatnonzero(is_inside[1:] != is_inside[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]
    counts = np.diff(starts.searchsorted(np.flatnonzero(codes == ord(_SEPARATOR))))
    text = codes.tobytes().decode("ascii")
    hashes = _hash_tokens(text, codes, starts, ends)
    # Hash and place in one number: sorting plain numbers is far faster than sorting places by their hashes. Two hashes that
    # begin alike may be mixed, which makes a token occur twice.
    bits = np.uint64(len(hashes).bit_length())
    order = np.sort(hashes >> bits << bits | np.arange(len(hashes), dtype=np.uint64))
    order = (order & np.uint64((1 << int(bits)) - 1)).astype(np.int64)
    hashes = hashes[order]
    is_new = np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)]
    places = np.empty(len(order), np.int32)
    places[order] = is_new.cumsum() - 1
    firsts = order[is_new]
    distinct = [text[start:end] for start, end in zip(starts[firsts].tolist(), ends[firsts].tolist(), strict=True)]
    return distinct, places, counts


def _hash_tokens(text: str, codes: Array, starts: Array, ends: Array) -> NDArray[np.uint64]:
    """Return a number for each token, the same only for the same token: eight bytes at a time, mixed."""
    units = np.ndarray((len(codes) - _UNIT + 1,), "<u8", codes, strides=(1,))
    lengths = ends - starts
    hashes = _mix(units[starts] & _MASKS[np.minimum(lengths, _UNIT)])
    for done in range(_UNIT, min(int(lengths.max(initial=0)), _LONGEST_HASHED), _UNIT):
        longer = np.flatnonzero(lengths > done)
        rest = units[starts[longer] + done] & _MASKS[np.minimum(lengths[longer] - done, _UNIT)]
        hashes[longer] = _mix(hashes[longer] ^ rest)
    for place in np.flatnonzero(lengths > _LONGEST_HASHED).tolist():
        hashes[place] = hash(text[starts[place] : ends[place]]) & 0xFFFF_FFFF_FFFF_FFFF
    return hashes


def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = numbers * _FACTOR
    return (mixed ^ mixed >> np.uint64(32)) * _FACTOR


def _remove_contractions(told: Array, codes: Array) -> None:
    """Clear what `_CONTRACTION` in `words` matches."""
    marks = np.flatnonzero(told == _APOSTROPHE)
    if not len(marks):
        return
    one, two = _LOWER[told[marks + 1]], _LOWER[told[marks + 2]]
    is_short = _IS_SHORT_ENDING[one] & ~_IS_WORD[two]
    is_long = _IS_LONG_ENDING[one.astype(np.uint16) << 8 | two] & ~_IS_WORD[told[marks + 3]]
    codes[marks[is_short] + 1] = _SPACE
    codes[marks[is_long] + 1] = codes[marks[is_long] + 2] = _SPACE


def _keep_signs(raw: bytes, told: Array, codes: Array) -> None:
    """Put back the signs at the ends of words such as C++ and C#, as `_WORD` in `words` has them."""
    signs = np.flatnonzero((told == _PLUS) | (told == _HASH))
    for start in signs[codes[signs - 1] > _SPACE].tolist():
        end = start + 1
        while raw[end] in (_PLUS, _HASH):
            end += 1
        # A sign before a letter belongs to neither.
        end -= bool(_IS_WORD[raw[end]])
        codes[start:end] = told[start:end]


def _insert(
    distinct: list[str], places: Array, counts: Array, more: dict[int, list[str]]
) -> tuple[list[str], Array, Array]:
    """Add tokens to some of the texts, after those they have."""
    ends = np.cumsum(counts)
    parts: list[Array] = []
    before = 0
    for text, tokens in more.items():
        parts += [places[before : ends[text]], np.arange(len(distinct), len(distinct) + len(tokens), dtype=np.int32)]
        distinct.extend(tokens)
        before = ends[text]
        counts[text] += len(tokens)
    return distinct, np.concatenate([*parts, places[before:]]), counts
