"""Reading a markdown file with frontmatter: whatever stands there, something usable and a true report come out."""

from __future__ import annotations

import re
from typing import Any, cast

from prowess.errors import Problem
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.text.codes import problem
from prowess.skill.text.decode import decode
from prowess.skill.text.document import Document
from prowess.skill.text.entries import Mended, scan
from prowess.skill.text.repair import repair
from prowess.skill.text.split import Block, flat, line_at, locate, shorter
from prowess.skill.text.yaml import YamlRefused, load

_SECOND = re.compile(r"\s*---[ \t]*\r?\n(?=(?:[^\n]*\n){0,6}?(?:name|description)[ \t]*:)")


_LINE_END = ("\n", "")


def read_document(data: bytes | str, *, limits: Limits = DEFAULT_LIMITS) -> Document:
    """Read the frontmatter and the body of a markdown file. Nothing makes it raise."""
    text, problems = decode(data)
    end = text.find("\n---", 3) if not problems and text.startswith("---\n") else -1
    if end < 0 or text[end + 4 : end + 5] not in _LINE_END or text.find("\n...", 3, end) >= 0:
        return _irregular(text, problems, limits)
    raw = text[4 : end + 1]
    try:
        loaded = load(raw, limits=limits, first_line=2)
    except YamlRefused as refused:
        block = Block(4, end + 1, min(end + 5, len(text)))
        return _finish(text, problems, block, _second_try(text, text, block, refused, limits))
    fields: Any = loaded.value
    if not isinstance(fields, dict):
        return _irregular(text, problems, limits)
    second = _SECOND.match(text, end + 4)
    return Document(
        raw=raw,
        fields=cast("dict[str, Any]", fields),
        lines=loaded.lines,
        body=text[end + 5 :],
        body_line=raw.count("\n") + 3,
        how="yaml",
        problems=(_second_block(text, second),) if second else (),
    )


def _irregular(text: str, problems: list[Problem], limits: Limits) -> Document:
    """The document of a file whose frontmatter is not marked as it should be, or empty, or absent."""
    plain = flat(text)
    block = locate(plain)
    if block is None:
        return _bare(text, [*problems, _missing()])
    read = _load(text[block.start : block.end], line_at(plain, block.start), limits)
    if isinstance(read, Mended):
        return _finish(text, problems, block, (block, read))
    return _finish(text, problems, block, _second_try(plain, text, block, read, limits))


def _second_try(
    plain: str, text: str, block: Block, refused: YamlRefused, limits: Limits
) -> tuple[Block, Mended | None]:
    """The fields of a block that YAML refuses, or of a shorter one where its end was taken for a rule in the body."""
    line = line_at(plain, block.start)
    nearer = shorter(plain, block)
    if nearer is None:
        return block, _mended(text[block.start : block.end], line, refused, limits)
    raw = text[nearer.start : nearer.end]
    read = _load(raw, line, limits)
    return nearer, read if isinstance(read, Mended) else _mended(raw, line, read, limits)


def _finish(text: str, problems: list[Problem], found: Block, outcome: tuple[Block, Mended | None]) -> Document:
    """The document of a block that was read; all of the text is body where it gave nothing."""
    block, read = outcome
    if read is None:
        return _bare(text, [*problems, _missing() if found.lead else _keyless()])
    plain = flat(text)
    told = [*problems, *block.problems, *_spaces(text, block), *read.problems]
    second = _SECOND.match(text, block.body)
    if second:
        told.append(_second_block(plain, second))
    lead = text[: block.lead]
    return Document(
        raw=text[block.start : block.end],
        fields=read.fields,
        lines=read.lines,
        body=lead + text[block.body :],
        body_line=line_at(plain, block.body) - lead.count("\n"),
        how=read.how,
        problems=tuple(told),
    )


def _spaces(text: str, block: Block) -> list[Problem]:
    """What is wrong with a marker that spaces follow: some other readers do not know it for one."""
    before = text[: block.start].rstrip("\r\n")
    opening = before[max(before.rfind("\n"), before.rfind("\r")) + 1 :]
    closing = text[block.end : block.body].rstrip("\r\n")
    plain = flat(text)
    lines = [(opening, line_at(plain, block.start) - 1), (closing, line_at(plain, block.end))]
    found = [line for marker, line in lines if marker.rstrip() == "---" != marker]
    message = "Spaces follow the marker ---."
    return (
        [problem("marker-form", message, "Remove the spaces at the end of the line.", line=found[0])] if found else []
    )


def _load(raw: str, line: int, limits: Limits) -> Mended | YamlRefused:
    """The fields as plain YAML gives them, or why it does not."""
    try:
        loaded = load(raw, limits=limits, first_line=line)
    except YamlRefused as refused:
        return refused
    fields: Any = loaded.value
    if isinstance(fields, dict):
        return Mended(fields=cast("dict[str, Any]", fields), lines=loaded.lines, how="yaml")
    if fields is None and not raw.strip():
        return Mended(how="yaml", problems=[_empty(line)])
    return YamlRefused("The frontmatter has no keys.", line, "frontmatter-not-a-mapping")


def _mended(raw: str, line: int, refused: YamlRefused, limits: Limits) -> Mended | None:
    """The fields by repair, or by the line where the block is too large; None where there are none."""
    if refused.code == "frontmatter-too-large":
        read = scan(raw.encode()[: limits.frontmatter_bytes].decode("utf-8", "ignore"), line)
        hint = "Move what is long into the body or into files of the skill."
        read.problems.append(problem(refused.code, refused.message, hint, line=line))
        return read
    read = repair(raw, line, refused, limits)
    return read if read.fields else None


def _bare(text: str, problems: list[Problem]) -> Document:
    return Document(raw=None, fields={}, lines={}, body=text, body_line=1, how="none", problems=tuple(problems))


def _missing() -> Problem:
    hint = "Start the file with a line ---, then `name:` and `description:`, then another line ---."
    return problem("no-frontmatter", "The file has no frontmatter.", hint, line=1)


def _keyless() -> Problem:
    message = "What stands between the --- lines has no keys."
    hint = "Write `name:` and `description:` between them, or remove the first --- line."
    return problem("frontmatter-not-a-mapping", message, hint, line=1)


def _empty(line: int) -> Problem:
    hint = "Write `name:` and `description:` between the --- lines."
    return problem("empty-frontmatter", "The frontmatter has nothing in it.", hint, line=line)


def _second_block(text: str, found: re.Match[str]) -> Problem:
    message = "The body starts with another frontmatter block, which is taken as text."
    line = line_at(text, found.end()) - 1
    return problem("second-frontmatter", message, "Merge the two blocks into the first.", line=line)
