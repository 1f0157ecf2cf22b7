"""Read a markdown file with frontmatter. Any bytes give a usable document and a complete list of problems."""

from __future__ import annotations

import codecs
import re
from typing import Any, cast

from prowess.errors import Problem
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.text.document import YAML_HINTS, Document, make_problem
from prowess.skill.text.frontmatter_block import (
    FrontmatterBlock,
    ReadFields,
    find_block,
    line_number,
    normalize_line_ends,
    scan_entries,
    shorten_block,
)
from prowess.skill.text.repair import repair_fields
from prowess.skill.text.yaml import YamlRefused, load

# UTF-32 comes first: its little-endian mark starts with the one of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAVE_HINT = "Save the file as UTF-8 without a byte order mark."


def decode_text(data: bytes | str) -> tuple[str, list[Problem]]:
    """Return the text of a file without byte order mark, and the problems with its bytes. Lone surrogates are replaced."""
    problems: list[Problem] = []
    if isinstance(data, str):
        text = _replace_surrogates(data, problems)
    else:
        try:
            text = data.decode()
        except UnicodeDecodeError as fault:
            text = _decode_other(data, fault.start, problems)
    if "\x00" in text:
        text = _check_nul(text, data, problems)
    if text.startswith("\ufeff"):
        text = text[1:]
        problems.append(make_problem("bom", "The file starts with a byte order mark.", _SAVE_HINT, line=1))
    if "\r" in text:
        line = text.count("\n", 0, text.index("\r")) + 1
        problems.append(
            make_problem(
                "crlf", "The file has Windows line endings (CRLF).", "Save it with LF line endings.", line=line
            )
        )
    return text, problems


def readable_text(content: bytes) -> str | None:
    """Return the text that a model may be given of a file; None for binary data.

    A person who reviews a skill has to see the same text, so files in UTF-16 and Windows-1252 are text here as well.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        decoded, problems = decode_text(content)
        return None if any(problem.code == "nul-character" for problem in problems) else decoded
    return text if "\x00" not in text else decode_text(content)[0]


def _replace_surrogates(text: str, problems: list[Problem]) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as fault:
        line = text.count("\n", 0, fault.start) + 1
        message = "The text contains an unpaired surrogate, which was replaced."
        problems.append(make_problem("not-utf8", message, "Save the file as UTF-8.", line=line))
        # By way of UTF-16, where two halves that belong together become one character again; only lone ones are
        # replaced.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _decode_other(data: bytes, position: int, problems: list[Problem]) -> str:
    """Return the text of bytes that are not UTF-8: by their byte order mark, else as Windows-1252 or Latin-1."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return _decode_wide(data, encoding, problems)
    line = data.count(b"\n", 0, position) + 1
    message = f"The file is not UTF-8 (byte 0x{data[position]:02X} on line {line}); it was read as Windows-1252."
    problems.append(make_problem("not-utf8", message, "Save the file as UTF-8.", line=line))
    try:
        # Windows-1252 leaves five bytes undefined. Latin-1 accepts every byte, so that reading never fails.
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


_LATIN = re.compile("[\x01-\xff\u2010-\u201f]*")
"""Characters that have a NUL in UTF-16, and the usual dashes and quotation marks, of whose bytes only a space is visible."""


def _check_nul(text: str, data: bytes | str, problems: list[Problem]) -> str:
    """Return the text, decoded again if its NULs come from UTF-16 without a mark."""
    # Only if all of it is Latin text. Other bytes could be CJK characters to the person who reviews a script, and commands to
    # the shell that runs it, which skips NULs.
    if isinstance(data, bytes):
        for encoding in ("utf-16-le", "utf-16-be"):
            if _LATIN.fullmatch(data.decode(encoding, "replace")):
                return _decode_wide(data, encoding, problems)
    line = text.count("\n", 0, text.index("\x00")) + 1
    problems.append(make_problem("nul-character", "The file contains NUL characters.", "Remove them.", line=line))
    return text


def _decode_wide(data: bytes | str, encoding: str, problems: list[Problem]) -> str:
    problems.append(make_problem("utf-16", f"The file is {encoding[:6].upper()} text.", _SAVE_HINT, line=1))
    return data.decode(encoding, "replace") if isinstance(data, bytes) else data


_SECOND_BLOCK = re.compile(r"\s*---[ \t]*\r?\n(?=(?:[^\n]*\n){0,6}?(?:name|description)[ \t]*:)")


_LINE_END = ("\n", "")


def read_document(data: bytes | str, *, limits: Limits = DEFAULT_LIMITS) -> Document:
    """Read the frontmatter and the body of a markdown file. Never raises."""
    text, problems = decode_text(data)
    # The fast path for the usual file: exact markers and valid YAML. Everything else takes the slow, tolerant one.
    # The search starts at the line break of the opening marker, so that an empty block is found too. A line `...` ends
    # the YAML document for other readers; the slow path handles it.
    end = text.find("\n---", 3) if not problems and text.startswith("---\n") else -1
    if end < 0 or text[end + 4 : end + 5] not in _LINE_END or text.find("\n...", 3, end) >= 0:
        return _read_irregular(text, problems, limits)
    raw = text[4 : end + 1]
    try:
        loaded = load(raw, limits=limits, first_line=2)
    except YamlRefused as refused:
        block = FrontmatterBlock(4, end + 1, min(end + 5, len(text)))
        return _make_document(text, problems, block, _read_refused(text, text, block, refused, limits))
    fields: Any = loaded.value
    if not isinstance(fields, dict):
        return _read_irregular(text, problems, limits)
    second = _SECOND_BLOCK.match(text, end + 4)
    return Document(
        raw=raw,
        fields=cast("dict[str, Any]", fields),
        lines=loaded.lines,
        body=text[end + 5 :],
        body_line=raw.count("\n") + 3,
        how="yaml",
        problems=(_second_block_problem(text, second),) if second else (),
    )


