"""Read untrusted YAML: plain values only, bounded in size and depth, text as it was written.

PyYAML's parser turns the text into events; a filter rejects the features that skills do not need (aliases, tags, merge keys,
duplicate keys, deep nesting), and a loop without recursion builds the value. PyYAML's composer and constructors, which
hostile input can crash or blow up, are never called.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from prowess.patterns import lazy_pattern
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.text.yaml_writer import dump, format_float

__all__ = ["LoadedYaml", "YamlRefused", "dump", "load"]


_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_WORDS: dict[str, bool | None] = {"true": True, "false": False, **dict.fromkeys(_NULLS)}
_MORE_WORDS = {**_WORDS, "True": True, "TRUE": True, "False": False, "FALSE": False}
# Only numbers that are written back in the same way. YAML 1.1 also has octal (`010`), sexagesimal (`1:30`) and `1_000`;
# here these stay text.
_NUMBER = lazy_pattern(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:e[-+][0-9]+)?)?\Z")
_ANY_NUMBER = lazy_pattern(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z")
_MISSING: Any = object()
_DROPPED: Any = object()


class YamlRefused(ValueError):
    """The text is not YAML, or YAML that a skill may not use; `code` says which, `line` where, counted from 1."""

    def __init__(self, message: str, line: int, code: str) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.code = code


class ValueBuilder:
    """Builds the value from events without recursion, with one stack entry for each level of nesting.

    `lines` has the line of each top-level key, `styles` what a strict reader may object to, and `repeated` the keys that were
    ignored, with their lines.
    """

    __slots__ = ("depth", "exact", "first_line", "first_wins", "lines", "repeated", "styles", "typed")

    def __init__(self, typed: bool, depth: int, first_wins: bool, first_line: int, exact: bool = True) -> None:
        self.typed = typed
        self.exact = exact
        self.depth = depth
        self.first_wins = first_wins
        self.first_line = first_line
        self.lines: dict[str, int] = {}
        self.styles: set[str] = set()
        self.repeated: list[tuple[str, int]] = []

    def fresh_copy(self) -> ValueBuilder:
        """Return an unused builder with the same settings."""
        return ValueBuilder(self.typed, self.depth, self.first_wins, self.first_line, self.exact)

    def build(self, next_event: Callable[[], Any]) -> Any:  # noqa: C901, PLR0912  the loop that every file pays for
        """Consume all events and return the value.

        `inside` is the list or mapping being filled, `mapping` says which of the two it is, `key` is the key that waits for its value,
        and `column` is where the first mapping among the values of `inside` starts.
        """
        top: list[Any] = []
        stack: list[tuple[Any, bool, int]] = []
        inside: Any = top
        mapping, typed = False, self.typed
        key: Any = _MISSING
        column = -1
        while True:
            event = next_event()
            kind: Any = event.__class__
            if kind is ScalarEvent:
                if event.tag is not None or event.anchor is not None:
                    raise self.forbidden(event)
                value: Any = event.value
                if mapping and key is _MISSING:
                    key = self.odd_key(value, event) if value in inside or value == "<<" else value
                    if len(stack) == 1:
                        # `setdefault`: of a key that appears twice, the first line counts, like its value.
                        self.lines.setdefault(value, event.start_mark.line + self.first_line)
                    continue
                # Only plain scalars: "null" in quotes is text.
                if not event.style and (typed or value in _NULLS):
                    value = _parse_plain(value, self.exact)
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                # The value of a repeated key was parsed like any other and stored under a placeholder, because the
                # events of a nested value cannot be skipped. It is removed when the mapping ends.
                if self.repeated and mapping:
                    inside.pop(_DROPPED, None)
                inside, mapping, column = stack.pop()
                continue
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                self.check_start(event, mapping and key is _MISSING, len(stack))
                value = cast("Any", {} if kind is MappingStartEvent else [])
                if mapping and kind is MappingStartEvent:
                    column = self.check_column(event, column)
                stack.append((inside, mapping, column))
            elif kind is StreamEndEvent:
                return top[0] if top else None
            else:
                if kind is AliasEvent or kind is DocumentStartEvent:
                    self.check(event, bool(top))
                continue
            if mapping:
                inside[key] = value
                key = _MISSING
            else:
                inside.append(value)
            if kind is not ScalarEvent:
                inside, mapping, column = value, kind is MappingStartEvent, -1

    def odd_key(self, key: str, event: Any) -> Any:
        """Handle a key that exists already, or a merge key."""
        line = self.line_of(event)
        if key == "<<":
            # A quoted "<<" is an ordinary key; only the plain one merges.
            if event.style:
                return key
            raise YamlRefused("Merge keys (<<) are not allowed.", line, "yaml-merge-key")
        if not self.first_wins:
            raise YamlRefused(f"The key {key[:80]!r} appears twice.", line, "yaml-duplicate-key")
        self.repeated.append((key, line))
        return _DROPPED

    def check_start(self, event: Any, as_key: bool, level: int) -> None:
        """Raise `YamlRefused` for a list or a mapping that is tagged, used as a key, or nested too deeply."""
        if event.tag is not None or event.anchor is not None:
            raise self.forbidden(event)
        if as_key:
            message = "A key must be plain text, not a list or a mapping."
            raise YamlRefused(message, self.line_of(event), "yaml-key")
        if level >= self.depth:
            message = f"The YAML is nested deeper than {self.depth} levels."
            raise YamlRefused(message, self.line_of(event), "yaml-depth")
        if event.flow_style:
            self.styles.add("flow")

    def check_column(self, event: Any, column: int) -> int:
        """Return where sibling mappings start, and note if they do not all start in the same column."""
        if column not in (-1, event.start_mark.column):
            self.styles.add("uneven-indent")
        return event.start_mark.column if column == -1 else column

    def check(self, event: Any, has_content: bool) -> None:
        """Raise `YamlRefused` for aliases and second documents; other events have no content."""
        if isinstance(event, AliasEvent):
            raise self.forbidden(event)
        if isinstance(event, DocumentStartEvent):
            if has_content:
                message = "There is more than one YAML document."
                raise YamlRefused(message, self.line_of(event), "yaml-documents")
            if event.version or event.tags:
                self.styles.add("directive")

    def line_of(self, event: Any) -> int:
        """Return the line on which an event starts."""
        return event.start_mark.line + self.first_line

    def forbidden(self, event: Any) -> YamlRefused:
        """Return the error for an anchor, an alias or a tag."""
        line = self.line_of(event)
        if event.anchor is not None:
            sign = "*" if isinstance(event, AliasEvent) else "&"
            return YamlRefused(f"Anchors and aliases ({sign}{event.anchor}) are not allowed.", line, "yaml-alias")
        return YamlRefused(f"Tags ({event.tag}) are not allowed.", line, "yaml-tag")


def _parse_plain(text: str, exact: bool) -> Any:
    """Return the value of a scalar without quotes, if it is not just its text."""
    words = _WORDS if exact else _MORE_WORDS
    if text in words:
        return words[text]
    if not (_NUMBER if exact else _ANY_NUMBER).match(text):
        return text
    try:
        number = int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        return text
    written = format_float(number) if isinstance(number, float) else str(number)
    # 1.10 or 007 must stay text, or writing the value would change the file.
    return number if written == text or not (exact or "inf" in written) else text


# libyaml's parser is much faster and, unlike its composer, does not recurse. Builds of PyYAML without libyaml fall back
# to the parser in Python, which reads the same.
_PURE_PARSER: Any = yaml.SafeLoader
_PARSER: Any = getattr(getattr(yaml, "cyaml", None), "CParser", _PURE_PARSER)
_FAULTS = (yaml.YAMLError, ValueError, OverflowError)
"""The exceptions of the parsers; the pure-Python one also lets some built-in exceptions through."""
_UNREADABLE = lazy_pattern("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PAIR = lazy_pattern(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_SURROGATE = lazy_pattern("[\ud800-\udfff]")
_BREAK = lazy_pattern("\r\n?|[\n\x85\u2028\u2029]")
_ODD_BREAK = lazy_pattern("[\x85\u2028\u2029]")
"""Where YAML 1.1 starts a new line and no editor does."""


class LoadedYaml(NamedTuple):
    """A value, the line of each top-level key, and styles that a strict reader may object to.

    `styles` may have `flow` (braces or brackets), `uneven-indent` (sibling mappings indented differently) and `directive` (a `%`
    line); `repeated` lists (key, line) of the keys that were ignored.
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
    exact: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    first_wins: bool = False,
    first_line: int = 1,
) -> LoadedYaml:
    """Read one YAML document, or raise `YamlRefused`.

    Untyped, every scalar stays the text that was written, and an empty one or a plain `~` or `null` is None. Typed, plain `true`,
    `false` and numbers become values too, but only if writing the value gives the same text again; without `exact`, also
    `1.10`, `1e-6` and `True`. With `first_wins`, a repeated key is ignored and listed instead of refused. Lines count from `first_line`.
    """
    _check_size(text, limits.frontmatter_bytes)
    # PyYAML counts U+0085, U+2028 and U+2029 as line ends. Lines in reports are those that an editor shows.
    if text.isascii() or not _ODD_BREAK.search(text):
        return _load_with(text, ValueBuilder(typed, limits.yaml_depth, first_wins, first_line, exact))
    builder = ValueBuilder(typed, limits.yaml_depth, first_wins, 0, exact)
    lines = _map_lines(text, first_line)
    try:
        loaded = _load_with(text, builder)
    except YamlRefused as refused:
        line = lines[min(refused.line, len(lines) - 1)]
        raise YamlRefused(refused.message, line, refused.code) from None
    return loaded._replace(
        lines={key: lines[line] for key, line in loaded.lines.items()},
        repeated=tuple((key, lines[line]) for key, line in loaded.repeated),
    )


