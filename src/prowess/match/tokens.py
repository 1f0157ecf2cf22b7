"""Split many texts at once into tokens, the stretches of letters and digits that words are made of.

Tokens are places and hashes; only new ones become strings. That takes a tenth of the time, because the words of skills
recur. `split_words` gives the same for a single text.
"""

from __future__ import annotations

import codecs
import os
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from prowess.lazy_dataclass import dataclass
from prowess.match.arrays import Array, expand_slices, offsets_of
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
# Begins with the characters that the engine skips to.
_MIXED = lazy_pattern(
    r"[+#'’\u3099\u309a](?:(?<=[+#])[^\x00-\x7f]|(?<=['’])[a-zA-Z]{0,2}[^\x00-\x7f]|(?<=[\u3099\u309a]))"
)

_UNIT = 8
_LONGEST_HASHED = 64
# The bytes of a token of up to so many bytes, of the eight that are read.
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_UNIT + 1)], np.uint64)
# Unknown to the authors of skills, who could otherwise make a token that passes for another one.
_FACTOR = np.uint64(int.from_bytes(os.urandom(8)) | 1)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of some texts, one text after the other."""

    content: bytes
    starts: Array
    """Where each token is in the content."""
    ends: Array
    hashes: NDArray[np.uint64]
    """The same for the same tokens of all texts in this process."""
    counts: Array
    """The number of tokens in each text."""

    def spell(self, places: Array) -> list[str]:
        """Return some of the tokens as text."""
        content = self.content
        slices = map(slice, self.starts[places].tolist(), self.ends[places].tolist())
        return [content[some].decode("utf-8", "surrogatepass") for some in slices]

    def group(self) -> tuple[Array, Array]:
        """Return where each distinct token first occurs, and the place of every token among the distinct ones.

        A token may occur twice among the distinct ones.
        """
        hashes = self.hashes
        # Hash and place in one number: sorting plain numbers is far faster than sorting places by their hashes. Two hashes
        # that start alike may be mixed, which makes a token occur twice.
        bits = np.uint64(len(hashes).bit_length())
        order = np.sort(hashes >> bits << bits | np.arange(len(hashes), dtype=np.uint64))
        order = (order & np.uint64((1 << int(bits)) - 1)).astype(np.int64)
        hashes = hashes[order]
        is_new = np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)]
        places = np.empty(len(order), np.int32)
        places[order] = is_new.cumsum() - 1
        return order[is_new], places


def split_tokens(texts: Sequence[str]) -> Iterator[Tokens]:
    """Yield the tokens of the next few texts."""
    ends = np.cumsum([min(len(text), LONGEST_TEXT) + 1 for text in texts])
    first = 0
    while first < len(texts):
        before = ends[first - 1] if first else 0
        last = max(int(ends.searchsorted(before + _CHUNK)), first + 1)
        yield _split([text[:LONGEST_TEXT] for text in texts[first:last]])
        first = last


def _split(texts: list[str]) -> Tokens:
    foreign: list[int] = []
    for place in [place for place, text in enumerate(texts) if not text.isascii()]:
        try:
            texts[place] = texts[place].encode("ascii", _ACCENTS).decode("ascii")
        except UnicodeEncodeError:
            foreign.append(place)
    if not foreign:
        codes, starts, ends, counts = _split_ascii(texts)
        return _with_hashes(codes, starts, ends, counts)
    latin, more, more_starts, more_ends, owners = _split_foreign([texts[place] for place in foreign])
    for place, text in zip(foreign, latin, strict=True):
        texts[place] = text
    codes, starts, ends, counts = _split_ascii(texts)
    # The other tokens of a text come after those in ASCII.
    owners = np.append(np.repeat(np.arange(len(texts)), counts), np.array(foreign)[owners])
    order = np.argsort(owners, kind="stable")
    starts = np.append(starts, more_starts + len(codes))[order]
    ends = np.append(ends, more_ends + len(codes))[order]
    return _with_hashes(codes + more, starts, ends, np.bincount(owners, minlength=len(texts)))


def _with_hashes(content: bytes, starts: Array, ends: Array, counts: Array) -> Tokens:
    return Tokens(content, starts, ends, _hash_tokens(content, starts, ends), counts)


def _split_foreign(texts: Sequence[str]) -> tuple[list[str], bytes, Array, Array, Array]:
    """Return the parts of texts that are in ASCII, and the tokens of the rest: their content, starts, ends, and texts."""
    # One by one, because most are normal, which is quick to see.
    normal = _join(list(map(normalize, texts)))
    parts = _CJK_RUNS.split(normal)
    latin, runs = strip_accents(" ".join(parts[::2])).replace("’", "'").split(_SEPARATOR), parts[1::2]
    owners = np.cumsum([part.count(_SEPARATOR) for part in parts[:-1:2]], dtype=np.int64)
    # What an apostrophe, a sign or an accent next to such a run means depends on both sides of it. There are symbols among
    # these characters, too. `split_words` reads such texts, one by one.
    is_odd = np.array([not text.isascii() for text in latin], np.bool_)
    is_odd |= np.bincount(owners, minlength=len(texts)) == 0
    is_odd[owners[[not run[0].isalnum() for run in runs]]] = True
    ends = np.cumsum([len(text) + 1 for text in normal.split(_SEPARATOR)])
    is_odd[ends.searchsorted([mixed.start() for mixed in _MIXED.finditer(normal)], "right")] = True
    odd = np.flatnonzero(is_odd).tolist()
    words: list[bytes] = []
    sizes: list[int] = []
    for place in odd:
        latin[place] = ""
        found = split_words(texts[place])
        words += [word.encode("utf-8", "surrogatepass") for word in found]
        sizes.append(len(found))
    # The pairs of each run. In positions of characters; each takes three bytes.
    chosen = np.flatnonzero(~is_odd[owners])
    runs = [runs[place] for place in chosen.tolist()]
    limits = offsets_of(list(map(len, runs)))
    counts = np.maximum(np.diff(limits) - 1, 1)
    pairs, _ = expand_slices(limits[:-1], limits[:-1] + counts)
    pair_ends = np.minimum(pairs + 2, np.repeat(limits[1:], counts))
    word_limits = 3 * limits[-1] + offsets_of(list(map(len, words)))
    return (
        latin,
        b"".join(["".join(runs).encode(), *words]),
        np.append(3 * pairs, word_limits[:-1]),
        np.append(3 * pair_ends, word_limits[1:]),
        np.append(np.repeat(owners[chosen], counts), np.repeat(np.array(odd, np.int64), sizes)),
    )


def _join(texts: Sequence[str]) -> str:
    joined = _SEPARATOR.join(texts)
    if joined.count(_SEPARATOR) >= len(texts):
        joined = _SEPARATOR.join([text.replace(_SEPARATOR, " ") for text in texts])
    return joined


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


def _split_ascii(texts: Sequence[str]) -> tuple[bytes, Array, Array, Array]:
    """Return the content of texts in ASCII, where in it each token starts and ends, and the number in each text."""
    raw = f"{_SEPARATOR}{_join(texts)}{_SEPARATOR}".encode()
    # Room at the end, because the endings of contractions are read from every place.
    told = np.frombuffer(raw + bytes(_UNIT), np.uint8)
    codes = np.frombuffer(bytearray(raw.translate(_TABLE)), np.uint8)
    _remove_contractions(told, codes)
    _keep_signs(raw, told, codes)
    is_inside = codes > _SPACE
    edges = np.flatnonzero(is_inside[1:] != is_inside[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]
    counts = np.diff(starts.searchsorted(np.flatnonzero(codes == ord(_SEPARATOR))))
    return codes.tobytes(), starts, ends, counts


def _hash_tokens(content: bytes, starts: Array, ends: Array) -> NDArray[np.uint64]:
    """Return a number for each token, the same only for the same token: eight bytes at a time, mixed."""
    # With room, so that eight bytes can be read from every place.
    units = np.ndarray((len(content) + 1,), "<u8", content + bytes(_UNIT), strides=(1,))
    lengths = ends - starts
    hashes = _mix(units[starts] & _MASKS[np.minimum(lengths, _UNIT)])
    for done in range(_UNIT, min(int(lengths.max(initial=0)), _LONGEST_HASHED), _UNIT):
        longer = np.flatnonzero(lengths > done)
        rest = units[starts[longer] + done] & _MASKS[np.minimum(lengths[longer] - done, _UNIT)]
        hashes[longer] = _mix(hashes[longer] ^ rest)
    for place in np.flatnonzero(lengths > _LONGEST_HASHED).tolist():
        hashes[place] = hash(content[starts[place] : ends[place]]) & 0xFFFF_FFFF_FFFF_FFFF
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
