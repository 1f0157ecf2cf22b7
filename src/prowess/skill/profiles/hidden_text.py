"""Check a skill for text that people cannot see, and for names that look like others.

`pg-triаge` with a Cyrillic `а` is a different name from `pg-triage`, but looks the same.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, cast

from prowess.errors import Problem, Severity
from prowess.skill.filenames import is_skill_md
from prowess.skill.forms.form import Reading, error, warning
from prowess.skill.model import Skill
from prowess.skill.package import File
from prowess.skill.text.hidden import MAX_HIDDEN, HiddenText, find_hidden, show_hidden
from prowess.skill.text.reader import readable_text

_MAX_PER_FILE = 20
_MAX_SHOWN = 30
_HINT = "Delete these characters, or replace them with visible text."
_CLASS_NAMES: dict[str, str] = {
    "bidi-control": "direction control",
    "blank": "blank",
    "control": "control",
    "invisible": "invisible",
    "private-use": "private-use",
    "tag": "tag",
    "variation-selector": "variation selector",
    "zero-width": "zero-width",
}
_PROSE = (".md", ".mdx", ".markdown", ".txt", ".rst", ".j2", ".jinja", ".mustache", ".yaml", ".yml", ".json")
"""Files that are read as instructions. In others, such as scripts, control characters may have a purpose."""

_LOADED = ("references/", "scripts/")
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
"""Byte order marks of files that a run reads as text; that of UTF-32 in the other order starts like the first."""
_PLAIN_FORMS = ("agentskills", "agentcy", "bernstein")
_CODE_KINDS = ("asset", "script")

_Text = tuple[str, str, bool]
"""The field or file of a text, the text, and True if it is read as instructions."""


def check_hidden_text(reading: Reading) -> Iterator[Problem]:
    """Yield each run of hidden characters, in a file or in the field that an escape sequence puts it into."""
    seen: set[tuple[str, Severity]] = set()
    for file in reading.package.files:
        yield from _in_path(file.path)
        text, prose = _text_of(file), is_skill_md(file.path) or file.path.endswith(_PROSE)
        runs = _worst_first(find_hidden(text))
        for found in runs[:_MAX_PER_FILE]:
            run = _hidden_run(text, found)
            problem = _hidden_problem(found, run, file.path, found.line, prose=prose)
            seen.add((run, problem.severity))
            yield problem
        if sum(found.count for found in runs) >= MAX_HIDDEN:
            message = f"There are {MAX_HIDDEN:,} hidden characters or more, so the rest of the text was not searched."
            yield Problem(code="hidden-text", severity="error", message=message, hint=_HINT, field=file.path)
    # Walking through all fields is slow. Without escapes, a hidden character in a field is in the file as well.
    if not _fields_differ(reading):
        return
    lines: Mapping[str, int] = reading.document.lines if reading.document else {}
    for field, text, prose in _iter_fields(reading):
        for found in find_hidden(text):
            run = _hidden_run(text, found)
            problem = _hidden_problem(found, run, field, lines.get(field), prose=prose)
            if (run, problem.severity) not in seen:
                seen.add((run, problem.severity))
                yield problem


def find_hidden_in_values(name: str, values: Mapping[str, Any]) -> list[Problem]:
    """Return the hidden text in the values of a document, such as a prompt of a registry."""
    return [
        _hidden_problem(found, _hidden_run(text, found), name, None, prose=True)
        for _, text, _ in _iter_texts(dict(values))
        for found in _worst_first(find_hidden(text))[:_MAX_PER_FILE]
    ]


def _worst_first(runs: list[HiddenText]) -> list[HiddenText]:
    """Return the runs with those last that are only worth a warning: there may be many before one that is not."""
    return sorted(runs, key=_is_decoded_wrongly)


def _is_decoded_wrongly(found: HiddenText) -> bool:
    # Controls above U+007F are mostly text that was decoded wrongly once. Those below, such as ESC, drive terminals and have
    # no place in instructions. All of them are written out wherever the text goes into a prompt.
    return found.char_class == "control" and found.code_point >= 0x80


def _fields_differ(reading: Reading) -> bool:
    """Return True if fields can contain characters that the text of the files does not show."""
    raw = reading.document.raw if reading.document else None
    # A file that is not UTF-8 is decoded by its reader, and not searched as a file.
    return reading.form not in _PLAIN_FORMS or "\\" in (raw or "") or not all(map(_is_utf8, reading.package.files))


def _is_utf8(file: File) -> bool:
    try:
        file.content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _in_path(path: str) -> Iterator[Problem]:
    for found in find_hidden(path):
        yield _hidden_problem(found, _hidden_run(path, found), show_hidden(path), None, prose=True)


def _text_of(file: File) -> str:
    """Return the text of a file, or '' for a binary file."""
    prose = is_skill_md(file.path) or file.path.endswith(_PROSE)
    try:
        text = file.content.decode("utf-8")
    except UnicodeDecodeError:
        # Read as Windows-1252, every image would be text with hidden characters.
        return (readable_text(file.content) or "") if prose or file.content.startswith(_WIDE) else ""
    # A NUL marks a binary file, but must not exempt what can be loaded as text.
    return text if prose or file.path.startswith(_LOADED) or "\x00" not in text else ""


def _hidden_run(text: str, found: HiddenText) -> str:
    """Return the hidden characters themselves."""
    line = text.split("\n")[found.line - 1] if found.line > 1 or "\n" in text else text
    return line[found.column - 1 : found.column - 1 + found.count]


def _iter_fields(reading: Reading) -> Iterator[_Text]:
    """Yield every text that was read from the files."""
    if reading.document is not None:
        yield from _iter_texts({**reading.document.fields, "body": reading.document.body})
    if reading.skill is not None:
        yield from _iter_skill_fields(reading.skill)


def _iter_skill_fields(skill: Skill) -> Iterator[_Text]:
    values = skill.model_dump(exclude={"artifacts", "frontmatter", "manifest", "provenance"}, exclude_defaults=True)
    yield from _iter_texts(values)
    for artifact in skill.artifacts:
        for _, text, _ in _iter_texts(artifact.model_dump(exclude_defaults=True)):
            yield artifact.name, text, artifact.kind not in _CODE_KINDS


def _iter_texts(values: dict[str, Any]) -> Iterator[_Text]:
    """Yield all texts in a value, each with its top-level key."""
    pending: list[tuple[str, Any]] = [(str(key), value) for key, value in values.items()]
    pending += [(str(key), str(key)) for key in values]
    while pending:
        key, value = pending.pop()
        if isinstance(value, str):
            yield key, value, True
        elif isinstance(value, dict):
            pending += [(key, part) for pair in cast("dict[str, Any]", value).items() for part in pair]
        elif isinstance(value, (list, tuple)):
            pending += [(key, part) for part in cast("list[Any]", value)]


def _hidden_problem(found: HiddenText, run: str, field: str, line: int | None, *, prose: bool) -> Problem:
    escaped = "".join(f"\\u{{{ord(char):04X}}}" for char in run[:_MAX_SHOWN]) + ("…" if len(run) > _MAX_SHOWN else "")
    name = _CLASS_NAMES[found.char_class]
    count = f"{found.count} hidden {name} characters" if found.count > 1 else f"a hidden {name} character"
    message = f"There {'are' if found.count > 1 else 'is'} {count} in column {found.column}: {escaped}"
    if found.char_class != "control":
        return Problem(code="hidden-text", severity="error", message=message, hint=_HINT, field=field, line=line)
    severity: Severity = "error" if prose and not _is_decoded_wrongly(found) else "warning"
    return Problem(code="control-characters", severity=severity, message=message, hint=_HINT, field=field, line=line)


def check_look_alikes(reading: Reading) -> Iterator[Problem]:
    """Yield an error for a slug that looks like another one, and a warning for a title with words of mixed scripts."""
    if reading.skill is None:
        return
    slug, title = reading.skill.slug, reading.skill.title
    reasons = [f"{show_hidden(word)!r} mixes letters of several scripts" for word in find_mixed_words(slug)]
    reasons += [f"{word!r} looks like {twin!r} but uses other letters" for word, twin in find_latin_twins(slug)]
    if reasons:
        message = f"The slug {slug!r} can be mistaken for another one: {reasons[0]} ({_spell(slug)})."
        hint = "Use letters of one script; replace the letters in parentheses."
        yield error("slug-look-alike", message, hint, field="name")
    mixed = find_mixed_words(title)
    if mixed:
        word = show_hidden(mixed[0])
        message = f"The title has a word with letters of several scripts: {word!r} ({_spell(mixed[0])})."
        hint = "Use letters of one script in each word, unless this is intended."
        yield warning("mixed-scripts", message, hint, field="title")


def _spell(text: str) -> str:
    """Return the letters outside ASCII with their code points."""
    return ", ".join(f"{char} is U+{ord(char):04X}" for char in dict.fromkeys(text) if not char.isascii())[:200]


# Lowercase letters, by the Latin letter that they look like: the entries of Unicode's confusables.txt (UTS #39) that a slug
# can contain. The Turkish dotless i is left out: it is a separate letter in everyday words.
_LOOK_LIKE = {
    "a": "ɑαа",
    "b": "ᑲᖯ",
    "c": "ᴄⲥсꮯ𐐽",
    "d": "ԁᑯꓒ",
    "e": "ꬲеҽ",
    "f": "ꬵꞙẝք",
    "g": "ɡᶃƍց",
    "h": "һհ",
    "i": "ɪɩιіꙇӏꭵ𑣃",
    "j": "ϳј",
    "l": "𐌠ǀⵏᛁꓲ𖼨𐊊𐌉",
    "n": "ոռ",
    "o": "ᴏᴑꬽοσⲟоჿօഠဝ𐓪𑣈𐐬",
    "p": "ρⲣр",
    "q": "ԛգզ",
    "r": "ꭇꭈᴦⲅгꮁ",
    "s": "ꜱƽѕꮪ𑣁𐑈",
    "u": "ꞟᴜꭎꭒʋυս𐓶",
    "v": "ᴠνѵ𑜆ꮩ𑣀",
    "w": "ɯᴡѡԝա𑜊𑜎𑜏ꮃ",
    "x": "хᕁᕽ",
    "y": "ɣᶌʏỿꭚγуүყ",
    "z": "ᴢꮓ𑣄",
}
_LATIN_TWIN = str.maketrans({char: latin for latin, chars in _LOOK_LIKE.items() for char in chars})
_WORD = re.compile(r"[^\W_]+")
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC"})
"""Scripts that are written together, also with Latin letters (the highly restrictive level of UTS #39)."""


def find_mixed_words(text: str) -> list[str]:
    """Return the words that mix letters of scripts that are never written in one word, such as Latin and Cyrillic."""
    return [] if text.isascii() else [word for word in _WORD.findall(text) if _mixes_scripts(word)]


def find_latin_twins(text: str) -> list[tuple[str, str]]:
    """Return the words of other letters that all look Latin, each with the Latin word that it looks like."""
    if text.isascii():
        return []
    twins = [(word, word.translate(_LATIN_TWIN)) for word in _WORD.findall(text) if not word.isascii()]
    return [(word, twin) for word, twin in twins if twin.isascii()]


def _mixes_scripts(word: str) -> bool:
    scripts = {_script_of(char) for char in word if char.isalpha()} - {""}
    return len(scripts) > 1


def _script_of(char: str) -> str:
    """Return the script of a letter by the first word of its name; '' for a letter shared by all scripts."""
    first = unicodedata.name(char, "").partition(" ")[0]
    # Latin is part of everyday East Asian writing, so within one word the two count as one.
    if first in _EAST_ASIAN:
        return "LATIN"
    # Signs that stand next to letters of any script: modifier letters, the micro sign, ordinals.
    return "" if first in ("MODIFIER", "MICRO", "FEMININE", "MASCULINE", "DOUBLE-STRUCK", "SCRIPT") else first
