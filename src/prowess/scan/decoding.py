"""Decode text that code hides in another encoding: base64, hexadecimal digits, escapes, compressed bytes. Bounded, never raises."""

from __future__ import annotations

import base64
import binascii
import bz2
import codecs
import re
import zlib
from collections.abc import Callable

from prowess.scan.values import NO_LABELS, UNKNOWN, Label, Value

MAX_DECODED = 256 * 1024


def decode_base64(text: str) -> str | None:
    """Return the content of base64 text, or None if it is not base64 of text."""
    compact = "".join(text.split())
    try:
        raw = base64.b64decode(
            compact + "=" * (-len(compact) % 4),
            altchars=b"-_" if "-" in compact or "_" in compact else None,
            validate=True,
        )
    except (binascii.Error, ValueError):
        return None
    return decode_bytes(raw)


def decode_bytes(raw: bytes) -> str | None:
    """Return bytes as text: UTF-16 as PowerShell uses it, or UTF-8; None if they are neither."""
    if raw[1::2].count(0) > len(raw) // 3:
        return raw.decode("utf-16-le", "replace")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def decode_hex(text: str) -> str | None:
    """Return what hexadecimal digits spell, or None."""
    try:
        return decode_bytes(bytes.fromhex(re.sub(r"\\x|0x|[\s,:]", "", text)))
    except ValueError:
        return None


def decode_escapes(text: str) -> str:
    r"""Return a text with `\x41`, `\101` and the like replaced."""
    try:
        return codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")
    except UnicodeDecodeError:
        return text


def escape_labels(text: str) -> frozenset[Label]:
    """Return the label of text that spells letters as numbers."""
    # A few escapes are colours or check marks; many letters written as numbers are meant not to be read.
    spelled = re.findall(r"\\(?:x[2-7][0-9a-fA-F]|0?1?[0-7]{2}|u00[2-7][0-9a-fA-F])", text)
    return frozenset({Label("decoded", "escapes")}) if len(spelled) >= 6 else NO_LABELS


def inflate(text: str) -> str | None:
    """Return the content of compressed bytes, or None."""
    raw = text.encode("latin-1", "replace")
    try:
        for wbits in (15, -15, 31):
            try:
                # A bounded output: a few bytes can inflate to gigabytes.
                return decode_bytes(zlib.decompressobj(wbits).decompress(raw, MAX_DECODED))
            except zlib.error:
                continue
        return decode_bytes(bz2.BZ2Decompressor().decompress(raw, MAX_DECODED))
    except (OSError, ValueError, EOFError):
        return None


def decode_base64_bytes(text: str) -> str | None:
    """Return the content of base64 text, as text or byte by byte."""
    decoded = decode_base64(text)
    if decoded is not None:
        return decoded
    try:
        return base64.b64decode(text, validate=False).decode("latin-1")
    except (binascii.Error, ValueError):
        return None


def decode_hex_bytes(text: str) -> str | None:
    """Return what hexadecimal digits spell, byte by byte."""
    try:
        return bytes.fromhex(text).decode("latin-1")
    except ValueError:
        return decode_hex(text)


def decode_value(value: Value, decode: Callable[[str], str | None]) -> Value:
    """Return a value decoded, labelled as such."""
    decoded = decode(value.text) if value.is_known and len(value.text) <= MAX_DECODED else None
    texts = (decoded,) if decoded is not None else (UNKNOWN,)
    return Value(texts=texts, labels=value.labels | {Label("decoded", "encoded text")})