def _read_irregular(text: str, problems: list[Problem], limits: Limits) -> Document:
    """Read a file whose frontmatter is not marked correctly, empty or missing."""
    plain = normalize_line_ends(text)
    block = find_block(plain)
    if block is None:
        return _without_frontmatter(text, [*problems, _missing_problem()])
    read = _load_fields(text[block.start : block.end], line_number(plain, block.start), limits)
    if isinstance(read, ReadFields):
        return _make_document(text, problems, block, (block, read))
    return _make_document(text, problems, block, _read_refused(plain, text, block, read, limits))


def _read_refused(
    plain: str, text: str, block: FrontmatterBlock, refused: YamlRefused, limits: Limits
) -> tuple[FrontmatterBlock, ReadFields | None]:
    """Return the fields of a block that is not valid YAML, or of a shorter block if the closing marker was really a rule in the body."""
    line = line_number(plain, block.start)
    # About one file in five has `---` as a rule in its body. If the real closing marker is missing, that rule was taken
    # for it.
    nearer = shorten_block(plain, block)
    if nearer is None:
        return block, _repair_fields(text[block.start : block.end], line, refused, limits)
    raw = text[nearer.start : nearer.end]
    read = _load_fields(raw, line, limits)
    return nearer, read if isinstance(read, ReadFields) else _repair_fields(raw, line, read, limits)


def _make_document(
    text: str, problems: list[Problem], found: FrontmatterBlock, outcome: tuple[FrontmatterBlock, ReadFields | None]
) -> Document:
    """Return the document of a block; if the block gave no fields, the whole text is body."""
    block, read = outcome
    if read is None:
        return _without_frontmatter(text, [*problems, _missing_problem() if found.lead else _keyless_problem()])
    plain = normalize_line_ends(text)
    all_problems = [*problems, *block.problems, *_find_marker_spaces(text, block), *read.problems]
    second = _SECOND_BLOCK.match(text, block.body)
    if second:
        all_problems.append(_second_block_problem(plain, second))
    lead = text[: block.lead]
    return Document(
        raw=text[block.start : block.end],
        fields=read.fields,
        lines=read.lines,
        body=lead + text[block.body :],
        body_line=line_number(plain, block.body) - lead.count("\n"),
        how=read.how,
        problems=tuple(all_problems),
    )


def _find_marker_spaces(text: str, block: FrontmatterBlock) -> list[Problem]:
    """Report a marker followed by spaces, which some other readers do not recognise."""
    before = text[: block.start].rstrip("\r\n")
    opening = before[max(before.rfind("\n"), before.rfind("\r")) + 1 :]
    closing = text[block.end : block.body].rstrip("\r\n")
    plain = normalize_line_ends(text)
    lines = [(opening, line_number(plain, block.start) - 1), (closing, line_number(plain, block.end))]
    found = [line for marker, line in lines if marker.rstrip() == "---" != marker]
    message = "There are spaces after the --- marker."
    return (
        [make_problem("marker-form", message, "Remove the spaces at the end of the line.", line=found[0])]
        if found
        else []
    )


def _load_fields(raw: str, line: int, limits: Limits) -> ReadFields | YamlRefused:
    """Return the fields as plain YAML gives them, or the error."""
    try:
        loaded = load(raw, limits=limits, first_line=line)
    except YamlRefused as refused:
        return refused
    fields: Any = loaded.value
    if isinstance(fields, dict):
        return ReadFields(fields=cast("dict[str, Any]", fields), lines=loaded.lines, how="yaml")
    if fields is None and not raw.strip():
        return ReadFields(how="yaml", problems=[_empty_problem(line)])
    return YamlRefused("The frontmatter has no keys.", line, "frontmatter-not-a-mapping")


def _repair_fields(raw: str, line: int, refused: YamlRefused, limits: Limits) -> ReadFields | None:
    """Return the fields by repair, or line by line if the block is too large; None if there are none."""
    if refused.code == "frontmatter-too-large":
        # Cut at the limit and without YAML: the cost stays bounded however large the block is.
        read = scan_entries(raw.encode()[: limits.frontmatter_bytes].decode("utf-8", "ignore"), line)
        read.problems.append(make_problem(refused.code, refused.message, YAML_HINTS[refused.code], line=line))
        return read
    read = repair_fields(raw, line, refused, limits)
    return read if read.fields else None


def _without_frontmatter(text: str, problems: list[Problem]) -> Document:
    return Document(raw=None, fields={}, lines={}, body=text, body_line=1, how="none", problems=tuple(problems))


def _missing_problem() -> Problem:
    hint = "Start the file with a --- line, then `name:` and `description:`, then another --- line."
    return make_problem("no-frontmatter", "The file has no frontmatter.", hint, line=1)


def _keyless_problem() -> Problem:
    message = "The text between the --- lines has no keys."
    hint = "Add `name:` and `description:` between them, or remove the first --- line."
    return make_problem("frontmatter-not-a-mapping", message, hint, line=1)


def _empty_problem(line: int) -> Problem:
    hint = "Add `name:` and `description:` between the --- lines."
    return make_problem("empty-frontmatter", "The frontmatter is empty.", hint, line=line)


def _second_block_problem(text: str, found: re.Match[str]) -> Problem:
    message = "The body starts with another frontmatter block, which is read as text."
    line = line_number(text, found.end()) - 1
    return make_problem("second-frontmatter", message, "Merge the two blocks into the first one.", line=line)