def _map_lines(text: str, first_line: int) -> list[int]:
    """Return, for each line as YAML counts them, the line of the file."""
    lines = [first_line]
    for found in _BREAK.finditer(text):
        lines.append(lines[-1] + (found[0] in ("\r\n", "\r", "\n")))
    return lines


def _load_with(text: str, builder: ValueBuilder) -> LoadedYaml:
    try:
        events = _PARSER(text).get_event
        value = builder.build(events if _PARSER is not _PURE_PARSER else _refuse_surrogates(events))
    except YamlRefused:
        raise
    except _FAULTS as fault:
        # libyaml refuses an escaped surrogate pair, which is how JSON writes emoji. Only 44 of the 107,000 SKILL.md
        # files surveyed have one, so the pairs are joined after a failure and not before every parse.
        joined = _PAIR.sub(_join_surrogates, text) if "\\u" in text else text
        if joined == text:
            raise _make_refusal(text, fault, builder.first_line) from None
        return _load_with(joined, builder.fresh_copy())
    styles = frozenset(builder.styles) if builder.styles else _NO_STYLES
    return LoadedYaml(value, builder.lines, styles, tuple(builder.repeated))


def _join_surrogates(pair: re.Match[str]) -> str:
    """Return the character of an escaped surrogate pair: JSON writes emoji this way, and YAML does not support it."""
    return pair[1] + chr(0x10000 + ((int(pair[2], 16) - 0xD800) << 10) + int(pair[3], 16) - 0xDC00)


