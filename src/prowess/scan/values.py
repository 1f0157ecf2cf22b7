"""Values that an analyser knows without running the code: possible texts, and the origin of the data.

A label follows data through assignments, concatenations, calls and pipes, from a source (a credential file, a download) to
its destination (a request, `exec`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

LabelKind = Literal["network", "decoded", "credential", "environment", "private", "secret"]

UNKNOWN = "\ufffd"
"""Stands for an unknown part of a text."""
MAX_TEXTS = 8
MAX_TEXT = 64 * 1024
_NUMBER = re.compile(r"-?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Label:
    """One origin of data: its kind, and which host, store or variable."""

    kind: LabelKind
    detail: str = ""


NO_LABELS: frozenset[Label] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value with its possible texts, its labels, its items (for a list), and the dotted name that it refers to."""

    texts: tuple[str, ...] = (UNKNOWN,)
    labels: frozenset[Label] = NO_LABELS
    items: tuple[Value, ...] = ()
    name: str = ""

    @property
    def text(self) -> str:
        """The first possible text."""
        return self.texts[0]

    @property
    def is_known(self) -> bool:
        """True if the first text has no unknown part."""
        return UNKNOWN not in self.texts[0]

    def item(self, index: str) -> Value | None:
        """Return the item at an index as the code has it, a negative one from the end; None if there is none."""
        number = read_number(index)
        if number is None or not -len(self.items) <= number < len(self.items):
            return None
        return self.items[number]

    def has(self, *kinds: LabelKind) -> Label | None:
        """Return a label of one of these kinds, or None."""
        found = sorted(
            (label for label in self.labels if label.kind in kinds), key=lambda label: (label.kind, label.detail)
        )
        return found[0] if found else None

    def labelled(self, labels: Iterable[Label]) -> Value:
        """Return the value with more labels."""
        return replace(self, labels=self.labels | frozenset(labels))


NOTHING = Value()


def constant(text: str) -> Value:
    """Return a value with exactly this text."""
    return Value(texts=(text[:MAX_TEXT],))


def named(name: str) -> Value:
    """Return a value that refers to a module, a function or an object."""
    return Value(name=name)


def read_number(text: str) -> int | None:
    """Return a number of a few digits, or None.

    Not by `isdigit` and `int`: the first accepts `²`, and the second neither that nor thousands of digits, so either would end the
    scan of a file.
    """
    return int(text) if _NUMBER.fullmatch(text) else None


def join_labels(values: Iterable[Value]) -> frozenset[Label]:
    """Return the labels of all values and of their items."""
    labels: set[Label] = set()
    for value in values:
        labels |= value.labels
        for item in value.items:
            labels |= item.labels
    return frozenset(sorted(labels, key=lambda label: (label.kind, label.detail))[:16])


def concat(parts: Sequence[Value], separator: str = "") -> Value:
    """Return the texts of all parts one after another, for every combination up to a limit."""
    choices = [part.texts[: 1 if len(parts) > 6 else MAX_TEXTS] for part in parts]
    texts: list[str] = []
    for combination in product(*choices):
        texts.append(separator.join(combination)[:MAX_TEXT])
        if len(texts) >= MAX_TEXTS:
            break
    return Value(texts=tuple(texts) or ("",), labels=join_labels(parts))


def either(values: Sequence[Value]) -> Value:
    """Return a value that may be any of these."""
    if not values:
        return NOTHING
    texts = list(dict.fromkeys(text for value in values for text in value.texts))
    known = [text for text in texts if text != UNKNOWN] or [UNKNOWN]
    name = next((value.name for value in values if value.name), "")
    items = next((value.items for value in values if value.items), ())
    return Value(texts=tuple(known[:MAX_TEXTS]), labels=join_labels(values), items=items, name=name)


def listed(items: Sequence[Value]) -> Value:
    """Return a list of values; taken as one value it may be any item."""
    return replace(either(items[:32]) if items else NOTHING, items=tuple(items[:32]), name="")
