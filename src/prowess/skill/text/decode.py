"""From bytes to text: UTF-8 where possible, and no file so odd that it cannot be read."""

from __future__ import annotations

import codecs

from prowess.errors import Problem
from prowess.skill.text.codes import problem

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAVE = "Save the file as UTF-8 without a byte order mark."


def decode(data: bytes | str) -> tuple[str, list[Problem]]:
    """The text of a file, without byte order mark, and what was odd about its bytes. Half characters are replaced."""
    problems: list[Problem] = []
    if isinstance(data, str):
        text = _whole(data, problems)
    else:
        try:
            text = data.decode()
        except UnicodeDecodeError as fault:
            text = _foreign(data, fault.start, problems)
    if "\x00" in text:
        text = _with_nul(text, data, problems)
    if text.startswith("\ufeff"):
        text = text[1:]
        problems.append(problem("bom", "The file starts with a byte order mark.", _SAVE, line=1))
    if "\r" in text:
        line = text.count("\n", 0, text.index("\r")) + 1
        problems.append(
            problem("crlf", "Lines end in carriage returns (Windows style).", "Save it with LF line ends.", line=line)
        )
    return text, problems


def _whole(text: str, problems: list[Problem]) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as fault:
        line = text.count("\n", 0, fault.start) + 1
        message = "The text has half a character (a lone surrogate) in it, which was replaced."
        problems.append(problem("not-utf8", message, "Save the file as UTF-8.", line=line))
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _foreign(data: bytes, position: int, problems: list[Problem]) -> str:
    """The text of bytes that are not UTF-8: by their mark, else as Windows or Latin-1 text."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _wide(data, encoding, problems)
    line = data.count(b"\n", 0, position) + 1
    message = f"The file is not UTF-8: byte 0x{data[position]:02X} in line {line}; it was read as Windows-1252."
    problems.append(problem("not-utf8", message, "Save the file as UTF-8.", line=line))
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _with_nul(text: str, data: bytes | str, problems: list[Problem]) -> str:
    """The text, read again if its NULs come from an unmarked wide encoding."""
    start = data[:64] if isinstance(data, bytes) else b""
    even, odd = start[::2].count(0), start[1::2].count(0)
    if odd * 2 > len(start) // 2 and not even:
        return _wide(data, "utf-16-le", problems)
    if even * 2 > len(start) // 2 and not odd:
        return _wide(data, "utf-16-be", problems)
    line = text.count("\n", 0, text.index("\x00")) + 1
    problems.append(problem("nul-character", "The file has NUL characters in it.", "Remove them.", line=line))
    return text


def _wide(data: bytes | str, encoding: str, problems: list[Problem]) -> str:
    problems.append(problem("utf-16", f"The file is {encoding[:6].upper()} text.", _SAVE, line=1))
    return data.decode(encoding, "replace") if isinstance(data, bytes) else data
