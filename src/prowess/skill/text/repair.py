"""Read frontmatter that is not valid YAML: key by key, fixing what can be fixed, and reporting what was wrong.

Each top-level key is read on its own, so that one broken value does not affect another. An invalid value is
diagnosed and fixed; a value that cannot be fixed is kept as text.
"""

from __future__ import annotations

from typing import Any

from prowess.errors import Problem
from prowess.patterns import lazy_pattern
from prowess.skill.limits import Limits
from prowess.skill.text.diagnosis import Fix, diagnose_value, fold_lines, is_block_indicator, quote_scalar
from prowess.skill.text.document import YAML_HINTS, make_problem
from prowess.skill.text.frontmatter_block import (
    KEY_LINE,
    MAX_FAULTS,
    FrontmatterEntry,
    ReadFields,
    clean_rows,
    entry_text,
    report_once,
    report_repeated_key,
    split_entries,
)
from prowess.skill.text.yaml import LoadedYaml, YamlRefused, load

_ITEM = lazy_pattern(r"([ \t]*(?:- +)*(?:[^\s:#'\"\[{][^:]*:[ \t]+)?)(\S.*)\Z")
_TAB = lazy_pattern(r"^ *\t[ \t]*(?=\S)")
_KNOWN_KEYS = frozenset({"name", "description", "version", "license", "author", "tags", "metadata", "allowed-tools"})
_STAR = lazy_pattern(r"^(\s*)[*•](?=\s)")
_LOOSE = lazy_pattern(r"[^\s#]")
_LOOSE_BELOW = lazy_pattern(r"[^\s#\-\[\]{}\"',]")
# Each fix parses the text again, so the number of attempts bounds the time that a hostile file can take.
_MAX_FIXES = 8


def repair_fields(raw: str, first_line: int, refused: YamlRefused, limits: Limits) -> ReadFields:
    """Read frontmatter that `load` rejected with `refused`. The fields are empty if it has no keys at all.

    The key where YAML stopped is fixed first and the rest read at once. If that does not help, every key is read on its own.
    """
    result = ReadFields()
    entries = split_entries(clean_rows(raw, first_line, result), first_line, result)
    # Usually one value is broken: fixing the key at which YAML stopped saves reading all others one by one.
    for _ in range(_MAX_FIXES):
        # YAML stops at the broken value or below it, so the last key that starts at or above that line is the one to
        # fix.
        suspect = next((entry for entry in reversed(entries) if entry.line <= refused.line), None)
        if suspect is None or _read_entry(suspect, result, limits):
            break
        entries.remove(suspect)
        again = _read_rest(entries, first_line, result, limits)
        if again is None:
            return _sort_by_line(result)
        refused = again
    for entry in entries:
        if len(result.problems) >= MAX_FAULTS:
            _skip_as_text(entry, result)
        else:
            _read_entry(entry, result, limits)
    if entries and not result.problems:
        hint = YAML_HINTS.get(refused.code, YAML_HINTS["yaml-syntax"])
        result.problems.append(make_problem(refused.code, refused.message, hint, line=refused.line))
    return _sort_by_line(result)


def _read_rest(
    entries: list[FrontmatterEntry], first_line: int, result: ReadFields, limits: Limits
) -> YamlRefused | None:
    """Read all these entries at once, each on its own line."""
    rows: list[str] = []
    for entry in entries:
        # Blank rows stand in for the entries that were taken out: lines in errors stay lines of the file.
        rows += [""] * (entry.line - first_line - len(rows))
        rows += entry.rows
    try:
        loaded = load("\n".join(rows), limits=limits, first_line=first_line)
    except YamlRefused as refused:
        return refused
    for key, line in loaded.lines.items():
        result.fields[key] = loaded.value[key]
        result.lines[key] = line
    return None


def _sort_by_line(result: ReadFields) -> ReadFields:
    """Return the result with fields and problems in the order of the file."""
    result.lines = dict(sorted(result.lines.items(), key=lambda item: item[1]))
    result.fields = {key: result.fields[key] for key in result.lines}
    result.problems.sort(key=lambda problem: problem.line or 0)
    return result


def _read_entry(entry: FrontmatterEntry, result: ReadFields, limits: Limits) -> bool:
    """Read one key into the result; return True if it was valid."""
    _expand_tabs(entry, result)
    result.lines[entry.key] = entry.line
    try:
        loaded = load("\n".join(entry.rows), limits=limits, first_line=entry.line)
    except YamlRefused as refused:
        result.fields[entry.key] = _fix_value(entry, refused, result, limits)
        return False
    for key, line in loaded.lines.items():
        # A key that was read before counts: of two equal keys, the first one wins everywhere.
        result.fields.setdefault(key, loaded.value[key])
        result.lines.setdefault(key, line)
    return True