def _check_size(text: str, cap: int) -> None:
    # A character has at most 4 bytes in UTF-8, so most texts need not be encoded to be measured.
    if len(text) * 4 <= cap:
        return
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > cap:
        raise YamlRefused(f"The YAML is {size:,} bytes; the limit is {cap:,}.", 1, "frontmatter-too-large")


def _make_refusal(text: str, fault: Exception, first_line: int) -> YamlRefused:
    bad = _UNREADABLE.search(text)
    if bad:
        line = sum(1 for _ in _BREAK.finditer(text, 0, bad.start())) + first_line
        return YamlRefused(f"The character U+{ord(bad[0]):04X} is not allowed in YAML.", line, "yaml-character")
    mark: Any = getattr(fault, "problem_mark", None) or getattr(fault, "context_mark", None)
    words = [getattr(fault, "problem", None) or "it cannot be parsed", getattr(fault, "context", None)]
    line = (mark.line if mark else 0) + first_line
    return YamlRefused(f"Invalid YAML: {' '.join(filter(None, words))}.", line, "yaml-syntax")


def _refuse_surrogates(next_event: Callable[[], Any]) -> Callable[[], Any]:
    """Return the events of the pure parser, which alone would accept escapes for lone surrogates."""

    def checked() -> Any:
        event = next_event()
        if isinstance(event, ScalarEvent) and _SURROGATE.search(event.value):
            raise ValueError("an escape stands for an unpaired surrogate")
        return event

    return checked
