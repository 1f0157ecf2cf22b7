"""Reading YAML that strangers wrote: plain values only, bounded in size and depth, text as it was written.

PyYAML's parser turns the text into events; a filter refuses whatever a skill has no need of (aliases, tags, merge
keys, duplicate keys, deep nesting), and a loop without recursion builds the value. The composer and constructors of
PyYAML, the parts that hostile input can crash or multiply, are never called.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import yaml
from yaml.events import ScalarEvent

from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.text.builder import Builder, YamlRefused
from prowess.skill.text.dump import dump

__all__ = ["Loaded", "YamlRefused", "dump", "load"]

_PURE: Any = yaml.SafeLoader
_PARSER: Any = getattr(getattr(yaml, "cyaml", None), "CParser", _PURE)
_FAULTS = (yaml.YAMLError, ValueError, OverflowError)
"""What the parsers raise: the pure one lets errors of Python itself through."""
_UNREADABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BREAK = re.compile("\r\n?|[\n\x85\u2028\u2029]")
_ODD_BREAK = re.compile("[\x85\u2028\u2029]")
"""Where YAML 1.1 begins a new line and no editor does."""


class Loaded(NamedTuple):
    """A value, the line of each top-level key, and the ways of writing that a strict reader may object to.

    `styles` may hold `flow` (braces or brackets), `uneven-indent` (sibling mappings set in by different
    amounts) and `directive` (a `%` line); `repeated` lists (key, line) of the keys that were passed over.
    """

    value: Any
    lines: dict[str, int]
    styles: frozenset[str]
    repeated: tuple[tuple[str, int], ...] = ()


_NO_STYLES: frozenset[str] = frozenset()


def load(
    text: str,
    *,
    typed: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    first_wins: bool = False,
    first_line: int = 1,
) -> Loaded:
    """Read one YAML document, or raise `YamlRefused`.

    Untyped, every scalar stays the text that was written, and an empty one or a plain `~` or `null` is None. Typed, plain
    `true`, `false` and numbers become values too, but only where writing the value gives the same text again.
    With `first_wins`, a repeated key is passed over and listed instead of refused. Lines count from `first_line`.
    """
    _check_size(text, limits.frontmatter_bytes)
    if text.isascii() or not _ODD_BREAK.search(text):
        return _load(text, Builder(typed, limits.yaml_depth, first_wins, first_line))
    builder = Builder(typed, limits.yaml_depth, first_wins, 0)
    lines = _lines_of(text, first_line)
    try:
        loaded = _load(text, builder)
    except YamlRefused as refused:
        line = lines[min(refused.line, len(lines) - 1)]
        raise YamlRefused(refused.message, line, refused.code) from None
    return loaded._replace(
        lines={key: lines[line] for key, line in loaded.lines.items()},
        repeated=tuple((key, lines[line]) for key, line in loaded.repeated),
    )


def _lines_of(text: str, first_line: int) -> list[int]:
    """For each line as YAML counts them, the line of the file that it lies in."""
    lines = [first_line]
    for found in _BREAK.finditer(text):
        lines.append(lines[-1] + (found[0] in ("\r\n", "\r", "\n")))
    return lines


def _load(text: str, builder: Builder) -> Loaded:
    try:
        events = _PARSER(text).get_event
        value = builder.build(events if _PARSER is not _PURE else _whole_characters(events))
    except YamlRefused:
        raise
    except _FAULTS as fault:
        joined = _PAIR.sub(_join, text) if "\\u" in text else text
        if joined == text:
            raise _refusal(text, fault, builder.first_line) from None
        return _load(joined, builder.anew())
    styles = frozenset(builder.styles) if builder.styles else _NO_STYLES
    return Loaded(value, builder.lines, styles, tuple(builder.repeated))


def _join(pair: re.Match[str]) -> str:
    """The character that an escaped surrogate pair stands for; JSON writes emoji so, and YAML does not know it."""
    return pair[1] + chr(0x10000 + ((int(pair[2], 16) - 0xD800) << 10) + int(pair[3], 16) - 0xDC00)


def _check_size(text: str, cap: int) -> None:
    if len(text) * 4 <= cap:
        return
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > cap:
        raise YamlRefused(f"The YAML has {size:,} bytes; the limit is {cap:,}.", 1, "frontmatter-too-large")


def _refusal(text: str, fault: Exception, first_line: int) -> YamlRefused:
    bad = _UNREADABLE.search(text)
    if bad:
        line = sum(1 for _ in _BREAK.finditer(text, 0, bad.start())) + first_line
        return YamlRefused(f"The character U+{ord(bad[0]):04X} is not allowed in YAML.", line, "yaml-character")
    mark: Any = getattr(fault, "problem_mark", None) or getattr(fault, "context_mark", None)
    words = [getattr(fault, "problem", None) or "it cannot be read", getattr(fault, "context", None)]
    line = (mark.line if mark else 0) + first_line
    return YamlRefused(f"YAML says: {' '.join(filter(None, words))}.", line, "yaml-syntax")


def _whole_characters(next_event: Callable[[], Any]) -> Callable[[], Any]:
    """The events of the pure parser, which would let escapes for half a character through."""

    def checked() -> Any:
        event = next_event()
        if isinstance(event, ScalarEvent) and _SURROGATE.search(event.value):
            raise ValueError("an escape stands for half a character")
        return event

    return checked