def _expand_tabs(entry: FrontmatterEntry, result: ReadFields) -> None:
    """Replace tabs in the indentation with spaces."""
    for index, row in enumerate(entry.rows):
        found = _TAB.match(row)
        if found:
            entry.rows[index] = found[0].replace("\t", "  ") + row[found.end() :]
            message = "The line is indented with a tab, which YAML does not allow."
            hint = "Replace each tab with two spaces."
            report_once(result, make_problem("tab-indent", message, hint, line=entry.line + index, field=entry.key))


def _fix_value(entry: FrontmatterEntry, refused: YamlRefused, result: ReadFields, limits: Limits) -> Any:
    """Return the value of a key that is not valid YAML."""
    # The order matters. A repeated key is valid YAML otherwise, so the value needs no fix. Rows that belong to no key,
    # or to another one, are cut off before the value itself is diagnosed, or they would end up in its text.
    if refused.code == "yaml-duplicate-key":
        return _keep_first_keys(entry, result, limits)
    stray = _find_stray_row(entry)
    if stray:
        return _read_without_stray(entry, stray, result, limits)
    inner = _find_misplaced_key(entry)
    if inner:
        return _read_misplaced_key(entry, inner, result, limits)
    if not entry.value:
        return _fix_rows_below(entry, refused, result, limits)
    remedy = diagnose_value(entry.prefix, entry.value, entry.below)
    if remedy is None:
        return _keep_as_text(entry, refused, result)
    _report_fix(entry, remedy, refused, 0, result)
    if remedy.flow:
        try:
            return load(entry.prefix + remedy.flow, limits=limits).value[entry.key]
        except YamlRefused:
            return remedy.text
    return remedy.text


def _find_stray_row(entry: FrontmatterEntry) -> int:
    """Return the index of the first row in column 0 that cannot belong to the key, or 0."""
    value = entry.value
    if is_block_indicator(value):
        return 0
    # In brackets, and below a key without a value, a row in column 0 may be an item or a closing sign.
    loose = _LOOSE if value and value[0] not in "[{" else _LOOSE_BELOW
    index = next((index for index, row in enumerate(entry.rows[1:], start=1) if loose.match(row)), 0)
    # A quotation that is still open may continue in column 0; such a row is text and not stray.
    open_quote = value[:1] in ("'", '"') and not entry.rows[index - 1].rstrip().endswith(value[0])
    return 0 if open_quote else index


def _read_without_stray(entry: FrontmatterEntry, index: int, result: ReadFields, limits: Limits) -> Any:
    """Read the key without the rows from `index` on, which do not belong to any key; running text absorbs them."""
    message = "A line in the frontmatter does not belong to any key."
    hint = "Indent it by two spaces so that it belongs to the key above, or move it below the closing ---."
    result.problems.append(make_problem("line-without-key", message, hint, line=entry.line + index, field=entry.key))
    _read_entry(FrontmatterEntry(entry.key, entry.line, entry.rows[:index]), result, limits)
    value = result.fields.pop(entry.key)
    # Only running text continues in the next line; a slug or a version does not. Chinese and Japanese prose has no
    # spaces, so text that is not ASCII counts as running text too.
    if isinstance(value, str) and (" " in value or not value.isascii()):
        return fold_lines([value, *entry.rows[index:]])
    return value


def _keep_first_keys(entry: FrontmatterEntry, result: ReadFields, limits: Limits) -> Any:
    try:
        loaded: LoadedYaml = load("\n".join(entry.rows), limits=limits, first_wins=True, first_line=entry.line)
    except YamlRefused as refused:
        return _keep_as_text(entry, refused, result)
    for key, line in loaded.repeated:
        report_repeated_key(key, line, entry.key, result)
    return loaded.value[entry.key]


def _find_misplaced_key(entry: FrontmatterEntry) -> int:
    """Return the index of a row that is a top-level key indented by mistake below a one-line value, or 0."""
    if not entry.value or entry.value[0] in "|>\"'[{":
        return 0
    for index, row in enumerate(entry.rows[1:], start=1):
        found = KEY_LINE.match(row.lstrip())
        # Only known keys: "Note: …" in the second line of a description is prose.
        if found and found[2] in _KNOWN_KEYS:
            return index
    return 0


