"""From YAML events to a plain value, refusing on the way whatever a skill may not use."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

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

from prowess.skill.text.dump import float_text

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_WORDS: dict[str, bool | None] = {"true": True, "false": False, **dict.fromkeys(_NULLS)}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+(?:e[-+][0-9]+)?)?\Z")
_MISSING: Any = object()
_DROPPED: Any = object()


class YamlRefused(ValueError):
    """The text is not YAML, or YAML that a skill may not use; `code` says which, `line` where, counted from 1."""

    def __init__(self, message: str, line: int, code: str) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.code = code


class Builder:
    """Builds the value from events, one level of nesting a stack entry, without recursion.

    `lines` gives the line of each top-level key, `styles` what a strict reader may object to, and `repeated` the keys
    that were passed over, with their lines.
    """

    __slots__ = ("depth", "first_line", "first_wins", "lines", "repeated", "styles", "typed")

    def __init__(self, typed: bool, depth: int, first_wins: bool, first_line: int) -> None:
        self.typed = typed
        self.depth = depth
        self.first_wins = first_wins
        self.first_line = first_line
        self.lines: dict[str, int] = {}
        self.styles: set[str] = set()
        self.repeated: list[tuple[str, int]] = []

    def anew(self) -> Builder:
        """A builder like this one that has built nothing yet."""
        return Builder(self.typed, self.depth, self.first_wins, self.first_line)

    def build(self, next_event: Callable[[], Any]) -> Any:  # noqa: C901, PLR0912  the loop that every file pays for
        """Take all events and give the value.

        `inside` is the list or mapping being filled, `mapping` which of the two it is, `key` the key that waits for its
        value, and `column` where the first mapping among the values of `inside` starts.
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
                        self.lines.setdefault(value, event.start_mark.line + self.first_line)
                    continue
                if not event.style and (typed or value in _NULLS):
                    value = _plain(value)
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
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
        """A key that is there already, or asks for a merge."""
        line = self.line_of(event)
        if key == "<<":
            if event.style:
                return key
            raise YamlRefused("Merge keys (<<) are not allowed.", line, "yaml-merge-key")
        if not self.first_wins:
            raise YamlRefused(f"The key {key[:80]!r} appears twice.", line, "yaml-duplicate-key")
        self.repeated.append((key, line))
        return _DROPPED

    def check_start(self, event: Any, as_key: bool, level: int) -> None:
        """Refuse a list or a mapping that is tagged, a key, or too deep."""
        if event.tag is not None or event.anchor is not None:
            raise self.forbidden(event)
        if as_key:
            message = "A key must be plain text, not a list or a mapping."
            raise YamlRefused(message, self.line_of(event), "yaml-key")
        if level >= self.depth:
            message = f"The YAML nests deeper than {self.depth} levels."
            raise YamlRefused(message, self.line_of(event), "yaml-depth")
        if event.flow_style:
            self.styles.add("flow")

    def check_column(self, event: Any, column: int) -> int:
        """Where the sibling mappings start; they should all start in the same column."""
        if column not in (-1, event.start_mark.column):
            self.styles.add("uneven-indent")
        return event.start_mark.column if column == -1 else column

    def check(self, event: Any, begun: bool) -> None:
        """Refuse aliases and second documents; the other events carry nothing."""
        if isinstance(event, AliasEvent):
            raise self.forbidden(event)
        if isinstance(event, DocumentStartEvent):
            if begun:
                message = "There is more than one YAML document."
                raise YamlRefused(message, self.line_of(event), "yaml-documents")
            if event.version or event.tags:
                self.styles.add("directive")

    def line_of(self, event: Any) -> int:
        """The line on which an event starts."""
        return event.start_mark.line + self.first_line

    def forbidden(self, event: Any) -> YamlRefused:
        """The error for an anchor, an alias or a tag."""
        line = self.line_of(event)
        if event.anchor is not None:
            sign = "*" if isinstance(event, AliasEvent) else "&"
            return YamlRefused(f"Anchors and aliases ({sign}{event.anchor}) are not allowed.", line, "yaml-alias")
        return YamlRefused(f"Tags ({event.tag}) are not allowed.", line, "yaml-tag")


def _plain(text: str) -> Any:
    """What a scalar without quotes stands for, where it is not just its text."""
    if text in _WORDS:
        return _WORDS[text]
    match = _NUMBER.match(text)
    if not match:
        return text
    try:
        number = float(text) if match[1] else int(text)
    except ValueError:
        return text
    written = float_text(number) if isinstance(number, float) else str(number)
    return number if written == text else text