def _read_misplaced_key(entry: FrontmatterEntry, index: int, result: ReadFields, limits: Limits) -> Any:
    """Read the misplaced key as the top-level key that it was meant to be, and return the value before it."""
    rows = entry.rows[index:]
    indent = len(rows[0]) - len(rows[0].lstrip())
    rows = [row[min(indent, len(row) - len(row.lstrip())) :] for row in rows]
    found = KEY_LINE.match(rows[0])
    key = found[2] if found else ""
    message = f"The key {key!r} is indented, so it is read as part of {entry.key!r}."
    hint = f"Start `{key}:` in the first column."
    result.problems.append(make_problem("bad-indent", message, hint, line=entry.line + index, field=key))
    before = FrontmatterEntry(entry.key, entry.line, entry.rows[:index])
    _read_entry(before, result, limits)
    # Otherwise the key is also at the top level, and the first of two equal keys wins.
    if key not in result.fields:
        _read_entry(FrontmatterEntry(key, entry.line + index, rows), result, limits)
    return result.fields.pop(entry.key)


def _fix_rows_below(entry: FrontmatterEntry, refused: YamlRefused, result: ReadFields, limits: Limits) -> Any:
    """Fix the lines below a key one at a time, where YAML stops; return the value once all are fixed."""
    rows = list(entry.rows)
    found: list[tuple[Fix, YamlRefused, int]] = []
    starred = next((index for index, row in enumerate(rows) if _STAR.match(row)), 0)
    if starred:
        hint = "Start each item with a hyphen and a space."
        found.append((Fix("star-list", "List items start with * instead of a hyphen.", hint, ""), refused, starred))
        rows = [_STAR.sub(r"\1-", row) for row in rows]
    for _ in range(_MAX_FIXES):
        try:
            value = load("\n".join(rows), limits=limits, first_line=entry.line).value[entry.key]
        except YamlRefused as again:
            fixed = _fix_row(rows, min(again.line - entry.line, len(rows) - 1))
            # The same row twice means that the fix did not help.
            if fixed is None or any(at == fixed[2] for _, _, at in found):
                break
            rows = fixed[0]
            found.append((fixed[1], again, fixed[2]))
        else:
            for remedy, cause, at in found:
                _report_fix(entry, remedy, cause, at, result)
            return value
    return _keep_as_text(entry, refused, result)


def _fix_row(rows: list[str], index: int) -> tuple[list[str], Fix, int] | None:
    """Quote the value in the row, or in the nearest row above that has one."""
    # YAML notices some faults only in the next row, for example a quotation that was not closed.
    for at in range(index, max(0, index - 2), -1):
        item = _ITEM.match(rows[at])
        remedy = diagnose_value(item[1], item[2], []) if item else None
        if item and remedy:
            return [*rows[:at], item[1] + (remedy.flow or quote_scalar(remedy.text)), *rows[at + 1 :]], remedy, at
    return None


def _report_fix(entry: FrontmatterEntry, remedy: Fix, refused: YamlRefused, at: int, result: ReadFields) -> None:
    """Report a fixed fault; faults that the YAML filter forbids are reported under the filter's own code."""
    if refused.code == "yaml-syntax":
        found = make_problem(remedy.code, remedy.message, remedy.hint, line=entry.line + at, field=entry.key)
    else:
        found = _forbidden_problem(entry, refused)
    result.problems.append(found)


def _forbidden_problem(entry: FrontmatterEntry, refused: YamlRefused) -> Problem:
    return make_problem(refused.code, refused.message, YAML_HINTS[refused.code], line=refused.line, field=entry.key)


def _keep_as_text(entry: FrontmatterEntry, refused: YamlRefused, result: ReadFields) -> str:
    """Return the value as the text that was written."""
    result.how = "scanned"
    result.problems.append(_forbidden_problem(entry, refused))
    return entry_text(entry)


def _skip_as_text(entry: FrontmatterEntry, result: ReadFields) -> None:
    """Keep the value as text without reading it, in a file with too many faults."""
    result.how = "scanned"
    message = f"The frontmatter has more than {MAX_FAULTS} errors; the rest was read as plain text."
    report_once(result, make_problem("too-many-faults", message, "Fix the errors above first.", line=entry.line))
    if entry.key not in result.fields:
        result.fields[entry.key] = entry_text(entry)
        result.lines[entry.key] = entry.line
